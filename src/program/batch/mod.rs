//! Whether runs of a model can be joined along a dimension and run as one.
//!
//! The model is imported for the rows of one caller, and for several times as many. Then the two graphs are compared, node by node, and for
//! each value of the larger one it is worked out how it contains those of the smaller: it is the same for all rows ([`Rows`] is nothing), or
//! the rows stand one after the other along an axis, and what is theirs of the axis is next to each other. That holds by induction over the
//! operators, whose rules are in [`rules`]; what has no rule is refused. It is a proof for these two graphs, and so for what is to be run:
//! nothing is concluded from names, or from some sizes to others.
//!
//! Runs of texts of different lengths are another proof on top of it ([`lengths`]).
//!
//! By the same rules [`join`] makes one graph of the steps of several sequences, whose caches are read apart, and [`either`] one of the graphs of
//! steps with an adapter and without one.

mod either;
#[cfg(test)]
mod either_tests;
mod join;
#[cfg(test)]
mod join_tests;
mod lengths;
mod rules;
#[cfg(test)]
mod tests;

pub use either::either;
pub use join::{Joined, SequenceGraph, join};
pub use lengths::{Lengths, Outputs};

use crate::error::Result;
use crate::graph::{Graph, Node, Op, Operand, OperandId, Source as From};
use crate::onnx::{Export, ImportError, InputShape, Part, Place, Source, import_part};
use std::collections::HashMap;

/// The axis along which rows stand one after the other; nothing where all have the same.
pub type Rows = Option<usize>;

/// Why runs cannot be joined, and the node that does it, if it is a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub node: String,
    /// Its operator, by WebNN's name.
    pub operator: String,
    pub reason: String,
}

impl Refusal {
    fn of_model(reason: impl Into<String>) -> Refusal {
        Refusal { node: String::new(), operator: String::new(), reason: reason.into() }
    }
}

/// Why a value or a node is refused.
type Reason = String;

impl super::Program {
    /// For each output where its rows are, if the model computes those of `many` as it computes them alone in shapes of `one`: the shapes of
    /// all inputs, of which some are longer along one axis by the same factor.
    ///
    /// # Errors
    /// As [`import_part`].
    pub fn rows_apart(
        &self,
        one: &[InputShape],
        many: &[InputShape],
    ) -> Result<Result<Vec<(String, Rows)>, Refusal>, ImportError> {
        let import = |shapes: &[InputShape]| {
            let given = self.loaded.given_of(shapes)?;
            import_part(&Source::of(&self.loaded)?, &self.limits, &self.bounds, &given, Place::First)
        };
        if !self.has_only_tensors {
            return Ok(Err(Refusal::of_model("sequences or optional values among inputs and outputs")));
        }
        Ok(rows_apart(&import(one)?, &import(many)?))
    }
}

/// For each output where its rows are, if a model that is imported for several rows computes each as the one for one row does.
pub fn rows_apart(one: &Part, many: &Part) -> Result<Vec<(String, Rows)>, Refusal> {
    for part in [one, many] {
        if let Some(next) = &part.next {
            let refusal = next.cuts.first().map(|cut| Refusal {
                node: cut.node.clone(),
                operator: cut.operator.clone(),
                reason: format!("the model is split there: {}", cut.reason),
            });
            return Err(refusal.unwrap_or_else(|| Refusal::of_model("the model is split")));
        }
    }
    let (Some(one_graph), Some(many_graph)) = (&one.graph, &many.graph) else {
        return Err(Refusal::of_model("there is nothing to compute"));
    };
    let analysis = analyse(one_graph, many_graph)?;
    if one.exports.len() != many.exports.len() {
        return Err(Refusal::of_model("the outputs depend on the number of rows"));
    }
    let rows = |((name, one), (other_name, many)): (&(String, Export), &(String, Export))| {
        let refuse = || Refusal::of_model(format!("the output {name:?} is another value for several rows"));
        let rows = match (one, many) {
            _ if name != other_name => return Err(refuse()),
            (Export::Result { output: one, .. }, Export::Result { output: many, .. }) => {
                let (Some((_, one)), Some((_, many))) = (one_graph.outputs.get(*one), many_graph.outputs.get(*many)) else {
                    return Err(refuse());
                };
                if analysis.pairs.get(many).is_none_or(|(twin, _)| twin != one) {
                    return Err(refuse());
                }
                analysis.rows(*many)
            }
            (Export::Known(one), Export::Known(many)) if one == many => None,
            // An output that is an input.
            (Export::Given(one), Export::Given(many)) if one == many => {
                let input = many_graph.inputs.iter().find(|(input, _)| input == many);
                let (_, id) = input.ok_or_else(refuse)?;
                analysis.rows(*id)
            }
            _ => return Err(refuse()),
        };
        Ok((name.clone(), rows))
    };
    one.exports.iter().zip(&many.exports).map(rows).collect()
}

