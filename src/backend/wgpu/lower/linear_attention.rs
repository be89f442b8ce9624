//! Attention with a state of a fixed size: each thread has a column of a head's state, and goes through the tokens.

use super::kernel::{Kernel, WORKGROUP, grid};
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader::{self, float};
use crate::error::{Error, Kind, Result};
use crate::graph::ops::linear_attention::{LinearAttention, Sizes};

/// Longer columns need more memory than a thread has.
const LONGEST: usize = 1024;

#[expect(clippy::too_many_lines, reason = "the text of one shader")]
pub fn linear_attention(lowering: &mut Lowering<'_>, op: &LinearAttention, operands: &Operands) -> Result<()> {
    let of = Sizes::new(op, |id| operands.input(id).shape.clone());
    let Sizes { batch, tokens, heads, key_size, value_size, decays, rates, query_heads, key_heads } = of;
    if key_size > LONGEST {
        let message = format!("linearAttention: found keys of {key_size} elements, a GPU takes at most {LONGEST}");
        return Err(Error::new(Kind::NotSupported, message));
    }
    let [output, states] = operands.outputs() else { unreachable!("there are two outputs") };
    let (writes_output, writes_states) = (lowering.is_read(output), lowering.is_read(states));
    let (kept, size) = (op.states as usize, key_size * value_size);
    let decay = match (op.decay, decays == key_size && key_size > 1) {
        (None, _) => "",
        (Some(_), true) => "for (var r = 0u; r < KEY; r += 1u) { s[r] *= exp(decay((row * HEADS + h) * KEY + r)); }\n",
        (Some(_), false) => {
            "let factor = exp(decay(row * HEADS + h));\n\
             for (var r = 0u; r < KEY; r += 1u) { s[r] *= factor; }\n"
        }
    };
    let change = match (op.rate, rates) {
        (None, _) => "",
        (Some(_), 1) => "change = (change - known(&s, of_key)) * rate(row);\n",
        (Some(_), _) => "change = (change - known(&s, of_key)) * rate(row * HEADS + h);\n",
    };
    let results = format!(
        "for (var o = h * {group}u; o < (h + 1u) * {group}u; o += 1u) {{\n\
         let of_query = (row * {query_heads}u + o / {shared}u) * KEY;\n\
         var sum = 0.0f;\n\
         for (var r = 0u; r < KEY; r += 1u) {{ sum += s[r] * query(of_query + r); }}\n\
         store_result((row * {output_heads}u + o) * VALUE + j, sum * {scale});\n}}\n",
        group = of.group(),
        shared = of.output_heads() / query_heads,
        output_heads = of.output_heads(),
        scale = float(op.scale as f32),
    );
    let (length, lines) = (shader::size(tokens), shader::size(batch * heads));
    let keep = format!(
        "if t + {kept}u >= {length}u {{\n\
         let to = ((t + {kept}u - {length}u) * {lines}u + line) * {size}u + j;\n\
         for (var r = 0u; r < KEY; r += 1u) {{ store_states(to + r * VALUE, s[r]); }}\n}}\n"
    );
    // Where fewer tokens are there than states.
    let clear = format!(
        "for (var slot = 0u; slot < {empty}u; slot += 1u) {{\n\
         let to = (slot * {lines}u + line) * {size}u + j;\n\
         for (var r = 0u; r < KEY; r += 1u) {{ store_states(to + r * VALUE, 0.0f); }}\n}}\n",
        empty = shader::size(kept.saturating_sub(tokens)),
    );
    let total = batch * heads * value_size;
    let (row, size_of_grid) = grid(lowering, total.div_ceil(WORKGROUP));
    let text = format!(
        "const KEY = {key_size}u;\nconst VALUE = {value_size}u;\nconst HEADS = {heads}u;\n\
         fn known(s: ptr<function, array<f32, {key_size}>>, of_key: u32) -> f32 {{\n\
         var sum = 0.0f;\n\
         for (var r = 0u; r < KEY; r += 1u) {{ sum += (*s)[r] * key(of_key + r); }}\n\
         return sum;\n}}\n\
         @compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.y * {row}u + id.x;\n\
         if i >= {total}u {{ return; }}\n\
         let line = i / VALUE;\n\
         let j = i % VALUE;\n\
         let h = line % HEADS;\n\
         var s: array<f32, {key_size}>;\n\
         for (var r = 0u; r < KEY; r += 1u) {{ s[r] = state(line * {size}u + r * VALUE + j); }}\n\
         {clear}\
         for (var t = 0u; t < {length}u; t += 1u) {{\n\
         let row = line / HEADS * {length}u + t;\n\
         let of_key = (row * {key_heads}u + h / {shared}u) * KEY;\n\
         {decay}\
         var change = value((row * HEADS + h) * VALUE + j);\n\
         {change}\
         for (var r = 0u; r < KEY; r += 1u) {{ s[r] += change * key(of_key + r); }}\n\
         {results}{keep}}}\n}}\n",
        row = shader::size(row * WORKGROUP),
        total = shader::size(total),
        clear = if writes_states && kept > tokens { &clear } else { "" },
        shared = heads / key_heads,
        results = if writes_output { &results } else { "" },
        keep = if writes_states { &keep } else { "" },
    );
    let mut kernel = Kernel::new("linearAttention");
    for (name, id) in [("key", op.key), ("value", op.value), ("state", op.state)] {
        kernel.add_reads(lowering, name, operands.input(id));
    }
    if writes_output {
        kernel.add_reads(lowering, "query", operands.input(op.query));
        kernel = kernel.writes(lowering, "result", output);
    }
    if writes_states {
        kernel = kernel.writes(lowering, "states", states);
    }
    for (name, id) in [("decay", op.decay), ("rate", op.rate)] {
        if let Some(id) = id {
            kernel.add_reads(lowering, name, operands.input(id));
        }
    }
    kernel.declare(&text).run(lowering, size_of_grid)
}
