//! Positions of extreme values.

use super::lowering::{Lowering, Operands};
use super::reduction::{Formula, Reduction};
use crate::backend::wgpu::shader::Scalar;
use crate::error::Result;
use crate::graph::ops::arg::{Arg, ArgKind};

pub fn arg(lowering: &mut Lowering<'_>, op: &Arg, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let scalar = input.scalar();
    let wins = |x: &str, y: &str| match op.kind {
        ArgKind::Min => scalar.lt(x, y),
        ArgKind::Max => scalar.lt(y, x),
    };
    // The first NaN wins over all numbers.
    let nan =
        if scalar == Scalar::F32 { "if is_nan(a.x) != is_nan(b.x) { if is_nan(a.x) { return a; } return b; }\n" } else { "" };
    let formula = Formula {
        accumulator: "Found",
        declarations: format!("struct Found {{ x: {}, k: u32 }}", scalar.name()),
        parts: vec![("a.x", scalar), ("a.k", Scalar::U32)],
        nothing: format!("Found({}, 0xffffffffu)", scalar.integer(0)),
        lift: "return Found(x, k);".to_owned(),
        // Those that are equal, or both not numbers: the first.
        combine: format!(
            "if a.k == 0xffffffffu {{ return b; }}\n\
             if b.k == 0xffffffffu {{ return a; }}\n\
             {nan}\
             if {} {{ return a; }}\n\
             if {} {{ return b; }}\n\
             if a.k < b.k {{ return a; }}\n\
             return b;",
            wins("a.x", "b.x"),
            wins("b.x", "a.x"),
        ),
        in_subgroup: None,
        result: format!("return {};", Scalar::U32.convert(output.scalar(), "a.k")),
    };
    let reduced = (0..input.shape.len()).map(|axis| axis == op.axis as usize).collect();
    Reduction { label: "arg", input, reduced, formula }.lower(lowering, output)
}
