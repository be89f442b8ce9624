//! How a kernel gets at a tensor's memory: as one array or, where the tensor is longer than what the device binds at once, as
//! several, among which functions choose. Kernels do not see the difference.

use super::lowering::{Lowering, Tensor};
use crate::backend::wgpu::gpu_program::{Memory, Slot};
use crate::backend::wgpu::shader::memory_type;
use std::fmt::Write;

/// The arrays of a tensor under a name.
#[derive(Clone, Debug)]
pub struct Words {
    name: String,
    /// The type of their elements.
    word: &'static str,
    /// Elements of each array but the last are two to this power, when there are several.
    power: u32,
    parts: Vec<Memory>,
}

impl Words {
    pub fn new(lowering: &Lowering<'_>, name: &str, tensor: &Tensor) -> Self {
        let word = memory_type(tensor.data_type, lowering.layout(tensor));
        let width = match word {
            "f16" => 2,
            "vec2<u32>" => 8,
            _ => 4,
        };
        let memory = tensor.memory;
        let at_once = lowering.target.binding_length(memory.length);
        let part =
            |offset: usize| Memory { offset: memory.offset + offset, length: (memory.length - offset).min(at_once), ..memory };
        let parts = (0..memory.length.max(1)).step_by(at_once).map(part).collect();
        Words { name: name.to_owned(), word, power: (at_once / width).max(1).ilog2(), parts }
    }

    /// Whether these are other names of the same arrays.
    pub fn is_over_the_same(&self, other: &Words) -> bool {
        (self.word, &self.parts) == (other.word, &other.parts)
    }

    fn is_divided(&self) -> bool {
        self.parts.len() > 1
    }

    pub fn parts(&self) -> &[Memory] {
        &self.parts
    }

    /// The declarations, from a number of a binding on.
    pub fn declare(&self, first: usize, is_atomic: bool) -> String {
        let Words { name, word, .. } = self;
        // The arena and the outputs are written by some kernels and read by others; a buffer that is bound twice must be
        // bound alike.
        let access = match self.parts[0].slot {
            Slot::Input(_) | Slot::Constant(_) | Slot::Sizes => "read",
            Slot::Output(_) | Slot::Arena | Slot::Findings => "read_write",
        };
        let element = if is_atomic { format!("atomic<{word}>") } else { (*word).to_owned() };
        let mut text = String::new();
        for part in 0..self.parts.len() {
            let (binding, array) = (first + part, self.array(part));
            let _ = writeln!(text, "@group(0) @binding({binding}) var<storage, {access}> {array}: array<{element}>;");
        }
        if !self.is_divided() {
            return text;
        }
        if is_atomic {
            let raise = self.choose(|array, i| format!("atomicMax(&{array}[{i}], word);"));
            let _ = writeln!(text, "fn raise_{name}_word(i: u32, word: {word}) {{\n{raise}}}");
            return text;
        }
        let get = self.choose(|array, i| format!("word = {array}[{i}];"));
        let _ = writeln!(text, "fn {name}_word(i: u32) -> {word} {{\nvar word: {word};\n{get}return word;\n}}");
        if access == "read_write" {
            let set = self.choose(|array, i| format!("{array}[{i}] = word;"));
            let _ = writeln!(text, "fn set_{name}_word(i: u32, word: {word}) {{\n{set}}}");
        }
        text
    }

    fn array(&self, part: usize) -> String {
        let name = &self.name;
        if self.is_divided() { format!("{name}_memory{part}") } else { format!("{name}_memory") }
    }

    /// Does something to the array in which word `i` is, and its number there.
    fn choose(&self, what: impl Fn(&str, &str) -> String) -> String {
        let within = format!("i & {}u", (1u32 << self.power) - 1);
        let mut text = format!("switch i >> {}u {{\n", self.power);
        for part in 0..self.parts.len() {
            let case = if part + 1 < self.parts.len() { format!("case {part}u:") } else { "default:".to_owned() };
            let _ = writeln!(text, "{case} {{ {} }}", what(&self.array(part), &within));
        }
        text.push_str("}\n");
        text
    }

    /// Word `i`.
    pub fn at(&self, i: &str) -> String {
        let name = &self.name;
        if self.is_divided() { format!("{name}_word({i})") } else { format!("{name}_memory[{i}]") }
    }

    /// A statement that writes word `i`.
    pub fn set(&self, i: &str, word: &str) -> String {
        let name = &self.name;
        if self.is_divided() { format!("set_{name}_word({i}, {word});") } else { format!("{name}_memory[{i}] = {word};") }
    }

    /// A statement that makes word `i`, which is an atomic, no less than another.
    pub fn raise(&self, i: &str, word: &str) -> String {
        let name = &self.name;
        if self.is_divided() {
            format!("raise_{name}_word({i}, {word});")
        } else {
            format!("atomicMax(&{name}_memory[{i}], {word});")
        }
    }
}
