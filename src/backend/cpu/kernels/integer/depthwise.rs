//! Depthwise convolutions of bytes whose results are bytes. The products of differences of bytes, and their sums over a window, are
//! integers that float32 holds, so that vectors of float32 add them up without an error; bytes become numbers, and numbers bytes,
//! in registers.

use super::{NOT_DEQUANTIZED, UNFUSED};
use crate::backend::cpu::kernels::clamp::Bounds;
use crate::backend::cpu::kernels::conv::{Filter, axis};
use crate::backend::cpu::kernels::conv_epilogue::ConvEpilogue;
use crate::backend::cpu::kernels::depthwise;
use crate::backend::cpu::kernels::quantize::{Quantized, integer};
use crate::backend::cpu::kernels::{
    Accepted, AlignedBuffer, Built, Constant, Implementation, Kernel, Numbers, Problem, Reject, Target, TensorDesc,
    expand_depthwise, require,
};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::DataType::{Float32, Int8};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use smallvec::SmallVec;
#[cfg(target_arch = "x86_64")]
use webnn_kernels::depthwise::int8::vnni;
use webnn_kernels::depthwise::int8::{Convolution, MARGIN};
use webnn_kernels::isa::Isa;

#[derive(Debug)]
pub struct DepthwiseOfBytes {
    isa: &'static Isa,
    input: OperandId,
    is_signed: bool,
    /// The integers of the weights: for each element of the window one for each channel, and [`MARGIN`].
    weights: AlignedBuffer,
    /// For each channel, and [`MARGIN`]: what the sum begins with, so that the zero point counts as nothing; what it is multiplied
    /// with; what is added then.
    of_channels: [AlignedBuffer; 3],
    bounds: Bounds,
    quantize: Quantized,
    batches: usize,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// Zero points, which stand for pixels in the padding.
    zeros: Vec<u8>,
    /// The same for vectors of bytes, where there are some.
    #[cfg(target_arch = "x86_64")]
    blocks: Vec<vnni::Block>,
}

/// Windows of 3 x 3 and 5 x 5 over bytes, whose results are bytes.
pub static DEPTHWISE: Implementation = Implementation { name: "int8.depthwise", accept };
/// Any other depthwise convolution of bytes: that of what they are dequantized to, row by row.
pub static DEPTHWISE_DEQUANTIZED: Implementation =
    Implementation { name: "int8.depthwise_dequantized", accept: accept_dequantized };

/// What is known of the operands.
struct Operands<'a> {
    op: &'a Conv2d,
    left: &'a DequantizeLinear,
    weights: TensorDesc<'a>,
    /// The dimension of the filter that has the output channels.
    axis: usize,
    scales: &'a [f32],
    zeros: &'a [u8],
    /// What the kernel packs of them, by position.
    consumed: SmallVec<[usize; 2]>,
}

