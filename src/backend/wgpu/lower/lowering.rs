//! A program under construction: tensors, temporary memory, constants, and the dispatches so far.

use crate::backend::wgpu::gpu_program::{
    Dispatch, Finding, GpuProgram, InputCheck, Memory, ProgramStep, SIZES_ALIGNMENT, Shader, Slot,
};
use crate::backend::wgpu::shader::{Layout, Scalar, complete, literal, uniform};
use crate::backend::wgpu::target::{Features, Target};
use crate::compiler::{Check, Place, Schedule, Value, ValueId};
use crate::error::{Error, Kind, Result};
use crate::graph::{ConstantBytes, DataType, Op, OperandId};
use crate::host_memory::{Placement, Placements};
use crate::memory::Runs;
use crate::watch::Description;
use std::collections::{HashMap, HashSet};

/// A tensor as kernels see it: dense, in row-major order.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub data_type: DataType,
    pub shape: Vec<usize>,
    pub memory: Memory,
}

impl Tensor {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn scalar(&self) -> Scalar {
        Scalar::of(self.data_type)
    }
}

/// The dispatches of a graph so far.
pub struct Lowering<'a> {
    pub target: &'a Target,
    constants: Vec<ConstantBytes>,
    /// What steps read.
    read: HashSet<(Slot, usize)>,
    shaders: Vec<Shader>,
    /// Whether shapes are not in the text of shaders: those of a model whose inputs change their shapes. Others have literals, since
    /// divisions by what a shader reads are slower: two layers of MiniLM at 64 tokens took 14 to 16 % more time of the CPU on SwiftShader
    /// and llvmpipe. A new length took 30 ms beyond its run on SwiftShader, and with literals 470 (two cores of an EPYC).
    pub is_open: bool,
    /// The numbers of shaders by their text, without the prelude.
    numbers: HashMap<String, usize>,
    dispatches: Vec<Dispatch>,
    /// The numbers of shapes, and where some of them are already.
    sizes: Vec<u8>,
    places: HashMap<Vec<u32>, Memory>,
    steps: Vec<ProgramStep>,
    /// By output: whether the schedule has one value there only.
    is_one_value: Vec<bool>,
    placements: Placements,
    checks: Vec<InputCheck>,
    /// With what each was found in.
    findings: Vec<(ValueId, Finding)>,
    /// What the next dispatch places, or looks at.
    placing: Option<usize>,
    looking: Option<usize>,
    /// The schedule's arena, and after it what a step needs for itself.
    arena_length: usize,
    temporary: usize,
    longest: usize,
}

/// One step that is being lowered.
pub struct Operands {
    pub inputs: Vec<Tensor>,
    pub outputs: Vec<Tensor>,
    /// What is done to the output afterwards.
    pub fused: Vec<Op>,
}

impl Operands {
    pub fn input(&self, id: OperandId) -> &Tensor {
        &self.inputs[id.0 as usize]
    }

    pub fn optional(&self, id: Option<OperandId>) -> Option<&Tensor> {
        id.map(|id| self.input(id))
    }

    pub fn output(&self) -> &Tensor {
        &self.outputs[0]
    }

    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.inputs.iter().chain(&self.outputs)
    }
}

impl<'a> Lowering<'a> {
    pub fn new(target: &'a Target, schedule: &Schedule) -> Self {
        let arena_length = schedule.arena_length.next_multiple_of(crate::compiler::ALIGNMENT);
        let constants = schedule.constants.clone();
        let read = schedule.steps.iter().flat_map(|step| &step.inputs);
        let read = read.map(|id| memory(&schedule.values[id.0])).map(|memory| (memory.slot, memory.offset)).collect();
        let values_in = |output| schedule.values.iter().filter(|value| value.place == Place::Output(output)).count();
        Lowering {
            target,
            constants,
            read,
            shaders: Vec::new(),
            is_open: target.opens_shapes.unwrap_or(schedule.shared.is_of_several()),
            numbers: HashMap::new(),
            dispatches: Vec::new(),
            sizes: Vec::new(),
            places: HashMap::new(),
            steps: Vec::new(),
            is_one_value: (0..schedule.outputs.len()).map(|output| values_in(output) == 1).collect(),
            placements: vec![None; schedule.inputs.len()],
            checks: InputCheck::of(schedule),
            findings: Vec::new(),
            placing: None,
            looking: None,
            arena_length,
            temporary: 0,
            longest: 0,
        }
    }

