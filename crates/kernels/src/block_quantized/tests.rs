//! Every number of bits, kind of scales and zero points, and instruction set, against sums in float64 of what the bits say.

use super::*;
use crate::functions::{float16, from_float16};
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::testing::numbers;

/// A product: its bits, depth, columns and block, and how its weights lie.
struct Case {
    bits: usize,
    depth: usize,
    columns: usize,
    block: usize,
    coding: Coding,
    by_depth: bool,
    high_first: bool,
    /// None, packed, float32.
    zeros: usize,
    has_book: bool,
    scales: ScaleKind,
}

/// All combinations that there are, each with some sizes.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for bits in [2, 3, 4, 8, 16] {
        for (number, (depth, columns, block)) in
            [(64, 70, 32), (1, 1, 16), (40, 33, 16), (100, 17, 256), (90, 96, 30), (256, 20, 128)].into_iter().enumerate()
        {
            for zeros in 0..3 {
                for has_book in [false, true] {
                    for by_depth in [false, true] {
                        if has_book && bits > 4 || bits == 16 && zeros > 0 {
                            continue;
                        }
                        let coding = [Coding::Unsigned, Coding::Offset, Coding::Signed][(number + zeros) % 3];
                        let coding = if bits == 16 { Coding::Float16 } else { coding };
                        let high_first = bits == 4 && !by_depth && number % 2 == 0;
                        let scales = [ScaleKind::Float32, ScaleKind::Float16, ScaleKind::Short][number % 3];
                        cases.push(Case { bits, depth, columns, block, coding, by_depth, high_first, zeros, has_book, scales });
                    }
                }
            }
        }
    }
    cases
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    numbers(count, seed).iter().map(|x| ((x + 1.0) * 128.0) as u8).collect()
}

/// The operands of a case, and the matrix that they stand for.
struct Made {
    weights: Vec<u8>,
    points: Vec<u8>,
    scales: Vec<u8>,
    halves: Vec<u8>,
    numbers: Vec<u8>,
    book: Vec<f32>,
    matrix: Vec<f64>,
}

fn make(case: &Case) -> Made {
    let Case { bits, depth, columns, block, coding, by_depth, high_first, zeros, has_book, scales: kind } = *case;
    let (blocks, of_bytes) = (depth.div_ceil(block), |count: usize| (count * bits).div_ceil(8));
    let row = if by_depth { of_bytes(columns) } else { blocks * of_bytes(block) };
    let zero_row = of_bytes(if by_depth { columns } else { blocks });
    let mut weights = bytes(row * if by_depth { depth } else { columns }, 1);
    if bits == 16 {
        // Of exponents below the greatest.
        weights.iter_mut().skip(1).step_by(2).for_each(|high| *high &= 0xbf);
    }
    let points = bytes(zero_row * if by_depth { blocks } else { columns }, 2);
    let scales = numbers(blocks * columns, 3);
    let scales: Vec<f32> = scales.iter().map(|&x| if kind == ScaleKind::Float32 { x } else { float16(x) }).collect();
    let halves: Vec<u16> = scales.iter().map(|&x| half::f16::from_f32(x).to_bits()).collect();
    let points_of_numbers: Vec<f32> = numbers(blocks * columns, 4).iter().map(|x| x * 10.0).collect();
    let book = numbers(1 << bits.min(8), 5);
    let number = |bytes: &[u8], first: usize| {
        let bit = |i: usize| usize::from(bytes[(first + i) / 8] >> ((first + i) % 8) & 1);
        let code: usize = (0..bits).map(|i| bit(i) << i).sum();
        let half = (1 << (bits - 1)) as f64;
        match coding {
            _ if has_book => f64::from(book[code]),
            Coding::Float16 => f64::from(from_float16(code as u16)),
            Coding::Unsigned => code as f64,
            Coding::Offset => code as f64 - half,
            Coding::Signed if code as f64 >= half => code as f64 - 2.0 * half,
            Coding::Signed => code as f64,
        }
    };
    let element = |k: usize, column: usize| {
        let weight = match by_depth {
            true => number(&weights[k * row..][..row], column * bits),
            false => {
                let within = if high_first { (k % block) ^ 1 } else { k % block };
                let first = k / block * of_bytes(block);
                number(&weights[column * row + first..][..of_bytes(block)], within * bits)
            }
        };
        let place = if by_depth { k / block * columns + column } else { column * blocks + k / block };
        let zero = match zeros {
            0 => 0.0,
            1 if by_depth => number(&points[k / block * zero_row..][..zero_row], column * bits),
            1 => number(&points[column * zero_row..][..zero_row], k / block * bits),
            _ => f64::from(points_of_numbers[place]),
        };
        let scale = scales[place];
        (weight - zero) * f64::from(scale)
    };
    let matrix = (0..depth * columns).map(|i| element(i / columns, i % columns)).collect();
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let halves = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
    Made { weights, points, scales: bytes(&scales), halves, numbers: bytes(&points_of_numbers), book, matrix }
}

