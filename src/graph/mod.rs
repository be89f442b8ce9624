//! What a graph is, and the rules of the specification.
//!
//! # The representation
//!
//! A [`GraphBuilder`] holds *operands* (things with a [`Descriptor`]: graph inputs, constants, outputs of nodes) and
//! *nodes* (a typed [`Op`] whose fields name its operands by [`OperandId`]). Ids are positions, and a node is appended
//! after everything that it uses, so the order of nodes is an order of execution and no walk over a graph is recursive.
//! [`GraphBuilder::build`] leaves a [`Graph`]: the same lists, cut down to what the named outputs need.
//!
//! # The rules
//!
//! * A node in a graph is valid: types and ranks by its row ([`operator::check_limits`]), everything else by its rule
//!   ([`operator::Rule`]). Nothing below checks again.
//! * Every descriptor in a graph passed [`Descriptor::check`]: its element count and byte length do not overflow.
//! * Constants are bytes shared by reference; a graph never copies them.
//!
//! This module knows nothing of JavaScript or timelines. Of backends it knows what they cannot do ([`Limits`]), and it holds what they
//! keep for the graphs of a model ([`Shared`]) without knowing what that is.

pub mod attribute;
mod constant;
pub mod data_type;
pub mod description;
pub mod descriptor;
pub mod limits;
pub mod number;
pub mod operator;
pub mod ops;
pub mod shape;
#[cfg(test)]
pub mod testing;
pub mod typings;

pub use constant::{ConstantBytes, Facts, greatest};
pub use data_type::DataType;
pub use descriptor::{Descriptor, Shape};
pub use limits::Limits;
pub use number::Number;
pub use ops::Op;

use crate::error::{Error, Kind, Result};
use crate::memory::{self, Once, Place, Usage};
use attribute::Value;
use data_type::{ANY, FOUR_BITS};
use operator::{Operator, check_limits};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// An operand, by its position in the builder or graph that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandId(pub u32);

/// A sequence of operands, as `concat` takes it.
pub type OperandList = Vec<OperandId>;

/// What is known of so many constants of a model is kept; then it is found out again.
const MOST_FACTS: usize = 1 << 14;

/// What a backend keeps for all graphs of one model, which are made of the same constants for inputs of different shapes: memory for
/// runs, and weights as its kernels want them. What it is only the backend knows.
#[derive(Clone, Default)]
pub struct Shared {
    kept: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
    /// Where bytes of constants are that stay there for as long as the model: beginnings and lengths.
    stable: Arc<RwLock<BTreeMap<usize, usize>>>,
    /// There may be several graphs.
    several: Arc<OnceLock<()>>,
    /// What the compiler has computed from constants, by what it was computed from, for as long as a graph has it.
    computed: Arc<Once<u128, ConstantBytes>>,
    /// What was found out about constants, by what tells them apart.
    facts: Arc<Mutex<HashMap<u128, Arc<Facts>>>>,
    /// Where the memory of a model is counted.
    usage: Arc<OnceLock<Arc<Usage>>>,
    /// What whoever loads the model says to the backend.
    attached: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

impl Shared {
    /// Says that these bytes stay where they are, and what they are, for as long as there are graphs of the model.
    pub fn keep(&self, place: Place) {
        let mut stable = self.stable.write().unwrap_or_else(PoisonError::into_inner);
        stable.insert(place.start, place.length);
    }

    /// What is known of these bytes, which stay where they are: nobody looks at them for that.
    pub fn facts_at(&self, place: Place) -> Arc<Facts> {
        self.facts((place.start as u128) << 64 | place.length as u128)
    }

    /// What is known of a constant with that identity.
    pub fn facts(&self, identity: u128) -> Arc<Facts> {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        // Constants that belong to one shape come and go with it.
        if facts.len() >= MOST_FACTS {
            facts.clear();
        }
        facts.entry(identity).or_default().clone()
    }

    /// Whether somebody has said so.
    pub fn is_stable(&self, place: Place) -> bool {
        let first = place.start;
        let stable = self.stable.read().unwrap_or_else(PoisonError::into_inner);
        let before = stable.range(..=first).next_back();
        before.is_some_and(|(start, length)| first + place.length <= start + length)
    }

