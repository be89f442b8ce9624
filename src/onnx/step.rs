//! Nodes that no graph computes: those whose results have a size that depends on data, random numbers, and loops. Whoever runs the
//! model does them between two parts ([`super::part`]), the first two kinds by [`evaluate`].

use super::bounds::Bounds;
use super::emit::{Emit, Short, Transposed};
use super::fold::Folding;
use super::loaded::Loaded;
use super::node::Node;
use super::ops::Entry;
use super::protobuf::{GraphProto, NodeProto};
use super::random::Random;
use super::refusal::{Mapped, RefusedNode};
use super::tensor::Tensor;
use super::value::Value;
use crate::error::{Error, Kind, Result};
use crate::graph::{GraphBuilder, Limits};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A node that is left to whoever runs the model.
#[derive(Clone, Debug)]
pub struct Step {
    /// For messages; its reason says why it is here.
    pub node: RefusedNode,
    /// By qualified names; absent ones are nothing.
    pub inputs: Vec<Option<String>>,
    pub outputs: Vec<Option<String>>,
    pub kind: StepKind,
}

#[derive(Clone)]
pub enum StepKind {
    /// All inputs are needed, then [`evaluate`].
    Operator { proto: NodeProto, version: i64, entry: &'static Entry },
    /// The body runs again and again.
    Repetition { repetition: Repetition, body: Arc<Body> },
}

impl std::fmt::Debug for StepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepKind::Operator { entry, .. } => write!(f, "Operator({})", entry.operator),
            StepKind::Repetition { repetition, .. } => write!(f, "{repetition:?}"),
        }
    }
}

/// The graph of a Loop or Scan.
#[derive(Debug)]
pub struct Body {
    pub graph: GraphProto,
    /// Values from around it: their names in the body, and their qualified names.
    pub captured: Vec<(String, String)>,
    pub opsets: HashMap<String, i64>,
}

/// How a body is repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum Repetition {
    /// Inputs: the number of runs, a condition, values that go round. The body is given the number of the run, the condition, and these.
    Loop,
    /// Inputs: values that go round, and others that are gone through along an axis. In batches there are as many of all that as the first
    /// axis has places, the second axis is gone through, and in front stands an input with how far, which may be absent.
    Scan {
        scanned: usize,
        in_batches: bool,
        input_axes: Vec<i64>,
        input_backwards: Vec<bool>,
        output_axes: Vec<i64>,
        output_backwards: Vec<bool>,
    },
}

impl Repetition {
    /// What a node's attributes say, by this version of the operators.
    ///
    /// # Errors
    /// The reason why not, for attributes that do not fit.
    pub fn of(proto: &NodeProto, version: i64) -> Mapped<Repetition> {
        if proto.op_type == "Loop" {
            return Ok(Repetition::Loop);
        }
        let attribute = |name: &str| proto.attribute.iter().find(|attribute| attribute.name == name);
        let ints = |name: &str| attribute(name).map(|attribute| attribute.ints.clone()).unwrap_or_default();
        let flags = |name: &str| ints(name).into_iter().map(|flag| flag != 0).collect();
        let in_batches = version < 9;
        let scanned = attribute("num_scan_inputs").and_then(|attribute| attribute.i).unwrap_or(0);
        let scanned =
            usize::try_from(scanned).ok().filter(|&count| count > 0 && count + usize::from(in_batches) <= proto.input.len());
        Ok(Repetition::Scan {
            scanned: scanned.ok_or_else(|| format!("num_scan_inputs, of {} inputs", proto.input.len()))?,
            in_batches,
            input_axes: ints("scan_input_axes"),
            input_backwards: flags(if in_batches { "directions" } else { "scan_input_directions" }),
            output_axes: ints("scan_output_axes"),
            output_backwards: flags("scan_output_directions"),
        })
    }
}

/// Computes an operator whose inputs are all known: by the mapping that importing uses, which makes constants of constants.
///
/// # Errors
/// `OperationError` for inputs that the operator does not take.
pub fn evaluate(
    step: &Step,
    inputs: Vec<Option<Tensor>>,
    loaded: &Loaded,
    limits: &Arc<Limits>,
    bounds: &Bounds,
    random: &mut Random,
) -> Result<Vec<Tensor>> {
    let fail = |text: String| Error::new(Kind::Operation, format!("node {:?} ({}): {text}", step.node.name, step.node.operator));
    let StepKind::Operator { proto, version, entry } = &step.kind else { return Err(fail("no operator".into())) };
    let needed: HashSet<&str> = proto.output.iter().map(String::as_str).collect();
    let inputs = inputs.into_iter().map(|input| input.map(Value::from)).collect();
    let node = Node { proto, version: *version, inputs, options: None, needed: &needed, model: &loaded.model };
    let mut builder = GraphBuilder::new(limits.clone());
    let mut folding = Folding::at_run(bounds.work(&loaded.model), std::mem::take(random));
    let mut short = Short::new();
    let mut emit = Emit {
        builder: &mut builder,
        folding: &mut folding,
        short: &mut short,
        transposed: &mut Transposed::new(),
        label: step.node.name.clone(),
    };
    let mapped = (entry.map)(&node, &mut emit);
    *random = folding.random.take().unwrap_or_default();
    let values = mapped.map_err(|reason| fail(reason.text))?;
    let known = |value: Value| value.constant().cloned().ok_or_else(|| fail("it cannot be computed here".into()));
    values.into_iter().map(known).collect()
}
