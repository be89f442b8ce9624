//! Puts operators in the place of the many small ones that exporters write for them: gelu, hardSwish, swish, layer and RMS
//! normalization, a number in the place of NaN.
//!
//! The results are the same but for the rounding of what is computed in between. That of float16 matters: the squares of a
//! normalization soon exceed its range.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, PredicateKind, ReplaceNan, Swish, UnaryKind, Where,
};
use crate::graph::ops::normalization::{LayerNormalization, RmsNormalization};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{DataType, Graph, Number, Op, OperandId};

/// Replaces the last node of each pattern; [`prune`](super::prune) removes the others.
pub fn recognise(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let uses = graph.uses();
    for position in compilation.each(0..graph.nodes.len()) {
        let position = position?;
        let output = graph.nodes[position].outputs[0];
        if !matches!(graph.descriptor(output).data_type, DataType::Float32 | DataType::Float16) {
            continue;
        }
        let view = Values { graph, uses: &uses, compilation };
        let found = match &graph.nodes[position].op {
            Op::Binary(op) => match op.kind {
                BinaryKind::Mul => view
                    .gelu(op, output)
                    .or_else(|| view.hard_swish(op, output))
                    .or_else(|| view.swish(op, output))
                    .or_else(|| view.root_mean_square(op))
                    .or_else(|| view.scaled(op)),
                BinaryKind::Div => {
                    view.hard_swish(op, output).or_else(|| view.normalization(op)).or_else(|| view.root_mean_square(op))
                }
                BinaryKind::Add => view.shifted(op),
                _ => None,
            },
            Op::Where(op) => view.replace_nan(op, output),
            _ => None,
        };
        if let Some(op) = found {
            graph.nodes[position].op = op;
        }
    }
    Ok(())
}

/// A gelu has 3 factors, and 2 products or quotients of them.
const MOST_FACTORS: usize = 8;

/// The values of a graph, and how often each is used.
pub(super) struct Values<'a> {
    pub graph: &'a Graph,
    pub uses: &'a [usize],
    pub compilation: &'a Compilation<'a>,
}

