//! The rules of the proof: what stands after the results of operators. What has no rule is refused.

use super::interval::{ANYTHING, FINITE, Interval, ZERO, elementwise, from_to, numbers};
use super::{LengthAnalysis, State, Tail};
use crate::graph::attribute::UnsignedOrList;
use crate::graph::ops::Elementwise;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::gather::{Gather, GatherElements};
use crate::graph::ops::matmul::Gemm;
use crate::graph::ops::movement::{Concat, Pad, Reshape, Slice, Split, Tile, Transpose};
use crate::graph::ops::quantized::QuantizedMatmul;
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{Op, OperandId, Source};

type Found = Result<Vec<State>, String>;

fn refused<T>(reason: &str) -> Result<T, String> {
    Err(reason.into())
}

const SEEN: &str = "its result depends on padding behind a text";

fn one(body: Interval, tails: Vec<Tail>) -> Found {
    Ok(vec![State { body, tails }])
}

fn finite_if(is_finite: bool) -> Interval {
    if is_finite { FINITE } else { ANYTHING }
}

/// A tail that is nothing but such numbers.
fn tail(axis: usize, numbers: Interval) -> Tail {
    Tail { axis, numbers, is_even: false, is_alike: numbers.is_finite() }
}

impl LengthAnalysis<'_> {
    /// What is known of the outputs of the node at a position.
    pub(super) fn rule(&mut self, position: usize, inputs: &[OperandId]) -> Found {
        let (long, short) = (self.long, self.short);
        let node = &long.nodes[position];
        let (op, twin) = (&node.op, &short.nodes[position].op);
        let output = node.outputs[0];
        if let Some(op) = op.elementwise() {
            return self.elementwise(op, inputs, output);
        }
        match (op, twin) {
            (Op::Expand(op), _) => self.expanded(op.input, output),
            (Op::Reshape(op), _) => self.reshape(op, output),
            (Op::Slice(op), Op::Slice(twin)) => self.slice(op, twin, output),
            (Op::Tile(op), Op::Tile(twin)) => self.tile(op, twin, output),
            (Op::Softmax(op), _) => self.softmax(position, op),
            _ if inputs.iter().all(|&id| self.state(id).tails.is_empty()) => {
                let is_finite = inputs.iter().all(|&id| self.state(id).body.is_finite());
                let found = match op {
                    Op::Reduce(op) => reduced(op.kind, self.state(op.input).body),
                    Op::Transpose(_) | Op::Concat(_) | Op::Split(_) | Op::Gather(_) | Op::CheckIndices(_) => self.hull(inputs),
                    _ => finite_if(is_finite),
                };
                Ok(vec![State { body: found, tails: Vec::new() }; node.outputs.len()])
            }
            (op, _) => self.of(op, inputs, output, node.outputs.len()),
        }
    }

    /// The rules of operators whose options are the same for all lengths.
    fn of(&self, op: &Op, inputs: &[OperandId], output: OperandId, outputs: usize) -> Found {
        match op {
            Op::Transpose(op) => self.transpose(op),
            Op::Concat(op) => self.concat(op),
            Op::Split(op) => self.split(op, outputs),
            Op::Pad(op) => self.pad(op),
            Op::Gather(op) => self.gather(op),
            Op::GatherElements(op) => self.gather_elements(op),
            Op::CheckIndices(op) => self.check_indices(op),
            Op::Reduce(op) => self.reduce(op),
            Op::CumulativeSum(op) => self.cumulative_sum(op),
            Op::Matmul(_) | Op::IntegerMatmul(_) => self.product(inputs[0], inputs[1], output),
            Op::QuantizedMatmul(op) => self.quantized_product(op, &inputs[2..], output),
            Op::Gemm(op) => self.gemm(op, output),
            Op::BlockQuantizedMatmul(op) => {
                let last = self.shape(op.a).len() - 1;
                self.mixes(inputs, &[last as u32], FINITE, 1)
            }
            Op::LayerNormalization(op) if op.epsilon > 0.0 => self.mixes(inputs, &op.axes(self.shape(op.input).len()), FINITE, 1),
            Op::RmsNormalization(op) if op.epsilon > 0.0 => self.mixes(inputs, &op.axes(self.shape(op.input).len()), FINITE, 1),
            Op::BatchNormalization(op) => self.mixes(inputs, &[op.axis], FINITE, 1),
            Op::Arg(op) => {
                let Some(State { tails, .. }) = self.mixes(inputs, &[op.axis], FINITE, 1)?.pop() else { return refused(SEEN) };
                let axis = op.axis as usize;
                let moved = |tail: Tail| Tail {
                    axis: if tail.axis > axis && !op.keep_dimensions { tail.axis - 1 } else { tail.axis },
                    ..tail
                };
                one(FINITE, tails.into_iter().map(moved).collect())
            }
            Op::TopK(op) => self.mixes(inputs, &[op.axis], FINITE, outputs),
            Op::Reverse(op) => match &op.axes {
                Some(axes) => self.mixes(inputs, axes, FINITE, 1),
                None => refused(SEEN),
            },
            Op::Triangular(op) => {
                // Of numbers and zeros; the diagonals begin where the text begins.
                let state = self.state(op.input);
                let tails = state.tails.iter().map(|own| tail(own.axis, own.numbers.or(ZERO)));
                one(state.body.or(ZERO), tails.collect())
            }
            _ => refused("no rule proves that padding behind a text changes nothing"),
        }
    }

    fn hull(&self, inputs: &[OperandId]) -> Interval {
        inputs.iter().map(|&id| self.state(id).all()).reduce(Interval::or).unwrap_or(FINITE)
    }

    fn without_tails(&self, inputs: &[OperandId]) -> Result<(), String> {
        match inputs.iter().all(|&id| self.state(id).tails.is_empty()) {
            true => Ok(()),
            false => refused("its weights depend on the length"),
        }
    }

    /// An operator that leaves the axes where they are, and makes such numbers of those along some axes: each line with the same weights.
    fn mixes(&self, inputs: &[OperandId], axes: &[u32], numbers: Interval, outputs: usize) -> Found {
        self.without_tails(&inputs[1..])?;
        let state = self.state(inputs[0]);
        if state.tails.iter().any(|tail| axes.contains(&(tail.axis as u32))) {
            return refused(SEEN);
        }
        let are_weights_finite = inputs[1..].iter().all(|&id| self.state(id).body.is_finite());
        let of = |own: Interval| if own.is_finite() && are_weights_finite { numbers } else { ANYTHING };
        let tails = state.tails.iter().map(|own| Tail { is_even: own.is_even, ..tail(own.axis, of(own.numbers)) }).collect();
        Ok(vec![State { body: of(state.body), tails }; outputs])
    }

    /// What an operand is along an axis of a result to which it is broadcast: its tail, or everywhere the same.
    fn along(&self, id: OperandId, axis: usize, rank: usize) -> Result<Tail, String> {
        let (state, shape) = (self.state(id), self.shape(id));
        let own = (axis + shape.len()).checked_sub(rank);
        if let Some(tail) = own.and_then(|own| state.tail(own)) {
            return Ok(Tail { axis, ..*tail });
        }
        match own.is_none_or(|own| shape[own] == 1) {
            true => Ok(Tail { axis, numbers: state.all(), is_even: true, is_alike: true }),
            false => refused("an operand that is not as long as the text"),
        }
    }

    /// The axes along which a result is longer, as shapes say.
    fn grown_or_refused(&self, id: OperandId) -> Result<Vec<usize>, String> {
        self.grown(id)
    }

    fn elementwise(&self, op: Elementwise<'_>, inputs: &[OperandId], output: OperandId) -> Found {
        let (rank, data_type) = (self.shape(output).len(), self.data_type(output));
        let bodies: Vec<Interval> = inputs.iter().map(|&id| self.state(id).body).collect();
        let mut tails = Vec::new();
        for axis in self.grown_or_refused(output)? {
            let own = inputs.iter().map(|&id| self.along(id, axis, rank)).collect::<Result<Vec<Tail>, _>>()?;
            let found: Vec<Interval> = own.iter().map(|tail| tail.numbers).collect();
            let numbers = elementwise(op, &found, data_type);
            // Of several operands with infinities of their own, one place need not have all.
            let infinite = || own.iter().filter(|tail| !tail.is_even && !tail.numbers.is_finite());
            let is_choice = matches!(op, Elementwise::Where(_)) && !own[0].is_even;
            let is_alike = infinite().count() <= 1 && infinite().all(|tail| tail.is_alike) && !is_choice;
            tails.push(Tail { axis, numbers, is_even: own.iter().all(|tail| tail.is_even), is_alike });
        }
        one(elementwise(op, &bodies, data_type), tails)
    }

    fn expanded(&self, input: OperandId, output: OperandId) -> Found {
        let rank = self.shape(output).len();
        let axes = self.grown_or_refused(output)?;
        one(self.state(input).body, axes.into_iter().map(|axis| self.along(input, axis, rank)).collect::<Result<_, _>>()?)
    }

    fn transpose(&self, op: &Transpose) -> Found {
        let state = self.state(op.input);
        let rank = self.shape(op.input).len();
        let moved = |own: &Tail| {
            let to = (0..rank).find(|&to| op.source(to, rank) == own.axis);
            to.map(|axis| Tail { axis, ..*own }).ok_or_else(|| SEEN.to_owned())
        };
        one(state.body, state.tails.iter().map(moved).collect::<Result<_, _>>()?)
    }

    /// Each part of the shape that becomes a part of the other one may be longer along its outermost axis only.
    fn reshape(&self, op: &Reshape, output: OperandId) -> Found {
        const FOLDED: &str = "the text is folded into other dimensions";
        let state = self.state(op.input);
        let from = [self.short_shape(op.input), self.shape(op.input)];
        let to = [self.short_shape(output), self.shape(output)];
        let grown = self.grown_or_refused(output)?;
        let mut tails = Vec::new();
        let (mut i, mut j) = (0, 0);
        while i < from[1].len() || j < to[1].len() {
            let (first, first_to) = (i, j);
            // The elements of the part in the shorter and in the longer one.
            let (mut of_from, mut of_to) = ([1u64; 2], [1u64; 2]);
            loop {
                let takes_from = i < from[1].len() && (i == first || of_from[1] < of_to[1] || of_from[0] < of_to[0]);
                let takes_to = j < to[1].len() && (j == first_to || of_to[1] < of_from[1] || of_to[0] < of_from[0]);
                if takes_from && (i == first || of_from != of_to) {
                    (0..2).for_each(|graph| of_from[graph] *= u64::from(from[graph][i]));
                    i += 1;
                } else if takes_to {
                    (0..2).for_each(|graph| of_to[graph] *= u64::from(to[graph][j]));
                    j += 1;
                } else {
                    break;
                }
                if of_from == of_to && i > first && j > first_to {
                    break;
                }
            }
            if of_from != of_to {
                return refused(FOLDED);
            }
            let outermost = |shape: &[u32], part: std::ops::Range<usize>| part.into_iter().find(|&axis| shape[axis] != 1);
            let own: Vec<&Tail> = state.tails.iter().filter(|tail| (first..i).contains(&tail.axis)).collect();
            let created: Vec<usize> = grown.iter().copied().filter(|axis| (first_to..j).contains(axis)).collect();
            match (&own[..], &created[..]) {
                ([], []) => {}
                ([own], [axis])
                    if outermost(from[1], first..i) == Some(own.axis) && outermost(to[1], first_to..j) == Some(*axis) =>
                {
                    let is_whole = from[1][own.axis] == to[1][*axis] && from[0][own.axis] == to[0][*axis];
                    let found = if is_whole { Tail { axis: *axis, ..**own } } else { tail(*axis, own.numbers) };
                    tails.push(found);
                }
                _ => return refused(FOLDED),
            }
        }
        one(state.body, tails)
    }

    fn concat(&self, op: &Concat) -> Found {
        let (joined, last) = (op.axis as usize, op.inputs.len() - 1);
        let mut axes: Vec<usize> = Vec::new();
        for &id in &op.inputs {
            axes.extend(self.state(id).tails.iter().map(|tail| tail.axis));
        }
        axes.sort_unstable();
        axes.dedup();
        let mut tails = Vec::new();
        for axis in axes {
            let own: Vec<Option<&Tail>> = op.inputs.iter().map(|&id| self.state(id).tail(axis)).collect();
            if axis == joined {
                let Some(after) = own[last].filter(|_| own[..last].iter().all(Option::is_none)) else {
                    return refused("something follows the text");
                };
                tails.push(Tail { is_even: false, ..*after });
                continue;
            }
            let own: Vec<&Tail> = own.into_iter().collect::<Option<_>>().ok_or(SEEN)?;
            let numbers = own.iter().map(|tail| tail.numbers).reduce(Interval::or).unwrap_or(FINITE);
            let infinite = || own.iter().filter(|tail| !tail.is_even && !tail.numbers.is_finite());
            let is_alike = infinite().count() <= 1 && infinite().all(|tail| tail.is_alike);
            tails.push(Tail { axis, numbers, is_even: own.iter().all(|tail| tail.is_even), is_alike });
        }
        let body = op.inputs.iter().map(|&id| self.state(id).body).reduce(Interval::or).unwrap_or(FINITE);
        one(body, tails)
    }

    fn split(&self, op: &Split, outputs: usize) -> Found {
        let state = self.state(op.input);
        let is_list = matches!(op.splits, UnsignedOrList::List(_) | UnsignedOrList::One(_));
        if state.tail(op.axis as usize).is_some() || !is_list {
            return refused("the text is divided");
        }
        Ok(vec![state.clone(); outputs])
    }

    fn slice(&self, op: &Slice, twin: &Slice, output: OperandId) -> Found {
        let state = self.state(op.input);
        let (short, grown) = (self.short_shape(op.input), self.grown_or_refused(output)?);
        let mut tails = Vec::new();
        for (axis, &length) in short.iter().enumerate() {
            if (op.starts[axis], op.stride(axis)) != (twin.starts[axis], twin.stride(axis)) {
                return refused("its positions depend on the length");
            }
            // Whether the shorter one is taken to its end.
            let is_to_end = twin.starts[axis] + twin.sizes[axis] == length && op.stride(axis) == 1;
            match (state.tail(axis), grown.contains(&axis)) {
                (None, false) | (Some(_), false) if op.sizes[axis] == twin.sizes[axis] => {}
                (Some(own), true) if is_to_end => tails.push(*own),
                (Some(own), true) => tails.push(Tail { is_even: own.is_even, ..tail(axis, own.numbers.or(state.body)) }),
                (None, true) => tails.push(tail(axis, state.all())),
                _ => return refused("its positions depend on the length"),
            }
        }
        one(state.all(), tails)
    }

    fn tile(&self, op: &Tile, twin: &Tile, output: OperandId) -> Found {
        let (state, shape) = (self.state(op.input), self.shape(op.input));
        let grown = self.grown_or_refused(output)?;
        let mut tails = Vec::new();
        for (axis, &size) in shape.iter().enumerate() {
            let (many, few) = (op.repetitions.0[axis], twin.repetitions.0[axis]);
            match (state.tail(axis), grown.contains(&axis)) {
                (Some(own), true) if many == 1 && few == 1 => tails.push(*own),
                (None, true) if size == 1 => tails.push(Tail { axis, numbers: state.all(), is_even: true, is_alike: true }),
                (None, false) if many == few => {}
                _ => return refused("the text is repeated"),
            }
        }
        one(state.body, tails)
    }

    fn pad(&self, op: &Pad) -> Found {
        let state = self.state(op.input);
        let is_free = |own: &Tail| op.beginning_padding[own.axis] == 0 && op.ending_padding[own.axis] == 0;
        if !state.tails.iter().all(is_free) {
            return refused("something follows the text");
        }
        let value = elementwise_constant(op.value.to_f64());
        let tails = state.tails.iter().map(|own| tail(own.axis, own.numbers.or(value)));
        one(state.body.or(value), tails.collect())
    }

    /// The elements of a constant of whole numbers, if it is the same for both lengths.
    fn indices(&self, id: OperandId) -> Option<Vec<f64>> {
        let Source::Constant(bytes) = &self.long.operands[id.0 as usize].source else { return None };
        self.state(id).tails.is_empty().then(|| numbers(self.data_type(id), bytes.briefly().as_slice())).flatten()
    }

    fn gather(&self, op: &Gather) -> Found {
        let (at, rank) = (op.axis as usize, self.shape(op.indices).len());
        let (state, indices) = (self.state(op.input), self.state(op.indices));
        let mut tails = Vec::new();
        if state.tail(at).is_some() {
            // Places that are counted from the beginning, and that the shortest text has.
            let length = f64::from(self.short_shape(op.input)[at]);
            let places = self.indices(op.indices).ok_or("positions that only a run knows, or that depend on the length")?;
            if !places.iter().all(|&place| (0.0..length).contains(&place)) {
                return refused("a position counted from the end of a text, or behind it");
            }
        } else {
            // Whatever stands after, an index is brought into the range.
            tails.extend(indices.tails.iter().map(|own| Tail { is_even: own.is_even, ..tail(at + own.axis, state.all()) }));
        }
        for own in state.tails.iter().filter(|own| own.axis != at) {
            tails.push(Tail { axis: if own.axis < at { own.axis } else { own.axis + rank - 1 }, ..*own });
        }
        one(state.body, tails)
    }

    fn gather_elements(&self, op: &GatherElements) -> Found {
        let (state, indices, at) = (self.state(op.input), self.state(op.indices), op.axis as usize);
        if state.tail(at).is_some() {
            return refused("positions that only a run knows");
        }
        let others = |state: &State| state.tails.iter().map(|tail| tail.axis).filter(|&axis| axis != at).collect::<Vec<_>>();
        if others(state) != others(indices) {
            return refused("an operand that is not as long as the text");
        }
        one(state.all(), indices.tails.iter().map(|own| tail(own.axis, state.all())).collect())
    }

    /// Indices after the text must not be errors.
    fn check_indices(&self, op: &CheckIndices) -> Found {
        let state = self.state(op.indices);
        let least = op.sizes.iter().copied().min().map_or(0.0, f64::from);
        let is_in_range = |own: &Tail| {
            let Interval { least: from, most } = own.numbers;
            most < least && from >= if op.from_end { -least } else { 0.0 }
        };
        match state.tails.iter().all(is_in_range) {
            true => Ok(vec![state.clone()]),
            false => refused("an index in the padding may be out of range"),
        }
    }

    fn reduce(&self, op: &Reduce) -> Found {
        let state = self.state(op.input);
        let adds = matches!(op.kind, ReduceKind::Sum | ReduceKind::L1 | ReduceKind::SumSquare | ReduceKind::L2);
        let mut tails = Vec::new();
        for own in &state.tails {
            if !op.reduces(own.axis) {
                let before = (0..own.axis).filter(|&axis| op.reduces(axis)).count();
                let axis = if op.keep_dimensions { own.axis } else { own.axis - before };
                tails.push(Tail { is_even: own.is_even, ..tail(axis, reduced(op.kind, own.numbers)) });
            } else if !adds || !own.numbers.is_zero() {
                return refused(SEEN);
            }
        }
        one(reduced(op.kind, state.body), tails)
    }

    fn cumulative_sum(&self, op: &CumulativeSum) -> Found {
        let (state, at) = (self.state(op.input), op.axis.0 as usize);
        let count = f64::from(self.shape(op.input)[at]);
        let sum = |numbers: Interval| numbers.or(ZERO).times(from_to(count, count));
        let mut tails = Vec::new();
        for own in &state.tails {
            if own.axis == at && op.reversed && !own.numbers.is_zero() {
                return refused(SEEN);
            }
            let numbers = if own.axis == at && !op.reversed { sum(own.numbers.or(state.body)) } else { sum(own.numbers) };
            tails.push(tail(own.axis, numbers));
        }
        one(sum(state.body), tails)
    }

    fn product(&self, a: OperandId, b: OperandId, output: OperandId) -> Found {
        let (of_a, of_b) = (self.state(a), self.state(b));
        let (rank_a, rank_b, rank) = (self.shape(a).len(), self.shape(b).len(), self.shape(output).len());
        self.sums_vanish(of_a, rank_a - 1, of_b, rank_b - 2)?;
        let mut tails = Vec::new();
        for axis in self.grown_or_refused(output)? {
            let found = if axis + 2 == rank {
                of_a.tail(rank_a - 2).map(|own| (own.numbers, of_b.all()))
            } else if axis + 1 == rank {
                of_b.tail(rank_b - 1).map(|own| (of_a.all(), own.numbers))
            } else {
                Some((self.along(a, axis, rank)?.numbers, self.along(b, axis, rank)?.numbers))
            };
            let (left, right) = found.ok_or(SEEN)?;
            tails.push(tail(axis, summed(left, right)));
        }
        one(summed(of_a.body, of_b.body), tails)
    }

    /// Zeros after the text stand for something else where zero points are taken off, so nothing may be summed over them then.
    fn quantized_product(&self, op: &QuantizedMatmul, zero_points: &[OperandId], output: OperandId) -> Found {
        self.without_tails(zero_points)?;
        let depth = self.shape(op.a).len() - 1;
        match zero_points.iter().all(|&id| self.state(id).body.is_zero()) || self.state(op.a).tail(depth).is_none() {
            true => self.product(op.a, op.b, output),
            false => refused("it takes zero points off padding behind a text, and sums that"),
        }
    }

    /// Whether what is after the text adds nothing to the sums of a product.
    fn sums_vanish(&self, a: &State, axis_a: usize, b: &State, axis_b: usize) -> Result<(), String> {
        match (a.tail(axis_a), b.tail(axis_b)) {
            (None, None) => Ok(()),
            (Some(left), Some(right)) => {
                let are_finite = left.numbers.is_finite() && right.numbers.is_finite();
                match are_finite && (left.numbers.is_zero() || right.numbers.is_zero()) {
                    true => Ok(()),
                    false => refused("it sums over padding behind a text"),
                }
            }
            _ => refused(SEEN),
        }
    }

    fn gemm(&self, op: &Gemm, output: OperandId) -> Found {
        let (of_a, of_b) = (self.state(op.a), self.state(op.b));
        let (row, column) = (usize::from(op.a_transpose), usize::from(!op.b_transpose));
        self.sums_vanish(of_a, 1 - row, of_b, 1 - column)?;
        let mut tails = Vec::new();
        for axis in self.grown_or_refused(output)? {
            let own = if axis == 0 {
                of_a.tail(row).map(|own| (own.numbers, of_b.all()))
            } else {
                of_b.tail(column).map(|own| (of_a.all(), own.numbers))
            };
            let (left, right) = own.ok_or(SEEN)?;
            let added = op.c.map(|c| self.along(c, axis, 2)).transpose()?;
            let is_finite = added.is_none_or(|added| added.numbers.is_finite());
            tails.push(tail(axis, if is_finite { summed(left, right).plus(FINITE) } else { ANYTHING }));
        }
        let is_finite = op.c.is_none_or(|c| self.state(c).body.is_finite());
        one(if is_finite { summed(of_a.body, of_b.body).plus(FINITE) } else { ANYTHING }, tails)
    }

    fn softmax(&mut self, position: usize, op: &Softmax) -> Found {
        let (state, at) = (self.state(op.input).clone(), op.axis as usize);
        let share = from_to(0.0, 1.0);
        let mut tails = Vec::new();
        for own in &state.tails {
            if own.axis != at {
                // A line of nothing but minus infinity gives NaN, as it does for the line that it is like.
                let is_share = own.numbers.is_below_infinity() && own.is_alike;
                tails.push(Tail { is_even: own.is_even, ..tail(own.axis, if is_share { share } else { ANYTHING }) });
                continue;
            }
            if !own.numbers.is_below_infinity() {
                return refused("scores of padding may be infinite or NaN");
            }
            if [self.short_shape(op.input)[at], self.shape(op.input)[at]] != self.sizes {
                return refused("its scores do not belong to the positions of the text");
            }
            self.softmaxes.push((position, at));
            tails.push(tail(at, ZERO));
        }
        one(if state.body.is_below_infinity() { share } else { ANYTHING }, tails)
    }
}

