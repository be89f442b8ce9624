//! The one table of ONNX operators: which function maps which operator of which domain and versions.
//!
//! A mapping function gets the node with its inputs and puts WebNN nodes into the graph. Differences between versions are
//! its own matter; the table says between which versions the operator exists.

#[cfg(test)]
mod accepted_tests;
mod activation;
mod attention;
mod bias;
mod bits;
mod causal_conv;
mod cells;
mod columns;
mod conv;
#[cfg(test)]
mod definition_tests;
mod deform;
mod elementwise;
mod experts;
#[cfg(test)]
mod function_tests;
mod functions;
mod fused;
mod gather;
mod generate;
mod image_pool;
mod lengths;
mod linear_attention;
mod magnitude;
mod matmul;
#[cfg(test)]
mod matmul_tests;
mod ml;
mod movement;
pub mod narrow;
mod nbits;
mod network;
mod normalization;
#[cfg(test)]
mod not_finite_tests;
pub mod options;
mod order;
mod place;
mod pool;
pub mod precision;
mod qlinear;
mod quantize;
mod random;
#[cfg(test)]
mod read_tests;
mod recurrent;
mod reduce;
mod resize;
mod roi_align;
mod rotary;
mod sample;
mod selection;
mod sequence;
mod spectrum;
mod top_k;
mod trigonometry;
mod unpool;
mod volume;
mod window;

pub use movement::expanded;

use super::OPSETS;
use super::emit::Emit;
use super::file::Model;
use super::importer::normalized;
use super::node::Node;
use super::protobuf::NodeProto;
use super::refusal::Mapped;
use super::value::Value;
use options::Options;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Maps a node; the values of its outputs.
pub type Map = fn(&Node<'_>, &mut Emit<'_>) -> Mapped<Vec<Value>>;

/// A row of the table.
pub struct Entry {
    pub domain: &'static str,
    pub operator: &'static str,
    /// The first version of the domain that has the operator, and the last one.
    pub versions: (i64, i64),
    pub map: Map,
}

/// Operators whose results have a size that only the elements of their inputs tell, and random numbers: no graph computes them
/// ([`super::step`]).
pub const ON_HOST: [&str; 10] = [
    "Bernoulli",
    "Multinomial",
    "NonMaxSuppression",
    "NonZero",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "RoiAlign",
    "Unique",
];

/// Operators that take sequences, or optional values without content.
const TAKE_SEQUENCES: [&str; 9] = [
    "ConcatFromSequence",
    "Identity",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
];

impl Entry {
    /// Whether a node that is given what only a run can tell is left to whoever runs the model.
    pub fn is_on_host(&self) -> bool {
        self.domain.is_empty() && ON_HOST.contains(&self.operator)
    }

    /// Whether it gives other numbers each time.
    pub fn is_random(&self) -> bool {
        self.is_on_host() && (self.operator.starts_with("Random") || matches!(self.operator, "Bernoulli" | "Multinomial"))
    }

    pub fn takes_sequences(&self) -> bool {
        self.domain.is_empty() && TAKE_SEQUENCES.contains(&self.operator)
    }
}

/// A version that is not known yet.
const ANY: i64 = i64::MAX;

macro_rules! table {
    ($( $domain:literal { $( $operator:literal $first:literal $(..= $last:literal)? => $map:path, )* } )*) => {
        &[ $( $( Entry {
            domain: $domain,
            operator: $operator,
            versions: ($first, table!(@last $($last)?)),
            map: $map,
        }, )* )* ]
    };
    (@last) => { ANY };
    (@last $last:literal) => { $last };
}

