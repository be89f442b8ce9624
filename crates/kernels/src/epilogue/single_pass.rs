//! What is done to the numbers of a tile in one pass over them: the first post-ops of an epilogue, as far as they are of the kinds
//! that quantized networks have and in their order, and the quantization if nothing else is left. Operator by operator each would read
//! and write all numbers.
#![allow(unsafe_code)]

use crate::bf16::narrow::Stored;
use crate::epilogue::post_ops::{Operation, PostOp, With};
use crate::functions::Function;
use crate::functions::exact_division::Divisor;
use crate::functions::formulas::{Formula, Rounding};
use crate::isa::Isa;
use crate::quantize::Steps;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use std::ops::Range;

/// The post-ops, in this order; each may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass<'a> {
    times: Option<f32>,
    /// A number for each column is added.
    row: Option<&'a [f32]>,
    rounded: Option<Rounding>,
    /// A tensor of the output's shape is added.
    tensor: Option<&'a [f32]>,
    bounds: Option<[f32; 2]>,
    rounded_again: Option<Rounding>,
    /// How many post-ops these are, and how many tensors they have.
    pub post_ops: usize,
    pub tensors: usize,
}

impl<'a> Pass<'a> {
    /// As many of the first post-ops as there is a place for.
    pub fn of(post_ops: &'a [PostOp], tensors: &[Stored<'a>]) -> Pass<'a> {
        let mut pass = Pass::default();
        let mut given = tensors.iter().map(|tensor| tensor.numbers());
        let mut next = 0;
        for post_op in post_ops {
            // The places are numbered in their order.
            let place = match post_op {
                PostOp::Binary(Operation::Mul, With::Number(_) | With::Single) => 0,
                PostOp::Binary(Operation::Add, With::Row(_) | With::Line) => 1,
                PostOp::Formula(Formula::Steps(_)) if next <= 2 => 2,
                PostOp::Binary(Operation::Add, With::Tensor) => 3,
                PostOp::Formula(Formula::Clamp(..) | Formula::Of(Function::Relu)) => 4,
                PostOp::Formula(Formula::Steps(_)) => 5,
                _ => break,
            };
            if place < next {
                break;
            }
            match post_op {
                PostOp::Binary(Operation::Mul, With::Number(number)) => pass.times = Some(*number),
                PostOp::Binary(Operation::Mul, _) => pass.times = given.next().map(|tensor| tensor[0]),
                PostOp::Binary(_, With::Row(row)) => pass.row = Some(row),
                PostOp::Binary(_, With::Line) => pass.row = given.next(),
                PostOp::Binary(..) => pass.tensor = given.next(),
                &PostOp::Formula(Formula::Steps(rounding)) => {
                    *(if place == 2 { &mut pass.rounded } else { &mut pass.rounded_again }) = Some(rounding);
                }
                &PostOp::Formula(Formula::Clamp(low, high)) => pass.bounds = Some([low, high]),
                PostOp::Formula(_) => pass.bounds = Some([0.0, f32::INFINITY]),
            }
            (next, pass.post_ops) = (place + 1, pass.post_ops + 1);
        }
        pass.tensors = tensors.len() - given.count();
        pass
    }
}

/// Where the results go: the first row of the tile, from its first column on.
#[derive(Clone, Copy)]
pub enum To {
    /// With the distance of the rows.
    Numbers(*mut f32, usize),
    Bytes(*mut u8, usize, Steps),
}

/// A pass over a tile.
pub struct PassOver<'a> {
    pass: &'a Pass<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
    /// Elements from one row of the output to the next.
    stride: usize,
    from: *const f32,
    width: usize,
    to: To,
}

