//! The greatest numbers that are still allowed, and the first that are not.

use crate::invalid::most_elements;
use crate::runners;
use std::sync::Arc;
use webnn_node::error::Kind;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::ops::operator;
use webnn_node::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits, OperandId};

/// A *valid tensor count* is at most this.
const TENSORS: u32 = 8192;

fn builder() -> GraphBuilder {
    GraphBuilder::new(Arc::new(Limits::everything()))
}

#[test]
fn as_many_operands_as_are_allowed_are_joined_and_split() {
    let mut builder = builder();
    let input = builder.input("x", Descriptor::new(DataType::Uint8, [1])).unwrap();
    let joined = [Value::Operands(vec![input; TENSORS as usize]), Value::Unsigned(0)];
    let joined = builder.apply(operator("concat").unwrap(), joined, "").unwrap()[0];
    let parts = |splits| [Value::Operand(joined), splits];
    let split = operator("split").unwrap();
    let equal = builder.apply(split, parts(Value::Unsigned(TENSORS)), "").unwrap().to_vec();
    let listed = builder.apply(split, parts(Value::UnsignedList(vec![1; TENSORS as usize])), "").unwrap().to_vec();
    assert_eq!((equal.len(), listed.len()), (TENSORS as usize, TENSORS as usize));
    let outputs = [("joined", joined), ("last", equal[TENSORS as usize - 1]), ("first", listed[0])];
    let graph = builder.build(outputs.map(|(name, id)| (name.to_owned(), id)).to_vec()).unwrap();
    for (name, runner) in runners() {
        let results = runner(&graph, &[&[7]]);
        assert_eq!(results, [vec![7; TENSORS as usize], vec![7], vec![7]], "{name}");
    }
}

#[test]
fn one_operand_more_is_refused() {
    let count = TENSORS + 1;
    let mut builder = builder();
    let input = builder.input("x", Descriptor::new(DataType::Uint8, [count])).unwrap();
    for (name, values) in [
        ("concat", [Value::Operands(vec![input; count as usize]), Value::Unsigned(0)]),
        ("split", [Value::Operand(input), Value::Unsigned(count)]),
        ("split", [Value::Operand(input), Value::UnsignedList(vec![1; count as usize])]),
    ] {
        let error = builder.apply(operator(name).unwrap(), values, "many").unwrap_err();
        assert_eq!(error.kind(), Kind::Type);
        assert!(error.message().starts_with(&format!("{name} [many]: ")), "{error}");
    }
}

#[test]
fn descriptors_that_cannot_be_are_refused() {
    const MOST: u32 = i32::MAX as u32;
    for data_type in DataType::ALL {
        let most = most_elements(data_type) as u32;
        let descriptor = |shape: &[u32]| Descriptor::new(data_type, shape.iter().copied());
        for shape in [&[most][..], &[1, most, 1], &[1; 8], &[]] {
            assert_eq!(builder().input("x", descriptor(shape)).unwrap(), OperandId(0), "{data_type}{shape:?}");
        }
        for shape in
            [&[0][..], &[2, 0], &[MOST + 1], &[u32::MAX], &[1; 9], &[MOST, 2], &[1 << 16, 1 << 15], &[u32::MAX; 8], &[1 << 16; 4]]
        {
            for error in [
                builder().input("x", descriptor(shape)).unwrap_err(),
                builder().constant(descriptor(shape), ConstantBytes::new(vec![])).unwrap_err(),
            ] {
                assert_eq!(error.kind(), Kind::Type, "{data_type}{shape:?}");
            }
        }
        // Three elements, of which two of 4 bits share a byte.
        let length = (3 * data_type.bits()).div_ceil(8);
        for wrong in [0, length - 1, length + 1, 3 * length] {
            let error = builder().constant(descriptor(&[3]), ConstantBytes::new(vec![0; wrong])).unwrap_err();
            assert_eq!(error.kind(), Kind::Type, "{data_type}");
        }
        builder().constant(descriptor(&[3]), ConstantBytes::new(vec![0; length])).unwrap();
    }
}
