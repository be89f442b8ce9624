//! One graph for all lengths of a cache up to a *bucket*. A cache that is shorter than its bucket begins with rows that do not count, of
//! zeros; the graph is that of the full bucket, changed so that it gives for the rest what the graph for the rest alone would give.
//!
//! Whether that can be done is found out from graphs for three lengths: the bucket, one less, and the shortest one that is to run in it.
//! They differ in sizes, and in constants that importing has computed from sizes. For each value it is worked out how the one of the
//! bucket contains the shorter one: it is the same ([`State::Exact`]), or it has something in front of it along an axis
//! ([`State::Padded`]). That holds by induction over the operators, whose rules are in [`Walk::node`]; what has no rule is refused.
//! What needs to be told how many rows count are two things, which become inputs of the graph ([`Told`]): a softmax along such an axis,
//! which must not see what is in front, and whole numbers that grow with the length, such as positions.

use super::told::{Slopes, Told};
use crate::graph::attribute::UnsignedOrList;
use crate::graph::ops::Elementwise;
use crate::graph::ops::elementwise::{Binary, BinaryKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{ConstantBytes, DataType, Graph, Node, Op, Operand, OperandId, Source};
use std::collections::HashMap;

/// What is in front of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Front {
    Zeros,
    /// Numbers that are neither infinite nor NaN, if no other number of the model is.
    Finite,
    Anything,
}

/// How a value for the bucket contains the one for fewer rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Exact,
    Padded { axis: usize, front: Front },
}

/// Why a graph is not one for all lengths.
pub type Refusal = String;

/// The graph for the bucket, changed so that it serves fewer rows, and what its new inputs are told, by their names.
///
/// `graphs` are those for `rows`: the most, one less, and the fewest. Caches are outputs whose rows come first in memory.
pub fn in_bucket(
    graphs: [Graph; 3],
    rows: [usize; 3],
    is_cache: impl Fn(&str) -> bool,
) -> Result<(Graph, Vec<(String, Told)>), Refusal> {
    let [graph, less, least] = graphs;
    let shorter = [(&less, rows[0] - rows[1]), (&least, rows[0] - rows[2])];
    for (other, _) in shorter {
        if other.nodes.len() != graph.nodes.len()
            || other.operands.len() != graph.operands.len()
            || other.inputs != graph.inputs
            || other.outputs != graph.outputs
        {
            return Err("graphs of other forms for other lengths".into());
        }
    }
    let mut walk =
        Walk { graph: &graph, shorter, states: Vec::new(), told: Vec::new(), softmaxes: Vec::new(), places: Vec::new() };
    // A constant or an input may stand behind the nodes that do not use it: these come first.
    walk.states = vec![State::Exact; graph.operands.len()];
    for position in 0..graph.operands.len() {
        walk.leaf(OperandId(position as u32))?;
    }
    for position in 0..graph.nodes.len() {
        walk.node(position).map_err(|reason| format!("{}: {reason}", graph.nodes[position].op.row().name))?;
    }
    for (name, id) in &graph.outputs {
        let fits = match walk.states[id.0 as usize] {
            State::Exact => !is_cache(name),
            State::Padded { axis, .. } => is_cache(name) && axis == 0,
        };
        if !fits {
            return Err(format!("the output {name:?} is not as long as the rows that count"));
        }
    }
    let Walk { told, softmaxes, places, .. } = walk;
    Ok(changed(graph, told, &softmaxes, &places))
}

