//! Convolutions of float32 in which every pixel of the output is made from the one at the same place of the input, as a part
//! of other kernels: the channels are last, and pixels follow each other.
#![allow(unsafe_code)]

use super::Numbers;
use super::finish::{Finish, Rest};
use super::isa::Isa;
use super::panels::Panels;
use super::tile::{MOST_ROWS, Task, Tiles};

#[derive(Debug)]
pub struct Plain {
    pub isa: &'static Isa,
    pub tiles: &'static Tiles,
    /// As deep as there are channels.
    pub panels: Panels,
    /// A number for each column of the panels, or none.
    pub bias: Numbers,
    /// No tensor is added.
    pub finish: Finish,
}

impl Plain {
    /// Computes some pixels.
    pub fn compute(&self, image: &[f32], rest: &Rest<'_>, output: &mut [f32]) {
        let (channels, outputs) = (self.panels.depth, self.panels.columns);
        let pixels = image.len() / channels;
        let (tiles, _) = self.tiles.divide(pixels);
        let (base, more) = (pixels / tiles, pixels % tiles);
        let mut first = 0;
        for tile in 0..tiles {
            let rows = base + usize::from(tile < more);
            let output = &mut output[first * outputs..(first + rows) * outputs];
            self.tile(&image[first * channels..(first + rows) * channels], rows, output);
            rest.finish(0, output);
            first += rows;
        }
    }

    fn tile(&self, image: &[f32], rows: usize, output: &mut [f32]) {
        let (channels, outputs) = (self.panels.depth, self.panels.columns);
        let mut starts = [std::ptr::null(); MOST_ROWS];
        starts.iter_mut().zip(image.chunks_exact(channels)).for_each(|(start, pixel)| *start = pixel.as_ptr());
        assert!(rows > 0 && image.len() == rows * channels && output.len() == rows * outputs);
        for panel in self.panels.parts(0..self.panels.count()) {
            let output = (output[panel.first..].as_mut_ptr(), outputs);
            let bias = panel.bias(self.bias.as_slice());
            let task = Task { bias, limits: self.finish.limits, ..panel.task([1, channels], &starts, output) };
            // SAFETY: every pixel has `channels` numbers in the input and `outputs` in the output, of which the panel's columns
            // are some; the lengths were asserted, the bias was sliced.
            unsafe { self.tiles.run(rows, &task) }
        }
    }

    pub fn bytes(&self) -> usize {
        self.panels.bytes() + self.bias.bytes() + self.finish.bytes()
    }
}