pub static TABLE: &[Entry] = table! {
    "" {
        "Abs" 1 => elementwise::unary,
        "Acos" 7 => trigonometry::inverse,
        "Acosh" 9 => trigonometry::inverse,
        "Add" 1 => elementwise::binary,
        "AffineGrid" 20 => sample::affine_grid,
        "And" 1 => elementwise::comparison,
        "ArgMax" 1 => reduce::arg,
        "ArgMin" 1 => reduce::arg,
        "Asin" 7 => trigonometry::inverse,
        "Asinh" 9 => trigonometry::inverse,
        "Atan" 7 => trigonometry::inverse,
        "Atanh" 9 => trigonometry::inverse,
        "Attention" 23 => attention::standard,
        "AveragePool" 1 => pool::pool,
        "BatchNormalization" 1 => normalization::batch,
        "Bernoulli" 15 => random::bernoulli,
        "BitCast" 26 => bits::cast,
        "BitShift" 11 => bits::shift,
        "BitwiseAnd" 18 => bits::binary,
        "BitwiseNot" 18 => bits::not,
        "BitwiseOr" 18 => bits::binary,
        "BitwiseXor" 18 => bits::binary,
        "BlackmanWindow" 17 => spectrum::window,
        "Cast" 1 => elementwise::cast,
        "CastLike" 15 => elementwise::cast_like,
        "CausalConvWithState" 27 => causal_conv::with_state,
        "Ceil" 1 => elementwise::unary,
        "Celu" 12 => activation::celu,
        "CenterCropPad" 18 => movement::center_crop_pad,
        "Clip" 1 => elementwise::clip,
        "Col2Im" 18 => columns::col2im,
        "Compress" 9 => order::compress,
        "Concat" 1 => movement::concat,
        "ConcatFromSequence" 11 => sequence::concat,
        "Constant" 1 => generate::constant,
        "ConstantOfShape" 9 => generate::constant_of_shape,
        "Conv" 1 => conv::conv,
        "ConvInteger" 10 => quantize::conv_integer,
        "ConvTranspose" 1 => conv::conv_transpose,
        "Cos" 7 => elementwise::unary,
        "Cosh" 9 => trigonometry::hyperbolic,
        "CumProd" 26 => generate::cumulative_product,
        "CumSum" 11 => generate::cumulative_sum,
        "DFT" 17 => spectrum::dft,
        "DeformConv" 19 => deform::deform_conv,
        "DepthToSpace" 1 => movement::depth_to_space,
        "DequantizeLinear" 10 => quantize::dequantize,
        "Det" 11 => matmul::determinant,
        "Div" 1 => elementwise::binary,
        "Dropout" 1 => activation::dropout,
        "DynamicQuantizeLinear" 11 => quantize::dynamic,
        "Einsum" 12 => matmul::einsum,
        "Elu" 1 => activation::elu,
        "Equal" 1 => elementwise::comparison,
        "Erf" 9 => elementwise::unary,
        "Exp" 1 => elementwise::unary,
        "Expand" 8 => movement::expand,
        "EyeLike" 9 => generate::eye_like,
        "Flatten" 1 => movement::flatten,
        "Floor" 1 => elementwise::unary,
        "GRU" 1 => recurrent::gru,
        "Gather" 1 => gather::gather,
        "GatherElements" 11 => gather::gather_elements,
        "GatherND" 11 => gather::gather_nd,
        "Gelu" 20 => activation::gelu,
        "Gemm" 1 => matmul::gemm,
        "GlobalAveragePool" 1 => pool::global,
        "GlobalLpPool" 1 => pool::global,
        "GlobalMaxPool" 1 => pool::global,
        "Greater" 1 => elementwise::comparison,
        "GreaterOrEqual" 12 => elementwise::comparison,
        "GridSample" 16 => sample::grid_sample,
        "GroupNormalization" 18 => normalization::group,
        "HammingWindow" 17 => spectrum::window,
        "HannWindow" 17 => spectrum::window,
        "HardSigmoid" 1 => activation::hard_sigmoid,
        "HardSwish" 14 => activation::plain,
        "Hardmax" 1 => order::hardmax,
        "Identity" 1 => activation::identity,
        "InstanceNormalization" 1 => normalization::instance,
        "IsInf" 10 => elementwise::is_inf,
        "IsNaN" 9 => elementwise::is_nan,
        "LRN" 1 => normalization::local_response,
        "LSTM" 1 => recurrent::lstm,
        "LayerNormalization" 1 => normalization::layer,
        "LeakyRelu" 1 => activation::leaky_relu,
        "Less" 1 => elementwise::comparison,
        "LessOrEqual" 12 => elementwise::comparison,
        "LinearAttention" 27 => linear_attention::linear_attention,
        "Log" 1 => elementwise::unary,
        "LogSoftmax" 1 => reduce::softmax,
        "LpNormalization" 1 => normalization::lp,
        "LpPool" 1 => pool::pool,
        "MatMul" 1 => matmul::matmul,
        "MatMulInteger" 10 => quantize::matmul_integer,
        "Max" 1 => elementwise::variadic,
        "MaxPool" 1 => pool::pool,
        "MaxRoiPool" 1 => deform::max_roi_pool,
        "MaxUnpool" 9 => unpool::max_unpool,
        "Mean" 1 => elementwise::variadic,
        "MeanVarianceNormalization" 9 => normalization::mean_variance,
        "MelWeightMatrix" 17 => spectrum::mel_weights,
        "Min" 1 => elementwise::variadic,
        "Mish" 18 => activation::mish,
        "Mod" 10 => elementwise::modulo,
        "Mul" 1 => elementwise::binary,
        "Multinomial" 7 => random::multinomial,
        "Neg" 1 => elementwise::unary,
        "NonMaxSuppression" 10 => selection::non_max_suppression,
        "NonZero" 9 => generate::non_zero,
        "Not" 1 => elementwise::not,
        "OneHot" 9 => gather::one_hot,
        "Optional" 15 => sequence::optional,
        "OptionalGetElement" 15 => sequence::get_element,
        "OptionalHasElement" 15 => sequence::has_element,
        "Or" 1 => elementwise::comparison,
        "PRelu" 1 => activation::prelu,
        "Pad" 1 => movement::pad,
        "Pow" 1 => elementwise::pow,
        "QLinearConv" 10 => qlinear::conv,
        "QLinearMatMul" 10 => qlinear::matmul,
        "QuantizeLinear" 10 => quantize::quantize,
        "RMSNormalization" 23 => normalization::root_mean_square,
        "RNN" 1 => recurrent::rnn,
        "RandomNormal" 1 => random::normal,
        "RandomNormalLike" 1 => random::normal,
        "RandomUniform" 1 => random::uniform,
        "RandomUniformLike" 1 => random::uniform,
        "Range" 11 => generate::range,
        "Reciprocal" 1 => elementwise::unary,
        "ReduceL1" 1 => reduce::reduce,
        "ReduceL2" 1 => reduce::reduce,
        "ReduceLogSum" 1 => reduce::reduce,
        "ReduceLogSumExp" 1 => reduce::reduce,
        "ReduceMax" 1 => reduce::reduce,
        "ReduceMean" 1 => reduce::reduce,
        "ReduceMin" 1 => reduce::reduce,
        "ReduceProd" 1 => reduce::reduce,
        "ReduceSum" 1 => reduce::reduce,
        "ReduceSumSquare" 1 => reduce::reduce,
        "Relu" 1 => activation::plain,
        "Reshape" 5 => movement::reshape,
        "Resize" 10 => resize::resize,
        "ReverseSequence" 10 => order::reverse_sequence,
        "RoiAlign" 10 => roi_align::roi_align,
        "RotaryEmbedding" 23 => rotary::standard,
        "Round" 11 => elementwise::unary,
        "STFT" 17 => spectrum::stft,
        "Scatter" 9 ..= 10 => gather::scatter_elements,
        "ScatterElements" 11 => gather::scatter_elements,
        "ScatterND" 11 => gather::scatter_nd,
        "Selu" 1 => activation::selu,
        "SequenceAt" 11 => sequence::at,
        "SequenceConstruct" 11 => sequence::construct,
        "SequenceEmpty" 11 => sequence::empty,
        "SequenceErase" 11 => sequence::erase,
        "SequenceInsert" 11 => sequence::insert,
        "SequenceLength" 11 => sequence::length,
        "Shape" 1 => generate::shape,
        "Shrink" 9 => activation::shrink,
        "Sigmoid" 1 => activation::plain,
        "Sign" 9 => elementwise::unary,
        "SimplifiedLayerNormalization" 1 => normalization::root_mean_square,
        "Sin" 7 => elementwise::unary,
        "Sinh" 9 => trigonometry::hyperbolic,
        "Size" 1 => generate::size,
        "Slice" 1 => movement::slice,
        "Softmax" 1 => reduce::softmax,
        "Softplus" 1 => activation::plain,
        "Softsign" 1 => activation::plain,
        "SpaceToDepth" 1 => movement::space_to_depth,
        "Split" 2 => movement::split,
        "SplitToSequence" 11 => sequence::split,
        "Sqrt" 1 => elementwise::unary,
        "Squeeze" 1 => movement::squeeze,
        "Sub" 1 => elementwise::binary,
        "Sum" 1 => elementwise::variadic,
        "SwiGLU" 28 => fused::swiglu,
        "Swish" 24 => activation::swish,
        "Tan" 7 => elementwise::unary,
        "Tanh" 1 => activation::plain,
        "TensorScatter" 24 => gather::tensor_scatter,
        "ThresholdedRelu" 10 => activation::thresholded_relu,
        "Tile" 6 => movement::tile,
        "TopK" 1 => top_k::top_k,
        "Transpose" 1 => movement::transpose,
        "Trilu" 14 => movement::trilu,
        "Unique" 11 => selection::unique,
        "Unsqueeze" 1 => movement::unsqueeze,
        "Upsample" 7 ..= 9 => resize::resize,
        "Where" 9 => elementwise::select,
        "Xor" 1 => elementwise::comparison,
    }
    "ai.onnx.ml" {
        "ArrayFeatureExtractor" 1 => ml::array_feature_extractor,
        "Binarizer" 1 => ml::binarizer,
        "Imputer" 1 => ml::imputer,
        "LabelEncoder" 1 => ml::label_encoder,
        "LinearClassifier" 1 => ml::linear_classifier,
        "LinearRegressor" 1 => ml::linear_regressor,
        "Normalizer" 1 => ml::normalizer,
        "OneHotEncoder" 1 => ml::one_hot_encoder,
        "SVMClassifier" 1 => ml::svm_classifier,
        "SVMRegressor" 1 => ml::svm_regressor,
        "Scaler" 1 => ml::scaler,
        "TreeEnsemble" 5 => ml::tree_ensemble,
        "TreeEnsembleClassifier" 1 => ml::tree_ensemble_classifier,
        "TreeEnsembleRegressor" 1 => ml::tree_ensemble_regressor,
    }
    "com.microsoft" {
        "Attention" 1 => attention::packed,
        "BiasAdd" 1 => fused::bias,
        "BiasGelu" 1 => activation::bias_gelu,
        "BiasSoftmax" 1 => bias::softmax,
        "BiasSplitGelu" 1 => fused::bias,
        "CausalConvWithState" 1 => causal_conv::with_state,
        "DecoderMaskedMultiHeadAttention" 1 => attention::decoder_masked,
        "DequantizeLinear" 1 => quantize::dequantize,
        "DynamicQuantizeLSTM" 1 => qlinear::lstm,
        "DynamicQuantizeMatMul" 1 => qlinear::matmul_to_float,
        "EmbedLayerNormalization" 1 => fused::embed,
        "ExpandDims" 1 => movement::unsqueeze,
        "FastGelu" 1 => activation::bias_gelu,
        "FusedConv" 1 => fused::conv,
        "FusedGemm" 1 => fused::gemm,
        "FusedMatMul" 1 => matmul::fused_matmul,
        "GatedAdd" 1 => linear_attention::gated_add,
        "GatedDeltaNet" 1 => linear_attention::gated_delta_net,
        "GatedRMSNorm" 1 => linear_attention::gated_norm,
        "GatherBlockQuantized" 1 => nbits::gather,
        "GatherND" 1 => gather::gather_nd,
        "Gelu" 1 => activation::gelu,
        "GridSample" 1 => sample::grid_sample,
        "GroupNorm" 1 => normalization::contributed_group,
        "GroupQueryAttention" 1 => attention::group_query,
        "Inverse" 1 => matmul::inverse,
        "LinearAttention" 1 => linear_attention::linear_attention,
        "LinearAttentionGate" 1 => linear_attention::gate,
        "MRotaryEmbedding" 1 => rotary::multimodal,
        "MatMulBnb4" 1 => nbits::bnb4,
        "MatMulInteger16" 1 => quantize::matmul_integer_16,
        "MatMulIntegerToFloat" 1 => qlinear::matmul_to_float,
        "MatMulNBits" 1 => nbits::matmul,
        "MoE" 1 => experts::mixture,
        "MultiHeadAttention" 1 => attention::multi_head,
        "NhwcConv" 1 => fused::channels_last_conv,
        "Pad" 1 => movement::pad,
        "PagedAttention" 1 => attention::paged,
        "QAttention" 1 => attention::quantized,
        "QGemm" 1 => qlinear::gemm,
        "QLinearAdd" 1 => qlinear::binary,
        "QLinearAveragePool" 1 => qlinear::average,
        "QLinearConcat" 1 => qlinear::concat,
        "QLinearGlobalAveragePool" 1 => qlinear::average,
        "QLinearLeakyRelu" 1 => qlinear::activation,
        "QLinearMul" 1 => qlinear::binary,
        "QLinearReduceMean" 1 => qlinear::mean,
        "QLinearSigmoid" 1 => qlinear::activation,
        "QLinearSoftmax" 1 => qlinear::activation,
        "QLinearWhere" 1 => qlinear::select,
        "QMoE" 1 => experts::quantized,
        "QuantizeLinear" 1 => quantize::quantize,
        "QuickGelu" 1 => activation::swish,
        "RelativePositionBias" 1 => bias::relative_position,
        "RotaryEmbedding" 1 => rotary::contributed,
        "SimplifiedLayerNormalization" 1 => normalization::root_mean_square,
        "SkipGroupNorm" 1 => normalization::contributed_group,
        "SkipLayerNormalization" 1 => normalization::skip_layer,
        "SkipSimplifiedLayerNormalization" 1 => normalization::skip_layer,
        "SparseAttention" 1 => attention::sparse,
        "Trilu" 1 => movement::trilu,
        "VarlenCausalConvWithState" 1 => causal_conv::of_several,
    }
};