struct RowAnalysis<'a> {
    one: &'a Graph,
    many: &'a Graph,
    /// How many times as many rows there are.
    factor: u32,
    /// By values of the larger graph: what they are in the smaller one, and where their rows are.
    pairs: HashMap<OperandId, (OperandId, Rows)>,
}

/// Compares two graphs.
fn analyse<'a>(one: &'a Graph, many: &'a Graph) -> Result<RowAnalysis<'a>, Refusal> {
    let factor = factor(one, many)?;
    let mut analysis = RowAnalysis { one, many, factor, pairs: HashMap::new() };
    for (name, id) in &many.inputs {
        let twin = one.inputs.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
        let twin = twin.ok_or_else(|| Refusal::of_model(format!("the input {name:?} counts for several rows only")))?;
        let rows = analysis.grown(twin, *id).map_err(|reason| Refusal::of_model(format!("the input {name:?}: {reason}")))?;
        analysis.pairs.insert(*id, (twin, rows));
    }
    let mut nodes = one.nodes.iter();
    for node in &many.nodes {
        let refuse = |reason| Refusal { node: node.label.clone(), operator: node.op.row().name.to_owned(), reason };
        analysis.node(node, &mut nodes).map_err(refuse)?;
    }
    if nodes.next().is_some() || one.outputs.len() != many.outputs.len() {
        return Err(Refusal::of_model("there are fewer nodes for several rows"));
    }
    for ((name, id), (_, twin)) in many.outputs.iter().zip(&one.outputs) {
        let refuse = |reason| Refusal::of_model(format!("the output {name:?}: {reason}"));
        analysis.pair(*twin, *id).map_err(refuse)?;
    }
    Ok(analysis)
}

/// How many times as many rows there are, as the inputs say.
fn factor(one: &Graph, many: &Graph) -> Result<u32, Refusal> {
    for (name, id) in &many.inputs {
        let Some((_, twin)) = one.inputs.iter().find(|(other, _)| other == name) else { continue };
        let sizes = one.descriptor(*twin).shape.iter().zip(&many.descriptor(*id).shape);
        if let Some((&less, &more)) = sizes.into_iter().find(|(less, more)| less != more)
            && less > 0
            && more > less
            && more.is_multiple_of(less)
        {
            return Ok(more / less);
        }
    }
    Err(Refusal::of_model("no input that counts has rows"))
}

