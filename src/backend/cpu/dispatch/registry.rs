//! The implementations of each operator, in the order in which they are asked: the first that accepts a problem computes it.
//! What none accepts is left to the reference kernels.

use super::{Build, Choice, Implementation, Problem, Target};
use crate::backend::cpu::kernels::*;
use crate::graph::ops::{ByFamily, Elementwise};
use crate::graph::{DataType, Op};

type List = &'static [&'static Implementation];

/// Lists by name, and all of them: what is switched off by name is looked for in these.
macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident: [$($implementation:expr),*];)*) => {
        $($(#[$doc])* static $name: List = &[$(&$implementation),*];)*
        static ALL: &[List] = &[$($name),*];
        #[cfg(test)]
        static STATICS: &[(&str, &Implementation)] = &[$($((stringify!($implementation), &$implementation)),*),*];
    };
}

lists! {
    /// Products of integers: those that are dequantized first ([`Problem::dequantized`]), and those of bytes.
    INTEGER_PRODUCTS: [integer::depthwise::DEPTHWISE, integer::depthwise::DEPTHWISE_DEQUANTIZED, integer::PACKED, integer::computed::BATCHED];
    CAST: [quantize::CONVERT, elementwise::CHAIN];
    QUANTIZE: [quantize::CONVERT, quantize::DYNAMIC, quantize_lines::LINES];
    ARG: [arg::ROWS, arg::columns::COLUMNS];
    CONCAT: [concat::COPY];
    TRANSPOSE_BYTES: [reorder::BYTES];
    TRANSPOSE: [reorder::MATRIX, reorder::interleave::INTERLEAVE];
    /// A product whose left operand is made in the same step.
    ATTENTION: [attention::BF16, attention::FUSED];
    /// A convolution whose image is made in the same step.
    FUSED_CONV: [expand_depthwise::EXPAND_DEPTHWISE, scaled_filter::SCALED_FILTER];
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
        expand_depthwise::DEPTHWISE_MULTIPLIER,
        few_outputs::FEW_OUTPUTS,
        small_groups::SMALL_GROUPS,
        first_layer::FIRST_LAYER,
        winograd::WINOGRAD_F2,
        winograd::WINOGRAD_F4,
        matmul::POINTWISE_BF16_GEMM,
        matmul::CONV_BF16_GEMM,
        conv::POINTWISE_BF16,
        conv::INDIRECT_BF16,
        conv::POINTWISE,
        conv::INDIRECT
    ];
    CONV_TRANSPOSE: [conv_transpose::PHASES, conv_transpose_nchw::NCHW];
    REDUCE: [reduce::AXES];
    POOL: [pool::NHWC, reduce::GLOBAL_NCHW];
    RESAMPLE: [resample::NHWC, resample::planes::NCHW];
    ELEMENTWISE: [elementwise::CHAIN];
    SOFTMAX: [softmax_columns::COLUMNS, row_normalization::SOFTMAX_ROWS, softmax_columns::SHORT_ROWS];
    LAYER_NORMALIZATION: [row_normalization::LAYER_NORMALIZATION_ROWS];
    RMS_NORMALIZATION: [row_normalization::RMS_NORMALIZATION_ROWS];
    INSTANCE_NORMALIZATION: [row_normalization::INSTANCE_NORMALIZATION_NCHW];
    RECURRENT: [recurrent::BF16, recurrent::CELLS, integer::lstm::QUANTIZED];
    EXPERTS: [expert_matmul::CHOSEN];
    LINEAR_ATTENTION: [linear_attention::COLUMNS];
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
    let is_float = problem.output.data_type == DataType::Float32;
    let has_prologue = !problem.prologue.is_empty();
    if !problem.dequantized.is_empty() {
        return if has_prologue { ATTENTION } else { INTEGER_PRODUCTS };
    }
    let of_floats = |list| if is_float { list } else { NONE };
    match problem.op.by_family() {
        ByFamily::Elementwise(Elementwise::QuantizeLinear(_) | Elementwise::DequantizeLinear(_)) => QUANTIZE,
        ByFamily::Elementwise(Elementwise::Cast(_)) => CAST,
        ByFamily::Elementwise(_) => of_floats(ELEMENTWISE),
        ByFamily::Arg(_) => ARG,
        ByFamily::BlockQuantizedMatmul(_) => of_floats(BLOCK_QUANTIZED),
        ByFamily::Concat(_) => CONCAT,
        ByFamily::Conv2d(_) => of_floats(if has_prologue { FUSED_CONV } else { CONV }),
        ByFamily::ConvTranspose2d(_) => of_floats(CONV_TRANSPOSE),
        ByFamily::DynamicQuantizeLinear(_) | ByFamily::QuantizeAlong(_) => QUANTIZE,
        ByFamily::ExpertMatmul(_) => of_floats(EXPERTS),
        ByFamily::Gemm(_) => of_floats(MATMUL),
        ByFamily::Gru(_) | ByFamily::Lstm(_) | ByFamily::QuantizedLstm(_) => of_floats(RECURRENT),
        ByFamily::InstanceNormalization(_) => of_floats(INSTANCE_NORMALIZATION),
        ByFamily::LayerNormalization(_) => of_floats(LAYER_NORMALIZATION),
        ByFamily::LinearAttention(_) => of_floats(LINEAR_ATTENTION),
        ByFamily::Matmul(_) => of_floats(if has_prologue { ATTENTION } else { MATMUL }),
        ByFamily::Pool2d(_) => of_floats(POOL),
        ByFamily::QuantizedMatmul(_) => INTEGER_PRODUCTS,
        ByFamily::Reduce(_) => of_floats(REDUCE),
        ByFamily::Resample2d(_) => of_floats(RESAMPLE),
        ByFamily::RmsNormalization(_) => of_floats(RMS_NORMALIZATION),
        ByFamily::Softmax(_) => of_floats(SOFTMAX),
        ByFamily::Transpose(_) => {
            if is_float {
                TRANSPOSE
            } else {
                TRANSPOSE_BYTES
            }
        }
        // These have the reference kernels alone.
        ByFamily::AccumulateElements(_)
        | ByFamily::AccumulateNd(_)
        | ByFamily::BatchNormalization(_)
        | ByFamily::Bitcast(_)
        | ByFamily::CheckIndices(_)
        | ByFamily::CumulativeProduct(_)
        | ByFamily::CumulativeSum(_)
        | ByFamily::Determinant(_)
        | ByFamily::Expand(_)
        | ByFamily::Gather(_)
        | ByFamily::GatherElements(_)
        | ByFamily::GatherNd(_)
        | ByFamily::GruCell(_)
        | ByFamily::IntegerMatmul(_)
        | ByFamily::Inverse(_)
        | ByFamily::LstmCell(_)
        | ByFamily::NormPool2d(_)
        | ByFamily::Pad(_)
        | ByFamily::PairwiseCoupling(_)
        | ByFamily::Reshape(_)
        | ByFamily::Reverse(_)
        | ByFamily::RoiMaxPool(_)
        | ByFamily::ScatterElements(_)
        | ByFamily::ScatterNd(_)
        | ByFamily::Slice(_)
        | ByFamily::Split(_)
        | ByFamily::Tile(_)
        | ByFamily::TopK(_)
        | ByFamily::TreeEnsemble(_)
        | ByFamily::Triangular(_) => NONE,
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

    /// So that who reads a name in a profile finds the file by it: `conv.depthwise` is `DEPTHWISE`, or `CONV_DEPTHWISE` where the file
    /// has other families.
    #[test]
    fn statics_are_named_as_their_implementations() {
        for (path, implementation) in STATICS {
            let name = path.rsplit("::").next().unwrap().trim().to_lowercase();
            let (family, algorithm) = implementation.name.split_once('.').expect("a dot");
            assert!(name == algorithm || name == format!("{family}_{algorithm}"), "{path} is {}", implementation.name);
        }
    }
}
