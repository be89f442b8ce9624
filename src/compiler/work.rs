//! How much work an operator asks for, from its shapes alone: what a device does with it, and what a small file could make the
//! compiler do.

use crate::graph::Op;
use crate::graph::ops::ByFamily;
use crate::graph::ops::linear_attention::Sizes;
use crate::graph::ops::pool::Pool2d;

/// How many elements have that shape.
pub fn element_count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count, &size| count.saturating_mul(size))
}

fn elements(shapes: &[&[usize]]) -> usize {
    shapes.iter().map(|shape| element_count(shape)).fold(0, usize::saturating_add)
}

/// Elements that are read and written, and [`multiplications`].
pub fn operations(op: &Op, inputs: &[&[usize]], outputs: &[&[usize]]) -> usize {
    elements(inputs).saturating_add(elements(outputs)).saturating_add(multiplications(op, inputs, outputs))
}

/// Bytes that are read and written, of operands that have so many: of what is gathered from or sliced, no more are read than are written.
pub fn bytes_moved(op: &Op, inputs: &[usize], outputs: &[usize]) -> usize {
    let written = outputs.iter().copied().fold(0, usize::saturating_add);
    let read_in_part = match op {
        Op::Gather(op) => Some(op.input),
        Op::GatherElements(op) => Some(op.input),
        Op::GatherNd(op) => Some(op.input),
        Op::Slice(op) => Some(op.input),
        _ => None,
    };
    let read = |(position, &bytes): (usize, &usize)| match read_in_part {
        Some(id) if id.0 as usize == position => bytes.min(written),
        _ => bytes,
    };
    inputs.iter().enumerate().map(read).fold(written, usize::saturating_add)
}

/// The elements under the windows of a pool.
fn pooled(op: &Pool2d, inputs: &[&[usize]], written: usize) -> usize {
    let [_, _, height, width] = op.layout.to_nchw(inputs[op.input.0 as usize]);
    let window = op.window([height as u32, width as u32]);
    written.saturating_mul(height.min(window[0] as usize) * width.min(window[1] as usize))
}

/// Each element of matrices is changed for each of their columns.
fn eliminations(matrices: &[usize]) -> usize {
    element_count(matrices).saturating_mul(matrices[matrices.len() - 1])
}

