//! A program on a device: dispatches with their pipelines, the constants on the device, and one arena.

use super::device::Device;
use super::storage::Storage;
use crate::backend::Bindings;
use crate::backend::wgpu::program::{Dispatch, Memory, Program, Shader, Slot};
use crate::error::{Error, Result};
use crate::memory::{Charge, Usage, Use};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;
use wgpu::{BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages};

/// A dispatch with what of it does not depend on the tensors of a run.
struct Prepared {
    pipeline: wgpu::ComputePipeline,
    bindings: Vec<Memory>,
    grid: [u32; 3],
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
    pub fn new(device: Arc<Device>, program: Program, usage: &Arc<Usage>, ask: &dyn Fn() -> Result<()>) -> Result<Self> {
        let Program { shaders, dispatches, constants, arena_length, output_lengths, steps } = program;
        let mut pipelines = vec![None; shaders.len()];
        for &Dispatch { step, shader, .. } in &dispatches {
            if pipelines[shader].is_none() {
                ask()?;
                let Shader { label, text } = &shaders[shader];
                let named = |error: Error| error.of(steps[step].operator, &steps[step].label);
                pipelines[shader] = Some(device.pipeline(label, text).map_err(named)?);
            }
        }
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
        device.graph_begins();
        let mut executable = Executable { device, dispatches: Vec::new(), constants, arena, output_lengths, _charges: charges };
        for Dispatch { shader, bindings, grid, .. } in dispatches {
            ask()?;
            let pipeline = pipelines[shader].clone().expect("all that are used are made");
            let mut prepared = Prepared { pipeline, bindings, grid, fixed: None };
            let own = |memory: &Memory| executable.own(memory.slot);
            let buffers: Option<Vec<&Buffer>> = prepared.bindings.iter().map(own).collect();
            if let Some(buffers) = buffers {
                prepared.fixed = Some(executable.device.checked(|| Ok(executable.bind(&prepared, &buffers)))?);
            }
            executable.dispatches.push(prepared);
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

    fn bind(&self, dispatch: &Prepared, buffers: &[&Buffer]) -> BindGroup {
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
            for dispatch in &self.dispatches {
                pass.set_pipeline(&dispatch.pipeline);
                if let Some(fixed) = &dispatch.fixed {
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
