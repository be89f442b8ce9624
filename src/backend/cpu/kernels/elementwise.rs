//! Element-wise operators of float32, whole chains of them in one pass over memory. (The reference kernels compute functions
//! in `f64`, one element at a time.)

use super::epilogue::Epilogue;
use super::isa::Isa;
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::{DataType, Op, OperandId};
use smallvec::smallvec;

#[derive(Debug)]
struct Chain {
    isa: &'static Isa,
    input: OperandId,
    /// The operator, and those that are fused with it.
    stages: Epilogue,
    /// Elements of a row, for operands that are rows.
    row: usize,
}

/// Below this many elements the reference kernel is quick enough.
const WORTH_IT: usize = 32;
/// Elements that all stages are done to before the next ones: they stay in the first-level cache.
const TOGETHER: usize = 2048;

pub fn select(site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    let input = match site.op {
        Op::Binary(op) => {
            let is_whole = |id: OperandId| site.inputs[id.0 as usize].shape == site.output.shape;
            if is_whole(op.a) { op.a } else { op.b }
        }
        Op::Unary(op) => op.input,
        Op::Activation(op) => op.input,
        Op::Clamp(op) => op.input,
        Op::Elu(op) => op.input,
        Op::Gate(op) => op.input,
        Op::Swish(op) => op.input,
        Op::LeakyRelu(op) => op.input,
        Op::HardSigmoid(op) => op.input,
        Op::Linear(op) => op.input,
        Op::Prelu(op) => op.input,
        // A rounding.
        Op::Cast(op) => op.input,
        _ => return None,
    };
    let count: usize = site.output.shape.iter().product();
    let known = site.inputs[input.0 as usize];
    // An operand that stands on both sides cannot be the value so far and another one.
    let is_square = matches!(site.op, Op::Binary(op) if op.a == op.b);
    if known.shape != site.output.shape || known.data_type != DataType::Float32 || is_square {
        return None;
    }
    let rounds = matches!(site.op, Op::Cast(_));
    if count < WORTH_IT && !rounds {
        return None;
    }
    let mut stages = Epilogue::default();
    let mut taken = smallvec![];
    if !stages.begin(site, input, &mut taken) {
        return None;
    }
    let fuses = stages.fuse(site, &mut taken);
    let row = if stages.is_flat() { TOGETHER } else { *site.output.shape.last()? };
    // What is done once for a row takes longer than a short row itself.
    let rows = TOGETHER.min(count).checked_div(row).unwrap_or(1).max(1);
    let row = if stages.join_rows(rows) { rows * row } else { row };
    Some(Selection { kernel: Box::new(Chain { isa, input, stages, row }), taken, fuses })
}

impl Kernel for Chain {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let tensors = self.stages.tensors(arguments);
        // To read and to write take as long as two stages, and longer where one thread does it to what several have written.
        let cost = self.row * (self.stages.cost() + 2) / 16;
        for_each_piece(arguments.output().elements::<f32>(), self.row, cost, |first, piece| {
            for (i, row) in piece.chunks_mut(self.row).enumerate() {
                let start = (first + i) * self.row;
                for (j, together) in row.chunks_mut(TOGETHER).enumerate() {
                    let column = j * TOGETHER;
                    let place = start + column;
                    together.copy_from_slice(&input[place..][..together.len()]);
                    self.stages.apply(self.isa, column..column + together.len(), place, &tensors, together);
                }
            }
        });
    }

    fn bytes(&self) -> usize {
        self.stages.bytes()
    }
}
