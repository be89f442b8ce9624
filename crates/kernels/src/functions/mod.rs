//! Functions of one float32.

pub mod exact_division;
pub mod formulas;

pub use formulas::Function;

/// The number that the bits of a float16 number stand for.
#[inline(always)]
pub fn from_float16(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    const LEAST_NORMAL: u32 = 0x3880_0000;
    // From one exponent's bias to the other's. Subnormal numbers, which have no leading one, get one that is subtracted: no float32
    // number is subnormal here, which threads may flush.
    let small = f32::from_bits(size | LEAST_NORMAL) - f32::from_bits(LEAST_NORMAL);
    let number = if size < 1 << 23 { small } else { f32::from_bits(size + (112 << 23)) };
    // What is not a number is a quiet one, as instructions make it.
    let quiet = if size & 0x007f_ffff == 0 { 0 } else { 0x0040_0000 };
    let number = if bits & 0x7c00 == 0x7c00 { f32::from_bits(size | 0x7f80_0000 | quiet) } else { number };
    f32::from_bits(number.to_bits() | sign)
}

/// The nearest float16 number, halves to even; infinity where there is none so great.
#[inline(always)]
pub fn float16(x: f32) -> f32 {
    const DROPPED: u32 = 13;
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;
    const OVERFLOW: f32 = 65_536.0;
    let sign = x.to_bits() & 0x8000_0000;
    let size = x.to_bits() ^ sign;
    let number = f32::from_bits(size);
    // Carries of the mantissa raise the exponent, as they should.
    let even = size >> DROPPED & 1;
    let normal = (size + ((1 << (DROPPED - 1)) - 1) + even) >> DROPPED << DROPPED;
    // Those of less than 2^-14 are multiples of 2^-24, which the last place of numbers from 0.5 on is.
    let small = (number + 0.5) - 0.5;
    let result = if number < LEAST_NORMAL { small } else { f32::from_bits(normal) };
    let result = if result >= OVERFLOW { f32::INFINITY } else { result };
    let result = if x.is_nan() { f32::from_bits(size | 0x0040_0000) } else { result };
    f32::from_bits(result.to_bits() | sign)
}

/// The bits of the nearest float16 number, see [`float16`].
#[inline(always)]
pub fn float16_bits(x: f32) -> u16 {
    const LEAST_NORMAL: u32 = 0x3880_0000;
    let bits = float16(x).to_bits();
    let (sign, size) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    let normal = size.wrapping_sub(112 << 23) >> 13;
    // A multiple of 2^-24.
    let small = (f32::from_bits(size) * 16_777_216.0) as u32;
    let number = if size < LEAST_NORMAL { small } else { normal };
    let number = if size >= 0x7f80_0000 { 0x7c00 | (size >> 13 & 0x3ff) } else { number };
    (sign | number) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn float16_numbers_are_the_nearest() {
        // Every float16, what lies between it and the next ones, and what is a little beside that.
        for bits in 0..=u16::MAX {
            let number = half::f16::from_bits(bits).to_f32();
            let found = from_float16(bits);
            assert!(found.to_bits() == number.to_bits() || found.is_nan() && number.is_nan(), "{bits:x}");
            for x in [number, f32::from_bits(number.to_bits() + 0x1000), f32::from_bits(number.to_bits().wrapping_sub(0x1000))] {
                for x in [x, f32::from_bits(x.to_bits() + 1), f32::from_bits(x.to_bits().wrapping_sub(1))] {
                    let expected = half::f16::from_f32(x).to_f32();
                    assert!(float16(x).to_bits() == expected.to_bits() || x.is_nan() && float16(x).is_nan(), "{x:e}");
                }
            }
        }
        for x in [1e-30f32, 2.98e-8, 2.99e-8, 65_519.0, 65_520.0, 1e30, -0.0, -1e-40, 3e-45] {
            assert_eq!(float16(x).to_bits(), half::f16::from_f32(x).to_f32().to_bits(), "{x:e}");
        }
    }
}
