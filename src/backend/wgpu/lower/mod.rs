//! Steps of a schedule → dispatches. One file per family of operators, named as in `graph/ops/`.

mod accumulate;
#[cfg(test)]
mod accuracy_tests;
mod alone;
mod arg;
mod bitcast;
mod block_quantized;
mod checks;
mod conv;
mod coupling;
mod cumulative;
mod described;
mod determinant;
mod elementwise;
mod expert_matmul;
mod gather;
mod kernel;
mod linear_attention;
pub mod lowering;
mod matmul;
mod movement;
mod normalization;
#[cfg(test)]
mod open_tests;
#[cfg(test)]
mod placement_tests;
mod pool;
mod product;
mod quantized;
mod recurrent;
mod reduce;
mod reduction;
mod resample;
mod roi;
mod rows;
mod scatter;
mod softmax;
mod sort;
mod top_k;
mod tree;
mod window;
mod words;
mod workgroup;

use super::gpu_program::GpuProgram;
use super::target::Target;
use crate::compiler::{Schedule, Step, after_inputs};
use crate::error::Result;
use crate::graph::Op;
use crate::graph::ops::ByFamily;
use lowering::{Lowering, Operands, tensor};

/// The program of a schedule.
///
/// # Errors
/// `OperationError` for what the target cannot do; those of `ask`, which is asked before each step.
pub fn lower(schedule: &Schedule, target: &Target, ask: &dyn Fn() -> Result<()>) -> Result<GpuProgram> {
    let mut lowering = Lowering::new(target, schedule);
    for (step, description) in schedule.steps.iter().zip(described::steps(schedule)) {
        ask()?;
        lowering.begin_step(step.op.row().name, &step.label, description);
        let lowered = checks::look(&mut lowering, schedule, step).and_then(|()| self::step(&mut lowering, schedule, step));
        lowered.map_err(|error| error.of(step.op.row().name, &step.label))?;
    }
    let output_lengths = schedule.outputs.iter().map(|(_, descriptor)| descriptor.byte_length()).collect();
    Ok(lowering.finish(output_lengths))
}

/// Adds the dispatches of a step.
fn step(lowering: &mut Lowering<'_>, schedule: &Schedule, step: &Step) -> Result<()> {
    let tensors = |ids: &[crate::compiler::ValueId]| ids.iter().map(|id| tensor(&schedule.values[id.0])).collect();
    let operands = Operands { inputs: tensors(&step.inputs), outputs: tensors(&step.outputs), fused: step.fused.clone() };
    // All operands must fit into one kernel: else what is fused is done one by one.
    let most = lowering.target.most_bindings();
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
            let data_type =
                elementwise::fused(op).result_type(&|id| operands.inputs.get(id.0 as usize).unwrap_or(&running).data_type);
            lowering.temporary(data_type, &output.shape)?
        };
        let op = after_inputs(vec![op.clone()], operands.inputs.len()).remove(0);
        operands.inputs.push(running);
        operands.outputs = vec![next.clone()];
        one(lowering, &op, &operands)?;
        operands.inputs.pop();
        running = next;
    }
    Ok(())
}

