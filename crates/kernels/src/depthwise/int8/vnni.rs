//! Windows of 3 x 3 for CPUs with AVX-512 and VNNI, 64 channels at a time. The bytes of the three rows of a column, and a fourth one
//! of no weight, are brought side by side, so that one instruction multiplies and adds up those of a channel; a column serves all
//! pixels whose windows cover it. What makes bytes of the sums again puts the channels back into their order.
#![allow(unsafe_code)]

use crate::functions::exact_division::Products;
use std::arch::x86_64::*;

/// Channels that are computed together.
pub const CHANNELS: usize = 64;
const SIZE: usize = 3;
/// Vectors of so many channels' sums.
const VECTORS: usize = 4;
const LANES: usize = 16;

/// What belongs to some channels, in the order in which their sums come.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Block {
    /// By column of the window: the weights of its rows, and 0.
    weights: [[[[i8; 4]; LANES]; VECTORS]; SIZE],
    start: [[i32; LANES]; VECTORS],
    factor: [[f32; LANES]; VECTORS],
    bias: [[f32; LANES]; VECTORS],
    /// The first channel, and how many there are.
    first: usize,
    count: usize,
}

/// What is known of a channel.
pub struct Channel {
    /// By row and column of the window.
    pub weights: [[i8; SIZE]; SIZE],
    /// The sum begins with it, is multiplied with `factor`, and `bias` is added.
    pub start: i32,
    pub factor: f32,
    pub bias: f32,
}

/// Some rows of pixels, and how wide they are.
pub struct Rows<'a> {
    /// Those of the input that the windows cover; none is one in the padding.
    pub from: [Option<&'a [u8]>; SIZE],
    /// A pixel in the padding.
    pub zeros: &'a [u8],
    pub to: &'a mut [u8],
    pub channels: usize,
    /// Columns of the input, and those in the padding before them.
    pub columns: usize,
    pub padding: usize,
    pub stride: usize,
}

/// How sums become bytes.
#[derive(Clone, Copy)]
pub struct ToBytes {
    pub products: Products,
    pub zero: i32,
    pub is_signed: bool,
}

impl Block {
    pub fn are_used() -> bool {
        is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw")
    }

    /// Blocks of so many channels. The last one has some of the one before too, where there are enough: results are written as a
    /// whole.
    pub fn all(channels: usize, of: impl Fn(usize) -> Channel) -> Vec<Block> {
        let last = channels.saturating_sub(CHANNELS);
        (0..channels).step_by(CHANNELS).map(|first| Block::new(first.min(last), CHANNELS.min(channels), &of)).collect()
    }

    fn new(first: usize, count: usize, of: &impl Fn(usize) -> Channel) -> Block {
        let zeros = [[0f32; LANES]; VECTORS];
        let weights = [[[[0; 4]; LANES]; VECTORS]; SIZE];
        let mut block = Block { weights, start: [[0; LANES]; VECTORS], factor: zeros, bias: zeros, first, count };
        for (vector, lane) in (0..VECTORS).flat_map(|vector| (0..LANES).map(move |lane| (vector, lane))) {
            // The order in which bytes are brought together inside of quarters of a vector.
            let place = lane / 4 * 16 + vector * 4 + lane % 4;
            if place < count {
                let Channel { weights, start, factor, bias } = of(first + place);
                for (row, column) in (0..SIZE).flat_map(|row| (0..SIZE).map(move |column| (row, column))) {
                    block.weights[column][vector][lane][row] = weights[row][column];
                }
                (block.start[vector][lane], block.factor[vector][lane]) = (start, factor);
                block.bias[vector][lane] = bias;
            }
        }
        block
    }

    /// Computes the block's channels of a row of pixels, whose bytes have a sign or not.
    pub fn row(&self, rows: &mut Rows<'_>, to_bytes: ToBytes, is_signed: bool) {
        if is_signed { self.with_signs::<true>(rows, to_bytes) } else { self.with_signs::<false>(rows, to_bytes) }
    }

    fn with_signs<const SIGNED: bool>(&self, rows: &mut Rows<'_>, to_bytes: ToBytes) {
        let &mut Rows { from, zeros, ref to, channels, columns, .. } = rows;
        assert!(Block::are_used());
        assert!(self.first + self.count <= channels && zeros.len() == channels && to.len().is_multiple_of(channels));
        assert!(from.iter().flatten().all(|row| row.len() == columns * channels));
        // SAFETY: the CPU has the instructions; the rest was asserted.
        unsafe {
            match (rows.stride, self.count == CHANNELS) {
                (1, true) => self.compute::<1, SIGNED, true>(rows, to_bytes),
                (1, false) => self.compute::<1, SIGNED, false>(rows, to_bytes),
                (2, true) => self.compute::<2, SIGNED, true>(rows, to_bytes),
                (2, false) => self.compute::<2, SIGNED, false>(rows, to_bytes),
                _ => unreachable!("other strides have no blocks"),
            }
        }
    }

