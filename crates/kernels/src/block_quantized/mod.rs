//! Products with weights of a few bits, which are quantized in blocks along the depth.
//!
//! Weights are packed with the bits that they have. A *panel* has as many columns as a vector has lanes. For each *word* of 32 bits
//! along the depth it has one of each column: of `b` bits, weight `4 i + j` of a word begins at bit `8 j + b i`, so that a mask
//! leaves the codes of four weights in the bytes of a lane, as products of bytes want them, and a shift any other four. float16
//! weights lie in rows of lanes, two rows for a word.
//! Scales lie in panels too, one row of lanes for each block, and so do zero points where blocks have them. [`MOST_PANELS`] panels lie
//! together and take turns, word by word and block by block: what is read for one row is one stream of memory, which the CPU fetches
//! ahead.
//!
//! A panel is read once for up to [`MOST_ROWS`] rows. [`float32`] multiplies in float32, [`int8`] the bytes that the rows have
//! been rounded to; both add up a block, then scale. [`unpack`] expands panels for products of many rows.

mod ahead;
pub mod float32;
pub mod int8;
mod packing;
mod registers;
pub mod unpack;

pub use packing::{Coding, Floats, Points, Source};
pub use registers::Instructions;

/// Rows that are multiplied with a panel while it is read.
pub const MOST_ROWS: usize = 8;
/// Panels that lie together, and are read side by side for one row.
pub const MOST_PANELS: usize = 4;

/// How packed weights lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    pub lanes: usize,
    pub columns: usize,
    pub depth: usize,
    /// Weights of a block as they come, and as words have them.
    pub block: usize,
    pub padded: usize,
    /// Bits of a weight as they lie here: 2, 4 or 8, or 16 of float16 numbers. Three are four.
    pub bits: usize,
    pub scales: Scales,
    pub zeros: Zeros,
    /// Whether the words are made for products of bytes.
    pub is_int8: bool,
}

/// Which numbers scales are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scales {
    Float32,
    Float16,
}

/// What is taken off the integers, as they lie here, of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Zeros {
    /// The same for all.
    All(i32),
    /// A byte with a sign for each column.
    Bytes,
    /// A float32 number for each column.
    Numbers,
}

/// Bytes of a line of the cache, where each part begins.
const LINE: usize = 64;

impl Format {
    pub fn panels(&self) -> usize {
        self.columns.div_ceil(self.lanes)
    }

    pub fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block)
    }

    /// Numbers of a row with all blocks filled up.
    pub fn padded_depth(&self) -> usize {
        self.blocks() * self.padded
    }

    /// Weights of a word.
    pub fn of_word(&self) -> usize {
        32 / self.bits
    }

    /// Words of a column in a block.
    pub fn words(&self) -> usize {
        self.padded / self.of_word()
    }

    /// Panels that lie together with one, itself among them: fewer where not as many are left.
    pub(crate) fn together(&self, panel: usize) -> usize {
        MOST_PANELS.min(self.panels() - panel / MOST_PANELS * MOST_PANELS)
    }

    /// Which of all rows of lanes is that of a panel, where each has so many; the next one comes [`Format::together`] on.
    pub(crate) fn place(&self, panel: usize, of_panel: usize) -> usize {
        let within = panel % MOST_PANELS;
        (panel - within) * of_panel + within
    }

    /// Bytes of the scales of a panel's block.
    fn bytes_of_scales(&self) -> usize {
        self.lanes * if self.scales == Scales::Float32 { 4 } else { 2 }
    }

    /// Bytes of all weights, scales and zero points, filled up to lines.
    fn lengths(&self) -> [usize; 3] {
        let of_block = self.panels() * self.lanes * self.blocks();
        let zero = match self.zeros {
            Zeros::All(_) => 0,
            Zeros::Bytes => 1,
            Zeros::Numbers => 4,
        };
        [of_block * self.words() * 4, of_block / self.lanes * self.bytes_of_scales(), of_block * zero]
            .map(|length| length.next_multiple_of(LINE))
    }

    pub fn bytes(&self) -> usize {
        self.lengths().iter().sum()
    }

    /// Bytes of a panel, about.
    pub fn bytes_of_panel(&self) -> usize {
        self.bytes() / self.panels().max(1)
    }
}

/// Packed weights in somebody's memory.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    pub format: &'a Format,
    /// What the codes of weights stand for where they are no integers.
    code_book: Option<&'a [f32; 16]>,
    words: &'a [u8],
    scales: &'a [u8],
    zeros: &'a [u8],
}

impl<'a> Weights<'a> {
    /// # Panics
    /// When there are fewer bytes than the format has.
    pub fn new(format: &'a Format, code_book: Option<&'a [f32; 16]>, bytes: &'a [u8]) -> Weights<'a> {
        let [words, scales, zeros] = format.lengths();
        let (words, rest) = bytes.split_at(words);
        let (scales, rest) = rest.split_at(scales);
        assert!(code_book.is_none() || format.bits == 4 && !format.is_int8 && format.zeros != Zeros::Bytes);
        Weights { format, code_book, words, scales, zeros: &rest[..zeros] }
    }

    /// Where the words of a panel begin.
    fn words_of(&self, panel: usize) -> *const f32 {
        let place = self.format.place(panel, self.format.blocks() * self.format.words());
        self.words[place * self.format.lanes * 4..].as_ptr().cast()
    }

    /// Where the scales lie that are number `place` of all.
    #[inline(always)]
    fn scales_at(&self, place: usize) -> *const f32 {
        self.scales.as_ptr().wrapping_add(place * self.format.bytes_of_scales()).cast()
    }
}

/// The table that says what a code of four bits stands for: integers from -8 on, whose codes are those of two's complement.
pub(crate) static INTEGERS: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0];

#[cfg(test)]
mod tests;
