//! Attention with a state of a fixed size: pieces of the columns of all heads are handed out to threads.
#![allow(unsafe_code)]

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::Op;
use crate::graph::ops::linear_attention::{LinearAttention, Sizes};
use crate::looks::{self, Progress};
use smallvec::{SmallVec, smallvec};
use webnn_kernels::isa::Isa;
use webnn_kernels::linear_attention::{Columns, Powers, Query, Rows};

/// Columns of a piece: with keys of 128 elements their states fill a first-level cache.
const PIECE: usize = 64;

#[derive(Debug)]
struct Recurrence {
    isa: &'static Isa,
    op: LinearAttention,
    of: Sizes,
}

impl Kernel for Recurrence {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let Sizes { batch, tokens, heads, decays, .. } = self.of;
        let decay = self.op.decay.map(|id| arguments.input(id).elements::<f32>());
        with_scratch(batch * tokens * heads * decays, |factors| {
            if let Some(decay) = decay {
                for_each_piece(factors, 16, 16, |first, piece| {
                    piece.copy_from_slice(&decay[first * 16..][..piece.len()]);
                    Powers(piece).compute(self.isa);
                });
            }
            self.recur(factors, arguments);
        });
    }
}

impl Recurrence {
    /// With what each decay leaves of a state.
    fn recur(&self, factors: &[f32], arguments: &mut Arguments<'_, '_>) {
        let Sizes { batch, tokens, query_heads, key_heads, heads, key_size, value_size, decays, rates } = self.of;
        let elements = |id| arguments.input(id).elements::<f32>();
        let (op, kept) = (&self.op, self.op.states as usize);
        let (query, key, value, state) = (elements(op.query), elements(op.key), elements(op.value), elements(op.state));
        let rate = op.rate.map(elements);
        let [results, states] = arguments.outputs() else { unreachable!("there are two outputs") };
        let (results, states) = (results.elements::<f32>(), states.elements::<f32>());
        let (size, output_heads) = (key_size * value_size, self.of.output_heads());
        // Where there is no token, no state comes after one.
        let empty = kept.saturating_sub(tokens);
        states[..empty * batch * heads * size].fill(0.0);
        let (results, states) = (SharedOutput::new(results), SharedOutput::new(states));
        let pieces = value_size.div_ceil(PIECE);
        let cost = batch * heads * tokens * size * (2 + self.of.group()) / 8;
        for_each_job(batch * heads * pieces, cost, |job| {
            let (line, first) = (job / pieces, job % pieces * PIECE);
            let (b, h, width) = (line / heads, line % heads, PIECE.min(value_size - first));
            let queries: SmallVec<[Query<'_>; 8]> = (h * self.of.group()..(h + 1) * self.of.group())
                .map(|output| Query {
                    rows: tokens_of(b, tokens, query, query_heads * key_size, self.of.query_head(output) * key_size),
                    first: (b * tokens * output_heads + output) * value_size + first,
                })
                .collect();
            let length = Columns::length(self.isa, key_size, width);
            let of_token = length * (2 + self.of.group()) / 8;
            let (progress, at_once) = (Progress::of(tokens * of_token), (looks::longest() / of_token.max(1)).max(1));
            with_scratch(length, |matrix| {
                let row = length / key_size;
                matrix.fill(0.0);
                for (to, from) in matrix.chunks_exact_mut(row).zip(state[line * size..].chunks_exact(value_size)) {
                    to[..width].copy_from_slice(&from[first..][..width]);
                }
                // All tokens but the last ones together, since only the states after those are kept.
                let mut done = 0;
                for slot in empty..kept {
                    let end = slot + 1 + tokens - kept;
                    while done < end {
                        let some = done..end.min(done + at_once);
                        progress.made(some.len() * of_token);
                        done = some.end;
                        let columns = Columns {
                            state: &mut *matrix,
                            width,
                            keys: key_size,
                            tokens: some,
                            key: tokens_of(b, tokens, key, key_heads * key_size, self.of.key_head(h) * key_size),
                            value: tokens_of(b, tokens, value, heads * value_size, h * value_size + first),
                            queries: &queries,
                            factors: (decays > 0).then(|| (tokens_of(b, tokens, factors, heads * decays, h * decays), decays)),
                            rate: rate.map(|rate| tokens_of(b, tokens, rate, rates, if rates == 1 { 0 } else { h })),
                            scale: op.scale as f32,
                            output: &results,
                            distance: output_heads * value_size,
                        };
                        columns.compute(self.isa);
                    }
                    let to = (slot * batch * heads + line) * size + first;
                    for (i, from) in matrix.chunks_exact(row).enumerate() {
                        // SAFETY: a job has its own columns of its own heads.
                        unsafe { states.write(to + i * value_size, &from[..width]) };
                    }
                }
            });
        });
    }
}

/// The rows of a batch, from a column on.
fn tokens_of(batch: usize, tokens: usize, all: &[f32], row: usize, column: usize) -> Rows<'_> {
    Rows::new(all, row, batch * tokens * row + column)
}

