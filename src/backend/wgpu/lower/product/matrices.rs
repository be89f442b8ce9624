//! Products by cooperative matrices: small ones that all invocations of a subgroup hold and multiply together, for which
//! many GPUs have units of their own. Sums are `f32`, so nothing is less exact than by tiles.
//!
//! Tested on Mesa's software device, version 26.2; it has never run on hardware. A device is given up for one without them
//! when it does not multiply right (`trial.rs`).

use super::problem::{Division, Product};
use super::tiles::sides;
use crate::backend::wgpu::shader::{Layout, size};
use crate::backend::wgpu::target::Matrices;
use crate::graph::DataType;
use std::fmt::Write;

/// A workgroup's part of the output, and how much of the depth it brings to its memory at once.
const ROWS: usize = 64;
const COLUMNS: usize = 64;
const DEPTH: usize = 16;
/// Subgroups of a workgroup along the rows, and along the columns.
const ACROSS: usize = 2;
/// Elements between the rows of what was brought, so that they do not all lie in the same banks of the memory.
const GAP: usize = 8;

/// How a device multiplies matrices of a data type.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Rows, columns and depth.
    size: usize,
    /// The type of the elements of both factors.
    element: &'static str,
    /// Invocations of a subgroup.
    lanes: usize,
}

impl Matrix {
    /// What suits a product of tensors of a data type, if anything does.
    pub fn of(matrices: &Matrices, data_type: DataType, layout: Layout, product: &Product<'_>) -> Option<Matrix> {
        let (size, element) = match data_type {
            DataType::Float16 if layout == Layout::Halves => (matrices.half?, "f16"),
            DataType::Float32 => (matrices.float?, "f32"),
            _ => return None,
        };
        let is_large = product.rows * 3 >= ROWS * 2 && product.columns * 3 >= COLUMNS * 2 && product.depth >= DEPTH;
        is_large.then_some(Matrix { size: size as usize, element, lanes: matrices.lanes as usize })
    }

    /// Bytes of a workgroup's memory.
    pub fn workgroup_bytes() -> usize {
        4 * (ROWS * (DEPTH + GAP) + DEPTH * (COLUMNS + GAP) + ROWS * COLUMNS)
    }
}

