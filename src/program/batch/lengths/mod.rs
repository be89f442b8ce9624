//! Whether texts of different lengths can be run as one, each filled up after its end with zeros.
//!
//! The model is imported for one text of two lengths. The two graphs are compared, node by node: by induction over the operators, whose rules
//! are in [`rules`], each value of the longer one begins along all its axes with the value of the shorter one, whatever the numbers of the text are.
//! What stands after it is followed, too ([`Tail`]): where sums go over it, it must be zero, and no operator may make infinities or NaN of it, since
//! these would not vanish when they are multiplied with zero.
//!
//! Softmaxes along the text are the exception: what a mask of the model leaves is small, but not always nothing, so these see minus infinity
//! after the end by an input of their own ([`hide`]). So a mask is needed only where a model takes a mean, and then it must be proved to do that.
//!
//! A joined run has several texts. That these are apart is proved as for runs of equal shapes ([`super::analyse`]), for one text of the full length
//! and for several. What is added to the scores of a text depends on its own length only, so they are apart in the changed graph as well.

mod hide;
mod interval;
mod rules;
#[cfg(test)]
mod tests;

use super::{Reason, Refusal, analyse};
use crate::error::{Error, Kind};
use crate::graph::{DataType, Graph, Op, OperandId, Source as From};
use crate::onnx::{Export, ImportError, InputShape, Part, Place, Source, import_part};
use crate::program::Program;
use hide::hide;
use interval::{FINITE, Interval, hull, numbers};
use std::collections::HashMap;

/// Of constants with more elements it is not looked at what they are: these are finite if the model gives finite numbers.
const MOST_ELEMENTS: usize = 1 << 20;
/// The same of weights, which are read for products only.
const MOST_OF_WEIGHTS: usize = 1 << 12;

/// What a plan for texts of different lengths is made from: the shapes of one text of the full length, and of one that was proved to fit.
#[derive(Clone, Debug)]
pub struct Lengths {
    pub long: Vec<InputShape>,
    pub short: Vec<InputShape>,
}

/// The outputs of a text that is shorter, by their names: how much of those of the full length they are.
pub type Outputs = Vec<(String, Vec<u32>)>;

/// What stands after a value along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tail {
    axis: usize,
    /// What it can be, also where it is after along other axes.
    numbers: Interval,
    /// All places along the axis have the same elements.
    is_even: bool,
    /// It is minus infinity only where one place of the text is, the same one for all elements.
    is_alike: bool,
}

/// What is known of a value of the longer graph.
#[derive(Clone, Debug, PartialEq)]
struct State {
    /// What the elements can be that the shorter graph has, too.
    body: Interval,
    /// By the axes along which it is longer, in their order.
    tails: Vec<Tail>,
}

impl State {
    fn tail(&self, axis: usize) -> Option<&Tail> {
        self.tails.iter().find(|tail| tail.axis == axis)
    }

    /// What any of its elements can be.
    fn all(&self) -> Interval {
        self.tails.iter().fold(self.body, |all, tail| all.or(tail.numbers))
    }
}

/// The graph of one text, compared with that of a shorter one.
struct LengthAnalysis<'a> {
    long: &'a Graph,
    short: &'a Graph,
    /// By operand of both.
    states: Vec<State>,
    /// By operand, whether it may be added to scores, or becomes something that may.
    is_looked_at: Vec<bool>,
    /// The lengths of the text, where inputs say so.
    sizes: [u32; 2],
    /// The softmaxes along the text: their positions, and the axis.
    softmaxes: Vec<(usize, usize)>,
}

/// What was proved.
struct Proof {
    /// Those along the text: their positions, and the axis.
    softmaxes: Vec<(usize, usize)>,
    length: u32,
}

impl Program {
    fn part_for(&self, shapes: &[InputShape]) -> Result<Part, ImportError> {
        let given = self.loaded.given_of(shapes)?;
        import_part(&Source::of(&self.loaded)?, &self.limits, &self.bounds, &given, Place::First)
    }

    /// For each list of shapes what the outputs of one text are of those of a text with the shapes `long`, if the shorter one after whose end
    /// there are zeros gives what it gives alone.
    ///
    /// # Errors
    /// As [`import_part`].
    pub fn fits_into(
        &self,
        long: &[InputShape],
        shorter: &[Vec<InputShape>],
    ) -> Result<Vec<Result<Outputs, Refusal>>, ImportError> {
        let long = self.part_for(long)?;
        shorter.iter().map(|short| Ok(fitting(&self.part_for(short)?, &long).map(|(_, outputs)| outputs))).collect()
    }

