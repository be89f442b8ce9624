//! Element-wise operators: each is an expression of its operands' elements.

use super::alone;
use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use crate::backend::strided::Strided;
use crate::backend::wgpu::shader::{Scalar, float, wrap};
use crate::compiler::RUNNING;
use crate::error::Result;
use crate::graph::number::integer_range;
use crate::graph::ops::Elementwise;
use crate::graph::ops::elementwise::{
    ActivationKind, BinaryKind, GateKind, LogicalKind, PredicateKind, RemainderKind, UnaryKind,
};
use crate::graph::{DataType, Number, Op, OperandId};

/// A value in a shader: an expression, and the data type whose value it is.
#[derive(Clone, Debug)]
pub struct Expression {
    pub text: String,
    pub data_type: DataType,
}

impl Expression {
    fn scalar(&self) -> Scalar {
        Scalar::of(self.data_type)
    }
}

/// An operator that is fused: the compiler fuses no others.
pub fn fused(op: &Op) -> Elementwise<'_> {
    op.elementwise().unwrap_or_else(|| panic!("{} is fused and not element-wise", op.row().name))
}

pub fn lower(lowering: &mut Lowering<'_>, op: Elementwise<'_>, operands: &Operands) -> Result<()> {
    let output = operands.output();
    let mut kernel = Kernel::new(op.row().name);
    let mut read = Vec::new();
    op.visit(&mut |_, id| read.push(id));
    let expressions: Vec<(OperandId, Expression)> = read
        .into_iter()
        .map(|id| {
            let (name, tensor) = (format!("operand{}", id.0), operands.input(id));
            kernel.add_reads(lowering, &name, tensor);
            (id, broadcast(&name, tensor, &output.shape))
        })
        .collect();
    let operand = |id| expressions.iter().find(|(other, _)| *other == id).expect("every operand was visited").1.clone();
    let head = op.result_type(&|id| operand(id).data_type);
    let value = expression(op, &operand, head);
    let kernel = finish(kernel, lowering, operands, head);
    kernel.each(lowering, output, &format!("return finish(i, {value});"))
}

/// Declares `fn finish(i: u32, x: T) -> T`: what is done to the value `x` of an operator, for element `i` of the step's
/// output. `T` is the scalar of the data type `head`, which the operator alone would have, and that of the output.
pub fn finish(mut kernel: Kernel, lowering: &Lowering<'_>, operands: &Operands, head: DataType) -> Kernel {
    let output = operands.output();
    let mut running = Expression { text: "x0".to_owned(), data_type: head };
    let x = wrap(head, "x");
    let x = if operands.fused.is_empty() { "x".to_owned() } else { x };
    let mut body = format!("let x0 = {x};\n");
    let mut bound: Vec<OperandId> = Vec::new();
    for (number, op) in operands.fused.iter().enumerate() {
        op.visit(&mut |_, id| {
            if id != RUNNING && !bound.contains(&id) {
                kernel.add_reads(lowering, &format!("fused{}", id.0), operands.input(id));
                bound.push(id);
            }
        });
        let operand = |id: OperandId| match id {
            RUNNING => running.clone(),
            id => broadcast(&format!("fused{}", id.0), operands.input(id), &output.shape),
        };
        let op = self::fused(op);
        let data_type = op.result_type(&|id| operand(id).data_type);
        let value = expression(op, &operand, data_type);
        let text = format!("x{}", number + 1);
        body.push_str(&format!("let {text} = {value};\n"));
        running = Expression { text, data_type };
    }
    let (from, to) = (Scalar::of(head).name(), output.scalar().name());
    kernel.declare(&format!("fn finish(i: u32, x: {from}) -> {to} {{\n{body}return {};\n}}", running.text))
}

/// The element of an operand that belongs to element `i` of an output.
fn broadcast(name: &str, tensor: &Tensor, output: &[usize]) -> Expression {
    let places = Strided::broadcast(&tensor.shape, output);
    Expression { text: format!("{name}({})", places.at("i")), data_type: tensor.data_type }
}

