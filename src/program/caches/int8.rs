//! Caches in 8 bits: the graph of a step, changed so that what it reads and appends to are bytes with scales.
//!
//! A cache becomes two: its rows as int8, and a float32 scale for each token and head, that is, for all numbers that lie along the last axis of
//! a row. Numbers of which `m` is the greatest magnitude have the scale `s = m / 127`; a number `x` of them is kept as `q = roundEven(x / s)`
//! and read as `s · q`. So it differs from `x` by at most `s / 2`, and roundings of float32. A score, which is a sum of products
//! `query · key`, differs by at most `s / 2` times the sum of the magnitudes of the query, and a weighted mean of values by at most half the
//! greatest of their scales, beside what the weights change.
//!
//! The graph reads new rows as it will read them later, in bytes. So results depend on how a prompt is divided, and on what runs together, by nothing but
//! roundings of float32: sums in another order. Such a rounding may take a number to the next `q`, which is read as a number that differs by `s`.
//!
//! What dequantizes is moved behind transpositions and reshapes to the products, where the compiler takes it into the step of attention on the CPU.

use super::refused;
use crate::error::Result;
use crate::graph::ops::elementwise::{Cast, DequantizeLinear, UnaryKind};
use crate::graph::ops::movement::{Concat, Expand, Reshape, Slice, Transpose};
use crate::graph::ops::quantized::QuantizeAlong;
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, Node, Op, Operand, OperandId, Source};
use crate::onnx::caches::{KvCache, KvCaches};
use std::collections::HashMap;

/// What the names of the scales of a cache begin with. No model has such a name.
const SCALES: &str = "\0scales of ";

fn scales_of(name: &str) -> String {
    format!("{SCALES}{name}")
}

/// The caches of the changed graph: the bytes of each, and then the scales of each.
pub fn with_scales(caches: &KvCaches) -> KvCaches {
    let scales = |cache: &KvCache| KvCache { past: scales_of(&cache.past), present: scales_of(&cache.present), axis: cache.axis };
    let rows = caches.rows.iter().cloned().chain(caches.rows.iter().map(scales)).collect();
    KvCaches { rows, states: caches.states.clone() }
}

/// Changes the graph of a step, whose caches have their rows first.
///
/// # Errors
/// `NotSupportedError` for caches of other types than float32 and float16, and where nothing is appended to one.
pub fn in_bytes(graph: Graph, caches: &[KvCache]) -> Result<Graph> {
    let find = |list: &[(String, OperandId)], name: &str| list.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
    let mut rewrite =
        Rewrite { kept: HashMap::new(), roots: HashMap::new(), transposed: HashMap::new(), zeros: HashMap::new(), graph };
    let nodes = std::mem::take(&mut rewrite.graph.nodes);
    for cache in caches {
        let past = find(&rewrite.graph.inputs, &cache.past);
        let present = find(&rewrite.graph.outputs, &cache.present);
        if let Some(id) = past.or(present) {
            let found = rewrite.graph.descriptor(id).data_type;
            if !matches!(found, DataType::Float32 | DataType::Float16) {
                let name = if past.is_some() { &cache.past } else { &cache.present };
                return Err(refused(format!(
                    "found the cache {name:?} of {found}, allowed float32 and float16 for cacheType 'int8'"
                )));
            }
        }
        match (past, present) {
            (Some(id), _) => rewrite.past(&cache.past, id)?,
            (None, Some(id)) => rewrite.root(&nodes, id),
            (None, None) => {}
        }
    }
    for node in nodes {
        rewrite.node(node)?;
    }
    for cache in caches {
        rewrite.present(&cache.present)?;
    }
    Ok(rewrite.graph)
}

/// A value that is kept in bytes.
#[derive(Clone, Copy, Debug)]
struct Quantized {
    bytes: OperandId,
    scales: OperandId,
    /// Along which numbers share a scale.
    axis: usize,
    /// Whether it is what the step reads of a cache, without what it appends.
    is_past: bool,
}

struct Rewrite {
    /// Its nodes are those that are done.
    graph: Graph,
    /// By operand, which becomes what is dequantized.
    kept: HashMap<OperandId, Quantized>,
    /// What is to be kept as soon as it is there, with the axis of the scales: the first rows of caches that have none.
    roots: HashMap<OperandId, usize>,
    /// By bytes that are a transposition: those that they are one of, with their scales, and the permutation.
    transposed: HashMap<OperandId, ([OperandId; 2], Vec<u32>)>,
    /// Zero points, by their number.
    zeros: HashMap<usize, ConstantBytes>,
}

impl Rewrite {
    fn shape(&self, id: OperandId) -> Vec<u32> {
        self.graph.descriptor(id).shape.to_vec()
    }

    fn operand(&mut self, descriptor: Descriptor, source: Source) -> OperandId {
        self.graph.operands.push(Operand { descriptor, source });
        OperandId(self.graph.operands.len() as u32 - 1)
    }

