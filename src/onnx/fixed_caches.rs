//! Caches of a fixed size: a model writes what is new into them, and inputs say how much of them is filled. Where all sequences are filled
//! alike, such a model computes what one does whose caches have the filled rows only, and which appends to these. This is that model.

use super::branch;
use super::caches::{self, KvCache};
use super::dimensions::Size;
use super::element::ElementType;
use super::importer::normalized;
use super::loaded::Loaded;
use super::part::{Given, Givens};
use super::protobuf::{AttributeProto, GraphProto, NodeProto, attribute_type};
use super::tensor::Tensor;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};

/// What a number says of how much of a cache is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filled {
    /// Rows before the new ones.
    Before,
    /// The position of the last new row.
    Last,
    /// Rows with the new ones.
    After,
}

impl Filled {
    /// The number for so many rows before so many new ones.
    pub fn number(self, rows: usize, new: usize) -> i64 {
        rows as i64 + self.ahead(new)
    }

    /// The rows before so many new ones that a number says.
    pub fn rows(self, number: i64, new: usize) -> Option<usize> {
        usize::try_from(number.checked_sub(self.ahead(new))?).ok()
    }

    fn ahead(self, new: usize) -> i64 {
        match self {
            Filled::Before => 0,
            Filled::Last => new as i64 - 1,
            Filled::After => new as i64,
        }
    }
}

/// A model whose caches may have a fixed size, as one that appends to the filled rows.
#[derive(Debug)]
pub struct FixedCaches {
    pub graph: GraphProto,
    pub caches: Vec<KvCache>,
    /// By cache: whether its rows that are not filled are results as well, and stay what they are.
    pub keeps_rest: Vec<bool>,
    /// Values of the graph, by their names, that say how much is filled. The graph stands for the model where they all say the same.
    pub filled: Vec<(String, Filled)>,
    /// Inputs of the model that they are made of without a change, by their positions.
    pub counts: Vec<(usize, Filled)>,
    /// Whether all that says how much is filled are such inputs.
    pub are_inputs: bool,
    /// The input whose axis 1 are the new rows.
    pub tokens: usize,
}

/// The places of caches among a node's inputs, of their presents among its outputs, their axis, and of what says how much is filled.
struct Writer {
    pasts: &'static [(usize, usize)],
    axis: i64,
    counts: Vec<(usize, Filled)>,
}

pub(super) fn attribute(node: &NodeProto, name: &str) -> Option<i64> {
    node.attribute.iter().find(|attribute| attribute.name == name).and_then(|attribute| attribute.i)
}

pub(super) fn has(node: &NodeProto, input: usize) -> bool {
    node.input.get(input).is_some_and(|name| !name.is_empty())
}

/// Attention of com.microsoft that writes into caches when it is told to.
struct Sharing {
    /// As [`Writer::pasts`].
    pasts: &'static [(usize, usize)],
    axis: i64,
    /// The input that says how much is filled.
    count: usize,
    /// The one that says of which beam rows are.
    beams: Option<usize>,
}

fn sharing(node: &NodeProto) -> Option<Sharing> {
    match node.op_type.as_str() {
        "Attention" => Some(Sharing { pasts: &[(4, 1)], axis: 3, count: 6, beams: None }),
        "MultiHeadAttention" => Some(Sharing { pasts: &[(6, 1), (7, 2)], axis: 2, count: 8, beams: Some(9) }),
        "DecoderMaskedMultiHeadAttention" => Some(Sharing { pasts: &[(5, 1), (6, 2)], axis: 2, count: 7, beams: Some(9) }),
        _ => None,
    }
}

