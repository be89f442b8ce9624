//! Models that look whether there are features, or tokens in whose place they are, before they put them there: an `If` with the embeddings of
//! the tokens in one branch, and with features in their places in the other. Without features nothing is put anywhere, so the other branch
//! gives what the first one does: it stands for both.

use super::comparisons::number;
use super::id_sets::IdSet;
use super::{LONGEST, Looking, SEPARATOR, WORK, identity, is, is_standard, label};
use crate::error::Result;
use crate::onnx::bounds::Bounds;
use crate::onnx::branch;
use crate::onnx::caches;
use crate::onnx::element::ElementType;
use crate::onnx::fixed_caches::{attribute, has};
use crate::onnx::fold::Folding;
use crate::onnx::importer::normalized;
use crate::onnx::loaded::Loaded;
use crate::onnx::protobuf::{GraphProto, NodeProto, TensorProto};
use crate::onnx::structure::malformed;
use prost::Message;
use std::collections::{HashMap, HashSet};

/// Choices of a model.
const MOST: usize = 8;
/// Bytes of nodes and constants that are compared: weights stay in their file.
const SMALL: usize = 4096;
/// The number of the type of truth values.
const BOOL: i64 = 9;

/// The graph of a model without such choices, or the name of a node that is another one.
///
/// # Errors
/// As [`branch::decode`].
pub(super) fn resolved(
    loaded: &Loaded,
    ids: &str,
    features: &HashSet<&str>,
    bounds: &Bounds,
) -> Result<Result<GraphProto, String>> {
    let mut folding = Folding::within(bounds.work(&loaded.model));
    let mut graph = loaded.graph()?.clone();
    for _ in 0..=MOST {
        let Some(position) = graph.node.iter().position(|node| !branch::graphs(node).is_empty()) else { return Ok(Ok(graph)) };
        let Some(inlined) = inlined(&graph, position, &mut folding)? else { break };
        // Both branches, to be compared.
        let mut both = graph.clone();
        let nodes = inlined.iter().flat_map(|branch| branch.nodes.iter().cloned());
        both.node.splice(position..=position, nodes);
        both.initializer.extend(inlined.iter().flat_map(|branch| branch.initializers.iter().cloned()));
        let node = graph.node[position].clone();
        let looking = Looking::new(loaded, &both, ids, features);
        let Some(placing) = looking.placing(&node, &inlined) else { break };
        let Branch { mut nodes, initializers, result } = inlined.into_iter().nth(placing).unwrap_or_default();
        nodes.push(identity(&result, &node.output[0], &node.name));
        graph.node.splice(position..=position, nodes);
        graph.initializer.extend(initializers);
    }
    let other = graph.node.iter().find(|node| !branch::graphs(node).is_empty()).map(label);
    Ok(other.map_or(Ok(graph), Err))
}

/// A branch with names that nothing else has.
#[derive(Default)]
struct Branch {
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    result: String,
}

/// The two branches of a node, the first one for what is true; nothing for another node.
fn inlined(graph: &GraphProto, position: usize, folding: &mut Folding) -> Result<Option<[Branch; 2]>> {
    let node = &graph.node[position];
    if !is(node, "If") || node.output.len() != 1 {
        return Ok(None);
    }
    let makers = caches::makers(graph);
    let around = graph.initializer.iter().map(|tensor| &tensor.name).chain(graph.input.iter().map(|info| &info.name));
    let around: HashSet<&str> = around.map(String::as_str).chain(makers.into_keys()).collect();
    let mut branches = [Branch::default(), Branch::default()];
    for (name, branch) in branch::graphs(node).iter().zip(&mut branches) {
        let own = branch::decode(node, name, folding)?;
        let ([output], true, true) = (&own.output[..], own.input.is_empty(), own.sparse_initializer.is_empty()) else {
            return Ok(None);
        };
        let made = own.node.iter().flat_map(|node| &node.output).chain(own.initializer.iter().map(|tensor| &tensor.name));
        let new = |made: &String| (made.clone(), format!("{}{SEPARATOR}{name}{SEPARATOR}{made}", node.output[0]));
        let names: HashMap<String, String> = made.filter(|made| !made.is_empty()).map(new).collect();
        // Not even the branches may have values of the same names as the graph around them.
        if names.keys().any(|name| around.contains(name.as_str())) {
            return Ok(None);
        }
        let renamed = |name: &String| names.get(name).unwrap_or(name).clone();
        branch.result = renamed(&output.name);
        branch.initializers.clone_from(&own.initializer);
        branch.initializers.iter_mut().for_each(|tensor| tensor.name = renamed(&tensor.name));
        for mut node in own.node {
            rename(&mut node, &names, folding, 0)?;
            branch.nodes.push(node);
        }
    }
    Ok(Some(branches))
}

