//! Ensembles of decision trees, which WebNN has no operator for: a composition would compute every node of every tree.

use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::operator::Types::Of;
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

const FLOAT32: DataTypes = DataTypes::of(&[DataType::Float32]);
const INT32: DataTypes = DataTypes::of(&[DataType::Int32]);

/// How a node compares, in the lowest bits of its mode. Any other number is never true.
pub const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];
pub const MODE_MASK: i32 = 7;
/// The bit of a mode that makes NaN true.
pub const MISSING_IS_TRUE: i32 = 8;

enumeration! {
    /// How the weights of a target are joined.
    "Aggregation" Aggregation {
        Sum "sum",
        /// The sum divided by the number of trees.
        Average "average",
        Min "min",
        Max "max",
    }
}

operators! {
    /// An ensemble of decision trees.
    pub struct TreeEnsemble: "MLOperatorOptions" in "" {
        /// A row of features for each sample.
        input: OperandId,
        /// Of each node its feature, its mode, and where it leads if the comparison is true and if it is not: to a node, or, as
        /// `-1 - i`, to entry `i` of the leaves.
        nodes: OperandId,
        /// What a node compares its feature with.
        thresholds: OperandId,
        /// Of each entry its target, which is none if it is out of range, and whether the next one belongs to the same leaf.
        leaves: OperandId,
        /// What an entry adds to its target.
        weights: OperandId,
        /// Where each tree begins, as in `nodes`.
        roots: OperandId,
        /// How many scores a sample gets.
        targets: u32,
        /// How many nodes lie between a root and a leaf at most. Who has not arrived then has no leaf.
        depth: u32,
    } options {
        aggregation: Aggregation = Aggregation::Sum,
    }
    [
        ("input", Of(FLOAT32), rank(2)),
        ("nodes", Of(INT32), rank(2)),
        ("thresholds", Of(FLOAT32), rank(1)),
        ("leaves", Of(INT32), rank(2)),
        ("weights", Of(FLOAT32), rank(1)),
        ("roots", Of(INT32), rank(1)),
    ] -> One [("output", Of(FLOAT32), rank(2))] {
        /// Follows each tree from its root to a leaf, and joins the weights of the leaves for each target; a target without
        /// any is 0. Indices that are out of range are clamped.
        "treeEnsemble"
    }
}

impl Rule for TreeEnsemble {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let nodes = operands.shape(self.nodes)[0];
        check_shape("nodes", operands.shape(self.nodes), &[nodes, 4])?;
        check_shape("thresholds", operands.shape(self.thresholds), &[nodes])?;
        let entries = operands.shape(self.leaves)[0];
        check_shape("leaves", operands.shape(self.leaves), &[entries, 2])?;
        check_shape("weights", operands.shape(self.weights), &[entries])?;
        if self.depth > nodes {
            return Err(Error::argument("depth", self.depth, format!("at most {nodes}, the number of nodes")));
        }
        if self.targets == 0 {
            return Err(Error::argument("targets", 0, "a number of at least 1"));
        }
        one(Descriptor::new(DataType::Float32, [operands.shape(self.input)[0], self.targets]))
    }
}
