//! Products of quantized values. A product of two dequantized operands (the right one is constant, or both are computed) is that of
//! their integers times both scales, and a backend that asked for it ([`Preferences::integers`](super::Preferences)) gets it
//! so: as one step, whose operands are the integers. The sums are exact; the results differ from those of the operators one
//! by one only as float32 sums of another order do. Depthwise convolutions are such steps too, so that bytes lie between them
//! and their neighbours.

use crate::compiler::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{BinaryKind, DequantizeLinear};
use crate::graph::{DataType, Graph, Node, Op, Operand, OperandId, Source};

/// With this depth sums of products of two differences of bytes fit into 32 bits.
pub const DEEPEST: usize = i32::MAX as usize / (255 * 255);

/// Which products are computed with integers.
#[derive(Debug)]
pub struct Integers {
    /// By node: the nodes that dequantize the left and the right operand of this product.
    pub of: Vec<Option<[usize; 2]>>,
    /// By node: whether all scales of this product are 1, so that its results are integers.
    pub is_whole: Vec<bool>,
    /// By node: whether it dequantizes operands of such products, and for nobody else.
    pub is_inside: Vec<bool>,
}

impl Integers {
    /// None at all.
    pub fn none(graph: &Graph) -> Integers {
        let count = graph.nodes.len();
        Integers { of: vec![None; count], is_whole: vec![false; count], is_inside: vec![false; count] }
    }

    /// Those of a graph, if the backend multiplies integers.
    ///
    /// # Errors
    /// When nobody wants the graph any more.
    pub fn find(graph: &Graph, compilation: &Compilation<'_>) -> Result<Integers> {
        let mut found = Integers::none(graph);
        let Some(least) = compilation.preferences.integers else { return Ok(found) };
        let values = Values::new(graph, least);
        let uses = graph.uses();
        let mut inside = vec![0usize; graph.operands.len()];
        for node in compilation.each(graph.nodes.iter().enumerate()) {
            let (position, node) = node?;
            found.of[position] = values.product(node);
            found.is_whole[position] =
                found.of[position].is_some_and(|both| both.iter().all(|&node| is_unit(graph, node))) && !has_bias(&node.op);
            for &node in found.of[position].iter().flatten() {
                inside[graph.nodes[node].outputs[0].0 as usize] += 1;
            }
        }
        for &node in found.of.iter().flatten().flatten() {
            let output = graph.nodes[node].outputs[0].0 as usize;
            found.is_inside[node] = uses[output] == inside[output];
        }
        Ok(found)
    }
}

/// By operand: whether its value is known, or made of such values only.
pub fn constants(graph: &Graph) -> Vec<bool> {
    let is_constant = |operand: &Operand| matches!(operand.source, Source::Constant(_));
    let mut constant: Vec<bool> = graph.operands.iter().map(is_constant).collect();
    for node in &graph.nodes {
        let mut all = true;
        node.op.visit(&mut |_, id| all &= constant[id.0 as usize]);
        node.outputs.iter().for_each(|id| constant[id.0 as usize] |= all);
    }
    constant
}

/// What dequantizes 8-bit integers to float32, if that makes an operand.
pub fn dequantized(graph: &Graph, id: OperandId) -> Option<(usize, &DequantizeLinear)> {
    let (node, Node { op: Op::DequantizeLinear(op), .. }) = graph.maker(id)? else { return None };
    let is_byte = matches!(graph.descriptor(op.input).data_type, DataType::Int8 | DataType::Uint8);
    (is_byte && graph.descriptor(id).data_type == DataType::Float32).then_some((node, op))
}

/// Whether a node dequantizes with scales of 1 only.
pub fn is_unit(graph: &Graph, node: usize) -> bool {
    let Op::DequantizeLinear(op) = &graph.nodes[node].op else { return false };
    let mut scale = op.scale;
    loop {
        scale = match graph.maker(scale) {
            Some((_, Node { op: Op::Reshape(op), .. })) => op.input,
            Some((_, Node { op: Op::Expand(op), .. })) => op.input,
            _ => break,
        };
    }
    let Operand { descriptor, source } = &graph.operands[scale.0 as usize];
    match source {
        Source::Constant(bytes) if descriptor.data_type == DataType::Float32 => {
            bytes.as_slice().chunks(4).all(|number| number == 1f32.to_le_bytes())
        }
        _ => false,
    }
}

/// Whether a product has something added to it.
fn has_bias(op: &Op) -> bool {
    match op {
        Op::Conv2d(op) => op.bias.is_some(),
        Op::Gemm(op) => op.c.is_some(),
        _ => false,
    }
}

/// Whether an operator is a convolution of each channel on its own.
fn is_depthwise(op: &Op) -> bool {
    matches!(op, Op::Conv2d(op) if op.groups > 1)
}

/// What is known of the values of a graph.
pub struct Values<'a> {
    graph: &'a Graph,
    /// The multiplications of a product of integers, at least.
    least: usize,
    /// See [`constants`].
    constant: Vec<bool>,
    /// By operand: whether it is quantized, or divided by what will be its steps.
    is_rounded: Vec<bool>,
}

