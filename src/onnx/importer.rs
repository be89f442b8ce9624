//! The walk over a model's nodes. Those that stand for others are in [`nested`], what becomes of the values in [`export`].

mod export;
mod nested;

use super::bounds::{Bounds, NODE};
use super::branch;
use super::caches::KvCache;
use super::dimensions::{self, Signature};
use super::element::ElementType;
use super::emit::{Emit, Short, Transposed, Transposition};
use super::empty;
use super::expansion;
use super::file::Model;
use super::fixed::Fixed;
use super::fold::Folding;
use super::loaded::{Loaded, OpenInput};
use super::node::Node;
use super::ops::narrow::Role;
use super::order::order;
use super::part::{Cut, Export, Given, Givens, Next, Part};
use super::protobuf::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
use super::refusal::{ImportError, Reason, RefusedNode, Wants};
use super::step::{Body, Repetition, Step, StepKind};
use super::structure::{self, malformed};
use super::tensor::Tensor;
use super::value::Value;
use super::{OPSETS, ops};
use crate::error::{Error, Kind, Result, unwound};
use crate::graph::ops::elementwise::{Unary, UnaryKind};
use crate::graph::ops::movement::Transpose;
use crate::graph::{DataType, Descriptor, Graph, GraphBuilder, Limits, OperandId, Source as OperandSource};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
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
/// `TypeError` when it is no protobuf message, or has no graph; `OperationError` when it would take too much memory.
pub(super) fn decode(model: &Model, bounds: &Bounds) -> Result<ModelProto> {
    let most = bounds.structure(model);
    let mut decoded = match model.stored(most) {
        Some(decoded) => decoded,
        None => {
            model.read_structure()?;
            structure::check(&model.bytes, most)?;
            let mut decoded = ModelProto::decode(model.bytes.clone()).map_err(structure::no_message)?;
            model.store(&mut decoded);
            decoded
        }
    };
    let graph = decoded.graph.as_mut().ok_or_else(|| malformed("it has no graph"))?;
    // PyTorch's exporter names a value twice that the module returns twice; outputs are found by their names, so once is enough.
    let mut names = HashSet::new();
    graph.output.retain(|output| names.insert(output.name.clone()));
    Ok(decoded)
}

/// Maps a model to one WebNN graph.
///
/// # Errors
/// [`ImportError::Model`] when the file is no valid model, leaves dimensions open that `fixed` does not give, or asks for too much,
/// [`ImportError::Nodes`] with all nodes that cannot be mapped, or that need what only a run can tell.
pub fn import(model: Model, limits: &Arc<Limits>, fixed: &Fixed, bounds: &Bounds) -> Result<Imported, ImportError> {
    let loaded = Loaded::new(model, fixed.clone(), bounds)?;
    let given = loaded.given(&loaded.fixed_shapes()?)?;
    let part = import_part(&Source::of(&loaded)?, limits, bounds, &given, Place::Whole)?;
    let graph = part.graph.ok_or_else(|| malformed("there is nothing to compute"))?;
    let used: HashSet<&str> = graph.inputs.iter().map(|(input, _)| input.as_str()).collect();
    let input = |(input, shape): (&OpenInput, Vec<u32>)| Input {
        used: used.contains(input.name.as_str()),
        default: input.default.clone(),
        signature: Signature { name: input.name.clone(), data_type: input.data_type, element_type: input.element_type, shape },
    };
    let inputs = loaded.inputs().iter().zip(loaded.fixed_shapes()?).map(input).collect();
    Ok(Imported { graph, inputs, outputs: part.outputs, most_bytes: part.most_bytes })
}

/// What is imported: a model's own graph, or the body of a loop.
pub struct Source<'a> {
    pub loaded: &'a Loaded,
    pub graph: &'a GraphProto,
    pub opsets: &'a HashMap<String, i64>,
    /// Whether it is the model's own graph, whose outputs have declared types.
    pub is_model: bool,
    /// Caches whose rows lie one after the other in memory, as inputs and as outputs.
    pub caches: &'a [KvCache],
    /// Values whose elements are to be told, if they are known ([`Part::asked`]).
    pub asked: &'a [&'a str],
}

