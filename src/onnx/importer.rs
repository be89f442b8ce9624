//! The walk over a model's nodes.

use super::bounds::{Bounds, NODE};
use super::branch;
use super::dimensions::{self, Dimension, Signature};
use super::emit::{Emit, Short};
use super::file::Model;
use super::fixed::Fixed;
use super::fold::Folding;
use super::node::Node;
use super::order::order;
use super::protobuf::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use super::refusal::{ImportError, Reason, RefusedNode};
use super::structure::{self, malformed};
use super::tensor::Tensor;
use super::value::Value;
use super::{OPSETS, ops};
use crate::error::{Error, Kind, Result};
use crate::graph::ops::elementwise::{Unary, UnaryKind};
use crate::graph::{Descriptor, Graph, GraphBuilder, Limits, OperandId, Source};
use bytes::Bytes;
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Functions of a model may call each other this deep, and expand to this many nodes.
const MOST_NESTED: usize = 32;
const MOST_NODES: usize = 1 << 20;

/// A model as a graph.
#[derive(Debug)]
pub struct Imported {
    pub graph: Graph,
    /// In the order of the file.
    pub inputs: Vec<Input>,
    pub outputs: Vec<Signature>,
    /// What the graph may take.
    pub most_bytes: usize,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub signature: Signature,
    /// Whether the graph has it: no output may need it, or it may be empty.
    pub used: bool,
    /// What it is where a run does not pass it, of an initializer that can be overridden.
    pub default: Option<Bytes>,
}

/// Decodes a model.
///
/// # Errors
/// `TypeError` when it is no protobuf message, or has no graph.
pub(super) fn decode(model: &Model) -> Result<ModelProto> {
    structure::check(&model.bytes)?;
    let decoded = ModelProto::decode(model.bytes.clone()).map_err(malformed)?;
    if decoded.graph.is_none() {
        return Err(malformed("it has no graph"));
    }
    Ok(decoded)
}

/// Maps a model to a WebNN graph.
///
/// # Errors
/// [`ImportError::Model`] when the file is no valid model, leaves dimensions open that `fixed` does not give, or asks for too much,
/// [`ImportError::Nodes`] with all nodes that cannot be mapped.
pub fn import(model: &Model, limits: &Arc<Limits>, fixed: &Fixed, bounds: &Bounds) -> Result<Imported, ImportError> {
    let decoded = decode(model)?;
    let graph = decoded.graph.as_ref().ok_or_else(|| malformed("it has no graph"))?;
    let opsets = opsets(&decoded.opset_import)?;
    let mut importer = Importer {
        model,
        functions: functions(&decoded.functions)?,
        builder: GraphBuilder::new(limits.clone()),
        folding: Folding::within(bounds.work(model)),
        short: Short::new(),
        defaults: HashMap::new(),
        refused: Vec::new(),
        nodes: 0,
    };
    let mut values = HashMap::new();
    for (name, tensor) in importer.initializers(graph)? {
        if name.is_empty() || values.insert(name, Found::Value(tensor.into())).is_some() {
            return Err(malformed(format!("two initializers, or none, with the name {name:?}")).into());
        }
    }
    let inputs = importer.inputs(graph, &mut values, fixed)?;
    let scope = Scope { opsets: &opsets, prefix: "", depth: 0 };
    let wanted: Vec<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
    importer.run(&graph.node, &wanted, &mut values, &scope)?;
    if !importer.refused.is_empty() {
        return Err(ImportError::Nodes(importer.refused));
    }
    let mut imported = importer.finish(&wanted, &values, inputs)?;
    let of_inputs = imported.graph.inputs.iter().map(|(_, id)| imported.graph.descriptor(*id).byte_length());
    imported.most_bytes = bounds.bytes(model, of_inputs.fold(0, usize::saturating_add));
    let of_inputs = imported.inputs.iter_mut().map(|input| &mut input.signature);
    for (signatures, infos) in
        [(of_inputs.collect(), &graph.input), (imported.outputs.iter_mut().collect::<Vec<_>>(), &graph.output)]
    {
        name_element_types(signatures, infos);
    }
    Ok(imported)
}

