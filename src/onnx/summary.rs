//! What a model holds, without importing it.

use super::bounds::Bounds;
use super::dimensions::{Dimension, Form, value_type};
use super::element::ElementType;
use super::file::Model;
use super::importer::{decode, normalized};
use super::ops;
use super::protobuf::{GraphProto, ModelProto};
use super::refusal::RefusedNode;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};

/// What a model holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub producer: String,
    pub ir_version: i64,
    /// Versions of operator sets, by domain.
    pub opsets: BTreeMap<String, i64>,
    /// How often each operator occurs, by domain and name.
    pub operators: BTreeMap<(String, String), usize>,
    /// The number of weights, and the bytes that they take.
    pub parameters: u64,
    pub parameter_bytes: u64,
    /// Names, data types and dimensions, of which those that are open are shown by their names.
    pub inputs: Vec<Description>,
    pub outputs: Vec<Description>,
    /// Nodes whose operators nothing maps. Importing may refuse more of them for their options.
    pub unknown: Vec<RefusedNode>,
}

/// An input or output as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub name: String,
    pub data_type: String,
    pub shape: Option<Vec<String>>,
    pub form: Form,
}

/// # Errors
/// `TypeError` when the file is no valid model.
pub fn summarize(model: &Model) -> Result<Summary> {
    let decoded = decode(model, &Bounds::default())?;
    let mut summary = Summary {
        producer: format!("{} {}", decoded.producer_name, decoded.producer_version).trim().to_owned(),
        ir_version: decoded.ir_version,
        ..Summary::default()
    };
    summary.opsets = decoded.opset_import.iter().map(|import| (named(&import.domain), import.version)).collect();
    let Some(graph) = &decoded.graph else { return Ok(summary) };
    let sparse = || graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    for tensor in graph.initializer.iter().chain(sparse()) {
        let count = tensor.dims.iter().try_fold(1u64, |count, &size| count.checked_mul(u64::try_from(size).ok()?));
        let count = count.unwrap_or(0);
        let bits = ElementType::from_number(tensor.data_type.into()).map_or(0, |element| element.bits() as u64);
        summary.parameters = summary.parameters.saturating_add(count);
        summary.parameter_bytes = summary.parameter_bytes.saturating_add(count.saturating_mul(bits).div_ceil(8));
    }
    let constants: std::collections::HashSet<&str> =
        graph.initializer.iter().chain(sparse()).map(|tensor| tensor.name.as_str()).collect();
    let describe = |info: &super::protobuf::ValueInfoProto| match value_type(info) {
        Ok((form, data_type, dimensions)) => Description {
            form,
            name: info.name.clone(),
            data_type: data_type.to_string(),
            shape: dimensions.map(|dimensions| {
                let shown = |(axis, dimension)| match dimension {
                    Dimension::Size(size) => u32::to_string(&size),
                    Dimension::Named(name) => name,
                    Dimension::Unknown | Dimension::AnyRank => format!("{}:{axis}", info.name),
                };
                dimensions.into_iter().enumerate().map(shown).collect()
            }),
        },
        Err(error) => {
            Description { name: info.name.clone(), data_type: error.message().to_owned(), shape: None, form: Form::TENSOR }
        }
    };
    summary.inputs = graph.input.iter().filter(|info| !constants.contains(info.name.as_str())).map(describe).collect();
    summary.outputs = graph.output.iter().map(describe).collect();
    for node in &graph.node {
        *summary.operators.entry((named(&node.domain), node.op_type.clone())).or_default() += 1;
    }
    summary.unknown = unknown(&decoded, graph).into_iter().map(|(_, node)| node).collect();
    Ok(summary)
}

/// The standard domain has no name in files.
fn named(domain: &str) -> String {
    if normalized(domain).is_empty() { "ai.onnx".to_owned() } else { domain.to_owned() }
}

/// Nodes of a graph whose operators nothing maps, with their positions.
pub fn unknown(model: &ModelProto, graph: &GraphProto) -> Vec<(usize, RefusedNode)> {
    let named_by_model = model.opset_import.iter().map(|import| (normalized(&import.domain), import.version));
    let versions: HashMap<&str, i64> = ops::UNNAMED.into_iter().chain(named_by_model).collect();
    let functions: Vec<(&str, &str)> =
        model.functions.iter().map(|function| (normalized(&function.domain), function.name.as_str())).collect();
    let mut unknown = Vec::new();
    for (position, node) in graph.node.iter().enumerate() {
        let domain = normalized(&node.domain);
        // Of nodes with graphs of their own, only importing can tell which one it is.
        if functions.contains(&(domain, &node.op_type)) || !super::branch::graphs(node).is_empty() {
            continue;
        }
        let version = versions.get(domain).copied();
        if let Err(reason) = ops::find(domain, &node.op_type, version) {
            let node = RefusedNode {
                name: super::importer::name(node).to_owned(),
                operator: node.op_type.clone(),
                domain: named(&node.domain),
                version: version.unwrap_or(0),
                reason: reason.text,
            };
            unknown.push((position, node));
        }
    }
    unknown
}
