//! The plans of steps, by the shapes that the inputs have in a bucket.

use super::{Known, KnownKind, Steps, can_hold};
use crate::error::{Error, Kind, Result};
use crate::graph::ops::elementwise::UnaryKind;
use crate::graph::{Descriptor, Graph, Op, OperandId, Source as From};
use crate::host_memory::Placements;
use crate::onnx::fixed_caches;
use crate::onnx::{Export, Given, Part, Place, Signature, Source, Tensor, import_part};
use crate::program::Program;
use crate::program::caches::{Slot, Slots, Told, asked, for_all_lengths, require_filled, rounded, rounded_less};
use crate::program::device::OwnedGraph;
use crate::timeline::{GraphId, Task, Urgency, from_panic};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What tells plans apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    shapes: Vec<Vec<u32>>,
    /// Inputs and their axes that are longer where the caches are.
    grown: Vec<(usize, usize)>,
    /// Values of [`Steps::known`]: what says how much of caches is filled, above their rows.
    known: Vec<i64>,
    /// Of the caches.
    rows: usize,
    /// Whether the caches of the model have a fixed size.
    is_fixed: bool,
    /// Which kind of bucket it is for, if it is for shorter caches too.
    bucket: Option<usize>,
}

impl Key {
    pub fn new(shapes: Vec<Vec<u32>>, grown: Vec<(usize, usize)>, known: Vec<i64>, rows: usize, is_fixed: bool) -> Key {
        Key { shapes, grown, known, rows, is_fixed, bucket: None }
    }

    pub fn shapes(&self) -> &[Vec<u32>] {
        &self.shapes
    }

    pub fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_roomy(&self) -> bool {
        self.bucket.is_some()
    }

    /// The same for other caches.
    pub fn at(&self, rows: usize) -> Key {
        let mut key = self.clone();
        for &(at, axis) in &self.grown {
            key.shapes[at][axis] = (key.shapes[at][axis] as usize + rows - self.rows) as u32;
        }
        key.rows = rows;
        key
    }

    /// What all lengths have in common.
    fn form(&self) -> Key {
        Key { bucket: None, ..self.at(0) }
    }
}

/// A compiled graph for steps.
#[derive(Debug)]
pub struct Plan {
    pub graph: GraphId,
    _owned: OwnedGraph,
    pub inputs: Vec<(Feed, Descriptor)>,
    pub outputs: Vec<Output>,
    pub placements: Placements,
    /// Outputs that are known, by their positions among all.
    pub known: Vec<(usize, Signature, Vec<u8>)>,
    /// Rows that a step appends.
    pub new_rows: usize,
}

/// What an input of the graph is.
#[derive(Debug)]
pub enum Feed {
    /// A cache, which lies in that output.
    Rows(usize),
    /// An input of the model, by its position, and the axis along which it is longer in a bucket.
    Given {
        input: usize,
        axis: Option<usize>,
    },
    Told(Told),
}

/// An output of the graph.
#[derive(Debug)]
pub struct Output {
    pub made: Made,
    /// As the graph has it.
    pub descriptor: Descriptor,
    /// As script has it, of a full bucket.
    pub signature: Signature,
    /// The axis along which it is shorter where the caches are, and the rows of the bucket.
    grown: Option<(usize, usize)>,
}

impl Output {
    /// As script has it, for caches of so many rows; of a fixed size, if they have one.
    pub fn user(&self, rows: usize, size: Option<u32>) -> Descriptor {
        let mut shape = self.signature.shape.clone();
        if let Some((axis, full)) = self.grown {
            shape[axis] = size.unwrap_or(shape[axis] - (full - rows) as u32);
        }
        Descriptor::new(self.signature.data_type, shape)
    }
}

/// What an output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The rows of a cache, by its number.
    Rows(usize),
    State,
    /// An input of the model, as it is.
    Alias(usize),
    Other,
}

/// Those that were used last.
#[derive(Debug, Default)]
pub struct Plans {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Nothing where there can be none.
    plans: Slots<Key, Option<Arc<Plan>>>,
    /// By what all lengths have in common: how many kinds of buckets are no use.
    tried: HashMap<Key, usize>,
}

