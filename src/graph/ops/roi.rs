//! Maxima of regions of images that data names.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::operator::Types::Of;
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

/// So many parts that the square of their number is a 32-bit number.
pub const MOST_PARTS: u32 = 1 << 15;

/// Coordinates count as no farther from 0 than this: no dimension is so large that it makes a difference.
pub const FARTHEST: i32 = 1 << 29;

const FLOAT32: DataTypes = DataTypes::of(&[DataType::Float32]);

operators! {
    /// Maxima of the parts of regions of images.
    pub struct RoiMaxPool: "MLOperatorOptions" in "" {
        /// Images with their channels first.
        input: OperandId,
        /// Of each region the number of its image, and the first and last column and row: `[image, x1, y1, x2, y2]`.
        regions: OperandId,
        /// How many parts of a region there are, one below and one beside the other.
        sizes: [u32; 2],
        /// What coordinates of regions are multiplied by.
        scale: f64,
    } options {}
    [("input", Of(FLOAT32), rank(4)), ("regions", Of(FLOAT32), rank(2))] -> One [("output", Of(FLOAT32), rank(4))] {
        /// Divides regions of images into parts, and finds the maximum of each. Coordinates are rounded, halves away from 0; a
        /// region has at least a row and a column, and its parts begin and end at whole ones, so that they may overlap. A part
        /// that lies outside of the image is 0, and a region of an image that is not there 0 everywhere.
        "roiMaxPool"
    }
}

impl Rule for RoiMaxPool {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let regions = operands.shape(self.regions)[0];
        check_shape("regions", operands.shape(self.regions), &[regions, 5])?;
        if !self.sizes.iter().all(|size| (1..=MOST_PARTS).contains(size)) {
            return Err(Error::argument("sizes", format!("{:?}", self.sizes), format!("sizes of 1 to {MOST_PARTS}")));
        }
        if !self.scale.is_finite() {
            return Err(Error::argument("scale", self.scale, "a finite number"));
        }
        let channels = operands.shape(self.input)[1];
        one(Descriptor::new(DataType::Float32, [regions, channels, self.sizes[0], self.sizes[1]]))
    }
}