impl<'a> Values<'a> {
    pub fn new(graph: &'a Graph, least: usize) -> Values<'a> {
        let mut is_rounded = vec![false; graph.operands.len()];
        for node in &graph.nodes {
            match &node.op {
                Op::QuantizeLinear(op) => is_rounded[op.input.0 as usize] = true,
                Op::Binary(op) if op.kind == BinaryKind::Div => is_rounded[op.a.0 as usize] = true,
                _ => {}
            }
        }
        Values { graph, least, constant: constants(graph), is_rounded }
    }

    fn is_constant(&self, id: OperandId) -> bool {
        self.constant[id.0 as usize]
    }

    fn shape(&self, id: OperandId) -> &[u32] {
        &self.graph.descriptor(id).shape
    }

    /// The nodes that dequantize the operands of a product of integers.
    pub fn product(&self, node: &Node) -> Option<[usize; 2]> {
        let op = &node.op;
        let (a, b, axis, depth) = match op {
            Op::Matmul(op) => {
                let (stack, &[depth, _]) = self.shape(op.b).split_last_chunk::<2>()?;
                let is_matrix = stack.iter().all(|&size| size == 1) && stack.len() + 2 <= self.shape(op.a).len();
                if !is_matrix && self.is_constant(op.b) {
                    return None;
                }
                (op.a, op.b, stack.len() + 1, depth as usize)
            }
            Op::Gemm(op) => {
                let &[b, columns] = self.shape(op.b) else { return None };
                let (depth, columns) = if op.b_transpose { (columns, b) } else { (b, columns) };
                let is_row = |c: OperandId| self.is_row(c, columns) && op.beta == 1.0;
                if op.a_transpose || op.alpha != 1.0 || !op.c.is_none_or(is_row) {
                    return None;
                }
                (op.a, op.b, if op.b_transpose { 0 } else { 1 }, depth as usize)
            }
            Op::Conv2d(op) => (op.input, op.filter, self.outputs_of(op)?, self.depth_of(op)),
            _ => return None,
        };
        let (left, right) = (dequantized(self.graph, a)?, dequantized(self.graph, b)?);
        let (values, weights) = (left.1, right.1);
        if is_depthwise(op) && [left.0, right.0].iter().all(|&node| is_unit(self.graph, node)) {
            return None;
        }
        if !self.is_constant(values.input) && !self.is_constant(weights.input) {
            let is_one = self.computed(op, values, weights, depth) && self.is_rounded[node.outputs[0].0 as usize];
            return is_one.then_some([left.0, right.0]);
        }
        let constants = [weights.input, weights.scale, weights.zero_point];
        if self.is_constant(values.input)
            || !self.graph.is_single(values.scale)
            || !constants.iter().all(|&id| self.is_constant(id))
        {
            return None;
        }
        // One scale for all, or one for each output column or channel.
        let (whole, blocks) = (self.shape(weights.input), self.shape(weights.scale));
        let is_along = |(i, &size): (usize, &u32)| size == 1 || i == axis && size == whole[axis];
        let work = self.shape(a).iter().map(|&size| size as usize).product::<usize>().saturating_mul(whole[axis] as usize);
        let fits =
            blocks.len() == whole.len() && blocks.iter().enumerate().all(is_along) && depth <= DEEPEST && work >= self.least;
        fits.then_some([left.0, right.0])
    }

    /// Whether a product of matrices that are both computed is one of integers. What is not rounded then is left alone: it is
    /// often a part of attention, which has a kernel of its own.
    fn computed(&self, op: &Op, values: &DequantizeLinear, weights: &DequantizeLinear, depth: usize) -> bool {
        let Op::Matmul(op) = op else { return false };
        let columns = self.shape(op.b).last().copied().unwrap_or(0) as usize;
        let work = self.shape(op.a).iter().map(|&size| size as usize).product::<usize>().saturating_mul(columns);
        let one = self.graph.is_single(values.scale) && self.graph.is_single(weights.scale);
        one && depth <= DEEPEST && work >= self.least
    }

    /// Whether an operand is a constant row of so many numbers.
    fn is_row(&self, id: OperandId, columns: u32) -> bool {
        let shape = self.shape(id);
        self.is_constant(id) && shape.last() == Some(&columns) && shape.iter().product::<u32>() == columns
    }

    /// The axis of the filter along which the output channels lie, for a convolution that is one product, or a depthwise one.
    fn outputs_of(&self, op: &Conv2d) -> Option<usize> {
        let is_known = op.bias.is_none_or(|bias| self.is_constant(bias));
        let outputs = op.filter_layout.to_oihw(&[0, 1, 2, 3])[0];
        let [count, of_group, ..] = op.filter_layout.to_oihw(self.shape(op.filter).first_chunk::<4>()?);
        let is_one = op.groups == 1 || (of_group, op.groups) == (1, count);
        (is_one && is_known).then_some(outputs)
    }

    fn depth_of(&self, op: &Conv2d) -> usize {
        let shape = self.shape(op.filter);
        let [_, channels, height, width] = op.filter_layout.to_oihw(&[shape[0], shape[1], shape[2], shape[3]]);
        channels as usize * height as usize * width as usize
    }
}
