//! Products by tiles: each workgroup makes one, each of its invocations a block of it.

use super::problem::{BUSY, Division, Product};
use crate::backend::wgpu::shader::size;
use std::fmt::Write;

/// The sizes of a tile, and of an invocation's block; multiples of 4.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
    depth: usize,
    block_rows: usize,
    block_columns: usize,
}

/// The larger a tile, the less is read again and again, and the fewer there are.
const TILES: [Tile; 3] = [
    Tile { rows: 128, columns: 128, depth: 8, block_rows: 8, block_columns: 8 },
    Tile { rows: 64, columns: 64, depth: 16, block_rows: 4, block_columns: 4 },
    Tile { rows: 32, columns: 32, depth: 16, block_rows: 4, block_columns: 4 },
];

impl Tile {
    fn groups(&self, product: &Product<'_>) -> usize {
        product.batches * product.rows.div_ceil(self.rows) * product.columns.div_ceil(self.columns)
    }

    fn invocations(&self) -> usize {
        (self.rows / self.block_rows) * (self.columns / self.block_columns)
    }
}

/// Statements that bring a part of a matrix to `{side}_tile`: groups of four along its rows or columns, for each number
/// along the depth. What reads an element is called in one place, since drivers put the whole of it into every place.
/// FXC unrolls each loop that writes to a component of a vector by its number, and those around it, and gives up when they are too long.
fn bring(side: &str, vector: &str, size: usize, tile: &Tile, by_depth: bool, element: &str) -> String {
    let (invocations, quarter, depth) = (tile.invocations(), size / 4, tile.depth);
    assert!((quarter * depth).is_multiple_of(invocations));
    let place = if by_depth {
        format!("let k = p % {depth}u;\nlet four = p / {depth}u;\n")
    } else {
        format!("let k = p / {quarter}u;\nlet four = p % {quarter}u;\n")
    };
    format!(
        "for (var p = lane; p < {count}u; p += {invocations}u) {{\n{place}\
         var read = vec4<f32>();\n\
         for (var c = 0u; c < 4u; c += 1u) {{\n\
         let value = {element};\n\
         read = select(read, vec4<f32>(value), vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(c));\n\
         }}\n\
         {side}_tile[k * {pitch}u + four] = {vector}(read);\n}}\n",
        count = quarter * depth,
        pitch = quarter + 1,
    )
}

/// A function that reads an element of a side, or 0 outside the matrix.
fn guarded(side: &str, parameters: &str, arguments: &str, conditions: &[String]) -> String {
    let condition = if conditions.is_empty() { String::new() } else { format!("if {} ", conditions.join(" && ")) };
    let end = if conditions.is_empty() { "" } else { "return 0.0f;\n" };
    format!("fn {side}_in({parameters}, end: u32) -> f32 {{\n{condition}{{ return {side}_at({arguments}); }}\n{end}}}\n")
}

/// `left_in(batch, row, k, end)` and `right_in(batch, k, column, end)`: elements of both sides, 0 outside the matrices and
/// beyond a share of the depth, for tiles of a size.
pub fn sides(
    product: &Product<'_>,
    tile_rows: usize,
    tile_columns: usize,
    tile_depth: usize,
    share: usize,
    is_open: bool,
) -> String {
    let Product { rows, depth, columns, .. } = *product;
    let inside = |whole: bool, condition: String| if whole && !is_open { None } else { Some(condition) };
    let whole_depth = share.is_multiple_of(tile_depth) && depth.is_multiple_of(share);
    let in_depth = || inside(whole_depth, "k < end".to_owned());
    let in_rows = inside(rows.is_multiple_of(tile_rows), format!("row < {}u", size(rows)));
    let in_columns = inside(columns.is_multiple_of(tile_columns), format!("column < {}u", size(columns)));
    let conditions = |first: &Option<String>| first.iter().cloned().chain(in_depth()).collect::<Vec<_>>();
    guarded("left", "batch: u32, row: u32, k: u32", "batch, row, k", &conditions(&in_rows))
        + &guarded("right", "batch: u32, k: u32, column: u32", "batch, k, column", &conditions(&in_columns))
}