struct Walk<'a> {
    graph: &'a Graph,
    /// With how many rows they have less.
    shorter: [(&'a Graph, usize); 2],
    states: Vec<State>,
    told: Vec<(OperandId, Told)>,
    /// Nodes that must not see what is in front, and along which axis that is.
    softmaxes: Vec<(usize, usize)>,
    /// Nodes that find rows by numbers which count what is in front, too: these stay as they are.
    places: Vec<(usize, OperandId)>,
}

impl Walk<'_> {
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
                return Err("values of other ranks or types for other lengths".into());
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

    fn leaf(&mut self, id: OperandId) -> Result<(), Refusal> {
        let sources = self.shorter.map(|(other, _)| &other.operands[id.0 as usize].source);
        let state = match (&self.graph.operands[id.0 as usize].source, sources) {
            (Source::Node { node, output }, others) => {
                let is_same = |other: &Source| matches!(other, Source::Node { node: n, output: o } if n == node && o == output);
                return if others.into_iter().all(is_same) { Ok(()) } else { Err("graphs of other forms".into()) };
            }
            (Source::Input { name }, others) => {
                if !others.into_iter().all(|other| matches!(other, Source::Input { name: other } if other == name)) {
                    return Err("graphs of other forms".into());
                }
                match self.grown(id)? {
                    // The caller puts zeros there.
                    Some(axis) => State::Padded { axis, front: Front::Zeros },
                    None => State::Exact,
                }
            }
            (Source::Constant(bytes), [Source::Constant(less), Source::Constant(least)]) => {
                self.constant(id, bytes, [less, least])?
            }
            _ => return Err("graphs of other forms".into()),
        };
        self.states[id.0 as usize] = state;
        Ok(())
    }

    /// One that importing may have computed from sizes.
    fn constant(&mut self, id: OperandId, bytes: &ConstantBytes, others: [&ConstantBytes; 2]) -> Result<State, Refusal> {
        let grown = self.grown(id)?;
        let bytes = bytes.as_slice();
        if grown.is_none() && others.iter().all(|other| is_same(bytes, other.as_slice())) {
            return Ok(State::Exact);
        }
        let data_type = self.graph.descriptor(id).data_type;
        let width = data_type.byte_length(1).filter(|_| data_type.bits() >= 8).ok_or("constants of less than a byte")?;
        // Where the element of a shorter one is in this one, behind what is in front.
        let shape = self.shape(id).to_vec();
        let place = |element: usize, fewer: usize| match grown {
            None => element,
            Some(axis) => {
                let inner: usize = shape[axis + 1..].iter().map(|&size| size as usize).product();
                let long = shape[axis] as usize * inner;
                let short = long - fewer * inner;
                element / short * long + element % short + fewer * inner
            }
        };
        let pairs = || {
            self.shorter.iter().zip(others).flat_map(|((_, fewer), other)| {
                let other = other.as_slice();
                (0..other.len() / width).map(move |element| (*fewer, element, other))
            })
        };
        let at = |bytes: &'_ [u8], element: usize| -> Vec<u8> { bytes[element * width..][..width].to_vec() };
        // Exporters multiply the lowest number with 0 for what a mask leaves alone: the signs of such zeros are chance.
        let (mut is_like, mut has_other_zeros) = (true, false);
        for (fewer, element, other) in pairs() {
            let (here, there) = (&bytes[place(element, fewer) * width..][..width], &other[element * width..][..width]);
            if here != there {
                is_like &= is_zero(data_type, here) && is_zero(data_type, there);
                has_other_zeros = true;
            }
        }
        let state = |front| grown.map_or(State::Exact, |axis| State::Padded { axis, front });
        if is_like && (!has_other_zeros || self.ignores_signs_of_zeros(id)) {
            let is_finite = !data_type.is_float() || bytes.chunks_exact(width).all(|bytes| is_finite(data_type, bytes));
            return Ok(state(if is_finite { Front::Finite } else { Front::Anything }));
        }
        // Numbers that grow with the length.
        let count = bytes.len() / width;
        let number =
            |bytes: Vec<u8>| integer(data_type, &bytes).ok_or("numbers that depend on the length otherwise than as a multiple");
        let numbers: Vec<i64> = (0..count).map(|element| number(at(bytes, element))).collect::<Result<_, _>>()?;
        let (inner, long) = match grown {
            Some(axis) => {
                let inner: usize = shape[axis + 1..].iter().map(|&size| size as usize).product();
                (inner, inner * shape[axis] as usize)
            }
            None => (1, 1),
        };
        let mut slopes = Slopes { list: vec![0; count / long * inner], inner, long };
        let mut known: Vec<Option<i64>> = vec![None; slopes.list.len()];
        for (fewer, element, other) in pairs() {
            let here = place(element, fewer);
            let difference = numbers[here] - number(at(other, element))?;
            let slope = &mut known[slopes.place(here)];
            let fits = difference % fewer as i64 == 0 && slope.is_none_or(|slope| slope * fewer as i64 == difference);
            if !fits {
                return Err("numbers that depend on the length otherwise than as a multiple".into());
            }
            *slope = Some(difference / fewer as i64);
        }
        slopes.list = known.into_iter().map(Option::unwrap_or_default).collect();
        self.told.push((id, Told::Counts { data_type, numbers, slopes }));
        Ok(state(Front::Finite))
    }

    /// Whether all that is done with a value are sums, which tell zeros apart only from another zero, comparisons and choices.
    fn ignores_signs_of_zeros(&self, id: OperandId) -> bool {
        self.graph.nodes.iter().all(|node| {
            let mut uses = false;
            node.op.visit(&mut |_, input| uses |= input == id);
            !uses
                || matches!(&node.op, Op::Binary(op) if op.kind == BinaryKind::Add)
                || matches!(node.op, Op::Logical(_) | Op::Where(_))
        })
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
                return Err("other operands for other lengths".into());
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
            return Err("other options for other lengths".into());
        }
        let outputs: Vec<Option<usize>> = node.outputs.iter().map(|&id| self.grown(id)).collect::<Result<_, _>>()?;
        let states = self.rule(position, &node.op, &inputs, &outputs, is_same)?;
        for (&id, state) in node.outputs.iter().zip(states) {
            self.states[id.0 as usize] = state;
        }
        Ok(())
    }

    /// How the outputs of an operator contain the shorter ones.
    fn rule(
        &mut self,
        position: usize,
        op: &Op,
        inputs: &[OperandId],
        outputs: &[Option<usize>],
        is_same: bool,
    ) -> Result<Vec<State>, Refusal> {
        let padded = |walk: &Self, id: OperandId| match walk.state(id) {
            State::Padded { axis, front } => Some((axis, front)),
            State::Exact => None,
        };
        if is_same && outputs.iter().all(Option::is_none) && inputs.iter().all(|&id| self.state(id) == State::Exact) {
            return Ok(vec![State::Exact; outputs.len()]);
        }
        let output = outputs.first().copied().flatten();
        let id = self.graph.nodes[position].outputs[0];
        let one = |state| Ok(vec![state]);
        let along = |front| {
            output.map(|axis| vec![State::Padded { axis, front }]).ok_or_else(|| Refusal::from("a result without the rows"))
        };
        if let Some(op) = op.elementwise() {
            let axis = output.ok_or("a result without the rows")?;
            let rank = self.shape(id).len();
            for &input in inputs {
                let shape = self.shape(input);
                // In the axes of the output, behind which it is aligned.
                let place = |axis: usize| axis + rank - shape.len();
                let fits = match padded(self, input) {
                    Some((own, _)) => place(own) == axis,
                    None => axis < place(0) || shape[axis + shape.len() - rank] == 1,
                };
                if !fits {
                    return Err("an operand that has no rows where the other has".into());
                }
            }
            let fronts: Vec<Option<Front>> = inputs.iter().map(|&id| padded(self, id).map(|(_, front)| front)).collect();
            return along(front_of(op, &fronts));
        }
        match op {
            Op::Transpose(op) => {
                let (axis, front) = padded(self, op.input).ok_or("no rows")?;
                let rank = self.shape(op.input).len();
                let to = match &op.permutation {
                    Some(permutation) => permutation.iter().position(|&from| from as usize == axis),
                    None => Some(rank - 1 - axis),
                };
                match to == output {
                    true => along(front),
                    false => Err("rows along another axis".into()),
                }
            }
            Op::Reshape(op) => {
                let (from, to) = (self.shape(op.input), self.shape(id));
                let Some((axis, front)) = padded(self, op.input) else {
                    // Of known sizes on both sides.
                    return match output {
                        None => one(State::Exact),
                        Some(_) => Err("rows that were not there".into()),
                    };
                };
                let before = |shape: &[u32], axis: usize| shape[..axis].iter().map(|&size| u64::from(size)).product::<u64>();
                match output {
                    Some(to_axis) if before(from, axis) == before(to, to_axis) && from[axis] == to[to_axis] => along(front),
                    _ => Err("rows that become something else".into()),
                }
            }
            Op::Expand(op) => {
                let axis = output.ok_or("a result without the rows")?;
                let (shape, rank) = (self.shape(op.input), self.shape(id).len());
                match padded(self, op.input) {
                    Some((own, front)) if own + rank - shape.len() == axis => along(front),
                    None if axis + shape.len() < rank || shape[axis + shape.len() - rank] == 1 => along(Front::Finite),
                    _ => Err("rows along another axis".into()),
                }
            }
            Op::Concat(op) => {
                let axis = output.ok_or("a result without the rows")?;
                let mut fronts = Vec::new();
                for (number, &input) in op.inputs.iter().enumerate() {
                    match padded(self, input) {
                        Some((own, front)) if own == axis && (number == 0 || op.axis as usize != axis) => fronts.push(front),
                        None if number > 0 && op.axis as usize == axis => {}
                        _ => return Err("something in front of the rows".into()),
                    }
                }
                along(fronts.into_iter().max().unwrap_or(Front::Anything))
            }
            Op::Split(op) => {
                let (axis, front) = padded(self, op.input).ok_or("no rows")?;
                let is_list = matches!(op.splits, UnsignedOrList::List(_) | UnsignedOrList::One(_));
                if axis == op.axis as usize || !is_list || outputs.iter().any(|output| *output != Some(axis)) {
                    return Err("the rows are divided".into());
                }
                Ok(vec![State::Padded { axis, front }; outputs.len()])
            }
            Op::Slice(op) => self.slice(position, op, padded(self, op.input), output),
            Op::Gather(op) => {
                let (values, indices) = (padded(self, op.input), padded(self, op.indices));
                let at = op.axis as usize;
                let rank = self.shape(op.indices).len();
                match (values, indices, output) {
                    (None, Some((axis, _)), Some(to)) if to == at + axis => {
                        // Whatever stands in front, an index is brought into the range.
                        along(Front::Finite)
                    }
                    (Some((axis, front)), None, Some(to)) if axis != at => {
                        let expected = if axis < at { axis } else { axis + rank - 1 };
                        if to == expected { along(front) } else { Err("rows along another axis".into()) }
                    }
                    _ => Err("elements of rows by their places".into()),
                }
            }
            // Zeros are indices into whatever there is.
            Op::CheckIndices(op) => match padded(self, op.indices) {
                Some((_, front @ Front::Zeros)) => along(front),
                _ => Err("indices of rows that do not count, which are checked".into()),
            },
            Op::GatherNd(op) => {
                let shape = self.shape(op.indices);
                let count = shape.last().copied().unwrap_or(1) as usize;
                let Some((axis, front)) = padded(self, op.input) else {
                    // Whatever stands in front, a coordinate is brought into the range.
                    return match padded(self, op.indices) {
                        Some((axis, _)) if output == Some(axis) && axis + 1 < shape.len() => along(Front::Finite),
                        _ => Err("elements by other places".into()),
                    };
                };
                // Coordinates that grow with the rows count what is in front of these.
                let counts = self.told.iter().find(|(id, _)| *id == op.indices).map(|(_, told)| told);
                let is_place = |slopes: &Slopes, (element, &number): (usize, &i64)| {
                    number >= 0 && slopes.of(element) == i64::from(element % count == axis)
                };
                let finds_rows = match counts {
                    Some(Told::Counts { numbers, slopes, .. }) => numbers.iter().enumerate().all(|one| is_place(slopes, one)),
                    _ => false,
                };
                let grown = padded(self, op.indices).map(|(axis, _)| axis);
                if axis >= count || !finds_rows || output != grown || grown.is_some_and(|axis| axis + 1 == shape.len()) {
                    return Err("elements of rows by their places".into());
                }
                self.places.push((position, op.indices));
                if output.is_some() { along(front) } else { one(State::Exact) }
            }
            Op::Matmul(_) | Op::IntegerMatmul(_) => {
                let [a, b] = inputs[..] else { return Err("no two operands".into()) };
                let (rank_a, rank_b, rank) = (self.shape(a).len(), self.shape(b).len(), self.shape(id).len());
                // From behind: 0 for columns, 1 for rows, and then the batches.
                let from_behind =
                    |value: Option<(usize, Front)>, rank: usize| value.map(|(axis, front)| (rank - 1 - axis, front));
                match (from_behind(padded(self, a), rank_a), from_behind(padded(self, b), rank_b)) {
                    (Some((0, left)), Some((1, right))) => {
                        // Nothing of what is in front counts where one of the factors is zero.
                        let vanishes = left.min(right) == Front::Zeros && left.max(right) <= Front::Finite;
                        match vanishes && output.is_none() {
                            true => one(State::Exact),
                            false => Err("a sum over rows that do not count".into()),
                        }
                    }
                    (Some((1, front)), None) if output == Some(rank - 2) => along(front),
                    (None, Some((0, front))) if output == Some(rank - 1) => along(front),
                    _ => Err("a product along the rows".into()),
                }
            }
            Op::Softmax(op) => {
                let (axis, front) = padded(self, op.input).ok_or("no rows")?;
                if front == Front::Anything {
                    return Err("numbers in front that may be infinite".into());
                }
                if axis != op.axis as usize {
                    return along(Front::Finite);
                }
                self.softmaxes.push((position, axis));
                along(Front::Zeros)
            }
            Op::Reduce(op) => {
                let (axis, front) = padded(self, op.input).ok_or("no rows")?;
                if !op.reduces(axis) {
                    let harmless = matches!(op.kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min);
                    return along(if harmless { front } else { front.max(Front::Finite) });
                }
                let adds = matches!(op.kind, ReduceKind::Sum | ReduceKind::L1 | ReduceKind::SumSquare | ReduceKind::L2);
                match adds && front == Front::Zeros && output.is_none() {
                    true => one(State::Exact),
                    false => Err("a reduction over rows that do not count".into()),
                }
            }
            Op::CumulativeSum(op) => {
                let (axis, front) = padded(self, op.input).ok_or("no rows")?;
                match axis == op.axis.0 as usize {
                    false => along(front),
                    true if op.reversed => along(front.max(Front::Finite)),
                    true if front == Front::Zeros => along(Front::Zeros),
                    true => Err("sums that begin before the rows".into()),
                }
            }
            _ => Err("no rule for it along the rows".into()),
        }
    }

    fn slice(
        &self,
        position: usize,
        op: &crate::graph::ops::movement::Slice,
        input: Option<(usize, Front)>,
        output: Option<usize>,
    ) -> Result<Vec<State>, Refusal> {
        let mut others = Vec::new();
        for (other, fewer) in self.shorter {
            let Op::Slice(slice) = &other.nodes[position].op else { return Err("another operator".into()) };
            others.push((slice, fewer as u32));
        }
        let rows = input.map(|(axis, _)| axis);
        // Along other axes it is the same part.
        for axis in (0..op.starts.len()).filter(|axis| Some(*axis) != rows) {
            let is_same = |(other, _): &(&crate::graph::ops::movement::Slice, u32)| {
                (other.starts[axis], other.sizes[axis], other.stride(axis)) == (op.starts[axis], op.sizes[axis], op.stride(axis))
            };
            if !others.iter().all(is_same) {
                return Err("other parts for other lengths".into());
            }
        }
        let Some((axis, front)) = input else {
            return if output.is_none() { Ok(vec![State::Exact]) } else { Err("rows that were not there".into()) };
        };
        let (start, size) = (op.starts[axis], op.sizes[axis]);
        let is_whole_step = op.stride(axis) == 1 && others.iter().all(|(other, _)| other.stride(axis) == 1);
        // What is left out is behind the rows that are taken.
        let from_first =
            start == 0 && others.iter().all(|(other, fewer)| other.starts[axis] == 0 && other.sizes[axis] + fewer == size);
        // As many of the last ones.
        let last = others.iter().all(|(other, fewer)| other.starts[axis] + fewer == start && other.sizes[axis] == size);
        match output {
            Some(to) if is_whole_step && from_first && to == axis => Ok(vec![State::Padded { axis, front }]),
            None if is_whole_step && last => Ok(vec![State::Exact]),
            _ => Err("other rows for other lengths".into()),
        }
    }
}