fn elementwise_constant(number: f64) -> Interval {
    if number.is_nan() { ANYTHING } else { from_to(number, number) }
}

/// Sums of products.
fn summed(a: Interval, b: Interval) -> Interval {
    let product = a.times(b);
    let of_sign = from_to(if product.least >= 0.0 { 0.0 } else { -f64::MAX }, if product.most <= 0.0 { 0.0 } else { f64::MAX });
    if product.is_finite() { of_sign } else { ANYTHING }
}

/// What a reduction makes of such numbers.
fn reduced(kind: ReduceKind, numbers: Interval) -> Interval {
    if !numbers.is_finite() {
        let is_one_of_them = matches!(kind, ReduceKind::Max | ReduceKind::Min);
        return if is_one_of_them { numbers } else { ANYTHING };
    }
    match kind {
        ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min => numbers,
        ReduceKind::Sum if numbers.is_zero() => ZERO,
        // At least one of them, and any number of others.
        ReduceKind::Sum => from_to(
            if numbers.least >= 0.0 { numbers.least } else { -f64::MAX },
            if numbers.most <= 0.0 { numbers.most } else { f64::MAX },
        ),
        ReduceKind::L1 | ReduceKind::L2 | ReduceKind::SumSquare => {
            let least = numbers.squared().least;
            let least = if kind == ReduceKind::SumSquare { least } else { least.sqrt() };
            from_to(least, if numbers.is_zero() { 0.0 } else { f64::MAX })
        }
        ReduceKind::LogSum if numbers.least > 0.0 => FINITE,
        ReduceKind::LogSumExp | ReduceKind::Product => FINITE,
        ReduceKind::LogSum => ANYTHING,
    }
}
