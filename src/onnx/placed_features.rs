//! Models of embeddings that take features as well, and put them in the place of the tokens of some numbers, in their order: exporters write
//! `masked_scatter` for that, which becomes [`ScatterND`](https://onnx.ai/onnx/operators/onnx__ScatterND.html) to where `NonZero` finds these tokens,
//! perhaps in a branch of an `If` that is taken if there are any ([`choices`]). For all other tokens such a model makes what it makes without these
//! nodes, of the tokens alone. This is that model.

mod choices;
mod comparisons;
mod id_sets;

pub use id_sets::IdSet;

use super::bounds::Bounds;
use super::caches;
use super::element::ElementType;
use super::fixed_caches::{attribute, has};
use super::importer::normalized;
use super::loaded::Loaded;
use super::protobuf::{GraphProto, NodeProto};
use super::tensor::Tensor;
use crate::error::Result;
use crate::graph::DataType;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// Nodes that are followed one after the other.
const LONGEST: usize = 16;
/// Nodes that are looked at, with those that several others read.
const WORK: usize = 10_000;
/// Elements of constants that are looked at.
const FEW: usize = 64;
/// Between the names of an `If`, its branch and a value in this.
const SEPARATOR: char = '\0';

/// A model that puts features in the place of tokens, as one that takes tokens alone.
#[derive(Debug)]
pub struct PlacedFeatures {
    pub graph: GraphProto,
    /// The input of tokens, by its position.
    pub tokens: usize,
    pub placeholders: Vec<Placeholders>,
}

/// Tokens in whose place features are.
#[derive(Debug)]
pub struct Placeholders {
    pub tokens: IdSet,
    /// The value of the graph that says where these are: indices of the rows, or of all their elements, if a run says that they are whole.
    pub places: String,
}

/// What a model does with features.
#[derive(Debug)]
pub enum Found {
    Placed(PlacedFeatures),
    /// Something else, at this node, if it is one.
    Other(Option<String>),
}

/// The model without features, if it puts all that it takes in the place of tokens.
///
/// # Errors
/// `TypeError` where the model or a branch has no graph, `OperationError` where to look is too much work.
pub fn find(loaded: &Loaded, bounds: &Bounds) -> Result<Found> {
    let inputs = loaded.inputs();
    let is_ids = |data_type| matches!(data_type, DataType::Int64 | DataType::Int32);
    let mut all_ids = inputs.iter().enumerate().filter(|(_, input)| is_ids(input.data_type) && input.shape.len() == 2);
    let are_tensors = inputs.iter().all(|input| input.form.is_tensor() && input.default.is_none());
    let (Some((tokens, ids)), None, true) = (all_ids.next(), all_ids.next(), are_tensors) else { return Ok(Found::Other(None)) };
    let features: HashSet<&str> = inputs.iter().map(|input| input.name.as_str()).filter(|name| *name != ids.name).collect();
    let graph = match choices::resolved(loaded, &ids.name, &features, bounds)? {
        Ok(graph) => graph,
        Err(node) => return Ok(Found::Other(Some(node))),
    };
    let looking = Looking::new(loaded, &graph, &ids.name, &features);
    let (mut changed, mut placeholders): (_, Vec<Placeholders>) = (graph.clone(), Vec::new());
    let mut stops = Vec::with_capacity(graph.output.len());
    for output in &graph.output {
        let mut name = output.name.as_str();
        for _ in 0..LONGEST {
            let Some((number, node)) = looking.own_maker(name) else { break };
            if is(node, "ScatterND") {
                // Of tokens that two inputs have features for it would matter which ones come later.
                let is_new = |tokens: &IdSet| placeholders.iter().all(|other| other.tokens.and(tokens).is_empty());
                let Some((tokens, _)) = looking.placeholders(node).filter(|(tokens, _)| is_new(tokens)) else { break };
                placeholders.push(Placeholders { tokens, places: node.input[1].clone() });
                changed.node[number] = renaming(node);
            } else if !is(node, "Identity") {
                break;
            }
            name = &node.input[0];
        }
        stops.push((&output.name, name));
    }
    let other = stops.into_iter().find(|(output, _)| reads(&changed, output, &features));
    Ok(match other {
        None if !placeholders.is_empty() => Found::Placed(PlacedFeatures { graph: changed, tokens, placeholders }),
        other => Found::Other(other.and_then(|(_, stop)| looking.maker(stop)).map(|(_, node)| label(node))),
    })
}

