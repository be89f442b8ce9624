//! Positions in a tensor as expressions of a position in another shape.

/// A walk over a shape in row-major order, and where each step leads in some tensor's memory. Broadcasting, transposing,
/// slicing, reversing, tiling: all of them are walks.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Outermost first: the size of a dimension, and the distance that a step in it goes.
    dimensions: Vec<(usize, isize)>,
    start: isize,
}

/// The distances of a dense tensor.
pub fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as isize;
    }
    strides
}

impl Walk {
    pub fn new(dimensions: impl IntoIterator<Item = (usize, isize)>, start: isize) -> Self {
        Walk { dimensions: dimensions.into_iter().collect(), start }
    }

    /// Over an output, in an operand that is broadcast to it. A size may also be a divisor of the output's: then each of the
    /// operand's elements belongs to a block.
    pub fn broadcast(output: &[usize], operand: &[usize]) -> Self {
        let strides = strides(operand);
        let skipped = output.len() - operand.len();
        let dimensions = output.iter().enumerate().flat_map(|(d, &size)| match d.checked_sub(skipped) {
            Some(own) if operand[own] == size => [(1, 0), (size, strides[own])],
            Some(own) if operand[own] != 1 => [(operand[own], strides[own]), (size / operand[own], 0)],
            _ => [(1, 0), (size, 0)],
        });
        Walk::new(dimensions, 0)
    }

    /// The dimensions that matter: none of size 1, and those that are passed in one go as one.
    fn merged(&self) -> Vec<(usize, isize)> {
        let mut merged: Vec<(usize, isize)> = Vec::new();
        for &(size, stride) in self.dimensions.iter().filter(|(size, _)| *size != 1) {
            match merged.last_mut() {
                Some(outer) if outer.1 == stride * size as isize => *outer = (outer.0 * size, stride),
                _ => merged.push((size, stride)),
            }
        }
        merged
    }

    /// The position in memory for the position `i`, a `u32` variable.
    pub fn at(&self, i: &str) -> String {
        let merged = self.merged();
        let mut terms = Vec::new();
        let mut below: usize = merged.iter().map(|(size, _)| size).product();
        for (number, &(size, stride)) in merged.iter().enumerate() {
            below /= size;
            if stride == 0 {
                continue;
            }
            let mut index = i.to_owned();
            if below > 1 {
                index = format!("{index} / {below}u");
            }
            if number > 0 {
                index = format!("{index} % {size}u");
            }
            // Going backwards is adding modulo 2³².
            let stride = stride as u32;
            terms.push(if stride == 1 { format!("({index})") } else { format!("({index}) * {stride}u") });
        }
        if self.start != 0 || terms.is_empty() {
            terms.push(format!("{}u", self.start as u32));
        }
        if let [one] = &terms[..] { one.clone() } else { format!("({})", terms.join(" + ")) }
    }
}

/// The coordinates of a position in a shape: `let c0 = …; let c1 = …;`, with another letter if need be.
pub fn coordinates(shape: &[usize], i: &str, letter: &str) -> String {
    let mut below: usize = shape.iter().product();
    let mut text = String::new();
    for (d, &size) in shape.iter().enumerate() {
        below /= size;
        let quotient = if below > 1 { format!("{i} / {below}u") } else { i.to_owned() };
        let index = if d > 0 { format!("({quotient}) % {size}u") } else { quotient };
        text.push_str(&format!("let {letter}{d} = {};\n", if size == 1 { "0u".to_owned() } else { index }));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_merged() {
        assert_eq!(Walk::broadcast(&[2, 3, 4], &[2, 3, 4]).at("i"), "(i)");
        assert_eq!(Walk::broadcast(&[2, 3, 4], &[]).at("i"), "0u");
        assert_eq!(Walk::broadcast(&[2, 3, 4], &[4]).at("i"), "(i % 4u)");
        assert_eq!(Walk::broadcast(&[2, 3, 4], &[2, 1, 1]).at("i"), "(i / 12u)");
        // Blocks of two rows.
        assert_eq!(Walk::broadcast(&[4, 6], &[2, 6]).at("i"), "((i / 12u) * 6u + (i % 6u))");
        assert_eq!(Walk::new([(4, -1)], 3).at("i"), "((i) * 4294967295u + 3u)");
    }
}
