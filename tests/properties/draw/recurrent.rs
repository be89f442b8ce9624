//! Recurrent networks and their cells.

use super::{Contents, Draw};
use crate::wish::{Choice, Wish};
use webnn_node::graph::attribute::Value;

pub fn draw(draw: &mut Draw<'_>) {
    let is_cell = draw.row.name.ends_with("Cell");
    let is_lstm = draw.row.name.starts_with("lstm");
    let gates = if is_lstm { 4 } else { 3 };
    let [batch, input, hidden] = [(); 3].map(|()| draw.random.between(1, 4));
    let steps = draw.random.between(1, 3);
    let directions = if !is_cell && draw.enumeration("direction") == 2 { 2 } else { 1 };
    // A network's operands have the sizes of a cell's for each direction.
    let sizes = |sizes: &[usize]| if is_cell { sizes.to_vec() } else { [&[directions], sizes].concat() };
    let input_shape = if is_cell { vec![batch, input] } else { vec![steps, batch, input] };
    draw.operand("input", &input_shape, Contents::Moderate);
    draw.operand("weight", &sizes(&[gates * hidden, input]), Contents::Moderate);
    draw.operand("recurrent_weight", &sizes(&[gates * hidden, hidden]), Contents::Moderate);
    draw.set("hidden_size", Value::Unsigned(hidden as u32));
    if is_cell {
        draw.operand("hidden_state", &[batch, hidden], Contents::Moderate);
    } else {
        draw.set("steps", Value::Unsigned(steps as u32));
        draw.optional("initial_hidden_state", &sizes(&[batch, hidden]), Contents::Moderate);
    }
    draw.optional("bias", &sizes(&[gates * hidden]), Contents::Moderate);
    draw.optional("recurrent_bias", &sizes(&[gates * hidden]), Contents::Moderate);
    if is_lstm {
        draw.optional("peephole_weight", &sizes(&[3 * hidden]), Contents::Moderate);
        if is_cell {
            draw.operand("cell_state", &[batch, hidden], Contents::Moderate);
        } else {
            draw.optional("initial_cell_state", &sizes(&[batch, hidden]), Contents::Moderate);
        }
    }
    activations(draw, if is_lstm { 3 } else { 2 });
}

pub fn quantized(draw: &mut Draw<'_>) {
    let [batch, hidden, steps] = [4, 5, 3].map(|most| draw.random.between(1, most));
    let directions = if draw.enumeration("direction") == 2 { 2 } else { 1 };
    let columns = 4 * hidden;
    draw.operand("gates", &[steps, directions, batch, columns], Contents::Moderate);
    draw.operand("recurrent_weight", &[directions, columns, hidden], Contents::Moderate);
    draw.operand("scales", &[directions, columns], Contents::Factors);
    draw.optional("zero_points", &[directions, columns], Contents::Moderate);
    draw.optional("peephole_weight", &[directions, 3 * hidden], Contents::Moderate);
    draw.optional("initial_hidden_state", &[directions, batch, hidden], Contents::Moderate);
    draw.optional("initial_cell_state", &[directions, batch, hidden], Contents::Moderate);
    activations(draw, 3);
    // Kernels are made for weights that are known.
    if draw.random.once_in(2) {
        draw.operands.iter_mut().enumerate().for_each(|(i, operand)| operand.is_constant = i > 0);
    }
}

fn activations(draw: &mut Draw<'_>, count: usize) {
    if !draw.is_given("activations") {
        return draw.set("activations", Value::Absent);
    }
    let mut list: Vec<u32> = (0..count).map(|_| draw.random.below(3) as u32).collect();
    if let Some(Wish::Option("activations", Choice::Enumeration(wished))) = &draw.wish {
        let wished = *wished;
        list[draw.random.below(count)] = wished;
    }
    draw.set("activations", Value::EnumerationList(list));
}
