//! Stable sorts by integers, in time that is linear in their number: by 4 bits at a time, the lowest first. Each invocation counts the
//! digits of a piece; running sums of the counts say where each piece puts its elements of each digit.

use super::cumulative::sums_before;
use super::kernel::{Kernel, WORKGROUP, grid};
use super::lowering::{Lowering, Tensor};
use crate::backend::wgpu::shader::size;
use crate::error::Result;
use crate::graph::DataType;

/// Bits that are sorted by at once.
const BITS: u32 = 4;
const DIGITS: usize = 1 << BITS;
/// Elements of an invocation, at least.
const PIECE: usize = 64;
/// Invocations that keep a device busy; of more pieces the sums would take long.
const PIECES: usize = 1 << 14;

/// From so many comparisons on sorting is faster than to compare everything with everything.
const WORTH_SORTING: usize = 1 << 24;

/// Whether to sort instead of comparing each of so many elements with each of so many others.
pub fn is_worth_sorting(elements: usize, others: usize) -> bool {
    elements.saturating_mul(others) > WORTH_SORTING
}

/// The bits of numbers below a count.
pub fn bits_below(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

/// The numbers of elements in the order of their keys, of which so many of the lowest bits count. Elements with the same key stay in
/// the order that they have, which is that of their numbers if none is given.
pub fn order(lowering: &mut Lowering<'_>, keys: &Tensor, bits: u32, mut current: Option<Tensor>) -> Result<Tensor> {
    let count = keys.count();
    let piece = PIECE.max(count.div_ceil(PIECES));
    let pieces = count.div_ceil(piece);
    let counts = lowering.temporary(DataType::Uint32, &[DIGITS * pieces])?;
    let starts = lowering.temporary(DataType::Uint32, &[DIGITS * pieces])?;
    let orders = [lowering.temporary(DataType::Uint32, &[count])?, lowering.temporary(DataType::Uint32, &[count])?];
    let (row, size_of_grid) = grid(lowering, pieces.div_ceil(WORKGROUP));
    for pass in 0..bits.div_ceil(BITS).max(1) {
        let next = &orders[pass as usize % 2];
        // Not in the text of the shaders, which are the same for all passes.
        let shift = lowering.constant(DataType::Uint32, &[1], (pass * BITS).to_le_bytes().to_vec());
        // Does `begin` for a piece, then `each` for its elements, number `number` with the digit `digit`, then `end`.
        let text = |begin: &str, each: &str, end: &str| {
            format!(
                "@compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
                 let piece = id.y * {row}u + id.x;\n\
                 if piece >= {pieces}u {{ return; }}\n\
                 var held = array<u32, {DIGITS}>();\n\
                 {begin}\
                 let last = min((piece + 1u) * {piece}u, {count}u);\n\
                 for (var k = piece * {piece}u; k < last; k += 1u) {{\n\
                 let number = {number};\n\
                 let digit = (keys(number) >> shift(0u)) & {mask}u;\n\
                 {each}\n}}\n{end}}}\n",
                row = size(row * WORKGROUP),
                pieces = size(pieces),
                piece = size(piece),
                count = size(count),
                number = if current.is_some() { "current(k)" } else { "k" },
                mask = DIGITS - 1,
            )
        };
        let for_digits = |what: &str| {
            let pieces = size(pieces);
            format!(
                "for (var digit = 0u; digit < {DIGITS}u; digit += 1u) {{\nlet place = digit * {pieces}u + piece;\n{what}\n}}\n"
            )
        };
        let kernel = |lowering: &Lowering<'_>, label| {
            let kernel = Kernel::new(label).reads(lowering, "keys", keys).reads(lowering, "shift", &shift);
            match &current {
                Some(current) => kernel.reads(lowering, "current", current),
                None => kernel,
            }
        };
        let text_of_counts = text("", "held[digit] += 1u;", &for_digits("store_counts(place, held[digit]);"));
        let count = kernel(lowering, "sort, counts").writes(lowering, "counts", &counts).declare(&text_of_counts);
        let begin = for_digits("held[digit] = starts(place);");
        let text_of_places = text(&begin, "store_next(held[digit], number);\nheld[digit] += 1u;", "");
        let place = kernel(lowering, "sort, places").reads(lowering, "starts", &starts);
        let place = place.writes(lowering, "next", next).declare(&text_of_places);
        count.run(lowering, size_of_grid)?;
        sums_before(lowering, &counts, &starts)?;
        place.run(lowering, size_of_grid)?;
        current = Some(next.clone());
    }
    Ok(current.expect("there is a pass at least"))
}