    /// The graph of a part for several texts of the full length, changed so that these may end earlier.
    ///
    /// # Errors
    /// As [`import_part`], and if texts of these lengths cannot be run as one.
    pub(in crate::program) fn hiding(&self, graph: Graph, lengths: &Lengths) -> Result<Graph, ImportError> {
        let (long, short) = (self.part_for(&lengths.long)?, self.part_for(&lengths.short)?);
        let refused = |Refusal { reason, .. }: Refusal| Error::new(Kind::Operation, reason);
        let (proof, _) = fitting(&short, &long).map_err(refused)?;
        let one = long.graph.as_ref().ok_or_else(|| Error::new(Kind::Operation, "there is nothing to compute"))?;
        Ok(hidden(graph, one, &proof).map_err(refused)?)
    }
}

/// The graph for several texts, changed as the proof for one asks for it.
fn hidden(graph: Graph, one: &Graph, proof: &Proof) -> Result<Graph, Refusal> {
    let analysis = analyse(one, &graph)?;
    let texts = analysis.factor;
    // By their results for one text.
    let mut many: HashMap<OperandId, (usize, super::Rows)> = HashMap::new();
    for (position, node) in graph.nodes.iter().enumerate().filter(|(_, node)| matches!(node.op, Op::Softmax(_))) {
        if let Some(&(twin, rows)) = analysis.pairs.get(&node.outputs[0]) {
            many.insert(twin, (position, rows));
        }
    }
    let mut softmaxes = Vec::with_capacity(proof.softmaxes.len());
    for &(position, keys) in &proof.softmaxes {
        let node = &one.nodes[position];
        let refuse =
            |reason: &str| Refusal { node: node.label.clone(), operator: node.op.row().name.to_owned(), reason: reason.into() };
        let (position, rows) = many.get(&node.outputs[0]).copied().ok_or_else(|| refuse("it is not there for several texts"))?;
        let rows = rows.ok_or_else(|| refuse("all texts have its result in common"))?;
        softmaxes.push(hide::Softmax { position, rows, keys });
    }
    drop(analysis);
    hide(graph, texts, proof.length, &softmaxes).map_err(Refusal::of_model)
}

/// What the shorter one's outputs are of the longer one's, if it gives what it gives alone.
fn fitting(short: &Part, long: &Part) -> Result<(Proof, Outputs), Refusal> {
    if short.next.is_some() || long.next.is_some() {
        return Err(Refusal::of_model("the model is split"));
    }
    let (Some(short_graph), Some(long_graph)) = (&short.graph, &long.graph) else {
        return Err(Refusal::of_model("there is nothing to compute"));
    };
    let proof = proof(short_graph, long_graph)?;
    if short.exports.len() != long.exports.len() {
        return Err(Refusal::of_model("the outputs depend on the length"));
    }
    let output = |((name, short), (other, long)): (&(String, Export), &(String, Export))| {
        let refuse = || Refusal::of_model(format!("the output {name:?} is another value for another length"));
        let shape = match (short, long) {
            _ if name != other => return Err(refuse()),
            (Export::Result { output, shape, .. }, Export::Result { output: twin, .. }) if output == twin => shape.clone(),
            (Export::Known(short), Export::Known(long)) if short == long => {
                short.shape.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect()
            }
            (Export::Given(input), Export::Given(twin)) if input == twin => {
                let (_, id) = short_graph.inputs.iter().find(|(other, _)| other == input).ok_or_else(refuse)?;
                short_graph.descriptor(*id).shape.to_vec()
            }
            _ => return Err(refuse()),
        };
        Ok((name.clone(), shape))
    };
    let outputs = short.exports.iter().zip(&long.exports).map(output).collect::<Result<_, _>>()?;
    Ok((proof, outputs))
}

