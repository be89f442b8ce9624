//! A compiled graph: dispatches with their pipelines, the constants on the device, and one arena.

use super::device::Device;
use super::lower::{Lowering, lower};
use super::storage::Storage;
use crate::backend::Bindings;
use crate::compiler::{Place, Plan};
use crate::error::{Error, Kind, Result};
use crate::memory::{Charge, Usage, Use};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages};

/// Which buffer of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    Input(usize),
    Output(usize),
    Constant(usize),
    Arena,
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

/// A part of a buffer, in bytes. Offsets are multiples of [`crate::compiler::ALIGNMENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub slot: Slot,
    pub offset: usize,
    pub length: usize,
}

/// A pipeline that is run on some memory.
pub struct Dispatch {
    pub pipeline: wgpu::ComputePipeline,
    pub bindings: Vec<Memory>,
    pub grid: [u32; 3],
}

/// A dispatch with what of it does not depend on the tensors of a run.
struct Prepared {
    dispatch: Dispatch,
    /// The bind group if all its memory is the graph's own.
    fixed: Option<BindGroup>,
}

/// A graph that can be run. Runs follow each other on the device, so they share the arena.
pub struct Executable {
    device: Arc<Device>,
    dispatches: Vec<Prepared>,
    constants: Vec<Option<Buffer>>,
    arena: Buffer,
    output_lengths: Vec<usize>,
    _charges: [Charge; 2],
}

impl Executable {
    /// # Errors
    /// `UnknownError` when the device has not the memory, `OperationError` when it refuses something else; those of `ask`, which
    /// is asked before each pipeline is made.
    pub fn new(device: Arc<Device>, plan: Plan, usage: &Arc<Usage>, ask: &dyn Fn() -> Result<()>) -> Result<Self> {
        let mut lowering = Lowering::new(&device, &plan);
        for step in &plan.steps {
            ask()?;
            lower(&mut lowering, &plan, step).map_err(|error| error.of(step.op.row().name, &step.label))?;
        }
        let (dispatches, constants, arena_length) = lowering.finish();
        let mut used = vec![false; constants.len()];
        for memory in dispatches.iter().flat_map(|dispatch| &dispatch.bindings) {
            if let Slot::Constant(position) = memory.slot {
                used[position] = true;
            }
        }
        let constants = constants
            .iter()
            .zip(&used)
            .map(|(bytes, used)| used.then(|| upload(&device, bytes.as_slice())).transpose())
            .collect::<Result<Vec<_>>>()?;
        let arena = device.buffer(arena_length, BufferUsages::STORAGE)?;
        let constant_length = constants.iter().flatten().map(|buffer| buffer.size() as usize).sum();
        let charges = [usage.charge(Use::Graphs, constant_length), usage.charge(Use::Scratch, arena_length)];
        let output_lengths = plan.outputs.iter().map(|(_, descriptor)| descriptor.byte_length()).collect();
        device.graph_begins();
        let mut executable = Executable { device, dispatches: Vec::new(), constants, arena, output_lengths, _charges: charges };
        for dispatch in dispatches {
            ask()?;
            let own = |memory: &Memory| executable.own(memory.slot);
            let buffers: Option<Vec<&Buffer>> = dispatch.bindings.iter().map(own).collect();
            let fixed = match buffers {
                Some(buffers) => Some(executable.device.checked(|| Ok(executable.bind(&dispatch, &buffers)))?),
                None => None,
            };
            executable.dispatches.push(Prepared { dispatch, fixed });
        }
        Ok(executable)
    }

    /// The graph's own buffer for a slot.
    fn own(&self, slot: Slot) -> Option<&Buffer> {
        match slot {
            Slot::Arena => Some(&self.arena),
            Slot::Constant(position) => Some(self.constants[position].as_ref().expect("constants in use are uploaded")),
            Slot::Input(_) | Slot::Output(_) => None,
        }
    }