#[expect(clippy::too_many_lines, reason = "the text of one shader")]
pub fn text(product: &Product<'_>, matrix: Matrix, is_open: bool, most_bytes: usize) -> (Division, String) {
    let Product { batches, rows, depth, columns, by_depth, .. } = *product;
    let Matrix { size: side, element, lanes } = matrix;
    let (tile_rows, tile_columns) = (rows.div_ceil(ROWS), columns.div_ceil(COLUMNS));
    let division = Division::new(batches * tile_rows * tile_columns, product, DEPTH, most_bytes);
    let (share, groups) = (division.share, division.groups * division.shares);
    let invocations = ACROSS * ACROSS * lanes;
    let (left_pitch, right_pitch) = (DEPTH + GAP, COLUMNS + GAP);
    let mut text = sides(product, ROWS, COLUMNS, DEPTH, share, is_open);
    let (tiles, tile_rows, tile_columns) = (size(tile_columns * tile_rows), size(tile_rows), size(tile_columns));
    let [batches, rows, depth, columns, share, groups] = [batches, rows, depth, columns, share, groups].map(size);
    let _ = write!(
        text,
        "var<workgroup> left_tile: array<{element}, {left_length}>;\n\
         var<workgroup> right_tile: array<{element}, {right_length}>;\n\
         var<workgroup> tile: array<f32, {tile_length}>;\n\
         @compute @workgroup_size({invocations}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) subgroup: u32) {{\n\
         let group_index = group.y * ROW_OF_GRID + group.x;\n\
         if group_index >= {groups}u {{ return; }}\n\
         let tile_column = (group_index % {tile_columns}u) * {COLUMNS}u;\n\
         let tile_row = (group_index / {tile_columns}u % {tile_rows}u) * {ROWS}u;\n\
         let rest = group_index / {tiles}u;\n\
         let batch = rest % {batches}u;\n\
         let share = rest / {batches}u;\n\
         let first = share * {share}u;\n\
         let end = min(first + {share}u, {depth}u);\n\
         let row_of_subgroup = subgroup / {ACROSS}u * {own_rows}u;\n\
         let column_of_subgroup = subgroup % {ACROSS}u * {own_columns}u;\n",
        left_length = ROWS * left_pitch,
        right_length = DEPTH * right_pitch,
        tile_length = ROWS * COLUMNS,
        own_rows = ROWS / ACROSS,
        own_columns = COLUMNS / ACROSS,
    );
    let own = |all: usize| (0..all / ACROSS).step_by(side);
    let of = |scalar: &str, role: &str| format!("coop_mat{side}x{side}<{scalar}, {role}>");
    for row in own(ROWS) {
        for column in own(COLUMNS) {
            let _ = writeln!(text, "var sum{row}_{column} = {}();", of("f32", "C"));
        }
    }
    let _ = writeln!(text, "for (var k0 = first; k0 < end; k0 += {DEPTH}u) {{");
    // Invocations beside each other read what lies side by side.
    let (row, k) = if by_depth[0] {
        (format!("p / {DEPTH}u"), format!("p % {DEPTH}u"))
    } else {
        (format!("p % {ROWS}u"), format!("p / {ROWS}u"))
    };
    let _ = write!(
        text,
        "for (var p = lane; p < {}u; p += {invocations}u) {{\n\
         left_tile[{row} * {left_pitch}u + {k}] = {element}(left_in(batch, tile_row + {row}, k0 + {k}, end));\n}}\n",
        ROWS * DEPTH,
    );
    let (column, k) = if by_depth[1] {
        (format!("p / {DEPTH}u"), format!("p % {DEPTH}u"))
    } else {
        (format!("p % {COLUMNS}u"), format!("p / {COLUMNS}u"))
    };
    let _ = write!(
        text,
        "for (var p = lane; p < {}u; p += {invocations}u) {{\n\
         right_tile[({k}) * {right_pitch}u + {column}] = {element}(right_in(batch, k0 + {k}, tile_column + {column}, end));\n}}\n\
         workgroupBarrier();\n",
        DEPTH * COLUMNS,
    );
    for k in (0..DEPTH).step_by(side) {
        text += "{\n";
        for row in own(ROWS) {
            let place = format!("(row_of_subgroup + {row}u) * {left_pitch}u + {k}u");
            let _ = writeln!(text, "let a{row} = coopLoadT<{}>(&left_tile[{place}], {left_pitch}u);", of(element, "A"));
        }
        for column in own(COLUMNS) {
            let place = format!("{}u + column_of_subgroup + {column}u", k * right_pitch);
            let _ = writeln!(text, "let b{column} = coopLoadT<{}>(&right_tile[{place}], {right_pitch}u);", of(element, "B"));
        }
        for row in own(ROWS) {
            for column in own(COLUMNS) {
                let _ = writeln!(text, "sum{row}_{column} = coopMultiplyAdd(a{row}, b{column}, sum{row}_{column});");
            }
        }
        text += "}\n";
    }
    text += "workgroupBarrier();\n}\n";
    for row in own(ROWS) {
        for column in own(COLUMNS) {
            let place = format!("(row_of_subgroup + {row}u) * {COLUMNS}u + column_of_subgroup + {column}u");
            let _ = writeln!(text, "coopStoreT(sum{row}_{column}, &tile[{place}], {COLUMNS}u);");
        }
    }
    let _ = write!(
        text,
        "workgroupBarrier();\n\
         for (var p = lane; p < {}u; p += {invocations}u) {{\n\
         let row = tile_row + p / {COLUMNS}u;\n\
         let column = tile_column + p % {COLUMNS}u;\n\
         if row < {rows}u && column < {columns}u {{ store(share, batch, row, column, tile[p]); }}\n\
         }}\n}}\n",
        ROWS * COLUMNS,
    );
    (division, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::lower::product::problem::End;
    use crate::backend::wgpu::shader::{complete, literal};
    use crate::backend::wgpu::target::Features;
    use wgpu::naga::back::spv;
    use wgpu::naga::front::wgsl::parse_str;
    use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};

    /// Where no device has such matrices, at least the shaders are valid.
    #[test]
    fn shaders_are_valid_and_become_spir_v() {
        let functions = "@group(0) @binding(0) var<storage, read> a: array<f16>;\n\
             @group(0) @binding(1) var<storage, read_write> c: array<f32>;\n\
             fn left_at(batch: u32, row: u32, k: u32) -> f32 { return f32(a[batch + row * 100u + k]); }\n\
             fn right_at(batch: u32, k: u32, column: u32) -> f32 { return f32(a[batch + k * 100u + column]); }\n\
             fn store(share: u32, batch: u32, row: u32, column: u32, sum: f32) { c[row * 100u + column] = sum; }\n";
        for (size, element, lanes) in [(16, "f16", 32), (8, "f16", 8), (8, "f32", 32), (16, "f32", 16)] {
            for (rows, by_depth) in [(100, [true, false]), (128, [false, true])] {
                let end = End { reads: Vec::new(), text: String::new(), then: None };
                let product = Product {
                    label: "test",
                    batches: 2,
                    rows,
                    depth: 100,
                    columns: 100,
                    by_depth,
                    reads: Vec::new(),
                    functions: functions.to_owned(),
                    number: String::new(),
                    end,
                };
                let (_, text) = super::text(&product, Matrix { size, element, lanes }, false, 1 << 20);
                let text = literal(&text.replace("ROW_OF_GRID", "10u"));
                let features = Features { half: true, subgroups: true, standard: false, matrices: None };
                let text = complete(features, &format!("{functions}{text}"));
                let module = parse_str(&text).unwrap_or_else(|error| panic!("{}\n{text}", error.emit_to_string(&text)));
                let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
                let info = info.unwrap_or_else(|error| panic!("{}\n{text}", error.emit_to_string(&text)));
                let options = spv::Options { lang_version: (1, 6), ..Default::default() };
                assert!(!spv::write_vec(&module, &info, &options, None).unwrap().is_empty());
            }
        }
    }
}
