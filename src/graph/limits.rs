//! What a backend can do: the operator table cut down (`MLOpSupportLimits`, `#api-mlcontext-opsupportlimits`).

use super::data_type::{ANY, DataTypes};
use super::descriptor::{Descriptor, MAX_RANK, MAX_TENSOR_BYTE_LENGTH};
use super::operator::{Operator, Ranks, TensorLimits, Types, camel_case};
use super::ops::{Op, operators};
use super::{CONSTANT_TYPES, Operands};
use crate::error::{Error, Kind, Result};

/// The limits of a backend.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Types that tensors, and so graph inputs and outputs, may have.
    pub tensor_types: DataTypes,
    /// Types that an operator's operands may have here, by the operator's name; every allowed type when it is not listed.
    pub operand_types: fn(&str) -> DataTypes,
    pub max_tensor_byte_length: usize,
    pub preferred_input_layout: &'static str,
}

/// `MLTensorLimits`: data types and a range of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Support {
    pub data_types: DataTypes,
    pub ranks: (usize, usize),
}

impl Limits {
    /// The limits of a backend that can do all that the specification allows, and our 4-bit extension.
    pub fn everything() -> Self {
        Limits {
            tensor_types: CONSTANT_TYPES,
            operand_types: |_| CONSTANT_TYPES,
            max_tensor_byte_length: MAX_TENSOR_BYTE_LENGTH,
            preferred_input_layout: "nchw",
        }
    }

    /// Those that script is told, and that hold for what it makes: a tensor of so many bytes may have as many elements, which must be
    /// in the range of `long` ([`super::descriptor::is_valid_dimension`]). Models are not asked.
    pub fn of_script(&self) -> Self {
        Limits { max_tensor_byte_length: self.max_tensor_byte_length.min(i32::MAX as usize), ..self.clone() }
    }

    pub fn input_types(&self) -> DataTypes {
        self.tensor_types
    }

    pub fn output_types(&self) -> DataTypes {
        self.tensor_types
    }

    pub fn constant_types(&self) -> DataTypes {
        CONSTANT_TYPES.intersection(self.tensor_types)
    }

    /// The limits of graph inputs, constants and outputs.
    pub fn of_tensors(&self) -> [(&'static str, Support); 3] {
        let support = |data_types| Support { data_types, ranks: (0, MAX_RANK) };
        [
            ("input", support(self.input_types())),
            ("constant", support(self.constant_types())),
            ("output", support(self.output_types())),
        ]
    }

    /// The limits of an operator's operands and outputs, under the names that script gives them.
    pub fn of_operator(&self, row: &Operator) -> Vec<(String, Support)> {
        let allowed = (self.operand_types)(row.name);
        let all = || row.operands.iter().chain(row.outputs);
        let find = |name: &str| all().find(|limits| limits.name == name).expect("limits refer to an operand of the row");
        let support = |limits: &TensorLimits| {
            let data_types = match limits.types {
                Types::Of(types) => types,
                Types::SameAs(name) => match find(name).types {
                    Types::Of(types) => types,
                    Types::SameAs(_) => ANY,
                },
            };
            let ranks = match limits.ranks {
                Ranks::Between(min, max) => (min, max),
                Ranks::SameRankAs(name) => match find(name).ranks {
                    Ranks::Between(min, max) => (min, max),
                    Ranks::SameRankAs(_) => (0, MAX_RANK),
                },
            };
            Support { data_types: data_types.intersection(allowed), ranks }
        };
        all().map(|limits| (camel_case(limits.name), support(limits))).collect()
    }

    /// Whether the backend has the operator for any data type.
    pub fn has(&self, operator: &str) -> bool {
        (self.operand_types)(operator).iter().next().is_some()
    }

    /// All operators that the backend has, with their limits.
    pub fn operators(&self) -> impl Iterator<Item = (&'static str, Vec<(String, Support)>)> {
        operators().iter().filter(|row| self.has(row.name)).map(|row| (row.name, self.of_operator(row)))
    }

    /// Checks that a descriptor can be, and that the backend takes a tensor of it.
    pub fn check_tensor(&self, descriptor: &Descriptor, argument: &str) -> Result<()> {
        descriptor.check(argument)?;
        let most = self.max_tensor_byte_length;
        if descriptor.byte_length() > most {
            let found = format!("{descriptor}, which has {} bytes", descriptor.byte_length());
            return Err(Error::argument(argument, found, format!("at most {most} bytes on this device (maxTensorByteLength)")));
        }
        Ok(())
    }

    /// Checks that the backend can do what the specification allows here.
    pub fn check(&self, row: &'static Operator, op: &Op, operands: &Operands<'_>) -> Result<()> {
        let allowed = (self.operand_types)(row.name);
        if !self.has(row.name) {
            return Err(Error::new(Kind::Type, "this operator is not supported on this device (opSupportLimits())"));
        }
        let mut result = Ok(());
        op.visit(&mut |field, id| {
            let found = operands.data_type(id);
            if !allowed.contains(found) && result.is_ok() {
                result =
                    Err(Error::argument(&camel_case(field), format!("data type {found}"), format!("{allowed} on this device")));
            }
        });
        result
    }
}
