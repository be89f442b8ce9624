//! Large tables of a file that only gathers read, such as embeddings: rows are read when a run asks for them, never the whole table.

use super::step::{Memory, Step};
use crate::backend::cpu::reference::Indices;
use crate::backend::cpu::view::View;
use crate::error::Result;
use crate::graph::{ConstantBytes, Op};
use crate::memory::{Pin, Place, is_of_file, pin};

/// Smaller tables are read whole.
const WORTH_IT: usize = 16 << 20;

/// The operands of a step that gathers whole rows: the table, where it is a constant, and the indices.
fn gathered(step: &Step) -> Option<(usize, usize, usize)> {
    let Op::Gather(op) = &step.op else { return None };
    let (table, indices) = (op.input.0 as usize, op.indices.0 as usize);
    let operand = step.inputs.get(table).filter(|operand| op.axis == 0 && operand.data_type.bits() >= 8)?;
    match operand.memory {
        Memory::Constant(position) => Some((table, indices, position)),
        _ => None,
    }
}

/// Which constants are such tables.
pub fn find(steps: &[Step], constants: &[ConstantBytes]) -> Vec<bool> {
    let is_large = |constant: &ConstantBytes| constant.len() >= WORTH_IT && is_of_file(constant.place());
    let mut found: Vec<bool> = constants.iter().map(is_large).collect();
    for step in steps {
        let table = gathered(step).map(|(table, ..)| table);
        for (_, operand) in step.inputs.iter().enumerate().filter(|(number, _)| Some(*number) != table) {
            if let Memory::Constant(position) = operand.memory {
                found[position] = false;
            }
        }
    }
    found
}

/// Has the rows read that a step asks for, if it has such a table. They may be looked at until the result is dropped.
///
/// # Errors
/// Those of [`pin`].
pub fn rows(step: &Step, views: &[View<'_>], is_table: &[bool], constants: &[ConstantBytes]) -> Result<Vec<Pin>> {
    let Some((table, indices, position)) = gathered(step).filter(|(.., position)| is_table[*position]) else {
        return Ok(Vec::new());
    };
    let (operand, place) = (&step.inputs[table], constants[position].place());
    let (count, length) = (operand.shape[0], place.length / operand.shape[0].max(1));
    let (indices, number) = (Indices::new(views[indices]), views[indices].element_count());
    let row = |i: usize| Place { start: place.start + indices.at(i, count) * length, length };
    (0..number).filter_map(|i| pin(row(i)).transpose()).collect()
}