/// What is in front of the result of an element-wise operator; nothing for operands that have no rows.
fn front_of(op: Elementwise<'_>, fronts: &[Option<Front>]) -> Front {
    let worst = fronts.iter().flatten().copied().max().unwrap_or(Front::Finite);
    let all_zero = fronts.iter().all(|front| *front == Some(Front::Zeros));
    let is_zero = |at: usize| fronts.get(at).copied().flatten() == Some(Front::Zeros);
    if worst == Front::Anything {
        // Truth values are 0 and 1 whatever they are about.
        let is_truth = matches!(op, Elementwise::Logical(_) | Elementwise::Predicate(_));
        return if is_truth { Front::Finite } else { Front::Anything };
    }
    let finite_if = |is_finite: bool| if is_finite { Front::Finite } else { Front::Anything };
    let zeros_if = |is_zero: bool| if is_zero { Front::Zeros } else { Front::Finite };
    match op {
        Elementwise::Cast(_) => zeros_if(all_zero),
        Elementwise::Unary(op) => match op.kind {
            UnaryKind::Identity | UnaryKind::Neg | UnaryKind::Abs | UnaryKind::Sign => zeros_if(all_zero),
            UnaryKind::Sqrt if all_zero => Front::Finite,
            kind => finite_if(kind.gives_finite()),
        },
        Elementwise::Binary(op) => match op.kind {
            BinaryKind::Mul => zeros_if(is_zero(0) || is_zero(1)),
            BinaryKind::Add | BinaryKind::Sub | BinaryKind::Max | BinaryKind::Min => zeros_if(all_zero),
            BinaryKind::Div if fronts[1].is_some() => Front::Anything,
            BinaryKind::Div => Front::Finite,
            BinaryKind::Pow => Front::Anything,
        },
        Elementwise::Remainder(_) => Front::Anything,
        Elementwise::Activation(op) => finite_if(op.kind.gives_finite()),
        Elementwise::Gate(op) => finite_if(op.kind.gives_finite()),
        Elementwise::Clamp(_)
        | Elementwise::DequantizeLinear(_)
        | Elementwise::Elu(_)
        | Elementwise::HardSigmoid(_)
        | Elementwise::LeakyRelu(_)
        | Elementwise::Linear(_)
        | Elementwise::Logical(_)
        | Elementwise::Predicate(_)
        | Elementwise::Prelu(_)
        | Elementwise::QuantizeLinear(_)
        | Elementwise::ReplaceNan(_)
        | Elementwise::Swish(_)
        | Elementwise::Where(_) => Front::Finite,
    }
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.as_ptr() == b.as_ptr() && a.len() == b.len() || a == b
}

