//! The rules of the proof: where the rows of an operator's outputs are. What has no rule is refused.

use super::{Reason, RowAnalysis, Rows};
use crate::graph::ops::gather::{Gather, GatherElements, GatherNd};
use crate::graph::ops::matmul::Gemm;
use crate::graph::ops::movement::{Expand, Reshape, Slice, Tile};
use crate::graph::ops::quantized::QuantizedMatmul;
use crate::graph::ops::reduce::Reduce;
use crate::graph::{Node, Op, OperandId};

type Found = Result<Vec<Rows>, Reason>;

/// One output, with rows along an axis.
fn along(axis: usize) -> Found {
    Ok(vec![Some(axis)])
}

fn refused<T>(reason: &str) -> Result<T, Reason> {
    Err(reason.into())
}

const SEEN: &str = "its result for a row depends on other rows";

impl RowAnalysis<'_> {
    /// Where the rows of the outputs of a node are. `other` is the node for one caller, with the same operands; `outputs` is what shapes say.
    pub(super) fn rule(&self, node: &Node, other: &Op, inputs: &[OperandId], outputs: &[Rows]) -> Found {
        // Those that say sizes say others for other rows.
        let tells_sizes = matches!(node.op, Op::Reshape(_) | Op::Expand(_) | Op::Slice(_) | Op::Tile(_));
        if node.op != *other && !tells_sizes {
            return refused("its options depend on the number of rows");
        }
        let has_rows = inputs.iter().any(|&id| self.rows(id).is_some());
        if !tells_sizes && !has_rows {
            return Ok(vec![None; outputs.len()]);
        }
        let output = node.outputs[0];
        if node.op.elementwise().is_some() {
            return self.aligned(inputs, output, outputs[0]).map(|axis| vec![Some(axis)]);
        }
        match (&node.op, other) {
            (Op::Expand(op), _) => self.expand(op, output, outputs[0]),
            (Op::Reshape(op), _) => self.reshape(op, output, outputs[0]),
            (Op::Slice(op), Op::Slice(other)) => self.slice(op, other),
            (Op::Tile(op), Op::Tile(other)) => self.tile(op, other, outputs[0]),
            (op, _) => self.of(op, inputs, output, outputs),
        }
    }

    /// The rules of operators whose options are the same for all rows.
    #[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
    fn of(&self, op: &Op, inputs: &[OperandId], output: OperandId, outputs: &[Rows]) -> Found {
        match op {
            Op::Arg(op) => self.reduced(op.input, |axis| axis == op.axis as usize, op.keep_dimensions),
            Op::Reduce(op) => self.reduce(op),
            Op::Softmax(op) => self.apart_from(op.input, &[op.axis]),
            Op::CumulativeSum(op) => self.apart_from(op.input, &[op.axis.0]),
            Op::CumulativeProduct(op) => self.apart_from(op.input, &[op.axis.0]),
            Op::Reverse(op) => match &op.axes {
                Some(axes) => self.apart_from(op.input, axes),
                None => refused(SEEN),
            },
            Op::QuantizeAlong(op) => {
                let axis = self.apart_from(op.input, &[op.axis])?;
                Ok(vec![axis[0]; outputs.len()])
            }
            Op::TopK(op) => {
                let axis = self.apart_from(op.input, &[op.axis])?;
                Ok(vec![axis[0]; outputs.len()])
            }
            Op::Resample2d(op) => self.apart_from(op.input, &op.axes),
            Op::Bitcast(op) => self.apart_from(op.input, &[]),
            Op::CheckIndices(op) => self.apart_from(op.indices, &[]),
            Op::Pad(op) => {
                let axis = self.only(inputs)?;
                match op.beginning_padding[axis] == 0 && op.ending_padding[axis] == 0 {
                    true => along(axis),
                    false => refused(SEEN),
                }
            }
            Op::Triangular(op) => {
                let rank = self.shape(op.input).len() as u32;
                self.apart_from(op.input, &[rank - 2, rank - 1])
            }
            Op::Transpose(op) => {
                let axis = self.only(inputs)?;
                let rank = self.shape(op.input).len();
                let to = (0..rank).find(|&to| op.source(to, rank) == axis);
                to.map_or_else(|| refused(SEEN), along)
            }
            Op::Concat(op) => {
                let axis = self.aligned(inputs, output, outputs[0])?;
                let is_apart = axis != op.axis as usize && inputs.iter().all(|&id| self.rows(id) == Some(axis));
                if is_apart { along(axis) } else { refused("values are joined along the rows") }
            }
            Op::Split(op) => {
                let axis = self.apart_from(op.input, &[op.axis])?;
                Ok(vec![axis[0]; outputs.len()])
            }
            Op::Gather(op) => self.gather(op),
            Op::GatherElements(op) => self.gather_elements(op),
            Op::GatherNd(op) => self.gather_nd(op),
            Op::ScatterElements(op) => self.all_along(&[op.input, op.indices, op.updates], op.axis),
            Op::AccumulateElements(op) => self.all_along(&[op.input, op.indices, op.updates], op.axis),
            Op::Matmul(_) | Op::IntegerMatmul(_) => self.product(inputs[0], inputs[1], output, outputs[0]),
            Op::QuantizedMatmul(op) => self.quantized_product(op, output, outputs[0]),
            Op::BlockQuantizedMatmul(op) => {
                let last = self.shape(op.a).len() as u32 - 1;
                self.first_only(inputs, &[last])
            }
            Op::ExpertMatmul(op) => match (self.rows(op.a), self.rows(op.experts)) {
                (Some(0), Some(0)) if self.share(op.a, 0) == self.share(op.experts, 0) && self.rows_of(inputs) == 2 => along(0),
                _ => refused(SEEN),
            },
            Op::Gemm(op) => self.gemm(op, output, outputs[0]),
            Op::BatchNormalization(op) => self.first_only(inputs, &[op.axis]),
            Op::LayerNormalization(op) => self.first_only(inputs, &op.axes(self.shape(op.input).len())),
            Op::RmsNormalization(op) => self.first_only(inputs, &op.axes(self.shape(op.input).len())),
            Op::InstanceNormalization(_)
            | Op::Conv2d(_)
            | Op::ConvTranspose2d(_)
            | Op::Pool2d(_)
            | Op::NormPool2d(_)
            | Op::TreeEnsemble(_)
            | Op::PairwiseCoupling(_) => match self.first_only(inputs, &[])?[0] {
                Some(0) => along(0),
                _ => refused(SEEN),
            },
            Op::Determinant(op) => {
                let rank = self.shape(op.input).len() as u32;
                self.apart_from(op.input, &[rank - 2, rank - 1])
            }
            Op::Inverse(op) => {
                let rank = self.shape(op.input).len() as u32;
                self.apart_from(op.input, &[rank - 2, rank - 1])
            }
            Op::Gru(op) => self.recurrent(inputs, op.input, &[op.initial_hidden_state], output, outputs, 1),
            Op::Lstm(op) => {
                self.recurrent(inputs, op.input, &[op.initial_hidden_state, op.initial_cell_state], output, outputs, 1)
            }
            Op::GruCell(op) => self.recurrent(inputs, op.input, &[Some(op.hidden_state)], output, outputs, 0),
            Op::LstmCell(op) => {
                self.recurrent(inputs, op.input, &[Some(op.hidden_state), Some(op.cell_state)], output, outputs, 0)
            }
            _ => refused("no rule proves that its rows are independent"),
        }
    }

    fn rows_of(&self, inputs: &[OperandId]) -> usize {
        inputs.iter().filter(|&&id| self.rows(id).is_some()).count()
    }

    /// Where the rows of an only operand are.
    fn only(&self, inputs: &[OperandId]) -> Result<usize, Reason> {
        match inputs {
            [input] => self.rows(*input).ok_or_else(|| "rows that were not there".into()),
            _ => refused("several operands"),
        }
    }

    /// An operator that leaves the rows where they are, and mixes elements along other axes.
    fn apart_from(&self, input: OperandId, axes: &[u32]) -> Found {
        match self.rows(input) {
            Some(axis) if !axes.contains(&(axis as u32)) => along(axis),
            _ => refused(SEEN),
        }
    }

    /// The same of the first operand, while all have the others in common.
    fn first_only(&self, inputs: &[OperandId], axes: &[u32]) -> Found {
        if self.rows_of(&inputs[1..]) > 0 {
            return refused("its weights differ by row");
        }
        self.apart_from(inputs[0], axes)
    }

    /// The axis of the output along which all operands with rows have theirs, when they are broadcast to it; what has none is there once.
    fn aligned(&self, inputs: &[OperandId], output: OperandId, rows: Rows) -> Result<usize, Reason> {
        let axis = rows.ok_or(SEEN)?;
        let rank = self.shape(output).len();
        for &input in inputs {
            let shape = self.shape(input);
            let before = rank.checked_sub(shape.len()).ok_or("an operand of a higher rank")?;
            let fits = match self.rows(input) {
                Some(own) => own + before == axis && self.share(input, own) == self.share(output, axis),
                None => axis < before || shape[axis - before] == 1,
            };
            if !fits {
                return refused("an operand whose rows are along another axis");
            }
        }
        Ok(axis)
    }

    /// Elements by their places: all operands have rows along the same axis, which is another one.
    fn all_along(&self, inputs: &[OperandId], axis: u32) -> Found {
        let rows = self.rows(inputs[0]).ok_or("an operand without rows")?;
        let is_same = |&id: &OperandId| self.rows(id) == Some(rows) && self.share(id, rows) == self.share(inputs[0], rows);
        if rows == axis as usize || !inputs.iter().all(is_same) {
            return refused(SEEN);
        }
        along(rows)
    }

    fn reduce(&self, op: &Reduce) -> Found {
        self.reduced(op.input, |axis| op.reduces(axis), op.keep_dimensions)
    }

    fn reduced(&self, input: OperandId, reduces: impl Fn(usize) -> bool, keeps: bool) -> Found {
        let axis = self.rows(input).ok_or("no rows")?;
        if reduces(axis) {
            return refused(SEEN);
        }
        along(if keeps { axis } else { axis - (0..axis).filter(|&other| reduces(other)).count() })
    }

    /// Rows stay one after the other where they are the outermost part of what they are folded with.
    fn reshape(&self, op: &Reshape, output: OperandId, rows: Rows) -> Found {
        let before = |shape: &[u32], axis: usize| shape[..axis].iter().map(|&size| u64::from(size)).product::<u64>();
        match (self.rows(op.input), rows) {
            (None, None) => Ok(vec![None]),
            (Some(from), Some(to)) if before(self.shape(op.input), from) == before(self.shape(output), to) => along(to),
            (Some(_), _) => refused("the rows are folded into other dimensions"),
            (None, Some(_)) => refused("rows that were not there"),
        }
    }

    /// What all have in common is copied for each row.
    fn expand(&self, op: &Expand, output: OperandId, rows: Rows) -> Found {
        match rows {
            Some(_) => self.aligned(&[op.input], output, rows).map(|axis| vec![Some(axis)]),
            None if self.rows(op.input).is_none() => Ok(vec![None]),
            None => refused(SEEN),
        }
    }

    /// All of the rows, and the same of other axes.
    fn slice(&self, op: &Slice, other: &Slice) -> Found {
        let rows = self.rows(op.input);
        for axis in 0..op.starts.len() {
            let fits = match rows == Some(axis) {
                true => op.starts[axis] == 0 && op.stride(axis) == 1 && op.sizes[axis] == self.shape(op.input)[axis],
                false => {
                    (op.starts[axis], op.sizes[axis], op.stride(axis))
                        == (other.starts[axis], other.sizes[axis], other.stride(axis))
                }
            };
            if !fits {
                return refused("a part of the rows, or other parts for several rows");
            }
        }
        Ok(vec![rows])
    }

    fn tile(&self, op: &Tile, other: &Tile, rows: Rows) -> Found {
        let (repetitions, others) = (&op.repetitions.0, &other.repetitions.0);
        let own = self.rows(op.input);
        for axis in 0..repetitions.len() {
            let fits = match (own == Some(axis), rows == Some(axis)) {
                (true, _) => repetitions[axis] == 1 && others[axis] == 1,
                // Those of each row follow each other.
                (false, true) => own.is_none(),
                (false, false) => repetitions[axis] == others[axis],
            };
            if !fits {
                return refused("the rows are repeated as a whole");
            }
        }
        Ok(vec![own.or(rows)])
    }

    fn gather(&self, op: &Gather) -> Found {
        let (at, rank) = (op.axis as usize, self.shape(op.indices).len());
        match (self.rows(op.input), self.rows(op.indices)) {
            (None, Some(axis)) => along(at + axis),
            (Some(axis), None) if axis < at => along(axis),
            (Some(axis), None) if axis > at => along(axis + rank - 1),
            _ => refused("it selects rows by their positions"),
        }
    }

    fn gather_elements(&self, op: &GatherElements) -> Found {
        match (self.rows(op.input), self.rows(op.indices)) {
            // Each index finds its element in what all have in common.
            (None, Some(axis)) if axis == op.axis as usize => along(axis),
            (Some(_), Some(_)) => self.all_along(&[op.input, op.indices], op.axis),
            _ => refused("it selects rows by their positions"),
        }
    }

    fn gather_nd(&self, op: &GatherNd) -> Found {
        let shape = self.shape(op.indices);
        let (last, count) = (shape.len() - 1, shape[shape.len() - 1] as usize);
        match (self.rows(op.input), self.rows(op.indices)) {
            (None, Some(axis)) if axis < last => along(axis),
            (Some(axis), None) if axis >= count => along(last + axis - count),
            _ => refused("it selects rows by their positions"),
        }
    }

    /// A product of matrices: rows are those of the left one, columns of the right one, or matrices of a stack.
    fn product(&self, a: OperandId, b: OperandId, output: OperandId, rows: Rows) -> Found {
        let axis = rows.ok_or(SEEN)?;
        let rank = self.shape(output).len();
        // From the end: 0 for columns, 1 for rows, and then the stack.
        let after = |id: OperandId| self.rows(id).map(|axis| self.shape(id).len() - 1 - axis);
        match (after(a), after(b)) {
            (Some(1), None) if axis + 2 == rank => along(axis),
            (None, Some(0)) if axis + 1 == rank => along(axis),
            (a_after, b_after) if axis + 2 < rank && [a_after, b_after].iter().flatten().all(|&place| place > 1) => {
                self.aligned(&[a, b], output, rows).map(|axis| vec![Some(axis)])
            }
            _ => refused("it sums over rows"),
        }
    }

    fn quantized_product(&self, op: &QuantizedMatmul, output: OperandId, rows: Rows) -> Found {
        let is_one = |id: Option<OperandId>| id.is_none_or(|id| self.shape(id).iter().all(|&size| size == 1));
        let zero_points: Vec<OperandId> = op.a_zero_point.into_iter().chain(op.b_zero_point).collect();
        if self.rows_of(&zero_points) > 0 {
            return refused("a zero point for each row");
        }
        // Those of the left operand may be one for each row, and those of the right one for each column.
        let is_left = is_one(op.a_zero_point) && self.rows(op.b).is_none();
        if !(is_left || is_one(op.a_zero_point) && is_one(op.b_zero_point)) {
            return refused("a zero point for each row");
        }
        self.product(op.a, op.b, output, rows)
    }

    fn gemm(&self, op: &Gemm, output: OperandId, rows: Rows) -> Found {
        let axis = rows.ok_or(SEEN)?;
        let (of_rows, of_columns) = (usize::from(op.a_transpose), usize::from(!op.b_transpose));
        match (self.rows(op.a), self.rows(op.b)) {
            (Some(own), None) if own == of_rows && axis == 0 => {}
            (None, Some(own)) if own == of_columns && axis == 1 => {}
            _ => return refused("it sums over rows"),
        }
        if let Some(c) = op.c {
            self.aligned(&[c], output, rows)?;
        }
        along(axis)
    }

    /// A recurrent network, whose states are those of the rows: the axis of states, and after that of the directions and of steps.
    fn recurrent(
        &self,
        inputs: &[OperandId],
        input: OperandId,
        states: &[Option<OperandId>],
        output: OperandId,
        outputs: &[Rows],
        axis: usize,
    ) -> Found {
        let own: Vec<OperandId> = [Some(input)].iter().chain(states).flatten().copied().collect();
        let has_rows = |&id: &OperandId| self.rows(id) == Some(axis) && self.share(id, axis) == self.share(output, axis);
        if !own.iter().all(has_rows) || self.rows_of(inputs) != own.len() {
            return refused("a state or weights that are not those of the rows");
        }
        // The last output may be that of all steps.
        Ok(outputs.iter().map(|&rows| if rows == Some(axis + 1) { rows } else { Some(axis) }).collect())
    }
}
