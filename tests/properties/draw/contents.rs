//! The elements of operands.

use crate::random::Random;
use crate::tensor::{Scalar, range, round};
use webnn_node::graph::DataType;

/// What kind of elements an operand has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contents {
    /// Everything that the type can hold: NaN, infinities, both zeros, subnormal and extreme numbers among ordinary ones.
    Anything,
    /// As `Anything`, without NaN and infinities.
    Finite,
    /// Numbers up to 4, for sums; in some operands also NaN or infinities.
    Summands,
    /// Numbers up to 4.
    Moderate,
    /// From 1/4 to 4.
    Positive,
    /// Between 0 and 1, and no nearer to them than 1/50.
    Probabilities,
    /// From 1/2 to 2, of either sign, for long products.
    Factors,
    /// Indices into a dimension of that size: most of them valid, some negative, some out of range.
    Indices(usize),
}

pub fn draw(random: &mut Random, data_type: DataType, count: usize, contents: Contents) -> Vec<Scalar> {
    // Some operands have ordinary numbers only, so that sums are not all NaN.
    let plain = random.once_in(2);
    let style = match contents {
        Contents::Anything if plain && random.once_in(2) => Contents::Moderate,
        Contents::Summands if plain => Contents::Moderate,
        contents => contents,
    };
    let mut element = || match data_type.is_float() {
        true => Scalar::Float(round(data_type, Scalar::Float(float(random, data_type, style))).as_f64()),
        false => Scalar::Integer(integer(random, data_type, style)),
    };
    (0..count).map(|_| element()).collect()
}

fn float(random: &mut Random, data_type: DataType, contents: Contents) -> f64 {
    let sign = random.pick(&[1.0, -1.0]);
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let (smallest_normal, greatest, epsilon) = match data_type {
        DataType::Float16 => (2f64.powi(-14), 65504.0, 2f64.powi(-10)),
        _ => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX), 2f64.powi(-23)),
    };
    match contents {
        Contents::Moderate => match random.below(8) {
            0 => random.pick(&[0.0, -0.0, 1.0, -1.0, 2.0, -2.0]),
            1 => sign * random.between(0, 4) as f64 + random.pick(&[0.5, -0.5, 0.0]),
            _ => random.unit() * 8.0 - 4.0,
        },
        Contents::Summands => match random.below(40) {
            0 => random.pick(&special),
            _ => float(random, data_type, Contents::Moderate),
        },
        Contents::Positive => 2f64.powf(random.unit() * 4.0 - 2.0),
        Contents::Probabilities => 0.02 + 0.96 * random.unit(),
        Contents::Factors => sign * 2f64.powf(random.unit() * 2.0 - 1.0),
        Contents::Anything if random.once_in(6) => random.pick(&special),
        Contents::Anything | Contents::Finite => match random.below(6) {
            0 => sign * smallest_normal * random.pick(&[0.5, 1.0, epsilon, 1.0 - epsilon]),
            1 => sign * greatest * random.pick(&[1.0, 0.5]),
            // Any exponent.
            2 => sign * 2f64.powf(random.unit() * 2.0 * greatest.log2() - greatest.log2()),
            _ => float(random, data_type, Contents::Moderate),
        },
        Contents::Indices(_) => panic!("indices are integers"),
    }
}

fn integer(random: &mut Random, data_type: DataType, contents: Contents) -> i128 {
    let (low, high) = range(data_type);
    let any = low + (i128::from(random.bits()) & (high - low));
    let drawn = match contents {
        Contents::Indices(size) => {
            let size = size as i128;
            match random.below(8) {
                0 => random.pick(&[low, high, size, -size - 1, -size, i128::from(u32::MAX)]),
                1 | 2 => -1 - random.below(size as usize) as i128,
                _ => random.below(size as usize) as i128,
            }
        }
        Contents::Positive | Contents::Probabilities => random.between(1, 4) as i128,
        Contents::Anything | Contents::Finite | Contents::Factors => match random.below(3) {
            0 => random.pick(&[low, low + 1, 0, 1, high - 1, high, high / 2]),
            1 => any,
            _ => random.between(0, 8) as i128 - 4,
        },
        Contents::Moderate | Contents::Summands => match random.below(3) {
            0 => any,
            _ => random.between(0, 8) as i128 - 4,
        },
    };
    drawn.clamp(low, high)
}
