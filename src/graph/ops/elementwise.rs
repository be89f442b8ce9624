//! Element-wise operators.

use crate::error::Result;
use crate::graph::data_type::ANY;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::broadcast;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// An element-wise binary operation; the operands are broadcast to each other.
    pub struct Binary(BinaryKind): "MLOperatorOptions" in "api-mlgraphbuilder-binary" {
        a: OperandId,
        b: OperandId,
    } options {}
    [("a", Of(ANY), N), ("b", SameAs("a"), N)] -> One [("output", SameAs("a"), N)] {
        /// Adds the values of the two operands, element by element.
        "add" Add,
        /// Subtracts the values of the second operand from those of the first, element by element.
        "sub" Sub,
    }
}

impl Rule for Binary {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = broadcast(("a", operands.shape(self.a)), ("b", operands.shape(self.b)))?;
        one(Descriptor::new(operands.data_type(self.a), shape))
    }
}