pub static COLUMNS: Implementation = Implementation { name: "linear_attention.columns", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::LinearAttention(op) = problem.op else { return Err(Reject("not a linear attention")) };
    let of = Sizes::new(op, |id| problem.input(id).shape.to_vec());
    require(problem.fused.is_empty(), "fused operators")?;
    let kernel = Recurrence { isa: target.isa, op: op.clone(), of };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_outputs, numbers};
    use super::*;
    use crate::backend::cpu::view::View;
    use crate::graph::{DataType, FpMath, OperandId};

    /// Batch, tokens, heads of queries, keys and states, sizes of keys and values, states that are kept.
    type Case = [usize; 8];

    fn check([batch, tokens, query_heads, key_heads, heads, keys, values, kept]: Case, decays: usize, rates: usize) {
        let ids = |present: bool, id| present.then_some(OperandId(id));
        let op = LinearAttention {
            query: OperandId(0),
            key: OperandId(1),
            value: OperandId(2),
            state: OperandId(3),
            scale: 0.25,
            decay: ids(decays > 0, 4),
            rate: ids(rates > 0, if decays > 0 { 5 } else { 4 }),
            states: kept as u32,
        };
        let mut shapes = vec![
            vec![batch, tokens, query_heads * keys],
            vec![batch, tokens, key_heads * keys],
            vec![batch, tokens, heads * values],
            vec![batch, heads, keys, values],
        ];
        shapes.extend((decays > 0).then(|| vec![batch, tokens, heads * decays]));
        shapes.extend((rates > 0).then(|| vec![batch, tokens, rates]));
        let data: Vec<Vec<f32>> = shapes
            .iter()
            .zip(1..)
            .map(|(shape, seed)| numbers(shape.iter().product(), seed).iter().map(|x| x / (keys as f32).sqrt()).collect())
            .collect();
        let views: Vec<View<'_>> = shapes
            .iter()
            .zip(&data)
            .map(|(shape, data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data)))
            .collect();
        let outputs = [vec![batch, tokens, query_heads.max(heads) * values], vec![kept, batch, heads, keys, values]];
        check_outputs(op, &views, |_| false, &outputs, &[(FpMath::Strict, &|size| 1e-4 * size.max(1.0))]);
    }

    #[test]
    fn columns_are_those_of_the_reference() {
        for case in [
            [1, 3, 2, 2, 2, 16, 16, 1],
            [2, 9, 2, 1, 4, 5, 70, 3],
            [2, 2, 6, 3, 3, 33, 37, 5],
            [1, 1, 1, 1, 1, 1, 1, 1],
            [1, 4, 2, 2, 2, 64, 128, 1],
        ] {
            let [.., heads, keys, _, _] = case;
            for (decays, rates) in [(0, 0), (1, 0), (keys, 1), (0, heads), (1, heads), (keys, heads)] {
                check(case, decays, rates);
            }
        }
    }
}
