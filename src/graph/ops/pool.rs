//! Pooling.

use super::layout::InputOperandLayout;
use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::{ANY, FLOAT};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::{check_positive, window_count};
use crate::graph::{Descriptor, OperandId, Operands};

enumeration! {
    /// How the number of windows is rounded.
    "MLRoundingType" RoundingType { Floor "floor", Ceil "ceil" }
}

operators! {
    /// A reduction of every window of a sliding window.
    pub struct Pool2d(Pool2dKind): "MLPool2dOptions" in "api-mlgraphbuilder-pool2d" {
        input: OperandId,
    } options {
        /// The size of the window, [height, width]; default: the size of the input.
        window_dimensions: Option<[u32; 2]> = None,
        /// Rows and columns of padding around the input, which do not count:
        /// [beginning height, ending height, beginning width, ending width].
        padding: [u32; 4] = [0; 4],
        /// The step of the window: [height, width].
        strides: [u32; 2] = [1; 2],
        /// The distance between the window's elements on the input: [height, width].
        dilations: [u32; 2] = [1; 2],
        /// The layout of the input and of the output.
        layout: InputOperandLayout = InputOperandLayout::Nchw,
        /// How to round the output's size: `ceil` keeps windows that only partly cover the padded input.
        output_shape_rounding: RoundingType = RoundingType::Floor,
        /// The output's size, [height, width]: one of the two ways to round it; outputShapeRounding is then ignored.
        output_sizes: Option<[u32; 2]> = None,
    }
    [("input", Of(FLOAT), rank(4))] -> One [("output", SameAs("input"), rank(4))] {
        /// Computes the mean of every window over the two spatial dimensions; padding is not counted.
        "averagePool2d" Average,
        /// Computes the L2 norm of every window over the two spatial dimensions: the root of the sum of squares.
        "l2Pool2d" L2,
    }
    [("input", Of(ANY), rank(4))] -> One [("output", SameAs("input"), rank(4))] {
        /// Computes the maximum of every window over the two spatial dimensions.
        "maxPool2d" Max,
    }
}

operators! {
    /// The norm of any order of every window of a sliding window; for the options see [`Pool2d`].
    pub struct NormPool2d: "" in "" {
        input: OperandId,
        /// The order of the norm.
        order: u32,
    } options {
        window_dimensions: Option<[u32; 2]> = None,
        padding: [u32; 4] = [0; 4],
        strides: [u32; 2] = [1; 2],
        dilations: [u32; 2] = [1; 2],
        layout: InputOperandLayout = InputOperandLayout::Nchw,
        output_shape_rounding: RoundingType = RoundingType::Floor,
        output_sizes: Option<[u32; 2]> = None,
    }
    [("input", Of(FLOAT), rank(4))] -> One [("output", SameAs("input"), rank(4))] {
        /// The root of this order of the sum of powers of the magnitudes, whatever the powers are.
        "normPool2d"
    }
}

/// The greatest order of a norm: shaders write its power as a product of so many factors.
pub const GREATEST_ORDER: u32 = 64;

impl NormPool2d {
    /// The pool of order 2, whose windows are the same.
    pub fn windows(&self) -> Pool2d {
        Pool2d {
            kind: Pool2dKind::L2,
            input: self.input,
            window_dimensions: self.window_dimensions,
            padding: self.padding,
            strides: self.strides,
            dilations: self.dilations,
            layout: self.layout,
            output_shape_rounding: self.output_shape_rounding,
            output_sizes: self.output_sizes,
        }
    }
}

impl Rule for NormPool2d {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        if !(1..=GREATEST_ORDER).contains(&self.order) {
            return Err(Error::argument("order", self.order.to_string(), format!("1 to {GREATEST_ORDER}")));
        }
        self.windows().infer(operands)
    }
}

impl Pool2d {
    /// The height and width of the window, for an input of that height and width.
    pub fn window(&self, input: [u32; 2]) -> [u32; 2] {
        self.window_dimensions.unwrap_or(input)
    }

    /// Whether the only window of an input of that height and width is all of it.
    pub fn is_global(&self, input: [u32; 2]) -> bool {
        self.window(input) == input && self.padding == [0; 4] && self.dilations == [1; 2]
    }
}

impl Rule for Pool2d {
    /// *Create a pooling operation*, `#api-mlgraphbuilder-pool2d`.
    ///
    /// Two steps about `outputSizes` are not taken to the letter: padding is not dropped when they are there, and they need
    /// not be smaller than the strides. Browsers do the same, and their conformance cases rely on it.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let [batches, channels, height, width] = self.layout.to_nchw(operands.shape(self.input));
        let window = self.window([height, width]);
        check_positive("windowDimensions", &window)?;
        check_positive("strides", &self.strides)?;
        check_positive("dilations", &self.dilations)?;
        let [top, bottom, left, right] = self.padding;
        let rows = window_count(height, window[0], (top, bottom), self.strides[0], self.dilations[0]);
        let columns = window_count(width, window[1], (left, right), self.strides[1], self.dilations[1]);
        // Sizes that are not valid dimensions are nothing already, which no outputSizes equal.
        let (floor, ceil) = (rows.floor.zip(columns.floor), rows.ceil.zip(columns.ceil));
        let sizes = match (self.output_sizes, self.output_shape_rounding) {
            (Some([output_height, output_width]), _) => {
                let sizes = Some((output_height, output_width));
                if sizes != floor && sizes != ceil {
                    let allowed: Vec<String> = [floor, ceil].iter().flatten().map(|(h, w)| format!("[{h}, {w}]")).collect();
                    let allowed = if allowed.is_empty() { "windows that fit".to_owned() } else { allowed.join(" or ") };
                    return Err(Error::argument("outputSizes", format!("[{output_height}, {output_width}]"), allowed));
                }
                sizes
            }
            (None, RoundingType::Floor) => floor,
            (None, RoundingType::Ceil) => ceil,
        };
        let Some((output_height, output_width)) = sizes else {
            return Err(Error::argument(
                "windowDimensions",
                format!("{}x{} with dilations {:?}", window[0], window[1], self.dilations),
                format!("sizes that fit into the padded input of {height}x{width}"),
            ));
        };
        let shape = self.layout.of_nchw([batches, channels, output_height, output_width]);
        one(Descriptor::new(operands.data_type(self.input), shape))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    const HUGE: u32 = u32::MAX;
    // Positions of the options.
    const WINDOW: usize = 0;
    const PADDING: usize = 1;
    const STRIDES: usize = 2;
    const DILATIONS: usize = 3;
    const LAYOUT: usize = 4;
    const ROUNDING: usize = 5;
    const SIZES: usize = 6;