impl<'a> RowAnalysis<'a> {
    fn shape(&self, id: OperandId) -> &'a [u32] {
        &self.many.descriptor(id).shape
    }

    /// Where the rows of a value are that was met.
    fn rows(&self, id: OperandId) -> Rows {
        self.pairs.get(&id).and_then(|(_, rows)| *rows)
    }

    /// How much of the axis with the rows the smaller graph has, which are those of one caller.
    fn share(&self, id: OperandId, axis: usize) -> u32 {
        self.shape(id)[axis] / self.factor
    }

    /// The axis along which a value is longer by the factor. All others have the same size.
    fn grown(&self, one: OperandId, many: OperandId) -> Result<Rows, Reason> {
        let (one, many) = (self.one.descriptor(one), self.many.descriptor(many));
        if one.data_type != many.data_type || one.shape.len() != many.shape.len() {
            return Err("its rank or type depends on the number of rows".into());
        }
        let mut grown = None;
        for (axis, (&less, &more)) in one.shape.iter().zip(&many.shape).enumerate() {
            if less == more {
                continue;
            }
            if u64::from(less) * u64::from(self.factor) != u64::from(more) || grown.is_some() {
                let shapes = format!("{:?} and {:?}", &one.shape[..], &many.shape[..]);
                return Err(format!("its shapes for one row and for {} are {shapes}", self.factor));
            }
            grown = Some(axis);
        }
        Ok(grown)
    }

    /// Notes that two values are the same one in both graphs, unless they are not.
    fn pair(&mut self, one: OperandId, many: OperandId) -> Result<(), Reason> {
        if let Some((twin, _)) = self.pairs.get(&many)
            && *twin == one
        {
            return Ok(());
        }
        match (&self.one.operands[one.0 as usize].source, &self.many.operands[many.0 as usize].source) {
            (From::Constant(less), From::Constant(more)) => {
                let rows = self.grown(one, many)?;
                if !self.repeats(less.as_slice(), more.as_slice(), many, rows) {
                    return Err("a constant that depends on the number of rows, or counts them".into());
                }
                match self.pairs.insert(many, (one, rows)) {
                    Some((_, known)) if known != rows => Err("a constant that stands for two others".into()),
                    _ => Ok(()),
                }
            }
            _ => Err("its operands depend on the number of rows".into()),
        }
    }

    /// Whether a constant is that of one caller again and again.
    fn repeats(&self, one: &[u8], many: &[u8], id: OperandId, rows: Rows) -> bool {
        if std::ptr::eq(one, many) {
            return true;
        }
        let Some(axis) = rows else { return one == many };
        let descriptor = self.many.descriptor(id);
        if descriptor.data_type.bits() < 8 {
            return false;
        }
        let inner: usize = descriptor.shape[axis + 1..].iter().map(|&size| size as usize).product();
        let share = self.share(id, axis) as usize * inner * descriptor.data_type.bits() / 8;
        share > 0
            && many
                .chunks(share * self.factor as usize)
                .zip(one.chunks(share))
                .all(|(all, one)| all.chunks(share).all(|part| part == one))
    }

    /// A node of the larger graph, and the next one of the smaller.
    fn node(&mut self, node: &'a Node, nodes: &mut std::slice::Iter<'a, Node>) -> Result<(), Reason> {
        let inputs = operands(&node.op);
        let next = nodes.as_slice().first();
        // For one row there is nothing to do where a value is only brought into the shape of several.
        if let (Op::Expand(_) | Op::Tile(_) | Op::Reshape(_), [input]) = (&node.op, &inputs[..])
            && next.is_none_or(|twin| twin.op.row().name != node.op.row().name || !self.has_operands(twin, &inputs))
        {
            let output = node.outputs[0];
            let twin = match self.pairs.get(input) {
                Some((twin, _)) => *twin,
                None => self.constant_like(*input)?,
            };
            self.pair(twin, *input)?;
            let rows = self.grown(twin, output).map_err(|_| Reason::from("an operator that there is for several rows only"))?;
            return self.conclude(node, &node.op, &inputs, vec![(twin, output, rows)]);
        }
        let twin = nodes.next().ok_or("an operator that there is for several rows only")?;
        let twins = operands(&twin.op);
        if twin.op.row().name != node.op.row().name || twins.len() != inputs.len() || twin.outputs.len() != node.outputs.len() {
            return Err(format!("another operator for one row, {}", twin.op.row().name));
        }
        for (&one, &many) in twins.iter().zip(&inputs) {
            self.pair(one, many)?;
        }
        let outputs = twin.outputs.iter().zip(&node.outputs);
        let outputs = outputs.map(|(&one, &many)| Ok((one, many, self.grown(one, many)?))).collect::<Result<Vec<_>, Reason>>()?;
        // With the names of the larger graph.
        let mut op = twin.op.clone();
        let mut names = inputs.iter();
        op.visit_mut(&mut |id| *id = names.next().copied().unwrap_or(*id));
        self.conclude(node, &op, &inputs, outputs)
    }

    /// The same constant in the smaller graph.
    fn constant_like(&self, id: OperandId) -> Result<OperandId, Reason> {
        let operand = &self.many.operands[id.0 as usize];
        let From::Constant(bytes) = &operand.source else { return Err("its operands depend on the number of rows".into()) };
        let is_like = |other: &Operand| match &other.source {
            From::Constant(others) => other.descriptor == operand.descriptor && others.as_slice() == bytes.as_slice(),
            _ => false,
        };
        let found = self.one.operands.iter().position(is_like);
        found.map(|position| OperandId(position as u32)).ok_or_else(|| "its operands depend on the number of rows".into())
    }

    /// Whether a node of the smaller graph works on what these values are there.
    fn has_operands(&self, twin: &Node, inputs: &[OperandId]) -> bool {
        let twins = operands(&twin.op);
        twins.len() == inputs.len()
            && twins.iter().zip(inputs).all(|(one, many)| match self.pairs.get(many) {
                Some((twin, _)) => twin == one,
                None => matches!(self.one.operands[one.0 as usize].source, From::Constant(_)),
            })
    }

    /// Holds what the shapes say of the outputs against what the operator does. `other` is the node for the rows of one caller.
    fn conclude(
        &mut self,
        node: &Node,
        other: &Op,
        inputs: &[OperandId],
        outputs: Vec<(OperandId, OperandId, Rows)>,
    ) -> Result<(), Reason> {
        let found: Vec<Rows> = outputs.iter().map(|(.., rows)| *rows).collect();
        let expected = self.rule(node, other, inputs, &found)?;
        if expected != found {
            return Err("rows along another axis than those of its operands".into());
        }
        self.pairs.extend(outputs.into_iter().map(|(one, many, rows)| (many, (one, rows))));
        Ok(())
    }
}

fn operands(op: &Op) -> Vec<OperandId> {
    let mut operands = Vec::new();
    op.visit(&mut |_, id| operands.push(id));
    operands
}