    /// # Safety
    /// What [`Block::row`] asserts. WHOLE blocks have [`CHANNELS`] channels.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni")]
    unsafe fn compute<const STRIDE: usize, const SIGNED: bool, const WHOLE: bool>(&self, rows: &mut Rows<'_>, to_bytes: ToBytes) {
        let (channels, pixels) = (rows.channels, rows.to.len() / rows.channels);
        let image = Image::<SIGNED, WHOLE> {
            from: rows.from.map(|row| match row {
                Some(row) => (row.as_ptr().wrapping_add(self.first), channels),
                None => (rows.zeros.as_ptr().wrapping_add(self.first), 0),
            }),
            zeros: rows.zeros.as_ptr().wrapping_add(self.first),
            columns: rows.columns,
            padding: rows.padding,
            mask: u64::MAX >> (CHANNELS - self.count),
        };
        let mut to = rows.to.as_mut_ptr().wrapping_add(self.first);
        // SAFETY: columns are read where there are some, and as many pixels are written as there are; the instructions are there.
        unsafe {
            let requantize = Requantize::new(to_bytes);
            let [first, middle, last] = &self.weights;
            let weights = [load_integers(first), load_integers(middle), load_integers(last)];
            let mut sums = add(load_integers(&self.start), image.column(0), weights[0]);
            if STRIDE == 2 {
                for pixel in 0..pixels {
                    sums = add(sums, image.column(2 * pixel + 1), weights[1]);
                    let last = image.column(2 * pixel + 2);
                    self.store::<WHOLE>(requantize.bytes(self, add(sums, last, weights[2])), to);
                    sums = add(load_integers(&self.start), last, weights[0]);
                    to = to.wrapping_add(channels);
                }
                return;
            }
            let second = image.column(1);
            sums = add(sums, second, weights[1]);
            let mut next = add(load_integers(&self.start), second, weights[0]);
            for pixel in 0..pixels {
                let last = image.column(pixel + 2);
                self.store::<WHOLE>(requantize.bytes(self, add(sums, last, weights[2])), to);
                sums = add(next, last, weights[1]);
                next = add(load_integers(&self.start), last, weights[0]);
                to = to.wrapping_add(channels);
            }
        }
    }

    /// # Safety
    /// There must be room for the block's channels at `to`. As for [`load_integers`].
    #[inline(always)]
    unsafe fn store<const WHOLE: bool>(&self, bytes: __m512i, to: *mut u8) {
        // SAFETY: the caller's promise; `all` is as long as a vector.
        unsafe {
            if WHOLE {
                return _mm512_storeu_si512(to.cast(), bytes);
            }
            match self.count {
                16 => _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(bytes)),
                32 => _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(bytes)),
                count => {
                    let mut all = [0u8; CHANNELS];
                    _mm512_storeu_si512(all.as_mut_ptr().cast(), bytes);
                    std::ptr::copy_nonoverlapping(all.as_ptr(), to, count);
                }
            }
        }
    }
}

/// Columns of three rows, as far as they are there.
struct Image<const SIGNED: bool, const WHOLE: bool> {
    /// Where a row begins, and how far it is from a pixel to the next.
    from: [(*const u8, usize); SIZE],
    zeros: *const u8,
    columns: usize,
    padding: usize,
    mask: u64,
}