    const CEIL: Value = Enumeration(1);

    fn list(list: &[u32]) -> Value {
        UnsignedList(list.to_vec())
    }

    fn check_input(name: &str, input: (DataType, &[u32]), options: &[(usize, Value)], expected: Result<&[&str], &str>) {
        let mut values = vec![Absent; 8];
        values[0] = Operand(OperandId(0));
        for (position, value) in options {
            values[1 + position] = value.clone();
        }
        testing::check(name, &[input], &values, expected);
    }

    #[test]
    fn types_and_ranks() {
        for name in ["averagePool2d", "l2Pool2d", "maxPool2d"] {
            check_input(name, (Float32, &[1, 2, 5, 5]), &[], Ok(&["float32[1, 2, 1, 1]"]));
            check_input(name, (Float16, &[1, 2, 5, 5]), &[], Ok(&["float16[1, 2, 1, 1]"]));
            check_input(name, (Float32, &[2, 5, 5]), &[], Err("input"));
        }
        check_input("maxPool2d", (Uint64, &[1, 2, 5, 5]), &[], Ok(&["uint64[1, 2, 1, 1]"]));
        check_input("averagePool2d", (Int32, &[1, 2, 5, 5]), &[], Err("input"));
        check_input("l2Pool2d", (Int32, &[1, 2, 5, 5]), &[], Err("input"));
    }

    #[test]
    fn sizes() {
        let check = |options: &[(usize, Value)], expected| {
            check_input("maxPool2d", (Float32, &[1, 2, 5, 5]), options, expected);
        };
        let window = (WINDOW, list(&[3, 3]));
        check(std::slice::from_ref(&window), Ok(&["float32[1, 2, 3, 3]"]));
        check(&[window.clone(), (DILATIONS, list(&[2, 1]))], Ok(&["float32[1, 2, 1, 3]"]));
        let strided = [window.clone(), (PADDING, list(&[1, 0, 0, 1])), (STRIDES, list(&[2, 2]))];
        let with = |more: &[(usize, Value)]| [&strided[..], more].concat();
        check(&strided, Ok(&["float32[1, 2, 2, 2]"]));
        check(&with(&[(ROUNDING, CEIL)]), Ok(&["float32[1, 2, 3, 3]"]));
        check(&with(&[(ROUNDING, CEIL), (SIZES, list(&[2, 2]))]), Ok(&["float32[1, 2, 2, 2]"]));
        check(&with(&[(SIZES, list(&[3, 3]))]), Ok(&["float32[1, 2, 3, 3]"]));
        check(&with(&[(SIZES, list(&[2, 3]))]), Err("outputSizes"));
        check(&with(&[(SIZES, list(&[1, 1]))]), Err("outputSizes"));
        check(&with(&[(SIZES, list(&[0, 0]))]), Err("outputSizes"));
        check(&with(&[(SIZES, list(&[3]))]), Err("outputSizes"));
        check(&with(&[(SIZES, list(&[HUGE, HUGE]))]), Err("outputSizes"));
        // A window that is larger than the input, but by less than the stride.
        let large = [(WINDOW, list(&[6, 5])), (STRIDES, list(&[2, 1]))];
        check(&large, Err("windowDimensions"));
        check(&[&large[..], &[(ROUNDING, CEIL)]].concat(), Ok(&["float32[1, 2, 1, 1]"]));
        check(&[(WINDOW, list(&[6, 6])), (ROUNDING, CEIL)], Err("windowDimensions"));
        check_input(
            "maxPool2d",
            (Float32, &[1, 7, 5, 2]),
            &[(LAYOUT, Enumeration(1)), (WINDOW, list(&[2, 1]))],
            Ok(&["float32[1, 6, 5, 2]"]),
        );
    }

    #[test]
    fn options_are_checked() {
        let check = |position, bad: &[u32], argument| {
            check_input("averagePool2d", (Float32, &[1, 2, 5, 5]), &[(position, list(bad))], Err(argument));
        };
        check(WINDOW, &[1], "windowDimensions");
        check(WINDOW, &[0, 1], "windowDimensions");
        check(WINDOW, &[HUGE, HUGE], "windowDimensions");
        check(PADDING, &[1, 1, 1], "padding");
        check(PADDING, &[HUGE, HUGE, HUGE, HUGE], "windowDimensions");
        check(STRIDES, &[1], "strides");
        check(STRIDES, &[1, 0], "strides");
        check(DILATIONS, &[1, 1, 1], "dilations");
        check(DILATIONS, &[0, 1], "dilations");
        check(DILATIONS, &[HUGE, HUGE], "windowDimensions");
        check(SIZES, &[1, 1, 1], "outputSizes");
    }
}