#[expect(clippy::too_many_lines, reason = "the text of one shader")]
pub fn text(product: &Product<'_>, are_halves: bool, is_open: bool, most_bytes: usize) -> (Division, String) {
    let Product { batches, rows, depth, columns, by_depth, .. } = *product;
    let fits = |tile: &&Tile| rows * 3 >= tile.rows * 2 && columns * 3 >= tile.columns * 2;
    let tile = TILES.iter().filter(fits).find(|tile| tile.groups(product) >= BUSY / 2);
    let mut tile = *tile.unwrap_or(&TILES[2]);
    // Elements of float16 lie in the workgroup's memory as they are, so there is room for twice as many.
    let four = if are_halves { "vec4<f16>" } else { "vec4<f32>" };
    if are_halves {
        tile.depth *= 2;
    }
    let division = Division::new(tile.groups(product), product, tile.depth, most_bytes);
    let (share, groups) = (division.share, division.groups * division.shares);
    let invocations = tile.invocations();
    let (across, fours) = (tile.columns / tile.block_columns, tile.block_columns / 4);
    let (left_pitch, right_pitch) = (tile.rows / 4 + 1, tile.columns / 4 + 1);
    let (tile_rows, tile_columns) = (rows.div_ceil(tile.rows), columns.div_ceil(tile.columns));

    let mut text = sides(product, tile.rows, tile.columns, tile.depth, share, is_open);
    let (tiles, tile_rows, tile_columns) = (size(tile_columns * tile_rows), size(tile_rows), size(tile_columns));
    let [batches, rows, depth, columns, share, groups] = [batches, rows, depth, columns, share, groups].map(size);
    let _ = write!(
        text,
        "var<workgroup> left_tile: array<{four}, {left_length}>;\n\
         var<workgroup> right_tile: array<{four}, {right_length}>;\n\
         @compute @workgroup_size({invocations}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_index) lane: u32) {{\n\
         let group_index = group.y * ROW_OF_GRID + group.x;\n\
         if group_index >= {groups}u {{ return; }}\n\
         let tile_column = (group_index % {tile_columns}u) * {columns_of_tile}u;\n\
         let tile_row = (group_index / {tile_columns}u % {tile_rows}u) * {rows_of_tile}u;\n\
         let rest = group_index / {tiles}u;\n\
         let batch = rest % {batches}u;\n\
         let share = rest / {batches}u;\n\
         let first = share * {share}u;\n\
         let end = min(first + {share}u, {depth}u);\n\
         let x = lane % {across}u;\n\
         let y = lane / {across}u;\n",
        left_length = left_pitch * tile.depth,
        right_length = right_pitch * tile.depth,
        columns_of_tile = tile.columns,
        rows_of_tile = tile.rows,
    );
    for row in 0..tile.block_rows {
        for four in 0..fours {
            let _ = writeln!(text, "var sum{row}_{four} = vec4<f32>();");
        }
    }
    let _ = writeln!(text, "for (var k0 = first; k0 < end; k0 += {}u) {{", tile.depth);
    text += &bring("left", four, tile.rows, &tile, by_depth[0], "left_in(batch, tile_row + four * 4u + c, k0 + k, end)");
    text += &bring("right", four, tile.columns, &tile, by_depth[1], "right_in(batch, k0 + k, tile_column + four * 4u + c, end)");
    text += "workgroupBarrier();\n";
    let _ = writeln!(text, "for (var k4 = 0u; k4 < {}u; k4 += 4u) {{", tile.depth);
    for k in 0..4 {
        let _ = writeln!(text, "{{\nlet k = k4 + {k}u;");
        for four in 0..tile.block_rows / 4 {
            let place = tile.block_rows / 4;
            let _ = writeln!(text, "let a{four} = vec4<f32>(left_tile[k * {left_pitch}u + y * {place}u + {four}u]);");
        }
        for four in 0..fours {
            let _ = writeln!(text, "let b{four} = vec4<f32>(right_tile[k * {right_pitch}u + x + {}u]);", four * across);
        }
        for row in 0..tile.block_rows {
            for four in 0..fours {
                let component = ["x", "y", "z", "w"][row % 4];
                let _ = writeln!(text, "sum{row}_{four} += a{}.{component} * b{four};", row / 4);
            }
        }
        text += "}\n";
    }
    text += "}\nworkgroupBarrier();\n}\n";
    // Likewise what stores an element.
    let _ = write!(
        text,
        "for (var r = 0u; r < {rows_of_block}u; r += 1u) {{\n\
         let row = tile_row + y * {rows_of_block}u + r;\n\
         for (var f = 0u; f < {fours}u; f += 1u) {{\n\
         var sums = vec4<f32>();\n\
         switch r * {fours}u + f {{\n",
        rows_of_block = tile.block_rows,
    );
    for row in 0..tile.block_rows {
        for four in 0..fours {
            let number = row * fours + four;
            let case = if number == 0 { "default".to_owned() } else { format!("case {number}u") };
            let _ = writeln!(text, "{case}: {{ sums = sum{row}_{four}; }}");
        }
    }
    let _ = write!(
        text,
        "}}\n\
         for (var c = 0u; c < 4u; c += 1u) {{\n\
         let column = tile_column + x * 4u + f * {pitch}u + c;\n\
         if row < {rows}u && column < {columns}u {{ store(share, batch, row, column, sums[c]); }}\n\
         }}\n}}\n}}\n}}\n",
        pitch = across * 4,
    );
    (division, text)
}
