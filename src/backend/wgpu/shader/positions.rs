//! Positions in a tensor as expressions of a position in another shape.

use super::size::size as marked;
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
                index = format!("{index} / {}u", marked(below));
            }
            if number > 0 {
                index = format!("{index} % {}u", marked(size));
            }
            // Going backwards is adding modulo 2³².
            terms.push(if stride == 1 { format!("({index})") } else { format!("({index}) * {}u", marked(stride as usize)) });
        }
        if self.offset == 0 && terms.is_empty() {
            terms.push("0u".to_owned());
        } else if self.offset != 0 {
            terms.push(format!("{}u", marked(self.offset)));
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
        let quotient = if below > 1 { format!("{i} / {}u", marked(below)) } else { i.to_owned() };
        let index = if d > 0 { format!("({quotient}) % {}u", marked(size)) } else { quotient };
        text.push_str(&format!("let {letter}{d} = {};\n", if size == 1 { "0u".to_owned() } else { index }));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::shader::size::literal;

    fn at(places: Strided) -> String {
        literal(&places.at("i"))
    }

    #[test]
    fn dimensions_are_merged() {
        assert_eq!(at(Strided::broadcast(&[2, 3, 4], &[2, 3, 4])), "(i)");
        assert_eq!(at(Strided::broadcast(&[], &[2, 3, 4])), "0u");
        assert_eq!(at(Strided::broadcast(&[4], &[2, 3, 4])), "(i % 4u)");
        assert_eq!(at(Strided::broadcast(&[2, 1, 1], &[2, 3, 4])), "(i / 12u)");
        // Blocks of two rows.
        assert_eq!(at(Strided::broadcast(&[2, 6], &[4, 6])), "((i / 12u) * 6u + (i % 6u))");
        assert_eq!(at(Strided::new([Dimension { size: 4, stride: -1 }], 3)), "((i) * 4294967295u + 3u)");
    }
}