    /// Says where the memory of the graphs is counted: with the model, and so with its context.
    pub fn is_counted_in(&self, usage: &Arc<Usage>) {
        let _ = self.usage.set(usage.clone());
    }

    /// Where somebody has said that it is counted.
    pub fn usage(&self) -> Option<&Arc<Usage>> {
        self.usage.get()
    }

    /// Says that there may be several graphs, which have constants in common.
    pub fn expects_several(&self) {
        let _ = self.several.set(());
    }

    /// Whether somebody has said so.
    pub fn is_of_several(&self) -> bool {
        self.several.get().is_some()
    }

    /// What another graph of the model has computed from the same constants, if one still has it.
    pub fn computed(&self, key: u128) -> Option<ConstantBytes> {
        self.computed.find(&key)
    }

    /// Lets other graphs of the model have what this one has computed.
    pub fn has_computed(&self, key: u128, bytes: &ConstantBytes) {
        self.computed.keep(key, bytes.clone(), |_| false);
    }

    /// Lets the backend have something for all graphs of the model. Only the first time counts.
    pub fn attach<T: Any + Send + Sync>(&self, what: Arc<T>) {
        let _ = self.attached.set(what);
    }

    /// What was attached.
    pub fn attached<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.attached.get()?.clone().downcast().ok()
    }

    /// The backend's part, which the first graph that asks makes.
    pub fn of<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let kept = self.kept.get_or_init(|| Arc::new(T::default())).clone();
        // Graphs of one model belong to one backend.
        kept.downcast().unwrap_or_default()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// Where an operand comes from.
#[derive(Clone, Debug)]
pub enum Source {
    Input {
        name: String,
    },
    Constant(ConstantBytes),
    /// Output number `output` of node number `node`.
    Node {
        node: u32,
        output: u32,
    },
}

/// An operand: what it is, and where it comes from.
#[derive(Clone, Debug)]
pub struct Operand {
    pub descriptor: Descriptor,
    pub source: Source,
}

/// An operator applied to operands.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Op,
    pub label: String,
    pub outputs: Vec<OperandId>,
}

/// The descriptors of a builder's operands, as rules see them.
#[derive(Clone, Copy)]
pub struct Operands<'a>(&'a [Operand]);

impl<'a> Operands<'a> {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn descriptor(&self, id: OperandId) -> &'a Descriptor {
        &self.0[id.0 as usize].descriptor
    }

    pub fn shape(&self, id: OperandId) -> &'a [u32] {
        &self.descriptor(id).shape
    }

    pub fn data_type(&self, id: OperandId) -> DataType {
        self.descriptor(id).data_type
    }

    pub fn rank(&self, id: OperandId) -> usize {
        self.shape(id).len()
    }

    pub fn source(&self, id: OperandId) -> &'a Source {
        &self.0[id.0 as usize].source
    }
}

/// A graph under construction (`MLGraphBuilder`).
#[derive(Debug)]
pub struct GraphBuilder {
    limits: Arc<Limits>,
    operands: Vec<Operand>,
    nodes: Vec<Node>,
    input_names: HashMap<String, OperandId>,
}

/// A graph that was built: validated, and cut down to what its outputs need.
#[derive(Clone, Debug)]
pub struct Graph {
    pub operands: Vec<Operand>,
    /// In an order of execution.
    pub nodes: Vec<Node>,
    /// In the order in which they were made.
    pub inputs: Vec<(String, OperandId)>,
    /// In the order in which they were named.
    pub outputs: Vec<(String, OperandId)>,
    /// Common to the graphs of one model.
    pub shared: Shared,
    /// Whether float16 values that are computed in float32 may stay so from one operator to the next, without being rounded: models that
    /// were made for onnxruntime are exact and free of overflows only like that, since it computes so on CPUs.
    pub rounds_late: bool,
    /// How float32 may be computed.
    pub fp_math: FpMath,
    /// The names of inputs that are added to the scores of keys: keys that they hide in front (by minus infinity), and their values, are
    /// finite, so that nobody need look at them.
    pub hiding: Vec<String>,
}

