//! What the elements of a value can be: between which numbers they are.

use crate::graph::DataType;
use crate::graph::ops::Elementwise;
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, Logical, LogicalKind, Predicate, PredicateKind, Unary, UnaryKind,
};

/// The least and the greatest that elements can be. `f64::MAX` stands for finite numbers of any size: what is computed from finite
/// numbers is taken to be finite, except where an operator can make something else of one of them, such as a division. A `most` of infinity
/// stands for anything, NaN included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub least: f64,
    pub most: f64,
}

pub const ANYTHING: Interval = Interval { least: f64::NEG_INFINITY, most: f64::INFINITY };
pub const FINITE: Interval = Interval { least: -f64::MAX, most: f64::MAX };
pub const ZERO: Interval = Interval { least: 0.0, most: 0.0 };
const TRUTH: Interval = Interval { least: 0.0, most: 1.0 };

/// Larger arguments of an exponential are taken to overflow.
const GREATEST_EXPONENT: f64 = 80.0;

pub const fn from_to(least: f64, most: f64) -> Interval {
    Interval { least, most }
}

const fn exactly(number: f64) -> Interval {
    from_to(number, number)
}

const fn truth(is_true: bool) -> Interval {
    if is_true { exactly(1.0) } else { ZERO }
}

impl Interval {
    /// Neither NaN nor plus infinity; minus infinity may be.
    pub fn is_below_infinity(self) -> bool {
        self.most < f64::INFINITY
    }

    pub fn is_finite(self) -> bool {
        self.is_below_infinity() && self.least > f64::NEG_INFINITY
    }

    pub fn is_zero(self) -> bool {
        self == ZERO
    }

    fn is_known(self) -> bool {
        self.least == self.most && self.is_finite() && self.most < f64::MAX && self.least > -f64::MAX
    }

    /// Contains both.
    pub fn or(self, other: Interval) -> Interval {
        from_to(self.least.min(other.least), self.most.max(other.most))
    }

    /// Of finite numbers what a function of them gives that is finite for all of these.
    fn finite_or(self, found: Interval) -> Interval {
        if self.is_finite() { found } else { ANYTHING }
    }

