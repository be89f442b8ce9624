//! A model that was read: decoded once, imported for as many shapes as its inputs turn out to have.

use super::bounds::Bounds;
use super::branch;
use super::dimensions::{self, Dimension, Form, Shaped, Signature, Size};
use super::element::ElementType;
use super::expression::Expression;
use super::file::Model;
use super::fixed::Fixed;
use super::fold::Folding;
use super::importer::{decode, opsets};
use super::ops;
use super::order::order;
use super::part::{Given, Givens};
use super::protobuf::{GraphProto, ModelProto, ValueInfoProto};
use super::refusal::RefusedNode;
use super::structure::malformed;
use super::tensor::Tensor;
use crate::error::{Error, Kind, Result};
use crate::graph::DataType;
use crate::memory::{self, Data, Place};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::OnceLock;
use xxhash_rust::xxh3::Xxh3;

/// What the sizes of a shape multiply to at most, without those that are 0: as many elements as an operand may have.
const MOST_SIZES: u64 = i32::MAX as u64;

/// Longer sequences are not taken: each of their tensors is an input of a graph.
const MOST_ELEMENTS: usize = 1 << 14;

/// A model, and what its caller decided about it.
#[derive(Debug)]
pub struct Loaded {
    pub(super) model: Model,
    pub(super) proto: ModelProto,
    pub(super) opsets: HashMap<String, i64>,
    fixed: Fixed,
    /// See [`Fixed::describe`].
    decided: OnceLock<String>,
    inputs: Vec<OpenInput>,
    /// As the file has them.
    declared: Vec<(String, DataType, Vec<Dimension>)>,
    /// The names of their dimensions, with the sizes of those that are decided.
    named: BTreeMap<String, Option<u32>>,
    /// What the model's values of [`Fixed::values`] are.
    values: BTreeMap<String, Tensor>,
    /// See [`Loaded::unknown_nodes`].
    unknown: OnceLock<Vec<RefusedNode>>,
    /// See [`outline`](super::outline).
    pub(super) outline: OnceLock<Vec<OpenOutput>>,
}

/// An input of a model, of whose dimensions some may be open.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenInput {
    pub name: String,
    pub data_type: DataType,
    /// The element type of the file, by the name that onnxruntime gives it.
    pub element_type: &'static str,
    /// Of the elements, if it is a sequence.
    pub shape: Vec<Size>,
    pub form: Form,
    /// What it is where a run does not pass it, of an initializer that can be overridden.
    pub default: Option<Bytes>,
    element: ElementType,
}

/// An output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOutput {
    pub name: String,
    /// As far as the file tells.
    pub data_type: Option<DataType>,
    pub element_type: Option<&'static str>,
    /// Nothing where the file does not tell how many dimensions there are; of the elements, if it is a sequence.
    pub shape: Option<Vec<Size>>,
    pub form: Form,
}

/// The shape of what is given for an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputShape {
    Tensor(Vec<u32>),
    /// Those of its elements.
    Sequence(Vec<Vec<u32>>),
    /// No content.
    Nothing,
}

impl OpenInput {
    /// The element type of the file.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Whether not even the number of its dimensions is known before a run.
    pub fn is_of_any_rank(&self) -> bool {
        matches!(self.shape[..], [Size::AnyRank])
    }