fn is_finite(data_type: DataType, bytes: &[u8]) -> bool {
    match (data_type, bytes) {
        (DataType::Float32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]).is_finite(),
        (DataType::Float16, &[a, b]) => half::f16::from_ne_bytes([a, b]).is_finite(),
        _ => true,
    }
}

/// Whether a float is 0 or -0.
fn is_zero(data_type: DataType, bytes: &[u8]) -> bool {
    match (data_type, bytes) {
        (DataType::Float32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]) == 0.0,
        (DataType::Float16, &[a, b]) => half::f16::from_ne_bytes([a, b]) == half::f16::ZERO,
        _ => false,
    }
}

fn integer(data_type: DataType, bytes: &[u8]) -> Option<i64> {
    Some(match data_type {
        DataType::Int64 => i64::from_ne_bytes(bytes.try_into().ok()?),
        DataType::Int32 => i32::from_ne_bytes(bytes.try_into().ok()?).into(),
        DataType::Uint32 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    })
}

/// A name that no input of a model has.
fn name_of(number: usize) -> String {
    format!("\0rows {number}")
}

/// Makes constants inputs, and has softmaxes see an addend.
fn changed(
    mut graph: Graph,
    told: Vec<(OperandId, Told)>,
    softmaxes: &[(usize, usize)],
    places: &[(usize, OperandId)],
) -> (Graph, Vec<(String, Told)>) {
    for &(position, id) in places {
        let copy = OperandId(graph.operands.len() as u32);
        graph.operands.push(graph.operands[id.0 as usize].clone());
        graph.nodes[position].op.visit_mut(&mut |operand| {
            if *operand == id {
                *operand = copy;
            }
        });
    }
    let mut used = vec![false; graph.operands.len()];
    for node in &graph.nodes {
        node.op.visit(&mut |_, id| used[id.0 as usize] = true);
    }
    let mut named = Vec::new();
    for (id, told) in told.into_iter().filter(|(id, _)| used[id.0 as usize]) {
        let name = name_of(named.len());
        graph.operands[id.0 as usize].source = Source::Input { name: name.clone() };
        graph.inputs.push((name.clone(), id));
        named.push((name, told));
    }
    // By type, and by the axes from the rows on.
    let mut hiding: HashMap<(DataType, Vec<u32>), OperandId> = HashMap::new();
    let mut before: HashMap<usize, Node> = HashMap::new();
    for &(position, axis) in softmaxes {
        let Op::Softmax(softmax) = &graph.nodes[position].op else { continue };
        let scores = softmax.input;
        let descriptor = graph.descriptor(scores).clone();
        let length = descriptor.shape[axis];
        let shape: Vec<u32> = descriptor.shape[axis..].iter().enumerate().map(|(i, _)| if i == 0 { length } else { 1 }).collect();
        let key = (descriptor.data_type, shape.clone());
        let addend = match hiding.get(&key) {
            Some(&id) => id,
            None => {
                let told = Told::Hides { data_type: descriptor.data_type, length: length as usize };
                let name = name_of(named.len());
                let id = OperandId(graph.operands.len() as u32);
                graph
                    .operands
                    .push(Operand { descriptor: told.descriptor(&shape), source: Source::Input { name: name.clone() } });
                graph.inputs.push((name.clone(), id));
                named.push((name, told));
                hiding.insert(key, id);
                id
            }
        };
        let sum = OperandId(graph.operands.len() as u32);
        // Its node is known below.
        graph.operands.push(Operand { descriptor, source: Source::Node { node: 0, output: 0 } });
        let label = graph.nodes[position].label.clone();
        let op = Binary { kind: BinaryKind::Add, a: scores, b: addend }.into();
        before.insert(position, Node { op, label, outputs: vec![sum] });
        graph.nodes[position].op.visit_mut(&mut |id| *id = sum);
    }
    let mut nodes = Vec::with_capacity(graph.nodes.len() + before.len());
    for (position, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
        nodes.extend(before.remove(&position));
        nodes.push(node);
    }
    for (number, node) in nodes.iter().enumerate() {
        for (output, id) in node.outputs.iter().enumerate() {
            graph.operands[id.0 as usize].source = Source::Node { node: number as u32, output: output as u32 };
        }
    }
    graph.nodes = nodes;
    (graph, named)
}
