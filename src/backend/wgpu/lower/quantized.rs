//! Products of bytes, in integers, and quantization by the range of the input.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use super::reduce::formula;
use super::reduction::{Formula, Reduction};
use crate::backend::strided::Strided;
use crate::backend::wgpu::shader::{Scalar, real, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::quantized::{DynamicQuantizeLinear, QuantizeAlong, QuantizedMatmul};
use crate::graph::ops::reduce::ReduceKind;

/// An invocation sums up one element: exact sums of integers have no form that tiles in registers would share with floats.
pub fn quantized_matmul(lowering: &mut Lowering<'_>, op: &QuantizedMatmul, operands: &Operands) -> Result<()> {
    let (a, b, output) = (operands.input(op.a), operands.input(op.b), operands.output());
    let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let batch_shape = &output.shape[..output.shape.len() - 2];
    let (of_a, of_b) =
        (Strided::broadcast(batches_a, batch_shape).at("batch"), Strided::broadcast(batches_b, batch_shape).at("batch"));
    let mut kernel = Kernel::new("quantizedMatmul").reads(lowering, "a", a).reads(lowering, "b", b);
    let integer = |tensor: &Tensor, text: String| tensor.scalar().convert(Scalar::I32, &text);
    let mut zero = |name: &str, zero_point: Option<&Tensor>, shape: &[usize], place: &str| match zero_point {
        None => "0i".to_owned(),
        Some(zero_point) => {
            kernel.add_reads(lowering, name, zero_point);
            integer(zero_point, format!("{name}({})", Strided::broadcast(&zero_point.shape, shape).at(place)))
        }
    };
    let shape_a = [batches_a, &[rows, 1]].concat();
    let shape_b = [batches_b, &[1, columns]].concat();
    let zero_a = zero("a_zero_point", operands.optional(op.a_zero_point), &shape_a, "row");
    let zero_b = zero("b_zero_point", operands.optional(op.b_zero_point), &shape_b, "line");
    let (matrix, matrix_b) = (size(rows * columns), size(depth * columns));
    let [rows, depth, columns] = [rows, depth, columns].map(size);
    let body = format!(
        "let batch = i / {matrix}u;\n\
         let row = ({of_a}) * {rows}u + i / {columns}u % {rows}u;\n\
         let line = ({of_b}) * {columns}u + i % {columns}u;\n\
         let right = ({of_b}) * {matrix_b}u + i % {columns}u;\n\
         let zero_a = {zero_a};\n\
         let zero_b = {zero_b};\n\
         var total = 0i;\n\
         for (var k = 0u; k < {depth}u; k += 1u) {{ total += ({left} - zero_a) * ({right} - zero_b); }}\n\
         return total;",
        left = integer(a, format!("a(row * {depth}u + k)")),
        right = integer(b, format!("b(right + k * {columns}u)")),
    );
    kernel.each(lowering, output, &body)
}

pub fn dynamic_quantize_linear(lowering: &mut Lowering<'_>, op: &DynamicQuantizeLinear, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let [output, scale, zero_point] = operands.outputs() else { unreachable!("there are three outputs") };
    let mut extreme = |kind| -> Result<Tensor> {
        let found = lowering.temporary(DataType::Float32, &[])?;
        let formula = formula(kind, DataType::Float32, input.count());
        let reduced = vec![true; input.shape.len()];
        Reduction { label: "dynamicQuantizeLinear, range", input, reduced, formula }.lower(lowering, &found)?;
        Ok(found)
    };
    let (least, most) = (extreme(ReduceKind::Min)?, extreme(ReduceKind::Max)?);
    let functions = "fn scale_of() -> f32 {\n\
         let scale = (max_f32(most(0u), 0.0f) - min_f32(least(0u), 0.0f)) / 255.0f;\n\
         return select(scale, 1.0f, scale == 0.0f);\n}\n\
         fn zero_point_of() -> u32 { return quantize_u32(-min(least(0u), 0.0f), scale_of(), 0u, 0u, 255u); }";
    for (tensor, text, read) in [
        (output, "return quantize_u32(input(i), scale_of(), zero_point_of(), 0u, 255u);", Some(input)),
        (scale, "return scale_of();", None),
        (zero_point, "return zero_point_of();", None),
    ] {
        if lowering.is_read(tensor) {
            let mut kernel = Kernel::new("dynamicQuantizeLinear").reads(lowering, "least", &least).reads(lowering, "most", &most);
            if let Some(read) = read {
                kernel.add_reads(lowering, "input", read);
            }
            kernel.declare(functions).each(lowering, tensor, text)?;
        }
    }
    Ok(())
}

pub fn quantize_along(lowering: &mut Lowering<'_>, op: &QuantizeAlong, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let [output, scale] = operands.outputs() else { unreachable!("there are two outputs") };
    let formula = Formula {
        result: format!("return max(a / 127.0f, {});", real(f32::MIN_POSITIVE)),
        ..Formula::scalar(Scalar::F32, "0.0f".to_owned(), "abs_f32(x)".to_owned(), Scalar::F32.call("max", &["a", "b"]))
    };
    let reduced = (0..input.shape.len()).map(|axis| axis == op.axis as usize).collect();
    let found = match lowering.is_read(scale) {
        true => scale.clone(),
        false => {
            let mut shape = input.shape.clone();
            shape[op.axis as usize] = 1;
            lowering.temporary(DataType::Float32, &shape)?
        }
    };
    Reduction { label: "quantizeAlong, scale", input, reduced, formula }.lower(lowering, &found)?;
    if lowering.is_read(output) {
        let place = Strided::broadcast(&found.shape, &input.shape).at("i");
        let mut kernel = Kernel::new("quantizeAlong").reads(lowering, "scale", &found);
        kernel.add_reads(lowering, "input", input);
        kernel.each(lowering, output, &format!("return quantize_i32(input(i), scale({place}), 0i, -127i, 127i);"))?;
    }
    Ok(())
}
