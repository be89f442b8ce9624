//! What the rules of element-wise operators accept and refuse.

use crate::graph::DataType::{self, *};
use crate::graph::OperandId;
use crate::graph::attribute::{Enumerated, Value};
use crate::graph::number::Number;
use crate::graph::testing;

/// Checks an operator whose arguments are operands only.
fn check(name: &str, operands: &[(DataType, &[u32])], expected: Result<&str, &str>) {
    check_with(name, operands, &[], expected);
}

/// Checks an operator whose arguments are operands, with further values.
fn check_with(name: &str, operands: &[(DataType, &[u32])], further: &[Value], expected: Result<&str, &str>) {
    let mut values: Vec<Value> = (0..operands.len() as u32).map(|id| Value::Operand(OperandId(id))).collect();
    values.extend_from_slice(further);
    testing::check(name, operands, &values, expected.as_ref().map(std::slice::from_ref).map_err(|argument| *argument));
}

const ALL_TYPES: [DataType; 8] = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8];

/// Checks that an operator with so many operands takes these data types and no other, and what its output's type is.
fn check_types(name: &str, operands: usize, allowed: &[DataType], output: Option<DataType>) {
    let argument = first_argument(name);
    for data_type in ALL_TYPES {
        let expected = format!("{}[2]", output.unwrap_or(data_type));
        let expected = if allowed.contains(&data_type) { Ok(expected.as_str()) } else { Err(argument.as_str()) };
        check(name, &vec![(data_type, &[2][..]); operands], expected);
    }
    check(name, &vec![(Int4, &[2][..]); operands], Err(&argument));
}

/// The name of an operator's first argument.
fn first_argument(name: &str) -> String {
    crate::graph::ops::operator(name).unwrap().arguments[0].name()
}

#[test]
fn data_types() {
    let signed = [Float32, Float16, Int64, Int32, Int8];
    let float = [Float32, Float16];
    for name in ["add", "sub", "mul", "div", "max", "min", "pow"] {
        check_types(name, 2, &ALL_TYPES, None);
    }
    for name in ["equal", "notEqual", "greater", "greaterOrEqual", "lesser", "lesserOrEqual"] {
        check_types(name, 2, &ALL_TYPES, Some(Uint8));
    }
    for name in ["logicalAnd", "logicalOr", "logicalXor"] {
        check_types(name, 2, &[Uint8], Some(Uint8));
    }
    check_types("logicalNot", 1, &[Uint8], Some(Uint8));
    check_types("isNaN", 1, &float, Some(Uint8));
    check_types("isInfinite", 1, &float, Some(Uint8));
    for name in ["abs", "neg", "sign", "relu"] {
        check_types(name, 1, &signed, None);
    }
    let functions = ["ceil", "cos", "erf", "exp", "floor", "log", "reciprocal", "roundEven", "sin", "sqrt", "tan"];
    let activations =
        ["elu", "gelu", "hardSigmoid", "hardSwish", "leakyRelu", "linear", "sigmoid", "softplus", "softsign", "tanh"];
    for name in functions.into_iter().chain(activations) {
        check_types(name, 1, &float, None);
    }
    check_types("identity", 1, &ALL_TYPES, None);
    check_types("clamp", 1, &ALL_TYPES, None);
    check_types("prelu", 2, &signed, None);
}

#[test]
fn operands_are_broadcast_to_each_other() {
    for (name, first, second) in [("add", Float32, "a and b"), ("equal", Uint8, "a and b"), ("prelu", Float32, "slope and input")]
    {
        check(name, &[(Float32, &[2, 1, 3]), (Float32, &[4, 1])], Ok(&format!("{first}[2, 4, 3]")));
        check(name, &[(Float32, &[]), (Float32, &[4, 1])], Ok(&format!("{first}[4, 1]")));
        check(name, &[(Float32, &[2]), (Float32, &[3])], Err(second));
        check(name, &[(Float32, &[1 << 16, 1]), (Float32, &[1 << 16])], Err("output"));
    }
    check("add", &[(Float32, &[2]), (Float16, &[2])], Err("b"));
    check("logicalAnd", &[(Uint8, &[2]), (Int8, &[2])], Err("b"));
    check("prelu", &[(Float32, &[2]), (Float16, &[2])], Err("slope"));
    check("exp", &[(Float32, &[1; 8])], Ok("float32[1, 1, 1, 1, 1, 1, 1, 1]"));
}

