//! Random graphs of many operators: what the compiler makes of them must compute what the graph says.
//!
//! Only operators whose results are the same bits on every device take part, so that any two runners can be compared. Each
//! operand of a drawn call is replaced by an earlier value of the graph, which operators that only convert and move elements
//! bring to its type and shape.

use crate::draw;
use crate::random::Random;
use crate::tensor::Tensor;
use crate::{FLUSHING, guarded, number, runners, seed, takes_part, tensor_of};
use std::sync::Arc;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::operator::Operator;
use webnn_node::graph::ops::operator;
use webnn_node::graph::{ConstantBytes, DataType, Graph, GraphBuilder, Limits, OperandId};

const OPERATORS: [&str; 49] = [
    "abs",
    "add",
    "argMax",
    "argMin",
    "cast",
    "ceil",
    "clamp",
    "concat",
    "div",
    "equal",
    "expand",
    "floor",
    "flooredRemainder",
    "gather",
    "gatherElements",
    "gatherND",
    "greater",
    "greaterOrEqual",
    "identity",
    "isInfinite",
    "isNaN",
    "lesser",
    "lesserOrEqual",
    "logicalAnd",
    "logicalNot",
    "logicalOr",
    "logicalXor",
    "max",
    "maxPool2d",
    "min",
    "mul",
    "neg",
    "notEqual",
    "pad",
    "reduceMax",
    "reduceMin",
    "relu",
    "replaceNaN",
    "reshape",
    "reverse",
    "roundEven",
    "sign",
    "slice",
    "split",
    "sub",
    "tile",
    "transpose",
    "truncatedRemainder",
    "where",
];

/// How many graphs are drawn in a round.
const GRAPHS: usize = 60;

struct Chain {
    builder: GraphBuilder,
    /// The contents of the inputs, in order.
    inputs: Vec<Tensor>,
    /// Operands that later operators may use.
    values: Vec<OperandId>,
    calls: Vec<String>,
}

impl Chain {
    fn apply(&mut self, row: &'static Operator, values: Vec<Value>) -> Vec<OperandId> {
        let outputs = self.builder.apply(row, values, "").unwrap_or_else(|error| panic!("{error}")).to_vec();
        let operands = self.builder.operands();
        let outputs_in_words: Vec<String> = outputs.iter().map(|id| format!("{}:{}", id.0, operands.descriptor(*id))).collect();
        self.calls.push(format!("{} = {}", outputs_in_words.join(", "), row.name));
        outputs
    }

    fn one(&mut self, name: &str, values: Vec<Value>) -> OperandId {
        self.apply(operator(name).expect("the table has it"), values)[0]
    }

    /// A new input or constant.
    fn leaf(&mut self, tensor: &Tensor, is_constant: bool) -> OperandId {
        let descriptor = tensor.descriptor();
        let id = match is_constant {
            true => self.builder.constant(descriptor, ConstantBytes::new(tensor.bytes())),
            false => {
                self.inputs.push(tensor.clone());
                self.builder.input(&format!("{}", self.inputs.len() - 1), descriptor)
            }
        };
        id.expect("it can be made")
    }

    /// Some earlier value, converted and moved until it has a type and a shape.
    fn fitted(&mut self, random: &mut Random, to: &Tensor) -> OperandId {
        if random.once_in(4) {
            return self.expanded(random, to);
        }
        let mut id = random.pick(&self.values);
        let operands = self.builder.operands();
        let matches = |id: &&OperandId| *operands.descriptor(**id) == to.descriptor();
        if let Some(same) = self.values.iter().rev().find(matches) {
            return *same;
        }
        if operands.data_type(id) != to.data_type {
            id = self.one("cast", vec![Value::Operand(id), Value::Enumeration(to.data_type as u32)]);
        }
        let flat = |count: usize| Value::UnsignedList(vec![count as u32]);
        let (mut have, want) = (self.builder.operands().descriptor(id).element_count(), to.elements.len());
        if have != want {
            id = self.one("reshape", vec![Value::Operand(id), flat(have)]);
            if have < want {
                id = self.one("tile", vec![Value::Operand(id), flat(want.div_ceil(have))]);
                have *= want.div_ceil(have);
            }
            if have > want {
                let start = random.below(have - want + 1);
                id = self.one("slice", vec![Value::Operand(id), flat(start), flat(want)]);
            }
        }
        let shape = to.shape.iter().map(|&size| size as u32).collect();
        self.one("reshape", vec![Value::Operand(id), Value::UnsignedList(shape)])
    }