impl<'a> Values<'a> {
    /// The operator that makes a value.
    fn maker(&self, id: OperandId) -> Option<&'a Op> {
        self.compilation.count();
        self.graph.maker(id).map(|(_, node)| &node.op)
    }

    /// The same for a value that nobody else needs.
    pub fn own_maker(&self, id: OperandId) -> Option<&'a Op> {
        self.maker(id).filter(|_| self.uses[id.0 as usize] == 1)
    }

    pub fn own_binary(&self, id: OperandId, kind: BinaryKind) -> Option<&'a Binary> {
        match self.own_maker(id)? {
            Op::Binary(op) if op.kind == kind => Some(op),
            _ => None,
        }
    }

    pub fn own_unary(&self, id: OperandId, kind: UnaryKind) -> Option<OperandId> {
        match self.own_maker(id)? {
            Op::Unary(op) if op.kind == kind => Some(op.input),
            _ => None,
        }
    }

    /// A constant of one number.
    pub fn number(&self, id: OperandId) -> Option<f32> {
        let bytes = self.graph.bytes(id)?.as_slice();
        match self.graph.descriptor(id).data_type {
            DataType::Float32 => bytes.try_into().ok().map(f32::from_le_bytes),
            DataType::Float16 => bytes.try_into().ok().map(|bytes| half::f16::from_le_bytes(bytes).to_f32()),
            _ => None,
        }
    }

    pub fn is_number(&self, id: OperandId, number: f64) -> bool {
        // A number of float16 is as near as its digits allow.
        let near = if self.graph.descriptor(id).data_type == DataType::Float16 { 5e-4 } else { 1e-6 };
        self.number(id).is_some_and(|found| (found as f64 - number).abs() <= number.abs() * near)
    }

    /// The other operand of one that commutes.
    fn beside(op: &Binary, id: OperandId) -> Option<OperandId> {
        if op.a == id {
            Some(op.b)
        } else if op.b == id {
            Some(op.a)
        } else {
            None
        }
    }

    /// `0.5 * x * (1 + erf(x / √2))`, multiplied in any order.
    fn gelu(&self, op: &Binary, output: OperandId) -> Option<Op> {
        let (mut factor, mut values) = (1f64, Vec::new());
        let mut pending = vec![op.a, op.b];
        let mut looked_at = 0;
        while let Some(id) = pending.pop() {
            // Each node of a long chain begins one.
            looked_at += 1;
            if looked_at > MOST_FACTORS {
                return None;
            }
            if let Some(number) = self.number(id) {
                factor *= number as f64;
            } else if let Some(product) = self.own_binary(id, BinaryKind::Mul) {
                pending.extend([product.a, product.b]);
            } else if let Some((quotient, number)) =
                self.own_binary(id, BinaryKind::Div).and_then(|op| Some((op, self.number(op.b)?)))
            {
                factor /= number as f64;
                pending.push(quotient.a);
            } else {
                values.push(id);
            }
            if values.len() > 2 {
                return None;
            }
        }
        let &[a, b] = values.as_slice() else { return None };
        let input = [(a, b), (b, a)].into_iter().find(|&(x, sum)| self.is_one_and_erf(sum, x))?.0;
        let is_half = (factor - 0.5).abs() < 1e-6;
        let keeps = self.graph.descriptor(input) == self.graph.descriptor(output);
        (is_half && keeps).then(|| Activation { kind: ActivationKind::Gelu, input }.into())
    }

    /// `isNaN(x) ? number : x`, or the other way round.
    fn replace_nan(&self, op: &Where, output: OperandId) -> Option<Op> {
        let (mut condition, mut number, mut input) = (op.condition, op.true_value, op.false_value);
        let x = loop {
            let Op::Predicate(predicate) = self.maker(condition)? else { return None };
            match predicate.kind {
                PredicateKind::IsNan => break predicate.a,
                // Of truth values, which are made by the question itself.
                PredicateKind::LogicalNot if condition == op.condition => {
                    (condition, number, input) = (predicate.a, input, number);
                }
                _ => return None,
            }
        };
        let keeps = input == x && self.graph.descriptor(x) == self.graph.descriptor(output);
        let number = self.number(number).filter(|_| keeps)?;
        Some(ReplaceNan { input: x, number: number.into() }.into())
    }

    /// `x * clamp(x + 3, 0, 6) / 6`, or `x` times its hardSigmoid with a slope of one sixth.
    fn hard_swish(&self, op: &Binary, output: OperandId) -> Option<Op> {
        let product = match op.kind {
            BinaryKind::Div if self.is_number(op.b, 6.0) => self.own_binary(op.a, BinaryKind::Mul)?,
            BinaryKind::Mul if self.is_number(op.b, 1.0 / 6.0) => self.own_binary(op.a, BinaryKind::Mul)?,
            BinaryKind::Mul => op,
            _ => return None,
        };
        let whole = std::ptr::eq(product, op);
        let is_gate = |gate: OperandId, x: OperandId| match self.own_maker(gate) {
            Some(Op::HardSigmoid(gate)) if whole => gate.input == x && (gate.alpha - 1.0 / 6.0).abs() < 1e-6 && gate.beta == 0.5,
            Some(Op::Clamp(clamp)) if !whole => {
                let bounds = [clamp.min_value, clamp.max_value].map(|bound| bound.map(Number::to_f32));
                let sum = self.own_binary(clamp.input, BinaryKind::Add);
                let is_sum = |sum: &Binary| Self::beside(sum, x).is_some_and(|other| self.is_number(other, 3.0));
                bounds == [Some(0.0), Some(6.0)] && sum.is_some_and(is_sum)
            }
            _ => false,
        };
        let pairs = [(product.a, product.b), (product.b, product.a)];
        let input = pairs.into_iter().find(|&(x, gate)| is_gate(gate, x))?.0;
        let keeps = self.graph.descriptor(input) == self.graph.descriptor(output);
        keeps.then(|| Activation { kind: ActivationKind::HardSwish, input }.into())
    }

    /// `x` times the sigmoid of itself or of a multiple of it.
    fn swish(&self, op: &Binary, output: OperandId) -> Option<Op> {
        let factor = |gate: OperandId, x: OperandId| {
            let Some(Op::Activation(sigmoid)) = self.own_maker(gate) else { return None };
            match self.own_maker(sigmoid.input) {
                _ if sigmoid.kind != ActivationKind::Sigmoid => None,
                _ if sigmoid.input == x => Some(1.0),
                Some(Op::Binary(scaled)) if scaled.kind == BinaryKind::Mul => {
                    self.number(Self::beside(scaled, x)?).map(f64::from)
                }
                Some(Op::Linear(scaled)) if scaled.input == x && scaled.beta == 0.0 => Some(scaled.alpha),
                _ => None,
            }
        };
        let found = [(op.a, op.b), (op.b, op.a)].into_iter().find_map(|(x, gate)| factor(gate, x).map(|alpha| (x, alpha)));
        let (input, alpha) = found?;
        let keeps = self.graph.descriptor(input) == self.graph.descriptor(output);
        keeps.then(|| Swish { input, alpha }.into())
    }

    /// Whether a value is `1 + erf(x / √2)`.
    fn is_one_and_erf(&self, sum: OperandId, x: OperandId) -> bool {
        let is_erf = |id| self.own_unary(id, UnaryKind::Erf).is_some_and(|inside| self.is_divided_by_root(inside, x));
        self.own_binary(sum, BinaryKind::Add).is_some_and(|op| {
            let is_one = |id| self.is_number(id, 1.0);
            is_one(op.a) && is_erf(op.b) || is_one(op.b) && is_erf(op.a)
        })
    }

    fn is_divided_by_root(&self, id: OperandId, x: OperandId) -> bool {
        use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
        let divided = self.own_binary(id, BinaryKind::Div).is_some_and(|op| op.a == x && self.is_number(op.b, SQRT_2));
        let multiplied = |op: &Binary| Self::beside(op, x).is_some_and(|other| self.is_number(other, FRAC_1_SQRT_2));
        divided || self.own_binary(id, BinaryKind::Mul).is_some_and(multiplied)
    }

    /// `d / sqrt(mean(d²) + epsilon)` with `d = x - mean(x)`, along the last axis.
    fn normalization(&self, op: &Binary) -> Option<Op> {
        let Op::Binary(difference) = self.maker(op.a)? else { return None };
        let input = difference.a;
        let rank = self.graph.descriptor(input).shape.len();
        let is_mean_of = |id: OperandId, of: OperandId| matches!(self.maker(id), Some(Op::Reduce(mean)) if mean.input == of && is_mean_of_last(mean, rank));
        if difference.kind != BinaryKind::Sub || !is_mean_of(difference.b, input) {
            return None;
        }
        let (mean, epsilon) = self.mean_square(op.a, self.own_unary(op.b, UnaryKind::Sqrt)?)?;
        let axes = Some(vec![rank.checked_sub(1)? as u32]);
        let found = LayerNormalization { input, scale: None, bias: None, axes, epsilon: epsilon as f64 };
        is_mean_of_last(mean, rank).then(|| found.into())
    }

    /// The mean of an operand's squares, if a sum is of that and a number, and the number.
    fn mean_square(&self, of: OperandId, sum: OperandId) -> Option<(&'a Reduce, f32)> {
        let sum = self.own_binary(sum, BinaryKind::Add)?;
        let (mean, epsilon) = match (self.number(sum.a), self.number(sum.b)) {
            (None, Some(epsilon)) => (sum.a, epsilon),
            (Some(epsilon), None) => (sum.b, epsilon),
            _ => return None,
        };
        let Op::Reduce(mean) = self.own_maker(mean)? else { return None };
        let Op::Binary(square) = self.own_maker(mean.input)? else { return None };
        let is_square = match square.kind {
            BinaryKind::Mul => square.a == of && square.b == of,
            BinaryKind::Pow => square.a == of && self.is_number(square.b, 2.0),
            _ => false,
        };
        (is_square && mean.kind == ReduceKind::Mean && mean.keep_dimensions).then_some((mean, epsilon))
    }

    /// `x / sqrt(mean(x²) + epsilon)`, or `x` times the inverse of the root.
    fn root_mean_square(&self, op: &Binary) -> Option<Op> {
        let found = match op.kind {
            BinaryKind::Div => self.divided_by_root(op.a, op.b),
            BinaryKind::Mul => [(op.a, op.b), (op.b, op.a)].into_iter().find_map(|(input, factor)| {
                if let Some(root) = self.own_unary(factor, UnaryKind::Reciprocal) {
                    return self.divided_by_root(input, root);
                }
                if let Some(quotient) = self.own_binary(factor, BinaryKind::Div).filter(|op| self.is_number(op.a, 1.0)) {
                    return self.divided_by_root(input, quotient.b);
                }
                let power = self.own_binary(factor, BinaryKind::Pow).filter(|op| self.is_number(op.b, -0.5))?;
                self.divided_by_root_of(input, power.a)
            }),
            _ => None,
        };
        found.map(Op::from)
    }

    fn divided_by_root(&self, input: OperandId, root: OperandId) -> Option<RmsNormalization> {
        self.divided_by_root_of(input, self.own_unary(root, UnaryKind::Sqrt)?)
    }

    /// If a sum is that of an input's mean square and a number.
    fn divided_by_root_of(&self, input: OperandId, sum: OperandId) -> Option<RmsNormalization> {
        let (mean, epsilon) = self.mean_square(input, sum)?;
        let rank = self.graph.descriptor(input).shape.len() as u32;
        let axes = Some(mean.axes.clone().unwrap_or_else(|| (0..rank).collect()));
        Some(RmsNormalization { input, scale: None, axes, epsilon: epsilon.into() })
    }

    /// Whether an operand has a number for each element of the last dimension of an input, the only one that is normalized over. (It
    /// must exist before everything that is computed from it.)
    fn is_of_line(&self, input: OperandId, axes: &[u32], other: OperandId) -> bool {
        let shape = &self.graph.descriptor(input).shape;
        let Some(last) = shape.len().checked_sub(1) else { return false };
        let fits = self.graph.descriptor(other).shape.as_slice() == &shape[last..];
        axes == [last as u32] && fits && self.graph.is_constant(other)
    }

    /// A layer normalization that nobody else needs, and the operand beside it, which has a number for each element of its line.
    fn beside_normalization(&self, op: &Binary) -> Option<(&'a LayerNormalization, OperandId)> {
        let found = |id: OperandId, other: OperandId| match self.own_maker(id)? {
            Op::LayerNormalization(found) => {
                let axes = found.axes(self.graph.descriptor(found.input).shape.len());
                self.is_of_line(found.input, &axes, other).then_some((found, other))
            }
            _ => None,
        };
        found(op.a, op.b).or_else(|| found(op.b, op.a))
    }

    /// A product with a normalization that has neither scale nor bias.
    fn scaled(&self, op: &Binary) -> Option<Op> {
        if let Some((found, scale)) = self.beside_normalization(op) {
            let plain = found.scale.is_none() && found.bias.is_none();
            return plain.then(|| LayerNormalization { scale: Some(scale), ..found.clone() }.into());
        }
        [(op.a, op.b), (op.b, op.a)].into_iter().find_map(|(normal, other)| {
            let Op::RmsNormalization(found) = self.own_maker(normal)? else { return None };
            let axes = found.axes(self.graph.descriptor(found.input).shape.len());
            let fits = found.scale.is_none() && self.is_of_line(found.input, &axes, other);
            fits.then(|| RmsNormalization { scale: Some(other), ..found.clone() }.into())
        })
    }

    /// A sum with a normalization that has no bias.
    fn shifted(&self, op: &Binary) -> Option<Op> {
        let (found, bias) = self.beside_normalization(op)?;
        found.bias.is_none().then(|| LayerNormalization { bias: Some(bias), ..found.clone() }.into())
    }
}

