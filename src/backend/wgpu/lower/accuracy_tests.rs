//! How far results of functions may be off on a device that is as inexact as WGSL allows (its section "Floating Point Accuracy").
//!
//! The WGSL of each operator is interpreted, operation by operation, as such devices may compute: sums and products go up or down
//! to one of the two nearest numbers, quotients are up to 2.5 units in the last place off (and anything where the divisor is beyond
//! 2^126), a square root is the reciprocal of an inverse root that is 2 units off, `fma` rounds once or twice, and subnormal
//! numbers are zeros or not. Functions use nothing else whose accuracy is left open: they are polynomials of their own. The devices
//! err in one direction as far as they may, in the other, or at random; the worst of all of them is the bound that tests allow on
//! hardware, `tests/wgsl-accuracy.txt`. (What reassociation changes is not among it: WGSL gives no bound for that.)

use crate::backend::wgpu::lower::elementwise::{Expression as Operand, expression};
use crate::backend::wgpu::shader::complete;
use crate::backend::wgpu::target::Features;
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, Elu, Gate, GateKind, Swish, Unary, UnaryKind,
};
use crate::graph::{DataType, Op, OperandId};
use std::cell::Cell;
use std::collections::HashMap;
use wgpu::naga::front::wgsl::parse_str;
use wgpu::naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, MathFunction, Module, RelationalFunction,
    ScalarKind, Statement, Type, TypeInner, UnaryOperator,
};

/// Where what is not exact goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Nearest,
    Up,
    Down,
    /// Each anywhere.
    Random,
}

/// A device that does as WGSL allows.
#[derive(Clone, Debug)]
struct Device {
    rounding: Direction,
    /// Of quotients and inverse roots, which are as far off as they may be.
    quotients: Direction,
    fuses: bool,
    flushes: bool,
    /// Random numbers.
    state: Cell<u64>,
}

/// First those that round to the nearest number, as those in software do; then such as err in a direction, and a few at random.
fn devices() -> Vec<Device> {
    use Direction::{Down, Nearest, Random, Up};
    let device =
        |rounding, quotients, fuses, flushes, seed| Device { rounding, quotients, fuses, flushes, state: Cell::new(seed) };
    let mut devices = [(false, false), (true, false), (false, true)]
        .map(|(fuses, flushes)| device(Nearest, Nearest, fuses, flushes, 1))
        .to_vec();
    for (fuses, flushes) in [(false, true), (true, true), (true, false)] {
        for quotients in [Up, Down] {
            devices.extend([Nearest, Up, Down].map(|rounding| device(rounding, quotients, fuses, flushes, 1)));
        }
        devices.extend((2..6).map(|seed| device(Random, Random, fuses, flushes, seed)));
    }
    devices
}