impl<'a> PassOver<'a> {
    /// # Safety
    /// There must be the columns of each row at `from`, whose distance is `width`, and room for the results; results may be
    /// written where the numbers were. Nobody else may access the two meanwhile.
    ///
    /// # Panics
    /// When the post-ops' own numbers are too few.
    pub unsafe fn new(
        pass: &'a Pass<'a>,
        [rows, columns]: [Range<usize>; 2],
        stride: usize,
        (from, width): (*const f32, usize),
        to: To,
    ) -> Self {
        assert!(pass.row.is_none_or(|row| columns.end <= row.len()));
        assert!(columns.start <= columns.end && columns.end <= stride && rows.start < rows.end);
        assert!(pass.tensor.is_none_or(|tensor| (rows.end - 1) * stride + columns.end <= tensor.len()));
        PassOver { pass, rows, columns, stride, from, width, to }
    }
}

// What a pass has, as bits.
const TIMES: u32 = 1;
const ROW: u32 = 2;
const ROUNDED: u32 = 4;
const TENSOR: u32 = 8;
const BOUNDS: u32 = 16;
const ROUNDED_AGAIN: u32 = 32;
const BYTES: u32 = 64;
/// Columns that do not fill vectors.
const ODD: u32 = 128;
/// Quotients that only divisions make.
const DIVIDES: u32 = 256;
/// Stands for all sets of them: what there is is looked up for each vector, which costs as much as the arithmetic.
const ANY: u32 = u32::MAX;

impl PassOver<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for PassOver<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let pass = self.pass;
        let divides = |rounding: Option<Rounding>| rounding.is_some_and(|rounding| rounding.divides::<V>());
        let quantizes = matches!(self.to, To::Bytes(_, _, steps) if steps.divisor.divides::<V>());
        let there = [
            (TIMES, pass.times.is_some()),
            (ROW, pass.row.is_some()),
            (ROUNDED, pass.rounded.is_some()),
            (TENSOR, pass.tensor.is_some()),
            (BOUNDS, pass.bounds.is_some()),
            (ROUNDED_AGAIN, pass.rounded_again.is_some()),
            (BYTES, matches!(self.to, To::Bytes(..))),
            (ODD, !self.columns.len().is_multiple_of(V::LANES)),
            // Without fused products nothing else does.
            (DIVIDES, V::IS_FUSED && (quantizes || divides(pass.rounded) || divides(pass.rounded_again))),
        ];
        let mut has = 0;
        for (bit, is_there) in there {
            has |= if is_there { bit } else { 0 };
        }
        macro_rules! either {
            ($($bits:expr),*) => { $( if has == $bits { return over::<V, { $bits }>(has, self) } )* };
        }
        either!(
            ROW | BYTES,
            ROW | ROUNDED,
            ROW | TENSOR | BYTES,
            ROW | ROUNDED | TENSOR | BYTES,
            ROW | BOUNDS | BYTES,
            ROW,
            TIMES | ROW,
            TIMES | ROW | TENSOR
        );
        over::<V, ANY>(has, self);
    }
}

