//! Operators that move elements without looking at them: most are a copy with strides.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use super::words::Words;
use crate::backend::strided::Strided;
use crate::backend::wgpu::gpu_program::Memory;
use crate::backend::wgpu::shader::{Scalar, coordinates, load, signed, size};
use crate::compiler::ALIGNMENT;
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::movement::{
    Concat, Expand, Pad, PaddingMode, Reshape, Reverse, Slice, Split, Tile, Transpose, Triangular,
};
use crate::graph::shape::strides;

/// The elements of the input at these places.
fn copy(lowering: &mut Lowering<'_>, input: &Tensor, output: &Tensor, places: &Strided) -> Result<()> {
    let kernel = Kernel::new("copy").reads(lowering, "input", input);
    kernel.each(lowering, output, &format!("return input({});", places.at("i")))
}

pub fn reshape(lowering: &mut Lowering<'_>, op: &Reshape, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    copy(lowering, input, operands.output(), &Strided::dense(&input.shape))
}

/// A copy; what is outside is found before whoever reads the indices ([`super::checks`]).
pub fn check_indices(lowering: &mut Lowering<'_>, op: &CheckIndices, operands: &Operands) -> Result<()> {
    let input = operands.input(op.indices);
    copy(lowering, input, operands.output(), &Strided::dense(&input.shape))
}

pub fn expand(lowering: &mut Lowering<'_>, op: &Expand, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    copy(lowering, input, output, &Strided::broadcast(&input.shape, &output.shape))
}

pub fn reverse(lowering: &mut Lowering<'_>, op: &Reverse, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    copy(lowering, input, operands.output(), &Strided::reversed(op, &input.shape))
}

pub fn slice(lowering: &mut Lowering<'_>, op: &Slice, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    copy(lowering, input, output, &Strided::sliced(op, &input.shape, &output.shape))
}

pub fn split(lowering: &mut Lowering<'_>, op: &Split, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let axis = op.axis as usize;
    let mut first = 0;
    for output in operands.outputs() {
        let size = output.shape[axis];
        if lowering.is_read(output) {
            copy(lowering, input, output, &Strided::part(&input.shape, axis, first, size))?;
        }
        first += size;
    }
    Ok(())
}

pub fn tile(lowering: &mut Lowering<'_>, op: &Tile, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    copy(lowering, input, operands.output(), &Strided::tiled(op, &input.shape))
}

pub fn transpose(lowering: &mut Lowering<'_>, op: &Transpose, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    copy(lowering, input, operands.output(), &Strided::transposed(op, &input.shape))
}

pub fn triangular(lowering: &mut Lowering<'_>, op: &Triangular, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let &[.., rows, columns] = &input.shape[..] else { unreachable!("the rank is at least 2") };
    // Beyond the matrix it does not matter how far.
    let diagonal = i64::from(op.diagonal).clamp(-(rows as i64), columns as i64);
    let keeps = if op.upper { ">=" } else { "<=" };
    let (diagonal, rows, columns) = (signed(diagonal as i32), size(rows), size(columns));
    let body = format!(
        "let column = i32(i % {columns}u);\n\
         let row = i32((i / {columns}u) % {rows}u);\n\
         if column - row {keeps} i32({diagonal}) {{ return input(i); }}\n\
         return {};",
        output.scalar().integer(0)
    );
    Kernel::new("triangular").reads(lowering, "input", input).each(lowering, output, &body)
}

/// So many inputs are joined by one kernel at most: all must be bound, the output, and the table of places.
fn concat_at_once(lowering: &Lowering<'_>, operands: &Operands) -> usize {
    let divided = operands.tensors().any(|tensor| lowering.bindings(tensor) > 1);
    if divided { 1 } else { lowering.target.most_bindings().min(16).saturating_sub(2).max(1) }
}

/// Rows that are appended to those of an input, as to a cache of keys and values: these are copied by a dispatch of their own, which is
/// left out where they are there already. Gives the memory in which the others are written, and how many elements of it come before.
fn after_first(lowering: &mut Lowering<'_>, op: &Concat, operands: &Operands) -> Result<Option<(Tensor, usize)>> {
    let (output, first) = (operands.output(), operands.input(op.inputs[0]));
    let rows_before = output.shape[..op.axis as usize].iter().product::<usize>();
    let is_once = op.inputs[1..].iter().all(|&id| operands.input(id).memory.slot != first.memory.slot);
    let bits = output.data_type.bits();
    if rows_before != 1 || op.inputs.len() < 2 || first.count() == 0 || !is_once || bits < 8 || lowering.bindings(output) > 1 {
        return Ok(None);
    }
    let Some((input, output_number)) = lowering.can_place(first, output) else { return Ok(None) };
    let length = first.memory.length;
    let begin = Tensor { memory: Memory { length, ..output.memory }, ..first.clone() };
    lowering.places(input, output_number, length);
    copy(lowering, first, &begin, &Strided::dense(&first.shape))?;
    // A binding begins at a multiple of this.
    let offset = length / ALIGNMENT * ALIGNMENT;
    let lead = (length - offset) * 8 / bits;
    let count = output.count() - first.count() + lead;
    let memory = Memory { offset: output.memory.offset + offset, length: output.memory.length - offset, ..output.memory };
    Ok(Some((Tensor { shape: vec![count], memory, ..output.clone() }, lead)))
}

