//! Sliding windows along one axis: which elements of an input a window covers at which position. Convolutions and
//! pooling share it.

use std::ops::Range;

/// An axis that a window slides along. All sizes are at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Elements of the input.
    pub input: usize,
    /// Positions of the window.
    pub output: usize,
    /// Elements of the window.
    pub window: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Elements before the input.
    pub padding: usize,
}

impl Axis {
    /// The height (0) or the width (1) of an image, of such an input, output and window, from an operator's options.
    pub fn new(
        number: usize,
        (input, output, window): (usize, usize, usize),
        (strides, dilations, padding): (&[u32; 2], &[u32; 2], &[u32; 4]),
    ) -> Self {
        Axis {
            input,
            output,
            window,
            stride: strides[number] as usize,
            dilation: dilations[number] as usize,
            padding: padding[2 * number] as usize,
        }
    }

    /// The input element under element `tap` of the window at a position; negative or too large in the padding.
    fn place(&self, position: usize, tap: usize) -> i64 {
        (position * self.stride + tap * self.dilation) as i64 - self.padding as i64
    }

    /// The input element under element `tap` of the window at a position, unless that is padding.
    pub fn element(&self, position: usize, tap: usize) -> Option<usize> {
        usize::try_from(self.place(position, tap)).ok().filter(|&element| element < self.input)
    }

    /// The axis without the first and last elements of the window that are over padding at every position; those that are left.
    pub fn inside(self) -> (Axis, Range<usize>) {
        let mut taps = (0..self.window).filter(|&tap| !self.positions(tap).is_empty());
        let first = taps.next().unwrap_or(0);
        let last = taps.next_back().unwrap_or(first);
        match self.padding.checked_sub(first * self.dilation) {
            Some(padding) => (Axis { window: last + 1 - first, padding, ..self }, first..last + 1),
            None => (self, 0..self.window),
        }
    }

    /// The elements of the window at a position that are not over padding.
    pub fn taps(&self, position: usize) -> Range<usize> {
        inside(self.place(position, 0), self.dilation, self.input, self.window)
    }

    /// The positions at which that element of the window is not over padding.
    pub fn positions(&self, tap: usize) -> Range<usize> {
        inside(self.place(0, tap), self.stride, self.input, self.output)
    }
}

/// The numbers below `count` for which `start + number * step` is in `0..size`.
fn inside(start: i64, step: usize, size: usize, count: usize) -> Range<usize> {
    let reach = |limit: i64| (limit - start).max(0).unsigned_abs().div_ceil(step as u64).min(count as u64) as usize;
    reach(0)..reach(size as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_elements() {
        for case in 0..3000usize {
            let mut digits = case;
            let mut next = |count| {
                let digit = digits % count;
                digits /= count;
                digit
            };
            let (window, stride, dilation, padding) = (next(3) + 1, next(3) + 1, next(3) + 1, next(6));
            let axis = Axis { input: next(4) + 1, output: next(5) + 1, window, stride, dilation, padding };
            for position in 0..axis.output {
                let taps: Vec<usize> = (0..axis.window).filter(|&tap| axis.element(position, tap).is_some()).collect();
                assert_eq!(axis.taps(position).collect::<Vec<_>>(), taps, "{axis:?}");
            }
            for tap in 0..axis.window {
                let positions: Vec<usize> = (0..axis.output).filter(|&p| axis.element(p, tap).is_some()).collect();
                assert_eq!(axis.positions(tap).collect::<Vec<_>>(), positions, "{axis:?}");
            }
            let (inner, left) = axis.inside();
            for position in 0..axis.output {
                let all: Vec<_> = (0..axis.window).filter_map(|tap| axis.element(position, tap)).collect();
                let some: Vec<_> = (0..inner.window).filter_map(|tap| inner.element(position, tap)).collect();
                assert_eq!((all, inner.window), (some, left.len()), "{axis:?}");
            }
        }
    }
}