/// How products of float32 may be computed, in oneDNN's words and sense: a permission, which a backend without a use for it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FpMath {
    /// In float32.
    #[default]
    Strict,
    /// Their operands may be rounded to bfloat16: 8 bits of 24. Sums stay float32.
    Bf16,
}

impl FpMath {
    /// By the name that script gives it.
    pub fn named(name: &str) -> Option<FpMath> {
        match name {
            "strict" => Some(FpMath::Strict),
            "bf16" => Some(FpMath::Bf16),
            _ => None,
        }
    }
}

impl GraphBuilder {
    pub fn new(limits: Arc<Limits>) -> Self {
        GraphBuilder { limits, operands: Vec::new(), nodes: Vec::new(), input_names: HashMap::new() }
    }

    pub fn operands(&self) -> Operands<'_> {
        Operands(&self.operands)
    }

    /// The operator that makes an operand, if one does.
    pub fn operator_of(&self, id: OperandId) -> Option<&Op> {
        match self.operands().source(id) {
            Source::Node { node, .. } => self.nodes.get(*node as usize).map(|node| &node.op),
            _ => None,
        }
    }

    #[cfg(test)]
    pub fn operand_count(&self) -> usize {
        self.operands.len()
    }

    /// Whether an operand of this builder has that id. Ids that script sends are checked here before they are used.
    pub fn contains(&self, id: OperandId) -> bool {
        (id.0 as usize) < self.operands.len()
    }

    /// `input(name, descriptor)`, `#api-mlgraphbuilder-input`.
    ///
    /// # Errors
    /// `TypeError` for a name that is empty or taken, and for a descriptor that cannot be.
    pub fn input(&mut self, name: &str, descriptor: Descriptor) -> Result<OperandId> {
        let fail = |error: Error| error.of("input", name);
        if name.is_empty() {
            return Err(fail(Error::argument("name", "an empty name", "a name that is not empty")));
        }
        if self.input_names.contains_key(name) {
            return Err(fail(Error::argument("name", "the name of another input", "a name that is not taken")));
        }
        self.check_operand(&descriptor, self.limits.input_types(), "descriptor").map_err(fail)?;
        memory::grow(&mut self.operands, 1)?;
        let id = self.push(Operand { descriptor, source: Source::Input { name: name.to_owned() } });
        self.input_names.insert(name.to_owned(), id);
        Ok(id)
    }

    /// `constant(descriptor, buffer)` and `constant(tensor)`, `#api-mlgraphbuilder-constant`.
    ///
    /// # Errors
    /// `TypeError` for a descriptor that cannot be, or when the number of bytes is not that of the descriptor.
    pub fn constant(&mut self, descriptor: Descriptor, bytes: ConstantBytes) -> Result<OperandId> {
        let fail = |error: Error| error.of("constant", "");
        self.check_operand(&descriptor, self.limits.constant_types(), "descriptor").map_err(fail)?;
        let (found, allowed) = (bytes.len(), descriptor.byte_length());
        if found != allowed {
            return Err(fail(Error::argument(
                "buffer",
                format!("{found} bytes"),
                format!("the {allowed} bytes of {descriptor}"),
            )));
        }
        memory::grow(&mut self.operands, 1)?;
        Ok(self.push(Operand { descriptor, source: Source::Constant(bytes) }))
    }

    /// `constant(dataType, value)`, `#api-mlgraphbuilder-constant-datatype-value`: a scalar.
    pub fn scalar(&mut self, data_type: DataType, value: Number) -> Result<OperandId> {
        self.constant(Descriptor::scalar(data_type), ConstantBytes::new(value.to_bytes(data_type)))
    }

    fn check_operand(&self, descriptor: &Descriptor, types: data_type::DataTypes, argument: &str) -> Result<()> {
        if !types.contains(descriptor.data_type) {
            return Err(Error::argument(argument, format!("data type {}", descriptor.data_type), types));
        }
        self.limits.check_tensor(descriptor, argument)
    }

    /// Applies an operator whose arguments and options arrive as values, in the order of its row.
    ///
    /// # Errors
    /// Those of the operator's method steps, with the operator and the label in the message.
    pub fn apply(
        &mut self,
        row: &'static Operator,
        values: impl IntoIterator<Item = Value>,
        label: &str,
    ) -> Result<&[OperandId]> {
        let op = (row.create)(&mut values.into_iter()).map_err(|error| error.of(row.name, label))?;
        self.push_op(op, label)
    }

    /// Applies a typed operator.
    ///
    /// # Errors
    /// Those of the operator's method steps, with the operator and the label in the message.
    pub fn push_op(&mut self, op: impl Into<Op>, label: &str) -> Result<&[OperandId]> {
        let op = op.into();
        let row = op.row();
        let outputs = self.infer(row, &op).map_err(|error| error.of(row.name, label))?;
        let op = self.with_equal_groups(op, label)?;
        memory::check()?;
        memory::grow(&mut self.operands, outputs.len())?;
        memory::grow(&mut self.nodes, 1)?;
        let node = self.nodes.len() as u32;
        let outputs = outputs
            .into_iter()
            .enumerate()
            .map(|(output, descriptor)| self.push(Operand { descriptor, source: Source::Node { node, output: output as u32 } }))
            .collect();
        self.nodes.push(Node { op, label: label.to_owned(), outputs });
        Ok(&self.nodes[node as usize].outputs)
    }

    /// Gives a transposed convolution groups of as many input channels each, by channels of zeros after the others. The
    /// specification's steps accept any number of groups and do not say which channels are in which: each group takes as many
    /// as the first one, as long as there are any.
    fn with_equal_groups(&mut self, op: Op, label: &str) -> Result<Op> {
        let Op::ConvTranspose2d(mut op) = op else { return Ok(op) };
        let operands = self.operands();
        let axes = [(op.input, op.input_layout.channel_axis()), (op.filter, op.filter_layout.to_iohw(&[0, 1, 2, 3])[0])];
        let channels = operands.shape(op.input)[axes[0].1];
        let missing = channels.next_multiple_of(op.groups) - channels;
        if missing > 0 {
            let [input, filter] = axes.map(|(input, axis)| {
                let mut ending_padding = vec![0; 4];
                ending_padding[axis] = missing;
                let mode = ops::movement::PaddingMode::Constant;
                let value = Number::Double(0.0);
                ops::movement::Pad { input, beginning_padding: vec![0; 4], ending_padding, mode, value }
            });
            op.input = self.push_op(input, label)?[0];
            op.filter = self.push_op(filter, label)?[0];
        }
        Ok(op.into())
    }

    fn infer(&self, row: &'static Operator, op: &Op) -> Result<operator::Outputs> {
        let mut foreign = false;
        op.visit(&mut |_, id| foreign |= !self.contains(id));
        if foreign {
            return Err(Error::new(Kind::Type, "an operand of another builder"));
        }
        let operands = self.operands();
        check_limits(row, op, &operands)?;
        self.limits.check(row, op, &operands)?;
        let outputs = op.infer(&operands)?;
        for descriptor in &outputs {
            self.limits.check_tensor(descriptor, "output")?;
        }
        Ok(outputs)
    }

    fn push(&mut self, operand: Operand) -> OperandId {
        self.operands.push(operand);
        OperandId(self.operands.len() as u32 - 1)
    }

    /// `build(outputs)`, `#api-mlgraphbuilder-build`: keeps what the outputs need.
    ///
    /// # Errors
    /// `TypeError` when there is no output, a name is empty or used twice, or an output is an input or a constant. The
    /// builder is unchanged then.
    pub fn build(&mut self, outputs: Vec<(String, OperandId)>) -> Result<Graph> {
        self.check_outputs(&outputs).map_err(|error| error.of("build", ""))?;
        let operands = std::mem::take(&mut self.operands);
        let nodes = std::mem::take(&mut self.nodes);
        Ok(prune(operands, nodes, outputs))
    }

    /// The graph that [`GraphBuilder::build`] would leave. The builder is unchanged.
    ///
    /// # Errors
    /// Those of `build`.
    pub fn preview(&self, outputs: Vec<(String, OperandId)>) -> Result<Graph> {
        self.check_outputs(&outputs).map_err(|error| error.of("build", ""))?;
        Ok(prune(self.operands.clone(), self.nodes.clone(), outputs))
    }

    fn check_outputs(&self, outputs: &[(String, OperandId)]) -> Result<()> {
        if outputs.is_empty() {
            return Err(Error::argument("outputs", "no output", "at least one"));
        }
        for (name, id) in outputs {
            if name.is_empty() {
                return Err(Error::argument("outputs", "an empty name", "names that are not empty"));
            }
            let Some(operand) = self.operands.get(id.0 as usize) else {
                return Err(Error::argument(
                    "outputs",
                    format!("an operand of another builder as \"{}\"", name),
                    "operands of this one",
                ));
            };
            let found = match operand.source {
                Source::Input { .. } => "an input",
                Source::Constant(_) => "a constant",
                Source::Node { .. } => continue,
            };
            return Err(Error::argument("outputs", format!("{found} as \"{name}\""), "operands that an operator returned"));
        }
        Ok(())
    }
}