/// What scales are, and whether float16 holds them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ScaleKind {
    Float32,
    Float16,
    /// float32, though float16 numbers.
    Short,
}

impl Case {
    fn source<'a>(&self, made: &'a Made) -> Source<'a> {
        Source {
            bits: self.bits,
            columns: self.columns,
            depth: self.depth,
            block: self.block,
            coding: self.coding,
            by_depth: self.by_depth,
            high_first: self.high_first,
            code_book: self.has_book.then_some(made.book.as_slice()),
            weights: &made.weights,
            scales: if self.scales == ScaleKind::Float16 { Floats::Float16(&made.halves) } else { Floats::Float32(&made.scales) },
            zeros: match self.zeros {
                0 => None,
                1 => Some(Points::Packed(&made.points)),
                _ => Some(Points::Numbers(Floats::Float32(&made.numbers))),
            },
        }
    }

    fn what(&self) -> String {
        let Case { bits, depth, columns, block, coding, by_depth, high_first, zeros, has_book, scales } = self;
        format!(
            "{bits} bits, {depth} x {columns} in blocks of {block}, {coding:?}, by depth {by_depth}, high first {high_first}, \
             zeros {zeros}, book {has_book}, scales {scales:?}"
        )
    }
}

fn table(book: &[f32]) -> [f32; 16] {
    std::array::from_fn(|i| book.get(i).copied().unwrap_or(0.0))
}