    /// A value of which some dimensions are stretched, and some not there before.
    fn expanded(&mut self, random: &mut Random, to: &Tensor) -> OperandId {
        let rank = random.between(0, to.rank());
        let stretched = |size: &usize| if random.once_in(2) { 1 } else { *size };
        let shape: Vec<usize> = to.shape[to.rank() - rank..].iter().map(stretched).collect();
        let elements = vec![to.elements[0]; shape.iter().product()];
        let id = self.fitted(random, &Tensor { data_type: to.data_type, shape, elements });
        let shape = to.shape.iter().map(|&size| size as u32).collect();
        self.one("expand", vec![Value::Operand(id), Value::UnsignedList(shape)])
    }
}

fn draw_chain(random: &mut Random) -> (Graph, Vec<Vec<u8>>, Vec<String>) {
    let builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut chain = Chain { builder, inputs: vec![], values: vec![], calls: vec![] };
    let mut outputs = Vec::new();
    for _ in 0..random.between(1, 30) {
        let row = operator(random.pick(&OPERATORS)).expect("the table has it");
        let call = draw::call(row, random, None);
        let mut ids = Vec::new();
        for operand in &call.operands {
            let is_new = chain.values.is_empty() || random.once_in(5);
            let id =
                if is_new { chain.leaf(&operand.tensor, operand.is_constant) } else { chain.fitted(random, &operand.tensor) };
            ids.push(id);
        }
        let renamed = |value: &Value| match value {
            Value::Operand(id) => Value::Operand(ids[id.0 as usize]),
            Value::Operands(list) => Value::Operands(list.iter().map(|id| ids[id.0 as usize]).collect()),
            value => value.clone(),
        };
        let results = chain.apply(row, call.values.iter().map(renamed).collect());
        chain.values.extend(ids.into_iter().chain(results.iter().copied()));
        outputs.extend(results.into_iter().filter(|_| random.once_in(3)));
        outputs.truncate(40);
    }
    if outputs.is_empty() {
        let last = *chain.values.last().expect("there is an operator");
        outputs.push(chain.one("identity", vec![Value::Operand(last)]));
    }
    let named = outputs.iter().enumerate().map(|(number, id)| (format!("{number}"), *id)).collect();
    let graph = chain.builder.build(named).unwrap_or_else(|error| panic!("{error}"));
    let inputs = graph.inputs.iter().map(|(name, _)| chain.inputs[name.parse::<usize>().expect("a number")].bytes()).collect();
    (graph, inputs, chain.calls)
}

#[test]
fn graphs_of_many_operators_compute_the_same_on_all_runners() {
    let mut random = seed().part("chains");
    for round in 0..GRAPHS * number("WEBNN_ROUNDS", crate::ROUNDS) {
        let (graph, inputs, calls) = draw_chain(&mut random);
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let runners: Vec<_> = runners()
            .iter()
            // Quotients and subnormal numbers are not the same bits there.
            .filter(|(name, _)| takes_part(name, &graph, round) && !FLUSHING.contains(name))
            .collect();
        // One alone has nothing to be compared with.
        if runners.len() < 2 {
            continue;
        }
        let results = runners
            .iter()
            .map(|(name, runner)| {
                guarded(|| runner(&graph, &inputs)).unwrap_or_else(|message| panic!("{name} {message}:\n{}", calls.join("\n")))
            })
            .collect::<Vec<_>>();
        for (number, (name, id)) in graph.outputs.iter().enumerate() {
            let first = tensor_of(&graph, *id, &results[0][number]);
            for (other, (runner, _)) in results.iter().zip(&runners).skip(1) {
                let found = tensor_of(&graph, *id, &other[number]);
                let wrong = (0..first.elements.len()).find(|&i| !first.elements[i].is(found.elements[i]));
                if let Some(i) = wrong {
                    let (expected, found) = (first.elements[i], found.elements[i]);
                    panic!("{runner}: output {name}[{i}] is {found:?}, not {expected:?}:\n{}", calls.join("\n"));
                }
            }
        }
    }
}

#[test]
fn every_data_type_takes_part() {
    let mut random = seed().part("chains");
    let mut seen: Vec<DataType> = Vec::new();
    for _ in 0..GRAPHS {
        let (graph, ..) = draw_chain(&mut random);
        seen.extend(graph.operands.iter().map(|operand| operand.descriptor.data_type));
    }
    for data_type in webnn_node::graph::data_type::ANY.iter() {
        assert!(seen.contains(&data_type), "{data_type}");
    }
}