/// Whether each value of the longer graph begins with that of the shorter one.
fn proof(short: &Graph, long: &Graph) -> Result<Proof, Refusal> {
    const FORM: &str = "the form of the graph depends on the length";
    let is_alike = short.nodes.len() == long.nodes.len()
        && short.operands.len() == long.operands.len()
        && short.inputs == long.inputs
        && short.outputs == long.outputs;
    if !is_alike {
        return Err(Refusal::of_model(FORM));
    }
    let sizes = sizes(short, long)?;
    let states = vec![State { body: FINITE, tails: Vec::new() }; long.operands.len()];
    let mut is_looked_at = vec![false; long.operands.len()];
    for node in &long.nodes {
        if node.op.elementwise().is_some() || matches!(node.op, Op::Slice(_) | Op::Expand(_) | Op::Reshape(_) | Op::Concat(_)) {
            node.op.visit(&mut |_, id| is_looked_at[id.0 as usize] = true);
        }
    }
    let mut analysis = LengthAnalysis { long, short, states, is_looked_at, sizes, softmaxes: Vec::new() };
    for position in 0..long.operands.len() {
        analysis.leaf(OperandId(position as u32)).map_err(Refusal::of_model)?;
    }
    for (position, node) in long.nodes.iter().enumerate() {
        let refuse = |reason| Refusal { node: node.label.clone(), operator: node.op.row().name.to_owned(), reason };
        analysis.node(position).map_err(refuse)?;
    }
    let LengthAnalysis { softmaxes, sizes: [_, length], .. } = analysis;
    Ok(Proof { softmaxes, length })
}

/// The lengths of the text, as all inputs have them that are longer.
fn sizes(short: &Graph, long: &Graph) -> Result<[u32; 2], Refusal> {
    let mut found = None;
    for (name, id) in &long.inputs {
        for (&less, &more) in short.descriptor(*id).shape.iter().zip(&long.descriptor(*id).shape) {
            if less != more && found.is_some_and(|sizes| sizes != [less, more]) {
                return Err(Refusal::of_model(format!("the input {name:?} is longer by another number than others")));
            }
            if less != more {
                found = Some([less, more]);
            }
        }
    }
    found.filter(|[less, more]| less < more).ok_or_else(|| Refusal::of_model("no input that counts has a length"))
}

