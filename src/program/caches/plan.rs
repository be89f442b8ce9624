//! Plans: the model as one compiled graph for steps of certain sizes.

use super::padding::{Padded, PaddingInput, PaddingInputs};
use super::refused;
use crate::error::{Error, Kind, Result};
use crate::graph::ops::elementwise::UnaryKind;
use crate::graph::{Descriptor, Graph, Op, OperandId, Source as From};
use crate::host_memory::{Placement, Placements};
use crate::onnx::caches::{KvCache, KvCaches};
use crate::onnx::fixed_caches::{self, FixedCaches};
use crate::onnx::protobuf::GraphProto;
use crate::onnx::{Given, Part, Place, Source, Tensor, import_part};
use crate::program::Program;
use crate::program::batch::{Joined, SequenceGraph, either, join};
use crate::program::timeline_handle::OwnedGraph;
use crate::timeline::{GraphId, Task};
use std::collections::{HashMap, HashSet};

/// A compiled graph for steps.
#[derive(Debug)]
pub struct Plan {
    pub graph: GraphId,
    _owned: OwnedGraph,
    pub inputs: Vec<(Input, Descriptor)>,
    pub outputs: Vec<(Output, Descriptor)>,
    /// Whose the inputs and outputs are, of the sequences of a step.
    sequences_of: [Vec<usize>; 2],
    /// The input and the output for each cache of a sequence, by the numbers of both.
    of_caches: HashMap<(usize, usize), [Option<usize>; 2]>,
    /// Where the inputs may lie in outputs: in the host's memory, or in tensors where that of the device is elsewhere.
    placements: Placements,
}

/// What an input of the graph is.
#[derive(Debug)]
pub enum Input {
    /// The rows of a cache that a step reads, by its number.
    Cache(usize),
    /// An input of the model, by its position.
    Model(usize),
    /// What says how many rows are padding, of which.
    Padding(Padded, PaddingInput),
    /// Which of two graphs a step is ([`StepGraph::or`]).
    Choice,
}

/// What an output of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The rows of a cache with the new ones, by its number.
    Cache(usize),
    /// A state, by its number.
    State(usize),
    Other,
}

impl Plan {
    /// The sequence of an input.
    pub fn sequence_of_input(&self, input: usize) -> usize {
        self.sequences_of[0][input]
    }

    /// The sequence of an output.
    pub fn sequence_of_output(&self, output: usize) -> usize {
        self.sequences_of[1][output]
    }

    /// Where the rows of a cache that an input of the graph reads lie in the output that has them all, if they are what it begins with.
    pub fn beginning(&self, input: usize) -> Option<Placement> {
        let (Input::Cache(cache), _) = self.inputs.get(input)? else { return None };
        let placement = self.placements.get(input).copied().flatten()?;
        let is_own = self.output_of(self.sequence_of_input(input), *cache) == Some(placement.output);
        (placement.first == 0 && is_own).then_some(placement)
    }

    /// The output that has the rows of a cache of a sequence.
    pub fn output_of(&self, sequence: usize, cache: usize) -> Option<usize> {
        self.of_caches.get(&(sequence, cache)).and_then(|[_, output]| *output)
    }

    /// Whether an output that a cache is may lie where its rows are: what is read of it, if anything is, may lie there.
    pub fn appends(&self, output: usize) -> bool {
        let (Output::Cache(cache), _) = self.outputs[output] else { return false };
        let position = self.of_caches.get(&(self.sequence_of_output(output), cache)).and_then(|[input, _]| *input);
        position.is_none_or(|input| self.beginning(input).is_some_and(|placement| placement.output == output))
    }

    /// Whether all caches that the graph reads are appended to in place.
    pub fn is_in_place(&self) -> bool {
        let is_cache = |input: &usize| matches!(self.inputs[*input].0, Input::Cache(_));
        (0..self.inputs.len()).filter(is_cache).all(|input| self.beginning(input).is_some())
    }
}

