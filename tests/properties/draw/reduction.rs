//! Operators along axes.

use super::movement::optional_axes;
use super::{Contents, Draw};
use webnn_node::graph::attribute::Value;

pub fn along_an_axis(draw: &mut Draw<'_>) {
    let rank = draw.rank("input");
    let mut shape = draw.shape(rank);
    // The oracle takes the square of the axis' size in time.
    shape.iter_mut().for_each(|size| *size = (*size).min(400));
    let axis = draw.random.below(rank);
    if draw.row.name == "topK" {
        let count = draw.random.between(1, shape[axis]);
        draw.set("count", Value::Unsigned(count as u32));
    }
    let chooses = draw.row.name.starts_with("arg") || draw.row.name == "topK";
    let contents = match draw.row.name {
        _ if chooses => Contents::Anything,
        "cumulativeProduct" => {
            // Products of more factors leave the range of a float16.
            shape[axis] = shape[axis].min(8);
            Contents::Factors
        }
        _ => Contents::Summands,
    };
    draw.operand("input", &shape, contents);
    draw.set("axis", Value::Unsigned(axis as u32));
}

pub fn reduce(draw: &mut Draw<'_>) {
    let rank = draw.rank("input");
    let mut shape = draw.shape(rank);
    let contents = match draw.row.name {
        "reduceMax" | "reduceMin" => Contents::Anything,
        "reduceLogSum" => draw.random.pick(&[Contents::Positive, Contents::Summands]),
        "reduceProduct" => {
            // Products of more factors leave the range of a float16, and of a float32 on the way.
            shape.iter_mut().for_each(|size| *size = (*size).min(8));
            Contents::Factors
        }
        _ => Contents::Summands,
    };
    draw.operand("input", &shape, contents);
    optional_axes(draw, rank);
}

fn epsilon(draw: &mut Draw<'_>) {
    let value = draw.random.pick(&[1e-5, 1e-3, 0.25, 1e-5 + 1e-9]);
    let value = if draw.is_given("epsilon") { Value::Double(value) } else { Value::Absent };
    draw.set("epsilon", value);
}

pub fn batch_normalization(draw: &mut Draw<'_>) {
    let rank = draw.rank("input");
    let shape = draw.shape(rank);
    let mut axis = draw.random.below(rank);
    // Without an axis it is 1, which an input of rank 1 does not have.
    if rank == 1 || draw.is_given("axis") {
        draw.set("axis", Value::Unsigned(axis as u32));
    } else {
        axis = 1;
        draw.set("axis", Value::Absent);
    }
    let features = [shape[axis]];
    draw.operand("input", &shape, Contents::Summands);
    draw.operand("mean", &features, Contents::Moderate);
    draw.operand("variance", &features, Contents::Positive);
    draw.optional("scale", &features, Contents::Moderate);
    draw.optional("bias", &features, Contents::Moderate);
    epsilon(draw);
}

pub fn instance_normalization(draw: &mut Draw<'_>) {
    let shape = draw.shape(4);
    let channels = if draw.enumeration("layout") == 0 { shape[1] } else { shape[3] };
    draw.operand("input", &shape, Contents::Moderate);
    draw.optional("scale", &[channels], Contents::Moderate);
    draw.optional("bias", &[channels], Contents::Moderate);
    epsilon(draw);
}

pub fn layer_normalization(draw: &mut Draw<'_>) {
    let wished = ["scale", "bias"].iter().find_map(|field| draw.wished_rank(field));
    let rank = draw.rank("input").max(wished.unwrap_or(0));
    let shape = draw.shape(rank);
    let mut axes: Vec<usize> = (0..rank).collect();
    draw.random.shuffle(&mut axes);
    axes.truncate(wished.unwrap_or_else(|| draw.random.between(0, rank)));
    if wished.is_some() || draw.is_given("axes") {
        draw.set_list("axes", &axes);
    } else {
        axes = (1..rank).collect();
        draw.set("axes", Value::Absent);
    }
    let sizes: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    draw.operand("input", &shape, Contents::Moderate);
    draw.optional("scale", &sizes, Contents::Moderate);
    if draw.row.name == "layerNormalization" {
        draw.optional("bias", &sizes, Contents::Moderate);
    }
    epsilon(draw);
}
