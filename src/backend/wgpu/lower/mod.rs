//! Steps of a plan → dispatches. One file per family of operators, named as in `graph/ops/`.

mod accumulate;
#[cfg(test)]
mod accuracy_tests;
mod alone;
mod arg;
mod bitcast;
mod block_quantized;
mod conv;
mod coupling;
mod cumulative;
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

use super::program::Program;
use super::target::Target;
use crate::compiler::{Plan, Step, behind_inputs};
use crate::error::Result;
use crate::graph::Op;
use lowering::{Lowering, Operands, tensor};

/// The program of a plan.
///
/// # Errors
/// `OperationError` for what the target cannot do; those of `ask`, which is asked before each step.
pub fn lower(plan: &Plan, target: &Target, ask: &dyn Fn() -> Result<()>) -> Result<Program> {
    let mut lowering = Lowering::new(target, plan);
    for step in &plan.steps {
        ask()?;
        lowering.begin_step(step.op.row().name, &step.label);
        self::step(&mut lowering, plan, step).map_err(|error| error.of(step.op.row().name, &step.label))?;
    }
    let output_lengths = plan.outputs.iter().map(|(_, descriptor)| descriptor.byte_length()).collect();
    Ok(lowering.finish(output_lengths))
}

/// Adds the dispatches of a step.
fn step(lowering: &mut Lowering<'_>, plan: &Plan, step: &Step) -> Result<()> {
    let tensors = |ids: &[crate::compiler::ValueId]| ids.iter().map(|id| tensor(&plan.values[id.0])).collect();
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
        | Op::ReplaceNan(_)
        | Op::Swish(_)
        | Op::Unary(_)
        | Op::Where(_) => elementwise::lower(lowering, op, operands),
        Op::AccumulateElements(op) => accumulate::accumulate_elements(lowering, op, operands),
        Op::AccumulateNd(op) => accumulate::accumulate_nd(lowering, op, operands),
        Op::Arg(op) => arg::arg(lowering, op, operands),
        Op::BatchNormalization(op) => normalization::batch_normalization(lowering, op, operands),
        Op::Bitcast(op) => bitcast::bitcast(lowering, op, operands),
        Op::BlockQuantizedMatmul(op) => block_quantized::block_quantized_matmul(lowering, op, operands),
        Op::Concat(op) => movement::concat(lowering, op, operands),
        Op::Conv2d(op) => conv::conv2d(lowering, op, operands),
        Op::ConvTranspose2d(op) => conv::conv_transpose2d(lowering, op, operands),
        Op::CumulativeProduct(op) => cumulative::cumulative_product(lowering, op, operands),
        Op::CumulativeSum(op) => cumulative::cumulative_sum(lowering, op, operands),
        Op::Determinant(op) => determinant::determinant(lowering, op, operands),
        Op::DynamicQuantizeLinear(op) => quantized::dynamic_quantize_linear(lowering, op, operands),
        Op::Expand(op) => movement::expand(lowering, op, operands),
        Op::ExpertMatmul(op) => expert_matmul::expert_matmul(lowering, op, operands),
        Op::Gather(op) => gather::gather(lowering, op, operands),
        Op::GatherElements(op) => gather::gather_elements(lowering, op, operands),
        Op::GatherNd(op) => gather::gather_nd(lowering, op, operands),
        Op::Gemm(op) => matmul::gemm(lowering, op, operands),
        Op::Gru(op) => recurrent::gru(lowering, op, operands),
        Op::GruCell(op) => recurrent::gru_cell(lowering, op, operands),
        Op::InstanceNormalization(op) => normalization::instance_normalization(lowering, op, operands),
        Op::IntegerMatmul(op) => matmul::integer_matmul(lowering, op, operands),
        Op::LayerNormalization(op) => normalization::layer_normalization(lowering, op, operands),
        Op::Inverse(op) => determinant::inverse(lowering, op, operands),
        Op::LinearAttention(op) => linear_attention::linear_attention(lowering, op, operands),
        Op::Lstm(op) => recurrent::lstm(lowering, op, operands),
        Op::LstmCell(op) => recurrent::lstm_cell(lowering, op, operands),
        Op::Matmul(op) => matmul::matmul(lowering, op, operands),
        Op::NormPool2d(op) => pool::norm_pool2d(lowering, op, operands),
        Op::Pad(op) => movement::pad(lowering, op, operands),
        Op::PairwiseCoupling(op) => coupling::pairwise_coupling(lowering, op, operands),
        Op::Pool2d(op) => pool::pool2d(lowering, op, operands),
        Op::QuantizedLstm(op) => recurrent::quantized_lstm(lowering, op, operands),
        Op::QuantizedMatmul(op) => quantized::quantized_matmul(lowering, op, operands),
        Op::Reduce(op) => reduce::reduce(lowering, op, operands),
        Op::Resample2d(op) => resample::resample2d(lowering, op, operands),
        Op::Reshape(op) => movement::reshape(lowering, op, operands),
        Op::Reverse(op) => movement::reverse(lowering, op, operands),
        Op::RmsNormalization(op) => normalization::rms_normalization(lowering, op, operands),
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