    /// Appends a node that makes these operands.
    fn append(&mut self, node: Node) {
        let number = self.graph.nodes.len() as u32;
        for (output, id) in node.outputs.iter().enumerate() {
            self.graph.operands[id.0 as usize].source = Source::Node { node: number, output: output as u32 };
        }
        self.graph.nodes.push(node);
    }

    fn push(&mut self, op: impl Into<Op>) -> Result<Vec<OperandId>> {
        let op = op.into();
        let descriptors = self.graph.infer(&op)?;
        let outputs: Vec<OperandId> =
            descriptors.into_iter().map(|descriptor| self.operand(descriptor, Source::Node { node: 0, output: 0 })).collect();
        self.append(Node { op, label: String::new(), outputs: outputs.clone() });
        Ok(outputs)
    }

    /// The input of a cache becomes one of bytes and one of scales.
    fn past(&mut self, name: &str, id: OperandId) -> Result<()> {
        let shape = self.shape(id);
        let Some(axis) = shape.len().checked_sub(1).filter(|&axis| axis > 0) else {
            return Err(refused(format!("found the cache {name:?} of rank {}, allowed one of rows", shape.len())));
        };
        let mut of_scales = shape.clone();
        of_scales[axis] = 1;
        let input = |name: String| Source::Input { name };
        let bytes = self.operand(Descriptor::new(DataType::Int8, shape), input(name.to_owned()));
        let scales = self.operand(Descriptor::new(DataType::Float32, of_scales), input(scales_of(name)));
        self.graph.inputs.retain(|(other, _)| other != name);
        self.graph.inputs.extend([(name.to_owned(), bytes), (scales_of(name), scales)]);
        self.keep(id, Quantized { bytes, scales, axis, is_past: true })
    }

    /// Finds what the first rows of a cache are made of by moving elements alone.
    fn root(&mut self, nodes: &[Node], present: OperandId) {
        let (mut id, mut axis) = (present, self.shape(present).len().saturating_sub(1));
        while let Source::Node { node, .. } = self.graph.operands[id.0 as usize].source {
            let (input, from) = match &nodes[node as usize].op {
                Op::Transpose(op) => (op.input, Some(op.source(axis, self.shape(op.input).len()))),
                Op::Reshape(op) => (op.input, followed(&self.shape(id), axis, &self.shape(op.input))),
                Op::Unary(op) if op.kind == UnaryKind::Identity => (op.input, Some(axis)),
                _ => break,
            };
            let is_result = matches!(self.graph.operands[input.0 as usize].source, Source::Node { .. });
            let Some(from) = from.filter(|_| is_result) else { break };
            (id, axis) = (input, from);
        }
        self.roots.insert(id, axis);
    }

    /// Has an operand be what is dequantized.
    fn keep(&mut self, id: OperandId, kept: Quantized) -> Result<()> {
        let descriptor = Descriptor::new(DataType::Int8, self.shape(kept.scales));
        let count = descriptor.byte_length();
        let zeros = self.zeros.entry(count).or_insert_with(|| ConstantBytes::new(vec![0; count])).clone();
        // An operand of its own, so that graphs of all sizes have the same operands.
        let zero_point = self.operand(descriptor, Source::Constant(zeros));
        let numbers = DequantizeLinear { input: kept.bytes, scale: kept.scales, zero_point };
        let op = match self.graph.descriptor(id).data_type {
            DataType::Float32 => numbers.into(),
            data_type => Op::from(Cast { input: self.push(numbers)?[0], data_type }),
        };
        self.append(Node { op, label: String::new(), outputs: vec![id] });
        self.kept.insert(id, kept);
        Ok(())
    }

    /// Quantizes a value along an axis.
    fn quantized(&mut self, mut id: OperandId, axis: usize) -> Result<Quantized> {
        if self.graph.descriptor(id).data_type != DataType::Float32 {
            id = self.push(Cast { input: id, data_type: DataType::Float32 })?[0];
        }
        let outputs = self.push(QuantizeAlong { input: id, axis: axis as u32 })?;
        Ok(Quantized { bytes: outputs[0], scales: outputs[1], axis, is_past: false })
    }

    /// Appends a node of the graph, or what takes its place.
    fn node(&mut self, mut node: Node) -> Result<()> {
        if let Some(kept) = self.moved(&node)? {
            return self.keep(node.outputs[0], kept);
        }
        let mut roots = Vec::new();
        for id in &mut node.outputs {
            if let Some(axis) = self.roots.remove(id) {
                let result = self.operand(self.graph.descriptor(*id).clone(), Source::Node { node: 0, output: 0 });
                roots.push((std::mem::replace(id, result), result, axis));
            }
        }
        self.append(node);
        for (id, result, axis) in roots {
            let kept = self.quantized(result, axis)?;
            self.keep(id, kept)?;
        }
        Ok(())
    }

