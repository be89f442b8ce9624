//! Reductions of many values to one, whatever the formula: by one invocation for each output, by a workgroup, or by several
//! workgroups whose results are reduced once more.

use super::alone::data_type_of;
use super::kernel::Kernel;
use super::kernel::grid;
use super::lowering::{Lowering, Tensor};
use super::workgroup::{Combination, parameters};
use crate::backend::strided::Strided;
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;

/// Up to so many values are reduced by one invocation.
const FEW: usize = 32;
/// With so many outputs the device is busy with one invocation for each.
const MANY_OUTPUTS: usize = 1 << 15;
/// Values that are added up before their sum is added to others, which keeps rounding errors small.
const BLOCK: usize = 64;
/// Values that a workgroup should have when several share an output.
const SHARE: usize = 8192;
/// Workgroups that keep a device busy.
const BUSY: usize = 512;

/// How values become one. The texts are bodies of WGSL functions.
#[derive(Clone, Debug)]
pub struct Formula {
    /// The type of what has been reduced so far, and what declares it.
    pub accumulator: &'static str,
    pub declarations: String,
    /// The parts of an accumulator, as expressions of `a`, and their types: an accumulator is made of them in this order.
    pub parts: Vec<(&'static str, Scalar)>,
    /// `fn nothing() -> A`: what changes nothing.
    pub nothing: String,
    /// `fn lift(x, k: u32) -> A`, of value number `k`.
    pub lift: String,
    /// `fn combine(a: A, b: A) -> A`
    pub combine: String,
    /// How a subgroup does that, see [`Combination`].
    pub in_subgroup: Option<&'static str>,
    /// `fn result(a: A) -> T`
    pub result: String,
}

impl Formula {
    /// One whose accumulator is a scalar and its own result.
    pub fn scalar(scalar: Scalar, nothing: String, lift: String, combine: String) -> Self {
        Formula {
            accumulator: scalar.name(),
            declarations: String::new(),
            parts: vec![("a", scalar)],
            nothing,
            lift: format!("return {lift};"),
            combine: format!("return {combine};"),
            in_subgroup: None,
            result: "return a;".to_owned(),
        }
    }

    /// The functions of the formula.
    pub fn declare(&self, value: Scalar, result: Scalar) -> String {
        let Formula { accumulator, declarations, nothing, lift, combine, result: finish, .. } = self;
        let (value, result) = (value.name(), result.name());
        format!(
            "{declarations}\n\
             fn nothing() -> {accumulator} {{ return {nothing}; }}\n\
             fn lift(x: {value}, k: u32) -> {accumulator} {{\n{lift}\n}}\n\
             fn combine(a: {accumulator}, b: {accumulator}) -> {accumulator} {{\n{combine}\n}}\n\
             fn result(a: {accumulator}) -> {result} {{\n{finish}\n}}\n"
        )
    }
}

/// A reduction of dimensions of a tensor.
pub struct Reduction<'a> {
    pub label: &'static str,
    pub input: &'a Tensor,
    /// The dimensions that are left, in their order, are those of the output but for sizes of 1.
    pub reduced: Vec<bool>,
    pub formula: Formula,
}

