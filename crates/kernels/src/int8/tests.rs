//! The tiles against sums in 64 bits, for all tiles of this CPU.
#![allow(unsafe_code)]

use super::microkernels::{Epilogue, GROUP, MOST_NUMBERS, MOST_ROWS, Task, Tiles};
use super::panels::{PackMatrix, PanelsView, bytes};
use crate::isa::Isa;

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
fn bytes_without_a_sign_times_bytes_with_one() {
    for (isa, tiles) in Isa::available().iter().flat_map(|isa| Tiles::all_of(isa).into_iter().map(move |tiles| (isa, tiles))) {
        // The greatest and the least products; the last ones wrap around.
        for (depth, ends) in
            [(4usize, None), (7, None), (64, None), (129, None), (33_000, Some([255, 128])), (70_001, Some([255, 127]))]
        {
            for rows in [1, 2, tiles.rows / 2, tiles.rows].into_iter().filter(|&rows| rows > 0) {
                for columns in [1, tiles.lanes + 1, 2 * tiles.lanes] {
                    let padded = depth.next_multiple_of(GROUP);
                    let end =
                        |list: Vec<u8>, which: usize| ends.map_or(list.clone(), |ends: [u8; 2]| vec![ends[which]; list.len()]);
                    let (a, b) = (end(drawn(rows * padded, 1), 0), end(drawn(depth * columns, 2), 1));
                    let mut packed = vec![0; bytes(tiles, 1, depth, columns)];
                    let mut sums = vec![0; columns.next_multiple_of(tiles.lanes)];
                    PackMatrix { tiles, columns, bytes: &b, flip: 0, packed: &mut packed, sums: &mut sums }.compute(isa);
                    let panel = PanelsView::new(tiles, columns, &packed).panel(0);
                    let mut starts: Vec<*const u8> = a.chunks_exact(padded).map(<[u8]>::as_ptr).collect();
                    let mut room = vec![0; tiles.gathered(padded)];
                    tiles.gather(isa, &mut starts, rows, padded, &mut room);
                    let (start, row_sums) = ([7; MOST_NUMBERS], [0; MOST_ROWS]);
                    let mut found = [0u32; MOST_NUMBERS];
                    let stride = panel.vectors * tiles.lanes;
                    let (zeros, factors) = (std::ptr::null(), std::ptr::null());
                    let _ready = tiles.ready();
                    let task = Task {
                        runs: 1,
                        rows,
                        length: padded,
                        starts: starts.as_ptr(),
                        weights: panel.weights.as_ptr(),
                        epilogue: Epilogue { start: start.as_ptr(), zeros, row_sums: row_sums.as_ptr(), factors },
                        output: found.as_mut_ptr(),
                        stride,
                    };
                    // SAFETY: everything is there, as above.
                    unsafe { tiles.run(panel.vectors, &task) };
                    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                        let product = |k: usize| i64::from(a[row * padded + k]) * i64::from(b[k * columns + column] as i8);
                        let expected = (0..depth).map(product).sum::<i64>() + 7;
                        let found = found[row * stride + column] as i32;
                        assert_eq!(found, expected as i32, "{}: {rows} rows of {depth}, column {column}", tiles.name);
                    }
                }
            }
        }
    }
}
