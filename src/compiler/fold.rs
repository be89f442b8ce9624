//! Constant folding: a node all of whose operands are constants is computed once, here.

use super::budget::Budget;
use super::capabilities::Capabilities;
use super::compilation::Compilation;
use super::operators::renames;
use super::quantized::Integers;
use super::work;
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Graph, Node, Op, OperandId, Shared, Source};
use crate::memory::seed;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// Results of so many bytes, or made from so many, are worth being shared by the graphs of a model: tables of dequantized words, filters.
const SHARED: usize = 1 << 10;
/// So many computations may wait for each other at most: they are done one within the other.
const DEPTH: usize = 16;

/// Turns the outputs of constant nodes into constants. The nodes stay, needed by nobody. Weights that only products of
/// integers use are not dequantized.
///
/// What is decided comes first, for it needs no elements; then results that another graph of the model has computed are taken from
/// there. What is left is computed, of a model with several graphs when somebody looks at it: mostly nobody does, since kernels have
/// it packed for another graph.
pub fn fold(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let weights = weights(graph, compilation)?;
    let held = Integers::find(graph, compilation)?.is_inside;
    let mut keys = Keys::of(graph);
    let mut folded = Vec::new();
    let mut is_folded = vec![false; graph.nodes.len()];
    for (position, held) in compilation.each(0..graph.nodes.len()).zip(held) {
        let position = position?;
        let node = &graph.nodes[position];
        let is_done = node.outputs.iter().all(|&id| graph.is_constant(id));
        if held || is_done || !keys.are_known(&node.op) {
            continue;
        }
        let is_view = renames(&node.op) || taken_rows(graph, &node.op).is_some();
        if !is_view && !fits(graph, position, &weights, &compilation.budget) {
            continue;
        }
        keys.add(graph, position);
        is_folded[position] = true;
        folded.push(position);
    }
    // What others than folded nodes need, and what that is made from, unless it is there already.
    let mut needed = vec![false; graph.operands.len()];
    graph.outputs.iter().for_each(|(_, id)| needed[id.0 as usize] = true);
    for (node, _) in graph.nodes.iter().zip(&is_folded).filter(|(_, is_folded)| !**is_folded) {
        if !node.outputs.iter().all(|&id| graph.is_constant(id)) {
            node.op.visit(&mut |_, id| needed[id.0 as usize] = true);
        }
    }
    for &position in folded.iter().rev() {
        let (op, outputs) = (graph.nodes[position].op.clone(), graph.nodes[position].outputs.clone());
        if !outputs.iter().any(|id| needed[id.0 as usize]) {
            continue;
        }
        let there: Option<Vec<ConstantBytes>> = outputs.iter().map(|&id| keys.computed(graph, id)).collect();
        match there {
            Some(there) => {
                for (&id, bytes) in outputs.iter().zip(there) {
                    graph.operands[id.0 as usize].source = Source::Constant(bytes);
                }
            }
            None => op.visit(&mut |_, id| needed[id.0 as usize] = true),
        }
    }
    for position in compilation.each(folded) {
        let node = &graph.nodes[position?];
        let (outputs, is_needed) = (node.outputs.clone(), node.outputs.iter().any(|id| needed[id.0 as usize]));
        if !is_needed || outputs.iter().all(|&id| graph.is_constant(id)) {
            continue;
        }
        let known: Option<Vec<u128>> = outputs.iter().map(|id| keys.computed[id.0 as usize]).collect();
        for (id, bytes) in outputs.into_iter().zip(compute(graph, node, known, compilation)?) {
            graph.operands[id.0 as usize].source = Source::Constant(bytes);
        }
    }
    Ok(())
}

/// What tells values that follow from constants from each other, by operand, where the graphs of a model are to share them.
struct Keys {
    is_known: Vec<bool>,
    /// Of what is computed; nothing for constants, which are asked for what they are when that is wanted.
    computed: Vec<Option<u128>>,
    is_shared: bool,
}