/// The pass, of which it is known that it has certain post_ops.
#[inline(always)]
fn over<V: Vector, const KNOWN: u32>(has: u32, work: PassOver<'_>) {
    let has = if KNOWN == ANY { has } else { KNOWN };
    let PassOver { pass, rows, columns, stride, from, width, to } = work;
    let times = V::splat(pass.times.unwrap_or(1.0));
    let divides = has & DIVIDES != 0;
    let no_divisor = Divisor::new(1.0, [0.0; 2]);
    let none = Rounding::new(1.0, [0.0; 2], 0.0, [0.0; 2], 0.0);
    let (rounded, rounded_again) = (pass.rounded.unwrap_or(none).on::<V>(), pass.rounded_again.unwrap_or(none).on::<V>());
    let [low, high] = pass.bounds.unwrap_or_default();
    let (low, high) = (V::splat(low), V::splat(high));
    let (numbers, bytes, distance, steps) = match to {
        To::Numbers(numbers, distance) => (numbers, std::ptr::null_mut(), distance, Steps { divisor: no_divisor, zero: 0 }),
        To::Bytes(bytes, distance, steps) => (std::ptr::null_mut(), bytes, distance, steps),
    };
    let divisor = steps.divisor.on::<V>();
    let row_numbers = pass.row.unwrap_or_default().as_ptr();
    let tensor = pass.tensor.unwrap_or_default().as_ptr();
    for row in 0..rows.len() {
        let mut j = 0;
        while j < columns.len() {
            let count = if has & ODD == 0 { V::LANES } else { V::LANES.min(columns.len() - j) };
            // SAFETY: `count` columns from number `j` on are inside of what `PassOver::new` was promised and what it asserted of what
            // there is; a whole vector is loaded and stored only where there is one. Places are reached without going over what
            // is not there.
            unsafe {
                let mut x = load::<V>(from.add(row * width + j), count);
                if has & TIMES != 0 {
                    x = x.mul(times);
                }
                if has & ROW != 0 {
                    x = x.add(load(row_numbers.add(columns.start + j), count));
                }
                if has & ROUNDED != 0 {
                    x = rounded.round(x, divides);
                }
                if has & TENSOR != 0 {
                    x = x.add(load(tensor.add((rows.start + row) * stride + columns.start + j), count));
                }
                if has & BOUNDS != 0 {
                    x = x.max(low).min(high);
                }
                if has & ROUNDED_AGAIN != 0 {
                    x = rounded_again.round(x, divides);
                }
                if has & BYTES != 0 {
                    divisor.quotient(x, divides).store_bytes(steps.zero, bytes.add(row * distance + j), count);
                } else if count == V::LANES {
                    x.store(numbers.add(row * distance + j));
                } else {
                    x.store_first(numbers.add(row * distance + j), count);
                }
            }
            j += V::LANES;
        }
    }
}