/// An operator's value, in the range of the output's data type.
#[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
pub fn expression(op: Elementwise<'_>, operand: &dyn Fn(OperandId) -> Expression, output: DataType) -> String {
    let scalar = Scalar::of(output);
    let narrow = |text: String| wrap(output, &text);
    let option = |value: f64| float(alone::cast(value, output));
    match op {
        Elementwise::Unary(op) => {
            let x = operand(op.input).text;
            let call = |name: &str| narrow(scalar.call(name, &[&x]));
            match op.kind {
                UnaryKind::Identity => x,
                UnaryKind::Abs => call("abs"),
                UnaryKind::Neg => call("neg"),
                UnaryKind::Sign => call("sign"),
                UnaryKind::Ceil => narrow(format!("ceil({x})")),
                UnaryKind::Floor => narrow(format!("floor({x})")),
                UnaryKind::RoundEven => narrow(format!("round({x})")),
                UnaryKind::Sqrt => narrow(format!("sqrt({x})")),
                UnaryKind::Reciprocal => narrow(format!("(1.0f / {x})")),
                UnaryKind::Cos => call("cos"),
                UnaryKind::Erf => call("erf"),
                UnaryKind::Exp => call("exp"),
                UnaryKind::Log => call("log"),
                UnaryKind::Sin => call("sin"),
                UnaryKind::Tan => call("tan"),
            }
        }
        Elementwise::Binary(op) => {
            let (a, b) = (operand(op.a).text, operand(op.b).text);
            narrow(match op.kind {
                BinaryKind::Add => scalar.add(&a, &b),
                BinaryKind::Sub => scalar.sub(&a, &b),
                BinaryKind::Mul => scalar.mul(&a, &b),
                BinaryKind::Div => scalar.call("div", &[&a, &b]),
                BinaryKind::Max => scalar.call("max", &[&a, &b]),
                BinaryKind::Min => scalar.call("min", &[&a, &b]),
                BinaryKind::Pow => scalar.call("pow", &[&a, &b]),
            })
        }
        Elementwise::Activation(op) => {
            let x = operand(op.input).text;
            narrow(match op.kind {
                ActivationKind::Relu => scalar.call("max", &[&x, &scalar.integer(0)]),
                ActivationKind::Gelu => format!("gelu_f32({x})"),
                ActivationKind::HardSwish => format!("hard_swish_f32({x})"),
                ActivationKind::Sigmoid => format!("sigmoid_f32({x})"),
                ActivationKind::Softplus => format!("softplus_f32({x})"),
                ActivationKind::Softsign => format!("softsign_f32({x})"),
                ActivationKind::Tanh => format!("tanh_f32({x})"),
            })
        }
        Elementwise::Logical(op) => {
            let (a, b) = (operand(op.a), operand(op.b));
            let scalar = a.scalar();
            let (a, b) = (a.text, b.text);
            // Without a comparison of both ways: NaN is not greater either.
            truth(match op.kind {
                LogicalKind::Equal => scalar.eq(&a, &b),
                LogicalKind::NotEqual => format!("!({})", scalar.eq(&a, &b)),
                LogicalKind::Greater => scalar.lt(&b, &a),
                LogicalKind::GreaterOrEqual => at_most(scalar, &b, &a),
                LogicalKind::Lesser => scalar.lt(&a, &b),
                LogicalKind::LesserOrEqual => at_most(scalar, &a, &b),
                LogicalKind::LogicalAnd => format!("({a} != 0u && {b} != 0u)"),
                LogicalKind::LogicalOr => format!("({a} != 0u || {b} != 0u)"),
                LogicalKind::LogicalXor => format!("(({a} != 0u) != ({b} != 0u))"),
            })
        }
        Elementwise::Predicate(op) => {
            let x = operand(op.a).text;
            truth(match op.kind {
                PredicateKind::LogicalNot => format!("({x} == 0u)"),
                PredicateKind::IsNan => format!("is_nan({x})"),
                PredicateKind::IsInfinite => format!("is_infinite({x})"),
            })
        }
        Elementwise::Where(op) => {
            let (condition, a, b) = (operand(op.condition).text, operand(op.true_value).text, operand(op.false_value).text);
            format!("select({b}, {a}, {condition} != 0u)")
        }
        Elementwise::Cast(op) => cast(&operand(op.input), output),
        Elementwise::Clamp(op) => {
            let x = operand(op.input).text;
            let bound = |value: Option<Number>| value.map(|value| Scalar::number(value, output));
            let mut text = x;
            if let Some(min) = bound(op.min_value) {
                text = scalar.call("max", &[&text, &min]);
            }
            if let Some(max) = bound(op.max_value) {
                text = scalar.call("min", &[&text, &max]);
            }
            text
        }
        Elementwise::Elu(op) => {
            let x = operand(op.input).text;
            narrow(format!("elu_f32({x}, {})", option(op.alpha)))
        }
        Elementwise::Gate(op) => {
            let x = operand(op.input).text;
            narrow(match op.kind {
                GateKind::Mish => format!("mish_f32({x})"),
                GateKind::TanhGelu => format!("tanh_gelu_f32({x})"),
            })
        }
        Elementwise::Swish(op) => {
            let x = operand(op.input).text;
            narrow(format!("swish_f32({x}, {})", option(op.alpha)))
        }
        Elementwise::HardSigmoid(op) => {
            let x = operand(op.input).text;
            narrow(format!("hard_sigmoid_f32({x}, {}, {})", option(op.alpha), option(op.beta)))
        }
        Elementwise::LeakyRelu(op) => {
            let x = operand(op.input).text;
            narrow(format!("prelu_f32({x}, {})", option(op.alpha)))
        }
        Elementwise::Linear(op) => {
            let x = operand(op.input).text;
            narrow(format!("({} * {x} + {})", option(op.alpha), option(op.beta)))
        }
        Elementwise::Prelu(op) => {
            let (x, slope) = (operand(op.input).text, operand(op.slope).text);
            narrow(scalar.call("prelu", &[&x, &slope]))
        }
        Elementwise::ReplaceNan(op) => {
            let x = operand(op.input).text;
            format!("select({x}, {}, is_nan({x}))", option(op.number))
        }
        Elementwise::Remainder(op) => {
            let (a, b) = (operand(op.a).text, operand(op.b).text);
            narrow(match op.kind {
                // There is no sign to correct.
                RemainderKind::Floored if scalar.is_signed() => scalar.call("floored_rem", &[&a, &b]),
                RemainderKind::Floored | RemainderKind::Truncated => scalar.call("rem", &[&a, &b]),
            })
        }
        Elementwise::DequantizeLinear(op) => {
            let (input, scale, zero_point) = (operand(op.input), operand(op.scale).text, operand(op.zero_point).text);
            narrow(input.scalar().call("dequantize", &[&input.text, &scale, &zero_point]))
        }
        Elementwise::QuantizeLinear(op) => {
            let (input, scale, zero_point) = (operand(op.input).text, operand(op.scale).text, operand(op.zero_point).text);
            let (min, max) = integer_range(output);
            let (min, max) = (scalar.integer(min), scalar.integer(max));
            scalar.call("quantize", &[&input, &scale, &zero_point, &min, &max])
        }
    }
}

fn truth(condition: String) -> String {
    format!("select(0u, 1u, {condition})")
}

fn at_most(scalar: Scalar, a: &str, b: &str) -> String {
    match scalar {
        Scalar::F32 | Scalar::I32 | Scalar::U32 => format!("({a} <= {b})"),
        Scalar::I64 | Scalar::U64 => format!("!{}", scalar.lt(b, a)),
    }
}

/// Floating-point values out of an integer's range become its smallest or greatest value; integers keep their lowest bits.
fn cast(from: &Expression, to: DataType) -> String {
    let scalar = Scalar::of(to);
    if from.scalar() == Scalar::F32 && matches!(to.bits(), 8) {
        let (min, max) = integer_range(to);
        let wide = Scalar::F32.convert(Scalar::I32, &from.text);
        let limited = format!("clamp({wide}, {}, {})", Scalar::I32.integer(min), Scalar::I32.integer(max));
        return Scalar::I32.convert(scalar, &limited);
    }
    let text = from.scalar().convert(scalar, &from.text);
    wrap(to, &text)
}
