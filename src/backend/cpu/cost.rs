//! A rough estimate of how long a node takes, to decide where it runs.

use crate::graph::Op;

/// Nanoseconds on one thread, within a factor of a few. Fast kernels pass over memory and multiply some ten times faster than
/// reference kernels: some 30 GB/s, and 50 multiplications a nanosecond.
pub fn nanoseconds(op: &Op, fast: bool, inputs: &[Vec<usize>], outputs: &[Vec<usize>]) -> usize {
    let count = |shape: &Vec<usize>| shape.iter().product::<usize>();
    let written: usize = outputs.iter().map(count).sum();
    let read: usize = inputs.iter().map(count).sum();
    let products = match op.row().name {
        // Each output element sums over a filter's window and channels.
        "conv2d" | "convTranspose2d" => written.saturating_mul(count(&inputs[1]) / inputs[1].iter().copied().max().unwrap_or(1)),
        "matmul" | "gemm" => written.saturating_mul(inputs[0].iter().rev().take(2).copied().max().unwrap_or(1)),
        // Every step of every sequence multiplies with all weights.
        "gru" | "lstm" | "gruCell" | "lstmCell" => read.saturating_mul(inputs[0].iter().rev().skip(1).product()),
        _ => 0,
    };
    100 + if fast { (written + read) / 8 + products / 50 } else { written + read / 4 + products / 4 }
}
