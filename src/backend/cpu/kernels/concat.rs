//! Concatenations, of any data type of whole bytes. What is in the output already stays as it is (`Placement`).

use super::{Kernel, Selection, Site};
use crate::backend::cpu::copy::cost;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::movement::Concat;
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

pub fn select(op: &Concat, site: &Site<'_>) -> Option<Selection> {
    let is_ordered = site.output.order.is_some() || site.inputs.iter().any(|input| input.order.is_some());
    let bits = site.output.data_type.bits();
    if is_ordered || !bits.is_multiple_of(8) {
        return None;
    }
    let run = |id: OperandId| site.inputs[id.0 as usize].shape[op.axis as usize..].iter().product::<usize>() * bits / 8;
    let kernel = Joined { parts: op.inputs.iter().map(|&id| (id, run(id))).collect() };
    Some(Selection { kernel: Box::new(kernel), taken: smallvec![], fuses: site.fused.is_empty() })
}