/// How a node writes into caches of a fixed size, if that can be an append.
fn writer(node: &NodeProto) -> Option<Writer> {
    let shows = |output: usize| node.output.get(output).is_some_and(|name| !name.is_empty());
    let writer = match (normalized(&node.domain), node.op_type.as_str()) {
        // A window that is followed drops rows.
        ("com.microsoft", "GroupQueryAttention") => {
            let is_set = |name: &str| attribute(node, name).unwrap_or(0) != 0;
            if is_set("sliding_window_cache") || shows(3) || has(node, 16) || !has(node, 6) {
                return None;
            }
            Writer { pasts: &[(3, 1), (4, 2)], axis: 2, counts: vec![(5, Filled::Last), (6, Filled::After)] }
        }
        ("com.microsoft", _) => {
            let Sharing { pasts, axis, count, beams } = sharing(node)?;
            // One of them is told so by the input alone.
            let is_shared =
                node.op_type == "MultiHeadAttention" || attribute(node, "past_present_share_buffer").unwrap_or(0) != 0;
            if !is_shared || shows(3) || beams.is_some_and(|beams| has(node, beams)) {
                return None;
            }
            Writer { pasts, axis, counts: vec![(count, Filled::Before)] }
        }
        ("", "TensorScatter") => {
            let mode = node.attribute.iter().find(|attribute| attribute.name == "mode").and_then(|mode| mode.s.as_ref());
            if mode.is_some_and(|mode| &mode[..] != b"linear") {
                return None;
            }
            Writer { pasts: &[(0, 0)], axis: attribute(node, "axis").unwrap_or(-2), counts: vec![(2, Filled::Before)] }
        }
        _ => return None,
    };
    let is_whole = writer.pasts.iter().all(|&(input, _)| has(node, input)) && writer.counts.iter().all(|&(at, _)| has(node, at));
    is_whole.then_some(writer)
}

/// The same node as one that appends.
fn appending(mut node: NodeProto) -> NodeProto {
    match node.op_type.as_str() {
        "TensorScatter" => {
            let axis = node.attribute.into_iter().filter(|attribute| attribute.name == "axis");
            node.attribute = axis.collect();
            if node.attribute.is_empty() {
                node.attribute.push(AttributeProto {
                    name: "axis".to_owned(),
                    i: Some(-2),
                    r#type: attribute_type::INT,
                    ..Default::default()
                });
            }
            node.op_type = "Concat".to_owned();
            node.input.truncate(2);
        }
        "GroupQueryAttention" => {}
        _ => {
            node.attribute.retain(|attribute| attribute.name != "past_present_share_buffer");
            if let Some(Sharing { count, .. }) = sharing(&node) {
                node.input[count].clear();
            }
        }
    }
    node
}

/// Whether the node looks at a cache of the standard's only as far as it is told to, and by which of its inputs.
fn lengths_input(node: &NodeProto, input: usize) -> Option<usize> {
    let shows = node.output.len() > 1 && node.output[1..].iter().any(|name| !name.is_empty());
    let is_standard = normalized(&node.domain).is_empty() && node.op_type == "Attention";
    (is_standard && matches!(input, 1 | 2) && has(node, 6) && !has(node, 4) && !has(node, 5) && !shows).then_some(6)
}

/// The model that appends; nothing for one whose caches cannot have a fixed size, or that looks at them otherwise.
///
/// # Errors
/// `TypeError` where the model has no graph.
pub fn find(loaded: &Loaded) -> Result<Option<FixedCaches>> {
    let graph = loaded.graph()?;
    // What a branch does is not looked into.
    if graph.node.iter().any(|node| !branch::graphs(node).is_empty()) {
        return Ok(None);
    }
    let inputs = loaded.inputs();
    let position = |name: &str| inputs.iter().position(|input| input.name == name);
    let makers = caches::makers(graph);
    let mut users: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    for (number, node) in graph.node.iter().enumerate() {
        for (input, name) in node.input.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            users.entry(name).or_default().push((number, input));
        }
    }
    let (mut found, mut keeps_rest) = (Vec::new(), Vec::new());
    let mut filled: BTreeMap<String, Filled> = BTreeMap::new();
    let mut tokens = ["input_ids", "decoder_input_ids", "inputs_embeds"].into_iter().find_map(position);
    let mut changed = graph.clone();
    for (number, node) in graph.node.iter().enumerate() {
        let Some(writer) = writer(node) else { continue };
        let is_scatter = node.op_type == "TensorScatter";
        for &(input, output) in writer.pasts {
            let past = &node.input[input];
            let Some(open) = inputs.iter().find(|open| open.name == *past) else { return Ok(None) };
            let rank = open.shape.len() as i64;
            let axis = if writer.axis < 0 { writer.axis + rank } else { writer.axis };
            let present = node.output.get(output).filter(|name| graph.output.iter().any(|info| info.name == **name));
            let (Some(present), true) = (present, (1..rank).contains(&axis)) else { return Ok(None) };
            let is_alone = users[past.as_str()].len() == 1 && !graph.output.iter().any(|info| info.name == *past);
            if !is_alone {
                return Ok(None);
            }
            for &(reader, input) in users.get(present.as_str()).into_iter().flatten() {
                let lengths = is_scatter.then(|| lengths_input(&graph.node[reader], input)).flatten();
                let Some(lengths) = lengths else { return Ok(None) };
                filled.insert(graph.node[reader].input[lengths].clone(), Filled::After);
            }
            // onnxruntime gives zeros there, unless past and present are one buffer.
            keeps_rest.push(node.op_type != "GroupQueryAttention");
            found.push(KvCache { past: past.clone(), present: present.clone(), axis: axis as usize });
        }
        for &(at, count) in &writer.counts {
            let is_other = filled.insert(node.input[at].clone(), count).is_some_and(|other| other != count);
            if is_other {
                return Ok(None);
            }
        }
        changed.node[number] = appending(node.clone());
        if tokens.is_none() && !is_scatter {
            tokens = position(caches::origin(&node.input[0], graph, &makers)).filter(|&at| inputs[at].shape.len() == 3);
        }
    }
    let (false, Some(tokens)) = (found.is_empty(), tokens) else { return Ok(None) };
    let counts = filled.iter().filter_map(|(name, &count)| Some((position(same_numbers(name, graph, &makers))?, count)));
    let counts: Vec<_> = counts.collect();
    let are_inputs = counts.len() == filled.len();
    Ok(Some(FixedCaches {
        graph: changed,
        caches: found,
        keeps_rest,
        filled: filled.into_iter().collect(),
        counts,
        are_inputs,
        tokens,
    }))
}