/// Several element types become one data type; the file says which one it was.
fn name_element_types(signatures: Vec<&mut Signature>, infos: &[ValueInfoProto]) {
    let infos: HashMap<&str, &ValueInfoProto> = infos.iter().map(|info| (info.name.as_str(), info)).collect();
    for signature in signatures {
        let info = infos.get(signature.name.as_str());
        if let Some(element) = info.and_then(|info| dimensions::element_type(info, signature.data_type)) {
            signature.element_type = element;
        }
    }
}

/// The versions of the operator sets, by domain.
fn opsets(imports: &[OperatorSetIdProto]) -> Result<HashMap<String, i64>> {
    let mut versions = HashMap::new();
    for import in imports {
        versions.insert(normalized(&import.domain).to_owned(), import.version);
    }
    if let Some(version) = versions.get("").filter(|version| !OPSETS.contains(version)) {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        return Err(Error::new(
            Kind::NotSupported,
            format!("the model uses version {version} of the standard operators; {first} to {last} are supported"),
        ));
    }
    Ok(versions)
}

/// The standard domain has two names.
pub(super) fn normalized(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Each with what it takes to copy its nodes.
type Functions<'a> = HashMap<(&'a str, &'a str, &'a str), (&'a FunctionProto, usize)>;

fn functions(list: &[FunctionProto]) -> Result<Functions<'_>> {
    let mut functions = HashMap::new();
    for function in list {
        let key = (normalized(&function.domain), function.name.as_str(), function.overload.as_str());
        // A call makes tables and names for itself.
        let cost = function.encoded_len().saturating_add(function.node.len().saturating_add(8).saturating_mul(NODE));
        if functions.insert(key, (function, cost)).is_some() {
            return Err(malformed(format!("two functions with the name {:?}", function.name)));
        }
    }
    Ok(functions)
}

/// Operators that take integers of 16 bits, besides those that move them.
const TAKES_SHORT: [&str; 5] = ["Cast", "DequantizeLinear", "QuantizeLinear", "Shape", "Size"];

/// Whether the outputs of a node are elements of its inputs.
fn moves(node: &Node<'_>) -> bool {
    const MOVE: [&str; 14] = [
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ];
    node.proto.domain.is_empty() && MOVE.contains(&node.operator())
}

/// What a name stands for.
#[derive(Clone)]
enum Found {
    Value(Value),
    /// The output of a node that could not be mapped.
    Refused,
}

type Values<'a> = HashMap<&'a str, Found>;

/// The graph or function whose nodes are mapped.
struct Scope<'a> {
    opsets: &'a HashMap<String, i64>,
    /// Stands before the names of nodes.
    prefix: &'a str,
    depth: usize,
}

struct Importer<'a> {
    model: &'a Model,
    functions: Functions<'a>,
    builder: GraphBuilder,
    folding: Folding,
    short: Short,
    /// Of inputs that need not be passed.
    defaults: HashMap<String, Bytes>,
    refused: Vec<RefusedNode>,
    nodes: usize,
}