    /// As elements of a type: what it has no room for.
    pub fn of_type(self, data_type: DataType) -> Interval {
        let (greatest, least_positive) = match data_type {
            DataType::Float32 => (f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE)),
            // Where it is computed in float32, the least ones are not flushed.
            DataType::Float16 => (65504.0, 5.9e-8),
            _ => return self.whole(data_type),
        };
        let Interval { mut least, mut most } = self;
        // One number that is too large is infinite; bounds are bounds.
        if self.is_known() && least.abs() > greatest {
            return if least < 0.0 { from_to(f64::NEG_INFINITY, -greatest) } else { ANYTHING };
        }
        // What is nearly nothing may be nothing.
        if least > 0.0 && least < least_positive {
            least = 0.0;
        }
        if most < 0.0 && most > -least_positive {
            most = 0.0;
        }
        from_to(least, most)
    }

    /// As whole numbers of a type: others are rounded, and what is out of range wraps around.
    fn whole(self, data_type: DataType) -> Interval {
        let bits = data_type.bits() as i32;
        let (lowest, highest) = match data_type.is_signed() {
            true => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0),
            false => (0.0, 2f64.powi(bits) - 1.0),
        };
        let rounded = from_to(self.least.floor(), self.most.ceil());
        if rounded.least >= lowest && rounded.most <= highest { rounded } else { FINITE }
    }

    /// Of results that are finite if the operands are, except of minus infinity.
    fn saturated(self) -> Interval {
        let bound = |number: f64| number.clamp(-f64::MAX, f64::MAX);
        from_to(bound(self.least), bound(self.most))
    }

    pub fn plus(self, other: Interval) -> Interval {
        if !self.is_below_infinity() || !other.is_below_infinity() {
            return ANYTHING;
        }
        let sum = from_to(self.least + other.least, self.most + other.most).saturated();
        let has_infinity = !self.is_finite() || !other.is_finite();
        if has_infinity { from_to(f64::NEG_INFINITY, sum.most) } else { sum }
    }

    fn negated(self) -> Interval {
        self.finite_or(from_to(-self.most, -self.least))
    }

    /// The extremes of what an operation gives for the bounds.
    fn corners(self, other: Interval, of: impl Fn(f64, f64) -> f64) -> Interval {
        let corners =
            [of(self.least, other.least), of(self.least, other.most), of(self.most, other.least), of(self.most, other.most)];
        let least = corners.into_iter().fold(f64::INFINITY, f64::min);
        let most = corners.into_iter().fold(f64::NEG_INFINITY, f64::max);
        from_to(least, most).saturated()
    }

    pub fn times(self, other: Interval) -> Interval {
        match (self.is_finite(), other.is_finite()) {
            (true, true) => self.corners(other, |a, b| a * b),
            (false, true) if other.least > 0.0 && self.is_below_infinity() => from_to(f64::NEG_INFINITY, f64::MAX),
            (true, false) if self.least > 0.0 && other.is_below_infinity() => from_to(f64::NEG_INFINITY, f64::MAX),
            _ => ANYTHING,
        }
    }

    fn divided_by(self, other: Interval) -> Interval {
        let is_apart_from_zero = other.is_finite() && (other.least > 0.0 || other.most < 0.0);
        if self.is_finite() && is_apart_from_zero { self.corners(other, |a, b| a / b) } else { ANYTHING }
    }

    fn absolute(self) -> Interval {
        let most = self.least.abs().max(self.most.abs());
        let least = if self.least > 0.0 { self.least } else { (-self.most).max(0.0) };
        self.finite_or(from_to(least, most))
    }

    pub fn squared(self) -> Interval {
        let size = self.absolute();
        size.times(size)
    }

    fn power(self, exponent: Interval) -> Interval {
        if !self.is_finite() || !exponent.is_known() {
            return ANYTHING;
        }
        let number = exponent.least;
        let is_whole = number >= 1.0 && number.fract() == 0.0;
        let of = |base: f64| base.powf(number).clamp(-f64::MAX, f64::MAX);
        match is_whole {
            true if number % 2.0 == 0.0 => {
                let size = self.absolute();
                from_to(of(size.least), of(size.most))
            }
            true => from_to(of(self.least), of(self.most)),
            false if self.least > 0.0 || self.least == 0.0 && number > 0.0 => from_to(of(self.least), of(self.most)).sorted(),
            false => ANYTHING,
        }
    }

    fn sorted(self) -> Interval {
        from_to(self.least.min(self.most), self.least.max(self.most))
    }

    /// What a function gives that does not fall.
    fn rising(self, of: impl Fn(f64) -> f64) -> Interval {
        self.finite_or(from_to(of(self.least), of(self.most)).saturated())
    }

    fn limited(self, least: f64, most: f64) -> Interval {
        if !self.is_below_infinity() {
            return ANYTHING;
        }
        from_to(self.least.max(least).min(most), self.most.min(most).max(least))
    }

    /// What is 0 for 0 and otherwise finite, and at least so much.
    fn around_zero(self, least: f64) -> Interval {
        if self.is_zero() { ZERO } else { self.finite_or(from_to(least, f64::MAX)) }
    }

    fn unary(self, op: &Unary) -> Interval {
        match op.kind {
            UnaryKind::Identity => self,
            UnaryKind::Abs => self.absolute(),
            UnaryKind::Neg => self.negated(),
            UnaryKind::Sign => self.rising(|x| if x == 0.0 { 0.0 } else { x.signum() }),
            UnaryKind::Ceil => self.rising(f64::ceil),
            UnaryKind::Floor => self.rising(f64::floor),
            UnaryKind::RoundEven => self.rising(f64::round_ties_even),
            UnaryKind::Cos | UnaryKind::Sin => self.finite_or(from_to(-1.0, 1.0)),
            UnaryKind::Erf if self.is_zero() => ZERO,
            UnaryKind::Erf => self.finite_or(from_to(-1.0, 1.0)),
            UnaryKind::Exp if self.most < GREATEST_EXPONENT => from_to(self.least.exp(), self.most.exp()),
            UnaryKind::Log if self.least > 0.0 => self.rising(f64::ln),
            UnaryKind::Reciprocal => exactly(1.0).divided_by(self),
            UnaryKind::Sqrt if self.least >= 0.0 => self.rising(f64::sqrt),
            UnaryKind::Exp | UnaryKind::Log | UnaryKind::Sqrt | UnaryKind::Tan => ANYTHING,
        }
    }

    fn activated(self, op: &Activation) -> Interval {
        match op.kind {
            ActivationKind::Relu => self.limited(0.0, f64::MAX),
            ActivationKind::Sigmoid => self.finite_or(TRUTH),
            ActivationKind::Softplus => self.finite_or(from_to(0.0, f64::MAX)),
            ActivationKind::Softsign | ActivationKind::Tanh if self.is_zero() => ZERO,
            ActivationKind::Softsign | ActivationKind::Tanh => self.finite_or(from_to(-1.0, 1.0)),
            ActivationKind::Gelu | ActivationKind::HardSwish => self.around_zero(-1.0),
        }
    }
}

