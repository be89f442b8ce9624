//! Operators with indices.

use super::{Contents, Draw};
use webnn_node::graph::attribute::Value;
use webnn_node::graph::descriptor::MAX_RANK;

pub fn draw(draw: &mut Draw<'_>) {
    match draw.row.name {
        "gather" => gather(draw),
        "gatherElements" | "scatterElements" | "accumulateElements" => elements(draw),
        _ => coordinates(draw),
    }
}

fn optional_axis(draw: &mut Draw<'_>, rank: usize) -> usize {
    let axis = draw.random.below(rank);
    if draw.is_given("axis") {
        draw.set("axis", Value::Unsigned(axis as u32));
        return axis;
    }
    draw.set("axis", Value::Absent);
    0
}

fn gather(draw: &mut Draw<'_>) {
    // Together they must not exceed the greatest rank by more than the axis that is replaced.
    let wished = draw.wished_rank("indices").unwrap_or(0);
    let rank = draw.rank_up_to("input", MAX_RANK + 1 - wished);
    let indices_rank = draw.rank_up_to("indices", MAX_RANK + 1 - rank);
    let shape = draw.shape(rank);
    let axis = optional_axis(draw, rank);
    let mut indices = draw.shape(indices_rank);
    if shape.iter().product::<usize>() * indices.iter().product::<usize>() > 20_000 {
        indices.iter_mut().for_each(|size| *size = 1);
    }
    draw.operand("input", &shape, Contents::Anything);
    draw.operand("indices", &indices, Contents::Indices(shape[axis]));
}

fn elements(draw: &mut Draw<'_>) {
    let wished = ["input", "indices", "updates"].iter().find_map(|field| draw.wished_rank(field));
    let rank = wished.unwrap_or_else(|| draw.random.between(1, 8));
    let shape = draw.shape(rank);
    let axis = optional_axis(draw, rank);
    let mut indices = shape.clone();
    indices[axis] = draw.random.between(1, 6);
    let contents = updates(draw);
    if draw.row.name == "accumulateElements" {
        for other in (0..rank).filter(|&other| other != axis) {
            indices[other] = draw.random.between(1, shape[other]);
        }
    }
    draw.operand("input", &shape, contents);
    draw.operand("indices", &indices, Contents::Indices(shape[axis]));
    if draw.row.name != "gatherElements" {
        draw.operand("updates", &indices, contents);
    }
}

/// What inputs and updates are made of: sums and products stay within the range of their type.
fn updates(draw: &mut Draw<'_>) -> Contents {
    if !draw.row.name.starts_with("accumulate") {
        return Contents::Anything;
    }
    match draw.enumeration("reduction") {
        0 => Contents::Summands,
        1 => Contents::Factors,
        _ => Contents::Anything,
    }
}

fn coordinates(draw: &mut Draw<'_>) {
    let scatters = matches!(draw.row.name, "scatterND" | "accumulateND");
    // The rank of what is gathered or replaced is that of the input and of the indices together, less the coordinates.
    let target = draw.wished_rank("updates");
    let wished_indices = draw.wished_rank("indices");
    let rank = match target {
        Some(target) => draw.random.between(1, target.max(1)),
        None => draw.rank("input"),
    };
    let most = |coordinate: usize| MAX_RANK - (rank - coordinate);
    let coordinate = match (wished_indices, target) {
        (Some(indices), _) => (1..=rank).find(|&coordinate| indices - 1 <= most(coordinate)).unwrap_or(rank),
        (None, Some(target)) => (1..=rank).find(|&coordinate| rank - coordinate <= target).unwrap_or(rank),
        _ => draw.random.between(1, rank),
    };
    let batch = match (wished_indices, target) {
        (Some(indices), _) => indices - 1,
        (None, Some(target)) => (target - (rank - coordinate)).min(MAX_RANK - 1),
        _ => draw.random.between(0, most(coordinate).min(MAX_RANK - 1).min(4)),
    };
    let shape = draw.shape(rank);
    let mut indices: Vec<usize> = (0..batch).map(|_| draw.random.between(1, 3)).collect();
    let slice = shape[coordinate..].to_vec();
    if slice.iter().chain(&indices).product::<usize>() > 20_000 {
        indices.iter_mut().for_each(|size| *size = 1);
    }
    let updates = [indices.as_slice(), &slice].concat();
    indices.push(coordinate);
    let contents = self::updates(draw);
    draw.operand("input", &shape, contents);
    draw.operand("indices", &indices, Contents::Indices(shape[0]));
    if scatters {
        draw.operand("updates", &updates, contents);
    }
}