fn is_standard(node: &NodeProto) -> bool {
    normalized(&node.domain).is_empty()
}

fn is(node: &NodeProto, operator: &str) -> bool {
    is_standard(node) && node.op_type == operator && has(node, 0)
}

/// What a node is called in messages.
fn label(node: &NodeProto) -> String {
    let name = if node.name.is_empty() { node.output.first() } else { Some(&node.name) };
    let name = name.and_then(|name| name.rsplit(SEPARATOR).next()).unwrap_or_default();
    format!("{} {name:?}", node.op_type)
}

/// A node that gives the first operand of another one the name of its result.
fn renaming(node: &NodeProto) -> NodeProto {
    identity(&node.input[0], &node.output[0], &node.name)
}

fn identity(input: &str, output: &str, name: &str) -> NodeProto {
    let (input, output) = (vec![input.to_owned()], vec![output.to_owned()]);
    NodeProto { input, output, name: name.to_owned(), op_type: "Identity".to_owned(), ..Default::default() }
}

/// Whether an output of a graph is made of some of these values.
fn reads<'a>(graph: &'a GraphProto, output: &'a str, values: &HashSet<&str>) -> bool {
    let makers = caches::makers(graph);
    let (mut left, mut seen) = (vec![output], HashSet::from([output]));
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
    /// What may still be looked at.
    work: Cell<usize>,
}

impl<'a> Looking<'a> {
    fn new(loaded: &'a Loaded, graph: &'a GraphProto, ids: &'a str, features: &'a HashSet<&'a str>) -> Looking<'a> {
        Looking { loaded, graph, makers: caches::makers(graph), ids, features, work: Cell::new(WORK) }
    }

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

    /// The tokens in whose place a node puts the rows of features, in their order, and the input of these.
    fn placeholders(&self, node: &'a NodeProto) -> Option<(IdSet, &'a str)> {
        let [_, places, rows] = &node.input[..] else { return None };
        let adds =
            node.attribute.iter().any(|attribute| attribute.name == "reduction" && attribute.s.as_deref() != Some(b"none"));
        let features = self.rows_of(rows).filter(|name| !adds && self.features.contains(name))?;
        // Both those that are and those that are none are looked for by a run.
        let tokens = self.tokens_at(places)?;
        (!tokens.is_empty() && !tokens.not().is_empty()).then_some((tokens, features))
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

    /// The tokens of whose places these are all, one after the other: what `NonZero` finds in a mask that each token has alone, or that is there
    /// for elements of each row.
    fn tokens_at(&self, mut name: &'a str) -> Option<IdSet> {
        let (mut is_turned, mut is_found, mut is_expanded, mut is_deeper) = (false, false, false, false);
        for _ in 0..LONGEST {
            if is_found
                && is_turned
                && (is_deeper || !is_expanded)
                && let Some(tokens) = self.tokens_of(name)
            {
                return Some(tokens);
            }
            let (_, node) = self.maker(name)?;
            if !is(node, &node.op_type) {
                return None;
            }
            match node.op_type.as_str() {
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
            // Weights stay in their file.
            let count = proto.dims.iter().try_fold(1, |count: usize, &size| count.checked_mul(usize::try_from(size).ok()?));
            count.filter(|count| *count <= FEW)?;
            return Tensor::from_proto(proto, &self.loaded.model).ok();
        }
        let (_, node) = self.maker(name).filter(|(_, node)| normalized(&node.domain).is_empty() && node.op_type == "Constant")?;
        let several = node.attribute.iter().find(|attribute| attribute.name == "value_ints").map(|all| all.ints.clone());
        let numbers = several.or_else(|| attribute(node, "value_int").map(|one| vec![one]))?;
        let shape = if attribute(node, "value_int").is_some() { vec![] } else { vec![numbers.len()] };
        Some(Tensor::from_integers(ElementType::Int64, shape, &numbers))
    }
}