    /// A tensor of this shape, or an element if it is a sequence.
    ///
    /// # Errors
    /// `TypeError` for a shape that is not that of the model.
    fn given(&self, shape: &[u32]) -> Result<Given> {
        // What is declared as a scalar has any shape in sessions of onnxruntime's interface; `lib/` decides.
        let fits = self.is_of_any_rank()
            || self.shape.is_empty()
            || shape.len() == self.shape.len()
                && shape.iter().zip(&self.shape).all(|(size, allowed)| !matches!(allowed, Size::Known(known) if known != size));
        if !fits {
            let found = format!("the shape {shape:?} of {:?}", self.name);
            return Err(Error::argument("inputs", found, format!("{:?}", self.shape)));
        }
        // Of what is empty, too, the product of some sizes is computed.
        let most = shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size.max(1).into()));
        if most.is_none_or(|most| most > MOST_SIZES) {
            let found = format!("the shape {shape:?} of {:?}", self.name);
            return Err(Error::argument("inputs", found, format!("at most {MOST_SIZES} elements, not counting dimensions of 0")));
        }
        Ok(match shape.contains(&0) {
            true => {
                let shape = shape.iter().map(|&size| size as usize).collect();
                Given::Known(Tensor { element: self.data_type.into(), shape, bytes: Data::default() })
            }
            false => Given::Operand { element: self.element, shape: shape.to_vec() },
        })
    }
}

impl Loaded {
    /// Decodes a model.
    ///
    /// # Errors
    /// `TypeError` when the file is no valid model, or for options that do not fit it; `NotSupportedError` for inputs of other types,
    /// `OperationError` for more nodes and attributes than the bounds allow.
    pub fn new(mut model: Model, fixed: Fixed, bounds: &Bounds) -> Result<Loaded> {
        let proto = decode(&model, bounds)?;
        let opsets = opsets(&proto.opset_import)?;
        proto.graph.iter().try_for_each(|graph| model.open_external(graph))?;
        model.keep_nodes(proto.graph.as_ref().map_or(&[][..], |graph| &graph.node[..]));
        let mut loaded = Loaded {
            model,
            proto,
            opsets,
            fixed,
            decided: OnceLock::new(),
            inputs: Vec::new(),
            declared: Vec::new(),
            named: BTreeMap::new(),
            values: BTreeMap::new(),
            unknown: OnceLock::new(),
            outline: OnceLock::new(),
        };
        loaded.read_inputs()?;
        loaded.graph()?.node.iter().for_each(|node| ops::prepare(node, &loaded.opsets, &loaded.model));
        Ok(loaded)
    }

    /// The nodes that the outputs need and whose operators nothing maps. Importing may refuse more for their options.
    ///
    /// # Errors
    /// `TypeError` for a graph that has no order.
    pub fn unknown_nodes(&self, bounds: &Bounds) -> Result<&[RefusedNode]> {
        if let Some(unknown) = self.unknown.get() {
            return Ok(unknown);
        }
        let graph = self.graph()?;
        let mut folding = Folding::within(bounds.work(&self.model));
        let captured = branch::captured(&graph.node, &mut folding)?;
        let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
        let inputs = graph.input.iter().map(|info| info.name.as_str());
        let given: HashSet<&str> =
            graph.initializer.iter().chain(sparse).map(|tensor| tensor.name.as_str()).chain(inputs).collect();
        let wanted = graph.output.iter().map(|info| info.name.as_str());
        let order = order(&graph.node, &captured, &|name| given.contains(name), &|_| false, wanted)?;
        let needed: HashSet<usize> = order.into_iter().collect();
        let unknown = super::summary::unknown(&self.proto, graph);
        let needed = unknown.into_iter().filter(|(position, _)| needed.contains(position)).map(|(_, node)| node);
        Ok(self.unknown.get_or_init(|| needed.collect()))
    }

    /// A hash of the model's files, of what its caller decided, and of `options`: the same in each process.
    ///
    /// # Errors
    /// Those of reading its files.
    pub fn fingerprint(&self, options: &str) -> Result<u128> {
        let mut hash = Xxh3::new();
        self.model.each_byte(|bytes| hash.update(bytes))?;
        hash.update(format!("{options} {:?} {:?}", self.fixed.sizes, self.fixed.overridable).as_bytes());
        for (name, value) in &self.values {
            hash.update(format!("{name} {:?}", value.shape).as_bytes());
            hash.update(value.bytes.read()?);
        }
        Ok(hash.digest128())
    }

