//! Models of embeddings that take features as well, and put them in the place of the tokens of one number, in their order: exporters write
//! `masked_scatter` for that, which becomes [`ScatterND`](https://onnx.ai/onnx/operators/onnx__ScatterND.html) to where `NonZero` finds this token. For
//! all other tokens such a model makes what it makes without these nodes, of the tokens alone. This is that model.

use super::branch;
use super::caches;
use super::element::ElementType;
use super::fixed_caches::{attribute, has, same_elements};
use super::importer::normalized;
use super::loaded::Loaded;
use super::protobuf::{GraphProto, NodeProto};
use super::tensor::Tensor;
use crate::error::Result;
use crate::graph::DataType;
use std::collections::{HashMap, HashSet};

/// Nodes that are followed one after the other.
const LONGEST: usize = 16;

/// A model that puts features in the place of tokens, as one that takes tokens alone.
#[derive(Debug)]
pub struct PlacedFeatures {
    pub graph: GraphProto,
    /// The input of tokens, by its position.
    pub tokens: usize,
    /// In whose place features are, and the values of the graph that say where these are: indices of the rows, or of all their elements, if a run
    /// says that they are whole.
    pub placeholders: Vec<(i64, String)>,
}

/// The model without features; nothing for one that does something else with them, or that takes none.
///
/// # Errors
/// `TypeError` where the model has no graph.
pub fn find(loaded: &Loaded) -> Result<Option<PlacedFeatures>> {
    let graph = loaded.graph()?;
    // What a branch does is not looked into.
    let has_branches = graph.node.iter().any(|node| !branch::graphs(node).is_empty());
    let inputs = loaded.inputs();
    let is_ids = |data_type| matches!(data_type, DataType::Int64 | DataType::Int32);
    let mut all_ids = inputs.iter().enumerate().filter(|(_, input)| is_ids(input.data_type) && input.shape.len() == 2);
    let (Some((tokens, ids)), None, false) = (all_ids.next(), all_ids.next(), has_branches) else { return Ok(None) };
    let are_tensors = inputs.iter().all(|input| input.form.is_tensor() && input.default.is_none());
    let features: HashSet<&str> = inputs.iter().map(|input| input.name.as_str()).filter(|name| *name != ids.name).collect();
    let looking = Looking { loaded, graph, makers: caches::makers(graph), ids: &ids.name, features: &features };
    let (mut changed, mut placeholders) = (graph.clone(), Vec::new());
    for output in &graph.output {
        let mut name = output.name.as_str();
        for _ in 0..LONGEST {
            let Some((number, node)) = looking.own_maker(name) else { break };
            if is(node, "ScatterND") {
                let Some(token) = looking.placeholder(node) else { break };
                placeholders.push((token, node.input[1].clone()));
                changed.node[number] = renaming(node);
            } else if !is(node, "Identity") {
                break;
            }
            name = &node.input[0];
        }
    }
    let is_whole = are_tensors && !placeholders.is_empty() && !reads(&changed, &features);
    Ok(is_whole.then_some(PlacedFeatures { graph: changed, tokens, placeholders }))
}

fn is(node: &NodeProto, operator: &str) -> bool {
    normalized(&node.domain).is_empty() && node.op_type == operator && has(node, 0)
}

/// A node that gives the first operand of another one the name of its result.
fn renaming(node: &NodeProto) -> NodeProto {
    let (input, output) = (vec![node.input[0].clone()], vec![node.output[0].clone()]);
    NodeProto { input, output, name: node.name.clone(), op_type: "Identity".to_owned(), ..Default::default() }
}

/// Whether the outputs of a graph are made of some of these values.
fn reads(graph: &GraphProto, values: &HashSet<&str>) -> bool {
    let makers = caches::makers(graph);
    let mut left: Vec<&str> = graph.output.iter().map(|output| output.name.as_str()).collect();
    let mut seen: HashSet<&str> = left.iter().copied().collect();
    while let Some(name) = left.pop() {
        if values.contains(name) {
            return true;
        }
        let inputs = makers.get(name).map(|&(node, _)| &graph.node[node].input);
        left.extend(inputs.into_iter().flatten().map(String::as_str).filter(|input| seen.insert(input)));
    }
    false
}

/// A graph in which features are looked for.
struct Looking<'a> {
    loaded: &'a Loaded,
    graph: &'a GraphProto,
    makers: HashMap<&'a str, (usize, usize)>,
    ids: &'a str,
    features: &'a HashSet<&'a str>,
}

impl<'a> Looking<'a> {
    fn maker(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        let &(number, output) = self.makers.get(name)?;
        (output == 0).then_some((number, &self.graph.node[number]))
    }

    /// What makes a value that nobody else needs.
    fn own_maker(&self, name: &str) -> Option<(usize, &'a NodeProto)> {
        let uses = self.graph.node.iter().flat_map(|node| &node.input).filter(|input| *input == name).count();
        let shown = self.graph.output.iter().filter(|output| output.name == name).count();
        self.maker(name).filter(|_| uses + shown == 1)
    }

