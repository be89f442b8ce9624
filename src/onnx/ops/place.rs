//! Where along an axis of the input the value of a position of the output lies, for Resize.

/// The factor between the sizes of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Of two sizes. Places are computed exactly, as fractions.
    Ratio { to: u32, from: u32 },
    /// A number that the model gives. It is rounded already (1/3 is no float32), so exact places would be beside those that
    /// are meant; they are computed in float32, as ONNX Runtime does it.
    Factor(f32),
}

/// A place between two elements: the whole number below it, and how far it is from there, at least 0 and less than 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub whole: i64,
    pub rest: f64,
}

impl Place {
    /// Denominators have at most 33 bits, so that the rest is right as to whether it is 0, 1/2 or less than 1.
    fn of_fraction(numerator: i128, denominator: i128) -> Place {
        let rest = numerator.rem_euclid(denominator) as f64 / denominator as f64;
        Place { whole: numerator.div_euclid(denominator) as i64, rest }
    }

    fn of_number(x: f64) -> Place {
        Place { whole: x.floor() as i64, rest: if x.is_finite() { x - x.floor() } else { 0.0 } }
    }

    /// The whole number that it is rounded to, by the name of ONNX's rule.
    pub fn rounded(self, rule: &str) -> Option<i64> {
        let up = match rule {
            "round_prefer_floor" => self.rest > 0.5,
            "round_prefer_ceil" => self.rest >= 0.5,
            "floor" => false,
            "ceil" => self.rest > 0.0,
            _ => return None,
        };
        Some(self.whole.saturating_add(up.into()))
    }

    /// Whether it is not before 0 and not after the last element.
    pub fn is_within(self, last: i64) -> bool {
        self.whole >= 0 && (self.whole < last || self.whole == last && self.rest == 0.0)
    }
}

impl Scale {
    pub fn value(self) -> f64 {
        match self {
            Scale::Ratio { to, from } => f64::from(to) / f64::from(from),
            Scale::Factor(factor) => factor.into(),
        }
    }

    /// Whether it is exactly the ratio of two sizes.
    pub fn is(self, to: u32, from: u32) -> bool {
        match self {
            Scale::Ratio { to: a, from: b } => u64::from(a) * u64::from(from) == u64::from(to) * u64::from(b),
            // The product is exact for sizes of up to 29 bits.
            Scale::Factor(factor) => f64::from(factor) * f64::from(from) == f64::from(to),
        }
    }

    /// The place of a position, by the name of ONNX's rule, for an axis with the sizes of input and output and a part of the
    /// input that `tf_crop_and_resize` takes.
    pub fn place(self, rule: &str, position: u32, sizes: [u32; 2], crop: (f64, f64)) -> Option<Place> {
        match (rule, self) {
            // A single element.
            ("align_corners" | "pytorch_half_pixel", _) if sizes[1] == 1 => Some(Place { whole: 0, rest: 0.0 }),
            ("tf_crop_and_resize", _) => Some(self.cropped(position, sizes, crop)),
            (_, Scale::Ratio { to, from }) => exact(rule, position, sizes, (to, from)),
            (_, Scale::Factor(factor)) => single_precision(rule, position, sizes, factor).map(|x| Place::of_number(x.into())),
        }
    }

    /// The region's ends are float32 numbers; with sizes nothing but the last division is rounded.
    fn cropped(self, position: u32, [input, output]: [u32; 2], (start, end): (f64, f64)) -> Place {
        let (x, last, steps) = (f64::from(position), f64::from(input) - 1.0, f64::from(output) - 1.0);
        Place::of_number(match self {
            _ if output == 1 => 0.5 * (start + end) * last,
            Scale::Ratio { .. } => (start * last * steps + x * (end - start) * last) / steps,
            Scale::Factor(_) => {
                let [x, last, steps, start, end] = [x, last, steps, start, end].map(|number| number as f32);
                (start * last + x * (end - start) * last / steps).into()
            }
        })
    }
}

fn exact(rule: &str, position: u32, [input, output]: [u32; 2], (to, from): (u32, u32)) -> Option<Place> {
    let [x, input, output, to, from] = [position, input, output, to, from].map(i128::from);
    let (numerator, denominator) = match rule {
        "half_pixel" | "pytorch_half_pixel" => ((2 * x + 1) * from - to, 2 * to),
        // The output's size was rounded: what is lost is shared by both ends.
        "half_pixel_symmetric" => (input * to - output * from + (2 * x + 1) * from - to, 2 * to),
        "align_corners" => (x * (input - 1), output - 1),
        "asymmetric" => (x * from, to),
        "tf_half_pixel_for_nn" => ((2 * x + 1) * from, 2 * to),
        _ => return None,
    };
    // Sizes of 0 are refused before.
    Some(Place::of_fraction(numerator, denominator.max(1)))
}

