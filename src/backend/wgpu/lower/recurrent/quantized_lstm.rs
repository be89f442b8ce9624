//! Long short-term memory whose hidden state is multiplied as bytes: it is quantized before each step.

use super::network::{Sequence, activate};
use crate::backend::wgpu::lower::kernel::Kernel;
use crate::backend::wgpu::lower::lowering::{Lowering, Operands, Tensor};
use crate::backend::wgpu::lower::reduce::formula;
use crate::backend::wgpu::lower::reduction::Reduction;
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::quantized_lstm::QuantizedLstm;
use crate::graph::ops::recurrent::{RecurrentNetworkDirection, lstm_activations};
use crate::graph::ops::reduce::ReduceKind;

/// The scale and zero point of a direction, from its extremes.
const SCALES: &str = "fn scale_of(direction: u32) -> f32 {\n\
     let scale = (max_f32(most(direction), 0.0f) - min_f32(least(direction), 0.0f)) / 255.0f;\n\
     return select(scale, 1.0f, scale == 0.0f);\n}\n\
     fn zero_point_of(direction: u32) -> i32 {\n\
     return i32(quantize_u32(-min(least(direction), 0.0f), scale_of(direction), 0u, 0u, 255u));\n}";

pub fn quantized_lstm(lowering: &mut Lowering<'_>, op: &QuantizedLstm, operands: &Operands) -> Result<()> {
    let (gates, outputs) = (operands.input(op.gates), operands.outputs());
    let &[steps, directions, batches, columns] = &gates.shape[..] else { unreachable!("the row demands rank 4") };
    let hidden_size = columns / 4;
    let units = batches * hidden_size;
    let sequence = outputs.get(2).filter(|output| lowering.is_read(output));
    let hidden = Sequence::new(lowering, if sequence.is_some() { steps + 1 } else { 2 }, directions * units)?;
    let cell = Sequence::new(lowering, 2, directions * units)?;
    hidden.begin(lowering, operands.optional(op.initial_hidden_state))?;
    cell.begin(lowering, operands.optional(op.initial_cell_state))?;
    let quantized = lowering.temporary(DataType::Int32, &[directions, units])?;
    let sums = lowering.temporary(DataType::Float32, &[directions, batches, columns])?;
    let extremes = [ReduceKind::Min, ReduceKind::Max].map(|kind| (kind, lowering.temporary(DataType::Float32, &[directions])));
    let [(_, least), (_, most)] = extremes;
    let (least, most) = (least?, most?);
    // Where a direction is in time.
    let step_of = |step: usize| match op.direction {
        RecurrentNetworkDirection::Forward => format!("{}u", size(step)),
        RecurrentNetworkDirection::Backward => format!("{}u", size(steps - 1 - step)),
        RecurrentNetworkDirection::Both => format!("select({}u, {}u, direction == 1u)", size(step), size(steps - 1 - step)),
    };
    let integer = |tensor: &Tensor, text: String| tensor.scalar().convert(Scalar::I32, &text);
    let weights = operands.input(op.recurrent_weight);
    let zero_points = operands.optional(op.zero_points);
    for step in 0..steps {
        let before = Tensor { shape: vec![directions, units], ..hidden.at(step) };
        for (kind, found) in [(ReduceKind::Min, &least), (ReduceKind::Max, &most)] {
            let formula = formula(kind, DataType::Float32, units);
            let (label, reduced) = ("quantizedLstm, range", vec![false, true]);
            Reduction { label, input: &before, reduced, formula }.lower(lowering, found)?;
        }
        let with_range = |lowering: &Lowering<'_>| {
            let kernel = Kernel::new("quantizedLstm").reads(lowering, "least", &least).reads(lowering, "most", &most);
            kernel.declare(SCALES)
        };
        let kernel = with_range(lowering).reads(lowering, "hidden", &before);
        let body = format!(
            "let direction = i / {of_direction}u;\n\
             let zero_point = zero_point_of(direction);\n\
             return clamp(i32(round(hidden(i) / scale_of(direction))) + zero_point, 0i, 255i) - zero_point;",
            of_direction = size(units),
        );
        kernel.each(lowering, &quantized, &body)?;
        let mut kernel = with_range(lowering).reads(lowering, "quantized", &quantized).reads(lowering, "weights", weights);
        kernel.add_reads(lowering, "scales", operands.input(op.scales));
        let mut zero = "0i".to_owned();
        if let Some(zero_points) = zero_points {
            kernel.add_reads(lowering, "zero_points", zero_points);
            zero = integer(zero_points, "zero_points(row)".to_owned());
        }
        let body = format!(
            "let direction = i / {of_direction}u;\n\
             let row = direction * {columns}u + i % {columns}u;\n\
             let first = i / {columns}u * {hidden_size}u;\n\
             let zero = {zero};\n\
             var total = 0i;\n\
             for (var k = 0u; k < {hidden_size}u; k += 1u) {{\n\
             total += ({weight} - zero) * quantized(first + k);\n}}\n\
             return f32(total) * (scale_of(direction) * scales(row));",
            of_direction = size(batches * columns),
            weight = integer(weights, format!("weights(row * {hidden_size}u + k)")),
        );
        kernel.each(lowering, &sums, &body)?;
        finish(lowering, op, operands, (&sums, &hidden, &cell), step, &step_of(step))?;
    }
    for (states, output) in [(&hidden, &outputs[0]), (&cell, &outputs[1])] {
        if lowering.is_read(output) {
            Kernel::new("state").reads(lowering, "state", &states.at(steps)).each(lowering, output, "return state(i);")?;
        }
    }
    let Some(output) = sequence else { return Ok(()) };
    let [length, pitch, last, units] = [hidden.length, hidden.pitch, steps - 1, units].map(size);
    let position = match op.direction {
        RecurrentNetworkDirection::Forward => "step".to_owned(),
        RecurrentNetworkDirection::Backward => format!("({last}u - step)"),
        RecurrentNetworkDirection::Both => format!("select(step, {last}u - step, i % {length}u / {units}u == 1u)"),
    };
    let body = format!("let step = i / {length}u;\nreturn states(({position} + 1u) * {pitch}u + i % {length}u);");
    Kernel::new("states").reads(lowering, "states", &hidden.tensor).each(lowering, output, &body)
}

