//! Attention of float32, or of keys and values that are converted to it: softmax(q k · scale + mask) v, with a number in the place of NaN, if that is asked for, some queries at a time, whose scores stay in the cache.
//!
//! The scores of a query are all there before the first power is consumed, so the results are those of the operators one after
//! the other, infinities and what is not a number included.
#![allow(unsafe_code)]

use super::attention_lines::{Form, Lines, Operand, Scales, TOGETHER, form_of};
use super::bf16;
use super::epilogue::Epilogue;
use super::matmul::{distances, places};
use super::product::{Left, RightView, is_crowded, multiply, with_left};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, TensorDesc, require, with_scratch};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::compiler::RUNNING;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::{Op, OperandId};
use crate::{looks, memory};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::epilogue::post_ops::Origin;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::output::{BlockEpilogue, Output};
use webnn_kernels::softmax::attention::{Mask, ScoreOp, Weigh};

/// Attention whose operands are all computed.
#[derive(Debug)]
struct Attention {
    gemm: &'static Microkernels,
    sizes: Sizes,
    /// Queries, keys and values.
    operands: [OperandId; 3],
    /// Where each stack finds its queries, keys and values, and puts its output.
    positions: Vec<[usize; 4]>,
    /// What is done to scores before the softmax, and, of what is added, where it begins for each stack.
    ops: Vec<ScoreOp>,
    masks: Vec<MaskOperand>,
    /// How keys and values are stored.
    form: Form<Scales>,
    /// See [`Weigh::instead_of_nan`].
    instead_of_nan: f32,
    epilogue: Epilogue,
    /// Whether keys and values are read where they are, which is faster than packing them for few queries.
    is_few: bool,
    /// Queries of a job.
    together: usize,
    /// Stacks of a job where there are few queries: those that have the same keys and values.
    shared: Vec<Range<usize>>,
    /// The op that hides keys in front which need not be looked at ([`Kernel::hide`]).
    hiding: Option<usize>,
}

/// So many keys at a time are left out: the others are summed in the same order then.
const LEFT_OUT: usize = TOGETHER;

/// The tensor that an op adds, and where it begins for each stack; none for other ops.
type MaskOperand = Option<(OperandId, Vec<usize>)>;

/// Of one of the stacked products, and how its matrices lie in memory: elements from row to row and from column to column.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub queries: usize,
    pub depth: usize,
    pub keys: usize,
    pub columns: usize,
    pub query_strides: [usize; 2],
    /// The keys are the columns of this matrix.
    pub key_strides: [usize; 2],
    pub value_strides: [usize; 2],
    pub output_stride: usize,
}

impl Kernel for Attention {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let [q, keys, values] = self.operands;
        let q = arguments.input(q).elements::<f32>();
        let read = Operand::both([keys, values], &self.form, arguments);
        let mask_of = |mask: &MaskOperand| match mask {
            Some((id, _)) => arguments.input(*id).elements::<f32>(),
            None => &[],
        };
        let masks: SmallVec<[Mask<'_>; 4]> = self.masks.iter().map(mask_of).collect();
        let tensors = self.epilogue.tensors(arguments);
        let output = Output::new(arguments.output().elements::<f32>(), self.sizes.output_stride);
        // Those of one stack.
        let masks_of = |stack: usize| -> SmallVec<[Mask<'_>; 4]> {
            let all = self.masks.iter().zip(&masks).map(|(mask, &tensor)| match mask {
                Some((_, places)) => &tensor[places[stack]..],
                None => tensor,
            });
            all.collect()
        };
        let jobs_of_one = self.sizes.queries.div_ceil(self.together);
        let queries_of = |job: usize| {
            let first = job % jobs_of_one * self.together;
            first..self.sizes.queries.min(first + self.together)
        };
        let cost = self.positions.len().saturating_mul(self.sizes.cost());
        if self.is_few {
            for_each_job(self.shared.len() * jobs_of_one, cost, |job| {
                self.few(self.shared[job / jobs_of_one].clone(), queries_of(job), (q, read), masks_of, output, &tensors)
            });
            return;
        }
        for_each_job(self.positions.len() * jobs_of_one, cost, |job| {
            let (stack, queries) = (job / jobs_of_one, queries_of(job));
            let first = queries.start;
            let [query, .., place] = self.positions[stack];
            let masks = masks_of(stack);
            let part = Queries { attention: self, masks: &masks, q: &q[query..], stack, read, queries };
            let origin = Origin { place: place + first * self.sizes.output_stride, stride: self.sizes.output_stride };
            // SAFETY: stacks have different positions, which were made so that their outputs do not overlap, and jobs of one
            // stack have different queries.
            part.run(unsafe { output.from(origin.place) }, origin, &tensors);
        });
    }

