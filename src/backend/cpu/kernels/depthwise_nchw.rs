//! Depthwise convolutions of float32 with the channels first, one of them or several behind each other. A channel of an image is
//! a plane that depends on nothing but the same plane of the input, so all convolutions are done to one before the next: what
//! lies between them stays in a core's first caches. Vectors run along the rows.

use super::conv::Filter;
use super::conv_epilogue::{BoundStages, ConvEpilogue};
use super::expand_depthwise::is_simple;
use super::isa::Isa;
use super::{
    Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Reject, Target, TensorDesc, Tuning, require, with_scratch,
};
use crate::backend::cpu::incoming::Elements;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::compiler::behind_inputs;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use smallvec::SmallVec;
use std::ops::Range;
use webnn_kernels::depthwise::nchw::{Copy, ROWS, Rows};
use webnn_kernels::simd::MOST_LANES;

/// AlignedBuffer of a plane that are worked on at a time where there is only one convolution.
const AT_ONCE: usize = 12 << 10;

#[derive(Debug)]
struct DepthwiseNchw {
    isa: &'static Isa,
    input: OperandId,
    layers: Vec<Layer>,
    /// FewOutputs of all images.
    channels: usize,
    /// Rows of the output that are made at a time, all of a plane where there are several layers.
    band: usize,
    /// How a plane is held.
    frame: Frame,
}

/// One of the convolutions, all but the last one of which make planes of the size of the input's.
#[derive(Debug)]
struct Layer {
    /// For each channel the numbers of the window, and what is added.
    weights: AlignedBuffer,
    finish: ConvEpilogue,
    rows: Axis,
    columns: Axis,
}

/// A plane with zeros around it, in memory that serves all layers.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    /// Rows above the first one, and all of them.
    top: usize,
    rows: usize,
    /// AlignedBuffer before each row; those before the next row stand behind it too.
    left: usize,
    /// From one row to the next.
    row: usize,
}

impl Frame {
    /// The place of the first number of the plane.
    fn first(&self) -> usize {
        self.top * self.row + self.left
    }

    /// AlignedBuffer of all, and what vectors reach beyond.
    fn length(&self) -> usize {
        self.rows * self.row + self.left + MOST_LANES
    }
}

