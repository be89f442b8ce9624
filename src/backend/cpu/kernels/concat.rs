//! Concatenations, of any data type of whole bytes. What is in the output already stays as it is (`Placement`).

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::copy::cost;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::{Op, OperandId};
use smallvec::{SmallVec, smallvec};

#[derive(Debug)]
struct Joined {
    /// The parts of a row, and how many bytes they have.
    parts: Vec<(OperandId, usize)>,
}

impl Kernel for Joined {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let parts: SmallVec<[_; 4]> = self
            .parts
            .iter()
            .map(|&(id, run)| {
                let input = arguments.input(id);
                (if input.is_in_output() { None } else { Some(input.bytes()) }, run)
            })
            .collect();
        let row = parts.iter().map(|(_, run)| run).sum();
        let copied = parts.iter().filter(|(bytes, _)| bytes.is_some()).map(|(_, run)| run).sum();
        for_each_piece(arguments.output().bytes, row, cost::<u8>(copied), |first, piece| {
            for (i, mut row) in piece.chunks_exact_mut(row).enumerate() {
                for &(bytes, run) in &parts {
                    let (part, rest) = row.split_at_mut(run);
                    if let Some(bytes) = bytes {
                        part.copy_from_slice(&bytes[(first + i) * run..][..run]);
                    }
                    row = rest;
                }
            }
        });
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Runs of bytes, one behind the other.
pub static COPY: Implementation = Implementation { name: "concat.copy", accept };

fn accept<'a>(problem: &Problem<'a>, _: &Target) -> Accepted<'a> {
    let Op::Concat(op) = problem.op else { return Err(Reject("not a concat")) };
    let is_ordered = problem.output.order.is_some() || problem.inputs.iter().any(|input| input.order.is_some());
    require(!is_ordered, "dimensions in another order")?;
    let bits = problem.output.data_type.bits();
    require(bits.is_multiple_of(8), "elements that are no whole bytes")?;
    let run = |id: OperandId| problem.input(id).shape[op.axis as usize..].iter().product::<usize>() * bits / 8;
    let kernel = Joined { parts: op.inputs.iter().map(|&id| (id, run(id))).collect() };
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}
