//! The greatest or smallest number of each line of float32 numbers that lie side by side, or of all of them.

use super::isa::{Isa, Loop};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use smallvec::smallvec;

/// Numbers that are compared side by side, so that they become vectors.
const TOGETHER: usize = 64;
/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

#[derive(Debug)]
struct Extreme {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
    /// Turns the order around.
    smallest: bool,
}

pub fn select(op: &Reduce, site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    let smallest = match op.kind {
        ReduceKind::Max => false,
        ReduceKind::Min => true,
        _ => return None,
    };
    let shape = site.inputs[op.input.0 as usize].shape;
    let is_reduced = |axis: usize| op.axes.as_ref().is_none_or(|axes| axes.contains(&(axis as u32)));
    // The last axes, or those beside which there is only one index.
    let first = (0..shape.len()).find(|&axis| is_reduced(axis) && shape[axis] != 1)?;
    let are_last = (first..shape.len()).all(|axis| is_reduced(axis) || shape[axis] == 1);
    let length: usize = shape[first..].iter().product();
    let kernel = || Box::new(Extreme { isa, input: op.input, length, smallest });
    (are_last && length >= SHORTEST).then(|| Selection { kernel: kernel(), taken: smallvec![], fuses: site.fused.is_empty() })
}

impl Kernel for Extreme {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let length = self.length;
        for_each_piece(arguments.output().elements::<f32>(), 1, length / 8, |first, outputs| {
            let lines = input[first * length..].chunks_exact(length);
            for (output, line) in outputs.iter_mut().zip(lines) {
                self.isa.run_loop(Line { line, output, smallest: self.smallest });
            }
        });
    }
}

struct Line<'a> {
    line: &'a [f32],
    output: &'a mut f32,
    smallest: bool,
}

/// An integer that is ordered as the number is, -0 below 0; and the way back.
#[inline(always)]
fn key(bits: u32) -> i32 {
    let bits = bits as i32;
    bits ^ (bits >> 31 & i32::MAX)
}

impl Loop for Line<'_> {
    #[inline(always)]
    fn run(self) {
        let Line { line, output, smallest } = self;
        let turn = if smallest { -1 } else { 0 };
        let mut greatest = [i32::MIN; TOGETHER];
        // Not zero where something was not a number.
        let mut spoilt = [0u32; TOGETHER];
        let (groups, rest) = line.as_chunks::<TOGETHER>();
        for group in groups {
            for i in 0..TOGETHER {
                let ordered = key(group[i].to_bits()) ^ turn;
                greatest[i] = greatest[i].max(ordered);
                spoilt[i] |= group[i].is_nan() as u32;
            }
        }
        for (i, x) in rest.iter().enumerate() {
            greatest[i] = greatest[i].max(key(x.to_bits()) ^ turn);
            spoilt[i] |= x.is_nan() as u32;
        }
        let mut all = i32::MIN;
        let mut any = 0;
        for i in 0..TOGETHER {
            all = all.max(greatest[i]);
            any |= spoilt[i];
        }
        *output = if any != 0 { f32::NAN } else { f32::from_bits(key((all ^ turn) as u32) as u32) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::{check, check_with};

    #[test]
    fn lines_and_everything() {
        for kind in [ReduceKind::Max, ReduceKind::Min] {
            let op = |axes: Option<&[u32]>| Reduce {
                kind,
                input: OperandId(0),
                axes: axes.map(<[u32]>::to_vec),
                keep_dimensions: false,
            };
            for length in [16, 63, 64, 65, 300] {
                check(op(Some(&[2])), &[(vec![3, 1, length], false)], &[3, 1]);
                check(op(None), &[(vec![3, 1, length], false)], &[]);
                check_with(op(Some(&[1])), &[], &[(vec![4, length], false)], &[4], |data| {
                    (data[3], data[length + 5], data[2 * length - 1]) = (f32::NEG_INFINITY, f32::NAN, f32::INFINITY);
                    data[2 * length..3 * length].fill(-0.0);
                });
            }
        }
    }
}
