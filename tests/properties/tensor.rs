//! Tensors as the oracle sees them: every floating-point number is an `f64`, every integer an `i128`.

use webnn_node::graph::{DataType, Descriptor};

#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    Float(f64),
    Integer(i128),
}

impl Scalar {
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(x) => x,
            Scalar::Integer(x) => x as f64,
        }
    }

    /// The same number; NaN is NaN, and the two zeros differ.
    pub fn is(self, other: Scalar) -> bool {
        match (self, other) {
            (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
            (Scalar::Integer(a), Scalar::Integer(b)) => a == b,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Tensor {
    pub data_type: DataType,
    pub shape: Vec<usize>,
    /// In row-major order.
    pub elements: Vec<Scalar>,
}

impl Tensor {
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(self.data_type, self.shape.iter().map(|&size| size as u32))
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    pub fn at(&self, position: &[usize]) -> Scalar {
        self.elements[offset(&self.shape, position)]
    }

    pub fn float(&self, position: &[usize]) -> f64 {
        self.at(position).as_f64()
    }

    pub fn bytes(&self) -> Vec<u8> {
        if self.data_type.bits() == 4 {
            let half = |element: Option<&Scalar>| element.map_or(0, |x| integer(*x) as u8 & 15);
            return self.elements.chunks(2).map(|pair| half(pair.first()) | half(pair.get(1)) << 4).collect();
        }
        self.elements.iter().flat_map(|x| encode(self.data_type, *x)).collect()
    }

    pub fn from_bytes(data_type: DataType, shape: Vec<usize>, bytes: &[u8]) -> Tensor {
        let count = shape.iter().product();
        let elements = (0..count).map(|i| decode(data_type, bytes, i)).collect();
        Tensor { data_type, shape, elements }
    }
}

fn integer(x: Scalar) -> i128 {
    match x {
        Scalar::Integer(x) => x,
        Scalar::Float(x) => panic!("{x} is drawn for an integer type"),
    }
}

fn encode(data_type: DataType, x: Scalar) -> Vec<u8> {
    match data_type {
        DataType::Float32 => (x.as_f64() as f32).to_le_bytes().to_vec(),
        DataType::Float16 => half::f16::from_f64(x.as_f64()).to_le_bytes().to_vec(),
        _ => integer(x).to_le_bytes()[..data_type.bits() / 8].to_vec(),
    }
}

fn decode(data_type: DataType, bytes: &[u8], i: usize) -> Scalar {
    let size = data_type.bits().div_ceil(8);
    if data_type.bits() == 4 {
        return Scalar::Integer(wrap(data_type, (bytes[i / 2] >> (i % 2 * 4)).into()));
    }
    let element = &bytes[i * size..(i + 1) * size];
    match data_type {
        DataType::Float32 => Scalar::Float(f32::from_le_bytes(element.try_into().unwrap()).into()),
        DataType::Float16 => Scalar::Float(half::f16::from_le_bytes(element.try_into().unwrap()).into()),
        _ => {
            let mut wide = [0; 16];
            wide[..size].copy_from_slice(element);
            Scalar::Integer(wrap(data_type, i128::from_le_bytes(wide)))
        }
    }
}

/// Smallest and largest value of an integer type.
pub fn range(data_type: DataType) -> (i128, i128) {
    let bits = data_type.bits();
    if data_type.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The lowest bits of an integer, as a value of the type.
pub fn wrap(data_type: DataType, x: i128) -> i128 {
    let (low, high) = range(data_type);
    low + x.wrapping_sub(low).rem_euclid(high - low + 1)
}

/// The value of the type that is nearest to a number, even on a tie; beyond the greatest it is infinite. Integers wrap.
pub fn round(data_type: DataType, x: Scalar) -> Scalar {
    match (data_type, x) {
        (DataType::Float32, Scalar::Float(x)) => Scalar::Float((x as f32).into()),
        (DataType::Float32, Scalar::Integer(x)) => Scalar::Float((x as f32).into()),
        // Integers too great for an f64 are far beyond float16.
        (DataType::Float16, x) => Scalar::Float(round_to_float16(x.as_f64())),
        (_, Scalar::Integer(x)) => Scalar::Integer(wrap(data_type, x)),
        (_, Scalar::Float(x)) => panic!("{x} for {data_type}"),
    }
}

/// Divides by the distance of neighbouring float16 numbers, which is a power of two, and rounds to an integer.
fn round_to_float16(x: f64) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let exponent = (x.abs().log2().floor() as i32).clamp(-14, 16);
    // `log2` may be a little off near a power of two: then both neighbouring exponents are right or the greater one is.
    let exponent = if x.abs() < 2f64.powi(exponent) && exponent > -14 { exponent - 1 } else { exponent };
    let quantum = 2f64.powi(exponent - 10);
    let rounded = (x / quantum).round_ties_even() * quantum;
    if rounded.abs() >= 65536.0 { f64::INFINITY.copysign(x) } else { rounded.copysign(x) }
}

/// Where an element is, in row-major order.
pub fn offset(shape: &[usize], position: &[usize]) -> usize {
    assert_eq!(shape.len(), position.len());
    shape.iter().zip(position).fold(0, |offset, (size, i)| {
        assert!(i < size, "{position:?} is outside of {shape:?}");
        offset * size + i
    })
}

/// All positions in a shape, in row-major order.
pub fn positions(shape: &[usize]) -> Vec<Vec<usize>> {
    let count = shape.iter().product();
    (0..count)
        .map(|mut number| {
            let mut position = vec![0; shape.len()];
            for (i, size) in position.iter_mut().zip(shape).rev() {
                *i = number % size;
                number /= size;
            }
            position
        })
        .collect()
}

#[test]
fn float16_is_rounded_to_the_nearest() {
    let step = |x: f64| x + 2f64.powi(-11);
    for (x, rounded) in [
        (step(1.0), 1.0),
        (step(1.0) + 2f64.powi(-40), 1.0 + 2f64.powi(-10)),
        (65519.99, 65504.0),
        (65520.0, f64::INFINITY),
        (-1e9, f64::NEG_INFINITY),
        (2f64.powi(-25), 0.0),
        (2f64.powi(-25) * 1.001, 2f64.powi(-24)),
    ] {
        assert!(round(DataType::Float16, Scalar::Float(x)).is(Scalar::Float(rounded)), "{x}");
    }
    // Every float16 is itself.
    for bits in 0..=u16::MAX {
        let x = half::f16::from_bits(bits).to_f64();
        assert!(round(DataType::Float16, Scalar::Float(x)).is(Scalar::Float(x)), "{x}");
    }
}
