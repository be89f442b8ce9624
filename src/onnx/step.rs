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
use crate::cancel::Cancel;
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
///
/// # Panics
/// With an error, when nobody wants the results any more (`looks.rs`).
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
    // Where somebody asks whether a loop is wanted, it is this work.
    let mapped = Cancel::of_work(bounds.is_wanted.clone()).during(|| (entry.map)(&node, &mut emit));
    *random = folding.random.take().unwrap_or_default();
    let values = mapped.map_err(|reason| fail(reason.text))?;
    let known = |value: Value| value.constant().cloned().ok_or_else(|| fail("it cannot be computed here".into()));
    values.into_iter().map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks;
    use crate::onnx::element::ElementType;
    use crate::onnx::ops::{ON_HOST, find};
    use crate::onnx::testing::{float, int, ints, node, sketch};
    use crate::onnx::{Fixed, Model};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Elements that each operator goes through, at least.
    const ELEMENTS: usize = 4096;

    fn floats(shape: &[usize]) -> Tensor {
        let numbers: Vec<f64> = (0..shape.iter().product()).map(|i: usize| (i * 7919 % 1009) as f64 / 1009.0).collect();
        Tensor::from_floats(ElementType::Float, shape.to_vec(), &numbers)
    }

    /// A node with what it is given.
    fn given(operator: &str) -> (NodeProto, Vec<Tensor>) {
        let size = ELEMENTS as i64;
        let list = || floats(&[ELEMENTS]);
        let (attributes, inputs) = match operator {
            "Bernoulli" | "NonZero" | "RandomNormalLike" | "RandomUniformLike" | "Unique" => (Vec::new(), vec![list()]),
            "Multinomial" => (vec![int("sample_size", size)], vec![floats(&[1, 16])]),
            "NonMaxSuppression" => {
                let most = Tensor::int64s(&[2]);
                (Vec::new(), vec![floats(&[1, ELEMENTS, 4]), floats(&[1, 1, ELEMENTS]), most])
            }
            "RandomNormal" | "RandomUniform" => (vec![ints("shape", &[size])], Vec::new()),
            "RoiAlign" => {
                let sizes = vec![int("output_height", 64), int("output_width", 64), float("spatial_scale", 1.0)];
                (sizes, vec![floats(&[1, 1, 4, 4]), floats(&[1, 4]), Tensor::int64s(&[0])])
            }
            other => panic!("{other} is not given anything"),
        };
        let names: Vec<String> = (0..inputs.len()).map(|i| format!("input {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        (node(operator, &names, &["output"], attributes), inputs)
    }

    fn evaluated(operator: &str, bounds: &Bounds) -> Result<Vec<Tensor>> {
        let (proto, inputs) = given(operator);
        let model = sketch(17).input("x", 1, &[1]).node("Relu", &["x"], &["y"], Vec::new()).output("y").bytes();
        let loaded = Loaded::new(Model::from_bytes(model), Fixed::default(), bounds)?;
        let entry = find("", operator, Some(17)).unwrap_or_else(|_| panic!("{operator} is in the table")).entry;
        let node = RefusedNode {
            name: "n".into(),
            operator: operator.into(),
            domain: "ai.onnx".into(),
            version: 17,
            reason: String::new(),
        };
        let step = Step { node, inputs: Vec::new(), outputs: Vec::new(), kind: StepKind::Operator { proto, version: 17, entry } };
        let inputs = inputs.into_iter().map(Some).collect();
        evaluate(&step, inputs, &loaded, &Arc::new(Limits::everything()), bounds, &mut Random::new(Some(1)))
    }

    /// Not the time but the looks are counted: whoever goes through elements without a look has too few.
    #[test]
    fn who_computes_between_parts_looks_whether_it_is_wanted() {
        for operator in ON_HOST {
            let (looks, results) = looks::count(64, || evaluated(operator, &Bounds::default()));
            assert!(!results.unwrap().is_empty());
            assert!(looks >= ELEMENTS / 64, "{operator}: {looks} looks at {ELEMENTS} elements");
        }
    }

    #[test]
    fn what_nobody_wants_ends_by_unwinding() {
        // Somebody wants it when it begins, and then nobody does.
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let is_wanted = {
            let asked = asked.clone();
            Arc::new(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 3)
        };
        let bounds = Bounds { is_wanted, ..Bounds::default() };
        let (_, ended) = looks::count(64, || catch_unwind(AssertUnwindSafe(|| evaluated("Unique", &bounds))));
        let panic = ended.unwrap_err();
        assert_eq!(panic.downcast_ref::<Error>().map(Error::kind), Some(Kind::InvalidState));
        assert!(asked.load(std::sync::atomic::Ordering::Relaxed) < 10);
        // The thread is free again.
        assert!(crate::cancel::is_wanted());
    }
}