    fn bind(&self, dispatch: &Dispatch, buffers: &[&Buffer]) -> BindGroup {
        let entries: SmallVec<[BindGroupEntry<'_>; 8]> = dispatch
            .bindings
            .iter()
            .zip(buffers)
            .enumerate()
            .map(|(number, (memory, buffer))| BindGroupEntry {
                binding: number as u32,
                resource: BindingResource::Buffer(BufferBinding {
                    buffer,
                    offset: memory.offset as u64,
                    size: std::num::NonZero::new((memory.length.max(1) as u64).next_multiple_of(4)),
                }),
            })
            .collect();
        let layout = dispatch.pipeline.get_bind_group_layout(0);
        self.device.device.create_bind_group(&BindGroupDescriptor { label: None, layout: &layout, entries: &entries })
    }

    /// The commands of a run.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for outputs that nobody wants.
    pub fn record(&self, bindings: &Bindings<Storage>) -> Result<wgpu::CommandBuffer> {
        let mut outputs: SmallVec<[Cow<'_, Buffer>; 2]> = SmallVec::new();
        for (tensor, &length) in bindings.outputs.iter().zip(&self.output_lengths) {
            outputs.push(match tensor {
                Some(tensor) => Cow::Borrowed(&tensor.buffer),
                // Later steps may read it all the same.
                None => Cow::Owned(self.device.buffer(length, BufferUsages::STORAGE)?),
            });
        }
        let mut encoder = self.device.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for Prepared { dispatch, fixed } in &self.dispatches {
                pass.set_pipeline(&dispatch.pipeline);
                if let Some(fixed) = fixed {
                    pass.set_bind_group(0, fixed, &[]);
                } else {
                    let buffers: SmallVec<[&Buffer; 8]> = dispatch
                        .bindings
                        .iter()
                        .map(|memory| match memory.slot {
                            Slot::Input(position) => &bindings.inputs[position].buffer,
                            Slot::Output(position) => &*outputs[position],
                            own => self.own(own).expect("the others are the graph's own"),
                        })
                        .collect();
                    pass.set_bind_group(0, &self.bind(dispatch, &buffers), &[]);
                }
                let [x, y, z] = dispatch.grid;
                pass.dispatch_workgroups(x, y, z);
            }
        }
        Ok(encoder.finish())
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.device.graph_ends();
    }
}

/// A constant's buffer.
fn upload(device: &Device, bytes: &[u8]) -> Result<Buffer> {
    let buffer = device.buffer(bytes.len(), BufferUsages::STORAGE | BufferUsages::COPY_DST)?;
    device.checked(|| {
        let (whole, rest) = bytes.split_at(bytes.len() & !3);
        if !whole.is_empty() {
            device.queue.write_buffer(&buffer, 0, whole);
        }
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            device.queue.write_buffer(&buffer, whole.len() as u64, &word);
        }
        Ok(())
    })?;
    Ok(buffer)
}

/// Bindings that a kernel may have at most. Beyond some dozens more are of no use.
pub fn most_bindings(device: &Device) -> usize {
    (device.limits.max_storage_buffers_per_shader_stage as usize).min(64)
}

/// How much of a tensor of so many bytes is bound at once: all of it, or parts of a size that makes the part of an element
/// quick to find. Every device's alignment of bindings divides it.
pub fn binding_length(device: &Device, length: usize) -> usize {
    let most = usize::try_from(device.limits.max_storage_buffer_binding_size).unwrap_or(usize::MAX);
    if length <= most { length.max(1) } else { 1 << most.ilog2() }
}

/// The largest tensor of which a kernel can bind two: one that is read, and one that is written.
pub fn largest_tensor(device: &Device) -> usize {
    let part = usize::try_from(device.limits.max_storage_buffer_binding_size).unwrap_or(usize::MAX);
    let whole = part.max((most_bindings(device) / 2).saturating_mul(1 << part.ilog2()));
    whole.min(usize::try_from(device.limits.max_buffer_size).unwrap_or(usize::MAX))
}

/// Whether a kernel can have so many bindings.
pub fn check_bindings(device: &Device, count: usize) -> Result<()> {
    let most = most_bindings(device);
    if count > most {
        let length = device.limits.max_storage_buffer_binding_size;
        let message = format!(
            "its tensors are {count} parts of at most {length} bytes (maxStorageBufferBindingSize); \
             this device takes at most {most} at once (maxStorageBuffersPerShaderStage)"
        );
        return Err(Error::new(Kind::Operation, message));
    }
    Ok(())
}
