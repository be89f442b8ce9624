//! The memory of a run, by region: 0 is the arena, 1 + i is output i. Inputs and constants are read where they lie. What steps read and
//! write is made into slices here and nowhere else.
#![allow(unsafe_code)]

use super::arenas::Arena;
use super::needed::Needed;
use super::side_by_side::Group;
use super::step::{Memory, Operand, Step};
use super::{Compiled, Executable};
use crate::backend::Bindings;
use crate::backend::cpu::storage::{Contents, HostStorage};
use crate::backend::cpu::view::{View, ViewMut};
use crate::error::Result;
use crate::memory::Bytes;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// The inputs and outputs of a step.
pub type Operands<'a> = (SmallVec<[View<'a>; 4]>, SmallVec<[ViewMut<'a>; 1]>);

/// What a run holds until it ends: nobody else writes its inputs, and nobody else reads or writes its regions.
pub struct Regions<'a> {
    executable: &'a Executable,
    inputs: SmallVec<[RwLockReadGuard<'a, Contents>; 4]>,
    arena: Arena,
    _outputs: SmallVec<[RwLockWriteGuard<'a, Contents>; 2]>,
    _unwanted: SmallVec<[Bytes; 2]>,
    /// Where each region begins, in memory that the arena, the guards and the unwanted outputs own.
    starts: SmallVec<[*mut u8; 4]>,
}

impl<'a> Regions<'a> {
    /// # Errors
    /// `UnknownError` when there is no memory for the arena, `QuotaExceededError` where the context or the model may not hold it,
    /// `OperationError` when somebody else uses a tensor.
    pub fn new(executable: &'a Executable, bindings: &'a Bindings<HostStorage>, needed: Option<&Needed>) -> Result<Self> {
        let inputs = bindings.inputs.iter().map(|tensor| tensor.read()).collect::<Result<SmallVec<[_; 4]>>>()?;
        // They may still be on their way: what needs them waits.
        assert!(inputs.iter().map(|contents| contents.length()).eq(executable.input_lengths.iter().copied()));
        assert_eq!(bindings.outputs.len(), executable.output_lengths.len());
        let mut arena = executable.arenas.take(executable.arena_length, &executable.usage)?;
        let mut unwanted: SmallVec<[Bytes; 2]> = SmallVec::new();
        let mut outputs = SmallVec::<[_; 2]>::new();
        let mut starts: SmallVec<[*mut u8; 4]> = SmallVec::new();
        starts.push(arena.bytes.as_mut_ptr());
        for (position, (tensor, &length)) in bindings.outputs.iter().zip(&executable.output_lengths).enumerate() {
            if let Some(tensor) = tensor {
                let mut bytes = tensor.write()?;
                // No slice of it: inputs that are on their way there are others' to write (`Placement`).
                assert_eq!(bytes.length(), length);
                starts.push(bytes.as_mut_ptr());
                outputs.push(bytes);
            } else {
                // An output that nobody wants needs memory all the same where a step uses it.
                let is_used = needed.is_some_and(|needed| needed.outputs[position]);
                let mut bytes = Bytes::zeroed(if is_used { length } else { 0 })?;
                starts.push(bytes.as_mut_ptr());
                unwanted.push(bytes);
            }
        }
        Ok(Regions { executable, inputs, arena, _outputs: outputs, _unwanted: unwanted, starts })
    }

    /// The inputs and outputs of a step. Of a [table](super::tables) no row has been read.
    pub fn operands<'s>(&'s mut self, step: &'s Step) -> Operands<'s> {
        // SAFETY: it is borrowed until the step has ended.
        unsafe { self.operands_of(step) }
    }

    /// The same of all steps of a group.
    pub fn all_operands(&mut self, group: &Group) -> Vec<Operands<'_>> {
        let Regions { executable, .. } = *self;
        // SAFETY: it is borrowed until all of them have ended, and none writes what another one uses (`assert_groups_are_apart`).
        executable.steps[group.steps.clone()].iter().map(|step| unsafe { self.operands_of(step) }).collect()
    }

    /// # Safety
    /// Until the step has ended nobody else may use what it writes, or write what it reads.
    unsafe fn operands_of<'s>(&'s self, step: &'s Step) -> Operands<'s> {
        let Compiled { constants, is_table, placements, .. } = &**self.executable;
        let view = |(number, operand): (usize, &'s Operand)| {
            let bytes = match operand.memory {
                _ if step.overwritten == Some(number) => [].as_slice().into(),
                Memory::Input(position) => {
                    if placements[position].is_some() {
                        // The step writes around it.
                        self.inputs[position].wait();
                    }
                    self.inputs[position].incoming()
                }
                Memory::Constant(position) if is_table[position] => constants[position].unread().into(),
                Memory::Constant(position) => constants[position].as_slice().into(),
                Memory::Packed => [].as_slice().into(),
                // SAFETY: the range lies in its region, and no output of this step overlaps it (`assert_memory_is_sound`); the regions
                // are distinct memory that this run holds exclusively; of its other steps the caller says so.
                Memory::Written { region, offset } => unsafe {
                    std::slice::from_raw_parts(self.starts[region].add(offset), operand.length).into()
                },
            };
            View::of(operand.data_type, &operand.shape, bytes)
        };
        let views = step.inputs.iter().enumerate().map(view).collect();
        let written = |operand: &'s Operand| {
            let Memory::Written { region, offset } = operand.memory else { unreachable!("`assert_memory_is_sound`") };
            // SAFETY: as above; the outputs of a step do not overlap each other either.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.starts[region].add(offset), operand.length) };
            ViewMut { data_type: operand.data_type, shape: &operand.shape, bytes }
        };
        (views, step.outputs.iter().map(written).collect())
    }

    pub fn into_arena(self) -> Arena {
        self.arena
    }
}

impl Compiled {
    /// What [`Regions`] rely on: every written range lies in its region, and what a step writes overlaps nothing
    /// else that the step uses, unless it is what its kernel overwrites.
    pub fn assert_memory_is_sound(&self) {
        let length = |region: usize| if region == 0 { self.arena_length } else { self.output_lengths[region - 1] };
        for step in &self.steps {
            for operand in step.inputs.iter().chain(&step.outputs) {
                match operand.memory {
                    Memory::Input(position) => assert_eq!(self.input_lengths[position], operand.length),
                    Memory::Constant(position) => assert_eq!(self.constants[position].len(), operand.length),
                    Memory::Packed => {}
                    Memory::Written { region, offset } => assert!(offset + operand.length <= length(region)),
                }
            }
            let outputs: SmallVec<[_; 4]> =
                step.outputs.iter().map(|operand| operand.written().expect("outputs are written")).collect();
            let apart =
                |(a, x): &(usize, Range<usize>), (b, y): &(usize, Range<usize>)| a != b || x.end <= y.start || y.end <= x.start;
            for (i, output) in outputs.iter().enumerate() {
                assert!(outputs[..i].iter().all(|other| apart(output, other)));
                for (position, input) in step.inputs.iter().enumerate() {
                    let is_overwritten = step.overwritten == Some(position);
                    let fits = |input| if is_overwritten { *output == input } else { apart(output, &input) };
                    assert!(input.written().is_none_or(fits));
                }
            }
        }
    }
}
