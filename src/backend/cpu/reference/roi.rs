//! Maxima of the parts of regions of images.

use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::roi::{FARTHEST, RoiMaxPool};
use crate::looks::Looking;
use std::ops::Range;

pub fn roi_max_pool(op: &RoiMaxPool, arguments: &mut Arguments<'_, '_>) {
    let (input, regions) = (arguments.input(op.input), arguments.input(op.regions));
    let &[images, channels, height, width] = input.shape else { unreachable!("the input's rank is 4") };
    let (pixels, regions) = (input.elements::<f32>(), regions.elements::<f32>().as_chunks::<5>().0);
    let [rows, columns] = op.sizes.map(|size| size as usize);
    let plane = height * width;
    let scale = op.scale as f32;
    for_each_piece(arguments.output().elements::<f32>(), rows * columns, plane.max(rows * columns), |first, piece| {
        for (number, output) in (first..).zip(piece.chunks_exact_mut(rows * columns)) {
            let (region, channel) = (&regions[number / channels], number % channels);
            let [left, top, right, bottom] = [1, 2, 3, 4].map(|i| place(region[i] * scale));
            // A number below 0 that is rounded towards it names the first image too.
            let image = region[0] as i64;
            if image < 0 || image >= images as i64 || region[0].is_nan() {
                output.fill(0.0);
                continue;
            }
            let image = &pixels[(image as usize * channels + channel) * plane..][..plane];
            for (i, output) in output.iter_mut().enumerate() {
                let own_rows = part(top, bottom, (i / columns, rows), height);
                let own_columns = part(left, right, (i % columns, columns), width);
                *output = greatest(image, width, own_rows, own_columns);
            }
        }
    });
}

/// A coordinate as a whole number; what is no number is 0.
fn place(x: f32) -> i64 {
    x.round().clamp(-(FARTHEST as f32), FARTHEST as f32) as i64
}

/// The pixels of a part, `number` of `count`, of those from `first` to `last`, as far as there are any.
fn part(first: i64, last: i64, (number, count): (usize, usize), size: usize) -> Range<usize> {
    let length = (last - first + 1).max(1);
    let (number, count) = (number as i64, count as i64);
    let begin = first + number * length / count;
    let end = first + ((number + 1) * length + count - 1) / count;
    begin.clamp(0, size as i64) as usize..end.clamp(0, size as i64) as usize
}

/// The maximum, 0 where there is nothing, and NaN where there is one.
fn greatest(image: &[f32], width: usize, rows: Range<usize>, columns: Range<usize>) -> f32 {
    if rows.is_empty() || columns.is_empty() {
        return 0.0;
    }
    let mut best = f32::NEG_INFINITY;
    for row in rows.looking(columns.len()) {
        for &x in &image[row * width..][columns.clone()] {
            if x > best || x.is_nan() {
                best = x;
            }
        }
        if best.is_nan() {
            return best;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    #[test]
    fn parts_overlap_and_regions_leave_the_image() {
        let input = Tensor::of(&[1, 1, 3, 4], [-1.0, -2.0, -3.0, -4.0, 5.0, 6.0, 7.0, f32::NAN, -9.0, -8.0, -7.0, -6.0f32]);
        let regions = [
            // Three columns in two parts: the middle one belongs to both.
            [0.0, 0.0, 0.0, 2.0, 2.0],
            // Halves are rounded away from 0; a region that ends before it begins is one pixel.
            [0.9, 0.5, -0.5, 0.0, -7.0],
            [0.0, 3.0, 1.0, 9.0, 9.0],
            [1.0, 0.0, 0.0, 2.0, 2.0],
            [f32::NAN, 0.0, 0.0, 2.0, 2.0],
            // The first half ends with the first column.
            [0.0, -1e30, -1e30, 1e30, 1e30],
        ];
        let regions = Tensor::of(&[6, 5], regions.as_flattened().iter().copied());
        let operands = [0, 1].map(|i| Value::Operand(OperandId(i)));
        let values = [&operands[..], &[Value::UnsignedList(vec![1, 2]), Value::Double(1.0)]].concat();
        let found: Vec<f32> = run("roiMaxPool", &[input, regions], values)[0].elements();
        assert_eq!(found[..4], [6.0, 7.0, 0.0, 0.0]);
        assert!(found[4].is_nan());
        assert_eq!(found[5..10], [0.0; 5]);
        assert!(found[10] == 5.0 && found[11].is_nan());
    }
}
