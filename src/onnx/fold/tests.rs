//! Whether what is computed at import is what the graph computes when it runs: nodes of integers, with all of their inputs
//! known, and with all of them fed.

use crate::onnx::element::ElementType::{self, *};
use crate::onnx::protobuf::AttributeProto;
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;

const INTEGERS: [ElementType; 6] = [Int8, Uint8, Int32, Uint32, Int64, Uint64];

/// Numbers at the ends of a type's range, and between.
fn ends(element: ElementType) -> Vec<i128> {
    let (low, high) = element.range();
    let all = [low, low + 1, low / 2, -7, -3, -2, -1, 0, 1, 2, 3, 7, 63, 64, 100, high / 2, high / 2 + 1, high - 1, high];
    let mut numbers: Vec<i128> = all.into_iter().filter(|number| (low..=high).contains(number)).collect();
    numbers.dedup();
    numbers
}

/// Each number of the first list with each of the second.
fn pairs(a: ElementType, b: ElementType) -> [Tensor; 2] {
    let (firsts, seconds) = (ends(a), ends(b));
    let of = |element, numbers: Vec<i128>| Tensor::from_wholes(element, vec![numbers.len()], &numbers);
    let repeated = firsts.iter().flat_map(|&first| vec![first; seconds.len()]).collect();
    [of(a, repeated), of(b, seconds.repeat(firsts.len()))]
}

/// A node's inputs, of which the first `fed` are fed and the others known; nothing where it is refused.
fn outcome(opset: i64, operator: &str, inputs: &[Tensor], fed: usize, attributes: &[AttributeProto]) -> Option<Tensor> {
    let names = ["a", "b", "c"];
    let mut model = sketch(opset);
    for (i, input) in inputs.iter().enumerate() {
        let shape: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
        model = if i < fed { model.input(names[i], number_of(input.element), &shape) } else { model.tensor(names[i], input) };
    }
    let model = model.node(operator, &names[..inputs.len()], &["y"], attributes.to_vec()).output("y");
    Some(run(&model.import().ok()?, &inputs[..fed]).remove(0))
}

#[derive(Default)]
struct Comparison {
    wrong: String,
    compared: usize,
}

impl Comparison {
    /// With the first `fed` inputs fed and with none.
    fn compare(&mut self, opset: i64, operator: &str, inputs: &[Tensor], fed: usize, attributes: &[AttributeProto]) {
        let (known, computed) =
            (outcome(opset, operator, inputs, 0, attributes), outcome(opset, operator, inputs, fed, attributes));
        self.compared += usize::from(computed.is_some());
        let Some(place) = difference(&known, &computed) else { return };
        let at = |tensor: &Tensor| tensor.wholes().get(place).copied();
        let inputs: Vec<String> = inputs.iter().map(|input| format!("{}: {:?}", input.element, at(input))).collect();
        let [known, computed] =
            [known, computed].map(|tensor| tensor.map(|tensor| format!("{}: {:?}", tensor.element, at(&tensor))));
        self.wrong += &format!("{operator}({inputs:?}) is {known:?} where it is known, and {computed:?} computed\n");
    }

    #[track_caller]
    fn finish(self, least: usize) {
        assert!(self.wrong.is_empty(), "{}", self.wrong);
        assert!(self.compared >= least, "only {} of these are accepted", self.compared);
    }
}

fn difference(known: &Option<Tensor>, computed: &Option<Tensor>) -> Option<usize> {
    let (Some(known), Some(computed)) = (known, computed) else { return (known.is_some() != computed.is_some()).then_some(0) };
    if (known.element, &known.shape) != (computed.element, &computed.shape) {
        return Some(0);
    }
    let width = known.element.bits() / 8;
    known.bytes.chunks(width).zip(computed.bytes.chunks(width)).position(|(a, b)| a != b)
}

