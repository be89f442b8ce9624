//! Numbers that come from shapes, in the text of kernels.
//!
//! Kernels are written with marks in the places of such numbers. When the text is complete, the marks become literals, or fields
//! of a uniform buffer: then the text says nothing of the shapes, and serves all that are computed alike.

use super::scalar::float;
use std::cell::Cell;
use std::fmt::{self, Write};

/// A number that comes from a shape. Where it is formatted, what follows says its type: `u` a `u32`, `.0f` an `f32`, and
/// otherwise it is an `i32`. It is no constant expression.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Copies have the same, so that they become one field. Numbers that happen to be equal do not: at other shapes they are not.
    id: u64,
    bits: u32,
}

/// A floating-point number that comes from a shape.
#[derive(Clone, Copy, Debug)]
pub struct Real(Size);

/// Encloses marks; WGSL has no use for it.
const MARK: char = '#';

thread_local! {
    /// The numbers so far. A text is made by one thread.
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

impl Size {
    fn of(bits: u32) -> Size {
        Size { id: NEXT.replace(NEXT.get() + 1), bits }
    }
}

/// A number from 0 up to what a shader's 32 bits hold; others are taken modulo 2³².
pub fn size(number: usize) -> Size {
    Size::of(number as u32)
}

/// A number that may be negative, for places where it is an `i32`.
pub fn signed(number: i32) -> Size {
    Size::of(number as u32)
}

pub fn real(number: f32) -> Real {
    Real(Size::of(number.to_bits()))
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}:{}{MARK}", self.id, self.bits)
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}f", self.0)
    }
}

/// What a mark is in its place.
#[derive(Clone, Copy)]
enum Role {
    Unsigned,
    Signed,
    /// A whole number as an `f32`.
    Whole,
    Real,
}

/// The text with something in the place of each mark: of its identity, number and role.
fn replaced(text: &str, mut instead: impl FnMut(u64, u32, Role) -> String) -> String {
    let mut result = String::with_capacity(text.len());
    let mut parts = text.split(MARK);
    result.push_str(parts.next().unwrap_or_default());
    while let (Some(mark), Some(rest)) = (parts.next(), parts.next()) {
        let (id, bits) = mark.split_once(':').expect("a mark has two numbers");
        let (id, bits) = (id.parse().expect("a mark's identity"), bits.parse().expect("a mark's number"));
        let roles = [("u", Role::Unsigned), (".0f", Role::Whole), ("f", Role::Real)];
        let found = roles.iter().find_map(|(suffix, role)| Some((*role, rest.strip_prefix(suffix)?)));
        let (role, rest) = found.unwrap_or((Role::Signed, rest));
        result.push_str(&instead(id, bits, role));
        result.push_str(rest);
    }
    result
}

/// The text with literals.
pub fn literal(text: &str) -> String {
    replaced(text, |_, bits, role| match role {
        Role::Unsigned => format!("{bits}u"),
        Role::Signed => format!("{}", bits as i32),
        Role::Whole => format!("{bits}.0f"),
        Role::Real => float(f32::from_bits(bits)),
    })
}

/// The text with fields of a uniform buffer, which is that binding of group 0, and the words of the buffer: whole vectors of
/// four, or none, if there is no such number.
pub fn uniform(text: &str, binding: usize) -> (String, Vec<u32>) {
    let (mut ids, mut words) = (Vec::new(), Vec::new());
    let body = replaced(text, |id, bits, role| {
        let number = ids.iter().position(|other| *other == id).unwrap_or_else(|| {
            ids.push(id);
            words.push(bits);
            ids.len() - 1
        });
        let field = format!("shape_sizes[{}].{}", number / 4, ["x", "y", "z", "w"][number % 4]);
        match role {
            Role::Unsigned => field,
            Role::Signed => format!("i32({field})"),
            Role::Whole => format!("f32({field})"),
            Role::Real => format!("bitcast<f32>({field})"),
        }
    });
    if words.is_empty() {
        return (body, words);
    }
    words.resize(words.len().next_multiple_of(4), 0);
    let mut text = String::new();
    let _ = writeln!(text, "@group(0) @binding({binding}) var<uniform> shape_sizes: array<vec4<u32>, {}>;", words.len() / 4);
    (text + &body, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let (rows, columns) = (size(12), size(12));
        format!("i / {rows}u % {columns}u + i32({}) - {rows} * {columns}.0f * {}", signed(-3), real(0.5))
    }

    #[test]
    fn numbers_become_literals() {
        assert_eq!(literal(&text()), "i / 12u % 12u + i32(-3) - 12 * 12.0f * f32(0.5)");
        assert_eq!(literal("nothing"), "nothing");
    }

    #[test]
    fn numbers_become_fields_and_one_number_is_one_field() {
        let (found, words) = uniform(&text(), 3);
        let [rows, columns] = ["shape_sizes[0].x", "shape_sizes[0].y"];
        assert_eq!(
            found,
            format!(
                "@group(0) @binding(3) var<uniform> shape_sizes: array<vec4<u32>, 1>;\n\
                 i / {rows} % {columns} + i32(i32(shape_sizes[0].z)) - i32({rows}) * f32({columns}) * bitcast<f32>(shape_sizes[0].w)"
            )
        );
        assert_eq!(words, [12, 12, (-3i32) as u32, 0.5f32.to_bits()]);
        assert_eq!(uniform("nothing", 0), ("nothing".to_owned(), vec![]));
    }
}