/// Drops the operands and nodes that no output needs and renumbers the others.
fn prune(operands: Vec<Operand>, nodes: Vec<Node>, outputs: Vec<(String, OperandId)>) -> Graph {
    let mut needed = vec![false; operands.len()];
    for (_, id) in &outputs {
        needed[id.0 as usize] = true;
    }
    // Nodes stand after what they use: one pass from the end reaches everything.
    let mut kept_nodes = vec![false; nodes.len()];
    for (position, node) in nodes.iter().enumerate().rev() {
        if node.outputs.iter().any(|id| needed[id.0 as usize]) {
            kept_nodes[position] = true;
            node.op.visit(&mut |_, id| needed[id.0 as usize] = true);
            // Siblings of a needed output stay, since the node writes them.
            node.outputs.iter().for_each(|id| needed[id.0 as usize] = true);
        }
    }
    let mut node_numbers = vec![0; nodes.len()];
    let mut next = 0;
    for (number, kept) in node_numbers.iter_mut().zip(&kept_nodes) {
        *number = next;
        next += *kept as u32;
    }

    let mut renumbered = vec![OperandId(u32::MAX); operands.len()];
    let mut kept_operands = Vec::new();
    let mut inputs = Vec::new();
    for (position, mut operand) in operands.into_iter().enumerate() {
        if needed[position] {
            let id = OperandId(kept_operands.len() as u32);
            renumbered[position] = id;
            match &mut operand.source {
                Source::Input { name } => inputs.push((name.clone(), id)),
                Source::Node { node, .. } => *node = node_numbers[*node as usize],
                Source::Constant(_) => {}
            }
            kept_operands.push(operand);
        }
    }
    let renumber = |id: &mut OperandId| *id = renumbered[id.0 as usize];
    let mut kept = Vec::with_capacity(next as usize);
    for (mut node, keep) in nodes.into_iter().zip(kept_nodes) {
        if keep {
            node.op.visit_mut(&mut |id| renumber(id));
            node.outputs.iter_mut().for_each(renumber);
            kept.push(node);
        }
    }
    let outputs = outputs.into_iter().map(|(name, id)| (name, renumbered[id.0 as usize])).collect();
    Graph {
        operands: kept_operands,
        nodes: kept,
        inputs,
        outputs,
        shared: Shared::default(),
        rounds_late: false,
        fp_math: FpMath::Strict,
        hiding: Vec::new(),
    }
}

impl Graph {
    pub fn descriptor(&self, id: OperandId) -> &Descriptor {
        &self.operands[id.0 as usize].descriptor
    }

    /// The descriptors of the outputs that an operator would have in the graph.
    ///
    /// # Errors
    /// Those of its rule.
    pub fn infer(&self, op: &Op) -> Result<operator::Outputs> {
        op.infer(&Operands(&self.operands))
    }

    /// Whether an operand's value is known.
    pub fn is_constant(&self, id: OperandId) -> bool {
        matches!(self.operands[id.0 as usize].source, Source::Constant(_))
    }
}

/// Data types that graph constants may have on every backend, before its own limits.
pub const CONSTANT_TYPES: data_type::DataTypes = ANY.union(FOUR_BITS);
