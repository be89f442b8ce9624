//! What is done to the output of a step afterwards, operator by operator with the reference kernels.

use super::super::reference;
use super::super::view::{Arguments, View, ViewMut};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::graph::{DataType, Op, OperandId};
use crate::looks;
use crate::memory::Bytes;
use smallvec::SmallVec;

/// An operator that is done to the output of a step with the reference kernel.
#[derive(Debug)]
pub struct Follower {
    /// Its operands are positions in `operands`.
    op: Op,
    /// Positions among the inputs of the step, and after them the value that it is done to. Only its own, so that a run takes time in
    /// proportion to the number of operators, however many inputs all of them have together.
    operands: SmallVec<[usize; 2]>,
}

impl Follower {
    pub fn new(mut op: Op) -> Follower {
        let mut operands = SmallVec::new();
        op.visit_mut(&mut |id| {
            operands.push(id.0 as usize);
            *id = OperandId(operands.len() as u32 - 1);
        });
        Follower { op, operands }
    }
}

/// Does fused operators with the reference kernels.
pub fn follow(followers: &[Follower], views: &[View<'_>], written: &mut [ViewMut<'_>], cancel: &Cancel) -> Result<()> {
    let output = &mut written[0];
    let before = Bytes::copy_of(if followers.is_empty() { &[] } else { output.bytes })?;
    follow_from(before, output.data_type, followers, views, output, cancel)
}

/// The same from a value that lies elsewhere. It may have other data types in between.
pub fn follow_from(
    mut before: Bytes,
    mut data_type: DataType,
    followers: &[Follower],
    views: &[View<'_>],
    output: &mut ViewMut<'_>,
    cancel: &Cancel,
) -> Result<()> {
    let shape = output.shape;
    for Follower { op, operands } in followers {
        cancel.check()?;
        let view = |&position: &usize| match views.get(position) {
            Some(view) => *view,
            None => View::new(data_type, shape, &before),
        };
        let views: SmallVec<[View<'_>; 4]> = operands.iter().map(view).collect();
        let result_type = op.elementwise().map(|op| op.result_type(&|id| views[id.0 as usize].data_type));
        let result_type = result_type.expect("the compiler fuses element-wise operators");
        let mut after = Bytes::zeroed(output.element_count() * result_type.bits() / 8)?;
        let mut outputs = [ViewMut { data_type: result_type, shape, bytes: &mut after }];
        reference::execute(op, &mut Arguments::new(&views, &mut outputs));
        drop(views);
        (before, data_type) = (after, result_type);
    }
    if !followers.is_empty() {
        looks::copy(&before, output.bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::testing::everything_of;
    use crate::compiler::{after_inputs, compile};
    use crate::error::Kind;
    use crate::graph::ops::operator;
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits, attribute::Value};
    use std::sync::Arc;

    /// The operators that follow the first of a chain of additions, each of another constant, and how many inputs all of them have.
    fn chain(length: u16) -> (Vec<Follower>, usize) {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let descriptor = Descriptor::new(DataType::Float32, [2]);
        let mut sum = builder.input("x", descriptor.clone()).unwrap();
        for i in 0..length {
            let addend = ConstantBytes::new(bytemuck::cast_slice::<f32, u8>(&[f32::from(i), 1.0]).to_vec());
            let addend = builder.constant(descriptor.clone(), addend).unwrap();
            sum = builder.apply(operator("add").unwrap(), [Value::Operand(sum), Value::Operand(addend)], "").unwrap()[0];
        }
        let graph = builder.build(vec![("y".into(), sum)]).unwrap();
        let cpu = super::super::super::Cpu::new(1);
        let mut schedule = compile(graph, &everything_of(&cpu)).unwrap();
        assert_eq!(schedule.steps.len(), 1);
        let step = schedule.steps.remove(0);
        let inputs = step.inputs.len();
        (after_inputs(step.fused, inputs).into_iter().map(Follower::new).collect(), inputs)
    }

    /// The output after the followers: each addend is a position among the inputs.
    fn follow_all(length: u16, cancel: &Cancel) -> Result<[f32; 2]> {
        let (followers, inputs) = chain(length);
        let operands: Vec<[f32; 2]> = (0..inputs).map(|_| [2.0, -1.0]).collect();
        let views: Vec<View<'_>> =
            operands.iter().map(|bytes| View::new(DataType::Float32, &[2], bytemuck::cast_slice(bytes))).collect();
        let mut sum = [1f32, 0.0];
        let bytes = bytemuck::cast_slice_mut(&mut sum);
        let mut written = [ViewMut { data_type: DataType::Float32, shape: &[2], bytes }];
        follow(&followers, &views, &mut written, cancel)?;
        Ok(sum)
    }

    #[test]
    fn an_operator_has_its_own_operands_only() {
        let (followers, inputs) = chain(1000);
        assert!(followers.len() == 999 && inputs >= 1000, "{} {inputs}", followers.len());
        assert!(followers.iter().all(|follower| follower.operands.len() == 2));
        assert_eq!(follow_all(1000, &Cancel::default()).unwrap(), [1999.0, -999.0]);
    }

    #[test]
    fn each_asks_whether_the_context_has_ended() {
        let cancel = Cancel::default();
        cancel.cancel();
        assert_eq!(follow_all(10, &cancel).unwrap_err().kind(), Kind::InvalidState);
    }
}