pub fn concat(lowering: &mut Lowering<'_>, op: &Concat, operands: &Operands) -> Result<()> {
    let axis = op.axis as usize;
    let run = |shape: &[usize]| shape[axis..].iter().product::<usize>();
    let at_once = concat_at_once(lowering, operands);
    let placed = after_first(lowering, op, operands)?;
    let (output, row, mut start, inputs) = match &placed {
        Some((rest, lead)) => (rest, rest.count(), *lead, &op.inputs[1..]),
        None => (operands.output(), run(&operands.output().shape), 0, &op.inputs[..]),
    };
    let row = size(row);
    let count = inputs.len();
    for part in inputs.chunks(at_once) {
        // Of a few inputs the places are part of the text; of many they are in a table, so that one pipeline serves all. So they are after
        // what was placed where shapes are open: whether something comes before them depends on the length.
        let in_table = count > part.len() || start > 0 || (placed.is_some() && lowering.is_open);
        let mut kernel = Kernel::new("concat");
        let mut body = format!("let row = i / {row}u;\nlet at = i % {row}u;\n");
        // What this kernel has nothing for is left as it is.
        let words = Words::new(lowering, "output", output);
        let leave = load(output.data_type, lowering.layout(output), &|i| words.at(i), "i");
        let mut table = vec![start as u32];
        if in_table {
            body.push_str(&format!("if at < table(0u) {{ return {leave}; }}\n"));
        }
        let width = if in_table { at_once } else { part.len() };
        for number in 0..width {
            // After the last input nothing follows.
            let input = part.get(number).map(|&id| operands.input(id));
            let length = input.map_or(0, |input| run(&input.shape));
            let name = format!("input{number}");
            kernel.add_reads(lowering, &name, input.unwrap_or(operands.input(part[0])));
            let end = start + length;
            let [end_text, length_text, start_text] = if in_table {
                table.extend([end, length, start].map(|number| number as u32));
                [1, 2, 3].map(|column| format!("table({}u)", 3 * number + column))
            } else {
                [end, length, start].map(|number| format!("{}u", size(number)))
            };
            let value = format!("{name}(row * {length_text} + (at - {start_text}))");
            body.push_str(&format!("if at < {end_text} {{ return {value}; }}\n"));
            start = end;
        }
        body.push_str(&format!("return {leave};"));
        if in_table {
            let bytes = table.iter().flat_map(|number| number.to_le_bytes()).collect();
            let table = lowering.constant(DataType::Uint32, &[table.len()], bytes);
            kernel.add_reads(lowering, "table", &table);
        }
        kernel.each(lowering, output, &body)?;
    }
    Ok(())
}

pub fn pad(lowering: &mut Lowering<'_>, op: &Pad, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let mut body = coordinates(&output.shape, "i", "c");
    let mut position = "0u".to_owned();
    for (d, stride) in strides(&input.shape).into_iter().enumerate() {
        let (padding, along) = (op.beginning_padding[d] as usize, input.shape[d]);
        let (before, last, stride) = (size(padding), size(along - 1), size(stride));
        match op.mode {
            PaddingMode::Constant => {
                let value = Scalar::number(op.value, output.data_type);
                if output.shape[d] != along {
                    let end = size(padding + along);
                    body.push_str(&format!("if c{d} < {before}u || c{d} >= {end}u {{ return {value}; }}\n"));
                }
                body.push_str(&format!("let s{d} = c{d} - {before}u;\n"));
            }
            PaddingMode::Edge => {
                body.push_str(&format!("let s{d} = min(max(c{d}, {before}u) - {before}u, {last}u);\n"));
            }
            PaddingMode::Reflection => {
                body.push_str(&format!("var s{d} = max(c{d}, {before}u) - {before}u;\n"));
                body.push_str(&format!("if c{d} < {before}u {{ s{d} = {before}u - c{d}; }}\n"));
                body.push_str(&format!("if s{d} > {last}u {{ s{d} = {}u - s{d}; }}\n", size(2 * (along - 1))));
            }
        }
        position.push_str(&format!(" + s{d} * {stride}u"));
    }
    body.push_str(&format!("return input({position});"));
    Kernel::new("pad").reads(lowering, "input", input).each(lowering, output, &body)
}
