//! Bits that are read as those of another data type.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader::Scalar;
use crate::error::Result;
use crate::graph::ops::bitcast::Bitcast;

pub fn bitcast(lowering: &mut Lowering<'_>, op: &Bitcast, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let (from, to) = (input.scalar(), output.scalar());
    let value = match (from, to) {
        (Scalar::F32 | Scalar::I32 | Scalar::U32, _) if input.data_type.bits() == 32 => {
            format!("bitcast<{}>(input(i))", to.name())
        }
        // Integers of one width are converted by their bits.
        _ => from.convert(to, "input(i)"),
    };
    Kernel::new("bitcast").reads(lowering, "input", input).each(lowering, output, &format!("return {value};"))
}
