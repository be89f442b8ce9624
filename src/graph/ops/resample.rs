//! Resampling.

use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::DataTypes;
use crate::graph::descriptor::is_valid_dimension;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::{check_axes, check_length, check_positive};
use crate::graph::{DataType, OperandId, Operands};

enumeration! {
    /// How to interpolate between elements.
    "MLInterpolationMode" InterpolationMode { NearestNeighbor "nearest-neighbor", Linear "linear" }
}

impl InterpolationMode {
    /// For each position along an axis whose size changes from `input` to `output`, the element below it, and what part of
    /// the way to the next one it is. Computed exactly, as fractions.
    pub fn places(self, input: usize, output: usize) -> impl Iterator<Item = (usize, f64)> {
        let (size, scaled) = (input as i128, 2 * output as i128);
        (0..output as i128).map(move |position| {
            // inputCoordinate = (position + 0.5) * input / output - 0.5, clamped; here times 2 * output.
            let coordinate = ((2 * position + 1) * size - output as i128).clamp(0, (size - 1) * scaled);
            match self {
                // ceil(inputCoordinate - 0.5), and ceil(x) is -floor(-x).
                InterpolationMode::NearestNeighbor => (-(output as i128 - coordinate).div_euclid(scaled) as usize, 0.0),
                InterpolationMode::Linear => ((coordinate / scaled) as usize, (coordinate % scaled) as f64 / scaled as f64),
            }
        })
    }
}

/// What can be resampled.
const TYPES: DataTypes = DataTypes::of(&[DataType::Float32, DataType::Float16, DataType::Uint8, DataType::Int8]);

operators! {
    /// A resampling of two dimensions.
    pub struct Resample2d: "MLResample2dOptions" in "api-mlgraphbuilder-resample2d-method" {
        input: OperandId,
    } options {
        /// How to interpolate between elements.
        mode: InterpolationMode = InterpolationMode::NearestNeighbor,
        /// The factors of the two sizes, in the order of axes.
        scales: Vec<f32> = vec![1.0; 2],
        /// The two sizes, in the order of axes; scales is then ignored.
        sizes: Option<[u32; 2]> = None,
        /// The two dimensions to resample.
        axes: [u32; 2] = [2, 3],
    }
    [("input", Of(TYPES), rank(4))] -> One [("output", SameAs("input"), rank(4))] {
        /// Resamples two dimensions of a 4-D input (its last two, unless axes says otherwise) to the given sizes, or to their
        /// own sizes times the given scales, by the nearest element or by linear interpolation.
        "resample2d"
    }
}

impl Rule for Resample2d {
    /// `#api-mlgraphbuilder-resample2d-method`, from the check of scales on. (That `axes` has two items, which the steps do
    /// not say, is said by the description of the option.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        // Written so that NaN, which script cannot send, is refused as well.
        if !self.scales.iter().all(|&scale| scale > 0.0) {
            return Err(Error::argument("scales", format!("{:?}", self.scales), "numbers greater than 0"));
        }
        check_length("scales", self.scales.len(), 2)?;
        if let Some(sizes) = &self.sizes {
            check_positive("sizes", sizes)?;
        }
        let mut output = operands.descriptor(self.input).clone();
        check_axes("axes", &self.axes, output.rank())?;
        for (index, &axis) in self.axes.iter().enumerate() {
            let input_size = output.shape[axis as usize];
            let size = match self.sizes {
                Some(sizes) => sizes[index] as u64,
                // Saturates, so that what is too large stays too large.
                None => (input_size as f64 * self.scales[index] as f64).floor() as u64,
            };
            if !is_valid_dimension(size) {
                let from = format!("a size of {size} for axis {axis}, from {input_size}");
                return Err(Error::argument(if self.sizes.is_some() { "sizes" } else { "scales" }, from, "1 to 2147483647"));
            }
            output.shape[axis as usize] = size as u32;
        }
        one(output)
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    fn list(list: &[u32]) -> Value {
        UnsignedList(list.to_vec())
    }

    fn check_input(input: (DataType, &[u32]), options: [Value; 3], expected: Result<&[&str], &str>) {
        let values = [vec![Operand(OperandId(0)), Enumeration(1)], options.to_vec()].concat();
        testing::check("resample2d", &[input], &values, expected);
    }

    #[test]
    fn resample2d() {
        let check = |scales: Option<&[f32]>, sizes: Option<&[u32]>, axes: Option<&[u32]>, expected| {
            let scales = scales.map_or(Absent, |scales| FloatList(scales.to_vec()));
            let options = [scales, sizes.map_or(Absent, list), axes.map_or(Absent, list)];
            check_input((Float32, &[1, 2, 3, 4]), options, expected);
        };
        check(None, None, None, Ok(&["float32[1, 2, 3, 4]"]));
        check(Some(&[1.9, 0.5]), None, None, Ok(&["float32[1, 2, 5, 2]"]));
        check(Some(&[2.0, 3.0]), None, Some(&[2, 1]), Ok(&["float32[1, 6, 6, 4]"]));
        check(None, Some(&[7, 1]), Some(&[0, 3]), Ok(&["float32[7, 2, 3, 1]"]));
        check(Some(&[100.0, 100.0]), Some(&[7, 1]), None, Ok(&["float32[1, 2, 7, 1]"]));
        check(Some(&[0.0, 1.0]), None, None, Err("scales"));
        check(Some(&[1.0, -1.0]), None, None, Err("scales"));
        check(Some(&[1.0, f32::NAN]), None, None, Err("scales"));
        check(Some(&[1.0, f32::INFINITY]), None, None, Err("scales"));
        check(Some(&[1.0]), None, None, Err("scales"));
        check(Some(&[1.0; 3]), None, None, Err("scales"));
        check(Some(&[0.0, 1.0]), Some(&[1, 1]), None, Err("scales"));
        // Sizes that would be 0 or too large.
        check(Some(&[0.3, 1.0]), None, None, Err("scales"));
        check(Some(&[1.0, 1e9]), None, None, Err("scales"));
        check(Some(&[1.0, f32::MIN_POSITIVE]), None, None, Err("scales"));
        check(None, Some(&[0, 1]), None, Err("sizes"));
        check(None, Some(&[1]), None, Err("sizes"));
        check(None, Some(&[u32::MAX, 1]), None, Err("sizes"));
        check(None, Some(&[1 << 20, 1 << 20]), None, Err("output"));
        check(None, None, Some(&[2, 2]), Err("axes"));
        check(None, None, Some(&[2, 4]), Err("axes"));
        check(None, None, Some(&[2]), Err("axes"));
        check(None, None, Some(&[1, 2, 3]), Err("axes"));
        for (data_type, output) in [(Float16, "float16[1, 2, 3, 4]"), (Uint8, "uint8[1, 2, 3, 4]"), (Int8, "int8[1, 2, 3, 4]")] {
            check_input((data_type, &[1, 2, 3, 4]), [Absent, Absent, Absent], Ok(&[output]));
        }
        check_input((Int32, &[1, 2, 3, 4]), [Absent, Absent, Absent], Err("input"));
        check_input((Float32, &[2, 3, 4]), [Absent, Absent, Absent], Err("input"));
    }
}
