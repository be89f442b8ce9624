//! Kernels: a shader made of bindings and WGSL, and its dispatch.

use super::lowering::{Lowering, Tensor};
use super::words::Words;
use crate::backend::wgpu::gpu_program::{Memory, Slot};
use crate::backend::wgpu::shader::{Layout, Scalar, bits, load, size, stored};
use crate::error::Result;
use crate::graph::DataType;
use std::fmt::Write;

/// Invocations in a workgroup of an element-wise kernel.
pub const WORKGROUP: usize = 64;

/// A kernel under construction. Bindings are declared first, and give the names under which WGSL reads them.
#[derive(Debug)]
pub struct Kernel {
    label: &'static str,
    bindings: Vec<Memory>,
    /// What is bound, and whether its elements are atomics.
    bound: Vec<(Words, bool)>,
    text: String,
}

impl Kernel {
    pub fn new(label: &'static str) -> Self {
        Kernel { label, bindings: Vec::new(), bound: Vec::new(), text: String::new() }
    }

    /// Binds a tensor's memory under a name. What is bound already is not bound again: memory that a kernel may write must not be bound
    /// twice, even where the kernel only reads it.
    fn bind(&mut self, lowering: &Lowering<'_>, name: &str, tensor: &Tensor, is_atomic: bool) -> Words {
        let words = Words::new(lowering, name, tensor);
        let is_same = |(other, atomic): &&(Words, bool)| other.is_over_the_same(&words) && *atomic == is_atomic;
        if let Some((other, _)) = self.bound.iter().find(is_same) {
            return other.clone();
        }
        self.bound.push((words.clone(), is_atomic));
        self.text.push_str(&words.declare(self.bindings.len(), is_atomic));
        self.bindings.extend(words.parts());
        words
    }

    /// Binds a tensor that is read: `{name}(i)` is its element number `i`, a `u32`, as the data type's [`Scalar`].
    ///
    /// An index that is out of range reads some element of the tensor or 0, never foreign memory.
    pub fn reads(mut self, lowering: &Lowering<'_>, name: &str, tensor: &Tensor) -> Self {
        self.add_reads(lowering, name, tensor);
        self
    }

    /// Like [`Kernel::reads`].
    pub fn add_reads(&mut self, lowering: &Lowering<'_>, name: &str, tensor: &Tensor) {
        let words = self.bind(lowering, name, tensor, false);
        let value = load(tensor.data_type, lowering.layout(tensor), &|i| words.at(i), "i");
        let _ = writeln!(self.text, "fn {name}(i: u32) -> {} {{ return {value}; }}", tensor.scalar().name());
    }

    /// Binds a tensor of uint32: `raise_{name}(i, value)` makes element `i` no less than a value, whoever else does so.
    pub fn raises(mut self, lowering: &Lowering<'_>, name: &str, tensor: &Tensor) -> Self {
        assert_eq!(tensor.data_type, DataType::Uint32);
        assert!(!matches!(tensor.memory.slot, Slot::Input(_) | Slot::Constant(_)));
        let raise = self.bind(lowering, name, tensor, true).raise("i", "value");
        let _ = writeln!(self.text, "fn raise_{name}(i: u32, value: u32) {{ {raise} }}");
        self
    }

    /// Adds declarations: functions, constants, workgroup memory.
    pub fn declare(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self.text.push('\n');
        self
    }

    /// Runs `body` for every element of a tensor: it is the body of `fn element(i: u32) -> T`, with `i` the element's number
    /// and `T` its scalar, and returns the element.
    ///
    /// It does not matter how many elements share a word; values outside the range of an integer type are wrapped, those of
    /// float16 are rounded.
    pub fn each(mut self, lowering: &mut Lowering<'_>, output: &Tensor, body: &str) -> Result<()> {
        let words = self.bind(lowering, "output", output, false);
        let layout = lowering.layout(output);
        let unit = layout.unit();
        let units = output.count().div_ceil(unit);
        let (row, grid) = grid(lowering, units.div_ceil(WORKGROUP));
        let _ = write!(
            self.text,
            "fn element(i: u32) -> {scalar} {{\n{body}\n}}\n\
             @compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
             let unit = id.y * {row}u + id.x;\n\
             if unit >= {units}u {{ return; }}\n",
            scalar = output.scalar().name(),
            row = size(row * WORKGROUP),
            units = size(units),
        );
        let write = match layout {
            Layout::Packed(_) => packed(output, &words, unit),
            _ => format!("{}\n}}\n", words.set("unit", &stored(layout, "element(unit)"))),
        };
        self.text.push_str(&write);
        self.dispatch(lowering, grid)
    }

