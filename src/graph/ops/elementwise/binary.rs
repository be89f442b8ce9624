//! Arithmetic on two operands.

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
        /// Adds the values of the two operands, element by element. Integers wrap around.
        "add" Add,
        /// Subtracts the values of the second operand from those of the first, element by element. Integers wrap around.
        "sub" Sub,
        /// Multiplies the values of the two operands, element by element. Integers wrap around.
        "mul" Mul,
        /// Divides the values of the first operand by those of the second, element by element. Integers are truncated
        /// towards zero; an integer divided by zero gives 0.
        "div" Div,
        /// Computes the maximum of the two operands, element by element; NaN if either is NaN.
        "max" Max,
        /// Computes the minimum of the two operands, element by element; NaN if either is NaN.
        "min" Min,
        /// Raises the values of the first operand to the powers given by the second, element by element.
        "pow" Pow,
    }
}

impl Rule for Binary {
    /// `#api-mlgraphbuilder-binary`, *create an element-wise binary operation*, the broadcasting.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = broadcast(("a", operands.shape(self.a)), ("b", operands.shape(self.b)))?;
        one(Descriptor::new(operands.data_type(self.a), shape))
    }
}
