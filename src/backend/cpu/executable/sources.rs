//! Whose results a step reads: the edges of the graph that profiles show.

use super::step::{Operand, Step};
use crate::compiler::{Written, sources};

/// See [`sources`].
pub fn of(steps: &[Step]) -> Vec<Vec<usize>> {
    let list = |operands: &[Operand]| operands.iter().filter_map(Operand::written).collect();
    let steps: Vec<[Vec<Written>; 2]> = steps.iter().map(|step| [list(&step.inputs), list(&step.outputs)]).collect();
    sources(&steps)
}
