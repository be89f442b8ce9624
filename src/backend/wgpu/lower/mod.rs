//! Steps of a plan → dispatches. One file per family of operators, named as in `graph/ops/`.

mod accumulate;
mod alone;
mod arg;
mod bitcast;
mod conv;
mod coupling;
mod cumulative;
mod determinant;
mod elementwise;
mod gather;
mod kernel;
mod matmul;
mod movement;
mod normalization;
mod pool;
mod product;
mod recurrent;
mod reduce;
mod reduction;
mod resample;
mod roi;
mod rows;
mod scatter;
mod softmax;
mod top_k;
mod tree;
mod window;
mod words;
mod workgroup;

pub use kernel::Kernel;

use super::adapter::Features;
use super::device::Device;
use super::executable::{Dispatch, Memory, Slot, binding_length, most_bindings};
use super::shader::{Layout, Scalar};
use crate::compiler::{Place, Plan, Step, Value, behind_inputs};
use crate::error::{Error, Kind, Result};
use crate::graph::{ConstantBytes, DataType, Op, OperandId};
use std::collections::HashSet;

/// A tensor as kernels see it: dense, in row-major order.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub data_type: DataType,
    pub shape: Vec<usize>,
    pub memory: Memory,
}

impl Tensor {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn scalar(&self) -> Scalar {
        Scalar::of(self.data_type)
    }
}

/// The dispatches of a graph so far.
pub struct Lowering<'a> {
    pub device: &'a Device,
    constants: Vec<ConstantBytes>,
    /// What steps read.
    read: HashSet<(Slot, usize)>,
    dispatches: Vec<Dispatch>,
    /// The plan's arena, and behind it what a step needs for itself.
    arena_length: usize,
    temporary: usize,
    longest: usize,
}

/// One step that is being lowered.
pub struct Operands {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// What is done to the output afterwards.
    pub fused: Vec<Op>,
}

impl Operands {
    pub fn input(&self, id: OperandId) -> &Tensor {
        &self.inputs[id.0 as usize]
    }

    pub fn optional(&self, id: Option<OperandId>) -> Option<&Tensor> {
        id.map(|id| self.input(id))
    }

    pub fn output(&self) -> &Tensor {
        &self.outputs[0]
    }

    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.inputs.iter().chain(&self.outputs)
    }
}

impl<'a> Lowering<'a> {
    pub fn new(device: &'a Device, plan: &Plan) -> Self {
        let arena_length = plan.arena_length.next_multiple_of(crate::compiler::ALIGNMENT);
        let constants = plan.constants.clone();
        let read = plan.steps.iter().flat_map(|step| &step.inputs);
        let read = read.map(|id| memory(&plan.values[id.0])).map(|memory| (memory.slot, memory.offset)).collect();
        Lowering { device, constants, read, dispatches: Vec::new(), arena_length, temporary: 0, longest: 0 }
    }

    pub fn features(&self) -> Features {
        self.device.features
    }

    /// The dispatches, the constants that they may bind, and the length of the arena.
    pub fn finish(self) -> (Vec<Dispatch>, Vec<ConstantBytes>, usize) {
        (self.dispatches, self.constants, self.arena_length + self.longest)
    }

    pub fn push(&mut self, dispatch: Dispatch) {
        self.dispatches.push(dispatch);
    }

    /// Memory for a tensor that only this step uses.
    pub fn temporary(&mut self, data_type: DataType, shape: &[usize]) -> Result<Tensor> {
        let count = shape.iter().product();
        let fail = || Error::new(Kind::Operation, format!("{count} values between its kernels are too many"));
        let length = data_type.byte_length(count).ok_or_else(fail)?;
        let memory = Memory { slot: Slot::Arena, offset: self.arena_length + self.temporary, length };
        self.temporary += length.next_multiple_of(crate::compiler::ALIGNMENT);
        self.longest = self.longest.max(self.temporary);
        Ok(Tensor { data_type, shape: shape.to_vec(), memory })
    }

    /// A constant that is made here, such as weights in another order.
    pub fn constant(&mut self, data_type: DataType, shape: &[usize], bytes: Vec<u8>) -> Tensor {
        let memory = Memory { slot: Slot::Constant(self.constants.len()), offset: 0, length: bytes.len() };
        self.constants.push(ConstantBytes::new(bytes));
        Tensor { data_type, shape: shape.to_vec(), memory }
    }

    /// Whether anybody wants a step's output.
    pub fn is_read(&self, tensor: &Tensor) -> bool {
        matches!(tensor.memory.slot, Slot::Output(_)) || self.read.contains(&(tensor.memory.slot, tensor.memory.offset))
    }

    fn layout(&self, tensor: &Tensor) -> Layout {
        Layout::of(tensor.data_type, self.device.features)
    }

    /// Bindings that a tensor takes.
    fn bindings(&self, tensor: &Tensor) -> usize {
        tensor.memory.length.div_ceil(binding_length(self.device, tensor.memory.length)).max(1)
    }
}

fn memory(value: &Value) -> Memory {
    let offset = if let Place::Arena(offset) = value.place { offset } else { 0 };
    Memory { slot: value.place.into(), offset, length: value.descriptor.byte_length() }
}

fn tensor(value: &Value) -> Tensor {
    let memory = memory(value);
    let shape = value.descriptor.shape.iter().map(|&size| size as usize).collect();
    Tensor { data_type: value.descriptor.data_type, shape, memory }
}

