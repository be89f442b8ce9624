//! Steps of an executable and their operands.

use super::followers::Follower;
use crate::backend::cpu::aligned::is_aligned_for;
use crate::backend::cpu::cost;
use crate::backend::cpu::dispatch::{Target, workspaces};
use crate::backend::cpu::kernels::{Kernel, Workspaces};
use crate::backend::cpu::reference;
use crate::compiler::{Check, Place, Schedule, Value, ValueId, after_inputs, bytes_moved, describe, multiplications};
use crate::graph::{ConstantBytes, DataType, Op};
use crate::watch::Description;
use smallvec::SmallVec;
use std::mem::take;
use std::ops::Range;

#[derive(Debug)]
pub struct Step {
    /// See [`crate::compiler::Step::prologue`].
    pub prologue: Vec<Op>,
    /// See [`crate::compiler::Step::dequantized`].
    pub dequantized: Vec<Op>,
    pub op: Op,
    /// The name of what computes it (see [`Choice::name`]).
    pub implementation: &'static str,
    /// The kernel that was made for it; without one the reference kernel runs.
    pub kernel: Option<Box<dyn Kernel>>,
    /// Multiplications that the kernel takes as long as, where these are not those that the operator asks for.
    pub taken: Option<usize>,
    /// The names of what is fused, for people: kernels take the operators.
    pub fused_names: Box<[&'static str]>,
    /// What is done to the output afterwards; moved to `followers` once it is known that the kernel does not do it. The output
    /// as it was before stands after the inputs.
    pub fused: Vec<Op>,
    pub followers: Vec<Follower>,
    pub label: String,
    pub inputs: Box<[Operand]>,
    pub outputs: Box<[Operand]>,
    /// The input that lies where the output does, of a kernel that [overwrites](Kernel::overwrites) it.
    pub overwritten: Option<usize>,
    /// See [`crate::compiler::Step::order`].
    pub order: Option<Vec<u32>>,
    /// See [`crate::compiler::Step::checks`].
    pub checks: Vec<Check>,
}

/// A tensor of a step.
#[derive(Debug)]
pub struct Operand {
    pub data_type: DataType,
    pub shape: SmallVec<[usize; 4]>,
    pub value: ValueId,
    pub memory: Memory,
    pub length: usize,
    /// See [`Value::order`].
    pub order: Option<Vec<u32>>,
}

/// Where an operand's bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    Input(usize),
    Constant(usize),
    /// A constant that the step's kernel has packed for itself.
    Packed,
    /// Memory that the run writes: region 0 is the arena, region 1 + i is output i.
    Written {
        region: usize,
        offset: usize,
    },
}

impl From<Place> for Memory {
    fn from(place: Place) -> Memory {
        match place {
            Place::Input(position) => Memory::Input(position),
            Place::Constant(position) => Memory::Constant(position),
            Place::Arena(offset) => Memory::Written { region: 0, offset },
            Place::Output(position) => Memory::Written { region: 1 + position, offset: 0 },
        }
    }
}

impl Operand {
    pub fn new(id: ValueId, value: &Value) -> Self {
        Operand {
            value: id,
            data_type: value.descriptor.data_type,
            shape: value.descriptor.shape.iter().map(|&size| size as usize).collect(),
            memory: value.place.into(),
            length: value.descriptor.byte_length(),
            order: value.order.clone(),
        }
    }

    /// Region and bytes of an operand that the run writes.
    pub fn written(&self) -> Option<(usize, Range<usize>)> {
        match self.memory {
            Memory::Written { region, offset } => Some((region, offset..offset + self.length)),
            _ => None,
        }
    }
}

pub fn shapes(operands: &[Operand]) -> SmallVec<[&[usize]; 4]> {
    operands.iter().map(|operand| operand.shape.as_slice()).collect()
}

impl Step {
    /// The constants and steps of a schedule, without kernels.
    pub fn of_schedule(schedule: &mut Schedule) -> (Vec<ConstantBytes>, Vec<Step>) {
        let (constants, steps) = (take(&mut schedule.constants), take(&mut schedule.steps));
        let operand = |id: &ValueId| Operand::new(*id, &schedule.values[id.0]);
        let step = |step: crate::compiler::Step| Step {
            prologue: step.prologue,
            dequantized: step.dequantized,
            op: step.op,
            implementation: "",
            kernel: None,
            taken: None,
            fused_names: step.fused.iter().map(|op| op.row().name).collect(),
            fused: after_inputs(step.fused, step.inputs.len()),
            followers: Vec::new(),
            label: step.label,
            inputs: step.inputs.iter().map(operand).collect(),
            outputs: step.outputs.iter().map(operand).collect(),
            overwritten: None,
            order: step.order,
            checks: step.checks,
        };
        (constants, steps.into_iter().map(step).collect())
    }

