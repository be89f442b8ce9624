//! Bits that are read as those of another data type: the bytes are the same.

use crate::backend::cpu::copy::with_unit;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::Strided;
use crate::graph::ops::bitcast::Bitcast;

pub fn bitcast(op: &Bitcast, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    with_unit!(input.data_type, T => Strided::dense(input.shape).copy::<T>(input.units(), output.units()));
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::{DataType, OperandId};

    #[test]
    fn bits_stay() {
        let as_type = |input: Tensor, to: DataType| {
            let values = vec![Value::Operand(OperandId(0)), Value::Enumeration(to.index())];
            run("bitcast", &[input], values).remove(0)
        };
        let bits = [0x7fc0_1234u32, 0xff80_0001, 0x8000_0000, 1];
        let floats = as_type(Tensor::of(&[4], bits), DataType::Float32);
        assert_eq!(as_type(floats, DataType::Uint32).elements::<u32>(), bits);
        assert_eq!(as_type(Tensor::of(&[2], [1.0f32, -2.0]), DataType::Int32).elements::<i32>(), [0x3f80_0000, -0x4000_0000]);
        assert_eq!(as_type(Tensor::of(&[1], [-1i64]), DataType::Uint64).elements::<u64>(), [u64::MAX]);
        assert_eq!(as_type(Tensor::of(&[1], [200u8]), DataType::Int8).elements::<i8>(), [-56]);
    }
}
