//! The reference kernels: every operator and every data type, written straight from the specification. They are the
//! oracle of the tests and the fallback of the compiler. One file per family of operators.
//!
//! Floating-point arithmetic is done in `f32` or better and rounded once to the output's type.

use super::view::Arguments;
use crate::graph::Op;

mod elementwise;
mod interpret;

pub use interpret::interpret;

/// Computes the outputs of a node. Everything was validated when the node was made.
pub fn execute(op: &Op, arguments: &mut Arguments<'_, '_>) {
    match op {
        Op::Binary(op) => elementwise::binary(op, arguments),
        Op::Conv2d(_) => unimplemented!(),
    }
}