fn binary(op: &Binary, a: Interval, b: Interval) -> Interval {
    match op.kind {
        BinaryKind::Add => a.plus(b),
        BinaryKind::Sub => {
            if b.is_finite() {
                a.plus(b.negated())
            } else {
                ANYTHING
            }
        }
        BinaryKind::Mul if op.a == op.b => a.squared(),
        BinaryKind::Mul => a.times(b),
        BinaryKind::Div => a.divided_by(b),
        BinaryKind::Max | BinaryKind::Min if !a.is_below_infinity() || !b.is_below_infinity() => ANYTHING,
        BinaryKind::Max => from_to(a.least.max(b.least), a.most.max(b.most)),
        BinaryKind::Min => from_to(a.least.min(b.least), a.most.min(b.most)),
        BinaryKind::Pow => a.power(b),
    }
}

/// Of two truth values what is known: whether they are true.
fn known_truth(value: Interval) -> Option<bool> {
    let is_true = value.is_below_infinity() && (value.least > 0.0 || value.most < 0.0);
    if is_true { Some(true) } else { value.is_zero().then_some(false) }
}

fn logical(op: &Logical, a: Interval, b: Interval) -> Interval {
    let (known_a, known_b) = (known_truth(a), known_truth(b));
    let known = match op.kind {
        LogicalKind::LogicalAnd if known_a == Some(false) || known_b == Some(false) => Some(false),
        LogicalKind::LogicalAnd => known_a.and(known_b),
        LogicalKind::LogicalOr if known_a == Some(true) || known_b == Some(true) => Some(true),
        LogicalKind::LogicalOr => known_a.and(known_b),
        LogicalKind::LogicalXor => known_a.zip(known_b).map(|(a, b)| a != b),
        _ if !a.is_below_infinity() || !b.is_below_infinity() => None,
        LogicalKind::Equal => equals(a, b),
        LogicalKind::NotEqual => equals(a, b).map(|is_equal| !is_equal),
        LogicalKind::Greater => is_greater(a, b),
        LogicalKind::Lesser => is_greater(b, a),
        LogicalKind::GreaterOrEqual => is_greater(b, a).map(|is_greater| !is_greater),
        LogicalKind::LesserOrEqual => is_greater(a, b).map(|is_greater| !is_greater),
    };
    known.map_or(TRUTH, truth)
}

/// Whether bounds are that far apart, or equal where that is asked for, in every type: other numbers are rounded.
fn is_surely_less(less: f64, more: f64, or_equal: bool) -> bool {
    let is_whole = |number: f64| number.fract() == 0.0 && number.abs() <= 2048.0;
    let is_apart = if is_whole(less) && is_whole(more) { 0.0 } else { 0.01 * less.abs().max(more.abs()) };
    more - less > is_apart || or_equal && is_whole(less) && less == more
}

fn equals(a: Interval, b: Interval) -> Option<bool> {
    let are_same = a.is_known() && a == b && is_surely_less(a.least, b.least, true);
    if are_same {
        return Some(true);
    }
    (is_surely_less(a.most, b.least, false) || is_surely_less(b.most, a.least, false)).then_some(false)
}

