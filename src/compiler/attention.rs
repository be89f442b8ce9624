//! Finds attention: the softmax of a product, scaled and masked, that is the left operand of another product. All of it becomes
//! one step ([`Prologues`]), from the first product to the softmax and then the other one, so that the scores need not visit memory.
//! Where keys and values are both dequantized, or both converted from float16, that is part of the step, too.
//! Exporters put zeros in the place of NaN between the softmax and the other product, for queries without a key ([`ReplaceNan`](Op::ReplaceNan)).

use super::compilation::Compilation;
use super::fuse::Fusion;
use super::pattern::Pattern;
use super::prologue::Prologues;
use super::quantized::{Integers, dequantized};
use crate::error::Result;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::{DataType, Graph, Node, Op, OperandId};

pub fn find(
    graph: &Graph,
    fusion: &mut Fusion,
    integers: &Integers,
    found: &mut Prologues,
    compilation: &Compilation<'_>,
) -> Result<()> {
    let uses = graph.uses();
    let heads = fusion.heads();
    let mut leads = vec![false; graph.nodes.len()];
    for position in compilation.each(0..graph.nodes.len()) {
        let position = position?;
        let values = Values { graph, uses: &uses, leads: &leads };
        let leads_to_scores = values.leads_to_scores(position);
        let before = values.before(position, compilation)?;
        let dequantized = before.as_ref().and_then(|before| values.dequantized(position, before));
        leads[position] = leads_to_scores;
        let Some(before) = before else { continue };
        // The scores of one attention may be made from another one's result, but not inside of it.
        let are_free = before.iter().all(|&node| found.is_alone(node) && integers.of[node].is_none());
        if !are_free {
            continue;
        }
        let accepts = |nodes| compilation.capabilities.accepts(&Pattern::dequantizing(graph, &before, position, nodes));
        let dequantized = dequantized.filter(|nodes| {
            let is_alone = |&node: &usize| fusion.then[node].is_empty() && !fusion.is_fused[node] && found.is_alone(node);
            nodes.iter().all(is_alone) && accepts(Some(*nodes))
        });
        if dequantized.is_some() || accepts(None) {
            // The sum with a mask may have joined the step that makes the mask, where that comes after the product.
            for &node in &before {
                if let Some(head) = heads[node].filter(|head| !before.contains(head)) {
                    fusion.part(head, node);
                }
            }
            found.put(position, before);
            if let Some(nodes) = dequantized {
                found.put_dequantized(position, nodes);
            }
        }
    }
    Ok(())
}

/// What makes float32 numbers of float16, if that makes an operand.
fn widened(graph: &Graph, id: OperandId) -> Option<usize> {
    let (node, Node { op: Op::Cast(op), .. }) = graph.maker(id)? else { return None };
    let types = [op.input, id].map(|id| graph.descriptor(id).data_type);
    (types == [DataType::Float16, DataType::Float32]).then_some(node)
}

struct Values<'a> {
    graph: &'a Graph,
    uses: &'a [usize],
    /// By node so far: whether scores may come from it.
    leads: &'a [bool],
}

