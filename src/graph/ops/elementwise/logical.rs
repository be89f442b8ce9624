//! Comparisons, logic, and questions about one value. The results are 0 or 1.

use crate::error::Result;
use crate::graph::data_type::{ANY, BOOLEAN, DataType, FLOAT};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::broadcast;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// An element-wise comparison or logical operation; the operands are broadcast to each other.
    pub struct Logical(LogicalKind): "MLOperatorOptions" in "api-mlgraphbuilder-logical" {
        a: OperandId,
        b: OperandId,
    } options {}
    [("a", Of(ANY), N), ("b", SameAs("a"), N)] -> One [("output", Of(BOOLEAN), N)] {
        /// Tells whether the values of the two operands are equal, element by element: 1 or 0.
        "equal" Equal,
        /// Tells whether the values of the two operands differ, element by element: 1 or 0.
        "notEqual" NotEqual,
        /// Tells whether the values of the first operand are greater than those of the second, element by element: 1 or 0.
        "greater" Greater,
        /// Tells whether the values of the first operand are greater than or equal to those of the second, element by
        /// element: 1 or 0.
        "greaterOrEqual" GreaterOrEqual,
        /// Tells whether the values of the first operand are less than those of the second, element by element: 1 or 0.
        "lesser" Lesser,
        /// Tells whether the values of the first operand are less than or equal to those of the second, element by
        /// element: 1 or 0.
        "lesserOrEqual" LesserOrEqual,
    }
    [("a", Of(BOOLEAN), N), ("b", SameAs("a"), N)] -> One [("output", Of(BOOLEAN), N)] {
        /// Tells whether both values are true, element by element: 1 or 0. Every value but 0 counts as true.
        "logicalAnd" LogicalAnd,
        /// Tells whether at least one of the two values is true, element by element: 1 or 0. Every value but 0 counts as true.
        "logicalOr" LogicalOr,
        /// Tells whether exactly one of the two values is true, element by element: 1 or 0. Every value but 0 counts as true.
        "logicalXor" LogicalXor,
    }
}

impl Rule for Logical {
    /// `#api-mlgraphbuilder-logical`, *create an element-wise logical operation* with `b`.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = broadcast(("a", operands.shape(self.a)), ("b", operands.shape(self.b)))?;
        one(Descriptor::new(DataType::Uint8, shape))
    }
}

operators! {
    /// A question about each value of one operand.
    pub struct Predicate(PredicateKind): "MLOperatorOptions" in "api-mlgraphbuilder-logical" {
        a: OperandId,
    } options {}
    [("a", Of(BOOLEAN), N)] -> One [("output", Of(BOOLEAN), N)] {
        /// Inverts truth values, element by element: 1 for 0, and 0 for everything else.
        "logicalNot" LogicalNot,
    }
    // The table says "any", but the method steps refuse all other types, so these are the limits.
    [("a", Of(FLOAT), N)] -> One [("output", Of(BOOLEAN), N)] {
        /// Tells which values are NaN, element by element: 1 or 0.
        "isNaN" IsNan,
        /// Tells which values are positive or negative infinity, element by element: 1 or 0.
        "isInfinite" IsInfinite,
    }
}

impl Rule for Predicate {
    /// `#api-mlgraphbuilder-logical`, *create an element-wise logical operation* without `b`.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(Descriptor::new(DataType::Uint8, operands.shape(self.a).iter().copied()))
    }
}