impl Keys {
    fn of(graph: &Graph) -> Keys {
        let is_known = (0..graph.operands.len()).map(|id| graph.is_constant(OperandId(id as u32))).collect();
        Keys { is_known, computed: vec![None; graph.operands.len()], is_shared: graph.shared.is_of_several() }
    }

    /// Whether all operands follow from constants.
    fn are_known(&self, op: &Op) -> bool {
        let mut are_known = true;
        op.visit(&mut |_, id| are_known &= self.is_known[id.0 as usize]);
        are_known
    }

    /// The results of a node follow from constants, too.
    fn add(&mut self, graph: &Graph, position: usize) {
        let node = &graph.nodes[position];
        node.outputs.iter().for_each(|id| self.is_known[id.0 as usize] = true);
        if !self.is_shared {
            return;
        }
        let mut op = node.op.clone();
        let operands = number_operands(&mut op);
        let key = |id: &OperandId| {
            let known = || match &graph.operands[id.0 as usize].source {
                Source::Constant(bytes) => Some(bytes.identity()),
                _ => None,
            };
            Some((graph.descriptor(*id), self.computed[id.0 as usize].or_else(known)?))
        };
        let Some(operand_keys) = operands.iter().map(key).collect::<Option<Vec<_>>>() else { return };
        for (id, key) in node.outputs.iter().zip(keys_of(&op, &operand_keys)) {
            self.computed[id.0 as usize] = Some(key);
        }
    }

    fn computed(&self, graph: &Graph, id: OperandId) -> Option<ConstantBytes> {
        graph.shared.computed(self.computed[id.0 as usize]?)
    }
}

/// Of the outputs of an operator, whose operands are numbered by their position.
fn keys_of(op: &Op, operands: &[(&Descriptor, u128)]) -> impl Iterator<Item = u128> {
    let mut hash = Xxh3::with_seed(seed());
    hash.update(format!("{op:?}").as_bytes());
    for (descriptor, key) in operands {
        hash.update(format!("{descriptor:?}").as_bytes());
        hash.update(&key.to_le_bytes());
    }
    (0usize..).map(move |number| {
        hash.update(&number.to_le_bytes());
        hash.digest128()
    })
}

/// What an operator makes of constants, for a pass that has decided on it. Graphs of a model share it, and compute it when it is looked at.
///
/// # Errors
/// As [`Capabilities::evaluate`].
pub fn results_of(
    shared: &Shared,
    capabilities: &dyn Capabilities,
    op: Op,
    operands: &[(&Descriptor, &ConstantBytes)],
    outputs: &[&Descriptor],
) -> Result<Vec<ConstantBytes>> {
    let known = shared.is_of_several().then(|| {
        let operand_keys: Vec<_> = operands.iter().map(|(descriptor, bytes)| (*descriptor, bytes.briefly().identity())).collect();
        keys_of(&op, &operand_keys).take(outputs.len()).collect::<Vec<_>>()
    });
    if let Some(there) = known.iter().flatten().map(|&key| shared.computed(key)).collect::<Option<Vec<_>>>()
        && there.len() == outputs.len()
    {
        return Ok(there);
    }
    evaluated(shared, capabilities, op, operands, outputs, known)
}

