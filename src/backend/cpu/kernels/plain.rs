//! Convolutions of float32 in which every pixel of the output is made from the one at the same place of the input, as a part
//! of other kernels: the channels are last, and pixels follow each other.
#![allow(unsafe_code)]

use super::AlignedBuffer;
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::panels::Panels;
use super::pointwise::{CLOSE, Heights, Next};
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::isa::Isa;

#[derive(Debug)]
pub struct Plain {
    pub isa: &'static Isa,
    pub tiles: &'static Tiles,
    /// As deep as there are channels.
    pub panels: Panels,
    /// A number for each column of the panels, or none.
    pub bias: AlignedBuffer,
    /// No tensor is added.
    pub finish: ConvEpilogue,
}

impl Plain {
    /// Computes some pixels.
    pub fn compute(&self, image: &[f32], rest: &BoundPostOps<'_>, output: &mut [f32]) {
        let (channels, outputs) = (self.panels.depth, self.panels.columns);
        let pixels = image.len() / channels;
        assert!(pixels > 0 && image.len() == pixels * channels && output.len() == pixels * outputs);
        let heights = Heights::new(self.tiles, pixels);
        let together = (CLOSE / (self.tiles.rows * (channels + outputs) * 4)).max(1);
        for start in (0..heights.tiles).step_by(together) {
            let tiles = start..heights.tiles.min(start + together);
            let some = heights.rows(tiles.clone());
            let (image, output) = (&image[some.start * channels..], &mut output[some.start * outputs..some.end * outputs]);
            for panel in self.panels.parts(0..self.panels.count()) {
                let output = (output[panel.first..].as_mut_ptr(), outputs);
                let mut task = panel.task([1, channels], &[], output);
                task.weights.bias = panel.bias(self.bias.as_slice());
                task.clamps = self.finish.clamps;
                // SAFETY: every pixel has `channels` numbers in the input and `outputs` in the output, of which the panel's columns
                // are some; the lengths were asserted, the bias was sliced.
                unsafe { self.tiles.run_in_line((&heights, tiles.clone()), (image.as_ptr(), channels), Next::Rows, task) }
            }
            rest.apply(0, output);
        }
    }

    pub fn bytes(&self) -> usize {
        self.panels.bytes() + self.bias.bytes() + self.finish.bytes()
    }
}
