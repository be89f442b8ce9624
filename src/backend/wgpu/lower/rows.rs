//! Kernels that find something out about all values of a row and then change each of them: softmax, normalizations. A row
//! is whatever belongs together, wherever it lies. A workgroup does a row, and holds it in registers if it is short; where
//! there are many rows beside each other, an invocation does each.

use super::kernel::Kernel;
use super::kernel::grid;
use super::lowering::{Lowering, Tensor};
use super::workgroup::{Combination, EXPONENTIALS, MAGNITUDES, SUMS, parameters};
use crate::backend::strided::Strided;
use crate::backend::wgpu::shader::{Size, size};
use crate::error::Result;

/// Values that an invocation holds in registers.
const HELD: usize = 8;
/// Up to so many values are done by one invocation.
const FEW: usize = 16;
/// With so many rows beside each other, an invocation does each.
const MANY_ROWS: usize = 8192;
/// Rows of a workgroup whose invocations do one each.
const ROWS_OF_WORKGROUP: usize = 64;

/// What is found out about a row.
#[derive(Clone, Copy)]
pub enum Summary {
    /// A sum of `f32`.
    Sum,
    /// Of `vec3<f32>` the sums of the first two, and the greatest of the third.
    Magnitude,
    /// [`super::reduce::exponentials`], whose functions the kernel declares.
    Exponentials,
}

/// The rows of a tensor, and the entry point's text so far.
pub struct Rows {
    kept: Strided,
    within: Strided,
    rows: usize,
    length: Size,
    /// Invocations for a row.
    lanes: usize,
    /// Values that each of them holds; 0 where it reads them again.
    held: usize,
    /// So many of these are values of the row for all invocations.
    inside: usize,
    shared: String,
    text: String,
}

impl Rows {
    /// The rows along some axes of a shape, the values in the order of these axes; rows are numbered in the order of the
    /// others.
    pub fn new(lowering: &Lowering<'_>, shape: &[usize], axes: &[usize]) -> Self {
        let dense = Strided::dense(shape).dimensions;
        let along = |axes: &mut dyn Iterator<Item = usize>| Strided::new(axes.map(|axis| dense[axis]), 0);
        let others = || (0..shape.len()).filter(|axis| !axes.contains(axis));
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        let rows = others().map(|axis| shape[axis]).product();
        let are_beside = others().next_back().is_some_and(|axis| dense[axis].stride == 1 && shape[axis] >= ROWS_OF_WORKGROUP / 2);
        let by_one = count <= FEW || are_beside && rows >= MANY_ROWS;
        let lanes = match count {
            _ if by_one => 1,
            count if count <= 64 * HELD => 64,
            _ => 256,
        };
        let (kept, within) = (along(&mut others()), along(&mut axes.iter().copied()));
        let held = match count.div_ceil(lanes) {
            held if lanes == 1 || held > HELD => 0,
            held if !lowering.is_open => held,
            // Rows of other lengths have the same text.
            1 | 2 => 2,
            _ => HELD,
        };
        let inside = if lowering.is_open { 0 } else { count / lanes };
        let length = size(count);
        let mut rows = Rows { kept, within, rows, length, lanes, held, inside, shared: String::new(), text: String::new() };
        rows.begin();
        rows
    }

    fn begin(&mut self) {
        let Rows { length, lanes, held, inside, .. } = *self;
        self.text = format!("let base = {};\n", self.kept.at("row"));
        for number in 0..held {
            let first = number * lanes;
            let load = format!("x{number} = input(place(base, lane + {first}u));");
            let load = if number < inside { load } else { format!("if lane + {first}u < {length}u {{ {load} }}") };
            self.text.push_str(&format!("var x{number} = 0.0f;\n{load}\n"));
        }
    }

    /// Statements for each value `x`, number `k` in its row.
    fn each(&self, statements: &str) -> String {
        let Rows { length, lanes, held, inside, .. } = *self;
        if held == 0 {
            return format!(
                "for (var k = lane; k < {length}u; k += {lanes}u) {{\nlet x = input(place(base, k));\n{statements}\n}}\n"
            );
        }
        let mut text = String::new();
        for number in 0..held {
            let first = number * lanes;
            let condition = if number < inside { String::new() } else { format!("if k < {length}u ") };
            text.push_str(&format!("{{\nlet k = lane + {first}u;\nlet x = x{number};\n{condition}{{\n{statements}\n}}\n}}\n"));
        }
        text
    }

