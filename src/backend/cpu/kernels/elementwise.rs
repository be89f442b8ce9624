//! Element-wise functions of float32, where the reference kernels compute in `f64` one element at a time.

use super::functions::{erf, exp, gelu, sigmoid, tanh};
use super::isa::{Isa, isa};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{ActivationKind, UnaryKind};
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

#[derive(Debug)]
struct Map {
    isa: &'static Isa,
    input: OperandId,
    function: Function,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Exp,
    Erf,
    Tanh,
    Sigmoid,
    Gelu,
}

/// Below this many elements the reference kernel is quick enough.
const WORTH_IT: usize = 1024;

pub fn select(site: &Site<'_>) -> Option<Selection> {
    let (input, function) = match site.op {
        Op::Unary(op) if op.kind == UnaryKind::Exp => (op.input, Function::Exp),
        Op::Unary(op) if op.kind == UnaryKind::Erf => (op.input, Function::Erf),
        Op::Activation(op) if op.kind == ActivationKind::Tanh => (op.input, Function::Tanh),
        Op::Activation(op) if op.kind == ActivationKind::Sigmoid => (op.input, Function::Sigmoid),
        Op::Activation(op) if op.kind == ActivationKind::Gelu => (op.input, Function::Gelu),
        _ => return None,
    };
    if site.output.shape.iter().product::<usize>() < WORTH_IT {
        return None;
    }
    Some(Selection { kernel: Box::new(Map { isa: isa(), input, function }), taken: smallvec![], fuses: false })
}

impl Kernel for Map {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), 1, 1, |first, piece| {
            let input = &input[first..first + piece.len()];
            match self.function {
                Function::Exp => self.isa.run(|| map(input, piece, exp)),
                Function::Erf => self.isa.run(|| map(input, piece, erf)),
                Function::Tanh => self.isa.run(|| map(input, piece, tanh)),
                Function::Sigmoid => self.isa.run(|| map(input, piece, sigmoid)),
                Function::Gelu => self.isa.run(|| map(input, piece, gelu)),
            }
        });
    }
}

#[inline(always)]
fn map(input: &[f32], output: &mut [f32], function: impl Fn(f32) -> f32) {
    output.iter_mut().zip(input).for_each(|(output, &x)| *output = function(x));
}
