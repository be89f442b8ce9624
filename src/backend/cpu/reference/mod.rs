//! The reference kernels: every operator and every data type, written straight from the specification. They are the
//! oracle of the tests and the fallback of the compiler. One file per family of operators.
//!
//! Floating-point arithmetic is done in `f32` or better and rounded once to the output's type.

use super::view::Arguments;
use crate::graph::Op;

mod elementwise;
mod interpret;
mod movement;
#[cfg(test)]
mod testing;

pub use interpret::interpret;

/// Computes the outputs of a node. Everything was validated when the node was made.
pub fn execute(op: &Op, arguments: &mut Arguments<'_, '_>) {
    match op {
        Op::Binary(op) => elementwise::binary(op, arguments),
        Op::Conv2d(_) => unimplemented!(),
        Op::Concat(op) => movement::concat(op, arguments),
        Op::Expand(op) => movement::expand(op, arguments),
        Op::Pad(op) => movement::pad(op, arguments),
        Op::Reshape(op) => movement::reshape(op, arguments),
        Op::Reverse(op) => movement::reverse(op, arguments),
        Op::Slice(op) => movement::slice(op, arguments),
        Op::Split(op) => movement::split(op, arguments),
        Op::Tile(op) => movement::tile(op, arguments),
        Op::Transpose(op) => movement::transpose(op, arguments),
        Op::Triangular(op) => movement::triangular(op, arguments),
    }
}
