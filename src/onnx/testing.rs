//! Models for tests, written by code, and their results.

use super::element::ElementType;
use super::importer::{Imported, import};
use super::protobuf::*;
use super::refusal::ImportError;
use super::tensor::Tensor;
use super::{Bounds, Fixed, Model};
use crate::backend::cpu::reference::interpret;
use crate::graph::{Graph, Limits};
use prost::Message;
use std::sync::Arc;

/// A model under construction.
#[derive(Default)]
pub struct Sketch {
    pub graph: GraphProto,
    pub opset: i64,
    pub functions: Vec<FunctionProto>,
}

pub fn sketch(opset: i64) -> Sketch {
    Sketch { opset, ..Sketch::default() }
}

pub fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::INT, i: Some(i), ..Default::default() }
}

pub fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::INTS, ints: ints.to_vec(), ..Default::default() }
}

pub fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::FLOAT, f: Some(f), ..Default::default() }
}

pub fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRING,
        s: Some(value.as_bytes().to_vec().into()),
        ..Default::default()
    }
}

/// The number of an element type in the format.
pub fn number_of(element: ElementType) -> i32 {
    (0..64).find(|&number| ElementType::from_number(number.into()) == Ok(element)).unwrap()
}

pub fn dimension(size: i64) -> DimensionProto {
    DimensionProto { dim_value: Some(size), ..Default::default() }
}

pub fn named_dimension(name: &str) -> DimensionProto {
    DimensionProto { dim_param: Some(name.into()), ..Default::default() }
}

pub fn info(name: &str, elem_type: i32, dim: Vec<DimensionProto>) -> ValueInfoProto {
    let tensor_type = Some(TensorTypeProto { elem_type, shape: Some(TensorShapeProto { dim }) });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type, ..Default::default() }) }
}

pub fn node(operator: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let (domain, op_type) = operator.split_once("::").unwrap_or(("", operator));
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        op_type: op_type.into(),
        domain: domain.into(),
        attribute,
        ..Default::default()
    }
}

impl Sketch {
    pub fn input(mut self, name: &str, elem_type: i32, shape: &[i64]) -> Self {
        self.graph.input.push(info(name, elem_type, shape.iter().copied().map(dimension).collect()));
        self
    }

    pub fn floats(mut self, name: &str, shape: &[i64], numbers: &[f32]) -> Self {
        let raw_data = Some(numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into());
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            dims: shape.to_vec(),
            data_type: 1,
            raw_data,
            ..Default::default()
        });
        self
    }

    pub fn int64s(mut self, name: &str, numbers: &[i64]) -> Self {
        let raw_data = Some(numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into());
        let dims = vec![numbers.len() as i64];
        self.graph.initializer.push(TensorProto { name: name.into(), dims, data_type: 7, raw_data, ..Default::default() });
        self
    }

    pub fn tensor(mut self, name: &str, tensor: &Tensor) -> Self {
        self.graph.initializer.push(TensorProto {
            name: name.into(),
            dims: tensor.shape.iter().map(|&size| size as i64).collect(),
            data_type: number_of(tensor.element),
            raw_data: Some(tensor.bytes.to_vec().into()),
            ..Default::default()
        });
        self
    }

    pub fn node(mut self, operator: &str, inputs: &[&str], outputs: &[&str], attributes: Vec<AttributeProto>) -> Self {
        self.graph.node.push(node(operator, inputs, outputs, attributes));
        self
    }

    pub fn output(mut self, name: &str) -> Self {
        self.graph.output.push(ValueInfoProto { name: name.into(), r#type: None });
        self
    }

    pub fn proto(self) -> ModelProto {
        let import = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
        ModelProto {
            ir_version: 8,
            opset_import: vec![import("", self.opset), import("ai.onnx.ml", 5), import("com.microsoft", 1)],
            graph: Some(self.graph),
            functions: self.functions,
            ..Default::default()
        }
    }

    pub fn bytes(self) -> Vec<u8> {
        self.proto().encode_to_vec()
    }

    pub fn import(self) -> Result<Imported, ImportError> {
        self.import_with(&[])
    }

    pub fn import_with(self, free: &[(&str, u32)]) -> Result<Imported, ImportError> {
        import_bytes(self.bytes(), free)
    }
}

pub fn import_bytes(bytes: Vec<u8>, free: &[(&str, u32)]) -> Result<Imported, ImportError> {
    let sizes = free.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    import_fixed(bytes, &Fixed { sizes, ..Fixed::default() })
}

pub fn import_fixed(bytes: Vec<u8>, fixed: &Fixed) -> Result<Imported, ImportError> {
    import(Model::from_bytes(bytes), &Arc::new(Limits::everything()), fixed, &Bounds::default())
}

/// Runs an imported model with the reference kernels, on its used inputs.
pub fn run(imported: &Imported, inputs: &[Tensor]) -> Vec<Tensor> {
    run_with(interpret, imported, inputs)
}

/// The same as the CPU backend compiles and runs it.
pub fn run_compiled(imported: &Imported, inputs: &[Tensor]) -> Vec<Tensor> {
    run_with(crate::backend::cpu::testing::run, imported, inputs)
}

fn run_with(runner: impl Fn(&Graph, &[&[u8]]) -> Vec<Vec<u8>>, imported: &Imported, inputs: &[Tensor]) -> Vec<Tensor> {
    let bytes: Vec<&[u8]> = inputs.iter().map(|tensor| &tensor.bytes[..]).collect();
    let results = runner(&imported.graph, &bytes);
    let signatures = imported.outputs.iter();
    signatures
        .zip(results)
        .map(|(signature, bytes)| Tensor {
            element: signature.data_type.into(),
            shape: signature.shape.iter().map(|&size| size as usize).collect(),
            bytes: bytes.into(),
        })
        .collect()
}
