//! What is fused with a convolution: where the channels are last additions of constants and of a tensor, and bounds, while the
//! sums are in registers, where they are first bounds; everything else soon after, while they are in the cache.

use super::clamp::{Bounds, Clamps};
use super::epilogue::Epilogue;
use super::{Problem, Reject, TensorDesc};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind};
use crate::graph::{Number, Op, OperandId};
use smallvec::SmallVec;
use webnn_kernels::bf16::narrow::Stored;
pub use webnn_kernels::epilogue::post_ops::BoundPostOps;
use webnn_kernels::isa::Isa;

/// The fused operators, in the one order that the kernels know: constants, bounds, a tensor, bounds; then others in any order.
#[derive(Debug, Default)]
pub struct ConvEpilogue {
    /// A number for each output channel; empty when there is nothing to add.
    pub bias: Vec<f32>,
    /// A tensor of the output's shape.
    pub added: Option<OperandId>,
    pub clamps: Clamps,
    rest: Epilogue,
    /// Constants that are packed, by position.
    pub consumed: Vec<usize>,
    /// Whether all fused operators are in here; otherwise none is.
    pub is_whole: bool,
}

impl ConvEpilogue {
    /// Of a step whose output has its channels last.
    pub fn new(problem: &Problem<'_>, bias: Option<OperandId>) -> Result<ConvEpilogue, Reject> {
        ConvEpilogue::with(problem, bias, ConvEpilogue::push)
    }

    /// Of a step whose output has its channels first: nothing but bounds while the sums are in registers.
    pub fn of_planes(problem: &Problem<'_>, bias: Option<OperandId>) -> Result<ConvEpilogue, Reject> {
        ConvEpilogue::with(problem, bias, |finish, op, _| finish.push_bounds(op))
    }

    fn with(
        problem: &Problem<'_>,
        bias: Option<OperandId>,
        push: impl Fn(&mut ConvEpilogue, &Op, &Problem<'_>) -> Option<()>,
    ) -> Result<ConvEpilogue, Reject> {
        let mut plain = ConvEpilogue { is_whole: true, ..ConvEpilogue::default() };
        if let Some(bias) = bias {
            plain.bias = problem.input(bias).elements().ok_or(Reject("a bias that is not constant"))?.to_vec();
            plain.consumed.push(bias.0 as usize);
        }
        let mut whole = ConvEpilogue {
            bias: plain.bias.clone(),
            consumed: plain.consumed.clone(),
            is_whole: true,
            ..ConvEpilogue::default()
        };
        let first = problem.fused.iter().take_while(|op| push(&mut whole, op, problem).is_some()).count();
        if whole.rest.fuse(&Problem { fused: &problem.fused[first..], ..*problem }, &mut whole.consumed) {
            return Ok(whole);
        }
        plain.is_whole = problem.fused.is_empty();
        Ok(plain)
    }

    fn push(&mut self, op: &Op, problem: &Problem<'_>) -> Option<()> {
        match op {
            Op::Binary(op) if op.kind == BinaryKind::Add => {
                let running = OperandId(problem.inputs.len() as u32);
                let id = if op.a == running { op.b } else { op.a };
                self.add(id, problem.inputs[id.0 as usize], problem)
            }
            _ => self.push_bounds(op),
        }
    }

    fn push_bounds(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Activation(op) if op.kind == ActivationKind::Relu => self.bound(0.0, f32::INFINITY),
            Op::Clamp(op) => {
                let bound = |bound: Option<Number>, absent| bound.map_or(absent, Number::to_f32);
                self.bound(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY))
            }
            _ => None,
        }
    }

    fn bound(&mut self, low: f32, high: f32) -> Option<()> {
        let place = if self.added.is_some() { &mut self.clamps.after } else { &mut self.clamps.before };
        (*place == Bounds::default()).then(|| *place = Bounds([low, high]))
    }

    fn add(&mut self, id: OperandId, other: TensorDesc<'_>, problem: &Problem<'_>) -> Option<()> {
        let channels = *problem.output.shape.last()?;
        let is_line = other.shape.last() == Some(&channels) && other.shape.iter().product::<usize>() == channels;
        let is_single = other.shape.iter().all(|&size| size == 1);
        if let Some(numbers) = other.elements().filter(|_| is_line || is_single)
            && self.clamps == Clamps::default()
        {
            self.bias.resize(channels, 0.0);
            self.bias.iter_mut().zip(numbers.iter().cycle()).for_each(|(sum, number)| *sum += number);
            self.consumed.push(id.0 as usize);
            return Some(());
        }
        let fits = other.shape == problem.output.shape && self.added.is_none();
        fits.then(|| self.added = Some(id))
    }

    /// All operands that are packed where the filter is too, by position.
    pub fn consumed_beside(&self, filter: OperandId) -> SmallVec<[usize; 2]> {
        std::iter::once(filter.0 as usize).chain(self.consumed.iter().copied()).collect()
    }

    /// The tensor that is added, for a kernel that overwrites none.
    pub fn added<'a>(&self, arguments: &Arguments<'a, '_>) -> Option<&'a [f32]> {
        self.added.map(|id| arguments.input(id).elements())
    }

    /// The tensor that is added, which may lie in the output.
    pub fn added_anywhere<'a>(&self, arguments: &Arguments<'a, '_>) -> Added<'a> {
        match self.added {
            None => Added::Nothing,
            Some(id) if arguments.is_overwritten(id) => Added::Output,
            Some(id) => Added::Tensor(arguments.input(id).stored()),
        }
    }

    /// See [`Epilogue::whole_tensors`]; without the one that is added.
    pub fn whole_tensors(&self) -> SmallVec<[OperandId; 2]> {
        self.rest.whole_tensors()
    }

    /// Whether anything is left to be done to the sums once they have left the registers.
    pub fn is_rest_left(&self) -> bool {
        !self.rest.is_empty()
    }

    /// What is left to be done to the sums.
    pub fn rest<'a, 'b: 'a>(&'a self, isa: &'static Isa, channels: usize, arguments: &Arguments<'b, '_>) -> BoundPostOps<'a> {
        BoundPostOps::new(self.rest.post_ops(), isa, channels, self.rest.tensors(arguments))
    }

    pub fn bytes(&self) -> usize {
        self.bias.capacity() * size_of::<f32>()
    }
}

/// A tensor of the output's shape that is added to it.
#[derive(Clone, Copy, Debug)]
pub enum Added<'a> {
    Nothing,
    Tensor(Stored<'a>),
    /// What is in the output so far.
    Output,
}
