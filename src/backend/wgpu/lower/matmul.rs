//! Matrix products.

use super::alone::cast;
use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use super::product::{End, Product};
use crate::backend::strided::Strided;
use crate::backend::wgpu::shader::{float, size};
use crate::error::Result;
use crate::graph::ops::matmul::{Gemm, IntegerMatmul, Matmul};

pub fn matmul(lowering: &mut Lowering<'_>, op: &Matmul, operands: &Operands) -> Result<()> {
    let (a, b, output) = (operands.input(op.a), operands.input(op.b), operands.output());
    let (batches_a, &[mut rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let batch_shape = &output.shape[..output.shape.len() - 2];
    let mut batches: usize = batch_shape.iter().product();
    let (mut of_a, mut of_b) =
        (Strided::broadcast(batches_a, batch_shape).at("batch"), Strided::broadcast(batches_b, batch_shape).at("batch"));
    if batches_b.iter().all(|&size| size == 1) {
        // A stack times one matrix is a taller matrix times it.
        rows *= batches;
        batches = 1;
        (of_a, of_b) = ("0u".to_owned(), "0u".to_owned());
    }
    let (matrix_a, matrix_b) = (size(rows * depth), size(depth * columns));
    let [height, inner, width] = [rows, depth, columns].map(size);
    let product = Product {
        label: "matmul",
        batches,
        rows,
        depth,
        columns,
        by_depth: [true, false],
        reads: vec![("a", a), ("b", b)],
        functions: format!(
            "fn left_at(batch: u32, row: u32, k: u32) -> f32 {{ return a({of_a} * {matrix_a}u + row * {inner}u + k); }}\n\
             fn right_at(batch: u32, k: u32, column: u32) -> f32 {{ return b({of_b} * {matrix_b}u + k * {width}u + column); }}\n\
             fn place(batch: u32, row: u32, column: u32) -> u32 {{ return (batch * {height}u + row) * {width}u + column; }}\n",
        ),
        number: "i".to_owned(),
        end: End { reads: Vec::new(), text: String::new(), then: Some((a.data_type, operands)) },
    };
    product.lower(lowering, output)
}

/// An invocation sums up one element: exact sums of integers have no form that tiles in registers would share with floats.
pub fn integer_matmul(lowering: &mut Lowering<'_>, op: &IntegerMatmul, operands: &Operands) -> Result<()> {
    let (a, b, output) = (operands.input(op.a), operands.input(op.b), operands.output());
    let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let batch_shape = &output.shape[..output.shape.len() - 2];
    let (of_a, of_b) =
        (Strided::broadcast(batches_a, batch_shape).at("batch"), Strided::broadcast(batches_b, batch_shape).at("batch"));
    let scalar = output.scalar();
    let (matrix, matrix_a, matrix_b) = (size(rows * columns), size(rows * depth), size(depth * columns));
    let [rows, depth, columns] = [rows, depth, columns].map(size);
    let product = scalar.mul("a(left + k)", &format!("b(right + k * {columns}u)"));
    let body = format!(
        "let batch = i / {matrix}u;\n\
         let left = ({of_a}) * {matrix_a}u + i / {columns}u % {rows}u * {depth}u;\n\
         let right = ({of_b}) * {matrix_b}u + i % {columns}u;\n\
         var total = {zero};\n\
         for (var k = 0u; k < {depth}u; k += 1u) {{ total = {sum}; }}\n\
         return total;",
        zero = scalar.integer(0),
        sum = scalar.add("total", &product),
    );
    Kernel::new("integerMatmul").reads(lowering, "a", a).reads(lowering, "b", b).each(lowering, output, &body)
}

pub fn gemm(lowering: &mut Lowering<'_>, op: &Gemm, operands: &Operands) -> Result<()> {
    let (a, b, output) = (operands.input(op.a), operands.input(op.b), operands.output());
    let &[rows, columns] = &output.shape[..] else { unreachable!("a matrix has rank 2") };
    let depth = a.shape[if op.a_transpose { 0 } else { 1 }];
    let [height, inner, width] = [rows, depth, columns].map(size);
    let at_a = if op.a_transpose { format!("k * {height}u + row") } else { format!("row * {inner}u + k") };
    let at_b = if op.b_transpose { format!("column * {inner}u + k") } else { format!("k * {width}u + column") };
    // alpha and beta are cast to the data type of the operands.
    let (alpha, beta) = (cast(op.alpha, a.data_type), cast(op.beta, a.data_type));
    let mut end = End { reads: Vec::new(), text: String::new(), then: Some((a.data_type, operands)) };
    if alpha != 1.0 {
        end.text = format!("x = {} * x;\n", float(alpha));
    }
    if let Some(c) = operands.optional(op.c) {
        end.reads.push(("c", c));
        let element = format!("c({})", Strided::broadcast(&c.shape, &output.shape).at("i"));
        let term = if beta == 1.0 { element } else { format!("{} * {element}", float(beta)) };
        end.text.push_str(&format!("x += {term};\n"));
    }
    let product = Product {
        label: "gemm",
        batches: 1,
        rows,
        depth,
        columns,
        by_depth: [!op.a_transpose, op.b_transpose],
        reads: vec![("a", a), ("b", b)],
        functions: format!(
            "fn left_at(batch: u32, row: u32, k: u32) -> f32 {{ return a({at_a}); }}\n\
             fn right_at(batch: u32, k: u32, column: u32) -> f32 {{ return b({at_b}); }}\n\
             fn place(batch: u32, row: u32, column: u32) -> u32 {{ return row * {width}u + column; }}\n"
        ),
        number: "i".to_owned(),
        end,
    };
    product.lower(lowering, output)
}