    /// What tells the model as its caller wants it from all others in this process: where its bytes come from, and what was decided. External
    /// data counts that was asked for so far. Nothing if a file might change without a sign of it.
    pub fn identity(&self) -> Option<u128> {
        let decided = self.decided.get_or_init(|| self.fixed.describe());
        let text = format!("{:?} {decided}", self.model.origins()?);
        Some(memory::identity(text.as_bytes()))
    }

    /// Whether all files that were opened for it are those that another model would open now.
    pub(super) fn has_the_files_of(&self, model: &Model) -> bool {
        self.model.has_the_files_of(model)
    }

    /// Whether bytes are a part of the model's files, which stay where they are.
    pub fn has(&self, place: Place) -> bool {
        self.model.has(place)
    }

    pub(super) fn graph(&self) -> Result<&GraphProto> {
        self.proto.graph.as_ref().ok_or_else(|| malformed("it has no graph"))
    }

    /// Names of initializers that stay constants.
    fn is_constant(&self, graph: &GraphProto) -> HashSet<String> {
        let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
        let names = graph.initializer.iter().chain(sparse).map(|tensor| tensor.name.clone());
        names.filter(|name| !self.fixed.overridable.contains(name)).collect()
    }

    fn read_inputs(&mut self) -> Result<()> {
        let graph = self.graph()?;
        let constants = self.is_constant(graph);
        let defaults = self.defaults(graph)?;
        let mut inputs = dimensions::inputs(graph, &|name| constants.contains(name))?;
        for (name, _, dimensions) in &mut inputs {
            if let Some(tensor) = defaults.get(name.as_str()) {
                let declared = std::mem::take(dimensions);
                // One without elements stands for no adapter: those of any rank may take its place.
                let stays_open = |axis: usize, size: usize| {
                    let is_open = matches!(declared.get(axis), Some(Dimension::Named(_) | Dimension::Unknown));
                    size == 0 && is_open && declared.len() == tensor.shape.len()
                };
                let sizes = tensor.shape.iter().enumerate();
                let dimension = |(axis, &size): (usize, &usize)| match stays_open(axis, size) {
                    true => declared[axis].clone(),
                    false => Dimension::Size(size as u32),
                };
                *dimensions = sizes.map(dimension).collect();
            }
        }
        let infos: HashMap<&str, &ValueInfoProto> = graph.input.iter().map(|info| (info.name.as_str(), info)).collect();
        let shaped = dimensions::open(inputs.clone(), &self.fixed.sizes)?;
        self.fixed.check_names(&inputs.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>())?;
        let mut values = BTreeMap::new();
        let mut open = Vec::new();
        for Shaped { name, data_type, shape } in shaped {
            if self.fixed.values.contains_key(&name) {
                let form =
                    infos.get(name.as_str()).map(|info| dimensions::value_type(info).map(|(form, ..)| form)).transpose()?;
                if form.is_some_and(|form| form.is_sequence) {
                    let found = format!("a value for {name:?}, which is a sequence");
                    return Err(Error::argument("constants", found, "values for tensors"));
                }
                // Its shape has to be known.
                let declared = inputs.iter().filter(|input| input.0 == name).cloned().collect();
                let signature = match shape.iter().any(is_open) {
                    true => dimensions::fix(declared, &self.fixed.sizes)?.remove(0),
                    false => signature(&name, data_type, &shape),
                };
                if let Some(tensor) = self.fixed.value(&signature)? {
                    values.insert(name, tensor);
                }
                continue;
            }
            let info = infos.get(name.as_str());
            let element = info.and_then(|info| dimensions::element(info)).unwrap_or(data_type.into());
            let element_type = info.and_then(|info| dimensions::element_type(info, data_type)).unwrap_or(data_type.name());
            let form = info.map_or(Ok(Form::TENSOR), |info| dimensions::value_type(info).map(|(form, ..)| form))?;
            let default = match defaults.get(name.as_str()) {
                Some(tensor) if tensor.shape.contains(&0) => Some(Bytes::new()),
                Some(tensor) => {
                    let (_, bytes) = tensor.to_operand().map_err(|error| error.of("initializer", &name))?;
                    Some(Bytes::copy_from_slice(bytes.as_slice()))
                }
                None => None,
            };
            open.push(OpenInput { name, data_type, element_type, shape, form, default, element });
        }
        let shapes: HashMap<&str, &Vec<Size>> = open.iter().map(|input| (input.name.as_str(), &input.shape)).collect();
        let mut named = BTreeMap::new();
        for (name, _, dimensions) in &inputs {
            let shape = shapes.get(name.as_str()).copied();
            for (axis, dimension) in dimensions.iter().enumerate() {
                let Dimension::Named(name) = dimension else { continue };
                let size = shape.and_then(|shape| shape.get(axis));
                named.insert(name.clone(), if let Some(Size::Known(size)) = size { Some(*size) } else { None });
            }
        }
        inputs.retain(|(name, ..)| !values.contains_key(name));
        self.declared = inputs;
        self.named = named;
        self.inputs = open;
        self.values = values;
        Ok(())
    }

