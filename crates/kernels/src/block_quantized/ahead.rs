//! What of the weights is fetched before it is read. Panels that are read side by side are streams of memory. Behind the end of one
//! comes the panel that is read after them: so many on. Otherwise each would begin with lines that nobody has fetched, which are
//! many of a short panel, and the scales' lines too.
//!
//! Into the second-level cache: on a Zen 4, of the 70 MB of a decoder with rows of 576 weights of four bits, four streams are read
//! with 22 GB/s, with 15 where nothing is fetched, and with 7 where lines are fetched into the first-level cache.

use super::Format;
use crate::simd::prefetch::fetch;

/// How far behind the words that are read those are that are fetched, in words of all lanes.
const SOON: usize = 32;

/// Distances for panels of one format.
pub(super) struct Ahead {
    /// Words of all lanes that a panel has, and blocks.
    words: usize,
    blocks: usize,
    /// Blocks ahead.
    soon: usize,
    /// Bytes of a word of all lanes, and of the scales of a block.
    of_word: usize,
    of_scales: usize,
    /// Panels from the end of one to the beginning of the next one of its stream.
    between: usize,
}

impl Ahead {
    #[inline(always)]
    pub fn of(format: &Format, panels: usize) -> Ahead {
        let (words, blocks) = (format.words(), format.blocks());
        Ahead {
            words: words * blocks,
            blocks,
            soon: SOON.div_ceil(words.max(1)),
            of_word: format.lanes * 4,
            of_scales: format.bytes_of_scales(),
            between: panels - 1,
        }
    }

    /// Bytes from a word of a panel to what is fetched.
    #[inline(always)]
    pub fn words(&self, number: usize) -> usize {
        let skipped = if number + SOON >= self.words { self.between * self.words } else { 0 };
        (SOON + skipped) * self.of_word
    }

    /// Bytes from the scales of a block to those that are fetched.
    #[inline(always)]
    pub fn scales(&self, block: usize) -> usize {
        let skipped = if block + self.soon >= self.blocks { self.between * self.blocks } else { 0 };
        (self.soon + skipped) * self.of_scales
    }

    /// Fetches what is so many bytes away, whether it is there or not.
    #[inline(always)]
    pub fn fetch(from: *const f32, bytes: usize) {
        fetch::<1>(from.wrapping_byte_add(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_quantized::{Scales, Zeros};

    /// Every line of all panels but the first of each stream is fetched, and once.
    #[test]
    fn each_word_is_fetched_once() {
        for depth in [64, 576, 4096] {
            let zeros = Zeros::All(8);
            let (lanes, columns, block) = (16, 16 * 12, 32);
            let format =
                Format { lanes, columns, depth, block, padded: block, bits: 4, scales: Scales::Float16, zeros, is_int8: true };
            let ahead = Ahead::of(&format, 4);
            let (of_panel, scales) = (ahead.words * ahead.of_word, ahead.blocks * ahead.of_scales);
            let (mut words_fetched, mut scales_fetched) = (Vec::new(), Vec::new());
            for panel in 0..format.panels() {
                for word in 0..ahead.words {
                    words_fetched.push(panel * of_panel + word * ahead.of_word + ahead.words(word));
                }
                for block in 0..ahead.blocks {
                    scales_fetched.push(panel * scales + block * ahead.of_scales + ahead.scales(block));
                }
            }
            let check = |mut fetched: Vec<usize>, of_one: usize, of_panel: usize, soon: usize| {
                fetched.sort_unstable();
                let before = fetched.len();
                fetched.dedup();
                assert_eq!(before, fetched.len());
                // Behind the first ones of the first four panels all that follows.
                let all: std::collections::HashSet<usize> = fetched.into_iter().collect();
                let first = if soon * of_one < of_panel { soon * of_one } else { 4 * of_panel };
                let wanted = (first..format.panels() * of_panel).step_by(of_one);
                let missed =
                    wanted.filter(|at| !all.contains(at)).filter(|at| at / of_panel >= 4 || at % of_panel >= soon * of_one);
                assert_eq!(missed.count(), 0, "{depth}");
            };
            if SOON <= ahead.words {
                check(words_fetched, ahead.of_word, of_panel, SOON);
                check(scales_fetched, ahead.of_scales, scales, ahead.soon);
            }
        }
    }
}