fn one(lowering: &mut Lowering<'_>, op: &Op, operands: &Operands) -> Result<()> {
    match op.by_family() {
        ByFamily::Elementwise(op) => elementwise::lower(lowering, op, operands),
        ByFamily::AccumulateElements(op) => accumulate::accumulate_elements(lowering, op, operands),
        ByFamily::AccumulateNd(op) => accumulate::accumulate_nd(lowering, op, operands),
        ByFamily::Arg(op) => arg::arg(lowering, op, operands),
        ByFamily::BatchNormalization(op) => normalization::batch_normalization(lowering, op, operands),
        ByFamily::Bitcast(op) => bitcast::bitcast(lowering, op, operands),
        ByFamily::BlockQuantizedMatmul(op) => block_quantized::block_quantized_matmul(lowering, op, operands),
        ByFamily::CheckIndices(op) => movement::check_indices(lowering, op, operands),
        ByFamily::Concat(op) => movement::concat(lowering, op, operands),
        ByFamily::Conv2d(op) => conv::conv2d(lowering, op, operands),
        ByFamily::ConvTranspose2d(op) => conv::conv_transpose2d(lowering, op, operands),
        ByFamily::CumulativeProduct(op) => cumulative::cumulative_product(lowering, op, operands),
        ByFamily::CumulativeSum(op) => cumulative::cumulative_sum(lowering, op, operands),
        ByFamily::Determinant(op) => determinant::determinant(lowering, op, operands),
        ByFamily::DynamicQuantizeLinear(op) => quantized::dynamic_quantize_linear(lowering, op, operands),
        ByFamily::QuantizeAlong(op) => quantized::quantize_along(lowering, op, operands),
        ByFamily::Expand(op) => movement::expand(lowering, op, operands),
        ByFamily::ExpertMatmul(op) => expert_matmul::expert_matmul(lowering, op, operands),
        ByFamily::Gather(op) => gather::gather(lowering, op, operands),
        ByFamily::GatherElements(op) => gather::gather_elements(lowering, op, operands),
        ByFamily::GatherNd(op) => gather::gather_nd(lowering, op, operands),
        ByFamily::Gemm(op) => matmul::gemm(lowering, op, operands),
        ByFamily::Gru(op) => recurrent::gru(lowering, op, operands),
        ByFamily::GruCell(op) => recurrent::gru_cell(lowering, op, operands),
        ByFamily::InstanceNormalization(op) => normalization::instance_normalization(lowering, op, operands),
        ByFamily::IntegerMatmul(op) => matmul::integer_matmul(lowering, op, operands),
        ByFamily::LayerNormalization(op) => normalization::layer_normalization(lowering, op, operands),
        ByFamily::Inverse(op) => determinant::inverse(lowering, op, operands),
        ByFamily::LinearAttention(op) => linear_attention::linear_attention(lowering, op, operands),
        ByFamily::Lstm(op) => recurrent::lstm(lowering, op, operands),
        ByFamily::LstmCell(op) => recurrent::lstm_cell(lowering, op, operands),
        ByFamily::Matmul(op) => matmul::matmul(lowering, op, operands),
        ByFamily::NormPool2d(op) => pool::norm_pool2d(lowering, op, operands),
        ByFamily::Pad(op) => movement::pad(lowering, op, operands),
        ByFamily::PairwiseCoupling(op) => coupling::pairwise_coupling(lowering, op, operands),
        ByFamily::Pool2d(op) => pool::pool2d(lowering, op, operands),
        ByFamily::QuantizedLstm(op) => recurrent::quantized_lstm(lowering, op, operands),
        ByFamily::QuantizedMatmul(op) => quantized::quantized_matmul(lowering, op, operands),
        ByFamily::Reduce(op) => reduce::reduce(lowering, op, operands),
        ByFamily::Resample2d(op) => resample::resample2d(lowering, op, operands),
        ByFamily::Reshape(op) => movement::reshape(lowering, op, operands),
        ByFamily::Reverse(op) => movement::reverse(lowering, op, operands),
        ByFamily::RmsNormalization(op) => normalization::rms_normalization(lowering, op, operands),
        ByFamily::RoiMaxPool(op) => roi::roi_max_pool(lowering, op, operands),
        ByFamily::ScatterElements(op) => scatter::scatter_elements(lowering, op, operands),
        ByFamily::ScatterNd(op) => scatter::scatter_nd(lowering, op, operands),
        ByFamily::Slice(op) => movement::slice(lowering, op, operands),
        ByFamily::Softmax(op) => softmax::softmax(lowering, op, operands),
        ByFamily::Split(op) => movement::split(lowering, op, operands),
        ByFamily::Tile(op) => movement::tile(lowering, op, operands),
        ByFamily::TopK(op) => top_k::top_k(lowering, op, operands),
        ByFamily::Transpose(op) => movement::transpose(lowering, op, operands),
        ByFamily::TreeEnsemble(op) => tree::tree_ensemble(lowering, op, operands),
        ByFamily::Triangular(op) => movement::triangular(lowering, op, operands),
    }
}