#[test]
fn rows_of_float32() {
    for case in cases() {
        let made = make(&case);
        let (depth, columns) = (case.depth, case.columns);
        for isa in Isa::available() {
            let source = case.source(&made);
            let format = source.format(isa.lanes(), false);
            let mut packed = vec![0; format.bytes()];
            source.pack(&format, &mut packed, Pauses::NONE);
            let book = table(&made.book);
            let weights = Weights::new(&format, case.has_book.then_some(&book), &packed);
            let mut expanded = vec![f32::NAN; depth * isa.gemm.columns];
            for panel in 0..format.panels().div_ceil(2) {
                unpack::Unpack { weights, panel, to: &mut expanded, pauses: Pauses::NONE }.compute(isa);
                for (i, found) in expanded.iter().enumerate() {
                    let (k, column) = (i / isa.gemm.columns, panel * isa.gemm.columns + i % isa.gemm.columns);
                    let expected = if column < columns { made.matrix[k * columns + column] } else { 0.0 };
                    let error = (f64::from(*found) - expected).abs();
                    assert!(error <= 1e-4 * expected.abs().max(1.0), "{} {}: {found} at {k}, {column}", isa.name, case.what());
                }
            }
            for count in 1..=MOST_ROWS {
                let left = numbers(count * depth, 7);
                let mut padded = vec![f32::NAN; count * format.padded_depth()];
                let mut sums = vec![f32::NAN; count * format.blocks()];
                float32::Pad { format: &format, from: &left, numbers: &mut padded, sums: &mut sums, pauses: Pauses::NONE }
                    .compute(isa);
                let stride = format.panels() * isa.lanes();
                let mut output = vec![f32::NAN; count * stride];
                let rows = float32::Rows { numbers: &padded, sums: &sums };
                float32::multiply(isa, &weights, rows, 0..format.panels(), &mut output, Pauses::NONE);
                for (row, left) in left.chunks_exact(depth).enumerate() {
                    for column in 0..columns {
                        let terms = (0..depth).map(|k| f64::from(left[k]) * made.matrix[k * columns + column]);
                        let magnitude = (1 << case.bits.min(8)) as f64 * depth as f64;
                        let (expected, found) = (terms.sum::<f64>(), f64::from(output[row * stride + column]));
                        assert!(
                            (expected - found).abs() <= 1e-6 * magnitude,
                            "{} {count} rows, {}: {found}, not {expected}",
                            isa.name,
                            case.what()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_bytes() {
    for case in cases().into_iter().filter(|case| !case.has_book && case.bits <= 8) {
        let made = make(&case);
        let (depth, columns) = (case.depth, case.columns);
        for isa in Isa::available() {
            let source = case.source(&made);
            let format = source.format(isa.lanes(), true);
            let mut packed = vec![0; format.bytes()];
            source.pack(&format, &mut packed, Pauses::NONE);
            let weights = Weights::new(&format, None, &packed);
            for count in 1..=MOST_ROWS {
                let left = numbers(count * depth, 7);
                let (of_row, of_bytes) = (int8::row(&format), format.padded_depth() / 4);
                let mut rounded_rows = vec![f32::NAN; count * of_row];
                for (from, to) in left.chunks_exact(depth).zip(rounded_rows.chunks_exact_mut(of_row)) {
                    int8::Round { format: &format, from, to, pauses: Pauses::NONE }.compute(isa);
                }
                // What the rows have been rounded to is multiplied exactly, and is near.
                let rounded = |row: usize, k: usize| {
                    let (block, place) = (k / case.block, k % case.block);
                    let row = &rounded_rows[row * of_row..][..of_row];
                    let place = block * format.padded + place;
                    let integer = row[place / 4].to_bits().to_le_bytes()[place % 4] as i8;
                    f64::from(integer) * f64::from(row[of_bytes + block])
                };
                for (i, &x) in left.iter().enumerate() {
                    assert!((rounded(i / depth, i % depth) - f64::from(x)).abs() <= 0.5001 / 127.0, "{}", case.what());
                }
                let stride = format.panels() * isa.lanes();
                for instructions in Instructions::all_of(isa) {
                    let mut output = vec![f32::NAN; count * stride];
                    let rows = int8::Rows { rows: &rounded_rows };
                    int8::multiply(isa, instructions, &weights, rows, 0..format.panels(), &mut output, Pauses::NONE);
                    for row in 0..count {
                        for column in 0..columns {
                            let terms = (0..depth).map(|k| rounded(row, k) * made.matrix[k * columns + column]);
                            let magnitude = (1 << case.bits.min(8)) as f64 * depth as f64;
                            let (expected, found) = (terms.sum::<f64>(), f64::from(output[row * stride + column]));
                            assert!(
                                (expected - found).abs() <= 1e-6 * magnitude,
                                "{instructions:?} {count} rows, {}: {found}, not {expected}",
                                case.what()
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn greatest_bytes_do_not_saturate() {
    // Every code is an end of its range, and every number the greatest of its block.
    for bits in [2, 4, 8] {
        for fill in [0u8, 0xff] {
            let (depth, columns) = (64, 16);
            let weights = vec![fill; columns * depth * bits / 8];
            let scales = 1f32.to_le_bytes().repeat(columns * 2);
            let source = Source {
                bits,
                columns,
                depth,
                block: 32,
                coding: Coding::Offset,
                by_depth: false,
                high_first: false,
                code_book: None,
                weights: &weights,
                scales: Floats::Float32(&scales),
                zeros: None,
            };
            let half = (1 << (bits - 1)) as f32;
            let weight = if fill == 0 { -half } else { half - 1.0 };
            for isa in Isa::available() {
                let format = source.format(isa.lanes(), true);
                let mut packed = vec![0; format.bytes()];
                source.pack(&format, &mut packed, Pauses::NONE);
                let weights = Weights::new(&format, None, &packed);
                for sign in [1.0, -1.0] {
                    let left = vec![sign; depth];
                    let mut rounded = vec![0.0; int8::row(&format)];
                    int8::Round { format: &format, from: &left, to: &mut rounded, pauses: Pauses::NONE }.compute(isa);
                    for instructions in Instructions::all_of(isa) {
                        let mut output = vec![f32::NAN; format.panels() * isa.lanes()];
                        let rows = int8::Rows { rows: &rounded };
                        int8::multiply(isa, instructions, &weights, rows, 0..format.panels(), &mut output, Pauses::NONE);
                        let expected = sign * weight * depth as f32;
                        assert!(
                            output.iter().all(|x| (x - expected).abs() <= 1e-5 * expected.abs()),
                            "{instructions:?} {bits} bits: {output:?}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}