impl Device {
    /// From -1 to 1.
    fn random(&self) -> f64 {
        let state = self.state.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.state.set(state);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn flushed(&self, x: f32) -> f32 {
        if self.flushes && x.is_subnormal() { 0.0f32.copysign(x) } else { x }
    }

    /// One of the two numbers beside an exact result.
    fn rounded(&self, exact: f64) -> f32 {
        let nearest = exact as f32;
        if f64::from(nearest) == exact || exact.is_nan() {
            return self.flushed(nearest);
        }
        let other = if f64::from(nearest) < exact { nearest.next_up() } else { nearest.next_down() };
        let (below, above) = if nearest < other { (nearest, other) } else { (other, nearest) };
        self.flushed(match self.rounding {
            Direction::Nearest => nearest,
            Direction::Up => above,
            Direction::Down => below,
            Direction::Random => {
                if self.random() < 0.0 {
                    below
                } else {
                    above
                }
            }
        })
    }

    /// A result that is up to so many units off.
    fn near(&self, exact: f64, units: f64) -> f32 {
        if !exact.is_finite() || exact == 0.0 {
            return exact as f32;
        }
        // The least distance of two numbers around it: the lesser one where it is a power of two.
        let power = exact.abs().log2();
        let below = if power.fract() == 0.0 { power - 1.0 } else { power.floor() };
        let unit = 2f64.powf(below.max(-126.0) - 23.0);
        let off = match self.quotients {
            Direction::Nearest => 0.0,
            Direction::Up => units,
            Direction::Down => -units,
            Direction::Random => units * self.random(),
        };
        self.flushed((exact + off * unit) as f32)
    }

    fn divided(&self, a: f32, b: f32) -> f32 {
        let (a, b) = (self.flushed(a), self.flushed(b));
        if b.is_finite() && b.abs() > 2f32.powi(126) && a.is_finite() && self.flushes {
            return 0.0;
        }
        self.near(f64::from(a) / f64::from(b), 2.5)
    }

    fn arithmetic(&self, a: f32, b: f32, exact: impl Fn(f64, f64) -> f64) -> f32 {
        self.rounded(exact(self.flushed(a).into(), self.flushed(b).into()))
    }

    fn multiplied_and_added(&self, a: f32, b: f32, c: f32) -> f32 {
        let [a, b, c] = [a, b, c].map(|x| f64::from(self.flushed(x)));
        if self.fuses { self.rounded(a * b + c) } else { self.rounded(f64::from(self.rounded(a * b)) + c) }
    }

    fn root(&self, x: f32) -> f32 {
        let inverse = self.near(1.0 / f64::from(self.flushed(x)).sqrt(), 2.0);
        self.divided(1.0, inverse)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    F(f32),
    I(i32),
    U(u32),
    B(bool),
    /// A vector, an array, a structure.
    Many(Vec<Value>),
    /// A variable, or a part of it.
    Place(Handle<LocalVariable>, Vec<usize>),
}

use Value::{B, F, I, Many, U};

enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

/// A call that is under way.
struct Frame<'a> {
    device: &'a Device,
    module: &'a Module,
    function: &'a Function,
    arguments: Vec<Value>,
    /// By the numbers of their handles.
    values: Vec<Option<Value>>,
    locals: Vec<Value>,
}

fn zero(module: &Module, ty: Handle<Type>) -> Value {
    match &module.types[ty].inner {
        TypeInner::Scalar(scalar) => scalar_zero(scalar.kind),
        TypeInner::Vector { size, scalar } => Many(vec![scalar_zero(scalar.kind); *size as usize]),
        TypeInner::Array { base, size: wgpu::naga::ArraySize::Constant(size), .. } => {
            Many(vec![zero(module, *base); size.get() as usize])
        }
        TypeInner::Struct { members, .. } => Many(members.iter().map(|member| zero(module, member.ty)).collect()),
        other => panic!("no zero of {other:?}"),
    }
}

fn scalar_zero(kind: ScalarKind) -> Value {
    match kind {
        ScalarKind::Float => F(0.0),
        ScalarKind::Sint => I(0),
        ScalarKind::Uint => U(0),
        ScalarKind::Bool => B(false),
        other => panic!("no zero of {other:?}"),
    }
}

/// Applies a function to the components of vectors, side by side.
fn by_component(values: &[Value], apply: &dyn Fn(&[Value]) -> Value) -> Value {
    let size = values.iter().find_map(|value| if let Many(parts) = value { Some(parts.len()) } else { None });
    let Some(size) = size else { return apply(values) };
    let of = |value: &Value, i: usize| if let Many(parts) = value { parts[i].clone() } else { value.clone() };
    Many((0..size).map(|i| apply(&values.iter().map(|value| of(value, i)).collect::<Vec<_>>())).collect())
}

fn call(device: &Device, module: &Module, function: &Function, arguments: Vec<Value>) -> Value {
    let mut frame =
        Frame { device, module, function, arguments, values: vec![None; function.expressions.len()], locals: Vec::new() };
    for (_, local) in function.local_variables.iter() {
        let value = local.init.map_or_else(|| zero(module, local.ty), |init| frame.value(init));
        frame.locals.push(value);
    }
    match frame.block(&function.body) {
        Flow::Return(value) => value,
        _ => panic!("functions return something"),
    }
}

impl Frame<'_> {
    fn block(&mut self, block: &Block) -> Flow {
        for statement in block.iter() {
            let flow = self.statement(statement);
            if !matches!(flow, Flow::Next) {
                return flow;
            }
        }
        Flow::Next
    }