/// How many rows the bucket of a length has, in three kinds, of which a later one is tried where a model has no graph for an earlier
/// one: few buckets, whose plans are soon made; more, for a model whose table of positions ends before the next of the few; one a length.
const BUCKETS: [fn(usize) -> usize; 3] = [rounded, rounded_less, |rows| rows];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plans {
    /// The key of the bucket that caches of so many rows are in.
    pub fn roomy(&self, key: Key, rows: usize) -> Key {
        if rows == 0 {
            return Key { bucket: None, ..key.at(0) };
        }
        let tried = lock(&self.kept).tried.get(&key.form()).copied().unwrap_or(0);
        let bucket = BUCKETS[tried](rows);
        let kind = if tried + 1 == BUCKETS.len() { None } else { Some(tried) };
        Key { bucket: kind, ..key.at(bucket) }
    }

    /// Whether there is a plan, if somebody has found that out.
    pub fn fits(&self, key: &Key) -> Option<bool> {
        let slot = lock(&self.kept).plans.find(key)?;
        let plan = slot.try_lock().ok()?;
        plan.as_ref().map(Option::is_some)
    }

    /// Whether nobody has asked for a plan yet.
    pub fn begins(&self, key: &Key) -> bool {
        lock(&self.kept).plans.find(key).is_none()
    }

    fn slot(&self, key: &Key) -> Arc<Slot<Option<Arc<Plan>>>> {
        lock(&self.kept).plans.slot(key)
    }
}

impl Steps {
    /// The plan for a key, which may have to be made; nothing where there can be none.
    pub fn plan(&self, program: &Program, key: &Key) -> Option<Arc<Plan>> {
        let slot = self.plans.slot(key);
        // Others have their plans meanwhile, and whoever wants this one waits for it.
        let mut slot = lock(&slot);
        if let Some(plan) = &*slot {
            return plan.clone();
        }
        let made = catch_unwind(AssertUnwindSafe(|| self.make(program, key))).unwrap_or_else(|panic| Err(from_panic(&*panic)));
        if let (Err(_), Some(kind)) = (&made, key.bucket) {
            lock(&self.plans.kept).tried.insert(key.form(), kind + 1);
        }
        let plan = made.ok().map(Arc::new);
        *slot = Some(plan.clone());
        plan
    }

    /// The part that is the whole model, for caches of so many rows.
    fn part(&self, program: &Program, key: &Key) -> Result<Part> {
        let loaded = &program.loaded;
        let inputs = loaded.inputs();
        let form = self.form(key);
        let mut given = fixed_caches::given(loaded, &form.caches, &key.shapes)?;
        for (Known { at, kind }, &number) in self.known.iter().zip(&key.known) {
            let input = &inputs[*at];
            let shape: Vec<usize> = key.shapes[*at].iter().map(|&size| size as usize).collect();
            let count = shape.iter().product();
            let numbers = match kind {
                KnownKind::Number => vec![number],
                KnownKind::Mask if number == 1 => vec![1; count],
                KnownKind::Filled(_) if key.is_fixed => vec![number + key.rows as i64; count],
                KnownKind::Mask | KnownKind::Filled(_) => continue,
            };
            given.insert(input.name.clone(), Given::Known(Tensor::from_numbers(input.element(), shape, &numbers)));
        }
        let mut source = Source { caches: &form.caches, ..Source::of(loaded)? };
        let fixed = self.fixed.as_ref().map(|(_, fixed)| fixed).filter(|_| key.is_fixed);
        if let Some(fixed) = fixed {
            source.graph = &fixed.graph;
        }
        let asked = asked(fixed);
        source.asked = &asked;
        let part = import_part(&source, &program.limits, &program.bounds, &given, Place::First).map_err(Error::from)?;
        if let Some(fixed) = fixed {
            require_filled(fixed, &part, key.rows, key.shapes[fixed.tokens][1] as usize)?;
        }
        let exists = |export: &Export| matches!(export, Export::Result { .. } | Export::Known(_));
        match part.next.is_none() && part.exports.iter().all(|(_, export)| exists(export)) {
            true => Ok(part),
            false => Err(refused("a step is not one graph")),
        }
    }

