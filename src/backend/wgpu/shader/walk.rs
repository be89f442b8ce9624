//! Positions in a tensor as expressions of a position in another shape.

use crate::backend::strided::{Dimension, Strided};

impl Strided {
    /// The position in memory for the position `i`, a `u32` variable.
    pub fn at(&self, i: &str) -> String {
        let merged = self.simplified();
        let mut terms = Vec::new();
        let mut below: usize = merged.iter().map(|dimension| dimension.size).product();
        for (number, &Dimension { size, stride }) in merged.iter().enumerate() {
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
        if self.offset != 0 || terms.is_empty() {
            terms.push(format!("{}u", self.offset as u32));
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
        assert_eq!(Strided::broadcast(&[2, 3, 4], &[2, 3, 4]).at("i"), "(i)");
        assert_eq!(Strided::broadcast(&[], &[2, 3, 4]).at("i"), "0u");
        assert_eq!(Strided::broadcast(&[4], &[2, 3, 4]).at("i"), "(i % 4u)");
        assert_eq!(Strided::broadcast(&[2, 1, 1], &[2, 3, 4]).at("i"), "(i / 12u)");
        // Blocks of two rows.
        assert_eq!(Strided::broadcast(&[2, 6], &[4, 6]).at("i"), "((i / 12u) * 6u + (i % 6u))");
        assert_eq!(Strided::new([Dimension { size: 4, stride: -1 }], 3).at("i"), "((i) * 4294967295u + 3u)");
    }
}