    fn speed(&self) -> usize {
        bf16::speed_of(self.gemm)
    }

    fn hide(&mut self, hides: &dyn Fn(OperandId) -> bool) {
        // The same for all queries, with a number for each key.
        let is_hiding = |(op, mask): (&ScoreOp, &MaskOperand)| {
            matches!(op, ScoreOp::Mask([0, 1])) && mask.as_ref().is_some_and(|(id, _)| hides(*id))
        };
        self.hiding = self.ops.iter().zip(&self.masks).position(is_hiding);
    }
}

impl Attention {
    /// Stacks with the same keys and values, and few queries: each key and value is read once for all of them, where it is.
    fn few<'a>(
        &self,
        stacks: Range<usize>,
        of_stack: Range<usize>,
        (q, read): (&[f32], [Operand<'_>; 2]),
        masks_of: impl Fn(usize) -> SmallVec<[Mask<'a>; 4]>,
        output: Output<'_>,
        tensors: &[Stored<'_>],
    ) {
        let &Attention { gemm, sizes, ref ops, ref epilogue, instead_of_nan, .. } = self;
        let Sizes { depth, keys, columns, .. } = sizes;
        let queries = of_stack.len();
        let hidden = self.hidden(&masks_of(stacks.start));
        let keys = keys - hidden;
        let rows = stacks.len() * queries;
        let [of_keys, of_values] = self.lines(read, stacks.start, hidden);
        let room = Lines::room(read[0], rows, depth.max(columns));
        with_scratch(rows * (depth + keys + columns) + room, |scratch| {
            let (of_queries, rest) = scratch.split_at_mut(rows * depth);
            let (scores, rest) = rest.split_at_mut(rows * keys);
            let (results, room) = rest.split_at_mut(rows * columns);
            for row in 0..rows {
                let [query, ..] = self.positions[stacks.start + row / queries];
                let first = query + (of_stack.start + row % queries) * sizes.query_strides[0];
                for part in looks::parts(depth) {
                    for i in part {
                        of_queries[row * depth + i] = q[first + i * sizes.query_strides[1]];
                    }
                }
            }
            of_keys.dot_products(gemm.isa, of_queries, depth, scores, room);
            for (number, stack) in stacks.clone().enumerate() {
                let mut masks = masks_of(stack);
                for (mask, op) in masks.iter_mut().zip(ops) {
                    if let ScoreOp::Mask([_, step]) = op {
                        *mask = &mask[hidden * step..];
                    }
                }
                let masks = &masks[..];
                let scores = &mut scores[number * queries * keys..][..queries * keys];
                let (first_query, pauses) = (of_stack.start, looks::pauses(scores.len()));
                Weigh { ops, masks, first_query, keys, stride: keys, instead_of_nan, scores, pauses }.compute(gemm.isa);
            }
            of_values.weighted_sums(gemm.isa, scores, keys, results, room);
            for (number, stack) in stacks.enumerate() {
                let place = self.positions[stack][3] + of_stack.start * sizes.output_stride;
                // SAFETY: stacks have different positions, which were made so that their outputs do not overlap, and jobs of one
                // stack have different queries.
                let mut block = unsafe { output.from(place).block(0..queries, 0..columns) };
                for row in 0..queries {
                    block.row(row, 0..columns).copy_from_slice(&results[(number * queries + row) * columns..][..columns]);
                }
                if let Some(finish) =
                    epilogue.post_ops().on_block(gemm.isa, Origin { place, stride: sizes.output_stride }, tensors)
                {
                    finish.apply(&mut block, 0..queries, 0..columns);
                }
            }
        });
    }
}

impl Attention {
    /// The keys and the values of a stack, but for some in front.
    fn lines<'a>(&self, read: [Operand<'a>; 2], stack: usize, hidden: usize) -> [Lines<'a>; 2] {
        let Sizes { key_strides: [element, key], value_strides, .. } = self.sizes;
        let [_, first_key, first_value, _] = self.positions[stack];
        [read[0].lines(stack, first_key, [key, element], hidden), read[1].lines(stack, first_value, value_strides, hidden)]
    }

    /// How many keys in front need not be looked at. One is left.
    fn hidden(&self, masks: &[Mask<'_>]) -> usize {
        let (Some(op), most) = (self.hiding, self.sizes.keys.saturating_sub(1)) else { return 0 };
        let blocks = masks[op][..most].chunks_exact(LEFT_OUT);
        blocks.take_while(|block| block.iter().all(|&number| number == f32::NEG_INFINITY)).count() * LEFT_OUT
    }
}

impl Sizes {
    /// Nanoseconds, about.
    fn cost(&self) -> usize {
        self.queries.saturating_mul(self.keys).saturating_mul(self.depth + self.columns + 16) / 32
    }

    /// Whether keys and values lie so that they need not be packed.
    fn can_be_read(&self) -> bool {
        self.key_strides[0] == 1 && self.value_strides[1] == 1
    }
}

/// Some queries of a stack. The slices begin at the stack's first element.
struct Queries<'a> {
    attention: &'a Attention,
    masks: &'a [Mask<'a>],
    q: &'a [f32],
    stack: usize,
    /// Keys and values.
    read: [Operand<'a>; 2],
    queries: std::ops::Range<usize>,
}

impl Queries<'_> {
    /// Computes an output whose first row is that of the first query.
    fn run(&self, output: Output<'_>, origin: Origin, tensors: &[Stored<'_>]) {
        let &Attention { gemm, ref sizes, ref ops, ref epilogue, instead_of_nan, .. } = self.attention;
        let Sizes { depth, keys, columns, .. } = *sizes;
        let (q, queries) = (&self.q[self.queries.start * sizes.query_strides[0]..], self.queries.len());
        // Keys of tiles, which are half a panel wide at least.
        let padded_keys = keys.next_multiple_of(gemm.columns / 2);
        let (depth_steps, key_steps) = (gemm.steps(depth), gemm.steps(keys));
        // Scores become the left operand of a product, which reads their rows where they are.
        let stride = if is_crowded(gemm, padded_keys) { padded_keys + gemm.columns } else { padded_keys };
        let panels = |columns: usize| columns.next_multiple_of(gemm.columns);
        let room = Lines::room_to_pack(self.read[0], gemm, depth.max(keys));
        let lengths = [depth_steps * panels(keys), key_steps * panels(columns), gemm.rows * stride, room];
        let [of_keys, of_values] = self.attention.lines(self.read, self.stack, 0);
        with_scratch(lengths.iter().sum(), |scratch| {
            let mut rest = scratch;
            let [key_panels, value_panels, scores, room] =
                lengths.map(|length| rest.split_off_mut(..length).expect("the scratch has them all"));
            of_keys.pack_keys(gemm, depth, keys, key_panels, room);
            of_values.pack_values(gemm, keys, columns, value_panels, room);
            // Tiles of nearly the same height.
            let tiles = queries.div_ceil(gemm.rows);
            for tile in 0..tiles {
                let first = tile * queries / tiles;
                let height = (tile + 1) * queries / tiles - first;
                let scores = &mut scores[..height * stride];
                // SAFETY: the only block of it. What is after the last key are products with zeros.
                let mut block = unsafe { Output::new(scores, stride).block(0..height, 0..padded_keys) };
                let elements = q[first * sizes.query_strides[0]..].into();
                with_left(gemm, [height, depth], keys, elements, sizes.query_strides, |left| {
                    multiply(gemm, left, RightView { columns: padded_keys, panels: key_panels }, &mut block, None, None);
                });
                let (masks, first_query, pauses) = (self.masks, self.queries.start + first, looks::pauses(scores.len()));
                Weigh { ops, masks, first_query, keys, stride, instead_of_nan, scores, pauses }.compute(gemm.isa);
                // SAFETY: only one block of this output lives at a time.
                let mut block = unsafe { output.from(first * sizes.output_stride).block(0..height, 0..columns) };
                let place = origin.place + first * origin.stride;
                let finish = epilogue.post_ops().on_block(gemm.isa, Origin { place, ..origin }, tensors);
                let finish = finish.as_ref().map(|finish| finish as &dyn BlockEpilogue);
                let right = RightView { columns, panels: value_panels };
                if gemm.rounds() {
                    with_left(gemm, [height, keys], columns, (&*scores).into(), [stride, 1], |weights| {
                        multiply(gemm, weights, right, &mut block, None, finish);
                    });
                } else {
                    let weights = Left::in_place(height, keys, (&*scores).into(), stride);
                    multiply(gemm, weights, right, &mut block, None, finish);
                }
            }
        });
    }
}

