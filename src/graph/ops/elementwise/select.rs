//! Selection between two operands.

use crate::error::Result;
use crate::graph::data_type::{ANY, BOOLEAN};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::broadcast;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A selection of values by a condition; all three operands are broadcast to each other.
    pub struct Where: "MLOperatorOptions" in "api-mlgraphbuilder-where" {
        condition: OperandId,
        true_value: OperandId,
        false_value: OperandId,
    } options {}
    [
        ("condition", Of(BOOLEAN), N),
        ("true_value", Of(ANY), N),
        ("false_value", SameAs("true_value"), N),
    ] -> One [("output", SameAs("true_value"), N)] {
        /// Selects `trueValue` where the condition is not 0, and `falseValue` where it is 0, element by
        /// element. All three are broadcast to each other.
        "where"
    }
}

impl Rule for Where {
    /// `#api-mlgraphbuilder-where`, the broadcasting: first the values, then the condition.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let values = broadcast(("trueValue", operands.shape(self.true_value)), ("falseValue", operands.shape(self.false_value)))?;
        let shape = broadcast(("condition", operands.shape(self.condition)), ("trueValue or falseValue", &values))?;
        one(Descriptor::new(operands.data_type(self.true_value), shape))
    }
}
