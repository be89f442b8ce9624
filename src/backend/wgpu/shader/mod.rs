//! Shaders: how the elements of each data type lie in memory, and the text around a kernel's own.

mod positions;
mod scalar;
mod size;

pub use positions::coordinates;
pub use scalar::{Scalar, float, wrap};
pub use size::{Size, literal, real, signed, size, uniform};

use super::target::Features;
use crate::graph::DataType;
use std::fmt::Write;
use std::sync::LazyLock;

/// How the elements of a data type lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A word each.
    Words,
    /// Two words each.
    Pairs,
    /// Half a word each, and each can be written alone.
    Halves,
    /// So many to a word, which is written as a whole.
    Packed(usize),
}

impl Layout {
    pub fn of(data_type: DataType, features: Features) -> Layout {
        match data_type.bits() {
            64 => Layout::Pairs,
            32 => Layout::Words,
            16 if features.half => Layout::Halves,
            bits => Layout::Packed(32 / bits),
        }
    }

    /// Elements that are written at once.
    pub fn unit(self) -> usize {
        if let Layout::Packed(count) = self { count } else { 1 }
    }
}

/// The WGSL of the elements of an array of that data type.
pub fn memory_type(data_type: DataType, layout: Layout) -> &'static str {
    match layout {
        Layout::Words | Layout::Pairs => Scalar::of(data_type).name(),
        Layout::Halves => "f16",
        Layout::Packed(_) => "u32",
    }
}

/// Reads element `i`, as the data type's scalar, from memory whose words, as [`memory_type`] has them, are `word(number)`.
pub fn load(data_type: DataType, layout: Layout, word: &dyn Fn(&str) -> String, i: &str) -> String {
    match layout {
        Layout::Words | Layout::Pairs => word(i),
        Layout::Halves => format!("f32({})", word(i)),
        Layout::Packed(count) => {
            let (shift, mask, bits) = (count.ilog2(), count - 1, 32 / count);
            let word = word(&format!("({i}) >> {shift}u"));
            let low = format!("(({i}) & {mask}u) * {bits}u");
            match data_type {
                DataType::Float16 => format!("f32_from_half(extractBits({word}, {low}, 16u))"),
                _ if data_type.is_signed() => format!("extractBits(bitcast<i32>({word}), {low}, {bits}u)"),
                _ => format!("extractBits({word}, {low}, {bits}u)"),
            }
        }
    }
}

/// The bits of a packed element, in the lowest ones of a `u32`; what is above them is not cleared.
pub fn bits(data_type: DataType, x: &str) -> String {
    match data_type {
        DataType::Float16 => format!("half_from_f32({x})"),
        _ => Scalar::of(data_type).convert(Scalar::U32, x),
    }
}

/// What is assigned to an element of an array whose elements are written one by one.
pub fn stored(layout: Layout, x: &str) -> String {
    // The driver's conversion may round otherwise, but not what needs no rounding.
    if layout == Layout::Halves { format!("f16(round_half({x}))") } else { x.to_owned() }
}

/// The functions of the prelude by name.
static PRELUDE: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let text = include_str!("prelude.wgsl");
    let parts = text.split("\n\n").filter_map(|part| {
        let line = part.lines().find(|line| line.starts_with("fn ") || line.starts_with("struct "))?;
        let name = line.split([' ', '(', '{']).nth(1)?;
        Some((name, part))
    });
    parts.collect()
});

/// Whether a text mentions a name.
fn mentions(text: &str, name: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(part_of_name) && !text[at + name.len()..].starts_with(part_of_name))
}

/// The functions of the prelude that a text needs, and those that these need.
fn prelude_for(text: &str) -> String {
    let mut included: Vec<bool> = vec![false; PRELUDE.len()];
    let mut waiting = vec![text];
    while let Some(text) = waiting.pop() {
        for (number, (name, part)) in PRELUDE.iter().enumerate() {
            if !included[number] && mentions(text, name) {
                included[number] = true;
                waiting.push(part);
            }
        }
    }
    let mut result = String::new();
    for ((_, part), _) in PRELUDE.iter().zip(&included).filter(|(_, included)| **included) {
        let _ = writeln!(result, "{part}\n");
    }
    result
}

/// A whole shader: what it needs of the prelude before it.
pub fn complete(features: Features, text: &str) -> String {
    // naga knows these without their names, and not their names.
    let subgroups =
        if features.standard && text.contains("subgroup") { "enable subgroups;\nrequires subgroup_id;\n" } else { "" };
    let half = if features.half { "enable f16;\n" } else { "" };
    let matrices = if text.contains("coop_mat") { "enable wgpu_cooperative_matrix;\n" } else { "" };
    format!("{half}{matrices}{subgroups}{}{text}", prelude_for(text))
}