#[test]
fn arithmetic_of_integers() {
    let mut comparison = Comparison::default();
    for element in INTEGERS {
        let both = pairs(element, element);
        for operator in ["Add", "Sub", "Mul", "Div", "Min", "Max", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"] {
            comparison.compare(18, operator, &both, 2, &[]);
        }
        for operator in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"] {
            comparison.compare(18, operator, &both, 2, &[]);
        }
        for flag in [0, 1] {
            comparison.compare(18, "Mod", &both, 2, &[int("fmod", flag)]);
        }
        for direction in ["LEFT", "RIGHT"] {
            comparison.compare(18, "BitShift", &both, 2, &[text("direction", direction)]);
        }
        for exponent in INTEGERS {
            comparison.compare(18, "Pow", &pairs(element, exponent), 2, &[]);
        }
        let numbers = &both[1..];
        for operator in ["Abs", "Sign", "BitwiseNot", "Identity"] {
            comparison.compare(18, operator, numbers, 1, &[]);
        }
        // ONNX has it of signed numbers.
        if element.range().0 < 0 {
            comparison.compare(18, "Neg", numbers, 1, &[]);
        }
        let three = [both[0].clone(), both[1].clone(), Tensor::from_wholes(element, vec![1], &[element.range().1])];
        for operator in ["Min", "Max", "Sum"] {
            comparison.compare(18, operator, &three, 3, &[]);
        }
        let bound = |number: i128| Tensor::from_wholes(element, vec![], &[number]);
        let (low, high) = element.range();
        for bounds in [(low, high), (1, 3), (high - 1, high), (high, high - 1), (low + 1, low), (low / 2, high / 2)] {
            comparison.compare(18, "Clip", &[both[0].clone(), bound(bounds.0), bound(bounds.1)], 3, &[]);
            // Bounds that are known of numbers that are not.
            comparison.compare(18, "Clip", &[both[0].clone(), bound(bounds.0), bound(bounds.1)], 1, &[]);
        }
    }
    comparison.finish(246);
}

#[test]
fn logic_and_choices() {
    let mut comparison = Comparison::default();
    let truths = |numbers: &[i64]| Tensor::from_integers(Bool, vec![numbers.len()], numbers);
    let both = [truths(&[0, 0, 1, 1]), truths(&[0, 1, 0, 1])];
    for operator in ["And", "Or", "Xor", "Equal"] {
        comparison.compare(18, operator, &both, 2, &[]);
    }
    comparison.compare(18, "Not", &both[1..], 1, &[]);
    for element in INTEGERS {
        let [a, b] = pairs(element, element);
        let condition = truths(&(0..a.count() as i64).map(|i| i % 3 % 2).collect::<Vec<_>>());
        comparison.compare(18, "Where", &[condition, a, b], 3, &[]);
    }
    comparison.finish(11);
}

#[test]
fn reductions_of_integers() {
    let mut comparison = Comparison::default();
    for element in INTEGERS {
        let [a, _] = pairs(element, element);
        let count = ends(element).len();
        let matrix = a.reshaped(vec![count, count]);
        let odd = Tensor::from_wholes(element, vec![1, count], &ends(element));
        // ONNX has the others of 32 bits and more.
        let operators = ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean", "ReduceSumSquare", "ReduceL1"];
        for operator in if element.bits() == 8 { &operators[..2] } else { &operators[..] } {
            for axis in [0, 1] {
                for input in [&matrix, &odd] {
                    let axes = Tensor::int64s(&[axis]);
                    comparison.compare(18, operator, &[input.clone(), axes], 1, &[int("keepdims", axis)]);
                }
            }
        }
        comparison.compare(18, "CumSum", &[odd, Tensor::int64s(&[1])], 1, &[]);
    }
    comparison.finish(100);
}

#[test]
fn conversions() {
    let mut comparison = Comparison::default();
    let targets = [Float, Float16, Bool];
    for element in INTEGERS {
        // Beside the ends, halves between floats of both sizes.
        let (low, high) = element.range();
        let halves = [24, 25, 53, 54].into_iter().flat_map(|bit| [(1i128 << bit) + 1, (1 << bit) + (1 << (bit - 24)) + 1]);
        let steps = [2049, 2051, 65519, 65520, 65521, (1 << 62) + (1 << 38) + 1];
        let numbers = ends(element).into_iter().chain(halves).chain(steps);
        let numbers: Vec<i128> = numbers.flat_map(|x| [x, -x]).filter(|x| (low..=high).contains(x)).collect();
        let tensor = Tensor::from_wholes(element, vec![numbers.len()], &numbers);
        for target in INTEGERS.into_iter().chain(targets) {
            comparison.compare(18, "Cast", std::slice::from_ref(&tensor), 1, &[int("to", number_of(target).into())]);
        }
    }
    let floats =
        [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.5, 127.9, 128.0, -128.9, -129.0, 255.9, 256.0, 65504.0, 65519.9, 65520.0];
    let large =
        [31, 32, 63, 64, 100].into_iter().flat_map(|bit| [2f64.powi(bit), -2f64.powi(bit), 2f64.powi(bit) - 2f64.powi(bit - 24)]);
    let others = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let numbers: Vec<f64> = floats.into_iter().chain(large).chain(others).collect();
    for element in [Float, Float16] {
        let tensor = Tensor::from_floats(element, vec![numbers.len()], &numbers);
        for target in INTEGERS.into_iter().chain(targets) {
            comparison.compare(18, "Cast", std::slice::from_ref(&tensor), 1, &[int("to", number_of(target).into())]);
        }
    }
    comparison.finish(72);
}