impl LengthAnalysis<'_> {
    fn shape(&self, id: OperandId) -> &[u32] {
        &self.long.descriptor(id).shape
    }

    fn short_shape(&self, id: OperandId) -> &[u32] {
        &self.short.descriptor(id).shape
    }

    fn data_type(&self, id: OperandId) -> DataType {
        self.long.descriptor(id).data_type
    }

    fn state(&self, id: OperandId) -> &State {
        &self.states[id.0 as usize]
    }

    /// The axes along which a value is longer.
    fn grown(&self, id: OperandId) -> Result<Vec<usize>, Reason> {
        let (short, long) = (self.short.descriptor(id), self.long.descriptor(id));
        let is_longer = short.data_type == long.data_type
            && short.rank() == long.rank()
            && short.shape.iter().zip(&long.shape).all(|(less, more)| less <= more);
        if !is_longer {
            return Err(format!("the shapes {:?} and {:?} for a shorter and a longer text", &short.shape[..], &long.shape[..]));
        }
        Ok((0..long.rank()).filter(|&axis| short.shape[axis] < long.shape[axis]).collect())
    }

    fn leaf(&mut self, id: OperandId) -> Result<(), Reason> {
        const FORM: &str = "the form of the graph depends on the length";
        let sources = [self.short, self.long].map(|graph| &graph.operands[id.0 as usize].source);
        let state = match sources {
            [From::Node { node, output }, From::Node { node: other, output: at }] if node == other && output == at => {
                return Ok(());
            }
            [From::Input { name }, From::Input { name: other }] if name == other => {
                // Zeros, as the engine fills up.
                let tail = |axis| Tail { axis, numbers: interval::ZERO, is_even: false, is_alike: true };
                State { body: FINITE, tails: self.grown(id)?.into_iter().map(tail).collect() }
            }
            [From::Constant(short), From::Constant(long)] => {
                let axes = self.grown(id)?;
                if axes.is_empty() && short.place() == long.place() && self.is_weights(id) {
                    return Ok(());
                }
                let (short, long) = (short.briefly(), long.briefly());
                self.constant(id, short.as_slice(), long.as_slice(), &axes)?
            }
            _ => return Err(FORM.into()),
        };
        self.states[id.0 as usize] = state;
        Ok(())
    }

    /// Whether a constant is finite, as far as is to be known.
    fn is_weights(&self, id: OperandId) -> bool {
        let descriptor = self.long.descriptor(id);
        let is_looked_at = self.is_looked_at[id.0 as usize] && descriptor.data_type.is_float();
        descriptor.element_count() > if is_looked_at { MOST_ELEMENTS } else { MOST_OF_WEIGHTS }
    }

    /// A constant that importing may have computed from sizes.
    fn constant(&self, id: OperandId, short: &[u8], long: &[u8], axes: &[usize]) -> Result<State, Reason> {
        const OTHER: &str = "a constant that depends on the length";
        let data_type = self.data_type(id);
        let (shape, short_shape) = (self.shape(id), self.short_shape(id));
        let count = self.long.descriptor(id).element_count();
        let all = if count > MOST_ELEMENTS { None } else { numbers(data_type, long) };
        let body = all.as_ref().and_then(|all| hull(all.iter().copied())).unwrap_or(FINITE);
        if axes.is_empty() {
            return if short == long { Ok(State { body, tails: Vec::new() }) } else { Err(OTHER.into()) };
        }
        let width = data_type.bits() / 8;
        let all = all.filter(|_| width > 0).ok_or(OTHER)?;
        // Each element of the shorter one, and its place in the longer one.
        let mut places = Places::of(short_shape, shape);
        for bytes in short.chunks_exact(width) {
            let at = places.next().ok_or(OTHER)?;
            if long.get(at * width..(at + 1) * width) != Some(bytes) {
                return Err(OTHER.into());
            }
        }
        let tail = |&axis: &usize| {
            let inner: usize = shape[axis + 1..].iter().map(|&size| size as usize).product();
            let (size, text) = (shape[axis] as usize, short_shape[axis] as usize);
            let line =
                |place: usize| all.chunks_exact(size * inner).flat_map(move |one| &one[place * inner..(place + 1) * inner]);
            let after = (text..size).flat_map(line).copied();
            let is_even = text > 0 && (1..size).all(|place| line(place).eq(line(0)));
            let hides = |(there, here): (&f64, &f64)| *there != f64::NEG_INFINITY || *here == f64::NEG_INFINITY;
            let is_like = |place: usize| (text..size).all(|other| line(other).zip(line(place)).all(hides));
            let numbers = hull(after).unwrap_or(FINITE);
            let is_alike = numbers.is_finite() || text > 0 && (is_like(0) || is_like(text - 1));
            Tail { axis, numbers, is_even, is_alike }
        };
        Ok(State { body, tails: axes.iter().map(tail).collect() })
    }

    fn node(&mut self, position: usize) -> Result<(), Reason> {
        let (node, twin) = (&self.long.nodes[position], &self.short.nodes[position]);
        let inputs = super::operands(&node.op);
        if super::operands(&twin.op) != inputs || twin.outputs != node.outputs {
            return Err("its operands depend on the length".into());
        }
        // Those that say sizes say others for other lengths.
        let tells_sizes = matches!(
            (&node.op, &twin.op),
            (Op::Reshape(_), Op::Reshape(_))
                | (Op::Expand(_), Op::Expand(_))
                | (Op::Slice(_), Op::Slice(_))
                | (Op::Tile(_), Op::Tile(_))
        );
        if node.op != twin.op && !tells_sizes {
            return Err("its options depend on the length".into());
        }
        let states = self.rule(position, &inputs)?;
        for (&id, mut state) in node.outputs.iter().zip(states) {
            state.tails.sort_by_key(|tail| tail.axis);
            if !self.grown(id)?.into_iter().eq(state.tails.iter().map(|tail| tail.axis)) {
                return Err("its result is longer along another axis than its operands".into());
            }
            let data_type = self.data_type(id);
            state.body = state.body.of_type(data_type);
            for tail in &mut state.tails {
                tail.numbers = tail.numbers.of_type(data_type);
                tail.is_alike |= tail.is_even || tail.numbers.is_finite();
            }
            self.states[id.0 as usize] = state;
        }
        Ok(())
    }
}

/// The places of the elements of a small box in a larger one.
struct Places<'a> {
    small: &'a [u32],
    large: &'a [u32],
    at: Vec<u32>,
    is_over: bool,
}

impl<'a> Places<'a> {
    fn of(small: &'a [u32], large: &'a [u32]) -> Self {
        Places { small, large, at: vec![0; small.len()], is_over: small.contains(&0) }
    }
}

impl Iterator for Places<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.is_over {
            return None;
        }
        let place = self.at.iter().zip(self.large).fold(0, |place, (&at, &size)| place * size as usize + at as usize);
        self.is_over = true;
        for axis in (0..self.at.len()).rev() {
            self.at[axis] += 1;
            if self.at[axis] < self.small[axis] {
                self.is_over = false;
                break;
            }
            self.at[axis] = 0;
        }
        Some(place)
    }
}