impl<'a> Importer<'a> {
    /// The initializers of a graph, dense and sparse, by their names.
    fn initializers<'g>(&mut self, graph: &'g GraphProto) -> Result<Vec<(&'g str, Tensor)>> {
        let mut all = Vec::new();
        for proto in &graph.initializer {
            all.push((proto.name.as_str(), Tensor::from_proto(proto, self.model)?));
        }
        for proto in &graph.sparse_initializer {
            let tensor = Tensor::from_sparse(proto, self.model, |bytes| self.folding.charge(bytes))?;
            all.push((proto.values.as_ref().map_or("", |values| values.name.as_str()), tensor));
        }
        Ok(all)
    }

    fn inputs(&mut self, graph: &'a GraphProto, values: &mut Values<'a>, fixed: &Fixed) -> Result<Vec<Signature>> {
        let overridden = self.override_initializers(graph, values, fixed)?;
        let mut inputs = dimensions::inputs(graph, &|name| values.contains_key(name))?;
        for (name, _, dimensions) in &mut inputs {
            if let Some(shape) = overridden.get(name.as_str()) {
                *dimensions = shape.clone();
            }
        }
        let inputs = dimensions::fix(inputs, &fixed.sizes)?;
        fixed.check_names(&inputs)?;
        let by_name: HashMap<&str, &Signature> = inputs.iter().map(|input| (input.name.as_str(), input)).collect();
        for info in &graph.input {
            let Some(&input) = by_name.get(info.name.as_str()) else { continue };
            let value = if let Some(tensor) = fixed.value(input)? {
                tensor.into()
            } else if input.shape.contains(&0) {
                // There is nothing in it, so it is known.
                let shape = input.shape.iter().map(|&size| size as usize).collect();
                Tensor { element: input.data_type.into(), shape, bytes: Default::default() }.into()
            } else {
                let descriptor = Descriptor::new(input.data_type, input.shape.iter().copied());
                let id = self.builder.input(&input.name, descriptor)?;
                if let Some(element) = dimensions::element(info).filter(|element| element.is_short()) {
                    self.short.insert(id, element);
                }
                id.into()
            };
            values.insert(&info.name, Found::Value(value));
        }
        Ok(inputs.into_iter().filter(|input| !fixed.values.contains_key(&input.name)).collect())
    }

    /// Makes inputs of initializers that may be passed, whose values become defaults. The shapes of these.
    fn override_initializers(
        &mut self,
        graph: &GraphProto,
        values: &mut Values<'a>,
        fixed: &Fixed,
    ) -> Result<HashMap<String, Vec<Dimension>>> {
        let mut overridden = HashMap::new();
        for name in &fixed.overridable {
            let is_input = graph.input.iter().any(|info| info.name == *name);
            let Some(Found::Value(Value::Constant(constant))) = values.get(name.as_str()).filter(|_| is_input) else {
                let both = graph.input.iter().map(|info| &info.name).filter(|name| values.contains_key(name.as_str()));
                let allowed = format!("inputs that have an initializer: {:?}", both.collect::<Vec<&String>>());
                return Err(Error::argument("overridable", format!("{name:?}"), allowed));
            };
            let (descriptor, bytes) = constant.tensor.to_operand().map_err(|error| error.of("initializer", name))?;
            self.defaults.insert(name.clone(), Bytes::copy_from_slice(bytes.as_slice()));
            overridden.insert(name.clone(), descriptor.shape.iter().copied().map(Dimension::Size).collect());
            values.remove(name.as_str());
        }
        Ok(overridden)
    }

    /// Maps the nodes that the wanted values need.
    fn run<'n>(&mut self, nodes: &'n [NodeProto], wanted: &[&'n str], values: &mut Values<'n>, scope: &Scope<'_>) -> Result<()> {
        let captured = branch::captured(nodes, &mut self.folding)?;
        let order = order(nodes, &captured, &|name| values.contains_key(name), wanted.iter().copied())?;
        self.nodes += order.len();
        if self.nodes > MOST_NODES {
            return Err(malformed(format!("more than {MOST_NODES} nodes")));
        }
        let names = order.iter().flat_map(|position| {
            let captured = captured.get(position).into_iter().flatten();
            nodes[*position].input.iter().chain(captured).map(String::as_str)
        });
        let needed: HashSet<&str> = names.chain(wanted.iter().copied()).collect();
        for &position in &order {
            self.folding.require(NODE)?;
            let proto = &nodes[position];
            let inputs: Option<Vec<Option<Value>>> = proto
                .input
                .iter()
                .map(|name| match values.get(name.as_str()) {
                    None => Some(None),
                    Some(Found::Value(value)) => Some(Some(value.clone())),
                    Some(Found::Refused) => None,
                })
                .collect();
            let refused = self.refused.len();
            let around: Values<'_> = captured
                .get(&position)
                .into_iter()
                .flatten()
                .filter_map(|name| {
                    let found = values.get(name.as_str())?;
                    Some((name.as_str(), found.clone()))
                })
                .collect();
            let mapped = if captured.contains_key(&position) {
                self.choose(proto, inputs, around, scope)?
            } else {
                self.node(proto, inputs, &needed, scope)?
            };
            let outputs = match mapped {
                Ok(outputs) => outputs,
                Err(reason) => {
                    // A function's nodes speak for themselves.
                    if let Some(Reason(reason)) = reason.filter(|_| self.refused.len() == refused) {
                        self.refused.push(described(proto, scope, reason));
                    }
                    Vec::new()
                }
            };
            let mut outputs = outputs.into_iter();
            for name in &proto.output {
                let found = outputs.next().flatten().map_or(Found::Refused, Found::Value);
                if !name.is_empty() {
                    values.insert(name, found);
                }
            }
        }
        Ok(())
    }

    /// The values of a node's outputs; a reason why there are none, or no reason of its own when its inputs have none.
    fn node(
        &mut self,
        proto: &NodeProto,
        inputs: Option<Vec<Option<Value>>>,
        needed: &HashSet<&str>,
        scope: &Scope<'_>,
    ) -> Result<Outcome<Vec<Option<Value>>>> {
        let domain = normalized(&proto.domain);
        let key = (domain, proto.op_type.as_str(), proto.overload.as_str());
        if let Some(&(function, cost)) = self.functions.get(&key) {
            self.folding.require(cost)?;
            return self.call(function, proto, inputs, scope);
        }
        let version = scope.opsets.get(domain).copied();
        let entry = match ops::find(domain, &proto.op_type, version) {
            Ok(entry) => entry,
            Err(reason) => return Ok(Err(Some(reason))),
        };
        let Some(inputs) = inputs else { return Ok(Err(None)) };
        let options = ops::options::of(entry.domain, entry.operator);
        let node = Node { proto, version: version.unwrap_or(1), inputs, options, needed, model: self.model };
        if let Some(Err(reason)) = options.map(|options| options.check(&node)) {
            return Ok(Err(Some(reason)));
        }
        let short = node.inputs.iter().flatten().find_map(|value| match value {
            Value::Operand(id) => self.short.get(id).copied(),
            Value::Constant(_) => None,
        });
        if let Some(element) = short.filter(|_| !TAKES_SHORT.contains(&node.operator()) && !moves(&node)) {
            let reason = format!("an input of {element}, which quantization, Cast and operators that move elements take");
            return Ok(Err(Some(reason.into())));
        }
        let mapped = match self.folding.evaluate(&node) {
            Some(folded) => folded.map(|tensor| vec![tensor.into()]),
            None => {
                let label = label(proto, scope);
                let mut emit = Emit { builder: &mut self.builder, folding: &mut self.folding, short: &mut self.short, label };
                ops::precision::map(entry, &node, &mut emit)
            }
        };
        if let (Some(element), Ok(outputs)) = (short.filter(|_| moves(&node)), &mapped) {
            let operands = outputs.iter().filter_map(|value| if let Value::Operand(id) = value { Some(*id) } else { None });
            self.short.extend(operands.map(|id| (id, element)));
        }
        Ok(match mapped {
            Ok(outputs) => match (0..proto.output.len()).find(|&i| node.has_output(i) && i >= outputs.len()) {
                Some(output) => Err(Some(format!("output {output} is not supported").into())),
                None => Ok(outputs.into_iter().map(Some).collect()),
            },
            Err(reason) => Err(Some(reason)),
        })
    }

    /// Maps an If node: the branch that is chosen at import in its place, or both where the choice is made when the graph
    /// runs, and then a selection of their results.
    fn choose(
        &mut self,
        proto: &NodeProto,
        inputs: Option<Vec<Option<Value>>>,
        around: Values<'_>,
        scope: &Scope<'_>,
    ) -> Result<Outcome<Vec<Option<Value>>>> {
        if scope.depth == MOST_NESTED {
            return Err(malformed("branches that are nested too deep"));
        }
        let Some(inputs) = inputs else { return Ok(Err(None)) };
        let Some(condition) = inputs.into_iter().next().flatten() else { return Ok(Err(Some("no condition".into()))) };
        if let Some(known) = condition.constant() {
            let [truth] = known.integers()[..] else { return Ok(Err(Some("a condition of several elements".into()))) };
            let branch = if truth != 0 { "then_branch" } else { "else_branch" };
            return Ok(Ok(self.branch(proto, branch, &around, scope)?));
        }
        let mut branches = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let results = self.branch(proto, name, &around, scope)?;
            let Some(results) = results.into_iter().collect::<Option<Vec<Value>>>() else {
                // The nodes have spoken for themselves; here is what else could be done.
                self.refused.push(described(proto, scope, branch::HINT.into()));
                return Ok(Err(None));
            };
            branches.push(results);
        }
        let label = label(proto, scope);
        let mut emit = Emit { builder: &mut self.builder, folding: &mut self.folding, short: &mut self.short, label };
        let selected = branch::select(&condition, &branches[0], &branches[1], &mut emit);
        Ok(selected.map(|values| values.into_iter().map(Some).collect()).map_err(Some))
    }

    /// The results of a branch, which sees the values around it.
    fn branch(&mut self, proto: &NodeProto, name: &str, around: &Values<'_>, scope: &Scope<'_>) -> Result<Vec<Option<Value>>> {
        let graph = branch::decode(proto, name, &mut self.folding)?;
        let mut values: Values<'_> = around.iter().map(|(name, found)| (*name, found.clone())).collect();
        // Names of the branch's own hide those around it.
        for name in graph.node.iter().flat_map(|node| &node.output) {
            values.remove(name.as_str());
        }
        for (name, tensor) in self.initializers(&graph)? {
            values.insert(name, Found::Value(tensor.into()));
        }
        let prefix = format!("{}/", label(proto, scope));
        let inner = Scope { opsets: scope.opsets, prefix: &prefix, depth: scope.depth + 1 };
        let wanted: Vec<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
        self.run(&graph.node, &wanted, &mut values, &inner)?;
        let outputs = wanted.iter().map(|name| match values.get(name) {
            Some(Found::Value(value)) => Some(value.clone()),
            _ => None,
        });
        Ok(outputs.collect())
    }

    /// Maps the nodes of a function in place of a node that calls it.
    fn call(
        &mut self,
        function: &'a FunctionProto,
        proto: &NodeProto,
        inputs: Option<Vec<Option<Value>>>,
        scope: &Scope<'_>,
    ) -> Result<Outcome<Vec<Option<Value>>>> {
        if scope.depth == MOST_NESTED {
            return Err(malformed(format!("the function {:?} is called within itself, or too deep", function.name)));
        }
        let Some(inputs) = inputs else { return Ok(Err(None)) };
        let given = by_name(&proto.attribute);
        let defaults = by_name(&function.attribute_proto);
        let nodes: Vec<NodeProto> = function.node.iter().map(|node| with_attributes(node, &defaults, &given)).collect();
        // An absent input stays absent: to its users the name stands for nothing.
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for (position, input) in function.input.iter().enumerate() {
            positions.entry(input).or_insert(position);
        }
        let absent = |name: &String| {
            let position = positions.get(name.as_str());
            position.is_some_and(|&position| inputs.get(position).is_none_or(Option::is_none))
        };
        let nodes: Vec<NodeProto> = nodes
            .into_iter()
            .map(|mut node| {
                node.input.iter_mut().filter(|name| absent(name)).for_each(String::clear);
                node
            })
            .collect();
        let mut values: Values<'_> = HashMap::new();
        for (name, value) in function.input.iter().zip(&inputs) {
            if let Some(value) = value {
                values.insert(name, Found::Value(value.clone()));
            }
        }
        let opsets = opsets(&function.opset_import)?;
        let prefix = format!("{}/", label(proto, scope));
        let inner = Scope { opsets: &opsets, prefix: &prefix, depth: scope.depth + 1 };
        let wanted: Vec<&str> = function
            .output
            .iter()
            .zip(&proto.output)
            .filter(|(_, used)| !used.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        self.run(&nodes, &wanted, &mut values, &inner)?;
        let outputs = function.output.iter().map(|name| match values.get(name.as_str()) {
            Some(Found::Value(value)) => Some(value.clone()),
            _ => None,
        });
        Ok(Ok(outputs.collect()))
    }

    /// Builds the graph.
    fn finish(mut self, wanted: &[&str], values: &Values<'_>, inputs: Vec<Signature>) -> Result<Imported> {
        let mut outputs: Vec<(String, OperandId)> = Vec::new();
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        let mut signatures = Vec::new();
        for &name in wanted {
            let Some(Found::Value(value)) = values.get(name) else {
                return Err(malformed(format!("the output {name:?} is produced by nothing")));
            };
            let fail = |Reason(reason): Reason| Error::new(Kind::NotSupported, format!("output {name:?}: {reason}"));
            let mut id = value.operand(&mut self.builder).map_err(fail)?;
            // An output must be a node's, and no other output's.
            let made = matches!(self.builder.operands().source(id), Source::Node { .. });
            let element = self.short.get(&id).copied();
            if !made || ids.contains(&id) {
                id = self.builder.push_op(Unary { kind: UnaryKind::Identity, input: id }, name)?[0];
                self.short.extend(element.map(|element| (id, element)));
            }
            ids.insert(id);
            if !names.insert(name) {
                return Err(malformed(format!("two outputs with the name {name:?}")));
            }
            let descriptor = self.builder.operands().descriptor(id);
            let (data_type, shape) = (descriptor.data_type, descriptor.shape.to_vec());
            let element_type = self.short.get(&id).map_or(data_type.name(), |element| element.name());
            signatures.push(Signature { name: name.to_owned(), data_type, element_type, shape });
            outputs.push((name.to_owned(), id));
        }
        let graph = self.builder.build(outputs)?;
        let used: HashSet<&str> = graph.inputs.iter().map(|(input, _)| input.as_str()).collect();
        let mut defaults = self.defaults;
        let with_default = |signature: Signature| Input {
            used: used.contains(signature.name.as_str()),
            default: defaults.remove(&signature.name),
            signature,
        };
        let inputs = inputs.into_iter().map(with_default).collect();
        Ok(Imported { graph, inputs, outputs: signatures, most_bytes: usize::MAX })
    }
}

