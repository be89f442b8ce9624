//! Lines of the last axis that have a scale each: quantized by the greatest magnitude of each, and dequantized. The results are those of the
//! reference kernels to the last bit.

use super::exact_division::Divisor;
use super::quantize::integer;
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType::{Float32, Int8};
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::ops::quantized::{extremes, of_magnitude};
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::{SmallVec, smallvec};
use webnn_kernels::isa::Isa;
use webnn_kernels::quantize::{Quantize, Scale, Steps, range};

/// One scale for each line.
pub static LINES: Implementation = Implementation { name: "quantize.lines", accept };

#[derive(Debug)]
struct Lines {
    isa: &'static Isa,
    /// Elements of a line.
    length: usize,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Quantize(OperandId),
    Dequantize(DequantizeLinear),
}

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (input, way) = match problem.op {
        Op::QuantizeAlong(op) => {
            require(op.axis as usize + 1 == problem.input(op.input).shape.len(), "lines of another axis")?;
            (op.input, Way::Quantize(op.input))
        }
        Op::DequantizeLinear(op) => {
            let [input, scale] = [op.input, op.scale].map(|id| problem.input(id));
            require(input.data_type == Int8 && scale.data_type == Float32, "other types than int8 and float32")?;
            let is_of_lines = match (input.shape.split_last(), scale.shape.split_last()) {
                (Some((_, lines)), Some((1, scales))) => lines == scales,
                _ => false,
            };
            require(is_of_lines, "other scales than one for each line")?;
            (op.input, Way::Dequantize(op.clone()))
        }
        _ => return Err(Reject("no quantization of lines")),
    };
    require(problem.fused.is_empty(), "something is done to the elements afterwards")?;
    let length = problem.input(input).shape.last().copied().unwrap_or(0);
    require(length > 0, "empty lines")?;
    let kernel = Lines { isa: target.isa, length, way };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}

impl Kernel for Lines {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let &Lines { isa, length, ref way } = self;
        match way {
            Way::Quantize(input) => {
                let numbers = arguments.input(*input).elements::<f32>();
                let [output, scales] = arguments.outputs() else { unreachable!("there are two outputs") };
                let scales = scales.elements::<f32>();
                for_each_piece(scales, 1, length, |first, scales| {
                    let lines = numbers[first * length..].chunks_exact(length);
                    for (scale, line) in scales.iter_mut().zip(lines) {
                        let of_parts: SmallVec<[f32; 2]> =
                            looks::parts(length).flat_map(|part| range(isa, &line[part])).collect();
                        let [least, most] = extremes(&of_parts);
                        *scale = of_magnitude(if least.is_nan() { least } else { most.max(-least) });
                    }
                });
                for_each_piece(&mut *output.bytes, length, length, |first, bytes| {
                    let lines = numbers[first * length..].chunks_exact(length).zip(&scales[first..]);
                    for (bytes, (numbers, scale)) in bytes.chunks_exact_mut(length).zip(lines) {
                        let steps = Steps { divisor: Divisor::new(*scale, [-127.0, 127.0]), zero: 0 };
                        for part in looks::parts(length) {
                            Quantize { numbers: &numbers[part.clone()], bytes: &mut bytes[part], steps }.compute(isa);
                        }
                    }
                });
            }
            Way::Dequantize(op) => {
                let [input, scales, zeros] = [op.input, op.scale, op.zero_point].map(|id| arguments.input(id));
                let (integers, scales) = (input.elements::<i8>(), scales.elements::<f32>());
                for_each_piece(arguments.output().elements::<f32>(), length, length, |first, numbers| {
                    for (line, numbers) in (first..).zip(numbers.chunks_exact_mut(length)) {
                        let (integers, zero) = (&integers[line * length..][..length], integer(Int8, zeros.bytes()[line]));
                        for part in looks::parts(length) {
                            let (integers, numbers) = (&integers[part.clone()], &mut numbers[part]);
                            Scale { integers, numbers, scale: scales[line], zero }.compute(isa);
                        }
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TensorDesc;
    use super::*;
    use crate::backend::cpu::kernels::first;
    use crate::backend::cpu::kernels::tests::numbers;
    use crate::backend::cpu::reference;
    use crate::backend::cpu::view::{View, ViewMut};
    use crate::graph::DataType;
    use crate::graph::ops::quantized::QuantizeAlong;

    /// What an operator makes of operands, with the reference kernel and with each instruction set.
    fn check(op: &Op, views: &[View<'_>], outputs: &[(DataType, [usize; 2])]) {
        let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
            let mut made: Vec<Vec<u32>> = outputs.iter().map(|(_, [lines, length])| vec![7; lines * length]).collect();
            let mut written: Vec<ViewMut<'_>> = outputs
                .iter()
                .zip(&mut made)
                .map(|((data_type, shape), words)| {
                    let length = shape[0] * shape[1] * data_type.bits() / 8;
                    ViewMut { data_type: *data_type, shape, bytes: &mut bytemuck::cast_slice_mut(words)[..length] }
                })
                .collect();
            body(&mut Arguments::new(views, &mut written));
            made
        };
        let expected = run(&|arguments| reference::execute(op, arguments));
        let known = |data_type, shape| TensorDesc { data_type, shape, constant: None, order: None };
        let inputs: Vec<TensorDesc<'_>> = views.iter().map(|view| known(view.data_type, view.shape)).collect();
        for isa in Isa::available() {
            let output = known(outputs[0].0, &outputs[0].1);
            let (fused, prologue, dequantized) = (&[], &[], &[]);
            let problem = Problem { op, fused, inputs: &inputs, output, workspace: None, prologue, dequantized };
            let kernel = first(&problem, &Target::with(isa, 1)).kernel;
            assert_eq!(run(&|arguments| kernel.compute(arguments)), expected, "{}: {op:?}", isa.name);
        }
    }

    #[test]
    fn each_line_has_a_scale() {
        for (lines, length) in [(1, 1), (3, 64), (7, 17), (40, 128)] {
            let mut data = numbers(lines * length, 3);
            for (i, special) in [f32::NAN, 0.0, f32::INFINITY, -1e-40, 3.4e38, -5e-38].into_iter().enumerate() {
                data.iter_mut().skip(i * length).take(if i % 2 == 0 { 1 } else { length }).for_each(|x| *x = special);
                let shape = [lines, length];
                let views = [View::new(Float32, &shape, bytemuck::cast_slice(&data))];
                let op = QuantizeAlong { input: OperandId(0), axis: 1 }.into();
                check(&op, &views, &[(Int8, shape), (Float32, [lines, 1])]);
            }
            let integers: Vec<u8> = (0..lines * length).map(|i| (i * 37 % 256) as u8).collect();
            let (scales, zeros) = (numbers(lines, 5), (0..lines).map(|i| i as u8).collect::<Vec<_>>());
            let (shape, of_lines) = ([lines, length], [lines, 1]);
            let views = [
                View::new(Int8, &shape, &integers),
                View::new(Float32, &of_lines, bytemuck::cast_slice(&scales)),
                View::new(Int8, &of_lines, &zeros),
            ];
            let [input, scale, zero_point] = [0, 1, 2].map(OperandId);
            if length > 1 {
                check(&DequantizeLinear { input, scale, zero_point }.into(), &views, &[(Float32, shape)]);
            }
        }
    }
}
