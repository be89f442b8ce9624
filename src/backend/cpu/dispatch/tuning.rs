//! The thresholds by which implementations accept problems. Each has its unit, and the reason for its size; figures are in
//! `benches/` with the machines that they were measured on.
//!
//! What a kernel cannot do is no threshold: it stands in the kernel's `accept` as a fact. A threshold may have any value without a
//! wrong result, and tests use [`ANY_SIZE`], with which implementations take problems of any size.

/// All thresholds.
#[derive(Debug)]
pub struct Tuning {
    /// `elementwise.chain`: elements of the output, at least. Below, the reference kernel is quick enough.
    pub chain_elements: usize,
    /// `quantize.convert`: elements, at least.
    pub convert_elements: usize,
    /// `gemm.*`: multiplications of a product, at least. Below, packing is not worth its while.
    pub gemm_multiplications: usize,
    /// Products of quantized values: multiplications that products of integers have, at least ([`Preferences`](crate::compiler::Preferences)).
    pub integer_multiplications: usize,
    /// `gemm.tall_and_skinny`: rows, at least. Below, there are not enough tiles for what is made once for all.
    pub tall_rows: usize,
    /// `*bf16*`: columns, at least, that each element of the left operand must be multiplied with. Below, rounding it takes longer than
    /// what is saved.
    pub bf16_columns: usize,
    /// `conv.*_bf16`: channels of the image, at least: fewer are read in other ways.
    pub bf16_channels: usize,
    /// `attention.*`: queries of a head, at most, for which keys and values are read where they are. For more, they are packed once for each head.
    pub unpacked_queries: usize,
    /// `*bf16*`: rows, at least, where the right operand is rounded in each run.
    pub bf16_rows: usize,
    /// Whether instructions of float32 may stand for those that are missing where that gains nothing.
    pub bf16_emulated: bool,
    /// `recurrent.cells`: weights of a gate, at least.
    pub gate_weights: usize,
    /// `conv.winograd_*`: channels of the input and of the output, at least. Below, the transforms cost more than they save.
    pub winograd_channels: usize,
    /// `conv.few_outputs`: products of an output number, at least, that copying the input must be worth.
    pub few_outputs_products: usize,
    /// `conv.first_layer`: channels of an image that is read with its channels first, at most.
    pub first_layer_channels: usize,
    /// Rows and columns of its image, at least: with fewer rows threads have nothing to do, with fewer columns tiles are not full.
    pub first_layer_size: usize,
    /// Output channels where the channels are first, at least: with fewer, vectors run along the pixels instead.
    pub first_layer_outputs: usize,
    /// Numbers of the filter, at most: these stay in a core's second-level cache while row after row passes.
    pub first_layer_weights: usize,
    /// `conv.expand_depthwise`: bytes between the two convolutions, at least: less stays in a core's second-level cache anyway.
    pub expand_bytes: usize,
    /// `conv.expand_depthwise`, `conv.scaled_filter`: channels of the image, at least. Fewer are read in other ways.
    pub pointwise_channels: usize,
    /// `conv.scaled_filter`: output channels, at least. With fewer, other kernels are faster, which read the image in another order.
    pub scaled_outputs: usize,
}

/// What was measured.
pub static MEASURED: Tuning = Tuning {
    chain_elements: 32,
    convert_elements: 64,
    gemm_multiplications: 4096,
    integer_multiplications: 4096,
    tall_rows: 64,
    bf16_columns: 32,
    bf16_channels: 16,
    unpacked_queries: 16,
    bf16_rows: 16,
    bf16_emulated: false,
    gate_weights: 64,
    winograd_channels: 24,
    few_outputs_products: 8,
    first_layer_channels: 4,
    first_layer_size: 16,
    first_layer_outputs: 5,
    first_layer_weights: 64 << 10,
    expand_bytes: 768 << 10,
    pointwise_channels: 8,
    scaled_outputs: 8,
};

/// No thresholds.
pub static ANY_SIZE: Tuning = Tuning {
    chain_elements: 0,
    convert_elements: 0,
    gemm_multiplications: 0,
    integer_multiplications: 0,
    tall_rows: 0,
    bf16_columns: 0,
    bf16_channels: 0,
    unpacked_queries: 16,
    bf16_rows: 0,
    bf16_emulated: true,
    gate_weights: 0,
    winograd_channels: 0,
    few_outputs_products: 0,
    first_layer_channels: usize::MAX,
    first_layer_size: 0,
    first_layer_outputs: 0,
    first_layer_weights: usize::MAX,
    expand_bytes: 0,
    pointwise_channels: 0,
    scaled_outputs: 0,
};
