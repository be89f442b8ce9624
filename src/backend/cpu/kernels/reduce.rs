//! Sums, means, norms and extremes of float32 along axes.
//!
//! The numbers of an output that lie side by side are a *run*, which vectors go along. Where there is no run, outputs lie
//! side by side, as do their first numbers, their second ones, and so on; then a vector has a number of each output, and
//! memory is read row by row. Sums are float64 ones, as those of the reference kernel: they neither overflow nor cancel.

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::reduction::axes::{self, Kind};

/// Runs and rows shorter than this leave the vectors empty.
const SHORTEST: usize = 4;
/// Outputs that are computed together: their totals stay in the first-level cache.
const OUTPUTS_OF_BLOCK: usize = 1024;
/// Fewer numbers are not worth a part of their own.
const LEAST_PART: usize = 1 << 14;
/// Nested loops, innermost first: their sizes, and the distances in the input.
type Loops = Vec<(usize, usize)>;

#[derive(Debug)]
struct Reduction {
    isa: &'static Isa,
    kind: Kind,
    input: OperandId,
    /// Those over the output.
    kept: Loops,
    /// Those over the numbers of an output, without the run.
    reduced: Loops,
    run: usize,
    /// The numbers of an output.
    count: usize,
    /// Into how many parts these are divided, where there are too few outputs for the threads.
    parts: usize,
}

/// Reductions along any axes.
pub static AXES: Implementation = Implementation { name: "reduce.axes", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Reduce(op) = problem.op else { return Err(Reject("not a reduction")) };
    let kind = match op.kind {
        ReduceKind::Sum => Kind::Sum,
        ReduceKind::L1 => Kind::Sizes,
        ReduceKind::SumSquare => Kind::Squares,
        ReduceKind::L2 => Kind::Norm,
        ReduceKind::LogSum => Kind::LogSum,
        ReduceKind::Mean => Kind::Mean,
        ReduceKind::Max => Kind::Greatest,
        ReduceKind::Min => Kind::Smallest,
        ReduceKind::Product | ReduceKind::LogSumExp => return Err(Reject("a product or a logarithm of exponentials")),
    };
    let shape = problem.input(op.input).shape;
    let kernel = Reduction::new(target, kind, op.input, shape, |axis| op.reduces(axis)).ok_or(SHORT_ROWS)?;
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

const SHORT_ROWS: Reject = Reject("rows too short for vectors");

/// Pooling of whole images, with the channels first.
pub static GLOBAL_NCHW: Implementation = Implementation { name: "pool.global_nchw", accept: accept_pool };

fn accept_pool<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Pool2d(op) = problem.op else { return Err(Reject("not a pooling")) };
    let kind = match op.kind {
        Pool2dKind::Average => Kind::Mean,
        Pool2dKind::L2 => Kind::Norm,
        Pool2dKind::Max => Kind::Greatest,
    };
    let shape = problem.input(op.input).shape;
    require(op.layout == InputOperandLayout::Nchw, "channels not first")?;
    require(op.is_global([shape[2] as u32, shape[3] as u32]), "a window smaller than the image")?;
    let kernel = Reduction::new(target, kind, op.input, shape, |axis| axis >= 2).ok_or(SHORT_ROWS)?;
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

impl Reduction {
    fn new(
        target: &Target,
        kind: Kind,
        input: OperandId,
        shape: &[usize],
        is_reduced: impl Fn(usize) -> bool,
    ) -> Option<Reduction> {
        let Target { isa, threads, .. } = *target;
        let (mut kept, mut reduced) = (Loops::new(), Loops::new());
        let mut distance = 1;
        for (axis, &size) in shape.iter().enumerate().rev().filter(|(_, size)| **size != 1) {
            let loops = if is_reduced(axis) { &mut reduced } else { &mut kept };
            match loops.last_mut() {
                // Dimensions that follow each other are one loop.
                Some((inner, step)) if *step * *inner == distance => *inner *= size,
                _ => loops.push((size, distance)),
            }
            distance *= size;
        }
        let of_loops = |loops: &[(usize, usize)]| loops.iter().map(|(size, _)| size).product::<usize>();
        let (outputs, count) = (of_loops(&kept), of_loops(&reduced));
        let has_run = reduced.first()?.1 == 1;
        let run = if has_run { reduced.remove(0).0 } else { 1 };
        let row = if has_run { run } else { kept.first()?.0 };
        // Neighbours in a row should be as long as a few lines of the cache.
        let least_outputs = threads * 4 * if has_run { 1 } else { 256 };
        let parts = match threads {
            1 => 1,
            _ if outputs >= least_outputs => 1,
            _ => (threads * 4).min(outputs.saturating_mul(count) / LEAST_PART).min(count).max(1),
        };
        (row >= SHORTEST).then_some(Reduction { isa, kind, input, kept, reduced, run, count, parts })
    }

    fn axes(&self) -> axes::Reduction<'_> {
        let Reduction { kind, run, count, .. } = *self;
        axes::Reduction { kind, kept: &self.kept, reduced: &self.reduced, run, count, pauses: looks::pauses(count) }
    }
}

impl Kernel for Reduction {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let outputs = arguments.output().elements::<f32>();
        let (axes, isa, count) = (self.axes(), self.isa, self.count);
        assert_eq!(input.len(), outputs.len() * count);
        if self.parts == 1 {
            return for_each_piece(outputs, 1, count / 8, |first, piece| {
                let mut totals = [0.0; OUTPUTS_OF_BLOCK];
                for (i, outputs) in piece.chunks_mut(OUTPUTS_OF_BLOCK).enumerate() {
                    let totals = &mut totals[..outputs.len()];
                    axes.totals(isa, input, first + i * OUTPUTS_OF_BLOCK, 0..count, totals);
                    axes.finish(isa, totals, outputs);
                }
            });
        }
        let mut all = scratch::zeroed::<f64>(self.parts * outputs.len());
        for_each_piece(&mut all, outputs.len(), input.len() / 8 / self.parts, |first, piece| {
            for (part, totals) in (first..).zip(piece.chunks_exact_mut(outputs.len())) {
                let range = part * count / self.parts..(part + 1) * count / self.parts;
                for (i, totals) in totals.chunks_mut(OUTPUTS_OF_BLOCK).enumerate() {
                    axes.totals(isa, input, i * OUTPUTS_OF_BLOCK, range.clone(), totals);
                }
            }
        });
        let (totals, others) = all.split_at_mut(outputs.len());
        for others in others.chunks_exact(outputs.len()) {
            totals.iter_mut().zip(others).for_each(|(total, &other)| *total = axes.join(*total, other));
        }
        axes.finish(isa, totals, outputs);
    }
}
