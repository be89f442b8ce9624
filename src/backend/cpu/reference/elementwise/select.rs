//! A condition chooses between two operands, element by element.

use super::CHEAP;
use super::rows::zip3;
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::elementwise::Where;

/// `where`, which Rust keeps for itself.
pub fn select(op: &Where, arguments: &mut Arguments<'_, '_>) {
    let operands = [op.condition, op.true_value, op.false_value].map(|id| arguments.input(id));
    let output = arguments.output();
    with_element!(output.data_type, T => {
        zip3(operands, output, CHEAP, |condition: u8, a: T, b: T| if condition != 0 { a } else { b });
    });
}
