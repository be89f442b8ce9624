//! Conversion between data types.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, DataType};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::Of;
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A conversion to another data type.
    pub struct Cast: "MLOperatorOptions" in "api-mlgraphbuilder-cast" {
        input: OperandId,
        data_type: DataType,
    } options {}
    [("input", Of(ANY), N)] -> One [("output", Of(ANY), SameRankAs("input"))] {
        /// Converts every element to another data type. Floating-point values are truncated to integers and limited to
        /// the range of the type (NaN gives 0); integers keep their lowest bits.
        "cast"
    }
}

impl Rule for Cast {
    /// `#api-mlgraphbuilder-cast`, the check of the output's data type.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        if !ANY.contains(self.data_type) {
            return Err(Error::argument("dataType", self.data_type, ANY));
        }
        one(Descriptor::new(self.data_type, operands.shape(self.input).iter().copied()))
    }
}
