//! Where the elements of an output lie in a dense source: what an operator is that only moves them, whatever the device.

use crate::graph::ops::movement::{Reverse, Slice, Tile, Transpose};
use crate::graph::shape::strides;
use smallvec::SmallVec;

/// Where the elements of a dense, row-major output lie in a source: at `offset`, and from there by a stride for each
/// dimension of the output. Strides may be 0 (the element is repeated) or negative (the dimension is reversed).
#[derive(Clone, Debug, PartialEq)]
pub struct Strided {
    pub offset: usize,
    pub dimensions: Dimensions,
}

pub type Dimensions = SmallVec<[Dimension; 8]>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dimension {
    pub size: usize,
    pub stride: isize,
}

impl Strided {
    pub fn new(dimensions: impl IntoIterator<Item = Dimension>, offset: usize) -> Strided {
        Strided { offset, dimensions: dimensions.into_iter().collect() }
    }

    /// The elements of a dense source, in their order.
    pub fn dense(shape: &[usize]) -> Strided {
        let along = |(&size, stride)| Dimension { size, stride: stride as isize };
        Strided::new(shape.iter().zip(strides(shape)).map(along), 0)
    }

    /// The elements that a source gives an output which it is broadcast to. A size may also be a divisor of the output's:
    /// then each of the source's elements is that of a block.
    pub fn broadcast(source: &[usize], output: &[usize]) -> Strided {
        let from = Strided::dense(source).dimensions;
        let new = output.len() - source.len();
        let once = |stride| Dimension { size: 1, stride };
        let dimensions = output.iter().enumerate().flat_map(|(i, &size)| match i.checked_sub(new).map(|i| from[i]) {
            Some(own) if own.size == size => [once(0), own],
            Some(own) if own.size != 1 => [own, Dimension { size: size / own.size, stride: 0 }],
            _ => [once(0), Dimension { size, stride: 0 }],
        });
        Strided::new(dimensions, 0)
    }

    pub fn reversed(op: &Reverse, source: &[usize]) -> Strided {
        let mut places = Strided::dense(source);
        for (axis, dimension) in places.dimensions.iter_mut().enumerate() {
            if op.axes.as_ref().is_none_or(|axes| axes.contains(&(axis as u32))) {
                places.offset += (dimension.size - 1) * dimension.stride as usize;
                dimension.stride = -dimension.stride;
            }
        }
        places
    }

    pub fn sliced(op: &Slice, source: &[usize], output: &[usize]) -> Strided {
        let mut places = Strided::dense(source);
        for (i, dimension) in places.dimensions.iter_mut().enumerate() {
            places.offset += op.starts[i] as usize * dimension.stride as usize;
            *dimension = Dimension { size: output[i], stride: dimension.stride * op.stride(i) as isize };
        }
        places
    }

    /// A part of a source: so many positions on an axis, from one on.
    pub fn part(source: &[usize], axis: usize, first: usize, size: usize) -> Strided {
        let mut places = Strided::dense(source);
        places.dimensions[axis].size = size;
        places.offset = first * places.dimensions[axis].stride as usize;
        places
    }

    pub fn tiled(op: &Tile, source: &[usize]) -> Strided {
        // A dimension that is repeated is one of copies and one of elements.
        let copies = op.repetitions.0.iter().map(|&count| Dimension { size: count as usize, stride: 0 });
        Strided::new(copies.zip(Strided::dense(source).dimensions).flat_map(|(copies, own)| [copies, own]), 0)
    }

    pub fn transposed(op: &Transpose, source: &[usize]) -> Strided {
        let from = Strided::dense(source).dimensions;
        let rank = from.len();
        Strided::new((0..rank).map(|i| from[op.source(i, rank)]), 0)
    }

    /// The same places with as few dimensions as they can be told with: those of size 1 left out, and those that
    /// continue each other joined.
    pub fn simplified(&self) -> Dimensions {
        let mut simple = Dimensions::new();
        for &dimension in self.dimensions.iter().filter(|dimension| dimension.size != 1) {
            match simple.last_mut() {
                Some(outer) if outer.stride == dimension.stride * dimension.size as isize => {
                    *outer = Dimension { size: outer.size * dimension.size, stride: dimension.stride };
                }
                _ => simple.push(dimension),
            }
        }
        simple
    }
}

/// A dense tensor seen from one of its axes: what comes before it, the axis itself, and what comes after.
#[derive(Clone, Copy)]
pub struct Axis {
    pub size: usize,
    /// Elements from one position on the axis to the next.
    pub run: usize,
}

impl Axis {
    pub fn new(shape: &[usize], axis: u32) -> Self {
        let axis = axis as usize;
        Axis { size: shape[axis], run: shape[axis + 1..].iter().product() }
    }

    /// The place of an element of a tensor that differs from this one in the size of the axis, moved to an index on the
    /// axis of this one.
    pub fn place(self, element: usize, other: Axis, index: usize) -> usize {
        let outer = element / (other.size * other.run);
        (outer * self.size + index) * self.run + element % self.run
    }
}
