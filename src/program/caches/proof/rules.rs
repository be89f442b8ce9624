//! The rules of the proof: how the outputs of an operator contain the shorter ones. What has no rule is refused.

use super::{Front, PaddingAnalysis, Refusal, State};
use crate::graph::attribute::UnsignedOrList;
use crate::graph::ops::Elementwise;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::gather::{Gather, GatherNd};
use crate::graph::ops::movement::{Concat, Expand, Reshape, Slice, Split, Transpose};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{Op, OperandId};
use crate::program::caches::padding::{PaddingInput, Slopes};

/// The states of an operator's outputs.
type Outputs = Result<Vec<State>, Refusal>;

fn exact() -> Outputs {
    Ok(vec![State::Exact])
}

/// One output that is longer along an axis, with that in front.
fn along(axis: Option<usize>, front: Front) -> Outputs {
    axis.map(|axis| vec![State::Padded { axis, front }]).ok_or_else(|| Refusal::from("a result without the rows"))
}

impl PaddingAnalysis<'_> {
    /// How a value is longer, if it is.
    fn padded(&self, id: OperandId) -> Option<(usize, Front)> {
        match self.state(id) {
            State::Padded { axis, front } => Some((axis, front)),
            State::Exact => None,
        }
    }

    fn are_exact(&self, ids: &[OperandId]) -> bool {
        ids.iter().all(|&id| self.state(id) == State::Exact)
    }

    /// How a value is longer that is.
    fn rows(&self, id: OperandId) -> Result<(usize, Front), Refusal> {
        self.padded(id).ok_or_else(|| Refusal::from("no rows"))
    }

    /// The states of the outputs of the node at a position, of which the axes are known along which they are longer.
    pub(super) fn rule(
        &mut self,
        position: usize,
        op: &Op,
        inputs: &[OperandId],
        outputs: &[Option<usize>],
        is_same: bool,
    ) -> Outputs {
        if is_same && outputs.iter().all(Option::is_none) && inputs.iter().all(|&id| self.state(id) == State::Exact) {
            return Ok(vec![State::Exact; outputs.len()]);
        }
        let output = outputs.first().copied().flatten();
        let id = self.graph.nodes[position].outputs[0];
        if let Some(op) = op.elementwise() {
            return self.elementwise(op, inputs, id, output);
        }
        match op {
            Op::Transpose(op) => self.transpose(op, output),
            Op::Reshape(op) => self.reshape(op, id, output),
            Op::Expand(op) => self.expand(op, id, output),
            Op::Concat(op) => self.concat(op, output),
            Op::Split(op) => self.split(op, outputs),
            Op::Slice(op) => self.slice(position, op, output),
            Op::Gather(op) => self.gather(op, output),
            // Zeros are indices into whatever there is.
            Op::CheckIndices(op) => match self.padded(op.indices) {
                Some((_, front @ Front::Zeros)) => along(output, front),
                _ => Err("indices of rows that do not count, which are checked".into()),
            },
            Op::GatherNd(op) => self.gather_nd(position, op, output),
            Op::Matmul(_) | Op::IntegerMatmul(_) => self.product(inputs, id, output),
            Op::BlockQuantizedMatmul(op) => match self.rows(op.a)? {
                (axis, front) if axis + 1 < self.shape(op.a).len() && self.are_exact(&inputs[1..]) && output == Some(axis) => {
                    along(output, front)
                }
                _ => Err("a product along the rows".into()),
            },
            Op::Softmax(op) => self.softmax(position, op, output),
            Op::Reduce(op) => self.reduce(op, output),
            Op::CumulativeSum(op) => self.cumulative_sum(op, output),
            _ => Err("no rule for it along the rows".into()),
        }
    }

    fn elementwise(&self, op: Elementwise<'_>, inputs: &[OperandId], id: OperandId, output: Option<usize>) -> Outputs {
        let axis = output.ok_or("a result without the rows")?;
        let rank = self.shape(id).len();
        for &input in inputs {
            let shape = self.shape(input);
            // In the axes of the output, after which it is aligned.
            let place = |axis: usize| axis + rank - shape.len();
            let fits = match self.padded(input) {
                Some((own, _)) => place(own) == axis,
                None => axis < place(0) || shape[axis + shape.len() - rank] == 1,
            };
            if !fits {
                return Err("an operand that has no rows where the other has".into());
            }
        }
        let fronts: Vec<Option<Front>> = inputs.iter().map(|&id| self.padded(id).map(|(_, front)| front)).collect();
        along(output, front_of(op, &fronts))
    }

    fn transpose(&self, op: &Transpose, output: Option<usize>) -> Outputs {
        let (axis, front) = self.rows(op.input)?;
        let rank = self.shape(op.input).len();
        let to = match &op.permutation {
            Some(permutation) => permutation.iter().position(|&from| from as usize == axis),
            None => Some(rank - 1 - axis),
        };
        match to == output {
            true => along(output, front),
            false => Err("rows along another axis".into()),
        }
    }

    fn reshape(&self, op: &Reshape, id: OperandId, output: Option<usize>) -> Outputs {
        let (from, to) = (self.shape(op.input), self.shape(id));
        let Some((axis, front)) = self.padded(op.input) else {
            // Of known sizes on both sides.
            return match output {
                None => exact(),
                Some(_) => Err("rows that were not there".into()),
            };
        };
        let before = |shape: &[u32], axis: usize| shape[..axis].iter().map(|&size| u64::from(size)).product::<u64>();
        match output {
            Some(to_axis) if before(from, axis) == before(to, to_axis) && from[axis] == to[to_axis] => along(output, front),
            _ => Err("rows that become something else".into()),
        }
    }

    fn expand(&self, op: &Expand, id: OperandId, output: Option<usize>) -> Outputs {
        let axis = output.ok_or("a result without the rows")?;
        let (shape, rank) = (self.shape(op.input), self.shape(id).len());
        match self.padded(op.input) {
            Some((own, front)) if own + rank - shape.len() == axis => along(output, front),
            None if axis + shape.len() < rank || shape[axis + shape.len() - rank] == 1 => along(output, Front::Finite),
            _ => Err("rows along another axis".into()),
        }
    }

    fn concat(&self, op: &Concat, output: Option<usize>) -> Outputs {
        let axis = output.ok_or("a result without the rows")?;
        let mut fronts = Vec::new();
        for (number, &input) in op.inputs.iter().enumerate() {
            match self.padded(input) {
                Some((own, front)) if own == axis && (number == 0 || op.axis as usize != axis) => fronts.push(front),
                None if number > 0 && op.axis as usize == axis => {}
                _ => return Err("something in front of the rows".into()),
            }
        }
        along(output, fronts.into_iter().max().unwrap_or(Front::Anything))
    }

    fn split(&self, op: &Split, outputs: &[Option<usize>]) -> Outputs {
        let (axis, front) = self.rows(op.input)?;
        let is_list = matches!(op.splits, UnsignedOrList::List(_) | UnsignedOrList::One(_));
        if axis == op.axis as usize || !is_list || outputs.iter().any(|output| *output != Some(axis)) {
            return Err("the rows are divided".into());
        }
        Ok(vec![State::Padded { axis, front }; outputs.len()])
    }

    fn slice(&self, position: usize, op: &Slice, output: Option<usize>) -> Outputs {
        let input = self.padded(op.input);
        let mut others = Vec::new();
        for (other, fewer) in self.shorter {
            let Op::Slice(slice) = &other.nodes[position].op else { return Err("another operator".into()) };
            others.push((slice, fewer as u32));
        }
        let rows = input.map(|(axis, _)| axis);
        // Along other axes it is the same part.
        for axis in (0..op.starts.len()).filter(|axis| Some(*axis) != rows) {
            let is_same = |(other, _): &(&Slice, u32)| {
                (other.starts[axis], other.sizes[axis], other.stride(axis)) == (op.starts[axis], op.sizes[axis], op.stride(axis))
            };
            if !others.iter().all(is_same) {
                return Err("its parts depend on the length".into());
            }
        }
        let Some((axis, front)) = input else {
            return if output.is_none() { exact() } else { Err("rows that were not there".into()) };
        };
        let (start, size) = (op.starts[axis], op.sizes[axis]);
        let is_whole_step = op.stride(axis) == 1 && others.iter().all(|(other, _)| other.stride(axis) == 1);
        // What is left out is after the rows that are taken.
        let from_first =
            start == 0 && others.iter().all(|(other, fewer)| other.starts[axis] == 0 && other.sizes[axis] + fewer == size);
        // As many of the last ones.
        let last = others.iter().all(|(other, fewer)| other.starts[axis] + fewer == start && other.sizes[axis] == size);
        match output {
            Some(to) if is_whole_step && from_first && to == axis => along(output, front),
            None if is_whole_step && last => exact(),
            _ => Err("its rows depend on the length".into()),
        }
    }

    fn gather(&self, op: &Gather, output: Option<usize>) -> Outputs {
        let at = op.axis as usize;
        let rank = self.shape(op.indices).len();
        match (self.padded(op.input), self.padded(op.indices), output) {
            // Whatever stands in front, an index is brought into the range.
            (None, Some((axis, _)), Some(to)) if to == at + axis => along(output, Front::Finite),
            (Some((axis, front)), None, Some(to)) if axis != at => {
                let expected = if axis < at { axis } else { axis + rank - 1 };
                if to == expected { along(output, front) } else { Err("rows along another axis".into()) }
            }
            _ => Err("it selects elements of rows by their positions".into()),
        }
    }

    fn gather_nd(&mut self, position: usize, op: &GatherNd, output: Option<usize>) -> Outputs {
        let shape = self.shape(op.indices);
        let (rank, count) = (shape.len(), shape.last().copied().unwrap_or(1) as usize);
        let Some((axis, front)) = self.padded(op.input) else {
            // Whatever stands in front, a coordinate is brought into the range.
            return match self.padded(op.indices) {
                Some((axis, _)) if output == Some(axis) && axis + 1 < rank => along(output, Front::Finite),
                _ => Err("it selects elements by other positions".into()),
            };
        };
        // Coordinates that grow with the rows count what is in front of these.
        let counts = self.padding_inputs.iter().find(|(id, _)| *id == op.indices).map(|(_, input)| input);
        let is_place = |slopes: &Slopes, (element, &number): (usize, &i64)| {
            number >= 0 && slopes.of(element) == i64::from(element % count == axis)
        };
        let finds_rows = match counts {
            Some(PaddingInput::Counts { numbers, slopes, .. }) => numbers.iter().enumerate().all(|one| is_place(slopes, one)),
            _ => false,
        };
        let grown = self.padded(op.indices).map(|(axis, _)| axis);
        if axis >= count || !finds_rows || output != grown || grown.is_some_and(|axis| axis + 1 == rank) {
            return Err("it selects elements of rows by their positions".into());
        }
        self.places.push((position, op.indices));
        if output.is_some() { along(output, front) } else { exact() }
    }

    fn product(&self, inputs: &[OperandId], id: OperandId, output: Option<usize>) -> Outputs {
        let [a, b] = inputs[..] else { return Err("no two operands".into()) };
        let (rank_a, rank_b, rank) = (self.shape(a).len(), self.shape(b).len(), self.shape(id).len());
        // From the end: 0 for columns, 1 for rows, and then the batches.
        let from_end = |value: Option<(usize, Front)>, rank: usize| value.map(|(axis, front)| (rank - 1 - axis, front));
        match (from_end(self.padded(a), rank_a), from_end(self.padded(b), rank_b)) {
            (Some((0, left)), Some((1, right))) => {
                // Nothing of what is in front counts where one of the factors is zero.
                let vanishes = left.min(right) == Front::Zeros && left.max(right) <= Front::Finite;
                match vanishes && output.is_none() {
                    true => exact(),
                    false => Err("a sum over rows that do not count".into()),
                }
            }
            (Some((1, front)), None) if output == Some(rank - 2) => along(output, front),
            (None, Some((0, front))) if output == Some(rank - 1) => along(output, front),
            _ => Err("a product along the rows".into()),
        }
    }

    fn softmax(&mut self, position: usize, op: &Softmax, output: Option<usize>) -> Outputs {
        let (axis, front) = self.rows(op.input)?;
        if front == Front::Anything {
            return Err("numbers of padding may be infinite".into());
        }
        if axis != op.axis as usize {
            return along(output, Front::Finite);
        }
        self.softmaxes.push((position, axis));
        along(output, Front::Zeros)
    }

    fn reduce(&self, op: &Reduce, output: Option<usize>) -> Outputs {
        let (axis, front) = self.rows(op.input)?;
        if !op.reduces(axis) {
            let harmless = matches!(op.kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min);
            return along(output, if harmless { front } else { front.max(Front::Finite) });
        }
        let adds = matches!(op.kind, ReduceKind::Sum | ReduceKind::L1 | ReduceKind::SumSquare | ReduceKind::L2);
        match adds && front == Front::Zeros && output.is_none() {
            true => exact(),
            false => Err("a reduction over rows that do not count".into()),
        }
    }

    fn cumulative_sum(&self, op: &CumulativeSum, output: Option<usize>) -> Outputs {
        let (axis, front) = self.rows(op.input)?;
        match axis == op.axis.0 as usize {
            false => along(output, front),
            true if op.reversed => along(output, front.max(Front::Finite)),
            true if front == Front::Zeros => along(output, Front::Zeros),
            true => Err("sums that begin before the rows".into()),
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
