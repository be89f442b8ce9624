//! Copies of elements from one place to another, whatever they mean: a transposition, a slice, an expansion. Only the
//! size of an element matters, so these are written over unsigned integers as wide as it is.

use super::threads;
use crate::backend::strided::{Dimension, Dimensions, Strided};
use crate::looks;
use bytemuck::Pod;
use smallvec::{SmallVec, smallvec};

/// Evaluates an expression with `$T` as an unsigned integer as wide as an element of a data type of whole bytes.
macro_rules! with_unit {
    ($data_type:expr, $T:ident => $body:expr) => {
        match $data_type.bits() {
            8 => {
                type $T = u8;
                $body
            }
            16 => {
                type $T = u16;
                $body
            }
            32 => {
                type $T = u32;
                $body
            }
            64 => {
                type $T = u64;
                $body
            }
            bits => unreachable!("elements of {bits} bits"),
        }
    };
}
pub(crate) use with_unit;

/// About how many nanoseconds a copy of so many consecutive elements takes.
pub fn cost<T>(elements: usize) -> usize {
    elements * size_of::<T>() / 16 + 1
}

impl Strided {
    /// Copies the elements from these places to the output.
    ///
    /// # Panics
    /// When the output has not as many elements as the dimensions say, or a place is outside of the source.
    pub fn copy<T: Pod + Send + Sync>(&self, source: &[T], output: &mut [T]) {
        let count: usize = self.dimensions.iter().map(|dimension| dimension.size).product();
        assert_eq!(output.len(), count);
        if output.is_empty() {
            return;
        }
        let mut outer = self.simplified();
        let inner = outer.pop().unwrap_or(Dimension { size: 1, stride: 1 });
        match inner.stride {
            1 => copy_runs(source, self.offset, &outer, inner.size, output),
            0 => copy_repeated(source, self.offset, &outer, inner.size, output),
            _ => copy_scattered(source, self.offset, outer, inner, output),
        }
    }
}

/// Every row of the output is a run of the source.
fn copy_runs<T: Pod + Send + Sync>(source: &[T], offset: usize, outer: &[Dimension], run: usize, output: &mut [T]) {
    if outer.is_empty() {
        // One run alone is divided by itself.
        return threads::for_each_piece(output, 1, cost::<T>(0), |first, piece| {
            looks::copy(&source[offset + first..][..piece.len()], piece);
        });
    }
    threads::for_each_piece(output, run, cost::<T>(run), |first, piece| {
        let mut places = Places::new(offset, outer, first);
        for row in piece.chunks_exact_mut(run) {
            looks::copy(&source[places.advance()..][..run], row);
        }
    });
}

/// Every row of the output is one element of the source, again and again.
fn copy_repeated<T: Pod + Send + Sync>(source: &[T], offset: usize, outer: &[Dimension], run: usize, output: &mut [T]) {
    if outer.is_empty() {
        return threads::for_each_piece(output, 1, cost::<T>(0), |_, piece| looks::fill(piece, source[offset]));
    }
    threads::for_each_piece(output, run, cost::<T>(run), |first, piece| {
        let mut places = Places::new(offset, outer, first);
        for row in piece.chunks_mut(run) {
            looks::fill(row, source[places.advance()]);
        }
    });
}

/// The elements of a row lie apart in the source. Rows are taken together with the rows after them in blocks of columns,
/// so that a transposition finds what it reads for one row still in the cache for the next.
fn copy_scattered<T: Pod + Send + Sync>(source: &[T], offset: usize, mut outer: Dimensions, inner: Dimension, output: &mut [T]) {
    const BLOCK: usize = 64;
    let columns = inner.size;
    let rows = outer.pop().unwrap_or(Dimension { size: 1, stride: 0 });
    threads::for_each_piece(output, columns, columns, |first, mut piece| {
        // The piece may begin and end in the middle of a plane of rows.
        let mut places = Places::new(offset, &outer, first / rows.size);
        let mut row = first % rows.size;
        while !piece.is_empty() {
            let count = (rows.size - row).min(piece.len() / columns);
            let (plane, rest) = piece.split_at_mut(count * columns);
            let start = places.advance() as isize + row as isize * rows.stride;
            for block in (0..columns).step_by(BLOCK) {
                let end = (block + BLOCK).min(columns);
                for (i, output) in plane.chunks_exact_mut(columns).enumerate() {
                    let mut place = start + i as isize * rows.stride + block as isize * inner.stride;
                    for element in &mut output[block..end] {
                        *element = source[place as usize];
                        place += inner.stride;
                    }
                }
                looks::worked(count * (end - block));
            }
            (piece, row) = (rest, 0);
        }
    });
}

/// Walks over all positions of some dimensions in row-major order and tells the place of each.
pub struct Places<'a> {
    dimensions: &'a [Dimension],
    position: SmallVec<[usize; 8]>,
    place: isize,
}

impl<'a> Places<'a> {
    /// Begins at position number `first`.
    pub fn new(offset: usize, dimensions: &'a [Dimension], first: usize) -> Self {
        let mut position: SmallVec<[usize; 8]> = smallvec![0; dimensions.len()];
        let mut rest = first;
        let mut place = offset as isize;
        for (position, dimension) in position.iter_mut().zip(dimensions).rev() {
            *position = rest % dimension.size;
            rest /= dimension.size;
            place += *position as isize * dimension.stride;
        }
        Places { dimensions, position, place }
    }

    /// The place of this position; goes on to the next one.
    pub fn advance(&mut self) -> usize {
        let place = self.place;
        for (position, dimension) in self.position.iter_mut().zip(self.dimensions).rev() {
            *position += 1;
            self.place += dimension.stride;
            if *position < dimension.size {
                break;
            }
            self.place -= dimension.stride * dimension.size as isize;
            *position = 0;
        }
        place as usize
    }
}