    /// The token in whose places a node puts the rows of features, in their order.
    fn placeholder(&self, node: &NodeProto) -> Option<i64> {
        let [_, places, rows] = &node.input[..] else { return None };
        let adds =
            node.attribute.iter().any(|attribute| attribute.name == "reduction" && attribute.s.as_deref() != Some(b"none"));
        let is_features = !adds && self.features.contains(self.rows_of(rows)?);
        if is_features { self.token_at(places) } else { None }
    }

    /// The input of which rows are the first ones, in the order of its elements.
    fn rows_of(&self, mut name: &'a str) -> Option<&'a str> {
        for _ in 0..LONGEST {
            let Some((_, node)) = self.maker(name) else { return Some(name) };
            let keeps = ["Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"].iter().any(|operator| is(node, operator));
            if !(keeps || is(node, "Slice") && self.is_beginning(node)) {
                return None;
            }
            name = &node.input[0];
        }
        None
    }

    /// Whether a node takes what comes first along the first axis.
    fn is_beginning(&self, node: &NodeProto) -> bool {
        let is = |input: usize, expected: i64| node.input.get(input).and_then(|name| self.integers(name)) == Some(vec![expected]);
        is(1, 0) && (!has(node, 3) || is(3, 0)) && (!has(node, 4) || is(4, 1))
    }

    /// The token of whose places these are all, one after the other: what `NonZero` finds in a comparison that each token has alone, or that is
    /// there for elements of each row.
    fn token_at(&self, mut name: &'a str) -> Option<i64> {
        let (mut is_turned, mut is_found, mut is_expanded, mut is_deeper) = (false, false, false, false);
        for _ in 0..LONGEST {
            let (_, node) = self.maker(name)?;
            if !is(node, &node.op_type) {
                return None;
            }
            match node.op_type.as_str() {
                "Equal" if is_found && is_turned && (is_deeper || !is_expanded) => return self.compared(node),
                "Identity" | "Cast" => {}
                "Transpose" if !is_found && !is_turned => {
                    let order = node.attribute.iter().find(|attribute| attribute.name == "perm");
                    is_turned = order.is_none_or(|order| order.ints == [1, 0]);
                }
                "NonZero" if !is_found => is_found = true,
                // Only of what has an axis for the elements: others would be broadcast along it.
                "Expand" if is_found && !is_deeper => is_expanded = true,
                "Unsqueeze" if is_found && !is_deeper && matches!(self.axes(node)?[..], [-1 | 2]) => is_deeper = true,
                _ => return None,
            }
            name = &node.input[0];
        }
        None
    }

    /// The token with which all are compared.
    fn compared(&self, node: &NodeProto) -> Option<i64> {
        let [a, b] = &node.input[..] else { return None };
        let is_ids = |name: &str| same_elements(name, self.graph, &self.makers) == self.ids;
        let other = if is_ids(a) { b } else { Some(a).filter(|_| is_ids(b))? };
        match self.constant(other)? {
            token if token.shape.len() <= 2 && matches!(token.element, ElementType::Int32 | ElementType::Int64) => {
                <[i64; 1]>::try_from(token.integers()).ok().map(|[token]| token)
            }
            _ => None,
        }
    }

    fn axes(&self, node: &NodeProto) -> Option<Vec<i64>> {
        match node.input.get(1) {
            Some(axes) => self.integers(axes),
            None => node.attribute.iter().find(|attribute| attribute.name == "axes").map(|axes| axes.ints.clone()),
        }
    }

    fn integers(&self, name: &str) -> Option<Vec<i64>> {
        self.constant(name).map(|tensor| tensor.integers())
    }

    /// A value that no run changes.
    fn constant(&self, name: &str) -> Option<Tensor> {
        if self.loaded.inputs().iter().any(|input| input.name == name) {
            return None;
        }
        let own = self.graph.initializer.iter().find(|tensor| tensor.name == name);
        let made = || {
            let (_, node) =
                self.maker(name).filter(|(_, node)| normalized(&node.domain).is_empty() && node.op_type == "Constant")?;
            node.attribute.iter().find(|attribute| attribute.name == "value")?.t.as_deref()
        };
        if let Some(proto) = own.or_else(made) {
            return Tensor::from_proto(proto, &self.loaded.model).ok();
        }
        let (_, node) = self.maker(name).filter(|(_, node)| normalized(&node.domain).is_empty() && node.op_type == "Constant")?;
        let several = node.attribute.iter().find(|attribute| attribute.name == "value_ints").map(|all| all.ints.clone());
        let numbers = several.or_else(|| attribute(node, "value_int").map(|one| vec![one]))?;
        let shape = if attribute(node, "value_int").is_some() { vec![] } else { vec![numbers.len()] };
        Some(Tensor::from_integers(ElementType::Int64, shape, &numbers))
    }
}
