//! Concatenations, of any data type of whole bytes. What is in the output already stays as it is (`Placement`).

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::copy::cost;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::{SmallVec, smallvec};

type Few<T> = SmallVec<[T; 4]>;

#[derive(Debug)]
struct Joined {
    /// The parts of a row, and how many bytes they have.
    parts: Vec<(OperandId, usize)>,
}

impl Kernel for Joined {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let parts: Few<_> = self
            .parts
            .iter()
            .map(|&(id, run)| {
                let input = arguments.input(id);
                (if input.is_in_output() { None } else { Some(input.bytes()) }, run)
            })
            .collect();
        let row = parts.iter().map(|(_, run)| run).sum();
        // Of float32 and others of 32 bits: the halves of rotary embeddings, whose elements alternate.
        if parts.iter().all(|(_, run)| *run == size_of::<u32>())
            && arguments.output().bytes.as_ptr().addr().is_multiple_of(align_of::<u32>())
            && let Some(elements) =
                parts.iter().map(|(bytes, _)| bytemuck::try_cast_slice((*bytes)?).ok()).collect::<Option<Few<_>>>()
        {
            for_each_piece(arguments.output().bytes, row, cost::<u8>(parts.len() * size_of::<u32>()), |first, piece| {
                let output: &mut [u32] = bytemuck::cast_slice_mut(piece);
                match elements[..] {
                    [a, b] => interleave([a, b], first, output),
                    [a, b, c] => interleave([a, b, c], first, output),
                    [a, b, c, d] => interleave([a, b, c, d], first, output),
                    _ => {
                        for (i, row) in output.chunks_exact_mut(elements.len()).enumerate() {
                            row.iter_mut().zip(&elements).for_each(|(to, from)| *to = from[first + i]);
                        }
                    }
                }
            });
            return;
        }
        let copied = parts.iter().filter(|(bytes, _)| bytes.is_some()).map(|(_, run)| run).sum();
        for_each_piece(arguments.output().bytes, row, cost::<u8>(copied), |first, piece| {
            for (i, mut row) in piece.chunks_exact_mut(row).enumerate() {
                for &(bytes, run) in &parts {
                    let (part, rest) = row.split_at_mut(run);
                    if let Some(bytes) = bytes {
                        looks::copy(&bytes[(first + i) * run..][..run], part);
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

/// The elements of as many inputs in turn, from that one of each on.
fn interleave<const INPUTS: usize>(inputs: [&[u32]; INPUTS], first: usize, output: &mut [u32]) {
    let (output, _) = output.as_chunks_mut::<INPUTS>();
    // Of a known length, so that no index has to be looked at in the loop.
    let inputs = inputs.map(|input| &input[first..][..output.len()]);
    for (i, to) in output.iter_mut().enumerate() {
        *to = std::array::from_fn(|input| inputs[input][i]);
    }
}

/// Runs of bytes, one after the other.
pub static COPY: Implementation = Implementation { name: "concat.copy", accept };

fn accept<'a>(problem: &Problem<'a>, _: &Target) -> Accepted<'a> {
    let Op::Concat(op) = problem.op else { return Err(Reject("not a concat")) };
    let is_ordered = problem.output.order.is_some() || problem.inputs.iter().any(|input| input.order.is_some());
    require(!is_ordered, "dimensions in another order")?;
    let bits = problem.output.data_type.bits();
    require(bits.is_multiple_of(8), "elements that are not whole bytes")?;
    let run = |id: OperandId| problem.input(id).shape[op.axis as usize..].iter().product::<usize>() * bits / 8;
    let kernel = Joined { parts: op.inputs.iter().map(|&id| (id, run(id))).collect() };
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::interpret;
    use crate::backend::cpu::testing::run;
    use crate::graph::ops::movement::Concat;
    use crate::graph::{DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    #[test]
    fn elements_of_inputs_alternate() {
        for (data_type, last) in [(DataType::Float32, 1), (DataType::Int32, 1), (DataType::Int8, 4), (DataType::Float32, 3)] {
            for count in [2, 3, 4, 7] {
                for rows in [1, 37, 3000] {
                    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
                    let descriptor = Descriptor::new(data_type, [rows, last]);
                    let inputs: Vec<_> =
                        (0..count).map(|i| builder.input(&format!("{i}"), descriptor.clone()).unwrap()).collect();
                    let joined = builder.push_op(Concat { inputs, axis: 1 }, "").unwrap()[0];
                    let graph = builder.build(vec![("joined".to_owned(), joined)]).unwrap();
                    let bytes = |seed: usize| (0..descriptor.byte_length()).map(|i| (i * 7 + seed * 31) as u8 % 127).collect();
                    let given: Vec<Vec<u8>> = (0..count).map(bytes).collect();
                    let given: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
                    assert_eq!(run(&graph, &given), interpret(&graph, &given), "{count} of {data_type} [{rows}, {last}]");
                }
            }
        }
    }
}
