//! From the bits of a model's weights to panels.

use super::{Format, Scales, Zeros};
use crate::functions::from_float16;
use crate::pauses::{Counted, Pauses};

/// Which integers codes stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coding {
    Unsigned,
    /// Relative to the middle of the range.
    Offset,
    /// In two's complement.
    Signed,
    /// None: numbers of 16 bits.
    Float16,
}

/// Weights as a model has them: a row of bits for each column, whose blocks begin with whole bytes, or, by depth, for each step.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// 2, 3, 4 or 8; 16 of float16 numbers.
    pub bits: usize,
    pub columns: usize,
    pub depth: usize,
    pub block: usize,
    pub coding: Coding,
    pub by_depth: bool,
    /// Of two weights in a byte the first one has the high bits.
    pub high_first: bool,
    /// What codes stand for instead of integers.
    pub code_book: Option<&'a [f32]>,
    pub weights: &'a [u8],
    /// By columns and blocks, or, by depth, by blocks and columns, as zero points that are numbers.
    pub scales: Floats<'a>,
    pub zeros: Option<Points<'a>>,
}

/// Bytes of float32 or float16 numbers, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub enum Floats<'a> {
    Float32(&'a [u8]),
    Float16(&'a [u8]),
}

/// Zero points.
#[derive(Clone, Copy, Debug)]
pub enum Points<'a> {
    /// Codes, packed as weights are.
    Packed(&'a [u8]),
    Numbers(Floats<'a>),
}

impl Floats<'_> {
    fn at(&self, place: usize) -> f32 {
        match self {
            Floats::Float32(bytes) => f32::from_le_bytes(element(bytes, place)),
            Floats::Float16(bytes) => from_float16(u16::from_le_bytes(element(bytes, place))),
        }
    }

    /// Whether float16 holds the same numbers: those of models that were float16 before, or that other formats are made of.
    fn are_float16(&self) -> bool {
        match self {
            Floats::Float32(bytes) => bytes.chunks_exact(4).all(|x| {
                let x = u32::from_le_bytes([x[0], x[1], x[2], x[3]]);
                from_float16(short(x)).to_bits() == x
            }),
            Floats::Float16(_) => true,
        }
    }
}

/// The float16 of a float32 number that is one: its sign, exponent and leading bits. Of others it is something else.
fn short(x: u32) -> u16 {
    let (sign, exponent, fraction) = (x >> 16 & 0x8000, (x >> 23 & 0xff) as i32 - 112, x & 0x7f_ffff);
    let bits = match exponent {
        1..31 => (exponent as u32) << 10 | fraction >> 13,
        // Below 2^-14 the leading bit stands in the fraction.
        -9..1 => (fraction | 0x80_0000) >> (14 - exponent),
        _ => 0,
    };
    (sign | bits) as u16
}

/// An element of an array.
fn element<const LENGTH: usize>(bytes: &[u8], number: usize) -> [u8; LENGTH] {
    std::array::from_fn(|i| bytes[number * LENGTH + i])
}

impl Source<'_> {
    /// How they are packed for vectors of so many lanes, for products of bytes or of float32 numbers.
    pub fn format(&self, lanes: usize, is_int8: bool) -> Format {
        let bits = self.stored_bits();
        let is_int8 = is_int8 && self.code_book.is_none() && self.coding != Coding::Float16;
        let zeros = match (self.zeros, self.code_book) {
            // Integers, relative to the middle of their range, or in the range of bytes.
            (None, None) if self.coding == Coding::Float16 => Zeros::All(0),
            (None, None) if self.coding == Coding::Unsigned => Zeros::All(self.zero(0, is_int8)),
            (None, None) => Zeros::All(self.zero(1 << (self.bits - 1), is_int8)),
            (None, Some(_)) => Zeros::All(0),
            (Some(Points::Packed(_)), None) if self.coding != Coding::Float16 => Zeros::Bytes,
            (Some(_), _) => Zeros::Numbers,
        };
        Format {
            lanes,
            columns: self.columns,
            depth: self.depth,
            block: self.block,
            padded: self.block.next_multiple_of(32 / bits),
            bits,
            scales: if self.scales.are_float16() { Scales::Float16 } else { Scales::Float32 },
            zeros,
            is_int8,
        }
    }

    fn stored_bits(&self) -> usize {
        match (self.bits, self.code_book) {
            (3, _) | (2, Some(_)) => 4,
            (bits, _) => bits,
        }
    }

    /// Whether a stored integer has a sign: all but those of fewer than 8 bits in products of bytes, which are factors without one.
    fn has_sign(&self, is_int8: bool) -> bool {
        !is_int8 || self.stored_bits() == 8
    }

    /// An integer without a sign, as it is stored.
    fn zero(&self, integer: i32, is_int8: bool) -> i32 {
        let half = 1 << (self.stored_bits() - 1);
        let raised = integer + self.raise();
        if self.has_sign(is_int8) { raised - half } else { raised }
    }

    /// What is added to integers of fewer bits than they are stored with, so that the middles of both ranges are the same.
    fn raise(&self) -> i32 {
        (1 << (self.stored_bits() - 1)) - (1 << (self.bits - 1))
    }

    fn bytes(&self, count: usize) -> usize {
        (count * self.bits).div_ceil(8)
    }

    /// The code at a bit of a row.
    fn code(&self, row: &[u8], bit: usize) -> u32 {
        let byte = |i: usize| row.get(i).map_or(0, |&byte| u32::from(byte));
        (byte(bit / 8) | byte(bit / 8 + 1) << 8) >> (bit % 8) & ((1 << self.bits) - 1)
    }

    /// The code of an integer without a sign.
    fn unsigned(&self, code: u32) -> u32 {
        if self.coding == Coding::Signed { code ^ 1 << (self.bits - 1) } else { code }
    }

    /// Packs everything. Pauses count words, and numbers of blocks.
    ///
    /// # Panics
    /// When something is missing, or there is no room.
    pub fn pack(&self, format: &Format, to: &mut [u8], pauses: Pauses) {
        let mut counted = pauses.counted();
        let [words, scales, zeros] = format.lengths();
        let (words, rest) = to.split_at_mut(words);
        let (scales, rest) = rest.split_at_mut(scales);
        self.pack_words(format, words, &mut counted);
        let (lanes, blocks) = (format.lanes, format.blocks());
        let of_block = |panel: usize, block: usize, lane: usize| {
            let column = panel * lanes + lane;
            let place = if self.by_depth { block * self.columns + column } else { column * blocks + block };
            (column < self.columns).then_some(place)
        };
        let places = (0..format.panels()).flat_map(|panel| (0..blocks).map(move |block| (panel, block)));
        let places = places.flat_map(|(panel, block)| (0..lanes).map(move |lane| (panel, block, lane)));
        for (panel, block, lane) in places {
            counted.done(1);
            let place = of_block(panel, block, lane);
            let number = (format.place(panel, blocks) + block * format.together(panel)) * lanes + lane;
            match (format.scales, self.scales, place) {
                (Scales::Float32, from, Some(place)) => put(scales, number, from.at(place).to_le_bytes()),
                (Scales::Float32, _, None) => put(scales, number, [0; 4]),
                (Scales::Float16, Floats::Float16(bytes), Some(place)) => put(scales, number, element::<2>(bytes, place)),
                (Scales::Float16, from, Some(place)) => put(scales, number, short(from.at(place).to_bits()).to_le_bytes()),
                (Scales::Float16, _, None) => put(scales, number, [0; 2]),
            }
            let zeros = &mut rest[..zeros];
            match format.zeros {
                Zeros::All(_) => {}
                Zeros::Bytes => {
                    let zero = place.map_or(0, |_| self.zero_code(block, panel * lanes + lane));
                    put(zeros, number, [self.zero(self.unsigned(zero) as i32, format.is_int8) as u8]);
                }
                Zeros::Numbers => {
                    let zero = place.map_or(0.0, |place| self.zero_number(format, block, panel * lanes + lane, place));
                    put(zeros, number, zero.to_le_bytes());
                }
            }
        }
    }

    /// The code of a packed zero point.
    fn zero_code(&self, block: usize, column: usize) -> u32 {
        let Some(Points::Packed(bytes)) = self.zeros else { return 0 };
        let blocks = self.depth.div_ceil(self.block);
        let (row, place, length) =
            if self.by_depth { (block, column, self.bytes(self.columns)) } else { (column, block, self.bytes(blocks)) };
        self.code(&bytes[row * length..][..length], place * self.bits)
    }

    /// What is taken off integers as they are stored, or off numbers of the code book.
    fn zero_number(&self, format: &Format, block: usize, column: usize, place: usize) -> f32 {
        match (self.zeros, self.code_book) {
            (Some(Points::Numbers(numbers)), Some(_)) => numbers.at(place),
            (Some(Points::Numbers(numbers)), None) => {
                let middle = if self.coding == Coding::Unsigned { 0 } else { 1 << (self.bits - 1) };
                numbers.at(place) + self.zero(middle, format.is_int8) as f32
            }
            (_, Some(book)) => book[self.zero_code(block, column) as usize],
            (_, None) => 0.0,
        }
    }

    fn pack_float16(&self, format: &Format, to: &mut [u8], counted: &mut Counted) {
        let (lanes, blocks) = (format.lanes, format.blocks());
        let (row, of_block) = (self.bytes(self.columns), self.bytes(self.block));
        for panel in 0..format.panels() {
            let (first, together) = (format.place(panel, blocks * format.words()), format.together(panel));
            for k in 0..self.depth {
                counted.done(lanes);
                let (block, within) = (k / self.block, k % self.block);
                // A word has two rows.
                let (row_of_word, word) = (within % 2, block * format.words() + within / 2);
                let begin = (first + word * together) * 2 + row_of_word;
                for lane in 0..lanes.min(self.columns - panel * lanes) {
                    let column = panel * lanes + lane;
                    let from = match self.by_depth {
                        true => k * row + column * 2,
                        false => (column * blocks + block) * of_block + within * 2,
                    };
                    put(to, begin * lanes + lane, [self.weights[from], self.weights[from + 1]]);
                }
            }
        }
    }

    fn pack_words(&self, format: &Format, to: &mut [u8], counted: &mut Counted) {
        if format.bits == 16 {
            return self.pack_float16(format, to, counted);
        }
        let (lanes, blocks, words) = (format.lanes, format.blocks(), format.words());
        let has_sign = self.code_book.is_none() && self.has_sign(format.is_int8);
        let flip = if has_sign { top_bits(format.bits) } else { 0 };
        let signed = self.coding == Coding::Signed && self.code_book.is_none();
        // What makes integers without a sign of those in two's complement, and what makes stored ones of these.
        let flip = if signed && self.bits == format.bits { flip ^ top_bits(format.bits) } else { flip };
        for panel in 0..format.panels() {
            let (first, together) = (format.place(panel, blocks * words), format.together(panel));
            for lane in 0..lanes.min(self.columns - panel * lanes) {
                let column = panel * lanes + lane;
                for block in 0..blocks {
                    for word in 0..words {
                        counted.done(1);
                        let number = (first + (block * words + word) * together) * lanes + lane;
                        let codes = self.word(column, block, word, format);
                        put(to, number, (arranged(codes, format.bits) ^ flip).to_le_bytes());
                    }
                }
            }
        }
    }

    /// The codes of consecutive weights, the first one in the lowest bits; of three bits, those of integers that four bits hold.
    fn word(&self, column: usize, block: usize, word: usize, format: &Format) -> u32 {
        let together = format.of_word();
        let first = word * together;
        if self.by_depth || self.bits != format.bits {
            let end = self.block.min(self.depth - block * self.block);
            let code = |i: usize| {
                if first + i >= end {
                    return 0;
                }
                let code = if self.by_depth {
                    let length = self.bytes(self.columns);
                    let k = block * self.block + first + i;
                    self.code(&self.weights[k * length..][..length], column * self.bits)
                } else {
                    let length = self.bytes(self.block);
                    let blocks = self.depth.div_ceil(self.block);
                    self.code(&self.weights[(column * blocks + block) * length..][..length], (first + i) * self.bits)
                };
                if self.bits == format.bits || self.code_book.is_some() {
                    return code;
                }
                self.unsigned(code) + self.raise() as u32
            };
            return (0..together).map(|i| code(i) << (i * format.bits)).sum();
        }
        let length = self.bytes(self.block);
        let blocks = self.depth.div_ceil(self.block);
        let bytes = &self.weights[(column * blocks + block) * length..][..length];
        let codes = match bytes.get(word * 4..word * 4 + 4) {
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
            _ => (0..4).map(|i| bytes.get(word * 4 + i).map_or(0, |&byte| u32::from(byte) << (8 * i))).sum(),
        };
        if self.high_first { codes << 4 & 0xf0f0_f0f0 | codes >> 4 & 0x0f0f_0f0f } else { codes }
    }
}

