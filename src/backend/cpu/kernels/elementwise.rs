//! Element-wise operators of float32, whole chains of them in one pass over memory. (The reference kernels compute functions
//! in `f64`, one element at a time.)

use super::epilogue::Epilogue;
use super::stored::for_each_stored_piece;
use super::{Accepted, Bf16Support, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::view::Arguments;
use crate::graph::{DataType, Op, OperandId};
use crate::looks::Looking;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;

#[derive(Debug)]
struct Chain {
    isa: &'static Isa,
    input: OperandId,
    /// The operator, and those that are fused with it.
    epilogue: Epilogue,
    /// Elements of a row, for operands that are rows.
    row: usize,
}

/// Elements that each post-op is done to before the next one: they stay in the first-level cache.
const STRIP: usize = 2048;

/// A chain of element-wise operators in one pass.
pub static CHAIN: Implementation = Implementation { name: "elementwise.chain", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    // What the epilogue is done to: they read other operands at fewer places.
    let mut whole = None;
    problem.op.visit(&mut |_, id| {
        if whole.is_none() && problem.input(id).shape == problem.output.shape {
            whole = Some(id);
        }
    });
    let input = whole.ok_or(Reject("no operand of the output's shape"))?;
    let count = problem.output.element_count();
    let is_float = problem.input(input).data_type == DataType::Float32 && problem.output.data_type == DataType::Float32;
    require(is_float, "not float32")?;
    // An operand that stands on both sides cannot be the value so far and another one.
    require(!matches!(problem.op, Op::Binary(op) if op.a == op.b), "the same operand on both sides")?;
    require(count >= target.tuning.chain_elements || matches!(problem.op, Op::Cast(_)), "few elements")?;
    let mut epilogue = Epilogue::default();
    let mut consumed = smallvec![];
    require(epilogue.begin(problem, input, &mut consumed), "an operator or operand that no post-op knows")?;
    let (problem, isa) = (*problem, target.isa);
    Ok(Box::new(move || {
        let fuses = epilogue.fuse(&problem, &mut consumed);
        let row = if epilogue.post_ops().is_flat() { STRIP } else { problem.output.shape.last().copied().unwrap_or(1) };
        // What is done once for a row takes longer than a short row itself.
        let rows = STRIP.min(count).checked_div(row).unwrap_or(1).max(1);
        let row = if epilogue.join_rows(rows) { rows * row } else { row };
        Ok(Built { kernel: Box::new(Chain { isa, input, epilogue, row }), consumed, fuses })
    }))
}

impl Kernel for Chain {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).stored();
        let tensors = self.epilogue.tensors(arguments);
        // To read and to write take as long as two post-ops, and longer where one thread does it to what several have written.
        let cost = self.row * (self.epilogue.post_ops().cost() + 2) / 16;
        for_each_stored_piece(self.isa, arguments.output(), self.row, cost, |first, piece| {
            for (i, row) in piece.chunks_mut(self.row).enumerate() {
                let start = (first + i) * self.row;
                for (j, strip) in row.chunks_mut(STRIP).enumerate().looking_if_long(STRIP) {
                    let column = j * STRIP;
                    let place = start + column;
                    input.part(place..place + strip.len()).copy_to(self.isa, strip);
                    self.epilogue.post_ops().apply(self.isa, column..column + strip.len(), place, &tensors, strip);
                }
            }
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        let mut loads = self.epilogue.whole_tensors();
        loads.push(self.input);
        // What it loads it copies anyway.
        Bf16Support { loads, stores: true, rounds_output: true, ..Bf16Support::default() }
    }
}
