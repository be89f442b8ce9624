//! Running sums and products.

use super::kernel::Kernel;
use super::kernel::grid;
use super::lowering::{Lowering, Operands, Tensor};
use super::reduce::formula;
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::size;
use crate::error::Result;
use crate::graph::OperandId;
use crate::graph::ops::cumulative::{CumulativeProduct, CumulativeSum};
use crate::graph::ops::reduce::ReduceKind;

/// Up to so many values are combined by one invocation.
const FEW: usize = 64;

/// Which values a result combines.
struct Scan {
    name: &'static str,
    kind: ReduceKind,
    axis: u32,
    exclusive: bool,
    reversed: bool,
}

pub fn cumulative_sum(lowering: &mut Lowering<'_>, op: &CumulativeSum, operands: &Operands) -> Result<()> {
    let CumulativeSum { input, axis, exclusive, reversed } = op;
    let (input, axis, [exclusive, reversed]) = (*input, axis.0, [*exclusive, *reversed]);
    Scan { name: "cumulativeSum", kind: ReduceKind::Sum, axis, exclusive, reversed }.lower(lowering, input, operands)
}

pub fn cumulative_product(lowering: &mut Lowering<'_>, op: &CumulativeProduct, operands: &Operands) -> Result<()> {
    let CumulativeProduct { input, axis, exclusive, reversed } = op;
    let (input, axis, [exclusive, reversed]) = (*input, axis.0, [*exclusive, *reversed]);
    let scan = Scan { name: "cumulativeProduct", kind: ReduceKind::Product, axis, exclusive, reversed };
    scan.lower(lowering, input, operands)
}

/// Writes the sum of all numbers of a list that are before each.
pub fn sums_before(lowering: &mut Lowering<'_>, input: &Tensor, output: &Tensor) -> Result<()> {
    let scan = Scan { name: "sums before", kind: ReduceKind::Sum, axis: 0, exclusive: true, reversed: false };
    scan.of_tensor(lowering, input, output)
}

impl Scan {
    fn lower(&self, lowering: &mut Lowering<'_>, input: OperandId, operands: &Operands) -> Result<()> {
        self.of_tensor(lowering, operands.input(input), operands.output())
    }

    fn of_tensor(&self, lowering: &mut Lowering<'_>, input: &Tensor, output: &Tensor) -> Result<()> {
        let scalar = input.scalar();
        let Axis { size: length, run: inner } = Axis::new(&input.shape, self.axis);
        let rows = input.count() / length;
        // A row's invocations combine a piece each, then find out what comes before their piece.
        let lanes: usize = if length <= FEW { 1 } else { 256 };
        let rows_of_group = if lanes == 1 { 64 } else { 1 };
        let piece = size(length.div_ceil(lanes));
        let (row_of_grid, grid) = grid(lowering, rows.div_ceil(rows_of_group));
        let position = if self.reversed { format!("{}u - k", size(length - 1)) } else { "k".to_owned() };
        let formula = formula(self.kind, input.data_type, length);
        let stored = if self.exclusive { "sum" } else { "next" };
        let mut scan = String::new();
        if lanes > 1 {
            scan.push_str(
                "for (var k = first; k < end; k += 1u) { sum = combine(sum, lift(input(place(row, k)), k)); }\n\
             totals[lane] = sum;\n\
             workgroupBarrier();\n",
            );
            let mut reach = 1;
            while reach < lanes {
                scan.push_str(&format!(
                    "if lane >= {reach}u {{ sum = combine(totals[lane - {reach}u], sum); }}\n\
                 workgroupBarrier();\n\
                 totals[lane] = sum;\n\
                 workgroupBarrier();\n"
                ));
                reach *= 2;
            }
            scan.push_str("sum = nothing();\nif lane > 0u { sum = totals[lane - 1u]; }\n");
        }
        let (threads, of_lane) = if lanes == 1 {
            (rows_of_group, format!("let row = group_index * {rows_of_group}u + index;\nlet lane = 0u;\n"))
        } else {
            (lanes, "let row = group_index;\nlet lane = index;\n".to_owned())
        };
        let text = format!(
            "{functions}{shared}\
         fn place(row: u32, k: u32) -> u32 {{ return (row / {inner}u * {length}u + {position}) * {inner}u + row % {inner}u; }}\n\
         @compute @workgroup_size({threads}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_index) index: u32) {{\n\
         let group_index = group.y * {row_of_grid}u + group.x;\n\
         {of_lane}\
         let is_row = row < {rows}u;\n\
         let first = select({length}u, min(lane * {piece}u, {length}u), is_row);\n\
         let end = min(first + {piece}u, {length}u);\n\
         var sum = nothing();\n\
         {scan}\
         for (var k = first; k < end; k += 1u) {{\n\
         let at = place(row, k);\n\
         let next = combine(sum, lift(input(at), k));\n\
         store_output(at, result({stored}));\n\
         sum = next;\n}}\n}}\n",
            length = size(length),
            inner = size(inner),
            row_of_grid = size(row_of_grid),
            rows = size(rows),
            functions = formula.declare(scalar, scalar),
            shared = if lanes > 1 {
                format!("var<workgroup> totals: array<{}, {lanes}>;\n", formula.accumulator)
            } else {
                String::new()
            },
        );
        let kernel = Kernel::new(self.name).reads(lowering, "input", input);
        lowering.alone(output, |lowering, output| kernel.writes(lowering, "output", output).declare(&text).run(lowering, grid))
    }
}
