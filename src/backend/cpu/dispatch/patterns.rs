//! The compiler's proposals, answered by the lists of implementations.

use super::{Constant, Problem, Target, TensorDesc, choose};
use crate::backend::cpu::aligned::is_aligned;
use crate::compiler::{Pattern, describe};
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor};
use crate::memory::Bytes;

/// A constant operand, as kernels need it: where it does not lie so, a copy.
fn copy_of(known: &Option<ConstantBytes>) -> Result<Option<Bytes>> {
    // What is computed is aligned.
    let constant = known.as_ref().filter(|constant| constant.key().is_none() && !is_aligned(constant.place()));
    constant.map(|constant| Bytes::copy_of(constant.briefly().as_slice())).transpose()
}

/// Answers for a target.
#[derive(Clone, Copy, Debug)]
pub struct Patterns(pub Target);

impl Patterns {
    /// Whether there is an implementation for a step like this. A constant that cannot be looked at, for want of memory, is no
    /// reason to have one.
    pub fn accepts(&self, pattern: &Pattern<'_>) -> bool {
        let sizes = |descriptor: &Descriptor| descriptor.shape.iter().map(|&size| size as usize).collect::<Vec<_>>();
        let shapes: Vec<Vec<usize>> = pattern.inputs.iter().map(|known| sizes(known.descriptor)).collect();
        let constants: Vec<_> = pattern.inputs.iter().map(|known| known.constant.map(ConstantBytes::briefly)).collect();
        let Ok(copies) = constants.iter().map(copy_of).collect::<Result<Vec<_>>>() else { return false };
        let inputs: Vec<TensorDesc<'_>> = pattern
            .inputs
            .iter()
            .zip(&shapes)
            .zip(constants.iter().zip(&copies))
            .map(|((known, shape), (constant, copy))| TensorDesc {
                data_type: known.descriptor.data_type,
                shape,
                constant: copy.as_deref().map(Constant::Bytes).or(constant.as_ref().map(Constant::Known)),
                order: known.order.as_deref(),
            })
            .collect();
        let shape = sizes(pattern.output);
        let output = TensorDesc { data_type: pattern.output.data_type, shape: &shape, constant: None, order: None };
        let problem = Problem {
            prologue: &pattern.prologue,
            dequantized: &pattern.dequantized,
            op: &pattern.op,
            fused: &[],
            inputs: &inputs,
            output,
            workspace: None,
        };
        let (choice, build) = choose(&problem, &self.0);
        if build.is_none() {
            choice.say_refused(&self.0, || {
                let operators = pattern.prologue.iter().chain([&pattern.op]);
                let order = inputs.iter().find_map(|input| input.order);
                let order = order.map(|order| format!(", read in the order {order:?}")).unwrap_or_default();
                describe(operators.map(|op| op.row().name), inputs.iter().map(|input| input.shape), [&shape[..]].into_iter())
                    + &order
            });
        }
        build.is_some()
    }
}
