//! The kernel: it walks the output in rows and hands each to a formula, with the operands' elements that belong to it.
//!
//! Broadcasting is handled here and nowhere else. In a row every operand's elements either lie side by side or are all
//! one and the same element, so that a formula is a plain loop over slices.

use crate::backend::cpu::element::Element;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{View, ViewMut};
use smallvec::SmallVec;

/// Computes an output from one operand of its shape. `cost` is that of the formula, in nanoseconds or so.
pub fn map<A: Element, R: Element>(a: View<'_>, output: &mut ViewMut<'_>, cost: usize, formula: impl Fn(A) -> R + Sync) {
    assert_eq!([A::DATA_TYPE, R::DATA_TYPE], [a.data_type, output.data_type]);
    for_each_row([a], output, cost, &|[a], output| {
        let (a, output) = (bytemuck::cast_slice::<u8, A>(a), bytemuck::cast_slice_mut::<u8, R>(output));
        output.iter_mut().zip(a).for_each(|(output, &a)| *output = formula(a));
    });
}

/// Computes an output from two operands that are broadcast to it.
pub fn zip<A: Element, R: Element>(
    [a, b]: [View<'_>; 2],
    output: &mut ViewMut<'_>,
    cost: usize,
    formula: impl Fn(A, A) -> R + Sync,
) {
    assert_eq!([A::DATA_TYPE, A::DATA_TYPE, R::DATA_TYPE], [a.data_type, b.data_type, output.data_type]);
    for_each_row([a, b], output, cost, &|[a, b], output| {
        let (a, b) = (bytemuck::cast_slice::<u8, A>(a), bytemuck::cast_slice::<u8, A>(b));
        let output = bytemuck::cast_slice_mut::<u8, R>(output);
        match (a, b) {
            (a, &[b]) => output.iter_mut().zip(a).for_each(|(output, &a)| *output = formula(a, b)),
            (&[a], b) => output.iter_mut().zip(b).for_each(|(output, &b)| *output = formula(a, b)),
            (a, b) => output.iter_mut().zip(a).zip(b).for_each(|((output, &a), &b)| *output = formula(a, b)),
        }
    });
}

/// Computes an output from three operands that are broadcast to it.
pub fn zip3<A: Element, B: Element, C: Element, R: Element>(
    [a, b, c]: [View<'_>; 3],
    output: &mut ViewMut<'_>,
    cost: usize,
    formula: impl Fn(A, B, C) -> R + Sync,
) {
    assert_eq!([A::DATA_TYPE, B::DATA_TYPE], [a.data_type, b.data_type]);
    assert_eq!([C::DATA_TYPE, R::DATA_TYPE], [c.data_type, output.data_type]);
    for_each_row([a, b, c], output, cost, &|[a, b, c], output| {
        let (a, b) = (bytemuck::cast_slice::<u8, A>(a), bytemuck::cast_slice::<u8, B>(b));
        let (c, output) = (bytemuck::cast_slice::<u8, C>(c), bytemuck::cast_slice_mut::<u8, R>(output));
        match (a, b, c) {
            (a, &[b], &[c]) => output.iter_mut().zip(a).for_each(|(output, &a)| *output = formula(a, b, c)),
            // Slices of one length become vectors.
            (a, b, c) if [a.len(), b.len(), c.len()] == [output.len(); 3] => {
                let elements = a.iter().zip(b).zip(c);
                output.iter_mut().zip(elements).for_each(|(output, ((&a, &b), &c))| *output = formula(a, b, c));
            }
            (a, b, &[c]) if [a.len(), b.len()] == [output.len(); 2] => {
                output.iter_mut().zip(a.iter().zip(b)).for_each(|(output, (&a, &b))| *output = formula(a, b, c));
            }
            (a, &[b], c) if [a.len(), c.len()] == [output.len(); 2] => {
                output.iter_mut().zip(a.iter().zip(c)).for_each(|(output, (&a, &c))| *output = formula(a, b, c));
            }
            (a, b, c) => {
                // An element that stands for the whole row is met again and again.
                let steps = [a.len(), b.len(), c.len()].map(|length| (length > 1) as usize);
                for (i, output) in output.iter_mut().enumerate() {
                    *output = formula(a[i * steps[0]], b[i * steps[1]], c[i * steps[2]]);
                }
            }
        }
    });
}

/// A formula applied to the bytes of a row: of `N` operands and of the output.
type Row<'a, const N: usize> = dyn Fn([&[u8]; N], &mut [u8]) + Sync + 'a;

/// Calls `row` for consecutive pieces of the output, with the bytes of the operands that belong to it: as many elements
/// as the piece has, or one that belongs to all of them.
///
/// The row is behind a pointer, so that this is compiled once and not for every formula.
fn for_each_row<const N: usize>(operands: [View<'_>; N], output: &mut ViewMut<'_>, cost: usize, row: &Row<'_, N>) {
    let loops = Loops::new(output.shape, operands.map(|operand| operand.shape));
    let widths = operands.map(|operand| operand.data_type.bits() / 8);
    let bytes = operands.map(|operand| operand.bytes());
    let width = output.data_type.bits() / 8;
    for_each_piece(output.bytes, width, cost, |first, mut piece| {
        loops.for_each_row(first, piece.len() / width, |offsets, length| {
            let (output, rest) = std::mem::take(&mut piece).split_at_mut(length * width);
            piece = rest;
            row(
                std::array::from_fn(|i| {
                    let count = if loops.strides[0][i] == 0 { 1 } else { length };
                    &bytes[i][offsets[i] * widths[i]..(offsets[i] + count) * widths[i]]
                }),
                output,
            );
        });
    });
}

/// The loops over an output, innermost first, with the distance that each step means in every operand. Dimensions that
/// all operands pass in one go are one loop.
struct Loops<const N: usize> {
    sizes: SmallVec<[usize; 8]>,
    /// 0 or 1 in the innermost loop, since operands are dense.
    strides: SmallVec<[[usize; N]; 8]>,
}

impl<const N: usize> Loops<N> {
    /// Operands' shapes are aligned with the output's at the innermost dimension. Each size is the output's, or 1, or a
    /// divisor of it, for an element that belongs to a block (and then the same divisor in all operands that have one).
    fn new(output: &[usize], shapes: [&[usize]; N]) -> Self {
        let mut loops = Loops { sizes: SmallVec::new(), strides: SmallVec::new() };
        // The number of elements that one step of the current dimension passes in each operand.
        let mut passed = [1; N];
        for dimension in (0..output.len()).rev() {
            let size = output[dimension];
            let of = |shape: &[usize]| (dimension + shape.len()).checked_sub(output.len()).map_or(1, |d| shape[d]);
            let sizes: [usize; N] = std::array::from_fn(|i| of(shapes[i]));
            let blocks = sizes.iter().copied().find(|&own| own != 1 && own != size).unwrap_or(size);
            // Within a block, only operands of full size move on; between blocks, all that are not stretched do.
            let block = size / blocks;
            loops.push(block, std::array::from_fn(|i| if sizes[i] == size { passed[i] } else { 0 }));
            loops.push(
                blocks,
                std::array::from_fn(|i| match sizes[i] {
                    1 => 0,
                    own if own == blocks && own != size => passed[i],
                    _ => passed[i] * block,
                }),
            );
            passed.iter_mut().zip(sizes).for_each(|(passed, size)| *passed *= size);
        }
        if loops.sizes.is_empty() {
            loops.sizes.push(1);
            loops.strides.push([0; N]);
        }
        loops
    }

    /// Adds a loop around the others, or lengthens the outermost one.
    fn push(&mut self, size: usize, strides: [usize; N]) {
        if size == 1 {
            return;
        }
        if let (Some(inner), Some(inner_strides)) = (self.sizes.last_mut(), self.strides.last())
            && strides == inner_strides.map(|stride| stride * *inner)
        {
            *inner *= size;
            return;
        }
        self.sizes.push(size);
        self.strides.push(strides);
    }

    /// Calls `row` with the operands' offsets and the length of each part of the innermost loop that lies within `count`
    /// elements of the output from `first` on.
    fn for_each_row(&self, first: usize, count: usize, mut row: impl FnMut([usize; N], usize)) {
        let mut index: SmallVec<[usize; 8]> = SmallVec::new();
        let mut offsets = [0; N];
        let mut rest = first;
        for (&size, strides) in self.sizes.iter().zip(&self.strides) {
            index.push(rest % size);
            offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset += rest % size * stride);
            rest /= size;
        }
        let mut remaining = count;
        while remaining > 0 {
            // Only the first row can begin, and only the last one end, within the innermost loop.
            let length = (self.sizes[0] - index[0]).min(remaining);
            row(offsets, length);
            remaining -= length;
            offsets.iter_mut().zip(&self.strides[0]).for_each(|(offset, stride)| *offset -= index[0] * stride);
            index[0] = 0;
            for ((index, &size), strides) in index.iter_mut().zip(&self.sizes).zip(&self.strides).skip(1) {
                *index += 1;
                offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset += stride);
                if *index < size {
                    break;
                }
                offsets.iter_mut().zip(strides).for_each(|(offset, stride)| *offset -= size * stride);
                *index = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operands' offsets for every element of the output, in order.
    fn offsets<const N: usize>(output: &[usize], shapes: [&[usize]; N], pieces: usize) -> Vec<[usize; N]> {
        let loops = Loops::new(output, shapes);
        let count: usize = output.iter().product();
        let mut found = Vec::new();
        for first in (0..count).step_by(pieces) {
            loops.for_each_row(first, pieces.min(count - first), |offsets, length| {
                let step = |j: usize| std::array::from_fn(|i| offsets[i] + j * loops.strides[0][i]);
                found.extend((0..length).map(step));
            });
        }
        found
    }

    #[test]
    fn every_broadcast_finds_its_elements() {
        let cases: &[(&[usize], [&[usize]; 2])] = &[
            (&[], [&[], &[]]),
            (&[3], [&[3], &[]]),
            (&[2, 3], [&[2, 3], &[3]]),
            (&[2, 3], [&[2, 1], &[2, 3]]),
            (&[2, 3, 4], [&[1, 3, 1], &[2, 1, 4]]),
            (&[2, 2, 3, 2], [&[2, 2, 3, 2], &[3, 2]]),
            (&[4, 6], [&[4, 6], &[2, 3]]),
            (&[4, 6, 2], [&[4, 6, 2], &[1, 3, 2]]),
            (&[6, 4], [&[6, 4], &[6, 2]]),
        ];
        for (output, shapes) in cases {
            let count: usize = output.iter().product();
            let expected: Vec<[usize; 2]> = (0..count)
                .map(|element| {
                    shapes.map(|shape| {
                        let (mut rest, mut stride, mut offset) = (element, 1, 0);
                        for d in (0..output.len()).rev() {
                            let index = rest % output[d];
                            rest /= output[d];
                            let size = (d + shape.len()).checked_sub(output.len()).map_or(1, |d| shape[d]);
                            offset += index * size / output[d] * stride;
                            stride *= size;
                        }
                        offset
                    })
                })
                .collect();
            for pieces in [1, 2, 5, count] {
                assert_eq!(offsets(output, *shapes, pieces), expected, "{output:?} from {shapes:?}");
            }
        }
    }

    #[test]
    fn dimensions_that_are_passed_in_one_go_are_one_loop() {
        assert_eq!(Loops::new(&[2, 3, 4], [&[2, 3, 4], &[2, 3, 4]]).sizes[..], [24]);
        assert_eq!(Loops::new(&[2, 3, 4], [&[2, 3, 4], &[]]).sizes[..], [24]);
        assert_eq!(Loops::new(&[2, 3, 4], [&[2, 3, 4], &[2, 1, 1]]).sizes[..], [12, 2]);
    }
}