    /// Declares `name` as the combination of what is `lifted` from all values `x`.
    pub fn reduce(mut self, lowering: &Lowering<'_>, name: &str, summary: Summary, lifted: &str) -> Self {
        let (value, nothing, combine, array) = match summary {
            Summary::Sum => ("f32", "0.0f", "plus", "totals"),
            Summary::Magnitude => ("vec3<f32>", "vec3<f32>()", "join", "total_triples"),
            Summary::Exponentials => ("vec2<f32>", "nothing()", "combine", "total_pairs"),
        };
        let each = self.each(&format!("total = {combine}(total, {lifted});"));
        let lanes = self.lanes;
        if lanes == 1 {
            self.text.push_str(&format!("var {name} = {nothing};\n{{\nvar total = {nothing};\n{each}{name} = total;\n}}\n"));
            return self;
        }
        let combination = Combination {
            lanes,
            array,
            value,
            combine: &|a, b| format!("{combine}({a}, {b})"),
            in_subgroup: Some(match summary {
                Summary::Sum => SUMS,
                Summary::Magnitude => MAGNITUDES,
                Summary::Exponentials => EXPONENTIALS,
            }),
        };
        let declared = combination.declare();
        if !self.shared.contains(&declared) {
            self.shared.push_str(&declared);
        }
        let combined = combination.text(lowering);
        // Nobody may write there again before all have read.
        self.text.push_str(&format!(
            "{{\nvar total = {nothing};\n{each}{combined}}}\n\
             workgroupBarrier();\nlet {name} = {array}[0];\nworkgroupBarrier();\n"
        ));
        self
    }

    /// Adds statements that are done once for a row, number `row`.
    pub fn then(mut self, statements: &str) -> Self {
        self.text.push_str(statements);
        self.text.push('\n');
        self
    }

    /// Writes `value`, an expression of the value `x`, number `k` of its row, to its place in the output. The kernel reads
    /// `input`, and what else the texts mention.
    pub fn write(mut self, lowering: &mut Lowering<'_>, kernel: Kernel, output: &Tensor, value: &str) -> Result<()> {
        let each = self.each(&format!("store_output(place(base, k), {value});"));
        self.text.push_str(&each);
        let Rows { rows, lanes, .. } = self;
        let rows_of_group = if lanes == 1 { ROWS_OF_WORKGROUP } else { 1 };
        let (row_of_grid, grid) = grid(lowering, rows.div_ceil(rows_of_group));
        let (threads, row, lane) = if lanes == 1 {
            (ROWS_OF_WORKGROUP, format!("group_index * {ROWS_OF_WORKGROUP}u + index"), "0u")
        } else {
            (lanes, "group_index".to_owned(), "index")
        };
        let text = format!(
            "{shared}\
             fn plus(a: f32, b: f32) -> f32 {{ return a + b; }}\n\
             fn join(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {{ return vec3<f32>(a.xy + b.xy, max(a.z, b.z)); }}\n\
             fn place(base: u32, k: u32) -> u32 {{ return base + {within}; }}\n\
             @compute @workgroup_size({threads}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
             @builtin(local_invocation_index) index: u32{parameters}) {{\n\
             let group_index = group.y * {row_of_grid}u + group.x;\n\
             if group_index >= {groups}u {{ return; }}\n\
             let row = {row};\n\
             let lane = {lane};\n\
             {guard}\
             {body}}}\n",
            shared = self.shared,
            parameters = parameters(lowering),
            within = self.within.at("k"),
            row_of_grid = size(row_of_grid),
            groups = size(rows.div_ceil(rows_of_group)),
            guard = if lanes == 1 { format!("if row >= {}u {{ return; }}\n", size(rows)) } else { String::new() },
            body = self.text,
        );
        lowering.alone(output, |lowering, output| kernel.writes(lowering, "output", output).declare(&text).run(lowering, grid))
    }
}
