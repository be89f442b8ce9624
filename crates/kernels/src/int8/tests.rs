//! The tiles against sums in 64 bits, for all tiles of this CPU.
#![allow(unsafe_code)]

use super::microkernels::{Epilogue, GROUP, MOST_NUMBERS, MOST_ROWS, Task, Tiles};
use super::panels::{PackMatrix, PanelsView, bytes};
use crate::isa::Isa;
use crate::pauses::Pauses;

/// Bytes of all kinds, many of them at the ends of their range; the seed is fixed.
fn drawn(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let byte = (state >> 40) as u8;
        [0, 127, 128, 255, byte, byte, byte, byte][(state >> 60) as usize % 8]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn tiles_add_up_exactly() {
    for (isa, tiles) in Isa::available().iter().flat_map(|isa| Tiles::all_of(isa).into_iter().map(move |tiles| (isa, tiles))) {
        // The greatest and the least products; the last ones wrap around.
        let of_ends = [(1, 33_000, Some([255, 128])), (1, 70_001, Some([255, 127]))];
        let cases = [(1, 4, None), (1, 7, None), (3, 7, None), (2, 64, None), (1, 129, None)].into_iter().chain(of_ends);
        for (runs, length, ends) in cases {
            // Long runs take their time, and a tile adds up all rows alike.
            let is_tried = |rows: &usize| *rows == tiles.rows || *rows > 0 && ends.is_none();
            for rows in [1, 2, tiles.rows / 2, tiles.rows].into_iter().filter(is_tried) {
                for columns in [1, tiles.lanes + 1, 2 * tiles.lanes] {
                    check(isa, tiles, [runs, length], ends, [rows, columns]);
                }
            }
        }
    }
}

/// A tile whose left operand lies in so many runs of so many bytes for each row.
fn check(isa: &Isa, tiles: &'static Tiles, [runs, length]: [usize; 2], ends: Option<[u8; 2]>, [rows, columns]: [usize; 2]) {
    let padded = usize::next_multiple_of(length, GROUP);
    let depth = runs * padded;
    let list = |count, which: usize| ends.map_or_else(|| drawn(count, 1 + which as u64), |ends| vec![ends[which]; count]);
    let (a, mut b) = (list(rows * depth, 0), list(depth * columns, 1));
    // What is after a run is multiplied by nothing.
    for run in b.chunks_exact_mut(padded * columns) {
        run[length * columns..].fill(0);
    }
    let mut packed = vec![0; bytes(tiles, 1, depth, columns)];
    let mut sums = vec![0; columns.next_multiple_of(tiles.lanes)];
    PackMatrix { tiles, columns, bytes: &b, flip: 0, packed: &mut packed, sums: &mut sums, pauses: Pauses::NONE }.compute(isa);
    let panel = PanelsView::new(tiles, columns, &packed).panel(0);
    let places = (0..runs * rows).map(|i| (i / rows, i % rows));
    let mut starts: Vec<*const u8> = places.map(|(run, row)| a[row * depth + run * padded..][..padded].as_ptr()).collect();
    let mut room = vec![0; tiles.gathered(depth)];
    tiles.gather(isa, &mut starts, rows, padded, &mut room);
    let start: [i32; MOST_NUMBERS] = std::array::from_fn(|i| (i as i32).wrapping_mul(1_234_567));
    let zeros: [i32; MOST_NUMBERS] = std::array::from_fn(|i| i as i32 * 11 - 100);
    let row_sums: [i32; MOST_ROWS] = std::array::from_fn(|i| 98_765 * i as i32 - 10);
    let has_zeros = length % 2 == 0;
    let mut found = [0u32; MOST_NUMBERS];
    let stride = panel.vectors * tiles.lanes;
    let _configured = tiles.configured();
    let task = Task {
        runs,
        rows,
        length: padded,
        starts: starts.as_ptr(),
        weights: panel.weights.as_ptr(),
        epilogue: Epilogue {
            start: start.as_ptr(),
            zeros: if has_zeros { zeros.as_ptr() } else { std::ptr::null() },
            row_sums: row_sums.as_ptr(),
            factors: std::ptr::null(),
        },
        output: found.as_mut_ptr(),
        stride,
    };
    // SAFETY: the starts are of rows of `padded` bytes, the panel has weights for as many in each run, and the arrays have the
    // numbers of the largest tile.
    unsafe { tiles.run(panel.vectors, &task) };
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let product = |k: usize| i64::from(a[row * depth + k]) * i64::from(b[k * columns + column] as i8);
        let off = if has_zeros { zeros[column].wrapping_mul(row_sums[row]) } else { 0 };
        let expected = ((0..depth).map(product).sum::<i64>() as i32).wrapping_add(start[column]).wrapping_sub(off);
        let found = found[row * stride + column] as i32;
        assert_eq!(found, expected, "{}: {rows} rows, {runs} runs of {length}, column {column} of {columns}", tiles.name);
    }
}