    /// Runs a kernel with an entry point of its own: `@compute @workgroup_size(…) fn main(…)` is among what was declared.
    /// Written tensors are bound by [`Kernel::writes`].
    pub fn run(self, lowering: &mut Lowering<'_>, grid: [u32; 3]) -> Result<()> {
        self.dispatch(lowering, grid)
    }

    /// Binds a tensor that is written: `store_{name}(i, value)`. Elements must not share words: the data type must have
    /// 32 or 64 bits, or be float16 on a device that has it ([`Lowering::is_written_alone`]).
    pub fn writes(mut self, lowering: &Lowering<'_>, name: &str, tensor: &Tensor) -> Self {
        let words = self.bind(lowering, name, tensor, false);
        let layout = lowering.layout(tensor);
        assert_eq!(layout.unit(), 1, "elements that share words are written by `each`");
        let set = words.set("i", &stored(layout, "value"));
        let scalar = tensor.scalar().name();
        let _ = writeln!(self.text, "fn store_{name}(i: u32, value: {scalar}) {{ {set} }}");
        self
    }

    /// Whether memory that may be written is bound twice, which WebGPU refuses.
    fn writes_twice(&self) -> bool {
        let end = |memory: &Memory| memory.offset + memory.length.max(1).next_multiple_of(4);
        let overlap = |a: &Memory, b: &Memory| a.slot == b.slot && a.offset < end(b) && b.offset < end(a);
        let may_write = |memory: &Memory| matches!(memory.slot, Slot::Output(_) | Slot::Arena | Slot::Findings);
        let all = &self.bindings;
        all.iter().enumerate().any(|(i, a)| may_write(a) && all[..i].iter().any(|b| overlap(a, b)))
    }

    fn dispatch(self, lowering: &mut Lowering<'_>, grid: [u32; 3]) -> Result<()> {
        lowering.target.check_bindings(self.bindings.len())?;
        debug_assert!(!self.writes_twice(), "{}: {:?}", self.label, self.bindings);
        lowering.dispatch(self.label, &self.text, self.bindings, grid);
        Ok(())
    }
}

/// The end of an entry point that writes the elements of one word.
fn packed(output: &Tensor, words: &Words, unit: usize) -> String {
    let width = 32 / unit;
    let value = bits(output.data_type, "element(i)");
    // The last word may have elements that are not to be written.
    let (kept, end) = (words.at("unit"), size(output.count()));
    format!(
        "var word = 0u;\n\
         if unit == {end}u / {unit}u {{ word = {kept}; }}\n\
         for (var k = 0u; k < {unit}u; k += 1u) {{\n\
         let i = unit * {unit}u + k;\n\
         if i < {end}u {{ word = insertBits(word, {value}, k * {width}u, {width}u); }}\n\
         }}\n{}\n}}\n",
        words.set("unit", "word"),
    )
}

/// The grid of so many workgroups, and how many there are in a row of it.
pub fn grid(lowering: &Lowering<'_>, workgroups: usize) -> (usize, [u32; 3]) {
    let most = lowering.target.max_compute_workgroups_per_dimension;
    let rows = workgroups.div_ceil(most).max(1);
    let row = workgroups.div_ceil(rows).max(1);
    (row, [row as u32, rows as u32, 1])
}

impl Lowering<'_> {
    /// Whether elements of a data type do not share words that are written as a whole.
    pub fn is_written_alone(&self, data_type: DataType) -> bool {
        Layout::of(data_type, self.target.features).unit() == 1
    }

    /// Copies a tensor to another of the same shape, converting the data type.
    pub fn convert(&mut self, from: &Tensor, to: &Tensor) -> Result<()> {
        let value = Scalar::of(from.data_type).convert(to.scalar(), "a(i)");
        Kernel::new("convert").reads(self, "a", from).each(self, to, &format!("return {value};"))
    }
}
