//! Conversions between float32 and float16, to the nearest number, the even one of two.
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// Makes float32 numbers of the bits of float16 ones, which lie in lines.
pub struct Widen<'a> {
    pub halves: &'a [u16],
    /// From the beginning of one line to that of the next.
    pub stride: usize,
    /// Numbers of a line.
    pub width: usize,
    /// One line after the other; the last one may be shorter.
    pub numbers: &'a mut [f32],
}

impl Widen<'_> {
    /// Runs it with an instruction set.
    ///
    /// # Panics
    /// When there are not so many lines.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self);
    }
}

impl OnVectors for Widen<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Widen { halves, stride, width, numbers } = self;
        let width = if stride == width { numbers.len() } else { width };
        for (i, line) in numbers.chunks_mut(width.max(1)).enumerate() {
            let halves = &halves[i * stride..][..line.len()];
            for (numbers, halves) in line.chunks_mut(V::LANES).zip(halves.chunks(V::LANES)) {
                if numbers.len() == V::LANES {
                    // SAFETY: there are as many of both as lanes.
                    unsafe { V::load_float16(halves.as_ptr()).store(numbers.as_mut_ptr()) };
                    continue;
                }
                let mut lanes = [0u16; MOST_LANES];
                lanes[..halves.len()].copy_from_slice(halves);
                // SAFETY: there are as many as the most lanes that a vector has, and room for so many numbers.
                unsafe { V::load_float16(lanes.as_ptr()).store_first(numbers.as_mut_ptr(), numbers.len()) };
            }
        }
    }
}

/// Makes the bits of float16 numbers of as many float32 ones.
pub struct Narrow<'a> {
    pub numbers: &'a [f32],
    pub halves: &'a mut [u16],
}

impl Narrow<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self);
    }
}

impl OnVectors for Narrow<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        assert_eq!(self.numbers.len(), self.halves.len());
        for (halves, numbers) in self.halves.chunks_mut(V::LANES).zip(self.numbers.chunks(V::LANES)) {
            if halves.len() == V::LANES {
                // SAFETY: there are as many of both as lanes.
                unsafe { V::load(numbers.as_ptr()).store_float16(halves.as_mut_ptr()) };
                continue;
            }
            let mut lanes = [0u16; MOST_LANES];
            // SAFETY: there are so many numbers, and room for the most lanes that a vector has.
            unsafe { V::load_first(numbers.as_ptr(), numbers.len()).store_float16(lanes.as_mut_ptr()) };
            halves.copy_from_slice(&lanes[..halves.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// Every float16 number, and float32 numbers beside them and halfway to the next ones.
    fn all() -> (Vec<u16>, Vec<f32>) {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        let beside = |&bits: &u16| {
            let number = f16::from_bits(bits).to_f32().to_bits();
            [0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff].map(|more| f32::from_bits(number.wrapping_add(more)))
        };
        let mut numbers: Vec<f32> = halves.iter().flat_map(beside).collect();
        numbers.extend([f32::MAX, -f32::MAX, 1e-40, -1e-40, f32::MIN_POSITIVE, 65_519.99, 65_520.0, -65_520.0]);
        (halves, numbers)
    }

    #[test]
    fn numbers_are_the_same() {
        let (halves, _) = all();
        let expected: Vec<u32> = halves.iter().map(|&bits| f16::from_bits(bits).to_f32().to_bits()).collect();
        for isa in Isa::available() {
            for count in [0, 1, 7, 8, 15, 16, 17, 33, halves.len()] {
                let mut numbers = vec![0.0; count];
                Widen { halves: &halves, stride: count, width: count, numbers: &mut numbers }.compute(isa);
                assert!(numbers.iter().zip(&expected).all(|(x, bits)| x.to_bits() == *bits), "{}, {count}", isa.name);
            }
        }
    }

    #[test]
    fn lines_have_gaps() {
        let (halves, _) = all();
        for isa in Isa::available() {
            for (stride, width, count) in [(19, 7, 35), (64, 16, 64), (40, 33, 100), (1, 1, 9), (5, 5, 23)] {
                let mut numbers = vec![0.0; count];
                Widen { halves: &halves, stride, width, numbers: &mut numbers }.compute(isa);
                for (i, x) in numbers.iter().enumerate() {
                    let expected = f16::from_bits(halves[i / width * stride + i % width]).to_f32();
                    assert_eq!(x.to_bits(), expected.to_bits(), "{}, {stride}, {width}, {i}", isa.name);
                }
            }
        }
    }

    #[test]
    fn the_nearest_ones() {
        let (_, numbers) = all();
        for isa in Isa::available() {
            for count in [0, 1, 7, 9, 31, numbers.len()] {
                let mut halves = vec![0; count];
                Narrow { numbers: &numbers[..count], halves: &mut halves }.compute(isa);
                for (x, found) in numbers.iter().zip(&halves) {
                    assert_eq!(*found, f16::from_f32(*x).to_bits(), "{}, {x:e}", isa.name);
                }
            }
        }
    }
}