/// The same of constants that nobody has, with the keys of the outputs where graphs are to share them.
fn evaluated(
    shared: &Shared,
    capabilities: &dyn Capabilities,
    op: Op,
    operands: &[(&Descriptor, &ConstantBytes)],
    outputs: &[&Descriptor],
    keys: Option<Vec<u128>>,
) -> Result<Vec<ConstantBytes>> {
    let lengths = operands.iter().map(|(_, bytes)| bytes.len()).chain(outputs.iter().map(|output| output.byte_length()));
    let now = |capabilities: &dyn Capabilities, operands: &[(&Descriptor, &ConstantBytes)]| {
        let brief: Vec<ConstantBytes> = operands.iter().map(|(_, bytes)| bytes.briefly()).collect();
        let operands: Vec<_> =
            operands.iter().zip(&brief).map(|((descriptor, _), bytes)| (*descriptor, bytes.as_slice())).collect();
        capabilities.evaluate(&op, &operands, outputs)
    };
    let Some(keys) = keys.filter(|_| lengths.max() >= Some(SHARED)) else { return now(capabilities, operands) };
    let depth = operands.iter().map(|(_, bytes)| bytes.depth()).max().unwrap_or(0);
    let results = match capabilities.later().filter(|_| depth < DEPTH) {
        None => now(capabilities, operands)?,
        Some(later) => {
            let named = keys.iter().zip(outputs).map(|(&key, output)| (key, output.byte_length(), shared.facts(key)));
            let outputs: Vec<Descriptor> = outputs.iter().map(|&output| output.clone()).collect();
            let own = |(descriptor, bytes): &(&Descriptor, &ConstantBytes)| ((*descriptor).clone(), bytes.briefly());
            let operands: Vec<_> = operands.iter().map(own).collect();
            let op = op.clone();
            ConstantBytes::later(named.collect::<Vec<_>>(), depth, move || {
                let operands: Vec<_> = operands.iter().map(|(descriptor, bytes)| (descriptor, bytes.as_slice())).collect();
                later.evaluate(&op, &operands, &outputs.iter().collect::<Vec<_>>())
            })
        }
    };
    keys.iter().zip(&results).for_each(|(&key, bytes)| shared.has_computed(key, bytes));
    Ok(results)
}

/// Takes the results of a node from the budget, if it has that much.
fn fits(graph: &Graph, position: usize, weights: &[bool], budget: &Budget) -> bool {
    let node = &graph.nodes[position];
    let mut op = node.op.clone();
    let operands = number_operands(&mut op);
    let bytes = |ids: &[OperandId]| ids.iter().map(|&id| graph.descriptor(id).byte_length()).fold(0, usize::saturating_add);
    let is_weight = node.outputs.iter().any(|id| weights[id.0 as usize]);
    let shapes = |ids: &[OperandId]| ids.iter().map(|&id| sizes(graph.descriptor(id))).collect::<Vec<_>>();
    let (of_inputs, of_outputs) = (shapes(&operands), shapes(&node.outputs));
    let [of_inputs, of_outputs] =
        [&of_inputs, &of_outputs].map(|shapes| shapes.iter().map(Vec::as_slice).collect::<Vec<&[usize]>>());
    let operations = work::operations(&op, &of_inputs, &of_outputs);
    budget.take_operations(operations) && budget.take_bytes(bytes(&node.outputs), bytes(&operands), is_weight)
}

/// The results of a node whose operands are constants, with their keys.
fn compute(graph: &Graph, node: &Node, keys: Option<Vec<u128>>, compilation: &Compilation<'_>) -> Result<Vec<ConstantBytes>> {
    let mut op = node.op.clone();
    let constant = |id: &OperandId| match &graph.operands[id.0 as usize].source {
        Source::Constant(bytes) => bytes,
        _ => unreachable!("what a needed result is made from was computed before"),
    };
    let operands = number_operands(&mut op);
    if let Op::CheckIndices(check) = &node.op {
        let (descriptor, bytes) = (graph.descriptor(check.indices), constant(&operands[0]));
        if let Some(outside) = check.outside_in(descriptor.data_type, bytes.as_slice()) {
            return Err(outside.error(&node.label, &sizes(descriptor), check.from_end));
        }
    }
    if renames(&node.op) {
        return Ok(vec![constant(&operands[0]).clone()]);
    }
    if let Some(range) = taken_rows(graph, &node.op) {
        // The first rows of a table of positions, say: nothing is made.
        return Ok(vec![constant(&operands[0]).part(range)]);
    }
    let inputs: Vec<_> = operands.iter().map(|id| (graph.descriptor(*id), constant(id))).collect();
    let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.descriptor(id)).collect();
    let results = evaluated(&graph.shared, compilation.capabilities, op, &inputs, &outputs, keys);
    results.map_err(|error| error.of(node.op.row().name, &node.label))
}