impl<'a> Operands<'a> {
    fn of(problem: &Problem<'a>) -> Result<Operands<'a>, Reject> {
        let op = problem.conv2d()?;
        require(op.groups > 1, "a single group")?;
        let [Op::DequantizeLinear(left), Op::DequantizeLinear(right)] = problem.dequantized else { return Err(NOT_DEQUANTIZED) };
        let weights = problem.input(right.input);
        let scales = problem.input(right.scale).constant_elements()?;
        let are_known = Reject("weights or zero points that are computed");
        let (_, zeros) = (weights.constant.ok_or(are_known)?, problem.input(right.zero_point).bytes().ok_or(are_known)?);
        let consumed = [right.input, right.scale, right.zero_point].map(|id| id.0 as usize).into_iter().collect();
        let axis = op.filter_layout.to_oihw(&[0, 1, 2, 3])[0];
        Ok(Operands { op, left, weights, axis, scales, zeros, consumed })
    }

    /// What the filter is dequantized to with such scales.
    fn filter(&self, scales: &[f32]) -> Vec<f32> {
        dequantized(self.weights, self.axis, scales, self.zeros)
    }
}

fn accept_dequantized<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    /// Calls back with the plan of the convolution of numbers, which borrows the filter.
    fn with_desc<T>(
        operands: &Operands<'_>,
        problem: &Problem<'_>,
        target: &Target,
        done: impl FnOnce(depthwise::DepthwiseDesc<'_>) -> T,
    ) -> Result<T, Reject> {
        let filter = operands.filter(operands.scales);
        let inputs = of_numbers(problem, operands, &filter);
        let (fused, _) = Quantized::split(problem);
        let problem = Problem { dequantized: &[], fused, inputs: &inputs, ..*problem };
        let image = problem.input(operands.left.input).shape;
        depthwise::desc(operands.op, image, &problem, target).map(done)
    }
    let operands = Operands::of(problem)?;
    let (_, quantize) = Quantized::split(problem);
    let fuses = with_desc(&operands, problem, target, |desc| desc.finish.is_whole)?;
    require(quantize.is_none() || fuses, UNFUSED)?;
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || {
        let consumed = operands.consumed.clone();
        let built = |desc: depthwise::DepthwiseDesc<'_>| {
            expand_depthwise::build_dequantized(operands.left, desc, quantize, consumed, target.threads)
        };
        Ok(with_desc(&operands, &problem, &target, built)?)
    }))
}

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let operands = Operands::of(problem)?;
    let Operands { op, left, scales, .. } = operands;
    let (fused, quantize) = Quantized::split(problem);
    let quantize = quantize.ok_or(Reject("an output that is not quantized"))?;
    let &[a, b, c, d] = operands.weights.shape else { return Err(Reject("not a filter of 4 dimensions")) };
    let [channels, of_group, height, width] = op.filter_layout.to_oihw(&[a, b, c, d]);
    let &[batches, rows, columns, image_channels] = problem.input(left.input).shape else { return Err(Reject("not an image")) };
    let (rows, columns) = (axis(op, 0, rows, height, problem), axis(op, 1, columns, width, problem));
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let is_depthwise = of_group == 1 && op.groups as usize == channels && image_channels == channels;
    require(is_depthwise, "not one input channel for each output channel")?;
    let is_square = (rows.window, rows.stride) == (columns.window, columns.stride);
    let is_dense = rows.dilation == 1 && columns.dilation == 1;
    let suits = is_square && is_dense && matches!((height, rows.stride), (3 | 5, 1 | 2));
    require(suits, "another window than 3 x 3 or 5 x 5 with strides of 1 or 2")?;
    let finish = ConvEpilogue::new(&Problem { dequantized: &[], fused, ..*problem }, op.bias)?;
    let is_simple = finish.is_whole && finish.added.is_none() && !finish.is_rest_left();
    require(is_simple, "more than a bias and bounds is fused")?;
    let scale = problem.input(left.scale).constant_elements()?[0];
    let zero = problem.input(left.zero_point).bytes().ok_or(Reject("a zero point that is computed"))?[0];
    // What float32 does not hold well, or is no number.
    let are_normal = scales.iter().all(|factor| (scale * factor).is_normal());
    require(are_normal, "scales whose products are not normal numbers")?;
    let (image, isa) = (problem.input(left.input).data_type, target.isa);
    Ok(Box::new(move || {
        let integers = operands.filter(&[1.0]);
        let filter =
            Filter { elements: Numbers::from(&integers[..]), strides: op.filter_layout.to_oihw(&[b * c * d, c * d, d, 1]) };
        let (is_signed, zero_point) = (image == Int8, integer(image, zero));
        let distance = channels + MARGIN;
        let mut weights = AlignedBuffer::zeroed(height * width * distance);
        let mut of_channels = [(); 3].map(|()| AlignedBuffer::zeroed(distance));
        let [starts, factors, biases] = &mut of_channels;
        for (tap, numbers) in weights.as_mut_slice().chunks_exact_mut(distance).enumerate() {
            for (channel, number) in numbers[..channels].iter_mut().enumerate() {
                *number = filter.at([channel, 0, tap / width, tap % width]);
                starts.as_mut_slice()[channel] -= zero_point as f32 * *number;
            }
        }
        for (channel, factor) in factors.as_mut_slice()[..channels].iter_mut().enumerate() {
            *factor = scale * scales[if scales.len() == 1 { 0 } else { channel }];
        }
        biases.as_mut_slice()[..finish.bias.len()].copy_from_slice(&finish.bias);
        #[cfg(target_arch = "x86_64")]
        let blocks = {
            // Of bytes without a sign.
            let zero_point = zero_point + if is_signed { 128 } else { 0 };
            let of_channels = [&*biases, factors].map(AlignedBuffer::as_slice);
            blocks(isa, (height, channels), &|channel, tap| filter.at([channel, 0, tap / 3, tap % 3]), zero_point, of_channels)
        };
        let kernel = DepthwiseOfBytes {
            isa,
            input: left.input,
            is_signed,
            weights,
            of_channels,
            bounds: finish.clamps.before,
            quantize,
            batches,
            rows,
            columns,
            channels,
            zeros: vec![zero; channels],
            #[cfg(target_arch = "x86_64")]
            blocks,
        };
        let consumed = operands.consumed.iter().chain(&finish.consumed).copied().collect();
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: true })
    }))
}

/// The operands of a convolution of numbers, with such a filter.
fn of_numbers<'a>(problem: &Problem<'a>, operands: &Operands<'_>, filter: &'a [f32]) -> Vec<TensorDesc<'a>> {
    let mut inputs = problem.inputs.to_vec();
    let [image, weights] = [operands.op.input, operands.op.filter].map(|id| id.0 as usize);
    inputs[image].data_type = Float32;
    inputs[weights] =
        TensorDesc { data_type: Float32, constant: Some(Constant::Bytes(bytemuck::cast_slice(filter))), ..inputs[weights] };
    inputs
}