    pub fn features(&self) -> Features {
        self.target.features
    }

    /// What follows belongs to a step of that operator: the temporary memory of the one before is free again.
    pub fn begin_step(&mut self, operator: &'static str, label: &str, description: Description) {
        self.temporary = 0;
        self.steps.push(ProgramStep { operator, label: label.to_owned(), description });
    }

    pub fn finish(self, output_lengths: Vec<usize>) -> GpuProgram {
        let Lowering {
            shaders,
            dispatches,
            constants,
            sizes,
            mut steps,
            mut placements,
            checks,
            findings,
            arena_length,
            longest,
            ..
        } = self;
        // WebGPU does not let one dispatch read and write a buffer by different bindings, so where another one has both these are two.
        for dispatch in dispatches.iter().filter(|dispatch| dispatch.places.is_none()) {
            for &Memory { slot, .. } in &dispatch.bindings {
                if let Slot::Input(input) = slot
                    && let Some(placement) = placements[input]
                    && dispatch.bindings.iter().any(|memory| memory.slot == Slot::Output(placement.output))
                {
                    placements[input] = None;
                }
            }
        }
        implementations(&mut steps, &dispatches, &shaders);
        GpuProgram {
            shaders,
            dispatches,
            constants,
            sizes,
            arena_length: arena_length + longest,
            output_lengths,
            placements,
            checks,
            findings: findings.into_iter().map(|(_, finding)| finding).collect(),
            steps,
        }
    }

    /// What is dispatched next copies an input to the beginning of an output, where it may lie already.
    pub fn places(&mut self, input: usize, output: usize, length: usize) {
        let runs = Runs { run: length, stride: length };
        self.placements[input] = Some(Placement { output, first: 0, runs });
        self.placing = Some(input);
    }

    /// The input and the output that a tensor is and another can begin with: an input that has no such place yet, and an output in whose
    /// memory nothing else is before or after.
    pub fn can_place(&self, tensor: &Tensor, output: &Tensor) -> Option<(usize, usize)> {
        match (tensor.memory.slot, output.memory.slot) {
            (Slot::Input(input), Slot::Output(output_number))
                if self.placements[input].is_none() && self.is_one_value[output_number] =>
            {
                Some((input, output_number))
            }
            _ => None,
        }
    }

    /// Runs a kernel on some memory. Its text has marks where numbers come from shapes, and lacks the prelude.
    pub fn dispatch(&mut self, label: &'static str, text: &str, mut bindings: Vec<Memory>, grid: [u32; 3]) {
        let text = if self.is_open {
            let (text, sizes) = uniform(text, bindings.len());
            bindings.extend(self.sizes(sizes));
            text
        } else {
            literal(text)
        };
        let shader = self.numbers.get(&text).copied().unwrap_or_else(|| {
            self.shaders.push(Shader { label, text: complete(self.target.features, &text).into() });
            self.numbers.insert(text, self.shaders.len() - 1);
            self.shaders.len() - 1
        });
        let step = self.steps.len().saturating_sub(1);
        let (places, looks_at) = (self.placing.take(), self.looking.take());
        self.dispatches.push(Dispatch { step, shader, bindings, grid, places, looks_at });
    }

