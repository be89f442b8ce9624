//! Outputs that several threads write, each its own part.
#![allow(unsafe_code)]

use crate::bf16::rounding::round;
use std::marker::PhantomData;
use std::ops::Range;

/// An output that several threads write, each its own elements.
pub struct SharedOutput<'a, T = f32> {
    start: *mut T,
    length: usize,
    _elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it only gives out pointers; who writes through them promises that no two threads write the same elements.
unsafe impl<T: Send> Send for SharedOutput<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedOutput<'_, T> {}

impl<'a, T> SharedOutput<'a, T> {
    pub fn new(elements: &'a mut [T]) -> Self {
        SharedOutput { start: elements.as_mut_ptr(), length: elements.len(), _elements: PhantomData }
    }

    /// The pointer to element `first` of a part that ends before `end`.
    ///
    /// # Panics
    /// When the part is not inside.
    #[inline(always)]
    pub fn from(&self, first: usize, end: usize) -> *mut T {
        assert!(first <= end && end <= self.length);
        // SAFETY: inside the elements, as asserted.
        unsafe { self.start.add(first) }
    }
}

/// An output of float32 that lies in memory as such, or as bfloat16.
pub enum StoredOutput<'a> {
    Float32(SharedOutput<'a>),
    Bf16(SharedOutput<'a, u16>),
}

impl StoredOutput<'_> {
    /// # Panics
    /// When it lies as bfloat16.
    pub fn numbers(&self) -> &SharedOutput<'_> {
        match self {
            StoredOutput::Float32(output) => output,
            StoredOutput::Bf16(_) => panic!("whoever writes float32 alone is not given bfloat16"),
        }
    }

    /// Writes a number.
    ///
    /// # Panics
    /// When it is not inside.
    ///
    /// # Safety
    /// No other thread may use it.
    pub unsafe fn write(&self, place: usize, number: f32) {
        // SAFETY: inside, as `from` asserts; else the caller's promise.
        unsafe {
            match self {
                StoredOutput::Float32(output) => *output.from(place, place + 1) = number,
                StoredOutput::Bf16(output) => *output.from(place, place + 1) = round(number),
            }
        }
    }
}

impl<T: Copy> SharedOutput<'_, T> {
    /// Copies elements to a place.
    ///
    /// # Panics
    /// When they are not inside.
    ///
    /// # Safety
    /// No other thread may use the elements there.
    pub unsafe fn write(&self, first: usize, elements: &[T]) {
        let to = self.from(first, first + elements.len());
        // SAFETY: inside, as `from` asserts; `elements` is no part of it, since it is borrowed for writing.
        unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), to, elements.len()) };
    }
}

/// A part of an output that one thread writes: rows of some columns, at a distance.
pub struct Block<'a> {
    /// Of the whole output.
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    output: Output<'a>,
}

/// A matrix that several threads write, each its own blocks.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    start: *mut f32,
    length: usize,
    stride: usize,
    _elements: PhantomData<&'a mut [f32]>,
}

// SAFETY: blocks are given out by `block`, whose caller promises that they do not overlap.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// A matrix whose rows are `stride` elements apart.
    pub fn new(elements: &'a mut [f32], stride: usize) -> Self {
        Output { start: elements.as_mut_ptr(), length: elements.len(), stride, _elements: PhantomData }
    }

    /// A part of it.
    ///
    /// # Safety
    /// No two blocks that live at the same time may overlap.
    pub unsafe fn block(self, rows: Range<usize>, columns: Range<usize>) -> Block<'a> {
        assert!(columns.end <= self.stride && (rows.is_empty() || (rows.end - 1) * self.stride + columns.end <= self.length));
        Block { rows, columns, output: self }
    }
}

impl<'a> Output<'a> {
    /// The matrix that begins at a later element.
    ///
    /// # Safety
    /// As for [`Output::block`], blocks of different matrices included.
    pub unsafe fn from(self, first: usize) -> Output<'a> {
        assert!(first <= self.length);
        // SAFETY: inside of the matrix.
        Output { start: unsafe { self.start.add(first) }, length: self.length - first, ..self }
    }

    /// A part of a matrix of one row.
    ///
    /// # Safety
    /// Nobody may write it while it is read.
    pub unsafe fn read(self, elements: Range<usize>) -> &'a [f32] {
        assert!(elements.start <= elements.end && elements.end <= self.length);
        // SAFETY: inside of the matrix, and nobody writes it, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.add(elements.start), elements.len()) }
    }
}

impl<'a> Block<'a> {
    /// A part of a matrix that lies elsewhere, row after row.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn elsewhere(rows: Range<usize>, columns: Range<usize>, numbers: &'a mut [f32]) -> Block<'a> {
        let stride = columns.len();
        assert!(rows.len() * stride <= numbers.len());
        // Where the matrix would begin; only what is inside of the block is accessed.
        let start = numbers.as_mut_ptr().wrapping_sub(rows.start * stride + columns.start);
        Block { rows, columns, output: Output { start, length: numbers.len(), stride, _elements: PhantomData } }
    }
}

impl Block<'_> {
    /// A piece of a row, by numbers of the whole output.
    pub fn row(&mut self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(self.rows.contains(&row) && self.columns.start <= columns.start && columns.end <= self.columns.end);
        // SAFETY: inside the block, which is inside the output and nobody else's, by the promise at `Output::block`.
        unsafe {
            let start = self.output.start.wrapping_add(row * self.output.stride + columns.start);
            std::slice::from_raw_parts_mut(start, columns.len())
        }
    }

    /// Elements from one of its rows to the next.
    pub fn stride(&self) -> usize {
        self.output.stride
    }

    /// Where a tile of the block begins.
    pub fn tile(&mut self, row: usize, height: usize, columns: Range<usize>) -> *mut f32 {
        assert!(self.rows.start <= row && row + height <= self.rows.end);
        self.row(row, columns).as_mut_ptr()
    }
}

/// What is done to a tile of a block once its sums are complete.
pub trait BlockEpilogue: Sync {
    /// Brings what will be needed for these rows and columns into the cache, while they are computed.
    fn prefetch(&self, rows: Range<usize>, columns: Range<usize>);

    fn apply(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>);
}
