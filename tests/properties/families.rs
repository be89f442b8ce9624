//! What the tests know of each operator: how valid calls of it are drawn (`draw/`), and what they give (`oracle/`).

use crate::call::Call;
use crate::compare::Expected;
use crate::draw::{self, Draw};
use crate::oracle;
use webnn_node::graph::operator::Operator;
use webnn_node::graph::ops::elementwise_operators;

/// Draws the operands and options of a call.
type Drawing = fn(&mut Draw<'_>);
/// The outputs of a call.
type Outputs = fn(&Call) -> Vec<Expected>;

/// Of one operator. Element-wise operators need no line here: those of one operand are drawn like each other, and those of several are
/// broadcast.
pub fn of(row: &Operator) -> (Drawing, Outputs) {
    use draw::{convolution, indexed, matrices, movement, others, recurrent, reduction};
    match row.name {
        "accumulateElements" | "accumulateND" | "gather" | "gatherElements" | "gatherND" | "scatterElements" | "scatterND" => {
            (indexed::draw, |call| vec![oracle::indexed::output(call)])
        }
        "argMax" | "argMin" => (reduction::along_an_axis, |call| vec![oracle::reduction::arg(call)]),
        "averagePool2d" | "l2Pool2d" | "maxPool2d" | "normPool2d" => {
            (convolution::pool2d, |call| vec![oracle::pooling::pool2d(call)])
        }
        "batchNormalization" => (reduction::batch_normalization, |call| vec![oracle::normalization::normalize(call)]),
        "bitcast" => (others::bitcast, |call| vec![oracle::others::bitcast(call)]),
        "blockQuantizedMatmul" => (matrices::block_quantized, |call| vec![oracle::matrices::block_quantized(call)]),
        "checkIndices" => (others::check_indices, |call| vec![oracle::others::check_indices(call)]),
        "clamp" => (draw::elementwise::clamp, |call| vec![oracle::elementwise::output(call)]),
        "concat" => (movement::concat, |call| vec![oracle::movement::output(call)]),
        "conv2d" => (convolution::conv2d, |call| vec![oracle::convolution::conv2d(call)]),
        "convTranspose2d" => (convolution::conv_transpose2d, |call| vec![oracle::convolution::conv_transpose2d(call)]),
        "cumulativeProduct" => (reduction::along_an_axis, |call| vec![oracle::reduction::cumulative_product(call)]),
        "cumulativeSum" => (reduction::along_an_axis, |call| vec![oracle::reduction::cumulative_sum(call)]),
        "dequantizeLinear" | "quantizeLinear" => {
            (draw::elementwise::quantization, |call| vec![oracle::elementwise::output(call)])
        }
        "determinant" => (others::matrices, |call| vec![oracle::others::determinant(call)]),
        "dynamicQuantizeLinear" => (draw::elementwise::unary, oracle::elementwise::dynamic_quantization),
        "expand" => (movement::expand, |call| vec![oracle::movement::output(call)]),
        "expertMatmul" => (matrices::experts, |call| vec![oracle::matrices::experts(call)]),
        "gemm" => (matrices::gemm, |call| vec![oracle::matrices::gemm(call)]),
        "gru" | "gruCell" | "lstm" | "lstmCell" => (recurrent::draw, oracle::recurrent::outputs),
        "instanceNormalization" => (reduction::instance_normalization, |call| vec![oracle::normalization::normalize(call)]),
        "integerMatmul" => (matrices::matmul, |call| vec![oracle::matrices::integer_matmul(call)]),
        "inverse" => (others::matrices, |call| vec![oracle::others::inverse(call)]),
        "layerNormalization" | "rmsNormalization" => {
            (reduction::layer_normalization, |call| vec![oracle::normalization::normalize(call)])
        }
        "linearAttention" => (others::linear_attention, oracle::others::linear_attention),
        "matmul" => (matrices::matmul, |call| vec![oracle::matrices::matmul(call)]),
        "pad" => (movement::pad, |call| vec![oracle::movement::output(call)]),
        "pairwiseCoupling" => (others::pairwise_coupling, |call| vec![oracle::others::pairwise_coupling(call)]),
        "quantizedLstm" => (recurrent::quantized, oracle::recurrent::quantized),
        "quantizedMatmul" => (matrices::quantized, |call| vec![oracle::matrices::quantized(call)]),
        "quantizeAlong" => (reduction::along_an_axis, oracle::elementwise::quantization_along),
        name if name.starts_with("reduce") => (reduction::reduce, |call| vec![oracle::reduction::reduce(call)]),
        "resample2d" => (convolution::resample2d, |call| vec![oracle::pooling::resample2d(call)]),
        "reshape" => (movement::reshape, |call| vec![oracle::movement::output(call)]),
        "reverse" => (movement::reverse, |call| vec![oracle::movement::output(call)]),
        "roiMaxPool" => (others::roi_max_pool, |call| vec![oracle::others::roi_max_pool(call)]),
        "slice" => (movement::slice, |call| vec![oracle::movement::output(call)]),
        "softmax" => (reduction::along_an_axis, |call| vec![oracle::reduction::softmax(call)]),
        "split" => (movement::split, oracle::movement::split),
        "tile" => (movement::tile, |call| vec![oracle::movement::output(call)]),
        "topK" => (reduction::along_an_axis, oracle::reduction::top_k),
        "transpose" => (movement::transpose, |call| vec![oracle::movement::output(call)]),
        "treeEnsemble" => (others::tree_ensemble, |call| vec![oracle::others::tree_ensemble(call)]),
        "triangular" => (movement::triangular, |call| vec![oracle::movement::output(call)]),
        name => {
            let is_known = elementwise_operators().iter().any(|row| row.name == name);
            assert!(is_known, "tests/properties/families.rs has no line for {name}: how its calls are drawn and what they give");
            let drawing = if row.operands.len() == 1 { draw::elementwise::unary } else { draw::elementwise::broadcast };
            (drawing, |call| vec![oracle::elementwise::output(call)])
        }
    }
}