/// What operators do that do many for each element, in multiplications, additions or comparisons.
pub fn multiplications(op: &Op, inputs: &[&[usize]], outputs: &[&[usize]]) -> usize {
    let (read, written) = (elements(inputs), elements(outputs));
    match op.by_family() {
        // Each output element sums over a filter's window and channels.
        ByFamily::Conv2d(op) => {
            let [_, channels, height, width] = op.filter_layout.to_oihw(inputs[op.filter.0 as usize]);
            written.saturating_mul(channels * height * width)
        }
        // Each input element is multiplied with a filter's window, for each channel of the output.
        ByFamily::ConvTranspose2d(op) => {
            let [_, channels, height, width] = op.filter_layout.to_iohw(inputs[op.filter.0 as usize]);
            element_count(inputs[op.input.0 as usize]).saturating_mul(channels * height * width)
        }
        // Each output element is made of those under the window that are no padding.
        ByFamily::Pool2d(op) => pooled(op, inputs, written),
        // Each of them is divided and raised to a power.
        ByFamily::NormPool2d(op) => pooled(&op.windows(), inputs, written).saturating_mul(16),
        ByFamily::Matmul(_)
        | ByFamily::Gemm(_)
        | ByFamily::IntegerMatmul(_)
        | ByFamily::BlockQuantizedMatmul(_)
        | ByFamily::QuantizedMatmul(_) => written.saturating_mul(inputs[0].iter().rev().take(2).copied().max().unwrap_or(1)),
        ByFamily::ExpertMatmul(op) => written.saturating_mul(inputs[op.a.0 as usize][1]),
        // Every step of every sequence multiplies with all weights.
        ByFamily::Gru(_) | ByFamily::Lstm(_) | ByFamily::GruCell(_) | ByFamily::LstmCell(_) => {
            read.saturating_mul(element_count(inputs[0].split_last().map_or(&[], |(_, others)| others)))
        }
        // The same, but for the product of the input.
        ByFamily::QuantizedLstm(op) => {
            let hidden = inputs[op.recurrent_weight.0 as usize][2];
            element_count(inputs[op.gates.0 as usize]).saturating_mul(hidden)
        }
        // A node of a tree takes as long as sixteen, since it is somewhere else in memory than the one before.
        ByFamily::TreeEnsemble(op) => {
            let walks = inputs[op.input.0 as usize][0].saturating_mul(element_count(inputs[op.roots.0 as usize]));
            walks.saturating_mul((op.depth as usize).saturating_add(1)).saturating_mul(16)
        }
        ByFamily::PairwiseCoupling(op) => written.saturating_mul(op.classes as usize).saturating_mul(20),
        ByFamily::Determinant(op) => eliminations(inputs[op.input.0 as usize]),
        ByFamily::Inverse(op) => eliminations(inputs[op.input.0 as usize]).saturating_mul(2),
        // Every token goes through the states of all heads, and once more for each query of a head.
        ByFamily::LinearAttention(op) => {
            let sizes = Sizes::new(op, |id| inputs[id.0 as usize].to_vec());
            let passes = 2 + sizes.group();
            element_count(inputs[op.state.0 as usize]).saturating_mul(sizes.tokens).saturating_mul(passes)
        }
        // A region may be the whole image.
        ByFamily::RoiMaxPool(op) => {
            let [_, channels, height, width] = *inputs[op.input.0 as usize] else { return 0 };
            inputs[op.regions.0 as usize][0].saturating_mul(channels * height * width)
        }
        // These do few for each element.
        ByFamily::Elementwise(_)
        | ByFamily::AccumulateElements(_)
        | ByFamily::AccumulateNd(_)
        | ByFamily::Arg(_)
        | ByFamily::BatchNormalization(_)
        | ByFamily::Bitcast(_)
        | ByFamily::CheckIndices(_)
        | ByFamily::Concat(_)
        | ByFamily::CumulativeProduct(_)
        | ByFamily::CumulativeSum(_)
        | ByFamily::DynamicQuantizeLinear(_)
        | ByFamily::QuantizeAlong(_)
        | ByFamily::Expand(_)
        | ByFamily::Gather(_)
        | ByFamily::GatherElements(_)
        | ByFamily::GatherNd(_)
        | ByFamily::InstanceNormalization(_)
        | ByFamily::LayerNormalization(_)
        | ByFamily::Pad(_)
        | ByFamily::Reduce(_)
        | ByFamily::Resample2d(_)
        | ByFamily::Reshape(_)
        | ByFamily::Reverse(_)
        | ByFamily::RmsNormalization(_)
        | ByFamily::ScatterElements(_)
        | ByFamily::ScatterNd(_)
        | ByFamily::Slice(_)
        | ByFamily::Softmax(_)
        | ByFamily::Split(_)
        | ByFamily::Tile(_)
        | ByFamily::TopK(_)
        | ByFamily::Transpose(_)
        | ByFamily::Triangular(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::OperandId;
    use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
    use crate::graph::ops::gather::Gather;
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
    use crate::graph::ops::pool::{Pool2dKind, RoundingType};

    fn conv(input: OperandId, filter: OperandId, groups: u32, padding: u32) -> Conv2d {
        Conv2d {
            padding: [padding; 4],
            groups,
            ..Conv2d::new(input, filter, InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Oihw)
        }
    }

    #[test]
    fn of_a_table_no_more_is_read_than_is_gathered() {
        let [input, indices] = [0, 1].map(OperandId);
        let gather = Op::from(Gather { input, indices, axis: 0 });
        assert_eq!(bytes_moved(&gather, &[1_000_000, 16], &[400]), 400 + 16 + 400);
        assert_eq!(bytes_moved(&gather, &[100, 16], &[400]), 100 + 16 + 400);
        assert_eq!(bytes_moved(&conv(input, indices, 1, 0).into(), &[1000, 40], &[8]), 1048);
    }

    #[test]
    fn multiplications_of_convolutions() {
        let (input, filter) = (OperandId(0), OperandId(1));
        // With more channels of the input than of the output, and the other way round.
        for [channels, outputs] in [[1024, 256], [256, 1024]] {
            let op = Op::from(conv(input, filter, 1, 0));
            let shapes: [&[usize]; 2] = [&[1, 7, 7, channels], &[outputs, channels, 1, 1]];
            assert_eq!(multiplications(&op, &shapes, &[&[1, 7, 7, outputs]]), 49 << 18);
        }
        let op = Op::from(conv(input, filter, 96, 1));
        assert_eq!(multiplications(&op, &[&[1, 7, 7, 96], &[96, 1, 3, 3]], &[&[1, 7, 7, 96]]), 49 * 96 * 9);
        let (input_layout, filter_layout) = (InputOperandLayout::Nhwc, ConvTranspose2dFilterOperandLayout::Iohw);
        let op = ConvTranspose2d { strides: [2; 2], ..ConvTranspose2d::new(input, filter, input_layout, filter_layout) }.into();
        assert_eq!(multiplications(&op, &[&[1, 7, 7, 64], &[64, 32, 2, 2]], &[&[1, 14, 14, 32]]), 49 * 64 * 32 * 4);
    }

    #[test]
    fn multiplications_of_pools() {
        let pool = |window: Option<[u32; 2]>| {
            let op = Op::from(Pool2d {
                kind: Pool2dKind::Max,
                input: OperandId(0),
                window_dimensions: window,
                padding: [0; 4],
                strides: [1; 2],
                dilations: [1; 2],
                layout: InputOperandLayout::Nchw,
                output_shape_rounding: RoundingType::Floor,
                output_sizes: None,
            });
            multiplications(&op, &[&[2, 3, 10, 20]], &[&[2, 3, 5, 6]])
        };
        assert_eq!(pool(Some([3, 4])), 180 * 12);
        // What is over padding is not looked at.
        assert_eq!(pool(Some([1 << 30, 4])), 180 * 40);
        assert_eq!(pool(None), 180 * 200);
    }

    #[test]
    fn more_than_a_number_holds_is_the_greatest_number() {
        let op = Op::from(conv(OperandId(0), OperandId(1), 1, 0));
        let large: &[usize] = &[1 << 15, 1 << 15, 1 << 15, 1 << 15];
        assert_eq!(operations(&op, &[large, &[1 << 15, 1 << 10, 64, 64]], &[large]), usize::MAX);
    }
}
