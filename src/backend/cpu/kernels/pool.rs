//! Pooling of float32 with the channels last, a vector of channels at a time.
//!
//! Sums of float32 may be infinite where the mean is not, and squares infinite or 0 where the norm is not. Such results are
//! looked for afterwards and computed again in float64.

use super::stored::for_each_stored_piece;
use super::{Accepted, Bf16Support, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_piece, is_wanted};
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::isa::Isa;
use webnn_kernels::pooling::{Kind, PartialWindow, Piece, Window, Windows};

/// One thread has pooled fewer numbers when another has come.
const LEAST_TO_DIVIDE: usize = 160 << 10;

#[derive(Debug)]
struct Pool {
    isa: &'static Isa,
    input: OperandId,
    windows: Windows,
    /// Into how many parts the rows under the window are divided, where it is the only one and there are several threads.
    parts: usize,
}

impl Kernel for Pool {
    fn subnormals(&self) -> Subnormals {
        match self.windows.kind {
            Kind::Average => Subnormals::Flushed,
            // The root of a sum of squares would be of another size, and maxima are no faster.
            Kind::L2 | Kind::Max => Subnormals::Exact,
        }
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).stored();
        let output = arguments.output();
        if self.parts > 1 {
            let Windows { channels, .. } = self.windows;
            return for_each_stored_piece(self.isa, output, channels, 1, |_, output| self.pool_parts(image, output));
        }
        let Windows { rows, columns, channels, .. } = self.windows;
        let elements = rows.window.min(rows.input) * columns.window.min(columns.input);
        for_each_stored_piece(self.isa, output, channels, (channels * elements / 16).max(1), |first, output| {
            Piece { of: self.windows, image, first, output: &mut *output, is_wanted }.compute(self.isa);
            self.mend(image, first, output);
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        Bf16Support { loads: smallvec![self.input], stores: true, rounds_output: true, ..Bf16Support::default() }
    }
}

impl Pool {
    /// Reduces what is under the only window, each thread some rows of it: it has often written them just before.
    fn pool_parts(&self, image: Stored<'_>, output: &mut [f32]) {
        let Pool { isa, windows, parts, .. } = *self;
        let Windows { kind, channels, .. } = windows;
        assert_eq!(output.len(), channels);
        let whole = Window::new(&windows, [0, 0], [&windows.rows.taps(0), &windows.columns.taps(0)]);
        with_scratch(parts * channels, |reduced| {
            for_each_piece(reduced, channels, whole.elements() * channels / parts / 8, |first, reduced| {
                for (part, to) in (first..).zip(reduced.chunks_exact_mut(channels)) {
                    let window = whole.some_rows(part * whole.rows / parts..(part + 1) * whole.rows / parts);
                    PartialWindow { kind, window, from: image, to, joined: None }.compute(isa);
                }
            });
            let window = Window { rows: parts, columns: 1, first: 0, down: channels, across: 0 };
            PartialWindow { kind, window, from: (&*reduced).into(), to: &mut *output, joined: Some(whole.elements()) }
                .compute(isa);
        });
        self.mend(image, 0, output);
    }

    /// Computes again what may have left the range of float32 on its way, of the pixels from number `first` on.
    fn mend(&self, image: Stored<'_>, first: usize, output: &mut [f32]) {
        // The squares of smaller numbers lose digits, or are 0.
        const LEAST_NORM: f32 = 1e-15;
        let is_doubtful = |x: f32| match self.windows.kind {
            Kind::Max => false,
            Kind::Average => !x.is_finite(),
            Kind::L2 => !x.is_finite() || x < LEAST_NORM,
        };
        if self.windows.kind == Kind::Max || !output.iter().fold(false, |found, &x| found | is_doubtful(x)) {
            return;
        }
        for (i, output) in output.iter_mut().enumerate().filter(|(_, x)| is_doubtful(**x)) {
            let (pixel, channel) = (first + i / self.windows.channels, i % self.windows.channels);
            *output = self.exactly(image, pixel, channel);
        }
    }

    /// One number of the output, by sums of float64.
    fn exactly(&self, image: Stored<'_>, pixel: usize, channel: usize) -> f32 {
        let Windows { rows, columns, channels, .. } = self.windows;
        let (line, x) = (pixel / columns.output, pixel % columns.output);
        let size = rows.input * columns.input * channels;
        let image = image.part(line / rows.output * size..(line / rows.output + 1) * size);
        let y = line % rows.output;
        let window = Window::new(&self.windows, [y, x], [&rows.taps(y), &columns.taps(x)]);
        let places = (0..window.rows).flat_map(|row| (0..window.columns).map(move |column| (row, column)));
        let numbers =
            places.map(|(row, column)| f64::from(image.at(window.first + row * window.down + column * window.across + channel)));
        match self.windows.kind {
            Kind::L2 => numbers.map(|x| x * x).sum::<f64>().sqrt() as f32,
            _ => (numbers.sum::<f64>() / window.elements().max(1) as f64) as f32,
        }
    }
}

/// Windows over images with the channels last.
pub static NHWC: Implementation = Implementation { name: "pool.nhwc", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Pool2d(op) = problem.op else { return Err(Reject("not a pooling")) };
    require(op.layout == InputOperandLayout::Nhwc, "channels not last")?;
    let &[_, height, width, channels] = problem.input(op.input).shape else { return Err(Reject("not an image")) };
    let window = op.window([height as u32, width as u32]);
    let options = (&op.strides, &op.dilations, &op.padding);
    let sizes = |number| (problem.input(op.input).shape[1 + number], problem.output.shape[1 + number], window[number] as usize);
    let axis = |number| Axis::new(number, sizes(number), options);
    // Sums of more numbers than this are better computed in float64.
    let is_exact = op.kind == Pool2dKind::Max || height.saturating_mul(width) <= 1 << 16;
    require(is_exact, "sums of over 65,536 pixels")?;
    let (rows, columns) = (axis(0), axis(1));
    let is_only_one = problem.output.shape[..3].iter().all(|&size| size == 1);
    let divides = target.threads > 1 && is_only_one && height * width * channels >= LEAST_TO_DIVIDE;
    let parts = if divides { (4 * target.threads).min(rows.taps(0).len()) } else { 1 };
    let kind = match op.kind {
        Pool2dKind::Average => Kind::Average,
        Pool2dKind::L2 => Kind::L2,
        Pool2dKind::Max => Kind::Max,
    };
    let kernel = Pool { isa: target.isa, input: op.input, windows: Windows { kind, rows, columns, channels }, parts };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}