impl Kernel for DepthwiseNchw {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).incoming();
        let mut rests: SmallVec<[BoundStages<'_>; 8]> = SmallVec::new();
        for layer in &self.layers {
            rests.push(layer.finish.rest(self.isa, layer.columns.output, arguments));
        }
        let output = arguments.output().elements::<f32>();
        let last = self.layers.last().expect("a layer");
        let (height, width) = (last.rows.output, last.columns.output);
        let length = self.frame.length();
        for_each_piece(output, self.band * width, self.cost(), |first, output| {
            with_scratch(self.layers.len().min(2) * length, |scratch| {
                // What is around the planes stays so.
                scratch.fill(0.0);
                let (mut from, mut to) = scratch.split_at_mut(length);
                let (mut number, mut left) = (first * self.band, output);
                while !left.is_empty() {
                    // Rows of one plane.
                    let (plane, y) = (number / height, number % height);
                    let count = self.band.min(height - y).min(left.len() / width);
                    let (band, others) = left.split_at_mut(count * width);
                    let (before, after) = self.layers.split_at(self.layers.len() - 1);
                    let all = before.first().map_or(count, |layer| layer.rows.output);
                    self.fill(image, plane, y, all, from);
                    for (layer, rest) in before.iter().zip(&rests) {
                        let place = self.frame.first();
                        self.compute(layer, plane, from, &mut to[place..], self.frame.row, layer.rows.output);
                        if !rest.is_empty() {
                            let rows = to[place..].chunks_mut(self.frame.row).take(layer.rows.output);
                            rows.for_each(|row| rest.apply(0, &mut row[..layer.columns.output]));
                        }
                        std::mem::swap(&mut from, &mut to);
                    }
                    self.compute(&after[0], plane, from, band, width, count);
                    rests[before.len()].apply(number * width, band);
                    number += count;
                    left = others;
                }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.weights.bytes() + layer.finish.bytes()).sum()
    }
}

impl DepthwiseNchw {
    /// About how many nanoseconds a band takes.
    fn cost(&self) -> usize {
        let taps: usize = self.layers.iter().map(|layer| layer.rows.window * layer.columns.window).sum();
        (self.band * self.frame.row * taps / 48).max(1)
    }

    /// Copies what lies under the windows of some rows of the first layer's output.
    fn fill(&self, image: Elements<'_>, plane: usize, y: usize, count: usize, to: &mut [f32]) {
        let Layer { rows, columns, .. } = &self.layers[0];
        let size = rows.input * columns.input;
        let image = image.part(plane * size..(plane + 1) * size);
        let reach = (rows.window - 1) * rows.dilation + 1;
        let (from_row, to_row) = (columns.input, self.frame.row);
        let first = self.frame.first() - rows.padding * to_row;
        let (above, all) = (rows.padding.saturating_sub(y), count - 1 + reach);
        let end = (rows.padding + rows.input).saturating_sub(y).min(all);
        let mut zeros = |rows: Range<usize>| rows.for_each(|i| to[first + i * to_row..][..columns.input].fill(0.0));
        zeros(0..above.min(all));
        zeros(end.max(above)..all);
        if above < end {
            let (from, to) = (&image[(y + above - rows.padding) * from_row..], &mut to[first + above * to_row..]);
            Copy { from, from_row, to, to_row, height: end - above, width: columns.input }.compute(self.isa);
        }
    }

    /// Some rows of the output of a layer, whose input begins with what lies under the windows of the first one.
    fn compute(&self, layer: &Layer, plane: usize, from: &[f32], to: &mut [f32], to_row: usize, height: usize) {
        let Layer { rows, columns, .. } = layer;
        let first = self.frame.first() - rows.padding * self.frame.row - columns.padding;
        let count = rows.window * columns.window + 1;
        let (weights, bias) = layer.weights.as_slice()[plane % self.channels * count..][..count].split_at(count - 1);
        let window = [rows.window, columns.window];
        let dilations = [rows.dilation, columns.dilation];
        let bounds = layer.finish.clamps.before;
        let (width, from, from_row) = (columns.output, &from[first..], self.frame.row);
        let rows = Rows { from, from_row, to, to_row, height, width, window, dilations, weights, bias: bias[0], bounds };
        rows.compute(self.isa);
    }
}

impl Layer {
    /// Packs the weights.
    fn new(plan: LayerPlan<'_>) -> Layer {
        let LayerPlan { filter, finish, rows, columns, .. } = plan;
        let (width, count) = (columns.window, rows.window * columns.window);
        let mut weights = AlignedBuffer::zeroed(plan.channels * (count + 1));
        for (o, numbers) in weights.as_mut_slice().chunks_exact_mut(count + 1).enumerate() {
            for (i, number) in numbers[..count].iter_mut().enumerate() {
                *number = filter.at([o, 0, i / width, i % width]);
            }
            numbers[count] = finish.bias.get(o).copied().unwrap_or(0.0);
        }
        Layer { weights, finish, rows, columns }
    }

    /// Lets a frame have room for what is under the windows of so many rows of the output.
    fn widen(&self, frame: &mut Frame, rows: usize) {
        let reach = |axis: &Axis| (axis.window - 1) * axis.dilation;
        let columns = &self.columns;
        let right = (columns.output + reach(columns)).saturating_sub(columns.padding);
        frame.top = frame.top.max(self.rows.padding);
        frame.left = frame.left.max(columns.padding).max(right.saturating_sub(columns.input));
        // Below the top.
        frame.rows = frame.rows.max((rows + reach(&self.rows)).saturating_sub(self.rows.padding));
        frame.row = frame.left + columns.input;
    }
}

/// The kernel for a depthwise convolution with the channels first, and others before it
/// ([`Step::before`](crate::compiler::Step::before)).
pub static NCHW: Implementation = Implementation { name: "conv.depthwise_nchw", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let then = problem.conv2d()?;
    let mut convolutions: Vec<(&Conv2d, Vec<Op>)> = Vec::new();
    for op in problem.before {
        match op {
            Op::Conv2d(op) => convolutions.push((op, Vec::new())),
            op => convolutions.last_mut().ok_or(Reject("not convolutions alone"))?.1.push(op.clone()),
        }
    }
    for (_, fused) in &mut convolutions {
        *fused = behind_inputs(std::mem::take(fused), problem.inputs.len());
    }
    let input = convolutions.first().map_or(then.input, |(first, _)| first.input);
    let shape = problem.input(input).shape;
    let made = TensorDesc { shape, order: None, ..problem.output };
    let mut layers = Vec::new();
    for (op, fused) in &convolutions {
        let layer = LayerPlan::new(op, fused, shape, made, problem)?;
        require(layer.finish.is_whole, "something between the convolutions that is not fused")?;
        let [top, bottom, left, right] = op.padding.map(|size| size as usize);
        let reach = |axis: &Axis| (axis.window - 1) * axis.dilation;
        let keeps_size = [top + bottom, left + right] == [reach(&layer.rows), reach(&layer.columns)];
        require(keeps_size, "planes of other sizes between the convolutions")?;
        layers.push(layer);
    }
    layers.push(LayerPlan::new(then, problem.fused, shape, problem.output, problem)?);
    layers.iter().try_for_each(|layer| layer.is_worth_it(target.tuning))?;
    if let [_, _, ..] = layers.as_slice() {
        let &[batches, channels, height, width] = shape else { return Err(Reject("not an image")) };
        let bytes = height * width * size_of::<f32>();
        require(bytes <= target.tuning.planes_bytes, "planes of which two do not stay in the cache")?;
        require(batches * channels >= target.tuning.planes_count, "few planes")?;
        let are_simple = problem.before.iter().all(|op| matches!(op, Op::Conv2d(_)) || is_simple(op));
        require(are_simple, "something slow between the convolutions")?;
    }
    let isa = target.isa;
    Ok(Box::new(move || {
        let consumed = layers.iter().flat_map(|layer| layer.finish.consumed_beside(layer.operand)).collect();
        let layers: Vec<Layer> = layers.into_iter().map(Layer::new).collect();
        let last = &layers[layers.len() - 1];
        let fuses = last.finish.is_whole;
        let mut band = last.rows.output;
        if layers.len() == 1 {
            let fit = (AT_ONCE / last.columns.input).max(ROWS).next_multiple_of(ROWS);
            band = if band > 2 * fit { fit } else { band };
        }
        let mut frame = Frame::default();
        for (i, layer) in layers.iter().enumerate() {
            layer.widen(&mut frame, if i + 1 < layers.len() { layer.rows.output } else { band });
        }
        frame.rows += frame.top;
        let kernel = DepthwiseNchw { isa, input, layers, channels: shape[1], band, frame };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// A convolution whose weights are not packed yet.
struct LayerPlan<'a> {
    /// The filter, among the step's operands.
    operand: OperandId,
    filter: Filter<'a>,
    channels: usize,
    finish: ConvEpilogue,
    rows: Axis,
    columns: Axis,
    /// Columns of padding behind the last one.
    right: usize,
}

impl<'a> LayerPlan<'a> {
    /// On large images this is about as fast as with the channels last.
    fn is_worth_it(&self, tuning: &Tuning) -> Result<(), Reject> {
        let Axis { input: width, padding, .. } = self.columns;
        let columns = (width + padding + self.right).saturating_sub((self.columns.window - 1) * self.columns.dilation);
        if self.channels < tuning.planes_few_channels {
            return require(columns >= tuning.planes_columns_of_few, "few columns");
        }
        require(columns >= tuning.planes_columns, "few columns")?;
        // The output has about as many rows as the image.
        require(self.rows.input * columns >= tuning.planes_pixels, "small planes")?;
        let window = [self.rows.window, self.columns.window];
        require(window != tuning.planes_slow_window, "a large window, which is faster with the channels last")
    }

    /// A convolution of planes of that size, and what is done to its output, whose ids are those of a step's.
    fn new(
        op: &Conv2d,
        fused: &[Op],
        input: &[usize],
        output: TensorDesc<'_>,
        problem: &Problem<'a>,
    ) -> Result<LayerPlan<'a>, Reject> {
        let (filter, [outputs, of_group, height, width]) = Filter::of(op, problem)?;
        require(op.input_layout == InputOperandLayout::Nchw, "channels not first")?;
        let is_depthwise = of_group == 1 && op.groups as usize == outputs && input[1] == outputs;
        require(is_depthwise, "not one input channel for each output channel")?;
        require(op.strides == [1; 2], "strides")?;
        let finish = ConvEpilogue::of_planes(&Problem { before: &[], fused, output, ..*problem }, op.bias)?;
        let axis = |number: usize, window: usize| {
            let sizes = (input[2 + number], output.shape[2 + number], window);
            Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding))
        };
        let (rows, columns) = (axis(0, height), axis(1, width));
        let right = op.padding[3] as usize;
        Ok(LayerPlan { operand: op.filter, filter, channels: outputs, finish, rows, columns, right })
    }
}