/// The units of a step, from all that the gates have.
fn finish(
    lowering: &mut Lowering<'_>,
    op: &QuantizedLstm,
    operands: &Operands,
    (sums, hidden, cell): (&Tensor, &Sequence, &Sequence),
    step: usize,
    place: &str,
) -> Result<()> {
    let gates = operands.input(op.gates);
    let &[_, directions, batches, columns] = &gates.shape[..] else { unreachable!("the row demands rank 4") };
    let hidden_size = columns / 4;
    let [activation, cell_activation, state_activation] = lstm_activations(op.activations.as_deref());
    let peephole = operands.optional(op.peephole_weight);
    let gate = |number: usize, activation| {
        let of_cell = match peephole {
            Some(_) if number < 3 => format!(" + peephole((direction * 3u + {number}u) * {hidden_size}u + unit) * before"),
            _ => String::new(),
        };
        let column = number * hidden_size;
        activate(activation, &format!("gates(first + {column}u) + sums(row + {column}u){of_cell}"))
    };
    let of_unit = format!(
        "let unit = i % {hidden_size}u;\n\
         let batch = i / {hidden_size}u;\n\
         let direction = batch / {}u;\n\
         let row = batch * {columns}u + unit;\n\
         let first = {place} * {}u + row;\n\
         let before = cell(i);\n",
        size(batches),
        size(directions * batches * columns),
    );
    let after = format!(
        "fn after(i: u32) -> f32 {{\n{of_unit}return {} * before + {} * {};\n}}",
        gate(2, activation),
        gate(0, activation),
        gate(3, cell_activation),
    );
    let relu = "fn relu(x: f32) -> f32 { return select(x, 0.0f, x <= 0.0f); }";
    let kernel = |lowering: &Lowering<'_>| {
        let mut kernel = Kernel::new("quantizedLstm").reads(lowering, "gates", gates).reads(lowering, "sums", sums);
        kernel.add_reads(lowering, "cell", &cell.at(step));
        if let Some(peephole) = peephole {
            kernel.add_reads(lowering, "peephole", peephole);
        }
        kernel.declare(relu).declare(&after)
    };
    kernel(lowering).each(lowering, &cell.at(step + 1), "return after(i);")?;
    let body = format!("{of_unit}return {} * {};", gate(1, activation), activate(state_activation, "after(i)"));
    kernel(lowering).each(lowering, &hidden.at(step + 1), &body)
}