#[test]
fn clamp() {
    let number = |x| Value::Number(Number::Double(x));
    let check = |data_type, bounds: &[Value], expected| check_with("clamp", &[(data_type, &[2])], bounds, expected);
    check(Float32, &[number(1.0), number(1.0)], Ok("float32[2]"));
    check(Float32, &[number(2.0), number(1.0)], Err("minValue"));
    check(Float32, &[number(f64::INFINITY)], Ok("float32[2]"));
    check(Float32, &[Value::Absent, number(f64::NEG_INFINITY)], Ok("float32[2]"));
    check(Float32, &[number(f64::NAN), number(1.0)], Ok("float32[2]"));
    // Equal, once they are of the input's type.
    check(Float16, &[number(1.00001), number(1.0)], Ok("float16[2]"));
    check(Int8, &[number(1000.0), number(500.0)], Ok("int8[2]"));
    check(Uint64, &[Value::Number(Number::Integer(i128::from(u64::MAX))), number(1e19)], Err("minValue"));
}

#[test]
fn cast() {
    for from in ALL_TYPES {
        for to in ALL_TYPES {
            let to = (Value::Enumeration(to.index()), format!("{to}[2, 3]"));
            check_with("cast", &[(from, &[2, 3])], &[to.0], Ok(&to.1));
        }
        check_with("cast", &[(from, &[2, 3])], &[Value::Enumeration(Int4.index())], Err("dataType"));
    }
    check_with("cast", &[(Uint4, &[2])], &[Value::Enumeration(Uint8.index())], Err("input"));
}

#[test]
fn selection() {
    check("where", &[(Uint8, &[2, 1]), (Int8, &[3]), (Int8, &[])], Ok("int8[2, 3]"));
    check("where", &[(Int8, &[2]), (Int8, &[2]), (Int8, &[2])], Err("condition"));
    check("where", &[(Uint8, &[2]), (Int8, &[2]), (Uint8, &[2])], Err("falseValue"));
    check("where", &[(Uint8, &[2]), (Int8, &[2]), (Int8, &[3])], Err("trueValue and falseValue"));
    check("where", &[(Uint8, &[3]), (Int8, &[2]), (Int8, &[2])], Err("condition and trueValue or falseValue"));
}

#[test]
fn quantization() {
    let both = |input: &[u32], scale: &[u32], zero_point: &[u32], expected: Result<(), &str>| {
        let text = |data_type: DataType| format!("{data_type}{input:?}");
        for quantized in [Int8, Uint8, Int32, Uint32, Int4, Uint4] {
            let operands = [(quantized, input), (Float16, scale), (quantized, zero_point)];
            check("dequantizeLinear", &operands, expected.map(|()| text(Float16)).as_deref().map_err(|argument| *argument));
            let operands = [(Float32, input), (Float32, scale), (quantized, zero_point)];
            check("quantizeLinear", &operands, expected.map(|()| text(quantized)).as_deref().map_err(|argument| *argument));
        }
    };
    both(&[], &[], &[], Ok(()));
    both(&[4, 6], &[4, 6], &[4, 6], Ok(()));
    both(&[4, 6], &[2, 1], &[2, 1], Ok(()));
    both(&[4, 6], &[2, 1], &[1, 2], Err("zeroPoint"));
    both(&[4, 6], &[3, 1], &[3, 1], Err("scale"));
    both(&[4, 6], &[8, 1], &[8, 1], Err("scale"));
    both(&[4], &[1, 4], &[1, 4], Err("scale"));
    for quantized in [Int64, Uint64, Float32] {
        check("dequantizeLinear", &[(quantized, &[2]), (Float32, &[2]), (quantized, &[2])], Err("input"));
        check("quantizeLinear", &[(Float32, &[2]), (Float32, &[2]), (quantized, &[2])], Err("zeroPoint"));
    }
    check("dequantizeLinear", &[(Int8, &[2]), (Float32, &[2]), (Uint8, &[2])], Err("zeroPoint"));
    check("dequantizeLinear", &[(Int8, &[2]), (Int8, &[2]), (Int8, &[2])], Err("scale"));
    check("quantizeLinear", &[(Float32, &[2]), (Float16, &[2]), (Int8, &[2])], Err("scale"));
    // A lower rank, which only blocks of 4 bits may have.
    check("quantizeLinear", &[(Float32, &[4, 6]), (Float32, &[3]), (Int8, &[3])], Err("scale"));
    check("dequantizeLinear", &[(Int8, &[4, 6]), (Float32, &[4, 6]), (Int8, &[6])], Err("zeroPoint"));
    check("quantizeLinear", &[(Float32, &[4, 6]), (Float32, &[3]), (Int4, &[3])], Ok("int4[4, 6]"));
    check("dequantizeLinear", &[(Uint4, &[4, 6]), (Float32, &[3]), (Uint4, &[3])], Ok("float32[4, 6]"));
    check("dequantizeLinear", &[(Uint4, &[4, 6]), (Float32, &[4]), (Uint4, &[4])], Err("scale"));
}
