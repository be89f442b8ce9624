//! The implementations of each operator, in the order in which they are asked: the first that accepts a problem computes it.
//! What none accepts is left to the reference kernels.

use super::{Build, Choice, Implementation, Problem, Target};
use crate::backend::cpu::kernels::*;
use crate::graph::{DataType, Op};

type List = &'static [&'static Implementation];

/// Lists by name, and all of them: what is switched off by name is looked for in these.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident: [$($implementation:expr),*];)*) => {
        $($(#[$doc])* static $name: List = &[$(&$implementation),*];)*
        static ALL: &[List] = &[$($name),*];
    };
}

lists! {
    /// Products of integers: those that are dequantized first ([`Problem::dequantized`]), and those of bytes.
    INTEGER_PRODUCTS: [integer::depthwise::BYTES, integer::depthwise::DEQUANTIZED, integer::PACKED, integer::computed::BATCHED];
    CAST: [quantize::CONVERT, elementwise::CHAIN];
    QUANTIZE: [quantize::CONVERT, quantize::DYNAMIC];
    ARG: [arg::ROWS, arg::columns::COLUMNS];
    CONCAT: [concat::COPY];
    TRANSPOSE_BYTES: [reorder::BYTES];
    TRANSPOSE: [reorder::MATRIX, reorder::interleave::INTERLEAVE];
    /// A product whose left operand is made in the same step.
    ATTENTION: [attention::BF16, attention::FUSED];
    /// A convolution whose image is made in the same step.
    FUSED_CONV: [expand_depthwise::EXPAND, scaled_filter::SCALED_FILTER];
    /// Products with weights of a few bits.
    BLOCK_QUANTIZED: [block_quantized::INT8, block_quantized::FLOAT32];
    MATMUL: [
        tall_and_skinny::TALL_AND_SKINNY,
        matmul::BF16,
        matmul::GEMV_BF16,
        matmul::PACKED,
        matmul::FEW_ROWS,
        matmul::BF16_BATCHED,
        matmul::BATCHED
    ];
    CONV: [
        depthwise::DEPTHWISE,
        expand_depthwise::MULTIPLIER,
        few_outputs::FEW_OUTPUTS,
        small_groups::SMALL_GROUPS,
        first_layer::FIRST_LAYER,
        winograd::F2,
        winograd::F4,
        matmul::POINTWISE_BF16,
        matmul::CONV_BF16,
        conv::POINTWISE_BF16,
        conv::INDIRECT_BF16,
        conv::POINTWISE,
        conv::INDIRECT
    ];
    CONV_TRANSPOSE: [conv_transpose::PHASES, conv_transpose_nchw::NCHW];
    REDUCE: [reduce::REDUCE];
    POOL: [pool::WINDOWS, reduce::GLOBAL_POOL];
    RESAMPLE: [resample::NHWC, resample::planes::NCHW];
    ELEMENTWISE: [elementwise::CHAIN];
    SOFTMAX: [softmax_columns::COLUMNS, row_normalization::SOFTMAX, softmax_columns::SHORT_ROWS];
    LAYER_NORMALIZATION: [row_normalization::LAYER_NORMALIZATION];
    RMS_NORMALIZATION: [row_normalization::RMS_NORMALIZATION];
    INSTANCE_NORMALIZATION: [row_normalization::INSTANCE_NORMALIZATION];
    RECURRENT: [recurrent::BF16, recurrent::CELLS, integer::lstm::CELLS];
    EXPERTS: [expert_matmul::CHOSEN];
    LINEAR_ATTENTION: [linear_attention::RECURRENCE];
}

static NONE: List = &[];

/// All implementations, each once.
pub fn implementations() -> impl Iterator<Item = &'static Implementation> {
    let mut seen: Vec<&str> = Vec::new();
    ALL.iter().flat_map(|list| list.iter().copied()).filter(move |implementation| {
        let is_new = !seen.contains(&implementation.name);
        seen.push(implementation.name);
        is_new
    })
}

