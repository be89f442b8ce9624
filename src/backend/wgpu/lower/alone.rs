//! Kernels that write elements one by one, for outputs whose elements share words.

use super::lowering::{Lowering, Tensor};
use crate::backend::wgpu::shader::Scalar;
use crate::error::Result;
use crate::graph::DataType;

/// The data type whose elements are a scalar as it is.
pub fn data_type_of(scalar: Scalar) -> DataType {
    match scalar {
        Scalar::F32 => DataType::Float32,
        Scalar::I32 => DataType::Int32,
        Scalar::U32 => DataType::Uint32,
        Scalar::I64 => DataType::Int64,
        Scalar::U64 => DataType::Uint64,
    }
}

impl Lowering<'_> {
    /// Calls `write` with a tensor of the output's shape whose elements can be written one by one: the output itself, or a
    /// temporary that is converted to it afterwards.
    pub fn alone(&mut self, output: &Tensor, write: impl FnOnce(&mut Self, &Tensor) -> Result<()>) -> Result<()> {
        if self.is_written_alone(output.data_type) {
            return write(self, output);
        }
        let temporary = self.temporary(data_type_of(output.scalar()), &output.shape)?;
        write(self, &temporary)?;
        self.convert(&temporary, output)
    }
}

/// A number of an option, cast to a floating-point data type.
pub fn cast(value: f64, data_type: DataType) -> f32 {
    if data_type == DataType::Float16 { half::f16::from_f64(value).to_f32() } else { value as f32 }
}