fn single_precision(rule: &str, position: u32, [input, output]: [u32; 2], factor: f32) -> Option<f32> {
    let (x, input, output) = (position as f32, input as f32, output as f32);
    Some(match rule {
        "half_pixel" | "pytorch_half_pixel" => (x + 0.5) / factor - 0.5,
        "half_pixel_symmetric" => {
            let adjustment = output / (factor * input);
            input / 2.0 * (1.0 - adjustment) + (x + 0.5) / factor - 0.5
        }
        "align_corners" => x * (input - 1.0) / (output - 1.0),
        "asymmetric" => x / factor,
        "tf_half_pixel_for_nn" => (x + 0.5) / factor,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(scale: Scale, coordinates: &str, rounding: &str, input: u32, output: u32) -> Vec<i64> {
        let place = |position| scale.place(coordinates, position, [input, output], (0.0, 1.0)).unwrap();
        (0..output).map(|position| place(position).rounded(rounding).unwrap().clamp(0, i64::from(input) - 1)).collect()
    }

    /// Pairs of sizes beside the definition in whole numbers. Divided by a rounded ratio, some positions are beside the right
    /// element.
    #[test]
    fn sizes_give_exact_places() {
        let lengths = [3, 5, 7, 9, 14, 18, 24, 49, 61, 93, 112, 187, 224, 384];
        for (input, output) in lengths.iter().flat_map(|&n| lengths.iter().map(move |&m| (n, m))) {
            let scale = Scale::Ratio { to: output, from: input };
            let (n, m) = (i64::from(input), i64::from(output));
            let clamped = |x: i64| x.clamp(0, n - 1);
            let floors: Vec<i64> = (0..m).map(|i| i * n / m).collect();
            assert_eq!(nearest(scale, "asymmetric", "floor", input, output), floors, "{input} to {output}");
            // floor(x + 1/2) and ceil(x - 1/2) of x = (2 i + 1) n / 2 m - 1/2.
            let up: Vec<i64> = (0..m).map(|i| clamped(((2 * i + 1) * n).div_euclid(2 * m))).collect();
            assert_eq!(nearest(scale, "half_pixel", "round_prefer_ceil", input, output), up, "{input} to {output}");
            let down: Vec<i64> = (0..m).map(|i| clamped(-(2 * m - (2 * i + 1) * n).div_euclid(2 * m))).collect();
            assert_eq!(nearest(scale, "half_pixel", "round_prefer_floor", input, output), down, "{input} to {output}");
            let corners: Vec<i64> = (0..m).map(|i| i * (n - 1) / (m - 1)).collect();
            assert_eq!(nearest(scale, "align_corners", "floor", input, output), corners, "{input} to {output}");
        }
    }

    /// A third is no float32: divided by the nearest one in float64, every position but the first would be just below.
    #[test]
    fn scales_give_places_in_single_precision() {
        let thirds: Vec<i64> = (0..100).map(|i| 3 * i).collect();
        assert_eq!(nearest(Scale::Factor(1.0 / 3.0), "asymmetric", "floor", 300, 100), thirds);
        assert_eq!(nearest(Scale::Factor(2.0), "half_pixel", "round_prefer_floor", 3, 6), [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn places_at_halves_and_ends() {
        let half = Place { whole: -1, rest: 0.5 };
        let rules = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
        assert_eq!(rules.map(|rule| half.rounded(rule).unwrap()), [-1, 0, -1, 0]);
        assert!(half.rounded("other").is_none());
        assert!(Place { whole: 3, rest: 0.0 }.is_within(3) && !Place { whole: 3, rest: 0.5 }.is_within(3) && !half.is_within(3));
        let large = Scale::Ratio { to: u32::MAX, from: u32::MAX - 1 };
        let place = large.place("half_pixel", u32::MAX - 1, [u32::MAX - 1, u32::MAX], (0.0, 1.0)).unwrap();
        assert_eq!(place.whole, i64::from(u32::MAX) - 2);
        assert!(large.place("unknown", 0, [2, 2], (0.0, 1.0)).is_none());
    }
}
