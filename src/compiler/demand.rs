//! How much memory a graph takes, as far as its schedule tells.

use super::schedule::Schedule;
use crate::error::{Error, Kind, Result};
use crate::graph::Graph;

/// Bytes, by what they are for. Kernels may lay weights out in other ways, and take some memory of their own while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub weights: usize,
    /// Of the graph's inputs and outputs.
    pub bound: usize,
    /// Of the values in between.
    pub arena: usize,
}

impl Demand {
    /// What each run takes.
    pub fn of_run(&self) -> usize {
        self.bound.saturating_add(self.arena)
    }

    /// # Errors
    /// `OperationError` when that is more than allowed.
    pub fn check(&self, most: usize) -> Result<()> {
        let Demand { weights, bound, arena } = *self;
        let all = self.of_run().saturating_add(weights);
        if all <= most {
            return Ok(());
        }
        let message = format!(
            "found a graph that takes {all} bytes ({weights} of weights, {bound} of inputs and outputs, {arena} of values in \
             between), allowed at most {most} (maxBytes)"
        );
        Err(Error::new(Kind::Operation, message))
    }
}

/// The bytes of a graph's inputs and outputs.
pub fn bound(graph: &Graph) -> usize {
    let ids = graph.inputs.iter().chain(&graph.outputs).map(|(_, id)| *id);
    ids.map(|id| graph.descriptor(id).byte_length()).fold(0, usize::saturating_add)
}

impl Schedule {
    /// What the graph takes.
    pub fn demand(&self) -> Demand {
        let lengths = self.inputs.iter().chain(&self.outputs).map(|(_, descriptor)| descriptor.byte_length());
        Demand {
            weights: self.constants.iter().map(|constant| constant.len()).fold(0, usize::saturating_add),
            bound: lengths.fold(0, usize::saturating_add),
            arena: self.arena_length,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compiler::{Capabilities, compile_within};
    use crate::error::{Kind, Result};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::movement::Expand;
    use crate::graph::ops::reduce::{Reduce, ReduceKind};
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits, Op};
    use std::sync::Arc;

    struct Nothing;

    impl Capabilities for Nothing {
        fn evaluate(&self, _: &Op, _: &[(&Descriptor, &[u8])], _: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            panic!("more than is allowed is not computed")
        }
    }

    /// What the compiler finds of the sum of a vector that is repeated so often and multiplied with weights.
    fn found(repeated: u32, most: usize) -> Result<super::Demand> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let float = |shape: &[u32]| Descriptor::new(DataType::Float32, shape.iter().copied());
        let input = builder.input("x", float(&[1, 4])).unwrap();
        let weights = builder.constant(float(&[4, 4]), ConstantBytes::new(vec![0; 64])).unwrap();
        let a = builder.push_op(Expand { input, new_shape: vec![repeated, 4] }, "").unwrap()[0];
        let product = builder.push_op(Matmul { a, b: weights }, "").unwrap()[0];
        let sum = Reduce { kind: ReduceKind::Sum, input: product, axes: None, keep_dimensions: false };
        let output = builder.push_op(sum, "").unwrap()[0];
        let graph = builder.build(vec![("y".into(), output)]).unwrap();
        compile_within(most, graph, &Nothing).map(|schedule| schedule.demand())
    }

    #[test]
    fn a_graph_takes_no_more_than_is_allowed() {
        // 16 bytes of input, 4 of output, 64 of weights; the repeated vector, and the product of it.
        let demand = found(64, usize::MAX).unwrap();
        assert_eq!((demand.weights, demand.bound, demand.arena, demand.of_run()), (64, 20, 2048, 2068));
        assert_eq!(found(64, 2132).unwrap(), demand);
        let error = found(64, 2131).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        let numbers = "2132 bytes (64 of weights, 20 of inputs and outputs, 2048 of values in between), allowed at most 2131";
        assert!(error.message().contains(numbers), "{error}");
        // Nothing of 4 GB is allocated to find that out.
        let error = found(1 << 27, 1 << 30).unwrap_err();
        assert!(error.message().contains("4294967296 of values in between"), "{error}");
        assert!(found(64, 19).unwrap_err().message().contains("20 of inputs and outputs"));
    }
}