fn is_greater(a: Interval, b: Interval) -> Option<bool> {
    if is_surely_less(b.most, a.least, false) {
        return Some(true);
    }
    is_surely_less(a.most, b.least, true).then_some(false)
}

fn predicate(op: &Predicate, a: Interval) -> Interval {
    let known = match op.kind {
        PredicateKind::LogicalNot => known_truth(a).map(|is_true| !is_true),
        PredicateKind::IsNan => a.is_below_infinity().then_some(false),
        PredicateKind::IsInfinite => a.is_finite().then_some(false),
    };
    known.map_or(TRUTH, truth)
}

/// What an element-wise operator gives for such operands, as elements of a type.
pub fn elementwise(op: Elementwise<'_>, operands: &[Interval], data_type: DataType) -> Interval {
    let all_finite = operands.iter().all(|operand| operand.is_finite());
    let finite_if = |is_finite: bool| if is_finite { FINITE } else { ANYTHING };
    let found = match (op, operands) {
        (Elementwise::Cast(_), [a]) => match data_type.is_float() {
            true => *a,
            // Towards zero, and into the range.
            false => from_to(a.least.trunc().max(-f64::MAX), a.most.trunc().min(f64::MAX)),
        },
        (Elementwise::Unary(op), [a]) => a.unary(op),
        (Elementwise::Activation(op), [a]) => a.activated(op),
        (Elementwise::Binary(op), [a, b]) => binary(op, *a, *b),
        (Elementwise::Logical(op), [a, b]) => logical(op, *a, *b),
        (Elementwise::Predicate(op), [a]) => predicate(op, *a),
        (Elementwise::Where(_), [condition, a, b]) => match known_truth(*condition) {
            Some(true) => *a,
            Some(false) => *b,
            None => a.or(*b),
        },
        (Elementwise::Clamp(op), [a]) => {
            let bound = |number: Option<crate::graph::Number>, other: f64| number.map_or(other, crate::graph::Number::to_f64);
            a.limited(bound(op.min_value, f64::NEG_INFINITY), bound(op.max_value, f64::INFINITY))
        }
        (Elementwise::Gate(_) | Elementwise::Swish(_), [a]) => a.around_zero(-f64::MAX),
        (Elementwise::HardSigmoid(_), [a]) => a.finite_or(TRUTH),
        (Elementwise::Elu(_) | Elementwise::LeakyRelu(_), [a]) => a.around_zero(-f64::MAX),
        (Elementwise::ReplaceNan(_), [a]) => *a,
        (Elementwise::QuantizeLinear(_), _) => FINITE,
        (Elementwise::DequantizeLinear(_) | Elementwise::Linear(_) | Elementwise::Prelu(_), _) => finite_if(all_finite),
        _ => ANYTHING,
    };
    found.of_type(data_type)
}

/// What the elements of a constant are, one by one; nothing for less than a byte.
pub fn numbers(data_type: DataType, bytes: &[u8]) -> Option<Vec<f64>> {
    macro_rules! all {
        ($type:ty, $convert:expr) => {{
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
            chunks.iter().map(|chunk| $convert(<$type>::from_ne_bytes(*chunk))).collect()
        }};
    }
    Some(match data_type {
        DataType::Float32 => all!(f32, f64::from),
        DataType::Float16 => all!(half::f16, f64::from),
        DataType::Int64 => all!(i64, |number| number as f64),
        DataType::Uint64 => all!(u64, |number| number as f64),
        DataType::Int32 => all!(i32, f64::from),
        DataType::Uint32 => all!(u32, f64::from),
        DataType::Int8 => all!(i8, f64::from),
        DataType::Uint8 => all!(u8, f64::from),
        _ => return None,
    })
}

/// Between which numbers these are.
pub fn hull(numbers: impl IntoIterator<Item = f64>) -> Option<Interval> {
    numbers.into_iter().map(|number| if number.is_nan() { ANYTHING } else { exactly(number) }).reduce(Interval::or)
}