/// Domains that are there though a model does not name them, with the versions that are meant then.
pub const UNNAMED: [(&str, i64); 2] = [("ai.onnx.ml", 5), ("com.microsoft", 1)];

/// The oldest version of the standard's operators.
pub const OLDEST: i64 = 1;

/// Before version 7 of the standard's operators, those that mean what they mean in version 7, and since when. Others had attributes for
/// broadcasting, or computed something else where nothing was said.
const SINCE: [(i64, &str); 5] = [
    (
        1,
        "ArgMax ArgMin Constant Conv ConvTranspose DepthToSpace Flatten Gather GlobalAveragePool GlobalMaxPool Hardmax Identity LRN \
         LogSoftmax LpNormalization MatMul MaxPool Not ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin \
         ReduceProd ReduceSum ReduceSumSquare Shape Size Slice Softmax Softplus Softsign SpaceToDepth Squeeze Transpose Unsqueeze",
    ),
    (2, "GlobalLpPool LpPool Pad Split"),
    (4, "Concat"),
    (5, "Reshape"),
    (
        6,
        "Abs Cast Ceil Clip Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Neg Reciprocal Relu Selu Sigmoid \
         Sqrt Sum Tanh Tile",
    ),
];

/// A row, and what a node of it may have.
#[derive(Clone, Copy)]
pub struct Row {
    pub entry: &'static Entry,
    pub options: Option<&'static Options>,
}