/// The highest bits of all numbers of so many bits.
fn top_bits(bits: usize) -> u32 {
    (0..32 / bits).map(|i| 1u32 << (i * bits + bits - 1)).sum()
}

/// Writes an element of an array.
fn put<const LENGTH: usize>(to: &mut [u8], number: usize, element: [u8; LENGTH]) {
    to[number * LENGTH..][..LENGTH].copy_from_slice(&element);
}

/// Weights in their order, as a word has them: number `4 i + j` of `b` bits at bit `8 j + b i`.
fn arranged(codes: u32, bits: usize) -> u32 {
    match bits {
        // A matrix of numbers of two bits, four in a byte, is transposed.
        2 => {
            let moved = (codes >> 6 ^ codes) & 0x00cc_00cc;
            let codes = codes ^ moved ^ moved << 6;
            let moved = (codes >> 12 ^ codes) & 0x0000_f0f0;
            codes ^ moved ^ moved << 12
        }
        4 => {
            let apart = |four: u32| {
                let two = (four | four << 8) & 0x00ff_00ff;
                (two | two << 4) & 0x0f0f_0f0f
            };
            apart(codes & 0xffff) | apart(codes >> 16) << 4
        }
        _ => codes,
    }
}

#[cfg(test)]
mod tests {
    use super::{Floats, arranged, from_float16, short};