/// # Safety
/// There must be `count` numbers at `from`, at most [`Vector::LANES`](crate::simd::vector_bundle::VectorBundle::LANES).
#[inline(always)]
unsafe fn load<V: Vector>(from: *const f32, count: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { if count == V::LANES { V::load(from) } else { V::load_first(from, count) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epilogue::post_ops::{PostOps, Row, Tile};
    use crate::quantize::Quantize;
    use crate::testing::numbers;

    const ROUND: f32 = 12_582_912.0;

    fn steps(size: f32) -> PostOp {
        PostOp::Formula(Formula::Steps(Rounding::new(size, [-3.0, 252.0], -3.0, [ROUND; 2], size)))
    }

    /// The same to the last bit as post-op by post-op; what is not a number may have any bits.
    fn check(post_ops: Vec<PostOp>, in_pass: usize, quantize: Option<Steps>) {
        const WIDTH: usize = 32;
        let (rows, stride) = (5..9, 70);
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e30, -1e30, 0.25, 0.75, -0.25, 1e-40];
        let of_tile: Vec<f32> = numbers(WIDTH * 4, 5)
            .iter()
            .enumerate()
            .map(|(i, x)| if i % 5 == 0 { special[i / 5 % 10] } else { x * 40.0 })
            .collect();
        let (row, line) = (Row::new(numbers(stride, 6)), numbers(stride, 7));
        let (single, tensor) = ([1.75f32], numbers(stride * 9, 8));
        let post_ops: Vec<PostOp> = post_ops
            .into_iter()
            .map(|post_op| match post_op {
                PostOp::Binary(operation, With::Row(_)) => PostOp::Binary(operation, With::Row(row.clone())),
                other => other,
            })
            .collect();
        let epilogue = PostOps::new(&post_ops);
        let tensors: Vec<Stored<'_>> = post_ops
            .iter()
            .filter_map(|post_op| match post_op {
                PostOp::Binary(_, With::Single) => Some(Stored::Float32(&single)),
                PostOp::Binary(_, With::Line) => Some(Stored::Float32(&line)),
                PostOp::Binary(_, With::Tensor) => Some(Stored::Float32(&tensor)),
                _ => None,
            })
            .collect();
        for isa in Isa::available() {
            for columns in [0..32, 1..2, 16..48, 33..64, 40..57, 64..70] {
                let pass = Pass::of(&post_ops, &tensors);
                assert_eq!(pass.post_ops, in_pass, "{post_ops:?}");
                let is_all = pass.post_ops == post_ops.len();
                let quantize = quantize.filter(|_| is_all);
                let tile = || Tile { rows: rows.clone(), columns: columns.clone(), stride, width: WIDTH };
                let mut expected = of_tile.clone();
                epilogue.apply_tile(isa, tile(), &tensors, &mut expected);
                let mut found = of_tile.clone();
                let mut bytes = vec![9u8; rows.len() * stride];
                let to = match quantize {
                    Some(steps) => To::Bytes(bytes.as_mut_ptr(), stride, steps),
                    None => To::Numbers(found.as_mut_ptr(), WIDTH),
                };
                let place = [rows.clone(), columns.clone()];
                // SAFETY: the tile has four rows of WIDTH numbers, more than the columns, and the bytes as many rows.
                unsafe { PassOver::new(&pass, place, stride, (found.as_mut_ptr(), WIDTH), to) }.compute(isa);
                epilogue.after(pass.post_ops).apply_tile(isa, tile(), &tensors[pass.tensors..], &mut found);
                for r in 0..rows.len() {
                    let expected = &expected[r * WIDTH..][..columns.len()];
                    let name = format!("{} {columns:?} row {r}: {post_ops:?}", isa.name);
                    if let Some(steps) = quantize {
                        let mut wanted = vec![0u8; columns.len()];
                        Quantize { numbers: expected, bytes: &mut wanted, steps }.compute(isa);
                        assert_eq!(bytes[r * stride..][..columns.len()], wanted, "{name}");
                        assert!(bytes[r * stride + columns.len()..][..stride - columns.len()].iter().all(|&byte| byte == 9));
                    } else {
                        let bits = |list: &[f32]| -> Vec<u32> {
                            list.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
                        };
                        assert_eq!(bits(&found[r * WIDTH..][..columns.len()]), bits(expected), "{name}");
                        assert_eq!(
                            bits(&found[r * WIDTH + columns.len()..(r + 1) * WIDTH]),
                            bits(&of_tile[r * WIDTH + columns.len()..(r + 1) * WIDTH])
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_pass_gives_the_bits_of_all_post_ops() {
        use Operation::{Add, Mul, Sub};
        let row = || PostOp::Binary(Add, With::Row(Row::new([])));
        let line = || PostOp::Binary(Add, With::Line);
        let single = || PostOp::Binary(Mul, With::Single);
        let number = || PostOp::Binary(Mul, With::Number(0.3));
        let tensor = || PostOp::Binary(Add, With::Tensor);
        let relu = || PostOp::Formula(Formula::Of(Function::Relu));
        let clamp = || PostOp::Formula(Formula::Clamp(-1.0, 6.0));
        let steps_of = |divisor| Some(Steps { divisor, zero: -20 });
        let (size, bounds) = (0.37, [-108.0, 147.0]);
        for quantize in [steps_of(Divisor::of_many(size, bounds)), steps_of(Divisor::new(size, bounds)), None] {
            for (post_ops, in_pass) in [
                (vec![row()], 1),
                (vec![row(), steps(0.5)], 2),
                (vec![row(), tensor()], 2),
                (vec![row(), steps(0.5), tensor()], 3),
                (vec![row(), steps(1e-30), tensor()], 3),
                (vec![row(), clamp()], 2),
                (vec![single(), row()], 2),
                (vec![number(), row(), tensor()], 3),
                (vec![single(), line(), steps(0.3), tensor(), relu(), steps(0.7)], 6),
                (vec![clamp(), steps(0.3)], 2),
                (vec![steps(0.3)], 1),
                // What has no place in the order is left.
                (vec![relu(), row(), tensor()], 1),
                (vec![steps(0.5), steps(0.25), tensor()], 2),
                (vec![row(), PostOp::Binary(Sub, With::Line), tensor()], 1),
                (vec![PostOp::Formula(Formula::Of(Function::Abs)), tensor()], 0),
            ] {
                check(post_ops, in_pass, quantize);
            }
        }
    }
}