/// The bytes of its input that a slice takes, if these lie one after the other.
fn taken_rows(graph: &Graph, op: &Op) -> Option<Range<usize>> {
    let Op::Slice(slice) = op else { return None };
    let input = graph.descriptor(slice.input);
    range_of_slice(op, &sizes(input), input)
}

/// Which bytes of its input a slice takes, if these lie one after the other.
fn range_of_slice(op: &Op, shape: &[usize], descriptor: &Descriptor) -> Option<Range<usize>> {
    let Op::Slice(slice) = op else { return None };
    let bits = descriptor.data_type.bits();
    let is_dense = slice.strides.as_ref().is_none_or(|strides| strides.iter().all(|&stride| stride == 1));
    if !is_dense || !bits.is_multiple_of(8) {
        return None;
    }
    let taken: Vec<usize> = slice.sizes.iter().map(|&size| size as usize).collect();
    // After the first dimension of which there is more than one, all is taken.
    let first = taken.iter().position(|&size| size > 1).unwrap_or(taken.len());
    if (first + 1..taken.len()).any(|axis| taken[axis] != shape[axis]) {
        return None;
    }
    let distances = crate::graph::shape::strides(shape);
    let start: usize = slice.starts.iter().zip(&distances).map(|(&start, distance)| start as usize * distance).sum();
    let count: usize = taken.iter().product();
    Some(start * bits / 8..(start + count) * bits / 8)
}

fn sizes(descriptor: &Descriptor) -> Vec<usize> {
    descriptor.shape.iter().map(|&size| size as usize).collect()
}

/// By operand: whether it is what a convolution, a product or a recurrent network multiplies with, or goes into that.
fn weights(graph: &Graph, compilation: &Compilation<'_>) -> Result<Vec<bool>> {
    let mut weights = vec![false; graph.operands.len()];
    for node in compilation.each(graph.nodes.iter().rev()) {
        let node = node?;
        let goes_on = node.outputs.iter().any(|id| weights[id.0 as usize]);
        let mut mark = |id: OperandId| weights[id.0 as usize] = true;
        match &node.op {
            _ if goes_on => node.op.visit(&mut |_, id| mark(id)),
            Op::Conv2d(op) => mark(op.filter),
            Op::ConvTranspose2d(op) => mark(op.filter),
            Op::Matmul(op) => [op.a, op.b].into_iter().for_each(mark),
            Op::Gemm(op) => [op.a, op.b].into_iter().for_each(mark),
            Op::QuantizedMatmul(op) => [op.a, op.b].into_iter().for_each(mark),
            Op::Lstm(op) => [op.weight, op.recurrent_weight].into_iter().for_each(mark),
            Op::QuantizedLstm(op) => mark(op.recurrent_weight),
            Op::Gru(op) => [op.weight, op.recurrent_weight].into_iter().for_each(mark),
            _ => {}
        }
    }
    Ok(weights)
}