/// A model with caches, as it is imported for plans.
#[derive(Clone, Copy, Debug)]
pub struct Importing<'a> {
    pub program: &'a Program,
    pub caches: &'a [KvCache],
    /// The model's graph as one whose caches grow, if they have a fixed size in the file.
    pub fixed: Option<&'a FixedCaches>,
    /// Another graph that stands for the model's, and values of it that are to be told ([`Part::asked`]).
    pub instead: Option<(&'a GraphProto, &'a [&'a str])>,
}

impl Importing<'_> {
    /// The model as one graph for inputs of these shapes, some of which are known: so many rows in the caches and so many new ones.
    ///
    /// # Errors
    /// Those of importing it; `NotSupportedError` where it is not one graph.
    pub fn part(&self, shapes: &[Vec<u32>], known: Vec<(String, Tensor)>, rows: usize, new: usize) -> Result<Part> {
        let Importing { program, caches, fixed, instead } = *self;
        let mut given = fixed_caches::given(&program.loaded, caches, shapes)?;
        given.extend(known.into_iter().map(|(name, tensor)| (name, Given::Known(tensor))));
        let asked: Vec<&str> = fixed.iter().flat_map(|fixed| &fixed.filled).map(|(name, _)| name.as_str()).collect();
        let mut source = Source { caches, asked: &asked, ..Source::of(&program.loaded)? };
        if let Some(fixed) = fixed {
            source.graph = &fixed.graph;
        }
        if let Some((graph, asked)) = instead {
            source = Source { graph, asked, ..source };
        }
        let part = import_part(&source, &program.limits, &program.bounds, &given, Place::First).map_err(Error::from)?;
        if let Some(next) = &part.next {
            let cut = next.cuts.first();
            return Err(refused(format!(
                "found a model that is cut at {:?} ({}), allowed one whose steps are one graph",
                cut.map_or("", |cut| &cut.node),
                cut.map_or("", |cut| &cut.reason)
            )));
        }
        if let Some(fixed) = fixed {
            require_filled(fixed, &part, rows, new)?;
        }
        Ok(part)
    }
}

/// Holds what the model computes of how much of caches is filled against so many rows before so many new ones.
///
/// # Errors
/// `NotSupportedError` where it is something else, or not known.
fn require_filled(fixed: &FixedCaches, part: &Part, rows: usize, new: usize) -> Result<()> {
    for ((name, filled), value) in fixed.filled.iter().zip(&part.asked) {
        let expected = filled.number(rows, new);
        let says = |tensor: &Tensor| !tensor.is_empty() && tensor.integers().iter().all(|&number| number == expected);
        if !value.as_ref().is_some_and(says) {
            return Err(refused(format!("{name:?} is not known to be {expected}, as the caches are filled")));
        }
    }
    Ok(())
}

/// A graph for steps of one sequence that is still to be compiled.
#[derive(Debug)]
pub struct StepGraph {
    pub graph: Graph,
    /// Inputs that the proof has added, by their names.
    pub padding: PaddingInputs,
    /// The bytes that its values may take.
    pub most_bytes: usize,
    /// The input that says which of two graphs a step is, if it is of two.
    pub choice: Option<String>,
}

/// A graph for steps of several sequences, with what it says of inputs.
struct JoinedSteps {
    joined: Joined,
    padding: HashMap<(usize, String), (Padded, PaddingInput)>,
    choices: HashSet<(usize, String)>,
    most_bytes: usize,
}

impl StepGraph {
    /// Compiles the graph. Waits for it.
    ///
    /// # Errors
    /// Those of compiling it; `NotSupportedError` for an input that the model does not have.
    pub fn build(self, program: &Program, caches: &KvCaches) -> Result<Plan> {
        let StepGraph { graph, padding, most_bytes, choice } = self;
        let names = |list: &[(String, OperandId)]| list.iter().map(|(name, _)| (0, name.clone())).collect();
        let joined = Joined { inputs: names(&graph.inputs), outputs: names(&graph.outputs), graph };
        let padding = padding.into_iter().map(|(name, input)| ((0, name), input)).collect();
        let choices = choice.into_iter().map(|name| (0, name)).collect();
        JoinedSteps { joined, padding, choices, most_bytes }.build(program, caches)
    }

    /// The graph that is this one, or that of `plain`, as each step says ([`Step::is_plain`](super::Step::is_plain)).
    ///
    /// # Errors
    /// `NotSupportedError` where the other one is no part of it.
    pub fn or(&self, plain: &StepGraph) -> Result<StepGraph> {
        if !plain.padding.iter().all(|input| self.padding.contains(input)) {
            return Err(refused("padding of one graph only"));
        }
        let (graph, choice) = either(&self.graph, &plain.graph).map_err(refused)?;
        let most_bytes = self.most_bytes.saturating_add(plain.most_bytes);
        Ok(StepGraph { graph, padding: self.padding.clone(), most_bytes, choice: Some(choice) })
    }

