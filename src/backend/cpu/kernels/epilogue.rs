//! What is done to a finished piece of an output while it is in the cache: biases, activations, residual additions, whole
//! chains of element-wise operators.

use super::formulas::{Formula, Power, Rounding};
use super::functions::formula;
use super::{AlignedBuffer, Problem};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::BinaryKind;
use crate::graph::{DataType, Op, OperandId};
use smallvec::SmallVec;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::epilogue::post_ops::{Operation, PostOp, PostOps, Row, With};

/// All post-ops, in order.
#[derive(Debug, Default)]
pub struct Epilogue {
    post_ops: Vec<PostOp>,
    /// The operands that post-ops need when they run, in the order of these post_ops.
    operands: Vec<OperandId>,
}

impl Epilogue {
    pub fn new(bias: Option<&[f32]>) -> Self {
        Epilogue::of(bias.map(|bias| PostOp::Binary(Operation::Add, With::Row(row(bias)))).into_iter().collect())
    }

    /// The same for an output of one column.
    pub fn of_column(bias: Option<f32>) -> Self {
        Epilogue::of(bias.map(|bias| PostOp::Binary(Operation::Add, With::Number(bias))).into_iter().collect())
    }

    /// Adds the fused operators of a step, and notes the constants that are packed. All or none of them.
    pub fn fuse(&mut self, problem: &Problem<'_>, consumed: &mut impl Extend<usize>) -> bool {
        let running = OperandId(problem.inputs.len() as u32);
        let mut constants = Vec::new();
        // The way back from float16 changes nothing: post-ops have float32 all the time.
        let counts = |op: &&Op| !matches!(op, Op::Cast(cast) if cast.data_type == DataType::Float32);
        let (mut post_ops, mut operands) = (Vec::new(), Vec::new());
        for op in problem.fused.iter().filter(counts) {
            let Some(post_op) = post_op(op, running, problem, &mut constants, &mut operands) else { return false };
            post_ops.push(post_op);
        }
        self.post_ops.extend(post_ops);
        self.operands.extend(operands);
        self.join_steps();
        consumed.extend(constants);
        true
    }

    /// Lets post-ops that round to steps, as values that have been quantized are, be one.
    fn join_steps(&mut self) {
        use Operation::{Add, Div, Mul, Sub};
        use PostOp::Binary;
        use With::Number;
        let joined = |post_ops: &[PostOp]| match post_ops {
            &[
                Binary(Div, Number(size)),
                PostOp::Formula(Formula::ReplaceNan(of_nan)),
                PostOp::Formula(Formula::Clamp(low, high)),
                Binary(Add, Number(up)),
                Binary(Sub, Number(down)),
                Binary(Mul, Number(back)),
            ] if low.is_finite() && high.is_finite() => {
                Some(PostOp::Formula(Formula::Steps(Rounding::new(size, [low, high], of_nan, [up, down], back))))
            }
            _ => None,
        };
        const POST_OPS: usize = 6;
        let mut i = 0;
        while i + POST_OPS <= self.post_ops.len() {
            if let Some(post_op) = joined(&self.post_ops[i..i + POST_OPS]) {
                self.post_ops.splice(i..i + POST_OPS, [post_op]);
            }
            i += 1;
        }
    }

    /// Adds a step's own operator, done to its operand `input`.
    pub fn begin(&mut self, problem: &Problem<'_>, input: OperandId, consumed: &mut impl Extend<usize>) -> bool {
        let mut constants = Vec::new();
        let Some(post_op) = post_op(problem.op, input, problem, &mut constants, &mut self.operands) else { return false };
        self.post_ops.push(post_op);
        consumed.extend(constants);
        true
    }

    /// The row that is added first of all, if there is one, and the other post_ops.
    pub fn split_bias(&self) -> (Option<&[f32]>, PostOps<'_>) {
        match self.post_ops.as_slice() {
            [PostOp::Binary(Operation::Add, With::Row(row)), rest @ ..] => (Some(row), PostOps::new(rest)),
            all => (None, PostOps::new(all)),
        }
    }