impl Values<'_> {
    /// The node that makes a value which nobody else needs.
    fn own_maker(&self, id: OperandId) -> Option<usize> {
        self.graph.maker(id).filter(|_| self.uses[id.0 as usize] == 1).map(|(node, _)| node)
    }

    /// The nodes from a product of scores to their softmax, for the product of that.
    fn before(&self, position: usize, compilation: &Compilation<'_>) -> Result<Option<Vec<usize>>> {
        let Some((mut before, mut value)) = self.softmax_before(position) else { return Ok(None) };
        let shape = self.graph.descriptor(value).shape.as_slice();
        for step in compilation.each(std::iter::repeat(())) {
            step?;
            let Some(node) = self.own_maker(value) else { return Ok(None) };
            before.push(node);
            value = match &self.graph.nodes[node].op {
                Op::Matmul(op) if !self.graph.is_constant(op.b) => break,
                Op::Binary(op) => match self.value_of(op, shape) {
                    Some(value) => value,
                    None => return Ok(None),
                },
                _ => return Ok(None),
            };
        }
        before.reverse();
        Ok(Some(before))
    }

    /// The nodes that make numbers of the keys and the values of an attention, if both are bytes or both float16, and for nobody else.
    fn dequantized(&self, position: usize, before: &[usize]) -> Option<[usize; 2]> {
        let (Op::Matmul(scores), Op::Matmul(product)) = (&self.graph.nodes[*before.first()?].op, &self.graph.nodes[position].op)
        else {
            return None;
        };
        let both = |of: &dyn Fn(OperandId) -> Option<usize>| Some([of(scores.b)?, of(product.b)?]);
        let own = |id: OperandId, node: usize| (self.own_maker(id) == Some(node)).then_some(node);
        let dequantize = both(&|id| own(id, dequantized(self.graph, id)?.0));
        dequantize.or_else(|| both(&|id| own(id, widened(self.graph, id)?)))
    }

    /// The softmax that makes the left operand of a product, what stands after that, the last one first, and what it is made of.
    fn softmax_before(&self, position: usize) -> Option<(Vec<usize>, OperandId)> {
        let Op::Matmul(product) = &self.graph.nodes[position].op else { return None };
        let scores = self.graph.descriptor(product.a);
        if scores.data_type != DataType::Float32 || self.graph.is_constant(product.b) {
            return None;
        }
        let mut before = vec![self.own_maker(product.a)?];
        if let Op::ReplaceNan(op) = &self.graph.nodes[before[0]].op {
            before.push(self.own_maker(op.input)?);
        }
        let Op::Softmax(op) = &self.graph.nodes[before[before.len() - 1]].op else { return None };
        (op.axis as usize + 1 == scores.shape.len()).then_some((before, op.input))
    }

    /// The scores in an operator that scales or masks them.
    fn value_of(&self, op: &Binary, shape: &[u32]) -> Option<OperandId> {
        let is_number = |id: OperandId| self.graph.is_constant(id) && self.graph.is_single(id);
        let is_whole = |id: OperandId| self.graph.descriptor(id).shape.as_slice() == shape;
        let commutes = match op.kind {
            BinaryKind::Mul | BinaryKind::Add => true,
            BinaryKind::Div => false,
            _ => return None,
        };
        // A sum may be with anything that is broadcast to the scores.
        let suits = |other: OperandId| op.kind == BinaryKind::Add || is_number(other);
        if is_whole(op.a) && suits(op.b) && self.own_maker(op.a).is_some_and(|node| self.leads[node]) {
            Some(op.a)
        } else if commutes && is_whole(op.b) && suits(op.a) {
            Some(op.b)
        } else {
            None
        }
    }

    /// Whether scores may come from there: of two operands of a sum one may be a mask of the same shape.
    fn leads_to_scores(&self, node: usize) -> bool {
        match &self.graph.nodes[node].op {
            Op::Matmul(_) => true,
            Op::Binary(op) => [op.a, op.b].into_iter().any(|id| self.own_maker(id).is_some_and(|node| self.leads[node])),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::capabilities::{Fusing, Preferences};
    use crate::compiler::fuse::fuse;
    use crate::compiler::steps::steps;
    use crate::compiler::testing::{EVERYTHING, Preferring, everything_of};
    use crate::graph::ops::elementwise::ReplaceNan;
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::softmax::Softmax;
    use crate::graph::{Descriptor, GraphBuilder, Limits, Number};
    use std::sync::Arc;

    /// How many nodes each attention of a graph takes in, for scores of [2, 4, 6].
    fn found(make: impl Fn(&mut GraphBuilder, OperandId) -> (OperandId, Vec<OperandId>), axis: u32) -> Vec<usize> {
        found_with(make, axis, |_, weights| (weights, vec![]))
    }

    /// The same with what stands between the softmax and the values.
    fn found_with(
        make: impl Fn(&mut GraphBuilder, OperandId) -> (OperandId, Vec<OperandId>),
        axis: u32,
        guard: impl Fn(&mut GraphBuilder, OperandId) -> (OperandId, Vec<OperandId>),
    ) -> Vec<usize> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let mut input = |name: &str, shape: [u32; 3]| builder.input(name, Descriptor::new(DataType::Float32, shape)).unwrap();
        let (q, k, v) = (input("q", [2, 4, 8]), input("k", [2, 8, 6]), input("v", [2, 6, 8]));
        let scores = builder.push_op(Matmul { a: q, b: k }, "").unwrap()[0];
        let (masked, mut outputs) = make(&mut builder, scores);
        let weights = builder.push_op(Softmax { input: masked, axis }, "").unwrap()[0];
        let (weights, more) = guard(&mut builder, weights);
        outputs.extend(more);
        outputs.push(builder.push_op(Matmul { a: weights, b: v }, "").unwrap()[0]);
        let outputs = outputs.into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
        let graph = builder.build(outputs).unwrap();
        let cpu = Cpu::new(1);
        let of_everything = everything_of(&cpu);
        let compilation = &Compilation::new(&of_everything);
        let integers = Integers::none(&graph);
        let (mut fusion, mut before) = (fuse(&graph, &integers, compilation).unwrap(), Prologues::none(&graph));
        find(&graph, &mut fusion, &integers, &mut before, compilation).unwrap();
        for (head, then) in fusion.then.iter().enumerate() {
            let is_apart = then.iter().all(|&node| before.is_inside[node] == before.is_inside[head]);
            assert!(is_apart, "one node in two steps");
        }
        // Only where the backend has steps of several nodes.
        let preferences = Preferences { fusing: Fusing::Chains, patterns: false, orders: false, ..EVERYTHING };
        let chains = steps(&graph, &Compilation::new(&Preferring { of: cpu.capabilities(), preferences })).unwrap();
        assert!(chains.list.iter().all(|step| step.operators.prologue.is_empty()));
        before.nodes.iter().map(Vec::len).filter(|&length| length > 0).collect()
    }

    fn binary(builder: &mut GraphBuilder, kind: BinaryKind, a: OperandId, b: OperandId) -> OperandId {
        builder.push_op(Binary { kind, a, b }, "").unwrap()[0]
    }

    #[test]
    fn scales_and_masks_are_taken_in() {
        assert_eq!(found(|_, scores| (scores, vec![]), 2), [2]);
        let masked = |shape: &'static [u32], is_first: bool| {
            move |builder: &mut GraphBuilder, scores| {
                let half = builder.scalar(DataType::Float32, Number::Double(0.5)).unwrap();
                let scaled = binary(builder, BinaryKind::Mul, half, scores);
                let mask = builder.input("mask", Descriptor::new(DataType::Float32, shape.iter().copied())).unwrap();
                let (a, b) = if is_first { (mask, scaled) } else { (scaled, mask) };
                (binary(builder, BinaryKind::Add, a, b), vec![])
            }
        };
        for shape in [&[1, 1, 6][..], &[2, 4, 6], &[6], &[4, 1], &[]] {
            assert_eq!(found(masked(shape, false), 2), [4], "{shape:?}");
            assert_eq!(found(masked(shape, true), 2), [4], "{shape:?}");
        }
    }

    #[test]
    fn masks_that_are_made_after_the_scores_are_taken_in() {
        let masked = |builder: &mut GraphBuilder, scores| {
            let mut input = |name: &str| builder.input(name, Descriptor::new(DataType::Float32, [2, 4, 6])).unwrap();
            let (mask, bias) = (input("mask"), input("bias"));
            let sum = binary(builder, BinaryKind::Add, mask, bias);
            (binary(builder, BinaryKind::Add, scores, sum), vec![])
        };
        assert_eq!(found(masked, 2), [3]);
    }

    #[test]
    fn numbers_in_the_place_of_nan_are_taken_in() {
        let scores = |_: &mut GraphBuilder, scores| (scores, vec![]);
        let guarded = |builder: &mut GraphBuilder, input| builder.push_op(ReplaceNan { input, number: 0.0 }, "").unwrap()[0];
        assert_eq!(found_with(scores, 2, |builder, weights| (guarded(builder, weights), vec![])), [3]);
        let needed = found_with(scores, 2, |builder, weights| (guarded(builder, weights), vec![weights]));
        assert!(needed.is_empty(), "weights are an output");
        let twice = |builder: &mut GraphBuilder, weights| {
            let once = guarded(builder, weights);
            (guarded(builder, once), vec![])
        };
        assert!(found_with(scores, 2, twice).is_empty());
    }

    #[test]
    fn what_others_need_and_other_operators_stay() {
        assert!(found(|_, scores| (scores, vec![]), 1).is_empty(), "softmax along another axis");
        assert!(found(|_, scores| (scores, vec![scores]), 2).is_empty(), "scores are an output");
        let by = |kind| {
            move |builder: &mut GraphBuilder, scores| {
                let two = builder.scalar(DataType::Float32, Number::Double(2.0)).unwrap();
                (binary(builder, kind, two, scores), vec![])
            }
        };
        assert!(found(by(BinaryKind::Div), 2).is_empty(), "divided by the scores");
        assert!(found(by(BinaryKind::Max), 2).is_empty());
        assert_eq!(found(by(BinaryKind::Mul), 2), [3]);
        let squared = |builder: &mut GraphBuilder, scores| (binary(builder, BinaryKind::Add, scores, scores), vec![]);
        assert!(found(squared, 2).is_empty());
    }
}