/// Gives values other names, also where the graphs of a node read them.
fn rename(node: &mut NodeProto, names: &HashMap<String, String>, folding: &mut Folding, depth: usize) -> Result<()> {
    if depth > LONGEST {
        return Err(malformed("branches that are nested too deep"));
    }
    for name in node.input.iter_mut().chain(&mut node.output) {
        if let Some(new) = names.get(name) {
            name.clone_from(new);
        }
    }
    for name in branch::graphs(node) {
        let mut graph = branch::decode(node, name, folding)?;
        // What a graph makes itself has its own name.
        let own = graph.node.iter().flat_map(|node| &node.output).chain(graph.initializer.iter().map(|tensor| &tensor.name));
        let own: HashSet<&String> = own.chain(graph.input.iter().map(|info| &info.name)).collect();
        let others = names.iter().filter(|(old, _)| !own.contains(old));
        let others: HashMap<String, String> = others.map(|(old, new)| (old.clone(), new.clone())).collect();
        for inner in &mut graph.node {
            rename(inner, &others, folding, depth + 1)?;
        }
        for output in &mut graph.output {
            if let Some(new) = others.get(&output.name) {
                output.name.clone_from(new);
            }
        }
        let attribute = node.attribute.iter_mut().find(|attribute| attribute.name == *name);
        attribute.into_iter().for_each(|attribute| attribute.g = Some(graph.encode_to_vec().into()));
    }
    Ok(())
}

/// What there may be, or not.
#[derive(Debug)]
enum Thing<'a> {
    Features(&'a str),
    Tokens(IdSet),
}

impl<'a> Looking<'a> {
    /// The branch that puts features somewhere, if it is taken whenever it has some to put there, and otherwise gives what the other one does.
    fn placing(&self, node: &'a NodeProto, branches: &'a [Branch; 2]) -> Option<usize> {
        let (thing, is_true) = self.condition(&node.input[0])?;
        let placing = usize::from(!is_true);
        let (mut name, mut has_places) = (branches[placing].result.as_str(), false);
        for _ in 0..LONGEST {
            let Some((_, node)) = self.maker(name) else { break };
            if is(node, "ScatterND") {
                let Some((tokens, features)) = self.placeholders(node) else { break };
                let is_covered = match &thing {
                    Thing::Features(name) => *name == features,
                    Thing::Tokens(all) => tokens.is_within(all),
                };
                if !is_covered {
                    break;
                }
                has_places = true;
            } else if !is(node, "Identity") {
                break;
            }
            name = &node.input[0];
        }
        (has_places && self.is_same(name, &branches[1 - placing].result)).then_some(placing)
    }

    /// What a truth value is where there are features, or tokens of some numbers.
    fn condition(&self, mut name: &'a str) -> Option<(Thing<'a>, bool)> {
        let mut is_true = true;
        for _ in 0..LONGEST {
            let (_, node) = self.maker(name).filter(|(_, node)| is_standard(node))?;
            match node.op_type.as_str() {
                "Not" => is_true = !is_true,
                "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" => {}
                "Cast" if attribute(node, "to") == Some(BOOL) => {
                    if let Some(thing) = self.count(&node.input[0]) {
                        return Some((thing, is_true));
                    }
                }
                "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" => {
                    let (thing, is) = self.comparison(node)?;
                    return Some((thing, is == is_true));
                }
                _ => return None,
            }
            name = node.input.first()?;
        }
        None
    }

    /// What a comparison gives where a number is at least 1.
    fn comparison(&self, node: &'a NodeProto) -> Option<(Thing<'a>, bool)> {
        let [a, b] = &node.input[..] else { return None };
        let (thing, other, is_first) = match (self.count(a), self.count(b)) {
            (Some(thing), None) => (thing, b, true),
            (None, Some(thing)) => (thing, a, false),
            _ => return None,
        };
        let other = self.constant(other).as_ref().and_then(number)?;
        let is_true = match (node.op_type.as_str(), is_first) {
            ("Equal", _) if other <= 0 => false,
            ("Greater", true) | ("Less", false) if other <= 0 => true,
            ("GreaterOrEqual", true) | ("LessOrEqual", false) if other <= 1 => true,
            ("Less", true) | ("Greater", false) if other <= 1 => false,
            ("LessOrEqual", true) | ("GreaterOrEqual", false) if other <= 0 => false,
            _ => return None,
        };
        Some((thing, is_true))
    }

