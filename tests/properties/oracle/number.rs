//! The specification's casting of numbers.

use crate::tensor::{Scalar, range, round};
use webnn_node::graph::{DataType, Number};

/// *Cast* a number to a data type (`#algorithms-casting`). Casting to uint32 is read as casting to an unsigned type.
pub fn cast(data_type: DataType, x: Number) -> Scalar {
    match (data_type.is_float(), x) {
        (true, Number::Double(x)) => round(data_type, Scalar::Float(x)),
        (true, Number::Integer(x)) => round(data_type, Scalar::Integer(x)),
        (false, Number::Double(x)) if x.is_nan() => Scalar::Integer(0),
        (false, Number::Double(x)) => {
            let (low, high) = range(data_type);
            Scalar::Integer((x.round_ties_even() as i128).clamp(low, high))
        }
        (false, Number::Integer(x)) => {
            let (low, high) = range(data_type);
            Scalar::Integer(x.clamp(low, high))
        }
    }
}

/// A `double` option of an operator on floats, cast to the type of its operand.
pub fn option(data_type: DataType, x: f64) -> f64 {
    cast(data_type, Number::Double(x)).as_f64()
}

/// *ConvertToInt* of a float element to an integer type: truncated. The specification leaves open what is out of range;
/// the documentation of `cast` says that it is limited to the range, and that NaN gives 0.
pub fn truncate(data_type: DataType, x: f64) -> Scalar {
    let (low, high) = range(data_type);
    Scalar::Integer(if x.is_nan() { 0 } else { (x.trunc() as i128).clamp(low, high) })
}
