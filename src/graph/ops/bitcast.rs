//! Bits that are read as those of another data type.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, DataType};
use crate::graph::operator::Types::Of;
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// Bits read as another data type.
    pub struct Bitcast: "MLOperatorOptions" in "" {
        input: OperandId,
        data_type: DataType,
    } options {}
    [("input", Of(ANY), N)] -> One [("output", Of(ANY), N)] {
        /// Reads the bits of each element as an element of another data type with as many bits.
        "bitcast"
    }
}

impl Rule for Bitcast {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        if !ANY.contains(self.data_type) || self.data_type.bits() != input.data_type.bits() {
            let allowed = format!("a data type of {} bits", input.data_type.bits());
            return Err(Error::argument("dataType", self.data_type, allowed));
        }
        one(Descriptor { data_type: self.data_type, ..input.clone() })
    }
}
