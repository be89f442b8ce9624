//! What the oracle expects of an element, and whether a kernel's result is that.

use crate::tensor::{Scalar, Tensor, round};
use webnn_node::graph::DataType;

/// An output as the oracle expects it.
pub struct Expected {
    pub data_type: DataType,
    pub shape: Vec<usize>,
    pub elements: Vec<Element>,
}

#[derive(Clone, Debug)]
pub enum Element {
    /// This value, rounded once to the data type. The sign of a zero counts, that of a NaN does not.
    Exactly(Scalar),
    /// A value not further than `absolute` away from `value`, and after rounding to the data type not more than `ulps`
    /// representable numbers further. The zeros are equal. `magnitude` is that of the products that were added up, if it is a sum of such.
    Near { value: f64, absolute: f64, ulps: i64, magnitude: f64 },
    /// One of several.
    OneOf(Vec<Element>),
    /// The specification leaves it open.
    Anything,
}

impl Element {
    pub fn integer(x: i128) -> Element {
        Element::Exactly(Scalar::Integer(x))
    }

    pub fn float(x: f64) -> Element {
        Element::Exactly(Scalar::Float(x))
    }

    /// A float that is right but for so many representable numbers. With 0 only the sign of a zero is free.
    pub fn ulps(value: f64, ulps: i64) -> Element {
        Element::Near { value, absolute: 0.0, ulps, magnitude: 0.0 }
    }

    /// A float with an error that is known, and one rounding more.
    pub fn within(value: f64, absolute: f64) -> Element {
        Element::Near { value, absolute, ulps: 1, magnitude: 0.0 }
    }

    /// A sum of products with an error that is known, and one rounding more.
    pub fn sum(value: f64, absolute: f64, magnitude: f64) -> Element {
        Element::Near { value, absolute, ulps: 1, magnitude }
    }

    fn accepts(&self, data_type: DataType, found: Scalar, allowance: Allowance) -> bool {
        match self {
            Element::Anything => true,
            Element::OneOf(elements) => elements.iter().any(|element| element.accepts(data_type, found, allowance)),
            Element::Exactly(value) => found.is(round(data_type, *value)),
            Element::Near { value, absolute, ulps, magnitude } => match found {
                Scalar::Integer(found) => (found as f64 - value).abs() <= *absolute,
                Scalar::Float(found) if value.is_nan() || found.is_nan() => value.is_nan() && found.is_nan(),
                Scalar::Float(found) => {
                    let order = |x: f64| order(data_type, round(data_type, Scalar::Float(x)).as_f64());
                    // An error that is no number says nothing.
                    if !absolute.is_finite() {
                        return true;
                    }
                    let Allowance { ulps: least, lost, of_products } = allowance.of(data_type);
                    let (ulps, absolute) = (least.max(*ulps), absolute + lost + of_products * magnitude);
                    (order(value - absolute) - ulps..=order(value + absolute) + ulps).contains(&order(found))
                }
            },
        }
    }
}

/// What a device may be off by in float32, and of products in float16 too, where the oracle allows less.
#[derive(Clone, Copy, Default)]
pub struct Allowance {
    /// Units in the last place, of results that need not be exact.
    pub ulps: i64,
    /// What is lost where values are subnormal, besides.
    pub lost: f64,
    /// Of the products that are added up.
    pub of_products: f64,
}

impl Allowance {
    fn of(self, data_type: DataType) -> Allowance {
        let of_products = self.of_products;
        if data_type == DataType::Float32 { self } else { Allowance { of_products, ..Allowance::default() } }
    }
}

/// What a GPU makes of a float32 number that is not normal.
fn flushed(x: f64) -> f64 {
    if x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { x }
}

impl Element {
    /// The same for a device that takes subnormal numbers for zeros, and whose quotients and roots are only near.
    fn accepts_flushed(&self, data_type: DataType, found: Scalar, ulps: i64, terms: usize) -> bool {
        let found = match found {
            Scalar::Float(x) => Scalar::Float(flushed(x)),
            integer => integer,
        };
        // What is computed on the way may be flushed too, which takes off less than the smallest normal number: of two values, or of each
        // that is added up, where a result is this small.
        let allowance = Allowance { ulps, lost: terms.max(2) as f64 * f64::from(f32::MIN_POSITIVE), ..Allowance::default() };
        match self {
            Element::Exactly(Scalar::Float(value)) => Element::ulps(*value, 0).accepts(data_type, found, allowance),
            Element::OneOf(elements) => elements.iter().any(|element| element.accepts_flushed(data_type, found, ulps, terms)),
            other => other.accepts(data_type, found, allowance),
        }
    }
}

impl Expected {
    /// What a device may give that takes subnormal numbers for zeros: also what `of_flushed`, the outputs of flushed operands, has. Results
    /// may be off by so many units in the last place at least. So many terms may be added up for one of them.
    pub fn or_flushed(&self, of_flushed: &Expected, found: &Tensor, ulps: i64, terms: usize) -> Result<(), String> {
        let is_right = |((expected, flushed), found): ((&Element, &Element), &Scalar)| {
            [expected, flushed].iter().any(|element| element.accepts_flushed(self.data_type, *found, ulps, terms))
        };
        let all = self.elements.iter().zip(&of_flushed.elements).zip(&found.elements);
        match all.clone().position(|one| !is_right(one)) {
            None => Ok(()),
            Some(i) => {
                let (expected, flushed) = (&self.elements[i], &of_flushed.elements[i]);
                Err(format!("[{i}] is {:?}, neither {expected:?} nor {flushed:?}", found.elements[i]))
            }
        }
    }
}

/// How many numbers of the type lie between zero and this one, with its sign.
fn order(data_type: DataType, x: f64) -> i64 {
    let magnitude = match data_type {
        DataType::Float32 => i64::from((x.abs() as f32).to_bits()),
        DataType::Float16 => i64::from(half::f16::from_f64(x.abs()).to_bits()),
        _ => panic!("{x} for {data_type}"),
    };
    if x < 0.0 { -magnitude } else { magnitude }
}

/// Compares an output with what is expected. The error says where the first difference is.
pub fn output(expected: &Expected, found: &Tensor, allowance: Allowance) -> Result<(), String> {
    if (expected.data_type, &expected.shape) != (found.data_type, &found.shape) {
        return Err(format!(" is {}{:?}, not {}{:?}", found.data_type, found.shape, expected.data_type, expected.shape));
    }
    let pairs = expected.elements.iter().zip(&found.elements);
    assert_eq!(expected.elements.len(), found.elements.len(), "the oracle says something of each element");
    let wrong: Vec<_> =
        pairs.enumerate().filter(|(_, (expected, element))| !expected.accepts(found.data_type, **element, allowance)).collect();
    match wrong.first() {
        None => Ok(()),
        Some((i, (expected, element))) => {
            Err(format!("[{i}] is {element:?}, not {expected:?} ({} of {} elements)", wrong.len(), found.elements.len()))
        }
    }
}