impl Reduction<'_> {
    /// The dimensions that are reduced, or are not, and how many values they have.
    fn along(&self, reduced: bool) -> (Strided, usize) {
        let dimensions = Strided::dense(&self.input.shape).dimensions.into_iter().zip(&self.reduced);
        let chosen = dimensions.filter(|(_, is_reduced)| **is_reduced == reduced).map(|(dimension, _)| dimension);
        let chosen = Strided::new(chosen, 0);
        let count = chosen.dimensions.iter().map(|dimension| dimension.size).product();
        (chosen, count)
    }

    pub fn lower(&self, lowering: &mut Lowering<'_>, output: &Tensor) -> Result<()> {
        let (kept, outputs) = self.along(false);
        let (reduced, count) = self.along(true);
        assert_eq!(outputs, output.count());
        let lifted = format!("lift(input({} + {}), k)", kept.at("i"), reduced.at("k"));
        let functions = self.formula.declare(self.input.scalar(), output.scalar());
        let kernel = Kernel::new(self.label).reads(lowering, "input", self.input).declare(&functions);
        if count <= FEW || outputs >= MANY_OUTPUTS && count <= SHARE {
            return kernel.each(
                lowering,
                output,
                &format!("{}return result(total);", serial("0u", &format!("{}u", size(count)), &lifted)),
            );
        }
        // Several workgroups for an output when there are few outputs of many values.
        let shares = if outputs >= BUSY { 1 } else { (count / SHARE).clamp(1, BUSY / outputs) };
        if shares == 1 {
            return lowering.alone(output, |lowering, output| {
                let kernel = kernel.writes(lowering, "output", output);
                workgroups(lowering, kernel, &self.formula, outputs, count, &lifted, "store_output(i, result(totals[0]));")
            });
        }
        let share = count.div_ceil(shares);
        let shares = count.div_ceil(share);
        let shares_of = size(shares);
        let mut kernel = kernel;
        let mut store = String::new();
        let mut load = Vec::new();
        let mut parts = Vec::new();
        for (number, (part, scalar)) in self.formula.parts.iter().enumerate() {
            let tensor = lowering.temporary(data_type_of(*scalar), &[outputs, shares])?;
            kernel = kernel.writes(lowering, &format!("part{number}"), &tensor);
            store.push_str(&format!("store_part{number}(group_index, {part});\n"));
            load.push(format!("part{number}(i * {shares_of}u + k)"));
            parts.push(tensor);
        }
        let first = format!("(group_index % {shares_of}u) * {}u", size(share));
        shared(lowering, kernel, &self.formula, (outputs, shares), (&first, share, count), &lifted, &store)?;

        let mut kernel = Kernel::new(self.label);
        for (number, part) in parts.iter().enumerate() {
            kernel = kernel.reads(lowering, &format!("part{number}"), part);
        }
        let loaded = match &load[..] {
            [one] => one.clone(),
            several => format!("{}({})", self.formula.accumulator, several.join(", ")),
        };
        let kernel = kernel.declare(&functions);
        lowering.alone(output, |lowering, output| {
            let kernel = kernel.writes(lowering, "output", output);
            workgroups(lowering, kernel, &self.formula, outputs, shares, &loaded, "store_output(i, result(totals[0]));")
        })
    }
}

/// Statements that combine the values from `first` to `end` one after the other, in blocks.
pub fn serial(first: &str, end: &str, lifted: &str) -> String {
    format!(
        "var total = nothing();\n\
         var k = {first};\n\
         while k < {end} {{\n\
         var part = nothing();\n\
         let last = min(k + {BLOCK}u, {end});\n\
         for (; k < last; k += 1u) {{ part = combine(part, {lifted}); }}\n\
         total = combine(total, part);\n\
         }}\n"
    )
}

/// One workgroup for each output `i`: combines the values `lifted(i, k)` for `k` below `count` and does `then`.
fn workgroups(
    lowering: &mut Lowering<'_>,
    kernel: Kernel,
    formula: &Formula,
    outputs: usize,
    count: usize,
    lifted: &str,
    then: &str,
) -> Result<()> {
    shared(lowering, kernel, formula, (outputs, 1), ("0u", count, count), lifted, then)
}

/// So many workgroups for each output `i`, each of which combines `share` values from `first` on.
fn shared(
    lowering: &mut Lowering<'_>,
    kernel: Kernel,
    formula: &Formula,
    (outputs, shares): (usize, usize),
    (first, share, count): (&str, usize, usize),
    lifted: &str,
    then: &str,
) -> Result<()> {
    let lanes = if share > 256 { 256 } else { 64 };
    let combination = Combination {
        lanes,
        array: "totals",
        value: formula.accumulator,
        combine: &|a, b| format!("combine({a}, {b})"),
        in_subgroup: formula.in_subgroup,
    };
    let groups = outputs * shares;
    let (row, grid) = grid(lowering, groups);
    let text = format!(
        "{declared}\
         @compute @workgroup_size({lanes}) fn main(@builtin(workgroup_id) group: vec3<u32>, \
         @builtin(local_invocation_index) lane: u32{parameters}) {{\n\
         let group_index = group.y * {row}u + group.x;\n\
         if group_index >= {groups}u {{ return; }}\n\
         let i = group_index / {shares}u;\n\
         let first = {first};\n\
         let end = min(first + {share}u, {count}u);\n\
         var total = nothing();\n\
         for (var k = first + lane; k < end; k += {lanes}u) {{ total = combine(total, {lifted}); }}\n\
         {combine}\
         if lane == 0u {{\n\
         let a = totals[0];\n\
         {then}\n}}\n}}\n",
        row = size(row),
        groups = size(groups),
        shares = size(shares),
        share = size(share),
        count = size(count),
        declared = combination.declare(),
        parameters = parameters(lowering),
        combine = combination.text(lowering),
    );
    kernel.declare(&text).run(lowering, grid)
}