/// Work of a job, in nanoseconds, at most: as long as what one thread may do before it looks whether its context has ended.
const LONGEST: usize = 10_000_000;

/// The scores of a block of queries stay in the cache from their product to that with the values.
pub static FUSED: Implementation = Implementation { name: "attention.fused", accept };
/// The same with operands and weights rounded to bfloat16; what becomes of the scores in between is computed in float32.
pub static BF16: Implementation = Implementation { name: "attention.bf16", accept: accept_bf16 };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    fused(target.isa.gemm, problem, target)
}

fn accept_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let gemm = bf16::for_products(target)?;
    let queries = problem.output.layout().0.iter().rev().nth(1).copied().unwrap_or(0);
    require(queries >= target.tuning.bf16_rows, "few queries for the rounding of keys and values")?;
    fused(gemm, problem, target)
}

fn fused<'a>(gemm: &'static Microkernels, problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (before, instead_of_nan) = match problem.prologue {
        [before @ .., Op::ReplaceNan(op)] => (before, op.number as f32),
        before => (before, f32::NAN),
    };
    let ([Op::Matmul(scores), between @ .., Op::Softmax(_)], Op::Matmul(product)) = (before, problem.op) else {
        return Err(Reject("not a product, a softmax and another product"));
    };
    let operands = [scores.a, scores.b, product.b];
    let [q, k, v] = operands.map(|id| problem.input(id));
    let form = form_of(problem, [k, v])?;
    const RANK: Reject = Reject("operands of fewer than 2 dimensions");
    let (_, &[queries, depth]) = q.shape.split_last_chunk::<2>().ok_or(RANK)?;
    let (_, &[_, keys]) = k.shape.split_last_chunk::<2>().ok_or(RANK)?;
    let &columns = v.shape.last().ok_or(RANK)?;
    let (shape, output_strides) = problem.output.layout();
    let stacks = &shape[..shape.len() - 2];
    let all_strides = [q, k, v].map(distances);
    let last = |strides: &[usize]| [strides[strides.len() - 2], strides[strides.len() - 1]];
    let [output_stride, 1] = last(&output_strides) else { return Err(Reject("an output whose rows do not lie together")) };
    let sizes = Sizes {
        queries,
        depth,
        keys,
        columns,
        query_strides: last(&all_strides[0]),
        key_strides: last(&all_strides[1]),
        value_strides: last(&all_strides[2]),
        output_stride,
    };
    let mut consumed = smallvec![];
    let ops = between.iter().map(|op| score_op(op, problem, stacks, &mut consumed)).collect::<Option<Vec<_>>>();
    let (ops, masks): (Vec<ScoreOp>, Vec<_>) =
        ops.ok_or(Reject("something else than a scale and a mask before the softmax"))?.into_iter().unzip();
    let (problem, threads) = (*problem, target.threads);
    let is_few = queries <= target.tuning.unpacked_queries && sizes.can_be_read();
    Ok(Box::new(move || {
        let stacks = &shape[..shape.len() - 2];
        // Where each matrix lies, and the lists that this is made of.
        memory::require(3 * stacks.iter().product::<usize>() * size_of::<[usize; 4]>())?;
        let [from_q, from_k, from_v] = std::array::from_fn(|i| places(leading([q, k, v][i].shape), &all_strides[i], stacks));
        let to = places(stacks, &output_strides, stacks);
        let positions: Vec<[usize; 4]> = (0..to.len()).map(|i| [from_q[i], from_k[i], from_v[i], to[i]]).collect();
        let mut epilogue = Epilogue::default();
        let fuses = epilogue.fuse(&problem, &mut consumed);
        // Each job packs the keys and values for itself, so no more of them than are needed.
        let least = sizes.cost().div_ceil(LONGEST);
        let is_shared = threads > 1 && positions.len() < 2 * threads;
        let of_one = if is_shared { (4 * threads).div_ceil(positions.len()).max(least) } else { least };
        let shared = shared(&positions, threads);
        let together = match is_few {
            true => (SCORES / (keys * shared.iter().map(Range::len).max().unwrap_or(1)).max(1)).clamp(1, queries.max(1)),
            false => queries.div_ceil(of_one.max(1)).next_multiple_of(gemm.rows),
        };
        let form = match form {
            Form::Numbers => Form::Numbers,
            Form::Halves => Form::Halves,
            Form::Bytes(ops) => Form::Bytes(Scales::of(ops, &problem, stacks)),
        };
        let hiding = None;
        let kernel = Attention {
            gemm,
            sizes,
            operands,
            positions,
            ops,
            masks,
            form,
            instead_of_nan,
            epilogue,
            is_few,
            together,
            shared,
            hiding,
        };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// Scores of a job at most where keys are read where they are, so that a core's second-level cache has them beside the keys.
const SCORES: usize = 64 << 10;

/// Stacks whose scores are computed together.
const MOST_STACKS: usize = 8;

/// Consecutive stacks with the same keys and values; where these would be too few jobs for the threads, so many parts of them that each thread has two.
fn shared(positions: &[[usize; 4]], threads: usize) -> Vec<Range<usize>> {
    let is_same = |[_, k, v, _]: &[usize; 4], [_, other_k, other_v, _]: &[usize; 4]| (k, v) == (other_k, other_v);
    let groups = positions.chunk_by(is_same).count();
    let is_enough = groups.is_multiple_of(threads.max(1)) || groups >= 4 * threads;
    let parts = if is_enough { 1 } else { (2 * threads).div_ceil(groups.max(1)) };
    let mut begin = 0;
    let mut all = Vec::new();
    for group in positions.chunk_by(is_same) {
        for part in group.chunks(group.len().div_ceil(parts).min(MOST_STACKS)) {
            all.push(begin..begin + part.len());
            begin += part.len();
        }
    }
    all
}

/// All but the last two dimensions.
fn leading(shape: &[usize]) -> &[usize] {
    &shape[..shape.len().saturating_sub(2)]
}

/// An operator between the scores and the softmax. What the compiler takes into an attention all is.
fn score_op(
    op: &Op,
    problem: &Problem<'_>,
    stacks: &[usize],
    consumed: &mut SmallVec<[usize; 2]>,
) -> Option<(ScoreOp, MaskOperand)> {
    let Op::Binary(Binary { kind, a, b }) = op else { return None };
    let id = if *a == RUNNING { *b } else { *a };
    let other: TensorDesc<'_> = problem.inputs[id.0 as usize];
    if let Some(&[number]) = other.elements() {
        consumed.push(id.0 as usize);
        return match kind {
            BinaryKind::Mul => Some((ScoreOp::Mul(number), None)),
            BinaryKind::Div if *a == RUNNING => Some((ScoreOp::Div(number), None)),
            BinaryKind::Add => Some((ScoreOp::Add(number), None)),
            _ => None,
        };
    }
    if *kind != BinaryKind::Add {
        return None;
    }
    let strides = distances(other);
    // From one index to the next of the last dimension, or of the one before it.
    let stride = |from_end: usize| {
        let axis = other.shape.len().checked_sub(from_end)?;
        (other.shape[axis] > 1).then(|| strides[axis])
    };
    let steps = [stride(2).unwrap_or(0), stride(1).unwrap_or(0)];
    Some((ScoreOp::Mask(steps), Some((id, places(leading(other.shape), &strides, stacks)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stacks of each job, of `groups` keys and values that `of_one` stacks have each.
    fn jobs(groups: usize, of_one: usize, threads: usize) -> Vec<usize> {
        let positions: Vec<[usize; 4]> =
            (0..groups * of_one).map(|stack| [stack, stack / of_one, stack / of_one, stack]).collect();
        let all = shared(&positions, threads);
        assert!(all.iter().map(|job| job.end).eq(all.iter().skip(1).map(|job| job.start).chain([positions.len()])));
        let is_of_one = |job: &Range<usize>| job.start / of_one == (job.end - 1) / of_one;
        assert!(all.iter().all(is_of_one));
        all.iter().map(Range::len).collect()
    }

    #[test]
    fn keys_and_values_are_read_by_few_jobs_and_each_thread_has_some() {
        assert_eq!(jobs(3, 3, 1), [3; 3]);
        assert_eq!(jobs(3, 3, 2), [2, 1, 2, 1, 2, 1]);
        assert_eq!(jobs(2, 3, 2), [3, 3]);
        assert_eq!(jobs(1, 8, 2), [2; 4]);
        assert_eq!(jobs(8, 4, 16), [1; 32]);
        assert_eq!(jobs(9, 1, 2), [1; 9]);
        assert_eq!(jobs(2, 20, 2), [8, 8, 4, 8, 8, 4]);
    }
}