impl<'a> Source<'a> {
    /// A model's own graph.
    ///
    /// # Errors
    /// `TypeError` where it has none.
    pub fn of(loaded: &'a Loaded) -> Result<Source<'a>> {
        Ok(Source { loaded, graph: loaded.graph()?, opsets: &loaded.opsets, is_model: true, caches: &[], asked: &[] })
    }
}

/// Which part of a model is imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All of it: nodes that need what only a run can tell are refused.
    Whole,
    /// The first one, which is a graph with all of the model's outputs where there is no other.
    First,
    /// One whose outputs may have been made before.
    Later,
}

/// Imports a part: as much as can be mapped with what is given.
///
/// # Errors
/// As [`import`].
pub fn import_part(
    source: &Source<'_>,
    limits: &Arc<Limits>,
    bounds: &Bounds,
    given: &Givens,
    place: Place,
) -> Result<Part, ImportError> {
    // It looks at weights, which may be those of a file that has changed.
    unwound(|| import_now(source, limits, bounds, given, place))
}

fn import_now(
    source: &Source<'_>,
    limits: &Arc<Limits>,
    bounds: &Bounds,
    given: &Givens,
    place: Place,
) -> Result<Part, ImportError> {
    let (loaded, graph) = (source.loaded, source.graph);
    let mut importer = Importer {
        model: &loaded.model,
        functions: functions(&loaded.proto.functions)?,
        builder: GraphBuilder::new(limits.clone()),
        limits: limits.clone(),
        folding: Folding::within(bounds.work(&loaded.model)).keeping_tables(!source.caches.is_empty()),
        short: Short::new(),
        transposed: Transposed::new(),
        caches: source.caches,
        refused: Vec::new(),
        nodes: 0,
        given,
        built_values: HashMap::new(),
        inputs: HashMap::new(),
        deferral: (place != Place::Whole).then(Deferral::default),
    };
    let mut values = HashMap::new();
    for (name, tensor) in importer.initializers(graph)? {
        if loaded.is_overridable(name) && source.is_model {
            continue;
        }
        if name.is_empty() || values.insert(name, Named::new(name, Found::Value(tensor.into()))).is_some() {
            return Err(malformed(format!("two initializers, or none, with the name {name:?}")).into());
        }
    }
    if source.is_model && graph.output.is_empty() {
        return Err(malformed("it has no output").into());
    }
    // The inputs in the order of the file, what was made before, and what the body of a loop uses from around it.
    let inputs = graph.input.iter().filter_map(|info| given.get_key_value(&info.name).map(|(name, _)| name));
    for name in inputs.chain(given.keys()) {
        if !values.contains_key(name.as_str())
            && let Some(value) = importer.given(name)?
        {
            values.insert(name, Named::new(name, Found::Value(value)));
        }
    }
    let scope = Scope { opsets: source.opsets, prefix: "", qualified: "", depth: 0 };
    let wanted: Vec<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
    let needed = [&wanted[..], source.asked].concat();
    importer.run(&graph.node, &needed, &mut values, &scope)?;
    if !importer.refused.is_empty() {
        return Err(ImportError::Nodes(importer.refused));
    }
    let constant_of = |name: &&str| match &values.get(name)?.found {
        Found::Value(value) => value.constant().cloned(),
        _ => None,
    };
    let asked = source.asked.iter().map(constant_of).collect();
    let mut part = importer.finish(&wanted, &values, place != Place::Later)?;
    if let Some(graph) = &part.graph {
        let of_inputs = graph.inputs.iter().map(|(_, id)| graph.descriptor(*id).byte_length());
        part.most_bytes = bounds.bytes(&loaded.model, of_inputs.fold(0, usize::saturating_add));
    }
    part.asked = asked;
    name_element_types(part.outputs.iter_mut().collect(), &graph.output);
    Ok(part)
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
pub(super) fn opsets(imports: &[OperatorSetIdProto]) -> Result<HashMap<String, i64>> {
    let mut versions = HashMap::new();
    for import in imports {
        versions.insert(normalized(&import.domain).to_owned(), import.version);
    }
    // As in onnxruntime, a domain whose version the model does not say is that of its latest version.
    for (domain, latest) in ops::UNNAMED {
        versions.entry(domain.to_owned()).or_insert(latest);
    }
    if let Some(version) = versions.get("").filter(|version| !(ops::OLDEST..=*OPSETS.end()).contains(version)) {
        let (first, last) = (ops::OLDEST, OPSETS.end());
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

/// What a name stands for.
#[derive(Clone)]
enum Found {
    Value(Value),
    /// The output of a node that could not be mapped.
    Refused,
    /// The output of a node that is left to a later part.
    Deferred,
}

/// With its qualified name ([`super::part`]).
#[derive(Clone)]
struct Named {
    name: Rc<str>,
    found: Found,
}

impl Named {
    fn new(name: &str, found: Found) -> Named {
        Named { name: name.into(), found }
    }
}

type Values<'a> = HashMap<&'a str, Named>;

/// The graph or function whose nodes are mapped.
struct Scope<'a> {
    opsets: &'a HashMap<String, i64>,
    /// Stands before the names of nodes in messages.
    prefix: &'a str,
    /// Stands before the names of values.
    qualified: &'a str,
    depth: usize,
}

/// What is left to later parts.
#[derive(Default)]
struct Deferral {
    /// Nodes that were left.
    nodes: usize,
    next: Next,
    /// What these need of what exists now.
    needed: BTreeMap<Rc<str>, Value>,
}

/// Where it stands, to come back to.
struct Mark {
    refused: usize,
    deferred: Option<(usize, usize, usize, usize)>,
}

struct Importer<'a> {
    model: &'a Model,
    functions: Functions<'a>,
    builder: GraphBuilder,
    limits: Arc<Limits>,
    folding: Folding,
    short: Short,
    transposed: Transposed,
    caches: &'a [KvCache],
    refused: Vec<RefusedNode>,
    nodes: usize,
    given: &'a Givens,
    /// What values were made of what is given.
    built_values: HashMap<&'a str, Value>,
    /// The names of what is given, by the inputs of the graph that they became.
    inputs: HashMap<OperandId, &'a str>,
    /// Nothing where the model is not to be cut.
    deferral: Option<Deferral>,
}

impl<'a> Importer<'a> {
    /// The initializers of a graph, dense and sparse, by their names.
    fn initializers<'g>(&mut self, graph: &'g GraphProto) -> Result<Vec<(&'g str, Tensor)>> {
        let mut all = Vec::new();
        for proto in &graph.initializer {
            match Tensor::from_proto(proto, self.model) {
                Ok(tensor) => all.push((proto.name.as_str(), tensor)),
                // Of a type that there is no tensor of, as strings, which perhaps nobody reads.
                Err(_)
                    if ElementType::from_number(proto.data_type.into()).is_err()
                        && !branch::reads(graph, &proto.name, &mut self.folding)? => {}
                Err(error) => return Err(error),
            }
        }
        for proto in &graph.sparse_initializer {
            let tensor = Tensor::from_sparse(proto, self.model, |bytes| self.folding.charge(bytes))?;
            all.push((proto.values.as_ref().map_or("", |values| values.name.as_str()), tensor));
        }
        Ok(all)
    }

    /// A value that exists before this part.
    fn given(&mut self, name: &str) -> Result<Option<Value>> {
        let given = self.given;
        let Some((name, value)) = given.get_key_value(name) else { return Ok(None) };
        if let Some(built) = self.built_values.get(name.as_str()) {
            return Ok(Some(built.clone()));
        }
        let value = self.value_of(name, value)?;
        if let Value::Operand(id) = value {
            self.inputs.insert(id, name);
        }
        self.built_values.insert(name, value.clone());
        Ok(Some(value))
    }

    fn value_of(&mut self, name: &str, given: &Given) -> Result<Value> {
        Ok(match given {
            Given::Known(tensor) => tensor.clone().into(),
            Given::Operand { element, shape } => {
                let data_type = element.held_by().ok_or_else(|| malformed(format!("{name:?} is of {element}")))?;
                let cache = self.caches.iter().find(|cache| cache.past == name && cache.axis < shape.len());
                if let Some(cache) = cache {
                    return self.cache(name, data_type, shape, cache.axis);
                }
                let id = self.builder.input(name, Descriptor::new(data_type, shape.iter().copied()))?;
                if element.is_narrow() {
                    self.short.insert(id, *element);
                }
                id.into()
            }
            Given::Sequence(list) => {
                let value = |(position, given)| self.value_of(&element_name(name, position), given);
                Value::Sequence(list.iter().enumerate().map(value).collect::<Result<_>>()?)
            }
            Given::Nothing => Value::Nothing,
        })
    }

    /// An input whose rows lie one after the other.
    fn cache(&mut self, name: &str, data_type: DataType, shape: &[u32], axis: usize) -> Result<Value> {
        let front = Transposition::to_front(axis, shape.len());
        let id = self.builder.input(name, Descriptor::new(data_type, front.iter().map(|&axis| shape[axis])))?;
        let permutation = Transposition::inverse(&front);
        let list = permutation.iter().map(|&axis| axis as u32).collect();
        let value = self.builder.push_op(Transpose { input: id, permutation: Some(list) }, name)?[0];
        self.transposed.insert(value, Transposition { of: id, permutation });
        Ok(value.into())
    }

    fn mark(&self) -> Mark {
        let deferred = self.deferral.as_ref();
        let deferred = deferred.map(|d| (d.nodes, d.next.looks.len(), d.next.steps.len(), d.next.cuts.len()));
        Mark { refused: self.refused.len(), deferred }
    }

    /// Forgets what was refused and left since then.
    fn back_to(&mut self, mark: &Mark) {
        self.refused.truncate(mark.refused);
        if let (Some(deferral), Some((nodes, looks, steps, cuts))) = (&mut self.deferral, mark.deferred) {
            deferral.nodes = nodes;
            deferral.next.looks.truncate(looks);
            deferral.next.steps.truncate(steps);
            deferral.next.cuts.truncate(cuts);
        }
    }

    fn deferred(&self) -> usize {
        self.deferral.as_ref().map_or(0, |deferral| deferral.nodes)
    }

    /// Maps the nodes that the wanted values need.
    fn run<'n>(&mut self, nodes: &'n [NodeProto], wanted: &[&'n str], values: &mut Values<'n>, scope: &Scope<'_>) -> Result<()> {
        let captured = branch::captured(nodes, &mut self.folding)?;
        let mut known_before: HashSet<&str> = HashSet::new();
        for name in nodes.iter().flat_map(|node| &node.output).filter(|name| !name.is_empty()) {
            let qualified = format!("{}{name}", scope.qualified);
            if let Some(value) = self.given(&qualified)? {
                values.insert(name, Named::new(&qualified, Found::Value(value)));
                known_before.insert(name);
            }
        }
        let is_known = |name: &str| known_before.contains(name);
        let order = order(nodes, &captured, &|name| values.contains_key(name), &is_known, wanted.iter().copied())?;
        self.nodes += order.len();
        if self.nodes > MOST_NODES {
            return Err(malformed(format!("more than {MOST_NODES} nodes")));
        }
        let names = order.iter().flat_map(|position| {
            let captured = captured.get(position).into_iter().flatten();
            nodes[*position].input.iter().chain(captured).map(String::as_str)
        });
        let needed: HashSet<&str> = names.chain(wanted.iter().copied()).collect();
        let begin = self.deferred();
        for &position in &order {
            self.folding.require(NODE)?;
            let proto = &nodes[position];
            let mark = self.mark();
            let around: Values<'_> = captured
                .get(&position)
                .into_iter()
                .flatten()
                .filter_map(|name| Some((name.as_str(), values.get(name.as_str())?.clone())))
                .collect();
            let inputs: Vec<Option<Named>> = proto.input.iter().map(|name| values.get(name.as_str()).cloned()).collect();
            let mapped = match captured.contains_key(&position) {
                true => self.control(proto, &inputs, &around, scope)?,
                false => self.node(proto, &inputs, &needed, scope)?,
            };
            let outputs = match mapped {
                Ok(outputs) => outputs,
                Err(failure) => {
                    let found = if matches!(failure, Failure::Deferred) { Found::Deferred } else { Found::Refused };
                    match failure {
                        // A function's nodes speak for themselves.
                        Failure::Refused(Some(reason)) if self.refused.len() == mark.refused => {
                            self.refused.push(described(proto, scope, reason.text));
                        }
                        Failure::Refused(_) => {}
                        Failure::Deferred => {
                            if let Some(deferral) = &mut self.deferral {
                                deferral.nodes += 1;
                            }
                        }
                    }
                    vec![found; proto.output.len()]
                }
            };
            if self.deferred() > mark.deferred.map_or(0, |(nodes, ..)| nodes) {
                self.keep(inputs.iter().flatten().chain(around.values()));
            }
            let mut outputs = outputs.into_iter();
            for name in &proto.output {
                let found = outputs.next().unwrap_or(Found::Refused);
                if !name.is_empty() && !known_before.contains(name.as_str()) {
                    values.insert(name, Named::new(&format!("{}{name}", scope.qualified), found));
                }
            }
        }
        if self.deferred() > begin {
            // So that they need not be made once more.
            self.keep(wanted.iter().filter_map(|name| values.get(name)));
        }
        Ok(())
    }

    /// Keeps values for later parts.
    fn keep<'v>(&mut self, values: impl Iterator<Item = &'v Named>) {
        let Some(deferral) = &mut self.deferral else { return };
        for Named { name, found } in values {
            if let Found::Value(value) = found {
                deferral.needed.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// Leaves a node to a later part, if the model may be cut at it, and its reason says what that part has to know.
    fn cut(&mut self, proto: &NodeProto, inputs: &[Option<Named>], reason: Reason, scope: &Scope<'_>) -> Failure {
        let node = label(proto, scope);
        let wanted = match reason.wants {
            Some(Wants::Elements(position)) => inputs.get(position).and_then(Option::as_ref),
            None => None,
        };
        let (Some(deferral), Some(Named { name, found: Found::Value(Value::Operand(_)) })) = (&mut self.deferral, wanted) else {
            return Failure::Refused(Some(reason));
        };
        if !deferral.next.looks.iter().any(|look| **look == **name) {
            deferral.next.looks.push(name.to_string());
        }
        deferral.next.cuts.push(Cut { node, operator: proto.op_type.clone(), reason: reason.text });
        Failure::Deferred
    }

    /// Leaves a node to whoever runs the model.
    fn step(&mut self, proto: &NodeProto, inputs: &[Option<Named>], kind: StepKind, reason: &str, scope: &Scope<'_>) -> Failure {
        let node = described(proto, scope, reason.to_owned());
        let Some(deferral) = &mut self.deferral else { return Failure::Refused(Some(reason.into())) };
        let qualified = |name: &String| (!name.is_empty()).then(|| format!("{}{name}", scope.qualified));
        deferral.next.cuts.push(Cut { node: node.name.clone(), operator: node.operator.clone(), reason: node.reason.clone() });
        deferral.next.steps.push(Step {
            inputs: inputs.iter().map(|input| input.as_ref().map(|named| named.name.to_string())).collect(),
            outputs: proto.output.iter().map(qualified).collect(),
            node,
            kind,
        });
        Failure::Deferred
    }

    /// The values of a node's outputs; a reason why there are none, or no reason of its own when its inputs have none.
    fn node(&mut self, proto: &NodeProto, named: &[Option<Named>], needed: &HashSet<&str>, scope: &Scope<'_>) -> Result<Outcome> {
        let domain = normalized(&proto.domain);
        let key = (domain, proto.op_type.as_str(), proto.overload.as_str());
        if let Some(&(function, cost)) = self.functions.get(&key) {
            self.folding.require(cost)?;
            return self.call(function, proto, named, scope);
        }
        let version = scope.opsets.get(domain).copied();
        let ops::Row { entry, options } = match ops::find(domain, &proto.op_type, version) {
            Ok(row) => row,
            Err(reason) => return Ok(Err(Failure::Refused(Some(reason)))),
        };
        let inputs = match values_of(named) {
            Ok(inputs) => inputs,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(position) = inputs.iter().position(|input| input.as_ref().is_some_and(|value| !value.is_tensor()))
            && !entry.takes_sequences()
        {
            let reason = format!("input {position} is a sequence or an optional value without content, allowed a tensor");
            return Ok(Err(Failure::Refused(Some(reason.into()))));
        }
        if let Some(expansion) = expansion::of(proto, domain, &inputs).filter(|_| self.deferral.is_some()) {
            return self.expand(&expansion, proto, named, scope);
        }
        let node = Node { proto, version: version.unwrap_or(1), inputs, options, needed, model: self.model };
        if let Some(Err(reason)) = options.map(|options| options.check(&node)) {
            return Ok(Err(Failure::Refused(Some(reason))));
        }
        let label = label(proto, scope);
        let emit = Emit {
            builder: &mut self.builder,
            folding: &mut self.folding,
            short: &mut self.short,
            transposed: &mut self.transposed,
            label: String::new(),
        };
        let role = ops::narrow::role(&node, &emit);
        if let Some(Role::Refuses(element)) = role {
            let reason =
                format!("an input of {element}, allowed in quantization, Cast, arithmetic and operators that move elements");
            return Ok(Err(Failure::Refused(Some(reason.into()))));
        }
        let is_known = node.inputs.iter().flatten().all(|input| input.constant().is_some());
        if self.deferral.is_some() && entry.is_on_host() && (entry.is_random() || !is_known) {
            let (proto, version) = (proto.clone(), node.version);
            let kind = StepKind::Operator { proto, version, entry };
            let reason = "what it gives depends on the elements of its inputs";
            return Ok(Err(self.step(node.proto, named, kind, reason, scope)));
        }
        let mapped = match self.folding.evaluate(&node) {
            Some(folded) => folded.map(|tensor| vec![tensor.into()]),
            None => {
                let mut emit = Emit {
                    builder: &mut self.builder,
                    folding: &mut self.folding,
                    short: &mut self.short,
                    transposed: &mut self.transposed,
                    label,
                };
                let mapped = match role {
                    Some(Role::Makes(element)) => ops::narrow::map(entry, &node, element, &mut emit),
                    _ => ops::precision::map(entry, &node, &mut emit),
                };
                match mapped {
                    Err(reason) if reason.wants.is_none() && empty::concerns(&node) => {
                        empty::map(entry, &node, &mut emit, &self.limits).map_err(|_| reason)
                    }
                    mapped => mapped,
                }
            }
        };
        Ok(match mapped {
            Ok(outputs) => match (0..proto.output.len()).find(|&i| node.has_output(i) && i >= outputs.len()) {
                Some(output) => Err(Failure::Refused(Some(format!("output {output} is not supported").into()))),
                None => Ok(outputs.into_iter().map(Found::Value).collect()),
            },
            Err(reason) => Err(self.cut(proto, named, reason, scope)),
        })
    }
}

/// The name of an element of a sequence.
pub(super) fn element_name(name: &str, position: usize) -> String {
    format!("{name}[{position}]")
}

/// The name that stands before those of values within a node.
fn first_output(proto: &NodeProto) -> &str {
    proto.output.iter().find(|name| !name.is_empty()).map_or("", String::as_str)
}

/// What a node is given; nothing where one of its inputs was refused, or is left to a later part.
fn values_of(inputs: &[Option<Named>]) -> std::result::Result<Vec<Option<Value>>, Failure> {
    let found = || inputs.iter().flatten().map(|named| &named.found);
    if found().any(|found| matches!(found, Found::Refused)) {
        return Err(Failure::Refused(None));
    }
    if found().any(|found| matches!(found, Found::Deferred)) {
        return Err(Failure::Deferred);
    }
    let value = |input: &Option<Named>| match &input.as_ref()?.found {
        Found::Value(value) => Some(value.clone()),
        _ => None,
    };
    Ok(inputs.iter().map(value).collect())
}

/// What became of a node.
type Outcome = std::result::Result<Vec<Found>, Failure>;

/// Why a node has no values.
enum Failure {
    /// It cannot be mapped; without a reason where that was said elsewhere.
    Refused(Option<Reason>),
    /// It is left to a later part.
    Deferred,
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