/// Adds the dispatches of a step.
///
/// # Errors
/// `OperationError` for what the device cannot do.
pub fn lower(lowering: &mut Lowering<'_>, plan: &Plan, step: &Step) -> Result<()> {
    lowering.temporary = 0;
    let tensors = |ids: &[crate::compiler::ValueId]| ids.iter().map(|id| tensor(&plan.values[id.0])).collect();
    let operands = Operands { inputs: tensors(&step.inputs), outputs: tensors(&step.outputs), fused: step.fused.clone() };
    // All operands must fit into one kernel: else what is fused is done one by one.
    let most = most_bindings(lowering.device);
    let bindings: usize = operands.tensors().map(|tensor| lowering.bindings(tensor)).sum();
    if step.fused.is_empty() || bindings <= most {
        return one(lowering, &step.op, &operands);
    }
    let output = operands.outputs[0].clone();
    let mut running = lowering.temporary(output.data_type, &output.shape)?;
    let mut operands = Operands { outputs: vec![running.clone()], fused: Vec::new(), ..operands };
    one(lowering, &step.op, &operands)?;
    for (number, op) in step.fused.iter().enumerate() {
        let next = if number + 1 == step.fused.len() {
            output.clone()
        } else {
            let data_type = elementwise::result_type(op, &|id| operands.inputs.get(id.0 as usize).unwrap_or(&running).data_type);
            lowering.temporary(data_type, &output.shape)?
        };
        let op = behind_inputs(vec![op.clone()], operands.inputs.len()).remove(0);
        operands.inputs.push(running);
        operands.outputs = vec![next.clone()];
        one(lowering, &op, &operands)?;
        operands.inputs.pop();
        running = next;
    }
    Ok(())
}

fn one(lowering: &mut Lowering<'_>, op: &Op, operands: &Operands) -> Result<()> {
    match op {
        Op::Activation(_)
        | Op::Binary(_)
        | Op::Cast(_)
        | Op::Clamp(_)
        | Op::DequantizeLinear(_)
        | Op::Elu(_)
        | Op::Gate(_)
        | Op::HardSigmoid(_)
        | Op::LeakyRelu(_)
        | Op::Linear(_)
        | Op::Logical(_)
        | Op::Predicate(_)
        | Op::Prelu(_)
        | Op::QuantizeLinear(_)
        | Op::Remainder(_)
        | Op::Swish(_)
        | Op::Unary(_)
        | Op::Where(_) => elementwise::lower(lowering, op, operands),
        Op::AccumulateElements(op) => accumulate::accumulate_elements(lowering, op, operands),
        Op::AccumulateNd(op) => accumulate::accumulate_nd(lowering, op, operands),
        Op::Arg(op) => arg::arg(lowering, op, operands),
        Op::BatchNormalization(op) => normalization::batch_normalization(lowering, op, operands),
        Op::Bitcast(op) => bitcast::bitcast(lowering, op, operands),
        Op::Concat(op) => movement::concat(lowering, op, operands),
        Op::Conv2d(op) => conv::conv2d(lowering, op, operands),
        Op::ConvTranspose2d(op) => conv::conv_transpose2d(lowering, op, operands),
        Op::CumulativeSum(op) => cumulative::cumulative_sum(lowering, op, operands),
        Op::Determinant(op) => determinant::determinant(lowering, op, operands),
        Op::Expand(op) => movement::expand(lowering, op, operands),
        Op::Gather(op) => gather::gather(lowering, op, operands),
        Op::GatherElements(op) => gather::gather_elements(lowering, op, operands),
        Op::GatherNd(op) => gather::gather_nd(lowering, op, operands),
        Op::Gemm(op) => matmul::gemm(lowering, op, operands),
        Op::Gru(op) => recurrent::gru(lowering, op, operands),
        Op::GruCell(op) => recurrent::gru_cell(lowering, op, operands),
        Op::InstanceNormalization(op) => normalization::instance_normalization(lowering, op, operands),
        Op::IntegerMatmul(op) => matmul::integer_matmul(lowering, op, operands),
        Op::LayerNormalization(op) => normalization::layer_normalization(lowering, op, operands),
        Op::Lstm(op) => recurrent::lstm(lowering, op, operands),
        Op::LstmCell(op) => recurrent::lstm_cell(lowering, op, operands),
        Op::Matmul(op) => matmul::matmul(lowering, op, operands),
        Op::Pad(op) => movement::pad(lowering, op, operands),
        Op::PairwiseCoupling(op) => coupling::pairwise_coupling(lowering, op, operands),
        Op::Pool2d(op) => pool::pool2d(lowering, op, operands),
        Op::Reduce(op) => reduce::reduce(lowering, op, operands),
        Op::Resample2d(op) => resample::resample2d(lowering, op, operands),
        Op::Reshape(op) => movement::reshape(lowering, op, operands),
        Op::Reverse(op) => movement::reverse(lowering, op, operands),
        Op::RoiMaxPool(op) => roi::roi_max_pool(lowering, op, operands),
        Op::ScatterElements(op) => scatter::scatter_elements(lowering, op, operands),
        Op::ScatterNd(op) => scatter::scatter_nd(lowering, op, operands),
        Op::Slice(op) => movement::slice(lowering, op, operands),
        Op::Softmax(op) => softmax::softmax(lowering, op, operands),
        Op::Split(op) => movement::split(lowering, op, operands),
        Op::Tile(op) => movement::tile(lowering, op, operands),
        Op::TopK(op) => top_k::top_k(lowering, op, operands),
        Op::Transpose(op) => movement::transpose(lowering, op, operands),
        Op::TreeEnsemble(op) => tree::tree_ensemble(lowering, op, operands),
        Op::Triangular(op) => movement::triangular(lowering, op, operands),
    }
}