    fn make(&self, program: &Program, key: &Key) -> Result<Plan> {
        let part = self.part(program, key)?;
        let graph_of = |part: Part| part.graph.ok_or_else(|| refused("there is nothing to compute"));
        let (signatures, most) = (part.outputs.clone(), part.most_bytes);
        let signature_of = |name: &str| {
            signatures
                .iter()
                .find(|signature| signature.name == name)
                .cloned()
                .ok_or_else(|| refused("an output that is no tensor"))
        };
        let mut known = Vec::new();
        for (position, (name, export)) in part.exports.iter().enumerate() {
            if let Export::Known(tensor) = export {
                known.push((position, signature_of(name)?, tensor.held()?.1.to_vec()));
            }
        }
        let full = graph_of(part)?;
        let caches = &self.form(key).caches;
        let is_cache = |name: &str| caches.iter().any(|cache| cache.present == name);
        let (mut graph, told) = match key.bucket {
            None => (full, Vec::new()),
            Some(kind) => {
                let shorter = |rows| {
                    let part = self.part(program, &key.at(rows))?;
                    let is_same = |(position, _, bytes): &(usize, Signature, Vec<u8>)| match part.exports.get(*position) {
                        Some((_, Export::Known(tensor))) => tensor.held().is_ok_and(|held| held.1[..] == bytes[..]),
                        _ => false,
                    };
                    if !known.iter().all(is_same) {
                        return Err(refused("known outputs that depend on the length"));
                    }
                    graph_of(part)
                };
                for_all_lengths(full, key.rows, BUCKETS[kind], shorter, is_cache)?
            }
        };
        program.adopt(&mut graph, false)?;
        let inputs_of_model = program.loaded.inputs();
        let mut outputs = Vec::new();
        let mut new_rows = 0;
        for (name, id) in &graph.outputs {
            let signature = signature_of(name)?;
            let descriptor = graph.descriptor(*id).clone();
            let made = match caches.iter().position(|cache| cache.present == *name) {
                Some(number) => Made::Rows(number),
                None => {
                    match input_behind(&graph, *id).and_then(|name| inputs_of_model.iter().position(|input| input.name == name)) {
                        Some(input) if self.states.iter().any(|(past, _)| *past == inputs_of_model[input].name) => {
                            Made::Alias(input)
                        }
                        _ if self.states.iter().any(|(_, present)| present == name) && can_hold(descriptor.data_type) => {
                            Made::State
                        }
                        _ => Made::Other,
                    }
                }
            };
            let grown = if let Made::Rows(number) = made {
                let axis = caches[number].axis;
                let all = signature.shape.get(axis).copied().unwrap_or(0) as usize;
                new_rows = all
                    .checked_sub(key.rows)
                    .filter(|&new| new > 0 && (new_rows == 0 || new == new_rows))
                    .ok_or_else(|| refused(format!("{name:?} of {all} rows for {}", key.rows)))?;
                Some((axis, key.rows))
            } else {
                None
            };
            outputs.push(Output { made, descriptor, signature, grown });
        }
        let mut told: HashMap<String, Told> = told.into_iter().collect();
        let mut inputs = Vec::new();
        for (name, id) in &graph.inputs {
            let descriptor = graph.descriptor(*id).clone();
            let feed = if let Some(told) = told.remove(name) {
                Feed::Told(told)
            } else if let Some(number) = caches.iter().position(|cache| cache.past == *name) {
                let output = outputs.iter().position(|output| output.made == Made::Rows(number));
                Feed::Rows(output.ok_or_else(|| refused(format!("{name:?} without what follows it")))?)
            } else {
                let input = inputs_of_model.iter().position(|input| input.name == *name);
                let input = input.ok_or_else(|| refused(format!("an input {name:?} of nobody")))?;
                let axis = key.grown.iter().find(|(at, _)| *at == input).map(|&(_, axis)| axis);
                Feed::Given { input, axis: axis.filter(|_| key.is_roomy()) }
            };
            inputs.push((feed, descriptor));
        }
        let id = program.device.next_graph();
        let built = program.device.wait_for(|done| Task::Build {
            graph: id,
            description: Box::new(graph),
            label: String::new(),
            most,
            urgency: Urgency::Wanted,
            done,
        })?;
        let _owned = OwnedGraph::new(program.device.clone(), id);
        let placements = built.placements;
        for (position, (feed, _)) in inputs.iter().enumerate() {
            let is_in_place = |output: usize| {
                placements.get(position).copied().flatten().is_some_and(|place| place.output == output && place.first == 0)
            };
            if let Feed::Rows(output) = feed
                && !is_in_place(*output)
            {
                return Err(refused("a cache that is not appended to in place"));
            }
        }
        Ok(Plan { graph: id, _owned, inputs, outputs, placements, known, new_rows })
    }
}

fn refused(text: impl Into<String>) -> Error {
    Error::new(Kind::NotSupported, text.into())
}

/// The input that an output is another name of.
fn input_behind(graph: &Graph, mut id: OperandId) -> Option<&str> {
    loop {
        match &graph.operands[id.0 as usize].source {
            From::Input { name } => return Some(name),
            From::Node { node, .. } => match &graph.nodes[*node as usize].op {
                Op::Unary(op) if op.kind == UnaryKind::Identity => id = op.input,
                _ => return None,
            },
            From::Constant(_) => return None,
        }
    }
}