/// A failure may have been reported elsewhere; then there is no reason.
type Outcome<T> = std::result::Result<T, Option<Reason>>;

type Attributes<'a> = HashMap<&'a str, &'a AttributeProto>;

/// The first attribute of each name.
fn by_name(attributes: &[AttributeProto]) -> Attributes<'_> {
    let mut named = HashMap::new();
    for attribute in attributes {
        named.entry(attribute.name.as_str()).or_insert(attribute);
    }
    named
}

/// A node of a function with the values that a call gives to the function's attributes.
fn with_attributes(node: &NodeProto, defaults: &Attributes<'_>, given: &Attributes<'_>) -> NodeProto {
    let resolve = |attribute: &AttributeProto| {
        if attribute.ref_attr_name.is_empty() {
            return Some(attribute.clone());
        }
        let name = attribute.ref_attr_name.as_str();
        let &given = given.get(name).or_else(|| defaults.get(name))?;
        Some(AttributeProto { name: attribute.name.clone(), ..given.clone() })
    };
    NodeProto { attribute: node.attribute.iter().filter_map(resolve).collect(), ..node.clone() }
}

/// The name of a node, or that of its first output.
pub(super) fn name(proto: &NodeProto) -> &str {
    if proto.name.is_empty() { proto.output.first().map_or("", String::as_str) } else { &proto.name }
}

fn label(proto: &NodeProto, scope: &Scope<'_>) -> String {
    format!("{}{}", scope.prefix, name(proto))
}

fn described(proto: &NodeProto, scope: &Scope<'_>, reason: String) -> RefusedNode {
    let domain = normalized(&proto.domain);
    RefusedNode {
        name: label(proto, scope),
        operator: proto.op_type.clone(),
        domain: if domain.is_empty() { "ai.onnx".into() } else { domain.to_owned() },
        version: scope.opsets.get(domain).copied().unwrap_or(0),
        reason,
    }
}