    /// Joins the graph as often as there are sequences, and compiles that. A last one may bring a piece of so many times as many tokens, of
    /// which only the caches are wanted. Waits for it.
    ///
    /// # Errors
    /// As [`StepGraph::build`]; `NotSupportedError` where steps of the model cannot be joined.
    pub fn build_joined(
        &self,
        sequences: usize,
        piece: Option<(&StepGraph, usize)>,
        program: &Program,
        caches: &KvCaches,
    ) -> Result<Plan> {
        let without_others = piece.map(|(step_graph, _)| {
            let mut graph = step_graph.graph.clone();
            graph.outputs.retain(|(name, _)| caches.rows.iter().any(|cache| cache.present == *name));
            graph
        });
        let mut graphs = vec![SequenceGraph::new(&self.graph); sequences];
        if let (Some(graph), Some((_, tokens))) = (&without_others, piece) {
            graphs.push(SequenceGraph { graph, tokens: tokens as u32 });
        }
        let joined = join(&graphs).map_err(refused)?;
        let step_graphs = std::iter::repeat_n(self, sequences).chain(piece.map(|(step_graph, _)| step_graph)).enumerate();
        let all = step_graphs.flat_map(|(sequence, step_graph)| step_graph.padding.iter().map(move |one| (sequence, one)));
        let padding = all.map(|(sequence, (name, input))| ((sequence, name.clone()), input.clone())).collect();
        let choices = (0..sequences).filter_map(|sequence| Some((sequence, self.choice.clone()?))).collect();
        let most_bytes = self.most_bytes.max(piece.map_or(0, |(step_graph, _)| step_graph.most_bytes));
        JoinedSteps { joined, padding, choices, most_bytes }.build(program, caches)
    }
}

impl JoinedSteps {
    fn build(self, program: &Program, caches: &KvCaches) -> Result<Plan> {
        let JoinedSteps { joined, padding, choices, most_bytes: most } = self;
        let Joined { mut graph, inputs: input_names, outputs: output_names } = joined;
        program.share_weights(&mut graph, false);
        let is_mask = |key: &(usize, String)| matches!(padding.get(key), Some((_, PaddingInput::Mask { .. })));
        let hiding = graph.inputs.iter().zip(&input_names).filter(|(_, key)| is_mask(key));
        graph.hiding = hiding.map(|((name, _), _)| name.clone()).collect();
        let descriptors = graph.inputs.iter().map(|(_, id)| graph.descriptor(*id).clone());
        let inputs: Vec<(Input, Descriptor)> =
            inputs_of(&input_names, padding, &choices, program, &caches.rows)?.into_iter().zip(descriptors).collect();
        let output_of = |name: &str| {
            let cache = caches.rows.iter().position(|cache| cache.present == name).map(Output::Cache);
            let state = || caches.states.iter().position(|(_, present)| present == name).map(Output::State);
            cache.or_else(state).unwrap_or(Output::Other)
        };
        let outputs = output_names.iter().zip(&graph.outputs);
        let outputs: Vec<(Output, Descriptor)> =
            outputs.map(|((_, name), (_, id))| (output_of(name), graph.descriptor(*id).clone())).collect();
        let sequences_of =
            [input_names, output_names].map(|names| names.into_iter().map(|(sequence, _)| sequence).collect::<Vec<usize>>());
        let mut of_caches: HashMap<(usize, usize), [Option<usize>; 2]> = HashMap::new();
        // The first ones, if there are several.
        for (position, ((input, _), &sequence)) in inputs.iter().zip(&sequences_of[0]).enumerate() {
            if let Input::Cache(cache) = input {
                of_caches.entry((sequence, *cache)).or_default()[0].get_or_insert(position);
            }
        }
        for (position, ((output, _), &sequence)) in outputs.iter().zip(&sequences_of[1]).enumerate() {
            if let Output::Cache(cache) = output {
                of_caches.entry((sequence, *cache)).or_default()[1].get_or_insert(position);
            }
        }
        let id = program.timeline.next_graph();
        let built = program.timeline.wait_for(|done| Task::build(id, graph, most, done))?;
        let _owned = OwnedGraph::new(program.timeline.clone(), id);
        let placements = if program.timeline.has_own_memory() { built.in_tensors } else { built.placements };
        Ok(Plan { graph: id, _owned, inputs, outputs, sequences_of, of_caches, placements })
    }
}

fn inputs_of(
    names: &[(usize, String)],
    mut padding: HashMap<(usize, String), (Padded, PaddingInput)>,
    choices: &HashSet<(usize, String)>,
    program: &Program,
    caches: &[KvCache],
) -> Result<Vec<Input>> {
    let input_of = |key: &(usize, String)| {
        let name = &key.1;
        let cache = || caches.iter().position(|cache| cache.past == *name).map(Input::Cache);
        let model = || program.loaded.inputs().iter().position(|input| input.name == *name).map(Input::Model);
        let choice = choices.contains(key).then_some(Input::Choice);
        let padding = padding.remove(key).map(|(padded, input)| Input::Padding(padded, input));
        let input = padding.or(choice).or_else(cache).or_else(model);
        input.ok_or_else(|| Error::new(Kind::Operation, format!("no input {name:?} (internal error)")))
    };
    names.iter().map(input_of).collect()
}

/// The input that an output is another name of.
pub fn aliased_input(graph: &Graph, mut id: OperandId) -> Option<&str> {
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
