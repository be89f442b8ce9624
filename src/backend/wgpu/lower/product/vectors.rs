//! Products of a matrix and a few vectors, as in decoding: the matrix is read once, by all invocations.

use super::problem::{Division, FEW, Product};
use crate::backend::wgpu::shader::size;
use std::fmt::Write;

/// Invocations of a workgroup.
const LANES: usize = 256;

pub fn text(product: &Product<'_>, most_bytes: usize) -> (Division, String) {
    let Product { batches, rows, depth, columns, by_depth, .. } = *product;
    let few_are_rows = rows <= FEW;
    let (few, many) = if few_are_rows { (rows, columns) } else { (columns, rows) };
    let many_by_depth = by_depth[usize::from(few_are_rows)];
    // Invocations that are beside each other read what is beside each other.
    let (across, along) = if many_by_depth { (8, LANES / 8) } else { (LANES / 4, 4) };
    let tiles = many.div_ceil(across);
    let division = Division::new(batches * tiles, product, along, most_bytes);
    let (share, groups) = (division.share, division.groups * division.shares);
    let (position, slice) = if many_by_depth {
        (format!("lane / {along}u"), format!("lane % {along}u"))
    } else {
        (format!("lane % {across}u"), format!("lane / {across}u"))
    };
    let of = |few: usize| {
        if few_are_rows { format!("left_at(batch, {few}u, k)") } else { format!("right_at(batch, k, {few}u)") }
    };
    let of_many = if few_are_rows { "right_at(batch, k, j)" } else { "left_at(batch, j, k)" };
    let [batches, tiles, groups, share, depth, many] = [batches, tiles, groups, share, depth, many].map(size);
    let mut text = format!(
        "var<workgroup> sums_of_lanes: array<f32, {LANES}>;\n\
         @compute @workgroup_size({LANES}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_index) lane: u32) {{\n\
         let group_index = group.y * ROW_OF_GRID + group.x;\n\
         if group_index >= {groups}u {{ return; }}\n\
         let j = (group_index % {tiles}u) * {across}u + {position};\n\
         let slice = {slice};\n\
         let rest = group_index / {tiles}u;\n\
         let batch = rest % {batches}u;\n\
         let share = rest / {batches}u;\n\
         let first = share * {share}u;\n\
         let end = min(first + {share}u, {depth}u);\n"
    );
    for few in 0..few {
        let _ = writeln!(text, "var sum{few} = 0.0f;");
    }
    let _ = write!(text, "if j < {many}u {{\nfor (var k = first + slice; k < end; k += {along}u) {{\nlet m = {of_many};\n");
    for number in 0..few {
        let _ = writeln!(text, "sum{number} += m * {};", of(number));
    }
    text += "}\n}\n";
    let neighbour = if many_by_depth { 1 } else { across };
    for number in 0..few {
        let _ = write!(text, "sums_of_lanes[lane] = sum{number};\nworkgroupBarrier();\n");
        let mut half = along / 2;
        while half > 0 {
            let other = half * neighbour;
            let _ = write!(
                text,
                "if slice < {half}u {{ sums_of_lanes[lane] += sums_of_lanes[lane + {other}u]; }}\nworkgroupBarrier();\n"
            );
            half /= 2;
        }
        let (row, column) =
            if few_are_rows { (format!("{number}u"), "j".to_owned()) } else { ("j".to_owned(), format!("{number}u")) };
        let _ = write!(
            text,
            "if slice == 0u && j < {many}u {{ store(share, batch, {row}, {column}, sums_of_lanes[lane]); }}\nworkgroupBarrier();\n"
        );
    }
    text += "}\n";
    (division, text)
}