    /// The values of initializers that a run may override.
    fn defaults(&self, graph: &GraphProto) -> Result<BTreeMap<String, Tensor>> {
        let mut defaults = BTreeMap::new();
        for name in &self.fixed.overridable {
            let is_input = |name: &str| graph.input.iter().any(|info| info.name == name);
            let initializer = graph.initializer.iter().find(|tensor| tensor.name == *name).filter(|_| is_input(name));
            let Some(initializer) = initializer else {
                let both: Vec<&String> = graph.input.iter().map(|info| &info.name).collect();
                let both: Vec<&&String> =
                    both.iter().filter(|input| graph.initializer.iter().any(|tensor| tensor.name == ***input)).collect();
                let allowed = format!("inputs that have an initializer: {both:?}");
                return Err(Error::argument("overridable", format!("{name:?}"), allowed));
            };
            defaults.insert(name.clone(), Tensor::from_proto(initializer, &self.model)?);
        }
        Ok(defaults)
    }

    pub(super) fn is_overridable(&self, name: &str) -> bool {
        self.fixed.overridable.contains(name)
    }

    /// What runs pass, in the order of the file.
    pub fn inputs(&self) -> &[OpenInput] {
        &self.inputs
    }

    /// What the file tells of the outputs. A dimension whose name no input has is one that only a run can tell.
    pub fn outputs(&self) -> Result<Vec<OpenOutput>> {
        let graph = self.graph()?;
        let known = &self.named;
        let size = |dimension: Dimension| match dimension {
            Dimension::Size(size) => Size::Known(size),
            Dimension::Named(name) => {
                let expression = Expression::of(&name);
                let follows = |expression: &Expression| expression.names().iter().all(|name| known.contains_key(*name));
                match known.get(&name) {
                    Some(Some(size)) => Size::Known(*size),
                    Some(None) => Size::Open(name),
                    None if expression.as_ref().is_some_and(follows) => {
                        let size = |name: &str| known.get(name).copied().flatten();
                        expression.and_then(|expression| expression.value(&size)).map_or(Size::Open(name), Size::Known)
                    }
                    None => Size::Unknown,
                }
            }
            Dimension::Unknown | Dimension::AnyRank => Size::Unknown,
        };
        let output = |info: &ValueInfoProto| {
            let described = dimensions::value_type(info).ok();
            let data_type = described.as_ref().map(|(_, data_type, _)| *data_type);
            OpenOutput {
                name: info.name.clone(),
                data_type,
                element_type: data_type.map(|data_type| dimensions::element_type(info, data_type).unwrap_or(data_type.name())),
                form: described.as_ref().map_or(Form::TENSOR, |(form, ..)| *form),
                shape: described.and_then(|(.., shape)| shape).map(|shape| shape.into_iter().map(size).collect()),
            }
        };
        Ok(graph.output.iter().map(output).collect())
    }

