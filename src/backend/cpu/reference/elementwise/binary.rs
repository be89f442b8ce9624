//! Arithmetic on two operands.

use super::rows::zip;
use super::{CHEAP, DEAR};
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::reference::arithmetic::Arithmetic;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::{Binary, BinaryKind, Remainder, RemainderKind};

pub fn binary(op: &Binary, arguments: &mut Arguments<'_, '_>) {
    with_element!(arguments.output().data_type, T => typed::<T>(op, arguments));
}

pub fn remainder(op: &Remainder, arguments: &mut Arguments<'_, '_>) {
    let operands = [arguments.input(op.a), arguments.input(op.b)];
    let output = arguments.output();
    with_element!(output.data_type, T => match op.kind {
        RemainderKind::Truncated => zip(operands, output, DEAR, T::rem),
        RemainderKind::Floored => zip(operands, output, DEAR, T::floored_rem),
    });
}

fn typed<T: Arithmetic>(op: &Binary, arguments: &mut Arguments<'_, '_>) {
    let operands = [arguments.input(op.a), arguments.input(op.b)];
    let output = arguments.output();
    match op.kind {
        BinaryKind::Add => zip(operands, output, CHEAP, T::add),
        BinaryKind::Sub => zip(operands, output, CHEAP, T::sub),
        BinaryKind::Mul => zip(operands, output, CHEAP, T::mul),
        BinaryKind::Div => zip(operands, output, CHEAP, T::div),
        BinaryKind::Max => zip(operands, output, CHEAP, T::max),
        BinaryKind::Min => zip(operands, output, CHEAP, T::min),
        BinaryKind::Pow => zip(operands, output, DEAR, T::pow),
    }
}
