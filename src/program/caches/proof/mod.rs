//! One graph for all lengths of a cache up to a *bucket*. A cache that is shorter than its bucket begins with rows that do not count, of
//! zeros; the graph is that of the full bucket, changed so that it gives for the rest what the graph for the rest alone would give.
//!
//! Whether that can be done is found out from graphs for three lengths: the bucket, one less, and the shortest one that is to run in it.
//! They differ in sizes, and in constants that importing has computed from sizes. For each value it is worked out how the one of the
//! bucket contains the shorter one: it is the same ([`State::Exact`]), or it has something in front of it along an axis
//! ([`State::Padded`]). That holds by induction over the operators, whose rules are in [`rules`]; what has no rule is refused.
//! Two things depend on how many rows are padding, and become inputs of the graph ([`PaddingInput`]): a softmax along such an axis, which
//! must not see what is in front, and whole numbers that grow with the length, such as positions ([`constants`]).

mod constants;
mod rewrite;
mod rules;

use super::padding::PaddingInput;
use crate::graph::{Graph, Op, OperandId, Source};
use rewrite::with_padding_inputs;

/// What is in front of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Front {
    Zeros,
    /// Numbers that are neither infinite nor NaN, if no other number of the model is.
    Finite,
    Anything,
}

/// How a value for the bucket contains the one for fewer rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Exact,
    Padded { axis: usize, front: Front },
}

/// Why a graph is not one for all lengths.
pub type Refusal = String;

/// The graph for the bucket, changed so that it serves fewer rows, and its new inputs, by their names.
///
/// `graphs` are those for `rows`: the most, one less, and the fewest. Caches are outputs whose rows come first in memory.
pub fn in_bucket(
    graphs: [Graph; 3],
    rows: [usize; 3],
    is_cache: impl Fn(&str) -> bool,
) -> Result<(Graph, Vec<(String, PaddingInput)>), Refusal> {
    let fits = |name: &str, state| match state {
        State::Exact => !is_cache(name),
        State::Padded { axis, .. } => is_cache(name) && axis == 0,
    };
    in_bucket_of("rows", graphs, rows, |_| Front::Zeros, fits)
}

/// The same for any values that have a bucket. The new inputs have a name that begins with `what`. `front_of` says what the caller puts in
/// front of an input, and `fits` what may be in front of an output.
pub fn in_bucket_of(
    what: &str,
    graphs: [Graph; 3],
    rows: [usize; 3],
    front_of: impl Fn(&str) -> Front,
    fits: impl Fn(&str, State) -> bool,
) -> Result<(Graph, Vec<(String, PaddingInput)>), Refusal> {
    let [graph, less, least] = graphs;
    let shorter = [(&less, rows[0] - rows[1]), (&least, rows[0] - rows[2])];
    for (other, _) in shorter {
        if other.nodes.len() != graph.nodes.len()
            || other.operands.len() != graph.operands.len()
            || other.inputs != graph.inputs
            || other.outputs != graph.outputs
        {
            return Err("the form of the graph depends on the length".into());
        }
    }
    let mut analysis = PaddingAnalysis {
        graph: &graph,
        shorter,
        states: Vec::new(),
        padding_inputs: Vec::new(),
        softmaxes: Vec::new(),
        places: Vec::new(),
    };
    // A constant or an input may stand after the nodes that do not use it: these come first.
    analysis.states = vec![State::Exact; graph.operands.len()];
    for position in 0..graph.operands.len() {
        analysis.leaf(OperandId(position as u32), &front_of)?;
    }
    for position in 0..graph.nodes.len() {
        analysis.node(position).map_err(|reason| format!("{}: {reason}", graph.nodes[position].op.row().name))?;
    }
    for (name, id) in &graph.outputs {
        if !fits(name, analysis.states[id.0 as usize]) {
            return Err(format!("the output {name:?} is not as long as the rows that count"));
        }
    }
    let PaddingAnalysis { padding_inputs, softmaxes, places, .. } = analysis;
    Ok(with_padding_inputs(what, graph, padding_inputs, &softmaxes, &places))
}