    #[test]
    fn float32_numbers_that_are_float16_are_found() {
        for bits in 0..=u16::MAX {
            let number = from_float16(bits);
            let same = Floats::Float32(&number.to_le_bytes()).are_float16();
            assert_eq!(same, number.is_finite(), "{bits:x}");
            assert!(!same || short(number.to_bits()) == bits, "{bits:x}");
            // The next one has more bits.
            let next = f32::from_bits(number.to_bits() ^ 1);
            assert!(!Floats::Float32(&next.to_le_bytes()).are_float16(), "{bits:x}");
        }
        for number in [65536.0f32, 1e30, 1e-30, 1.0 / 3.0, 2f32.powi(-25)] {
            assert!(!Floats::Float32(&number.to_le_bytes()).are_float16(), "{number}");
        }
    }

    #[test]
    fn words_are_arranged() {
        for bits in [2usize, 4, 8] {
            let per_byte = 8 / bits;
            let codes: u32 = 0x9e37_79b9;
            let code = |i: usize| codes >> (i * bits) & ((1u64 << bits) - 1) as u32;
            let word: u32 = (0..4 * per_byte).map(|k| code(k) << (8 * (k % 4) + bits * (k / 4))).sum();
            assert_eq!(arranged(codes, bits), word, "{bits} bits");
        }
    }
}