/// What a model is given for inputs of these shapes, of which those of caches may differ in their rows from what the file says.
///
/// # Errors
/// As [`Loaded::given`].
pub fn given(loaded: &Loaded, caches: &[KvCache], shapes: &[Vec<u32>]) -> Result<Givens> {
    let inputs = loaded.inputs();
    let mut declared = shapes.to_vec();
    let mut rows = Vec::new();
    for cache in caches {
        let Some(at) = inputs.iter().position(|input| input.name == cache.past) else { continue };
        if let (Some(Size::Known(size)), Some(found)) = (inputs[at].shape.get(cache.axis), declared[at].get_mut(cache.axis)) {
            *found = *size;
            rows.push(at);
        }
    }
    let mut givens = loaded.given(&declared)?;
    for at in rows {
        let (element, shape) = (inputs[at].element(), shapes[at].clone());
        let past = match shape.contains(&0) {
            true => {
                let shape = shape.iter().map(|&size| size as usize).collect();
                Given::Known(Tensor { element: inputs[at].data_type.into(), shape, bytes: Default::default() })
            }
            false => Given::Operand { element, shape },
        };
        givens.insert(inputs[at].name.clone(), past);
    }
    Ok(givens)
}

/// What a value is called before nodes that change its name, its type or its shape only.
pub(super) fn same_numbers<'a>(name: &'a str, graph: &'a GraphProto, makers: &HashMap<&str, (usize, usize)>) -> &'a str {
    let keeps = |node: &NodeProto| keeps_elements(node) || matches!(&node.op_type[..], "Reshape" | "Squeeze" | "Unsqueeze");
    before(name, graph, makers, keeps)
}

/// The same before nodes that change its name or its type only.
pub(super) fn same_elements<'a>(name: &'a str, graph: &'a GraphProto, makers: &HashMap<&str, (usize, usize)>) -> &'a str {
    before(name, graph, makers, keeps_elements)
}

/// Whether a node gives its operand another name, or another type that has all numbers of rows.
fn keeps_elements(node: &NodeProto) -> bool {
    let element = || attribute(node, "to").and_then(|to| ElementType::from_number(to).ok());
    node.op_type == "Identity" || node.op_type == "Cast" && element().is_some_and(|element| element.bits() >= 32)
}

fn before<'a>(
    mut name: &'a str,
    graph: &'a GraphProto,
    makers: &HashMap<&str, (usize, usize)>,
    keeps: impl Fn(&NodeProto) -> bool,
) -> &'a str {
    for _ in 0..caches::MOST_NESTED {
        match makers.get(name).map(|&(position, _)| &graph.node[position]) {
            Some(node) if keeps(node) && has(node, 0) => name = &node.input[0],
            _ => break,
        }
    }
    name
}