    fn statement(&mut self, statement: &Statement) -> Flow {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    let value = self.compute(handle);
                    self.values[handle.index()] = Some(value);
                }
                Flow::Next
            }
            Statement::Block(block) => self.block(block),
            Statement::If { condition, accept, reject } => {
                let accepts = self.value(*condition) == B(true);
                self.block(if accepts { accept } else { reject })
            }
            Statement::Loop { body, continuing, break_if } => loop {
                match self.block(body) {
                    Flow::Break => return Flow::Next,
                    Flow::Return(value) => return Flow::Return(value),
                    Flow::Next | Flow::Continue => {}
                }
                self.block(continuing);
                if break_if.is_some_and(|condition| self.value(condition) == B(true)) {
                    return Flow::Next;
                }
            },
            Statement::Break => Flow::Break,
            Statement::Continue => Flow::Continue,
            Statement::Return { value } => Flow::Return(self.value(value.expect("functions return something"))),
            Statement::Store { pointer, value } => {
                let value = self.value(*value);
                let Value::Place(local, path) = self.value(*pointer) else { panic!("a place") };
                let mut place = &mut self.locals[local.index()];
                for part in path {
                    let Many(parts) = place else { panic!("it has parts") };
                    place = &mut parts[part];
                }
                *place = value;
                Flow::Next
            }
            Statement::Call { function, arguments, result } => {
                let arguments = arguments.iter().map(|argument| self.value(*argument)).collect();
                let value = call(self.device, self.module, &self.module.functions[*function], arguments);
                self.values[result.expect("functions return something").index()] = Some(value);
                Flow::Next
            }
            other => panic!("{other:?}"),
        }
    }

    fn value(&self, handle: Handle<Expression>) -> Value {
        self.values[handle.index()].clone().unwrap_or_else(|| self.compute(handle))
    }

    fn compute(&self, handle: Handle<Expression>) -> Value {
        match &self.function.expressions[handle] {
            Expression::Literal(Literal::F32(x)) => F(*x),
            Expression::Literal(Literal::I32(x)) => I(*x),
            Expression::Literal(Literal::U32(x)) => U(*x),
            Expression::Literal(Literal::Bool(x)) => B(*x),
            Expression::ZeroValue(ty) => zero(self.module, *ty),
            Expression::Compose { components, .. } => Many(components.iter().map(|part| self.value(*part)).collect()),
            Expression::Splat { size, value } => Many(vec![self.value(*value); *size as usize]),
            Expression::FunctionArgument(number) => self.arguments[*number as usize].clone(),
            Expression::LocalVariable(local) => Value::Place(*local, Vec::new()),
            Expression::Load { pointer } => {
                let Value::Place(local, path) = self.value(*pointer) else { panic!("a place") };
                path.into_iter().fold(self.locals[local.index()].clone(), part)
            }
            Expression::AccessIndex { base, index } => part(self.value(*base), *index as usize),
            Expression::Access { base, index } => {
                let index = match self.value(*index) {
                    U(index) => index as usize,
                    I(index) => usize::try_from(index).expect("an index"),
                    other => panic!("{other:?}"),
                };
                part(self.value(*base), index)
            }
            Expression::Unary { op, expr } => by_component(&[self.value(*expr)], &|values| match (op, &values[0]) {
                (UnaryOperator::Negate, F(x)) => F(-self.device.flushed(*x)),
                (UnaryOperator::Negate, I(x)) => I(x.wrapping_neg()),
                (UnaryOperator::LogicalNot, B(x)) => B(!x),
                (UnaryOperator::BitwiseNot, U(x)) => U(!x),
                other => panic!("{other:?}"),
            }),
            Expression::Binary { op, left, right } => {
                by_component(&[self.value(*left), self.value(*right)], &|values| self.binary(*op, &values[0], &values[1]))
            }
            Expression::Select { condition, accept, reject } => {
                let values = [self.value(*condition), self.value(*accept), self.value(*reject)];
                by_component(&values, &|values| if values[0] == B(true) { values[1].clone() } else { values[2].clone() })
            }
            Expression::Relational { fun, argument } => {
                let Many(parts) = self.value(*argument) else { panic!("a vector") };
                B(match fun {
                    RelationalFunction::All => parts.iter().all(|part| *part == B(true)),
                    RelationalFunction::Any => parts.contains(&B(true)),
                    other => panic!("{other:?}"),
                })
            }
            Expression::Math { fun, arg, arg1, arg2, .. } => {
                let arguments: Vec<Value> = [Some(*arg), *arg1, *arg2].into_iter().flatten().map(|arg| self.value(arg)).collect();
                by_component(&arguments, &|values| self.math(*fun, values))
            }
            Expression::As { expr, kind, convert } => {
                by_component(&[self.value(*expr)], &|values| converted(&values[0], *kind, convert.is_some()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn binary(&self, op: BinaryOperator, a: &Value, b: &Value) -> Value {
        use BinaryOperator::*;
        match (a, b) {
            (F(a), F(b)) => match op {
                Add => F(self.device.arithmetic(*a, *b, |a, b| a + b)),
                Subtract => F(self.device.arithmetic(*a, *b, |a, b| a - b)),
                Multiply => F(self.device.arithmetic(*a, *b, |a, b| a * b)),
                Divide => F(self.device.divided(*a, *b)),
                other => {
                    let [a, b] = [*a, *b].map(|x| self.device.flushed(x));
                    B(compared(other, a.partial_cmp(&b)))
                }
            },
            (I(a), I(b)) => match op {
                Add => I(a.wrapping_add(*b)),
                Subtract => I(a.wrapping_sub(*b)),
                Multiply => I(a.wrapping_mul(*b)),
                Divide => I(a.checked_div(*b).unwrap_or(*a)),
                And => I(a & b),
                other => B(compared(other, a.partial_cmp(b))),
            },
            (I(a), U(b)) if op == ShiftRight => I(a >> (b & 31)),
            (U(a), U(b)) => match op {
                Add => U(a.wrapping_add(*b)),
                Subtract => U(a.wrapping_sub(*b)),
                Multiply => U(a.wrapping_mul(*b)),
                And => U(a & b),
                ExclusiveOr => U(a ^ b),
                InclusiveOr => U(a | b),
                ShiftLeft => U(a << (b & 31)),
                ShiftRight => U(a >> (b & 31)),
                other => B(compared(other, a.partial_cmp(b))),
            },
            (B(a), B(b)) => B(match op {
                And | LogicalAnd => *a && *b,
                InclusiveOr | LogicalOr => *a || *b,
                Equal => a == b,
                NotEqual => a != b,
                other => panic!("{other:?}"),
            }),
            other => panic!("{op:?} {other:?}"),
        }
    }

    fn math(&self, fun: MathFunction, values: &[Value]) -> Value {
        let floats: Vec<f32> =
            values.iter().filter_map(|value| if let F(x) = value { Some(self.device.flushed(*x)) } else { None }).collect();
        match (fun, values, &floats[..]) {
            (MathFunction::Abs, _, [x]) => F(x.abs()),
            (MathFunction::Round, _, [x]) => F(x.round_ties_even()),
            (MathFunction::Floor, _, [x]) => F(x.floor()),
            (MathFunction::Sign, _, [x]) => F(if *x > 0.0 {
                1.0
            } else if *x < 0.0 {
                -1.0
            } else {
                0.0
            }),
            (MathFunction::Sqrt, _, [x]) => F(self.device.root(*x)),
            (MathFunction::Min, _, [a, b]) => F(a.min(*b)),
            (MathFunction::Max, _, [a, b]) => F(a.max(*b)),
            (MathFunction::Clamp, _, [x, low, high]) => F(x.max(*low).min(*high)),
            (MathFunction::Fma, _, [a, b, c]) => F(self.device.multiplied_and_added(*a, *b, *c)),
            (MathFunction::Clamp, [I(x), I(low), I(high)], _) => I(*x.max(low).min(high)),
            (MathFunction::Min, [U(a), U(b)], _) => U(*a.min(b)),
            (MathFunction::CountLeadingZeros, [U(x)], _) => U(x.leading_zeros()),
            other => panic!("{other:?}"),
        }
    }
}

fn part(value: Value, part: usize) -> Value {
    match value {
        Many(mut parts) => parts.swap_remove(part),
        Value::Place(local, mut path) => {
            path.push(part);
            Value::Place(local, path)
        }
        other => panic!("{other:?} has no parts"),
    }
}

fn compared(op: BinaryOperator, order: Option<std::cmp::Ordering>) -> bool {
    match op {
        BinaryOperator::Equal => order.is_some_and(|order| order.is_eq()),
        BinaryOperator::NotEqual => order.is_none_or(|order| order.is_ne()),
        BinaryOperator::Less => order.is_some_and(|order| order.is_lt()),
        BinaryOperator::LessEqual => order.is_some_and(|order| order.is_le()),
        BinaryOperator::Greater => order.is_some_and(|order| order.is_gt()),
        BinaryOperator::GreaterEqual => order.is_some_and(|order| order.is_ge()),
        other => panic!("{other:?}"),
    }
}

fn converted(value: &Value, to: ScalarKind, converts: bool) -> Value {
    let bits = match value {
        F(x) => x.to_bits(),
        I(x) => *x as u32,
        U(x) => *x,
        B(x) => u32::from(*x),
        other => panic!("{other:?}"),
    };
    match (value, to, converts) {
        (_, ScalarKind::Float, false) => F(f32::from_bits(bits)),
        (I(x), ScalarKind::Float, true) => F(*x as f32),
        (_, ScalarKind::Float, true) => F(bits as f32),
        (F(x), ScalarKind::Sint, true) => I(*x as i32),
        (F(x), ScalarKind::Uint, true) => U(*x as u32),
        (_, ScalarKind::Sint, _) => I(bits as i32),
        (_, ScalarKind::Uint, _) => U(bits),
        other => panic!("{other:?}"),
    }
}

/// How many numbers of float32 lie between 0 and this one, with its sign.
fn order(x: f64) -> i64 {
    let magnitude = i64::from((x.abs() as f32).to_bits());
    if x < 0.0 { -magnitude } else { magnitude }
}

/// How many numbers of float32 lie between a result and the exact one. What is lost where results are subnormal on the way does not
/// count, as in `tests/properties/compare.rs`.
fn distance(found: f32, exact: f64) -> i64 {
    let lost = 2.0 * f64::from(f32::MIN_POSITIVE);
    if exact.is_nan() || found.is_nan() {
        return if exact.is_nan() { 0 } else { i64::MAX };
    }
    let (low, high) = (order(exact - lost), order(exact + lost));
    let found = order(found.into());
    (low - found).max(found - high).max(0)
}

/// What an operator computes of one number or two.
type Exact = fn(f64, f64) -> f64;

/// The operators that are not exact on every device.
fn functions() -> Vec<(Op, Exact)> {
    let (a, b) = (OperandId(0), OperandId(1));
    let unary = |kind, exact: fn(f64, f64) -> f64| (Op::from(Unary { kind, input: a }), exact);
    let activation = |kind, exact: fn(f64, f64) -> f64| (Op::from(Activation { kind, input: a }), exact);
    let gate = |kind, exact: fn(f64, f64) -> f64| (Op::from(Gate { kind, input: a }), exact);
    vec![
        unary(UnaryKind::Sqrt, |x, _| x.sqrt()),
        unary(UnaryKind::Reciprocal, |x, _| 1.0 / x),
        unary(UnaryKind::Cos, |x, _| x.cos()),
        unary(UnaryKind::Erf, |x, _| libm::erf(x)),
        unary(UnaryKind::Exp, |x, _| x.exp()),
        unary(UnaryKind::Log, |x, _| x.ln()),
        unary(UnaryKind::Sin, |x, _| x.sin()),
        unary(UnaryKind::Tan, |x, _| x.tan()),
        activation(ActivationKind::Gelu, |x, _| 0.5 * x * libm::erfc(-x / std::f64::consts::SQRT_2)),
        activation(ActivationKind::HardSwish, |x, _| x * ((x + 3.0).clamp(0.0, 6.0) / 6.0)),
        activation(ActivationKind::Sigmoid, |x, _| 1.0 / (1.0 + (-x).exp())),
        activation(ActivationKind::Softplus, |x, _| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        activation(ActivationKind::Softsign, |x, _| x / (1.0 + x.abs())),
        activation(ActivationKind::Tanh, |x, _| x.tanh()),
        gate(GateKind::Mish, |x, _| x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh()),
        gate(GateKind::TanhGelu, |x, _| {
            x / (1.0 + (-2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).exp())
        }),
        (Elu { input: a, alpha: 1.0 }.into(), |x, _| if x > 0.0 { x } else { x.exp_m1() }),
        (Swish { input: a, alpha: 1.0 }.into(), |x, _| x / (1.0 + (-x).exp())),
        (Binary { kind: BinaryKind::Div, a, b }.into(), |a, b| a / b),
        (Binary { kind: BinaryKind::Pow, a, b }.into(), f64::powf),
    ]
}

/// Numbers of all exponents, and those near 0 that functions do something with.
fn numbers(count: u32) -> Vec<f32> {
    let spread = |i: u32| i.wrapping_mul(0x9e37_79b9);
    let any = (0..count).map(|i| f32::from_bits(spread(i)));
    let near = (0..count).map(|i| (f64::from(spread(i)) / f64::from(u32::MAX) - 0.5) as f32).flat_map(|x| [x * 8.0, x * 200.0]);
    let ends = [0.5f32, 1.0, 2.0, 3.0, 4.0, 0.999_999_94, 1.000_000_1, -4.0, -14.8, -88.0, 88.7, 1e-6, -3.0];
    // What is left of these beside a multiple of a quarter turn has few digits of theirs.
    let turns = (1..=count).map(|i| (f64::from(i * (5200 / count)) * std::f64::consts::FRAC_PI_2) as f32).chain([6715.1543]);
    any.chain(near).chain(ends).chain(turns).filter(|x| x.is_finite()).collect()
}

#[test]
fn functions_are_as_accurate_as_tests_allow_on_every_device_of_wgsl() {
    let allowed: HashMap<&str, [i64; 2]> = include_str!("../../../../tests/wgsl-accuracy.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let [name, nearest, any] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (name, [nearest, any].map(|units| units.parse().expect("a number")))
        })
        .collect();
    let operand = |id: OperandId| Operand { text: ["a", "b"][id.0 as usize].to_owned(), data_type: DataType::Float32 };
    let functions = functions();
    let mut text = "@compute @workgroup_size(1) fn main() {}\n".to_owned();
    for (op, _) in &functions {
        let value = expression(op.elementwise().expect("a function of elements"), &operand, DataType::Float32);
        text.push_str(&format!("fn of_{}(a: f32, b: f32) -> f32 {{ return {value}; }}\n", op.row().name));
    }
    let features = Features { half: false, subgroups: false, standard: false, matrices: None };
    let text = complete(features, &text);
    let module = parse_str(&text).unwrap_or_else(|error| panic!("{}", error.emit_to_string(&text)));
    let (few, many) = (numbers(120), numbers(1000));
    let mut report = String::new();
    let mut differs = false;
    for (op, exact) in &functions {
        let name = op.row().name;
        let wgsl = format!("of_{name}");
        let (_, function) =
            module.functions.iter().find(|(_, function)| function.name.as_ref() == Some(&wgsl)).expect("it was declared");
        let is_binary = matches!(op, Op::Binary(_));
        let (mut worst, mut case) = ([0; 2], String::new());
        for device in devices() {
            let is_nearest = (device.rounding, device.quotients) == (Direction::Nearest, Direction::Nearest);
            let numbers = if is_nearest { &many } else { &few };
            for (i, &a) in numbers.iter().enumerate() {
                let b = if is_binary { numbers[(i * 7 + 3) % numbers.len()] } else { 0.0 };
                let [a, b] = [a, b].map(|x| device.flushed(x));
                let Value::F(found) = call(&device, &module, function, vec![F(a), F(b)]) else { panic!("a float") };
                let off = distance(found, exact(a.into(), b.into()));
                if off > worst[1] {
                    case = format!("{a:e}, {b:e} gave {found:e} on {device:?}");
                }
                worst[0] = if is_nearest { worst[0].max(off) } else { worst[0] };
                worst[1] = worst[1].max(off);
            }
        }
        let allowed = allowed.get(name);
        differs |= allowed.is_none_or(|allowed| worst.iter().zip(allowed).any(|(worst, allowed)| worst > allowed));
        report.push_str(&format!("{name} {worst:?} (allowed {allowed:?}): {case}\n"));
    }
    println!("{report}");
    assert!(!differs, "some function is less accurate than tests/wgsl-accuracy.txt says:\n{report}");
}