fn is_mean_of_last(op: &Reduce, rank: usize) -> bool {
    op.kind == ReduceKind::Mean
        && op.keep_dimensions
        && op.axes.as_ref().is_some_and(|axes| axes.len() == 1 && axes[0] as usize + 1 == rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::prune::prune;
    use crate::graph::ops::elementwise::Unary;
    use crate::graph::ops::elementwise::{Clamp, HardSigmoid, Predicate};
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// A graph under construction, and the type of its numbers.
    struct Sketch(GraphBuilder, DataType);

    impl Sketch {
        fn number(&mut self, number: f64) -> OperandId {
            self.0.scalar(self.1, Number::Double(number)).unwrap()
        }

        fn binary(&mut self, kind: BinaryKind, a: OperandId, b: OperandId) -> OperandId {
            self.0.push_op(Binary { kind, a, b }, "").unwrap()[0]
        }

        fn unary(&mut self, kind: UnaryKind, input: OperandId) -> OperandId {
            self.0.push_op(Unary { kind, input }, "").unwrap()[0]
        }

        fn mean(&mut self, input: OperandId) -> OperandId {
            let op = Reduce { kind: ReduceKind::Mean, input, axes: Some(vec![1]), keep_dimensions: true };
            self.0.push_op(op, "").unwrap()[0]
        }
    }

    /// What is left of a graph made from an input of `[2, 8]`, of either type.
    fn left(make: impl Fn(&mut Sketch, OperandId) -> Vec<OperandId>) -> Vec<&'static str> {
        let [single, half] = [DataType::Float32, DataType::Float16].map(|of| left_of(of, &make));
        assert_eq!(single, half);
        single
    }

    fn left_of(of: DataType, make: impl Fn(&mut Sketch, OperandId) -> Vec<OperandId>) -> Vec<&'static str> {
        let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())), of);
        let x = sketch.0.input("x", Descriptor::new(of, [2, 8])).unwrap();
        let outputs = make(&mut sketch, x).into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
        let mut graph = sketch.0.build(outputs).unwrap();
        let compilation = &Compilation::unasked();
        recognise(&mut graph, compilation).unwrap();
        prune(&mut graph, compilation).unwrap();
        graph.nodes.iter().map(|node| node.op.row().name).collect()
    }

    fn one_and_erf(sketch: &mut Sketch, x: OperandId, by: f64) -> OperandId {
        let by = sketch.number(by);
        let inside = sketch.binary(BinaryKind::Div, x, by);
        let erf = sketch.unary(UnaryKind::Erf, inside);
        let one = sketch.number(1.0);
        sketch.binary(BinaryKind::Add, erf, one)
    }

    #[test]
    fn gelu_is_recognised() {
        let make = |by: f64, half: f64, half_first: bool| {
            left(|sketch, x| {
                let sum = one_and_erf(sketch, x, by);
                let half = sketch.number(half);
                let first = sketch.binary(BinaryKind::Mul, x, if half_first { half } else { sum });
                vec![sketch.binary(BinaryKind::Mul, first, if half_first { sum } else { half })]
            })
        };
        assert_eq!(make(std::f64::consts::SQRT_2, 0.5, false), ["gelu"]);
        assert_eq!(make(std::f64::consts::SQRT_2, 0.5, true), ["gelu"]);
        assert_eq!(make(std::f64::consts::SQRT_2, 0.4, true).len(), 5);
        assert_eq!(make(1.5, 0.5, true).len(), 5);
    }

    #[test]
    fn hard_swish_is_recognised() {
        let make = |shift: f64, by: f64, kind| {
            left(|sketch, x| {
                let (shift, by) = (sketch.number(shift), sketch.number(by));
                let sum = sketch.binary(BinaryKind::Add, x, shift);
                let bound = |number| Some(Number::Double(number));
                let clamp = Clamp { input: sum, min_value: bound(0.0), max_value: bound(6.0) };
                let gate = sketch.0.push_op(clamp, "").unwrap()[0];
                let product = sketch.binary(BinaryKind::Mul, x, gate);
                vec![sketch.binary(kind, product, by)]
            })
        };
        assert_eq!(make(3.0, 6.0, BinaryKind::Div), ["hardSwish"]);
        assert_eq!(make(3.0, 1.0 / 6.0, BinaryKind::Mul), ["hardSwish"]);
        assert_eq!(make(3.0, 6.0, BinaryKind::Mul).len(), 4);
        assert_eq!(make(2.0, 6.0, BinaryKind::Div).len(), 4);
        let gated = |alpha| {
            left(|sketch, x| {
                let gate = sketch.0.push_op(HardSigmoid { input: x, alpha, beta: 0.5 }, "").unwrap()[0];
                vec![sketch.binary(BinaryKind::Mul, gate, x)]
            })
        };
        assert_eq!(gated(1.0 / 6.0), ["hardSwish"]);
        assert_eq!(gated(0.2), ["hardSigmoid", "mul"]);
    }

    #[test]
    fn swish_is_recognised() {
        let make = |times: Option<f64>, gate_first: bool, twice: bool| {
            left(|sketch, x| {
                let times = times.map(|times| sketch.number(times));
                let inner = times.map_or(x, |times| sketch.binary(BinaryKind::Mul, times, x));
                let sigmoid = Activation { kind: ActivationKind::Sigmoid, input: inner };
                let gate = sketch.0.push_op(sigmoid, "").unwrap()[0];
                let (a, b) = if gate_first { (gate, x) } else { (x, gate) };
                let product = sketch.binary(BinaryKind::Mul, a, b);
                if twice { vec![product, gate] } else { vec![product] }
            })
        };
        assert_eq!(make(None, false, false), ["swish"]);
        assert_eq!(make(Some(1.702), true, false), ["swish"]);
        assert_eq!(make(Some(1.702), true, true), ["mul", "sigmoid", "mul"]);
        let square = left(|sketch, x| {
            let gate = sketch.0.push_op(Activation { kind: ActivationKind::Sigmoid, input: x }, "").unwrap()[0];
            vec![sketch.binary(BinaryKind::Mul, gate, gate)]
        });
        assert_eq!(square, ["sigmoid", "mul"]);
    }

    #[test]
    fn numbers_in_the_place_of_nan_are_recognised() {
        let make = |negated: bool, swapped: bool, of: f64, number: Option<f64>| {
            left(|sketch, x| {
                let push = |sketch: &mut Sketch, kind, a| sketch.0.push_op(Predicate { kind, a }, "").unwrap()[0];
                let of = sketch.number(of);
                let asked = sketch.binary(BinaryKind::Mul, x, of);
                let mut condition = push(sketch, PredicateKind::IsNan, asked);
                if negated {
                    condition = push(sketch, PredicateKind::LogicalNot, condition);
                }
                let number = number.map_or(x, |number| sketch.number(number));
                let (true_value, false_value) = if negated != swapped { (asked, number) } else { (number, asked) };
                vec![sketch.0.push_op(Where { condition, true_value, false_value }, "").unwrap()[0]]
            })
        };
        assert_eq!(make(false, false, 2.0, Some(0.0)), ["mul", "replaceNaN"]);
        assert_eq!(make(true, false, 2.0, Some(-1.0)), ["mul", "replaceNaN"]);
        assert_eq!(make(false, true, 2.0, Some(0.0)), ["mul", "isNaN", "where"], "NaN is kept");
        assert_eq!(make(false, false, 2.0, None), ["mul", "isNaN", "where"], "no constant");
    }

    #[test]
    fn what_others_need_stays() {
        let names = left(|sketch, x| {
            let sum = one_and_erf(sketch, x, std::f64::consts::SQRT_2);
            let half = sketch.number(0.5);
            let first = sketch.binary(BinaryKind::Mul, x, half);
            vec![sketch.binary(BinaryKind::Mul, first, sum), sum]
        });
        assert_eq!(names, ["div", "erf", "add", "mul", "mul"]);
    }

    /// A layer normalization as exporters write it, divided by the root of what `of` makes of the difference.
    fn normalized(sketch: &mut Sketch, x: OperandId, square: impl Fn(&mut Sketch, OperandId) -> OperandId) -> OperandId {
        let mean = sketch.mean(x);
        let difference = sketch.binary(BinaryKind::Sub, x, mean);
        let square = square(sketch, difference);
        let variance = sketch.mean(square);
        let epsilon = sketch.number(1e-5);
        let sum = sketch.binary(BinaryKind::Add, variance, epsilon);
        let root = sketch.unary(UnaryKind::Sqrt, sum);
        sketch.binary(BinaryKind::Div, difference, root)
    }

    /// A constant of a number for each column.
    fn line(sketch: &mut Sketch) -> OperandId {
        let descriptor = Descriptor::new(sketch.1, [8]);
        let bytes = descriptor.byte_length();
        sketch.0.constant(descriptor, ConstantBytes::new(vec![0; bytes])).unwrap()
    }

    #[test]
    fn layer_normalization_is_recognised() {
        let power = |sketch: &mut Sketch, difference| {
            let two = sketch.number(2.0);
            sketch.binary(BinaryKind::Pow, difference, two)
        };
        let product = |sketch: &mut Sketch, difference| sketch.binary(BinaryKind::Mul, difference, difference);
        assert_eq!(left(|sketch, x| vec![normalized(sketch, x, power)]), ["layerNormalization"]);
        let whole = |sketch: &mut Sketch, x| {
            let found = normalized(sketch, x, product);
            let (scale, bias) = (line(sketch), line(sketch));
            let scaled = sketch.binary(BinaryKind::Mul, scale, found);
            sketch.binary(BinaryKind::Add, scaled, bias)
        };
        assert_eq!(left(|sketch, x| vec![whole(sketch, x)]), ["layerNormalization"]);
        // The difference is needed outside: the normalization is computed beside it.
        let names = left(|sketch, x| {
            let mean = sketch.mean(x);
            let difference = sketch.binary(BinaryKind::Sub, x, mean);
            let found = whole(sketch, difference);
            vec![found, difference]
        });
        assert_eq!(names, ["reduceMean", "sub", "layerNormalization"]);
        // Not a square.
        let cube = |sketch: &mut Sketch, difference| {
            let three = sketch.number(3.0);
            sketch.binary(BinaryKind::Pow, difference, three)
        };
        assert_eq!(left(|sketch, x| vec![normalized(sketch, x, cube)]).len(), 7);
    }

    /// How the inverse of the root of a mean square is written.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Written {
        Divided,
        Reciprocal,
        Quotient,
        Power,
        /// Something else that is like it.
        Cubes,
    }

    fn by_root_mean_square(sketch: &mut Sketch, x: OperandId, written: Written) -> OperandId {
        let (epsilon, one, half) = (sketch.number(1e-5), sketch.number(1.0), sketch.number(-0.5));
        let square = match written {
            Written::Divided => sketch.binary(BinaryKind::Mul, x, x),
            _ => {
                let exponent = sketch.number(if written == Written::Cubes { 3.0 } else { 2.0 });
                sketch.binary(BinaryKind::Pow, x, exponent)
            }
        };
        let mean = sketch.mean(square);
        let sum = sketch.binary(BinaryKind::Add, epsilon, mean);
        if written == Written::Power {
            let power = sketch.binary(BinaryKind::Pow, sum, half);
            return sketch.binary(BinaryKind::Mul, x, power);
        }
        let root = sketch.unary(UnaryKind::Sqrt, sum);
        match written {
            Written::Reciprocal => {
                let inverse = sketch.unary(UnaryKind::Reciprocal, root);
                sketch.binary(BinaryKind::Mul, inverse, x)
            }
            Written::Quotient => {
                let inverse = sketch.binary(BinaryKind::Div, one, root);
                sketch.binary(BinaryKind::Mul, x, inverse)
            }
            _ => sketch.binary(BinaryKind::Div, x, root),
        }
    }

    #[test]
    fn rms_normalization_is_recognised() {
        for written in [Written::Divided, Written::Reciprocal, Written::Quotient, Written::Power] {
            assert_eq!(left(|sketch, x| vec![by_root_mean_square(sketch, x, written)]), ["rmsNormalization"], "{written:?}");
            let scaled = left(|sketch, x| {
                let found = by_root_mean_square(sketch, x, written);
                let scale = line(sketch);
                vec![sketch.binary(BinaryKind::Mul, scale, found)]
            });
            assert_eq!(scaled, ["rmsNormalization"], "{written:?}");
        }
        assert_eq!(left(|sketch, x| vec![by_root_mean_square(sketch, x, Written::Cubes)]).len(), 5);
    }
}
