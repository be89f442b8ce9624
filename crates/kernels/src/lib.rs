//! The microkernels of the CPU backend, and what chooses among instruction sets: slices, sizes and strides in, slices out.
//!
//! Nothing here knows a graph, divides work among threads, or keeps memory. A loop is written once, generic over the
//! registers of [`simd`], and compiled for every instruction set *in this crate*: each function that others call takes an
//! [`Isa`](isa::Isa) and is not generic over registers. What is generic and instantiated by a crate downstream
//! would be compiled there, again and again.
#![deny(unsafe_code)]

pub mod arg;
pub mod bf16;
pub mod block_quantized;
pub mod caches;
pub mod conv;
pub mod depthwise;
pub mod epilogue;
pub mod expert_matmul;
pub mod functions;
pub mod gemm;
pub mod halves;
pub mod int8;
pub mod isa;
pub mod linear_attention;
pub mod logits;
pub mod output;
pub mod pauses;
pub mod pooling;
pub mod quantize;
pub mod reduction;
pub mod resample;
pub mod rnn;
pub mod simd;
pub mod softmax;
pub mod subnormals;
#[cfg(test)]
mod testing;
pub mod tiles;
pub mod transpose;
pub mod window;
pub mod winograd;
