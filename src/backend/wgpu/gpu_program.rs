//! What a graph becomes on a GPU, as data: shaders, what is run of them in which order on which memory, and constants. It is made by
//! [`lower`](super::lower::lower) and says nothing about what runs it.

use crate::compiler::{ALIGNMENT, Check, Place, Schedule, Value, ValueId};
use crate::error::{Error, Result};
use crate::graph::ops::check::Outside;
use crate::graph::{ConstantBytes, DataType};
use crate::host_memory::Placements;
use crate::watch::Description;
use std::sync::Arc;

#[derive(Debug)]
pub struct GpuProgram {
    /// Each text once.
    pub shaders: Vec<Shader>,
    /// In their order, each after the one before has finished.
    pub dispatches: Vec<Dispatch>,
    /// Those that no dispatch binds need not be uploaded.
    pub constants: Vec<ConstantBytes>,
    /// The numbers of shapes that shaders read, those of each dispatch at a multiple of [`SIZES_ALIGNMENT`].
    pub sizes: Vec<u8>,
    /// Bytes of the arena, whose contents are anything before a run.
    pub arena_length: usize,
    /// Bytes of each output.
    pub output_lengths: Vec<usize>,
    /// By input: the output that may begin with it from the start, in the memory of both ([`Dispatch::places`]).
    pub placements: Placements,
    /// What inputs must be for a run, where whoever runs it knows what they are.
    pub checks: Vec<InputCheck>,
    /// What dispatches look for in indices, and leave in [`Slot::Findings`].
    pub findings: Vec<Finding>,
    /// What dispatches belong to, for messages and profiles.
    pub steps: Vec<ProgramStep>,
}

impl GpuProgram {
    /// Bytes of what a device keeps for it: constants and the arena.
    pub fn device_bytes(&self) -> usize {
        self.constants.iter().map(|constant| constant.len()).sum::<usize>() + self.arena_length
    }

    /// The dispatches as numbers of 64 bits, as script has them: for each its step, shader, grid, what it places and what it looks at (0 for
    /// nothing, else the input's position and one) and number of bindings, and for each binding its buffer (0 an input, 1 an output,
    /// 2 a constant, 3 the arena, 4 the sizes, 5 the findings) and the position of that, offset and length.
    /// `lib/webgpu/executable.js` reads it.
    pub fn encode_dispatches(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        let mut add = |number: usize| encoded.extend((number as f64).to_le_bytes());
        for dispatch in &self.dispatches {
            let grid = dispatch.grid.map(|count| count as usize);
            let [places, looks_at] = [dispatch.places, dispatch.looks_at].map(|input| input.map_or(0, |input| input + 1));
            let rest = [places, looks_at, dispatch.bindings.len()];
            [dispatch.step, dispatch.shader].into_iter().chain(grid).chain(rest).for_each(&mut add);
            for &Memory { slot, offset, length } in &dispatch.bindings {
                let (kind, position) = match slot {
                    Slot::Input(position) => (0, position),
                    Slot::Output(position) => (1, position),
                    Slot::Constant(position) => (2, position),
                    Slot::Arena => (3, 0),
                    Slot::Sizes => (4, 0),
                    Slot::Findings => (5, 0),
                };
                [kind, position, offset, length].into_iter().for_each(&mut add);
            }
        }
        encoded
    }
}

/// Indices that are an input of the graph, and must lie within sizes.
#[derive(Debug)]
pub struct InputCheck {
    pub input: usize,
    pub of: Finding,
}

impl InputCheck {
    /// Those of a schedule.
    pub fn of(schedule: &Schedule) -> Vec<InputCheck> {
        let found = schedule.steps.iter().flat_map(|step| step.checks.iter().map(move |check| (step.inputs[check.input], check)));
        let of_input = |(id, check): (ValueId, &Check)| match &schedule.values[id.0] {
            Value { place: Place::Input(input), descriptor, .. } => {
                let of = Finding { data_type: descriptor.data_type, check: check.clone() };
                Some(InputCheck { input: *input, of })
            }
            _ => None,
        };
        found.filter_map(of_input).collect()
    }

    /// # Errors
    /// `OperationError` with the first index that is outside.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        let Finding { data_type, check: Check { op, shape, label, .. } } = &self.of;
        op.outside_in(*data_type, bytes).map_or(Ok(()), |outside| Err(outside.error(label, shape, op.from_end)))
    }
}

/// The first index that is outside of sizes, as dispatches find it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub data_type: DataType,
    pub check: Check,
}

impl Finding {
    /// Words that a finding takes: 0 where nothing was found, else all ones minus the position; and the index, the low word first.
    pub const WORDS: usize = 3;

    /// Where the finding of that number is.
    pub fn memory(number: usize) -> Memory {
        Memory { slot: Slot::Findings, offset: number * ALIGNMENT, length: Self::WORDS * 4 }
    }

    /// Bytes of so many.
    pub fn all(count: usize) -> usize {
        count * ALIGNMENT
    }

    /// The error of a run that has left these bytes.
    pub fn error(&self, bytes: &[u8]) -> Option<Error> {
        let [found, low, high] = [0, 4, 8].map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        if found == 0 {
            return None;
        }
        let position = (u32::MAX - found) as usize;
        let wide = u64::from(high) << 32 | u64::from(low);
        let index = match (self.data_type.bits() == 64, self.data_type.is_signed()) {
            (true, true) => i128::from(wide as i64),
            (true, false) => i128::from(wide),
            (false, true) => i128::from(low as i32),
            (false, false) => i128::from(low),
        };
        let Check { op, shape, label, .. } = &self.check;
        let size = op.sizes[position % op.sizes.len()];
        Some(Outside { position, index, size }.error(label, shape, op.from_end))
    }
}

/// Every device's alignment of uniform buffers divides this.
pub const SIZES_ALIGNMENT: usize = 256;

/// A WGSL module. Its entry point is `main`; memory number `i` of a dispatch is its binding `i` in group 0.
#[derive(Debug)]
pub struct Shader {
    pub label: &'static str,
    pub text: Arc<str>,
}

/// A shader that is run on some memory.
#[derive(Debug)]
pub struct Dispatch {
    /// The number of the step that it belongs to.
    pub step: usize,
    /// The number of its shader.
    pub shader: usize,
    pub bindings: Vec<Memory>,
    /// Workgroups.
    pub grid: [u32; 3],
    /// All that it does is to copy this input to its place in an output ([`GpuProgram::placements`]): where the input lies there already it
    /// is left out.
    pub places: Option<usize>,
    /// All that it does is to look at indices, which are this input: where they are known it is left out.
    pub looks_at: Option<usize>,
}

/// A step of the plan.
#[derive(Debug)]
pub struct ProgramStep {
    pub operator: &'static str,
    pub label: String,
    pub description: Description,
}

/// A part of a buffer, in bytes. Offsets are multiples of [`crate::compiler::ALIGNMENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub slot: Slot,
    pub offset: usize,
    pub length: usize,
}

/// Which buffer of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    Input(usize),
    Output(usize),
    Constant(usize),
    Arena,
    /// Of [`GpuProgram::sizes`], bound as a uniform buffer.
    Sizes,
    /// What a run finds ([`GpuProgram::findings`]), zeros before it.
    Findings,
}

impl From<Place> for Slot {
    fn from(place: Place) -> Slot {
        match place {
            Place::Input(position) => Slot::Input(position),
            Place::Output(position) => Slot::Output(position),
            Place::Constant(position) => Slot::Constant(position),
            Place::Arena(_) => Slot::Arena,
        }
    }
}