    /// All post_ops.
    pub fn post_ops(&self) -> PostOps<'_> {
        PostOps::new(&self.post_ops)
    }

    pub fn is_empty(&self) -> bool {
        self.post_ops.is_empty()
    }

    /// Lets so many rows be one. Nothing, and false, if a row is one that the run brings.
    pub fn join_rows(&mut self, count: usize) -> bool {
        if self.post_ops.iter().any(|post_op| matches!(post_op, PostOp::Binary(_, With::Line))) {
            return false;
        }
        for post_op in &mut self.post_ops {
            if let PostOp::Binary(_, With::Row(list)) = post_op {
                *list = row(&list.repeat(count));
            }
        }
        true
    }

    /// The tensors that post-ops need, for [`PostOps::apply`].
    pub fn tensors<'a>(&self, arguments: &Arguments<'a, '_>) -> Vec<Stored<'a>> {
        self.operands.iter().map(|&id| arguments.input(id).stored()).collect()
    }

    /// Those of the output's shape, which may lie as bfloat16, but for what is a row or a number elsewhere.
    pub fn whole_tensors(&self) -> SmallVec<[OperandId; 2]> {
        let needs = |post_op: &&PostOp| matches!(post_op, PostOp::Binary(_, With::Single | With::Line | With::Tensor));
        let with: Vec<_> = self.operands.iter().zip(self.post_ops.iter().filter(needs)).collect();
        let is_whole = |post_op: &PostOp| matches!(post_op, PostOp::Binary(_, With::Tensor));
        let mut whole: SmallVec<[OperandId; 2]> =
            with.iter().filter(|(_, post_op)| is_whole(post_op)).map(|(id, _)| **id).collect();
        whole.retain(|id| with.iter().all(|(other, post_op)| *other != id || is_whole(post_op)));
        whole.sort_unstable_by_key(|id| id.0);
        whole.dedup();
        whole
    }

    /// Post-ops that need no operands when they run.
    fn of(post_ops: Vec<PostOp>) -> Self {
        Epilogue { post_ops, operands: Vec::new() }
    }
}

/// A row that all graphs of a model have once, and which is counted there.
fn row(numbers: &[f32]) -> Row {
    Row::new(AlignedBuffer::row(numbers))
}

/// An operator as a post_op. `running` is the operand that it is done to.
fn post_op(
    op: &Op,
    running: OperandId,
    problem: &Problem<'_>,
    consumed: &mut Vec<usize>,
    operands: &mut Vec<OperandId>,
) -> Option<PostOp> {
    match op {
        Op::Binary(op) => {
            let is_first = op.a == running;
            let operation = match (op.kind, is_first) {
                (BinaryKind::Add, _) => Operation::Add,
                (BinaryKind::Mul, _) => Operation::Mul,
                (BinaryKind::Sub, true) => Operation::Sub,
                (BinaryKind::Sub, false) => Operation::SubFrom,
                (BinaryKind::Div, true) => Operation::Div,
                (BinaryKind::Div, false) => Operation::DivInto,
                (BinaryKind::Pow, true) => {
                    let &[exponent] = problem.inputs.get(op.b.0 as usize)?.elements()? else { return None };
                    consumed.push(op.b.0 as usize);
                    return Power::of(exponent).map(|power| PostOp::Formula(Formula::Power(power)));
                }
                (BinaryKind::Pow, false) | (BinaryKind::Max | BinaryKind::Min, _) => return None,
            };
            with(if is_first { op.b } else { op.a }, problem, consumed, operands).map(|with| PostOp::Binary(operation, with))
        }
        Op::Prelu(op) if op.input == running => {
            with(op.slope, problem, consumed, operands).map(|with| PostOp::Binary(Operation::Slope, with))
        }
        op => formula(op).map(PostOp::Formula),
    }
}

/// The other operand of a post-op, if it is there in a way that is quick to read.
fn with(id: OperandId, problem: &Problem<'_>, consumed: &mut Vec<usize>, operands: &mut Vec<OperandId>) -> Option<With> {
    let other = *problem.inputs.get(id.0 as usize)?;
    // Post-ops read float32, also where a constant of another type has as many bytes.
    if other.data_type != DataType::Float32 {
        return None;
    }
    if other.shape == problem.output.shape {
        operands.push(id);
        return Some(With::Tensor);
    }
    if other.shape.len() > problem.output.shape.len() {
        return None;
    }
    let Some(elements) = other.elements() else {
        let count = other.shape.iter().product::<usize>();
        let is_line = other.shape.last() == problem.output.shape.last() && other.shape.last() == Some(&count);
        if other.order.is_some() || count != 1 && !is_line {
            return None;
        }
        operands.push(id);
        return Some(if count == 1 { With::Single } else { With::Line });
    };
    // A constant of one element, or one that varies along the last axis only.
    let axis = problem.output.shape.len().checked_sub(1)?;
    let missing = problem.output.shape.len() - other.shape.len();
    let size = problem.output.shape[axis];
    let along = || axis >= missing && other.shape[axis - missing] == size && elements.len() == size;
    let with = match elements {
        &[number] => With::Number(number),
        _ if along() => With::Row(row(elements)),
        _ => return None,
    };
    consumed.push(id.0 as usize);
    Some(with)
}
