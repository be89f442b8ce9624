//! The softmax function.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use super::reduce::exponentials;
use super::reduction::Formula;
use super::rows::{Rows, Summary};
use crate::backend::wgpu::shader::Scalar;
use crate::error::Result;
use crate::graph::ops::softmax::Softmax;

pub fn softmax(lowering: &mut Lowering<'_>, op: &Softmax, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    // Differences to the greatest value do not overflow. Where that is infinite, some difference is not a number, and it
    // spoils the sum.
    let formula = Formula { result: "return a.y;".to_owned(), ..exponentials() };
    let kernel = Kernel::new("softmax").reads(lowering, "input", input).declare(&formula.declare(Scalar::F32, Scalar::F32));
    Rows::new(lowering, &input.shape, &[op.axis as usize])
        .reduce(lowering, "sum", Summary::Exponentials, "vec2<f32>(x, 1.0f)")
        .then("let factor = select(1.0f / sum.y, nan(), is_nan(sum.x) || is_infinite(sum.x));")
        .write(lowering, kernel, output, "exp_f32(x - sum.x) * factor")
}