    /// What a node makes of a value that is kept, if it moves elements or appends to a cache.
    fn moved(&mut self, node: &Node) -> Result<Option<Quantized>> {
        let mut first = None;
        node.op.visit(&mut |_, id| first = first.or(Some(id)));
        let Some(kept) = first.and_then(|id| self.kept.get(&id).copied()) else { return Ok(None) };
        let output = self.shape(node.outputs[0]);
        let Quantized { bytes, scales, axis, is_past } = kept;
        let of_scales = |axis: usize| output.iter().enumerate().map(|(i, &size)| if i == axis { 1 } else { size }).collect();
        Ok(match &node.op {
            Op::Unary(op) if op.kind == UnaryKind::Identity => Some(kept),
            Op::Cast(_) if self.graph.descriptor(node.outputs[0]).data_type == DataType::Float32 => Some(kept),
            Op::Transpose(op) => Some(self.transposed(kept, op)?),
            Op::Reshape(_) => match followed(&self.shape(bytes), axis, &output) {
                Some(axis) => {
                    let scales = self.push(Reshape { input: scales, new_shape: of_scales(axis) })?[0];
                    let bytes = self.push(Reshape { input: bytes, new_shape: output })?[0];
                    Some(Quantized { bytes, scales, axis, is_past: false })
                }
                None => None,
            },
            Op::Expand(_) => {
                let axis = axis + output.len() - self.shape(bytes).len();
                if output[axis] != self.shape(bytes)[kept.axis] {
                    return Ok(None);
                }
                let scales = self.push(Expand { input: scales, new_shape: of_scales(axis) })?[0];
                Some(Quantized { bytes: self.push(Expand { input: bytes, new_shape: output })?[0], scales, axis, is_past: false })
            }
            Op::Slice(op) if op.sizes[axis] == self.shape(bytes)[axis] && op.stride(axis) == 1 => {
                let of_scales = Slice { input: scales, sizes: of_scales(axis), ..op.clone() };
                let scales = self.push(of_scales)?[0];
                Some(Quantized { bytes: self.push(Slice { input: bytes, ..op.clone() })?[0], scales, axis, is_past: false })
            }
            Op::Concat(op) if is_past && op.axis == 0 => {
                let (mut all_bytes, mut all_scales) = (vec![bytes], vec![scales]);
                for &new in &op.inputs[1..] {
                    let new = self.quantized(new, axis)?;
                    all_bytes.push(new.bytes);
                    all_scales.push(new.scales);
                }
                let bytes = self.push(Concat { inputs: all_bytes, axis: 0 })?[0];
                let scales = self.push(Concat { inputs: all_scales, axis: 0 })?[0];
                Some(Quantized { bytes, scales, axis, is_past: false })
            }
            _ => None,
        })
    }

    /// A value whose dimensions are in another order. Of one that is a transposition it is one transposition, which attention does on its way.
    fn transposed(&mut self, Quantized { bytes, scales, axis, .. }: Quantized, op: &Transpose) -> Result<Quantized> {
        let rank = self.shape(bytes).len();
        let before = self.transposed.get(&bytes).cloned();
        let ([of_bytes, of_scales], before) = before.unwrap_or_else(|| ([bytes, scales], (0..rank as u32).collect()));
        let permutation: Vec<u32> = (0..rank).map(|to| before[op.source(to, rank)]).collect();
        let axis = (0..rank).find(|&to| op.source(to, rank) == axis).unwrap_or(axis);
        let moved = |input| Transpose { input, permutation: Some(permutation.clone()) };
        let (bytes, scales) = (self.push(moved(of_bytes))?[0], self.push(moved(of_scales))?[0]);
        self.transposed.insert(bytes, ([of_bytes, of_scales], permutation));
        Ok(Quantized { bytes, scales, axis, is_past: false })
    }

    /// The output of a cache becomes one of bytes and one of scales.
    fn present(&mut self, name: &str) -> Result<()> {
        let Some(position) = self.graph.outputs.iter().position(|(other, _)| other == name) else { return Ok(()) };
        let (_, id) = self.graph.outputs[position];
        let Some(&Quantized { bytes, scales, axis, is_past: false }) = self.kept.get(&id) else {
            let text = "to which no concatenation appends rows, as cacheType 'int8' needs";
            return Err(refused(format!("found the cache {name:?}, {text}")));
        };
        if axis == 0 {
            return Err(refused(format!(
                "found the cache {name:?} whose rows are numbers, allowed rows of heads, for cacheType 'int8'"
            )));
        }
        self.graph.outputs[position].1 = bytes;
        self.graph.outputs.push((scales_of(name), scales));
        Ok(())
    }
}

/// Where an axis is after a reshape, if that leaves it whole: as many elements are before it, and along it.
fn followed(before: &[u32], axis: usize, after: &[u32]) -> Option<usize> {
    let count = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).product::<u64>();
    let wanted = (count(&before[..axis]), before[axis]);
    // The last one: dimensions of one element may stand before it.
    (0..after.len()).rev().find(|&axis| (count(&after[..axis]), after[axis]) == wanted)
}