    /// Where the numbers of a kernel's shapes are; equal layers have the same.
    fn sizes(&mut self, sizes: Vec<u32>) -> Option<Memory> {
        if sizes.is_empty() {
            return None;
        }
        let all = &mut self.sizes;
        let memory = self.places.entry(sizes).or_insert_with_key(|sizes| {
            all.resize(all.len().next_multiple_of(SIZES_ALIGNMENT), 0);
            let offset = all.len();
            all.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            Memory { slot: Slot::Sizes, offset, length: all.len() - offset }
        });
        Some(*memory)
    }

    /// What is dispatched next looks at indices that are this input, if they are one.
    pub fn looks_at(&mut self, indices: &Tensor) {
        self.looking = if let Slot::Input(input) = indices.memory.slot { Some(input) } else { None };
    }

    /// Where a step leaves the first index that is outside, unless another step has looked before.
    pub fn finding(&mut self, id: ValueId, data_type: DataType, check: &Check) -> Option<Tensor> {
        let is_same = |(other, finding): &(ValueId, Finding)| {
            *other == id && (&finding.check.op.sizes, finding.check.op.from_end) == (&check.op.sizes, check.op.from_end)
        };
        if self.findings.iter().any(is_same) {
            return None;
        }
        let memory = Finding::memory(self.findings.len());
        self.findings.push((id, Finding { data_type, check: check.clone() }));
        Some(Tensor { data_type: DataType::Uint32, shape: vec![Finding::WORDS], memory })
    }

    /// Memory for a tensor that only this step uses.
    pub fn temporary(&mut self, data_type: DataType, shape: &[usize]) -> Result<Tensor> {
        let count = shape.iter().product();
        let fail = || Error::new(Kind::Operation, format!("{count} values between its kernels are too many"));
        let length = data_type.byte_length(count).ok_or_else(fail)?;
        let memory = Memory { slot: Slot::Arena, offset: self.arena_length + self.temporary, length };
        self.temporary += length.next_multiple_of(crate::compiler::ALIGNMENT);
        self.longest = self.longest.max(self.temporary);
        Ok(Tensor { data_type, shape: shape.to_vec(), memory })
    }

    /// A constant that is made here, such as weights in another order.
    pub fn constant(&mut self, data_type: DataType, shape: &[usize], bytes: Vec<u8>) -> Tensor {
        let memory = Memory { slot: Slot::Constant(self.constants.len()), offset: 0, length: bytes.len() };
        self.constants.push(ConstantBytes::new(bytes));
        Tensor { data_type, shape: shape.to_vec(), memory }
    }

    /// Whether anybody wants a step's output.
    pub fn is_read(&self, tensor: &Tensor) -> bool {
        matches!(tensor.memory.slot, Slot::Output(_)) || self.read.contains(&(tensor.memory.slot, tensor.memory.offset))
    }

    pub fn layout(&self, tensor: &Tensor) -> Layout {
        Layout::of(tensor.data_type, self.target.features)
    }

    /// Bindings that a tensor takes.
    pub fn bindings(&self, tensor: &Tensor) -> usize {
        tensor.memory.length.div_ceil(self.target.binding_length(tensor.memory.length)).max(1)
    }
}

/// Names of each step the shader that most workgroups compute.
fn implementations(steps: &mut [ProgramStep], dispatches: &[Dispatch], shaders: &[Shader]) {
    let mut most = vec![0; steps.len()];
    for dispatch in dispatches {
        let workgroups = dispatch.grid.iter().map(|&count| u64::from(count)).product::<u64>();
        if workgroups > most[dispatch.step] {
            most[dispatch.step] = workgroups;
            steps[dispatch.step].description.implementation = shaders[dispatch.shader].label.into();
        }
    }
}

fn memory(value: &Value) -> Memory {
    let offset = if let Place::Arena(offset) = value.place { offset } else { 0 };
    Memory { slot: value.place.into(), offset, length: value.descriptor.byte_length() }
}

/// The tensor of a value of the schedule.
pub fn tensor(value: &Value) -> Tensor {
    let memory = memory(value);
    let shape = value.descriptor.shape.iter().map(|&size| size as usize).collect();
    Tensor { data_type: value.descriptor.data_type, shape, memory }
}