impl<const SIGNED: bool, const WHOLE: bool> Image<SIGNED, WHOLE> {
    /// The bytes of a column, counted from the first one in the padding on, side by side.
    ///
    /// # Safety
    /// The rows must have the columns, each with the channels of the mask; the pixel of zeros too. As for [`load_integers`].
    #[inline(always)]
    unsafe fn column(&self, number: usize) -> [__m512i; VECTORS] {
        let place = number.wrapping_sub(self.padding);
        let [a, b, c] = self.from;
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b, c) = if place < self.columns {
                let at = |(from, step): (*const u8, usize)| from.wrapping_add(place * step);
                (self.load(at(a)), self.load(at(b)), self.load(at(c)))
            } else {
                let zeros = self.load(self.zeros);
                (zeros, zeros, zeros)
            };
            let none = _mm512_setzero_si512();
            let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
            let (low_rest, high_rest) = (_mm512_unpacklo_epi8(c, none), _mm512_unpackhi_epi8(c, none));
            [
                _mm512_unpacklo_epi16(low, low_rest),
                _mm512_unpackhi_epi16(low, low_rest),
                _mm512_unpacklo_epi16(high, high_rest),
                _mm512_unpackhi_epi16(high, high_rest),
            ]
        }
    }

    /// # Safety
    /// See [`Image::column`].
    #[inline(always)]
    unsafe fn load(&self, from: *const u8) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = if WHOLE { _mm512_loadu_si512(from.cast()) } else { _mm512_maskz_loadu_epi8(self.mask, from.cast()) };
            if SIGNED { _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) } else { bytes }
        }
    }
}

/// # Safety
/// Must be inlined into a function with the instructions.
#[inline(always)]
unsafe fn load_integers<T>(vectors: &[[T; LANES]; VECTORS]) -> [__m512i; VECTORS] {
    const { assert!(size_of::<T>() == 4) }
    let [a, b, c, d] = vectors.each_ref().map(|vector| vector.as_ptr());
    // SAFETY: arrays as long as a vector; the instructions are the caller's promise.
    unsafe {
        [_mm512_loadu_si512(a.cast()), _mm512_loadu_si512(b.cast()), _mm512_loadu_si512(c.cast()), _mm512_loadu_si512(d.cast())]
    }
}

/// # Safety
/// As for [`load_integers`].
#[inline(always)]
unsafe fn add(sums: [__m512i; VECTORS], column: [__m512i; VECTORS], weights: [__m512i; VECTORS]) -> [__m512i; VECTORS] {
    let ([a, b, c, d], [e, f, g, h], [i, j, k, l]) = (sums, column, weights);
    // SAFETY: the caller's promise.
    unsafe {
        [_mm512_dpbusd_epi32(a, e, i), _mm512_dpbusd_epi32(b, f, j), _mm512_dpbusd_epi32(c, g, k), _mm512_dpbusd_epi32(d, h, l)]
    }
}

/// [`ToBytes`] in vectors.
#[derive(Clone, Copy)]
struct Requantize {
    bounds: [__m512; 2],
    reciprocal: __m512,
    rest: __m512,
    zero: __m512i,
    is_signed: bool,
}

impl Requantize {
    /// # Safety
    /// As for [`load_integers`].
    #[inline(always)]
    unsafe fn new(ToBytes { products, zero, is_signed }: ToBytes) -> Requantize {
        // SAFETY: the caller's promise.
        unsafe {
            Requantize {
                bounds: [_mm512_set1_ps(products.bounds[0]), _mm512_set1_ps(products.bounds[1])],
                reciprocal: _mm512_set1_ps(products.reciprocal),
                rest: _mm512_set1_ps(products.rest),
                // Numbers of steps and zero points are below 512.
                zero: _mm512_set1_epi16(zero as i16),
                is_signed,
            }
        }
    }

    /// # Safety
    /// As for [`load_integers`].
    #[inline(always)]
    unsafe fn bytes(&self, block: &Block, [a, b, c, d]: [__m512i; VECTORS]) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm512_packs_epi32(self.steps(block, 0, a), self.steps(block, 1, b));
            let high = _mm512_packs_epi32(self.steps(block, 2, c), self.steps(block, 3, d));
            let (low, high) = (_mm512_add_epi16(low, self.zero), _mm512_add_epi16(high, self.zero));
            if self.is_signed { _mm512_packs_epi16(low, high) } else { _mm512_packus_epi16(low, high) }
        }
    }

    /// # Safety
    /// As for [`load_integers`].
    #[inline(always)]
    unsafe fn steps(&self, block: &Block, vector: usize, sums: __m512i) -> __m512i {
        // SAFETY: arrays as long as a vector; the instructions are the caller's promise.
        unsafe {
            let (factor, bias) = (_mm512_loadu_ps(block.factor[vector].as_ptr()), _mm512_loadu_ps(block.bias[vector].as_ptr()));
            let x = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), factor, bias);
            let x = _mm512_min_ps(self.bounds[1], _mm512_max_ps(self.bounds[0], x));
            _mm512_cvtps_epi32(_mm512_fmadd_ps(x, self.reciprocal, _mm512_mul_ps(x, self.rest)))
        }
    }
}