/// The list for a problem.
fn list(problem: &Problem<'_>) -> List {
    if !problem.dequantized.is_empty() || matches!(problem.op, Op::QuantizedMatmul(_)) {
        return INTEGER_PRODUCTS;
    }
    let is_float = problem.output.data_type == DataType::Float32;
    match problem.op {
        Op::QuantizeLinear(_) | Op::DequantizeLinear(_) | Op::DynamicQuantizeLinear(_) => QUANTIZE,
        Op::Cast(_) => CAST,
        Op::Arg(_) => ARG,
        Op::Concat(_) => CONCAT,
        Op::Transpose(_) if !is_float => TRANSPOSE_BYTES,
        _ if !is_float => NONE,
        Op::Matmul(_) if !problem.prologue.is_empty() => ATTENTION,
        Op::Conv2d(_) if !problem.prologue.is_empty() => FUSED_CONV,
        Op::BlockQuantizedMatmul(_) => BLOCK_QUANTIZED,
        Op::Matmul(_) | Op::Gemm(_) => MATMUL,
        Op::Conv2d(_) => CONV,
        Op::ConvTranspose2d(_) => CONV_TRANSPOSE,
        Op::Reduce(_) => REDUCE,
        Op::Pool2d(_) => POOL,
        Op::Transpose(_) => TRANSPOSE,
        Op::Resample2d(_) => RESAMPLE,
        Op::Binary(_)
        | Op::Unary(_)
        | Op::Activation(_)
        | Op::Clamp(_)
        | Op::Elu(_)
        | Op::Gate(_)
        | Op::LeakyRelu(_)
        | Op::HardSigmoid(_)
        | Op::Linear(_)
        | Op::Prelu(_)
        | Op::ReplaceNan(_)
        | Op::Swish(_) => ELEMENTWISE,
        Op::Softmax(_) => SOFTMAX,
        Op::LayerNormalization(_) => LAYER_NORMALIZATION,
        Op::RmsNormalization(_) => RMS_NORMALIZATION,
        Op::InstanceNormalization(_) => INSTANCE_NORMALIZATION,
        Op::Lstm(_) | Op::Gru(_) | Op::QuantizedLstm(_) => RECURRENT,
        Op::ExpertMatmul(_) => EXPERTS,
        Op::LinearAttention(_) => LINEAR_ATTENTION,
        _ => NONE,
    }
}

/// What computes a problem, and how that is built; nothing to build where it is left to the reference kernels.
pub fn choose<'a>(problem: &Problem<'a>, target: &Target) -> (Choice, Option<Build<'a>>) {
    let mut choice = Choice::reference();
    if !target.has_kernels() {
        return (choice, None);
    }
    for implementation in list(problem) {
        if !target.switches.is_on(implementation.name) {
            choice.reject(implementation.name, super::Reject("switched off by WEBNN_IMPL"));
            continue;
        }
        match (implementation.accept)(problem, target) {
            Ok(build) => {
                choice.name = implementation.name;
                return (choice, Some(build));
            }
            Err(reject) => choice.reject(implementation.name, reject),
        }
    }
    (choice, None)
}

/// The one that is chosen, built.
#[cfg(test)]
pub fn first(problem: &Problem<'_>, target: &Target) -> super::Built {
    let (choice, build) = choose(problem, target);
    let build = build.unwrap_or_else(|| panic!("no kernel for {:?}: {:?}", problem.op, choice.rejected));
    build().expect("memory for a small kernel")
}

/// Every implementation that accepts a problem, built.
#[cfg(test)]
pub fn every(problem: &Problem<'_>, target: &Target) -> Vec<(&'static str, super::Built)> {
    let accepted = list(problem).iter().filter_map(|implementation| {
        let build = (implementation.accept)(problem, target).ok()?;
        Some((implementation.name, build().expect("memory for a small kernel")))
    });
    accepted.collect()
}

/// The faster ways to compute a step on float32 that take memory beyond its constants, by the shapes of its operands.
pub fn workspaces(op: &Op, inputs: &[&[usize]], output: &[usize], target: &Target) -> Workspaces {
    match op {
        Op::Conv2d(op) if target.has_kernels() => winograd::workspaces(op, inputs[op.filter.0 as usize], output, target),
        _ => Workspaces::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_an_operator_and_an_algorithm() {
        for implementation in implementations() {
            let is_word =
                |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            let (family, algorithm) = implementation.name.split_once('.').expect("a dot");
            assert!(is_word(family) && is_word(algorithm), "{}", implementation.name);
        }
        assert!(implementations().count() > 30);
    }
}