    /// What there is where a number is at least 1.
    fn count(&self, mut name: &'a str) -> Option<Thing<'a>> {
        for _ in 0..LONGEST {
            let (_, node) = self.maker(name).filter(|(_, node)| is_standard(node))?;
            let input = node.input.first()?;
            match node.op_type.as_str() {
                "Identity" | "Squeeze" | "Unsqueeze" | "Reshape" => {}
                // Sizes fit into all of these.
                "Cast" => {
                    let element = ElementType::from_number(attribute(node, "to")?).ok()?;
                    let holds = [ElementType::Int32, ElementType::Int64, ElementType::Float, ElementType::Double];
                    holds.contains(&element).then_some(())?;
                }
                // What has elements has a size of at least 1 along each axis.
                "Size" | "Shape" => return self.thing(input),
                "Gather" | "Slice" | "ReduceProd" => {
                    self.maker(input).filter(|(_, maker)| is(maker, "Shape"))?;
                }
                "ReduceSum" | "ReduceMax" => {
                    let of_all = !has(node, 1) && node.attribute.iter().all(|attribute| attribute.name == "keepdims");
                    return self.tokens_of(input).filter(|_| of_all).map(Thing::Tokens);
                }
                _ => return None,
            }
            name = input;
        }
        None
    }

    /// What there is where a value has elements.
    fn thing(&self, mut name: &'a str) -> Option<Thing<'a>> {
        for _ in 0..LONGEST {
            if self.features.contains(name) {
                return Some(Thing::Features(name));
            }
            let (_, node) = self.maker(name).filter(|(_, node)| is_standard(node))?;
            let input = node.input.first()?;
            match node.op_type.as_str() {
                "Identity" | "Cast" | "Flatten" | "Reshape" | "Squeeze" | "Transpose" | "Unsqueeze" => name = input,
                "NonZero" => return self.tokens_of(input).map(Thing::Tokens),
                _ => return None,
            }
        }
        None
    }

    /// Whether two values are made in the same way.
    fn is_same(&self, one: &'a str, other: &'a str) -> bool {
        let (mut left, mut seen) = (vec![(one, other)], HashSet::new());
        while let Some(pair) = left.pop() {
            let (one, other) = (self.before_names(pair.0), self.before_names(pair.1));
            if one == other || !seen.insert((one, other)) {
                continue;
            }
            let initializer = |name: &str| self.graph.initializer.iter().find(|tensor| tensor.name == name);
            if let (Some(a), Some(b)) = (initializer(one), initializer(other)) {
                let unnamed = |tensor: &TensorProto| TensorProto { name: String::new(), ..tensor.clone() };
                if a.encoded_len() > SMALL || unnamed(a) != unnamed(b) {
                    return false;
                }
                continue;
            }
            let (Some(&(a, of_a)), Some(&(b, of_b))) = (self.makers.get(one), self.makers.get(other)) else { return false };
            let (a, b) = (&self.graph.node[a], &self.graph.node[b]);
            let is_alike = is_repeatable(a)
                && a.encoded_len() <= SMALL
                && (&a.domain, &a.op_type, &a.attribute) == (&b.domain, &b.op_type, &b.attribute)
                && (of_a, a.input.len()) == (of_b, b.input.len());
            if !is_alike || a.input.iter().zip(&b.input).any(|(a, b)| a.is_empty() != b.is_empty()) || seen.len() > WORK {
                return false;
            }
            left.extend(a.input.iter().zip(&b.input).map(|(a, b)| (a.as_str(), b.as_str())));
        }
        true
    }

    /// What a value is called before nodes that only give it another name.
    fn before_names(&self, mut name: &'a str) -> &'a str {
        for _ in 0..LONGEST {
            match self.maker(name) {
                Some((_, node)) if is(node, "Identity") => name = &node.input[0],
                _ => break,
            }
        }
        name
    }
}

/// Whether a node gives the same each time.
fn is_repeatable(node: &NodeProto) -> bool {
    let is_known = is_standard(node) || normalized(&node.domain) == "com.microsoft";
    let by_chance =
        ["Bernoulli", "Dropout", "Multinomial"].contains(&node.op_type.as_str()) || node.op_type.starts_with("Random");
    is_known && !by_chance && branch::graphs(node).is_empty()
}