    /// Whether what computes it finds indices that are outside, so that nobody has to read them before.
    pub fn checks_itself(&self) -> bool {
        let [check] = &self.checks[..] else { return false };
        self.kernel.is_none() && reference::checks(&self.op, &check.op, check.input, &self.inputs[0].shape)
    }

    /// See [`workspaces`].
    pub fn workspaces(&self, target: &Target) -> Workspaces {
        let is_float = self.dequantized.is_empty() && self.outputs[0].data_type == DataType::Float32;
        let is_known =
            matches!(&self.op, Op::Conv2d(op) if matches!(self.inputs[op.filter.0 as usize].memory, Memory::Constant(_)));
        if is_float && is_known && self.prologue.is_empty() {
            workspaces(&self.op, &shapes(&self.inputs), &self.outputs[0].shape, target)
        } else {
            Workspaces::new()
        }
    }

    /// A constant operand that kernels may look at when they are built. None looks at the table of a gather, which may be large.
    pub fn looked_at<'a>(&self, operand: &Operand, constants: &'a [ConstantBytes]) -> Option<&'a ConstantBytes> {
        match operand.memory {
            Memory::Constant(position) if !matches!(self.op, Op::Gather(_)) => Some(&constants[position]),
            _ => None,
        }
    }

    /// Whether a kernel can be built from a constant where it lies: it is aligned, as what is computed is, or its bytes are looked at
    /// one by one.
    pub fn packs_from_anywhere(&self, input: usize, operand: &Operand, constant: &ConstantBytes) -> bool {
        let by_bytes = match &self.op {
            Op::BlockQuantizedMatmul(op) => {
                let mut packed = [op.weights, op.scales].into_iter().chain(op.zero_points);
                packed.any(|id| id.0 as usize == input)
            }
            _ => false,
        };
        by_bytes || constant.key().is_some() || is_aligned_for(operand.data_type, constant.place())
    }

    /// How many nanoseconds it takes on one thread, or so.
    pub fn estimate(&self) -> usize {
        let (inputs, outputs) = (shapes(&self.inputs), shapes(&self.outputs));
        let directly = |kernel: &dyn Kernel| multiplications(&self.op, &inputs, &outputs) / kernel.speed();
        let taken = self.kernel.as_deref().map(|kernel| self.taken.unwrap_or_else(|| directly(kernel)));
        cost::nanoseconds(&self.op, taken, &inputs, &outputs)
    }

    /// The bytes that describe it, about.
    pub fn plan_bytes(&self) -> usize {
        let operands = self.inputs.len() + self.outputs.len();
        let ops = self.prologue.len() + self.dequantized.len() + self.fused.len();
        let kernel = self.kernel.as_ref().map_or(0, |kernel| size_of_val(&**kernel));
        size_of::<Step>()
            + operands * size_of::<Operand>()
            + ops * size_of::<Op>()
            + size_of_val(&*self.fused_names)
            + self.followers.len() * size_of::<Follower>()
            + self.label.len()
            + kernel
    }

    /// What a profile says of it.
    pub fn profiled(&self) -> Description {
        let before = self.prologue.iter().map(|op| cost::multiplications_before(op, &shapes(&self.inputs)));
        let (inputs, outputs) = (shapes(&self.inputs), shapes(&self.outputs));
        let lengths = |operands: &[Operand]| operands.iter().map(|operand| operand.length).collect::<SmallVec<[usize; 4]>>();
        Description {
            text: self.describe(),
            implementation: self.implementation.into(),
            multiplications: before.fold(multiplications(&self.op, &inputs, &outputs), usize::saturating_add),
            bytes: bytes_moved(&self.op, &lengths(&self.inputs), &lengths(&self.outputs)),
            data_type: self.inputs.first().map_or("", |operand| operand.data_type.name()).into(),
            sources: Vec::new(),
        }
    }

    /// Operators, shapes and the label, for people.
    pub fn describe(&self) -> String {
        let before = self.prologue.iter().chain(&self.dequantized).chain([&self.op]).map(|op| op.row().name);
        let operators = before.chain(self.fused_names.iter().copied());
        let [inputs, outputs] =
            [&self.inputs[..], &self.outputs[..]].map(|list| list.iter().map(|operand| operand.shape.as_slice()));
        let text = describe(operators, inputs, outputs);
        if self.label.is_empty() { text } else { format!("{text} \"{}\"", self.label) }
    }
}