/// Renumbers the operands of a node to their positions among them, and returns what they were.
pub fn number_operands(op: &mut Op) -> Vec<OperandId> {
    let mut operands = Vec::new();
    op.visit_mut(&mut |id| {
        operands.push(*id);
        *id = OperandId(operands.len() as u32 - 1);
    });
    operands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::budget::{FOR_EACH_BYTE, GROWTH, MOST, OPERATIONS};
    use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::movement::{Concat, Expand, Reshape, Slice};
    use crate::graph::{DataType, GraphBuilder, Limits, Number};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Everything is zeros.
    struct Zeros;

    impl Capabilities for Zeros {
        fn evaluate(&self, _: &Op, _: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            Ok(outputs.iter().map(|output| ConstantBytes::new(vec![0; output.byte_length()])).collect())
        }
    }

    fn fold_all(graph: &mut Graph) {
        fold(graph, &Compilation::new(&Zeros).with(Budget::beside(graph, usize::MAX))).unwrap();
    }

    /// Zeros, and how many nodes were computed.
    #[derive(Default)]
    struct Counts(Cell<usize>);

    impl Capabilities for Counts {
        fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            self.0.set(self.0.get() + 1);
            Zeros.evaluate(op, operands, outputs)
        }
    }

    /// Dequantized as exporters write it: what is cast is nobody's once it is multiplied.
    #[test]
    fn graphs_of_a_model_share_what_is_computed() {
        let words = ConstantBytes::new(vec![1u8; SHARED]);
        let shared = Shared::default();
        shared.expects_several();
        shared.keep(words.place());
        let counts = Counts::default();
        let folded = |factor: f64, shared: &Shared| {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let table = builder.constant(Descriptor::new(DataType::Int8, [SHARED as u32 / 64, 64]), words.clone()).unwrap();
            let input = builder.push_op(Cast { input: table, data_type: DataType::Float32 }, "").unwrap()[0];
            let scale = builder.scalar(DataType::Float32, Number::Double(factor)).unwrap();
            let scale = builder.push_op(Reshape { input: scale, new_shape: vec![1, 1] }, "").unwrap()[0];
            let results = builder.push_op(Binary { kind: BinaryKind::Mul, a: input, b: scale }, "").unwrap()[0];
            let x = builder.input("x", Descriptor::new(DataType::Float32, [1])).unwrap();
            let output = builder.push_op(Binary { kind: BinaryKind::Add, a: results, b: x }, "").unwrap()[0];
            let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
            graph.shared = shared.clone();
            let before = counts.0.get();
            let compilation = Compilation::new(&counts).with(Budget::beside(&graph, usize::MAX));
            fold(&mut graph, &compilation).unwrap();
            match &graph.operands[results.0 as usize].source {
                Source::Constant(bytes) => (bytes.clone(), counts.0.get() - before),
                other => panic!("{other:?}"),
            }
        };
        let (first, computed) = folded(0.5, &shared);
        assert_eq!(computed, 2);
        let (second, computed) = folded(0.5, &shared);
        assert_eq!(computed, 0);
        assert_eq!(first.as_slice().as_ptr(), second.as_slice().as_ptr());
        // Another number, and another model.
        let (_other, computed) = folded(0.25, &shared);
        assert_eq!(computed, 2);
        assert_eq!(folded(0.5, &Shared::default()).1, 2);
        // When no graph has it any more it is gone.
        drop((first, second));
        assert_eq!(folded(0.5, &shared).1, 2);
    }

    /// A slice of rows is a part of its constant, wherever it begins; what lies apart is computed.
    #[test]
    fn rows_of_a_constant_are_a_part_of_it() {
        let bytes: Vec<u8> = (0..96).collect();
        let folded = |starts: &[u32], sizes: &[u32], strides: Option<Vec<u32>>| {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let table = ConstantBytes::new(bytes.clone());
            let input = builder.constant(Descriptor::new(DataType::Float32, [2, 3, 4]), table).unwrap();
            let slice = Slice { input, starts: starts.to_vec(), sizes: sizes.to_vec(), strides };
            let output = builder.push_op(slice, "").unwrap()[0];
            let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
            fold_all(&mut graph);
            let (_, id) = &graph.outputs[0];
            match &graph.operands[id.0 as usize].source {
                Source::Constant(bytes) => bytes.as_slice().to_vec(),
                _ => panic!("not folded"),
            }
        };
        assert_eq!(folded(&[1, 1, 0], &[1, 2, 4], None), bytes[64..96]);
        assert_eq!(folded(&[1, 2, 1], &[1, 1, 2], Some(vec![1, 1, 1])), bytes[84..92]);
        assert_eq!(folded(&[0, 0, 0], &[2, 3, 4], None), bytes);
        // Zeros are what the evaluator makes.
        assert_eq!(folded(&[0, 1, 0], &[2, 2, 4], None), [0; 64]);
        assert_eq!(folded(&[0, 0, 0], &[1, 1, 2], Some(vec![1, 1, 2])), [0; 4]);
    }

    /// Whether a number that is repeated so often becomes a constant that a vector is multiplied with.
    fn becomes_weights(count: u32) -> bool {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let vector = builder.input("x", Descriptor::new(DataType::Float32, [1, 4])).unwrap();
        let number = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let repeated = builder.push_op(Expand { input: number, new_shape: vec![count] }, "").unwrap()[0];
        let b = builder.push_op(Reshape { input: repeated, new_shape: vec![4, count / 4] }, "").unwrap()[0];
        let output = builder.push_op(Matmul { a: vector, b }, "").unwrap()[0];
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold_all(&mut graph);
        matches!(graph.operands[b.0 as usize].source, Source::Constant(_))
    }

    #[test]
    fn weights_may_be_large() {
        assert!(becomes_weights(1 << 20));
        assert!(!becomes_weights(1 << 29));
    }

    /// Whether a number that is repeated so often becomes a constant.
    fn folds(count: u32) -> bool {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let input = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let output = builder.push_op(Expand { input, new_shape: vec![count] }, "").unwrap()[0];
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold_all(&mut graph);
        matches!(graph.operands[graph.outputs[0].1.0 as usize].source, Source::Constant(_))
    }

    #[test]
    fn little_does_not_become_a_lot() {
        assert!(folds(1 << 10));
        assert!(!folds(1 << 29));
    }

    /// The nodes of a graph that become constants: how many, and the bytes of all.
    fn folded(builder: &mut GraphBuilder, output: OperandId) -> (usize, usize) {
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold_all(&mut graph);
        let results = graph.nodes.iter().map(|node| node.outputs[0]).filter(|&id| graph.is_constant(id));
        let bytes: Vec<usize> = results.map(|id| graph.descriptor(id).byte_length()).collect();
        (bytes.len(), bytes.iter().sum())
    }

    #[test]
    fn a_chain_that_doubles_does_not_become_a_lot() {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let mut value = builder.constant(Descriptor::new(DataType::Float32, [1]), ConstantBytes::new(vec![0; 4])).unwrap();
        for _ in 0..29 {
            value = builder.push_op(Concat { inputs: vec![value, value], axis: 0 }, "").unwrap()[0];
        }
        let (count, bytes) = folded(&mut builder, value);
        assert!(count > 20 && bytes <= MOST + 4 * GROWTH, "{count} nodes, {bytes} bytes");
        // Many that are small come to as much.
        let number = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let parts: Vec<OperandId> =
            (0..1000).map(|_| builder.push_op(Expand { input: number, new_shape: vec![1 << 18] }, "").unwrap()[0]).collect();
        let output = builder.push_op(Concat { inputs: parts, axis: 0 }, "").unwrap()[0];
        let (count, bytes) = folded(&mut builder, output);
        assert!(count >= 60 && bytes <= MOST + 4 * GROWTH, "{count} nodes, {bytes} bytes");
    }

    #[test]
    fn a_chain_of_products_does_not_take_for_ever() {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let matrix = Descriptor::new(DataType::Float32, [512, 512]);
        let matrix = builder.constant(matrix, ConstantBytes::new(vec![0; 4 << 18])).unwrap();
        let product = (0..1000).fold(matrix, |a, _| builder.push_op(Matmul { a, b: matrix }, "").unwrap()[0]);
        let (count, _) = folded(&mut builder, product);
        let most = (OPERATIONS + FOR_EACH_BYTE * (4 << 18)) >> 27;
        assert!((10..=most).contains(&count), "{count} of {most}");
    }
}
