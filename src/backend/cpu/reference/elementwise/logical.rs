//! Comparisons, logic, and questions about one value.

use super::CHEAP;
use super::rows::{map, zip};
use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{Logical, LogicalKind, Predicate, PredicateKind};

pub fn logical(op: &Logical, arguments: &mut Arguments<'_, '_>) {
    with_element!(arguments.input(op.a).data_type, T => typed::<T>(op, arguments));
}

fn typed<T: Element>(op: &Logical, arguments: &mut Arguments<'_, '_>) {
    let operands = [arguments.input(op.a), arguments.input(op.b)];
    let output = arguments.output();
    match op.kind {
        LogicalKind::Equal => zip(operands, output, CHEAP, |a: T, b| (a == b) as u8),
        LogicalKind::NotEqual => zip(operands, output, CHEAP, |a: T, b| (a != b) as u8),
        LogicalKind::Greater => zip(operands, output, CHEAP, |a: T, b| (a > b) as u8),
        LogicalKind::GreaterOrEqual => zip(operands, output, CHEAP, |a: T, b| (a >= b) as u8),
        LogicalKind::Lesser => zip(operands, output, CHEAP, |a: T, b| (a < b) as u8),
        LogicalKind::LesserOrEqual => zip(operands, output, CHEAP, |a: T, b| (a <= b) as u8),
        LogicalKind::LogicalAnd => zip(operands, output, CHEAP, |a: u8, b| (a != 0 && b != 0) as u8),
        LogicalKind::LogicalOr => zip(operands, output, CHEAP, |a: u8, b| (a != 0 || b != 0) as u8),
        LogicalKind::LogicalXor => zip(operands, output, CHEAP, |a: u8, b| ((a != 0) != (b != 0)) as u8),
    }
}

pub fn predicate(op: &Predicate, arguments: &mut Arguments<'_, '_>) {
    let a = arguments.input(op.a);
    let output = arguments.output();
    match op.kind {
        PredicateKind::LogicalNot => map(a, output, CHEAP, |a: u8| (a == 0) as u8),
        PredicateKind::IsNan => {
            with_float!(a.data_type, T => map(a, output, CHEAP, |a: T| Float::to_f32(a).is_nan() as u8));
        }
        PredicateKind::IsInfinite => {
            with_float!(a.data_type, T => map(a, output, CHEAP, |a: T| Float::to_f32(a).is_infinite() as u8));
        }
    }
}