/// The rows by domain and operator. Importing asks for every node, and all of it is done again for each new shape: halving the table
/// was a quarter of a plan of MiniLM (385 nodes, Zen 5), since strings are compared that other work has driven out of the cache.
static ROWS: LazyLock<HashMap<(&str, &str), Row>> = LazyLock::new(|| {
    let row = |entry: &'static Entry| Row { entry, options: options::of(entry.domain, entry.operator) };
    TABLE.iter().map(|entry| ((entry.domain, entry.operator), row(entry))).collect()
});

/// The row of an operator, by its normalized domain.
pub fn find(domain: &str, operator: &str, version: Option<i64>) -> Mapped<Row> {
    let Some(&row) = ROWS.get(&(domain, operator)) else {
        return Err(unknown(domain, operator).into());
    };
    let Some(version) = version else {
        return Err("the model does not say which version of the domain it uses".into());
    };
    let (first, last) = row.entry.versions;
    if !(first..=last).contains(&version) {
        let until = if last == ANY { String::new() } else { format!(" to {last}") };
        return Err(format!("the operator exists in versions {first}{until} of the domain").into());
    }
    if domain.is_empty() && version < *OPSETS.start() {
        let since = SINCE.iter().find(|(_, names)| names.split(' ').any(|name| name == operator));
        let since = since.map_or(*OPSETS.start(), |(since, _)| *since);
        if version < since {
            return Err(format!("the operator was another one before version {since} of the domain").into());
        }
    }
    Ok(row)
}

