//! What importing makes of a model: one graph where everything that a graph needs is known from the beginning, and otherwise
//! the first of several *parts*.
//!
//! A model is cut where a node needs elements of a value that only a run can tell: the length that Reshape is to make, say, the
//! condition of an If, what NonZero searches. The part before the cut is a graph, whose results the caller keeps. Of these, the
//! next part is told all shapes, and the elements of those values that [`Next::looks`] names; nodes of [`Next::steps`] are
//! computed by the caller between the two ([`super::step`]), and of their results the next part is told the shapes.
//!
//! Values have *qualified* names: those of the model's own graph are as in the file, those within a function or a branch have
//! the name of its node's first output before them. So a part can be imported by itself, from the values that it is given.

use super::dimensions::Signature;
use super::element::ElementType;
use super::step::Step;
use super::tensor::Tensor;
use crate::graph::Graph;
use std::collections::BTreeMap;

/// A value that exists before a part is imported.
#[derive(Clone, Debug)]
pub enum Given {
    /// Its elements are known to the import, and the part is made for them.
    Known(Tensor),
    /// Whose elements the graph is given when it runs. No size is 0.
    Operand {
        element: ElementType,
        shape: Vec<u32>,
    },
    Sequence(Vec<Given>),
    /// An optional value without content.
    Nothing,
}

/// By their qualified names.
pub type Givens = BTreeMap<String, Given>;

/// Where a value is after a part has run.
#[derive(Clone, Debug)]
pub enum Export {
    /// An output of the part's graph.
    Result {
        output: usize,
        element: ElementType,
        shape: Vec<u32>,
    },
    /// Known when the part was imported.
    Known(Tensor),
    /// One that the part was given.
    Given(String),
    Sequence(Vec<Export>),
    Nothing,
}

/// A part of a model for some shapes of its inputs, and some values.
#[derive(Debug)]
pub struct Part {
    /// Nothing where there is nothing to compute. Its inputs have the qualified names of what the part was given.
    pub graph: Option<Graph>,
    /// What exists after the part, by qualified names; everything else is needed no longer.
    pub exports: Vec<(String, Export)>,
    /// Nothing for the last part, after which the model's outputs exist.
    pub next: Option<Next>,
    /// The model's outputs, as far as they are tensors that exist.
    pub outputs: Vec<Signature>,
    /// What the graph may take.
    pub most_bytes: usize,
    /// The values that were asked for ([`super::Source::asked`]), where they are known.
    pub asked: Vec<Option<Tensor>>,
}

/// What there is to be done between two parts.
#[derive(Debug, Default)]
pub struct Next {
    /// Values whose elements the next part has to know.
    pub looks: Vec<String>,
    /// Nodes that are not the graph's to compute.
    pub steps: Vec<Step>,
    /// Nodes at which the model is cut, and why: for people.
    pub cuts: Vec<Cut>,
}

/// A node at which a model is cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    pub node: String,
    pub operator: String,
    pub reason: String,
}

impl Given {
    /// What an export is for the part after it.
    pub fn of(export: &Export, given: &Givens) -> Given {
        match export {
            Export::Result { element, shape, .. } => Given::Operand { element: *element, shape: shape.clone() },
            Export::Known(tensor) => Given::Known(tensor.clone()),
            Export::Given(name) => given.get(name).cloned().unwrap_or(Given::Nothing),
            Export::Sequence(list) => Given::Sequence(list.iter().map(|export| Given::of(export, given)).collect()),
            Export::Nothing => Given::Nothing,
        }
    }
}