    /// Whether all sizes are known before a run.
    pub fn is_fixed(&self) -> bool {
        let is_fixed =
            |input: &OpenInput| input.form.is_tensor() && input.shape.iter().all(|size| matches!(size, Size::Known(_)));
        self.inputs.iter().all(is_fixed)
    }

    /// Whether all inputs and outputs are tensors that are always there.
    ///
    /// # Errors
    /// `TypeError` where there is no graph.
    pub fn has_only_tensors(&self) -> Result<bool> {
        Ok(self.inputs.iter().all(|input| input.form.is_tensor()) && self.outputs()?.iter().all(|output| output.form.is_tensor()))
    }

    /// What the first part is given for tensors of these shapes, which are in the order of [`Loaded::inputs`].
    ///
    /// # Errors
    /// `TypeError` for shapes that are not those of the model.
    pub fn given(&self, shapes: &[Vec<u32>]) -> Result<Givens> {
        self.given_of(&shapes.iter().cloned().map(InputShape::Tensor).collect::<Vec<_>>())
    }

    /// The same for whatever inputs take.
    ///
    /// # Errors
    /// As [`Loaded::given`].
    pub fn given_of(&self, shapes: &[InputShape]) -> Result<Givens> {
        let mut givens: Givens = self.values.iter().map(|(name, tensor)| (name.clone(), Given::Known(tensor.clone()))).collect();
        if shapes.len() != self.inputs.len() {
            return Err(Error::argument("inputs", format!("{} shapes", shapes.len()), self.inputs.len()));
        }
        for (input, shape) in self.inputs.iter().zip(shapes) {
            let given = match shape {
                InputShape::Tensor(shape) if !input.form.is_sequence => input.given(shape)?,
                InputShape::Sequence(list) if input.form.is_sequence && list.len() <= MOST_ELEMENTS => {
                    Given::Sequence(list.iter().map(|shape| input.given(shape)).collect::<Result<_>>()?)
                }
                InputShape::Nothing if input.form.is_optional => Given::Nothing,
                other => {
                    let found = match other {
                        InputShape::Tensor(_) => "a tensor".to_owned(),
                        InputShape::Sequence(list) => format!("a sequence of {} tensors", list.len()),
                        InputShape::Nothing => "nothing".to_owned(),
                    };
                    let allowed = match input.form.is_sequence {
                        true => format!("a sequence of at most {MOST_ELEMENTS} tensors"),
                        false => "a tensor".to_owned(),
                    };
                    return Err(Error::argument("inputs", format!("{found} for {:?}", input.name), allowed));
                }
            };
            givens.insert(input.name.clone(), given);
        }
        Ok(givens)
    }

    /// The shapes of the inputs where all are known.
    ///
    /// # Errors
    /// `TypeError` that lists the dimensions which are not.
    pub fn fixed_shapes(&self) -> Result<Vec<Vec<u32>>> {
        if let Some(input) = self.inputs.iter().find(|input| !input.form.is_tensor()) {
            let what = if input.form.is_sequence { "a sequence" } else { "an optional value" };
            let text = format!("{:?} is {what}, whose shape only a run can tell", input.name);
            return Err(Error::new(Kind::NotSupported, text));
        }
        let fixed = dimensions::fix(self.declared.clone(), &self.fixed.sizes)?;
        Ok(fixed.into_iter().map(|signature| signature.shape).collect())
    }

    /// What produced the file, the version of the model, and its properties.
    pub fn proto(&self) -> &ModelProto {
        &self.proto
    }
}

fn is_open(size: &Size) -> bool {
    !matches!(size, Size::Known(_))
}

/// An input whose sizes are all known.
fn signature(name: &str, data_type: DataType, shape: &[Size]) -> Signature {
    let known = shape.iter().filter_map(|size| if let Size::Known(size) = size { Some(*size) } else { None });
    Signature { name: name.to_owned(), data_type, element_type: data_type.name(), shape: known.collect() }
}