/// What the bytes of a constant are dequantized to, with one scale and zero point or one for each place along an axis.
fn dequantized(bytes: TensorDesc<'_>, axis: usize, scales: &[f32], zeros: &[u8]) -> Vec<f32> {
    let integer = |byte: u8| integer(bytes.data_type, byte);
    let stride: usize = bytes.shape[axis + 1..].iter().product();
    let number = |(i, &byte): (usize, &u8)| {
        let place = i / stride % bytes.shape[axis];
        let of_place = |count: usize| if count == 1 { 0 } else { place };
        (integer(byte) - integer(zeros[of_place(zeros.len())])) as f32 * scales[of_place(scales.len())]
    };
    bytes.bytes().unwrap_or_default().iter().enumerate().map(number).collect()
}

/// The blocks for such a window, whose weights fit into bytes with a sign, where the CPU has the instructions.
#[cfg(target_arch = "x86_64")]
fn blocks(
    isa: &Isa,
    (size, channels): (usize, usize),
    weight: &dyn Fn(usize, usize) -> f32,
    zero_point: i32,
    [biases, factors]: [&[f32]; 2],
) -> Vec<vnni::Block> {
    use webnn_kernels::isa::Level;
    let fits = |channel: usize| {
        let is_byte = |tap: usize| (-128.0..128.0).contains(&weight(channel, tap));
        biases[channel].is_finite() && (0..size * size).all(is_byte)
    };
    if isa.level != Level::Avx512 || size != 3 || !vnni::Block::are_used() || !(0..channels).all(fits) {
        return Vec::new();
    }
    vnni::Block::all(channels, |channel| {
        let weights = std::array::from_fn(|row| std::array::from_fn(|column| weight(channel, 3 * row + column) as i8));
        let sum: i32 = weights.as_flattened().iter().map(|&weight| i32::from(weight)).sum();
        vnni::Channel { weights, start: -zero_point * sum, factor: factors[channel], bias: biases[channel] }
    })
}

impl Kernel for DepthwiseOfBytes {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).bytes();
        let steps = self.quantize.steps(arguments);
        assert_eq!(image.len(), self.batches * self.rows.input * self.columns.input * self.channels);
        let row = self.columns.output * self.channels;
        let taps = self.rows.window * self.columns.window;
        #[cfg(target_arch = "x86_64")]
        if let (Some(products), false) = (steps.divisor.products(), self.blocks.is_empty()) {
            let to_bytes =
                vnni::ToBytes { products: products.within(self.bounds.0), zero: steps.zero, is_signed: self.quantize.to == Int8 };
            return for_each_piece(&mut *arguments.output().bytes, row, row / 8, |first, output| {
                self.rows_of_blocks(image, first, output, to_bytes);
            });
        }
        let convolution = Convolution {
            is_signed: self.is_signed,
            weights: self.weights.as_slice(),
            of_channels: self.of_channels.each_ref().map(AlignedBuffer::as_slice),
            bounds: self.bounds,
            rows: self.rows,
            columns: self.columns,
            channels: self.channels,
            zeros: &self.zeros,
        };
        // Two rows are computed together.
        for_each_piece(&mut *arguments.output().bytes, 2 * row, 2 * row * (taps + 8) / 16, |first, output| {
            convolution.compute(self.isa, image, steps, 2 * first, output);
        });
    }

    fn bytes(&self) -> usize {
        let numbers = self.weights.bytes() + self.of_channels.iter().map(AlignedBuffer::bytes).sum::<usize>();
        #[cfg(target_arch = "x86_64")]
        let numbers = numbers + size_of_val(self.blocks.as_slice());
        numbers + self.zeros.len()
    }
}

#[cfg(target_arch = "x86_64")]
impl DepthwiseOfBytes {
    /// Some rows of the output, from row number `first` of all images on.
    fn rows_of_blocks(&self, image: &[u8], first: usize, output: &mut [u8], to_bytes: vnni::ToBytes) {
        let &DepthwiseOfBytes { rows, columns, channels, .. } = self;
        let from_row = columns.input * channels;
        for (number, to) in output.chunks_exact_mut(columns.output * channels).enumerate() {
            let (batch, y) = ((first + number) / rows.output, (first + number) % rows.output);
            let row = |y: usize| &image[(batch * rows.input + y) * from_row..][..from_row];
            let mut rows = vnni::Rows {
                from: std::array::from_fn(|tap| rows.element(y, tap).map(row)),
                zeros: &self.zeros,
                to,
                channels,
                columns: columns.input,
                padding: columns.padding,
                stride: columns.stride,
            };
            for block in &self.blocks {
                block.row(&mut rows, to_bytes, self.is_signed);
            }
        }
    }
}
