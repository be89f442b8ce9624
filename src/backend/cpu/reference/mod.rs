//! The reference kernels: every operator and every data type, written straight from the specification. They are the
//! oracle of the tests and the fallback of the compiler. One file per family of operators.
//!
//! Floating-point arithmetic is done in `f32` or better and rounded once to the output's type.

use super::view::Arguments;
use crate::graph::Op;

mod accumulate;
mod arg;
mod arithmetic;
mod bitcast;
mod block_quantized;
mod conv;
mod coupling;
mod cumulative;
mod determinant;
#[cfg(test)]
mod divided;
mod elementwise;
mod expert_matmul;
mod gather;
mod index;
mod interpret;
mod linear_attention;
mod matmul;
mod movement;
mod normalization;
mod patches;
mod pool;
mod product;
mod quantized;
mod quantized_lstm;
mod recurrent;
mod reduce;
mod resample;
mod roi;
mod scatter;
mod softmax;
#[cfg(test)]
mod testing;
mod top_k;
mod tree;

pub use interpret::interpret;

/// Computes the outputs of a node. Everything was validated when the node was made.
pub fn execute(op: &Op, arguments: &mut Arguments<'_, '_>) {
    match op {
        Op::AccumulateElements(op) => accumulate::accumulate_elements(op, arguments),
        Op::AccumulateNd(op) => accumulate::accumulate_nd(op, arguments),
        Op::Activation(op) => elementwise::activation(op, arguments),
        Op::Arg(op) => arg::arg(op, arguments),
        Op::BatchNormalization(op) => normalization::batch_normalization(op, arguments),
        Op::Binary(op) => elementwise::binary(op, arguments),
        Op::Bitcast(op) => bitcast::bitcast(op, arguments),
        Op::BlockQuantizedMatmul(op) => block_quantized::block_quantized_matmul(op, arguments),
        Op::Cast(op) => elementwise::cast(op, arguments),
        Op::Clamp(op) => elementwise::clamp(op, arguments),
        Op::Concat(op) => movement::concat(op, arguments),
        Op::Conv2d(op) => conv::conv2d(op, arguments),
        Op::ConvTranspose2d(op) => conv::conv_transpose2d(op, arguments),
        Op::CumulativeProduct(op) => cumulative::cumulative_product(op, arguments),
        Op::CumulativeSum(op) => cumulative::cumulative_sum(op, arguments),
        Op::DequantizeLinear(op) => elementwise::dequantize_linear(op, arguments),
        Op::Determinant(op) => determinant::determinant(op, arguments),
        Op::DynamicQuantizeLinear(op) => quantized::dynamic_quantize_linear(op, arguments),
        Op::Elu(op) => elementwise::elu(op, arguments),
        Op::Expand(op) => movement::expand(op, arguments),
        Op::ExpertMatmul(op) => expert_matmul::expert_matmul(op, arguments),
        Op::Gate(op) => elementwise::gate(op, arguments),
        Op::Gather(op) => gather::gather(op, arguments),
        Op::GatherElements(op) => gather::gather_elements(op, arguments),
        Op::GatherNd(op) => gather::gather_nd(op, arguments),
        Op::Gemm(op) => matmul::gemm(op, arguments),
        Op::Gru(op) => recurrent::gru(op, arguments),
        Op::GruCell(op) => recurrent::gru_cell(op, arguments),
        Op::HardSigmoid(op) => elementwise::hard_sigmoid(op, arguments),
        Op::InstanceNormalization(op) => normalization::instance_normalization(op, arguments),
        Op::IntegerMatmul(op) => matmul::integer_matmul(op, arguments),
        Op::Inverse(op) => determinant::inverse(op, arguments),
        Op::LayerNormalization(op) => normalization::layer_normalization(op, arguments),
        Op::LeakyRelu(op) => elementwise::leaky_relu(op, arguments),
        Op::Linear(op) => elementwise::linear(op, arguments),
        Op::LinearAttention(op) => linear_attention::linear_attention(op, arguments),
        Op::Logical(op) => elementwise::logical(op, arguments),
        Op::Lstm(op) => recurrent::lstm(op, arguments),
        Op::LstmCell(op) => recurrent::lstm_cell(op, arguments),
        Op::Matmul(op) => matmul::matmul(op, arguments),
        Op::NormPool2d(op) => pool::norm_pool2d(op, arguments),
        Op::Pad(op) => movement::pad(op, arguments),
        Op::PairwiseCoupling(op) => coupling::pairwise_coupling(op, arguments),
        Op::Pool2d(op) => pool::pool2d(op, arguments),
        Op::Predicate(op) => elementwise::predicate(op, arguments),
        Op::Prelu(op) => elementwise::prelu(op, arguments),
        Op::QuantizeLinear(op) => elementwise::quantize_linear(op, arguments),
        Op::QuantizedLstm(op) => quantized_lstm::quantized_lstm(op, arguments),
        Op::QuantizedMatmul(op) => quantized::quantized_matmul(op, arguments),
        Op::Reduce(op) => reduce::reduce(op, arguments),
        Op::ReplaceNan(op) => elementwise::replace_nan(op, arguments),
        Op::Remainder(op) => elementwise::remainder(op, arguments),
        Op::Resample2d(op) => resample::resample2d(op, arguments),
        Op::Reshape(op) => movement::reshape(op, arguments),
        Op::Reverse(op) => movement::reverse(op, arguments),
        Op::RmsNormalization(op) => normalization::rms_normalization(op, arguments),
        Op::RoiMaxPool(op) => roi::roi_max_pool(op, arguments),
        Op::ScatterElements(op) => scatter::scatter_elements(op, arguments),
        Op::ScatterNd(op) => scatter::scatter_nd(op, arguments),
        Op::Slice(op) => movement::slice(op, arguments),
        Op::Softmax(op) => softmax::softmax(op, arguments),
        Op::Split(op) => movement::split(op, arguments),
        Op::Swish(op) => elementwise::swish(op, arguments),
        Op::Tile(op) => movement::tile(op, arguments),
        Op::TopK(op) => top_k::top_k(op, arguments),
        Op::Transpose(op) => movement::transpose(op, arguments),
        Op::TreeEnsemble(op) => tree::tree_ensemble(op, arguments),
        Op::Triangular(op) => movement::triangular(op, arguments),
        Op::Unary(op) => elementwise::unary(op, arguments),
        Op::Where(op) => elementwise::select(op, arguments),
    }
}