struct PaddingAnalysis<'a> {
    graph: &'a Graph,
    /// With how many rows they have less.
    shorter: [(&'a Graph, usize); 2],
    states: Vec<State>,
    padding_inputs: Vec<(OperandId, PaddingInput)>,
    /// Nodes that must not see what is in front, and along which axis that is.
    softmaxes: Vec<(usize, usize)>,
    /// Nodes that find rows by numbers which count what is in front, too: these stay as they are.
    places: Vec<(usize, OperandId)>,
}

impl PaddingAnalysis<'_> {
    fn shape(&self, id: OperandId) -> &[u32] {
        &self.graph.descriptor(id).shape
    }

    fn state(&self, id: OperandId) -> State {
        self.states[id.0 as usize]
    }

    /// The axis along which a value is longer for more rows, by as many; the others have one size.
    fn grown(&self, id: OperandId) -> Result<Option<usize>, Refusal> {
        let shape = self.shape(id);
        let mut grown = None;
        for (other, fewer) in self.shorter {
            let descriptor = other.descriptor(id);
            if descriptor.shape.len() != shape.len() || descriptor.data_type != self.graph.descriptor(id).data_type {
                return Err("ranks or types depend on the length".into());
            }
            for (axis, (&size, &less)) in shape.iter().zip(&descriptor.shape).enumerate() {
                if size == less {
                    continue;
                }
                if size as usize != less as usize + fewer || grown.is_some_and(|other| other != axis) {
                    return Err(format!("the shapes {shape:?} and {:?}", descriptor.shape));
                }
                grown = Some(axis);
            }
        }
        Ok(grown)
    }

    fn leaf(&mut self, id: OperandId, front_of: &impl Fn(&str) -> Front) -> Result<(), Refusal> {
        let sources = self.shorter.map(|(other, _)| &other.operands[id.0 as usize].source);
        let state = match (&self.graph.operands[id.0 as usize].source, sources) {
            (Source::Node { node, output }, others) => {
                let is_same = |other: &Source| matches!(other, Source::Node { node: n, output: o } if n == node && o == output);
                return if others.into_iter().all(is_same) {
                    Ok(())
                } else {
                    Err("the form of the graph depends on the length".into())
                };
            }
            (Source::Input { name }, others) => {
                if !others.into_iter().all(|other| matches!(other, Source::Input { name: other } if other == name)) {
                    return Err("the form of the graph depends on the length".into());
                }
                match self.grown(id)? {
                    Some(axis) => State::Padded { axis, front: front_of(name) },
                    None => State::Exact,
                }
            }
            (Source::Constant(bytes), [Source::Constant(less), Source::Constant(least)]) => {
                self.constant(id, bytes, [less, least])?
            }
            _ => return Err("the form of the graph depends on the length".into()),
        };
        self.states[id.0 as usize] = state;
        Ok(())
    }

    fn node(&mut self, position: usize) -> Result<(), Refusal> {
        let graph = self.graph;
        let node = &graph.nodes[position];
        let others = self.shorter.map(|(other, _)| &other.nodes[position]);
        let mut inputs = Vec::new();
        node.op.visit(&mut |_, id| inputs.push(id));
        for other in others {
            let mut same = Vec::new();
            other.op.visit(&mut |_, id| same.push(id));
            if same != inputs || other.outputs != node.outputs {
                return Err("its operands depend on the length".into());
            }
        }
        // Those that say sizes say others for other lengths; what these are shapes tell.
        let is_same = others.iter().all(|other| other.op == node.op);
        let tells_sizes = matches!(
            (&node.op, [&others[0].op, &others[1].op]),
            (Op::Reshape(_), [Op::Reshape(_), Op::Reshape(_)])
                | (Op::Expand(_), [Op::Expand(_), Op::Expand(_)])
                | (Op::Slice(_), [Op::Slice(_), Op::Slice(_)])
        );
        if !is_same && !tells_sizes {
            return Err("its options depend on the length".into());
        }
        let outputs: Vec<Option<usize>> = node.outputs.iter().map(|&id| self.grown(id)).collect::<Result<_, _>>()?;
        let states = self.rule(position, &node.op, &inputs, &outputs, is_same)?;
        for (&id, state) in node.outputs.iter().zip(states) {
            self.states[id.0 as usize] = state;
        }
        Ok(())
    }
}