/// Does before any graph is made of a node what all of them share, so that no run waits for it: the nodes of an ensemble of trees may be
/// millions. What is wrong with it is said when a graph is made.
pub fn prepare(proto: &NodeProto, opsets: &HashMap<String, i64>, model: &Model) {
    let domain = normalized(&proto.domain);
    if domain != "ai.onnx.ml" || !proto.op_type.starts_with("TreeEnsemble") {
        return;
    }
    let version = opsets.get(domain).copied();
    if let Ok(Row { options, .. }) = find(domain, &proto.op_type, version) {
        let (inputs, needed) = (Vec::new(), HashSet::new());
        ml::prepare(&Node { proto, version: version.unwrap_or(1), inputs, options, needed: &needed, model });
    }
}

fn unknown(domain: &str, operator: &str) -> String {
    let because = match operator {
        "ZipMap" => {
            "maps are not supported: convert the model with options={'zipmap': False}, so that its probabilities are a tensor"
        }
        "DictVectorizer" | "CastMap" => "maps are not supported",
        "CategoryMapper" => "strings are not supported",
        name if name.starts_with("String") || name == "RegexFullMatch" || name == "TfIdfVectorizer" => {
            "strings are not supported"
        }
        _ if !TABLE.iter().any(|entry| entry.domain == domain) => "the domain is not supported",
        _ => "the operator is not supported",
    };
    because.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        let keys: Vec<_> = TABLE.iter().map(|entry| (entry.domain, entry.operator)).collect();
        assert!(keys.is_sorted());
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// Not in the package, so it is read when the test runs.
    #[test]
    fn the_documentation_lists_every_row() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/onnx-operators.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (standard, others) = text.split_once("## ai.onnx.ml").unwrap();
        let (learning, contributed) = others.split_once("## com.microsoft").unwrap();
        for entry in TABLE {
            let section = match entry.domain {
                "" => standard,
                "ai.onnx.ml" => learning,
                _ => contributed,
            };
            assert!(section.contains(&format!("`{}`", entry.operator)), "{} is not in {path}", entry.operator);
        }
    }

    #[test]
    fn versions_are_checked() {
        assert!(find("", "Upsample", Some(9)).is_ok());
        assert!(find("", "Upsample", Some(10)).is_err());
        assert!(find("", "Gelu", Some(19)).is_err());
        assert!(find("", "Relu", None).is_err());
        assert!(find("", "Relu", Some(6)).is_ok() && find("", "Relu", Some(5)).is_err());
        assert!(find("", "Conv", Some(1)).is_ok() && find("", "Add", Some(6)).is_err());
        let known = |name: &&str| TABLE.iter().any(|entry| entry.domain.is_empty() && entry.operator == *name);
        assert!(SINCE.iter().flat_map(|(_, names)| names.split(' ')).all(|name| known(&name)));
        assert!(find("com.microsoft", "Relu", Some(1)).is_err());
    }
}
