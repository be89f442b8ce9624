//! The reference kernels: every operator for every data type, written from the specification, or, if an operator is not there, from its
//! definition in `graph/ops/`. The tests of kernels compare with them; a step that no other kernel accepts is computed by them.
//!
//! Floating-point arithmetic is done in `f32` or better and rounded once to the output's type.

use super::view::Arguments;
use crate::graph::Op;
use crate::graph::ops::ByFamily;

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

pub use gather::{checks, gather_checked, reads_any_address};
pub use index::Indices;
pub use interpret::interpret;

/// Computes the outputs of a node. Everything was validated when the node was made.
pub fn execute(op: &Op, arguments: &mut Arguments<'_, '_>) {
    match op.by_family() {
        ByFamily::Elementwise(op) => elementwise::elementwise(op, arguments),
        ByFamily::AccumulateElements(op) => accumulate::accumulate_elements(op, arguments),
        ByFamily::AccumulateNd(op) => accumulate::accumulate_nd(op, arguments),
        ByFamily::Arg(op) => arg::arg(op, arguments),
        ByFamily::BatchNormalization(op) => normalization::batch_normalization(op, arguments),
        ByFamily::Bitcast(op) => bitcast::bitcast(op, arguments),
        ByFamily::BlockQuantizedMatmul(op) => block_quantized::block_quantized_matmul(op, arguments),
        ByFamily::CheckIndices(op) => movement::check_indices(op, arguments),
        ByFamily::Concat(op) => movement::concat(op, arguments),
        ByFamily::Conv2d(op) => conv::conv2d(op, arguments),
        ByFamily::ConvTranspose2d(op) => conv::conv_transpose2d(op, arguments),
        ByFamily::CumulativeProduct(op) => cumulative::cumulative_product(op, arguments),
        ByFamily::CumulativeSum(op) => cumulative::cumulative_sum(op, arguments),
        ByFamily::Determinant(op) => determinant::determinant(op, arguments),
        ByFamily::DynamicQuantizeLinear(op) => quantized::dynamic_quantize_linear(op, arguments),
        ByFamily::QuantizeAlong(op) => quantized::quantize_along(op, arguments),
        ByFamily::Expand(op) => movement::expand(op, arguments),
        ByFamily::ExpertMatmul(op) => expert_matmul::expert_matmul(op, arguments),
        ByFamily::Gather(op) => gather::gather(op, arguments),
        ByFamily::GatherElements(op) => gather::gather_elements(op, arguments),
        ByFamily::GatherNd(op) => gather::gather_nd(op, arguments),
        ByFamily::Gemm(op) => matmul::gemm(op, arguments),
        ByFamily::Gru(op) => recurrent::gru(op, arguments),
        ByFamily::GruCell(op) => recurrent::gru_cell(op, arguments),
        ByFamily::InstanceNormalization(op) => normalization::instance_normalization(op, arguments),
        ByFamily::IntegerMatmul(op) => matmul::integer_matmul(op, arguments),
        ByFamily::Inverse(op) => determinant::inverse(op, arguments),
        ByFamily::LayerNormalization(op) => normalization::layer_normalization(op, arguments),
        ByFamily::LinearAttention(op) => linear_attention::linear_attention(op, arguments),
        ByFamily::Lstm(op) => recurrent::lstm(op, arguments),
        ByFamily::LstmCell(op) => recurrent::lstm_cell(op, arguments),
        ByFamily::Matmul(op) => matmul::matmul(op, arguments),
        ByFamily::NormPool2d(op) => pool::norm_pool2d(op, arguments),
        ByFamily::Pad(op) => movement::pad(op, arguments),
        ByFamily::PairwiseCoupling(op) => coupling::pairwise_coupling(op, arguments),
        ByFamily::Pool2d(op) => pool::pool2d(op, arguments),
        ByFamily::QuantizedLstm(op) => quantized_lstm::quantized_lstm(op, arguments),
        ByFamily::QuantizedMatmul(op) => quantized::quantized_matmul(op, arguments),
        ByFamily::Reduce(op) => reduce::reduce(op, arguments),
        ByFamily::Resample2d(op) => resample::resample2d(op, arguments),
        ByFamily::Reshape(op) => movement::reshape(op, arguments),
        ByFamily::Reverse(op) => movement::reverse(op, arguments),
        ByFamily::RmsNormalization(op) => normalization::rms_normalization(op, arguments),
        ByFamily::RoiMaxPool(op) => roi::roi_max_pool(op, arguments),
        ByFamily::ScatterElements(op) => scatter::scatter_elements(op, arguments),
        ByFamily::ScatterNd(op) => scatter::scatter_nd(op, arguments),
        ByFamily::Slice(op) => movement::slice(op, arguments),
        ByFamily::Softmax(op) => softmax::softmax(op, arguments),
        ByFamily::Split(op) => movement::split(op, arguments),
        ByFamily::Tile(op) => movement::tile(op, arguments),
        ByFamily::TopK(op) => top_k::top_k(op, arguments),
        ByFamily::Transpose(op) => movement::transpose(op, arguments),
        ByFamily::TreeEnsemble(op) => tree::tree_ensemble(op, arguments),
        ByFamily::Triangular(op) => movement::triangular(op, arguments),
    }
}
