//! A program on a device: dispatches with their pipelines, the constants on the device, and one arena.

use super::bound::BindGroups;
use super::constants::Constant;
use super::device::Device;
use super::findings::Findings;
use super::jobs::Recorded;
use super::storage::{DeviceStorage, resource};
use super::timestamps::Queries;
use crate::backend::Bindings;
use crate::backend::wgpu::gpu_program::{Dispatch, Finding, GpuProgram, InputCheck, Memory, ProgramStep, Shader, Slot};
use crate::error::{Error, Result};
use crate::graph::Shared;
use crate::host_memory::{Placement, Placements};
use crate::memory::{Charge, Usage, Use};
use crate::watch::Watch;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferUsages, ComputePass, ComputePassDescriptor,
};

/// A dispatch with what of it does not depend on the tensors of a run.
struct Prepared {
    step: usize,
    pipeline: wgpu::ComputePipeline,
    bindings: Vec<Memory>,
    grid: [u32; 3],
    places: Option<usize>,
    looks_at: Option<usize>,
    /// The bind group if all its memory is the graph's own.
    fixed: Option<BindGroup>,
}

/// A graph that can be run. Runs follow each other on the device, so they share the arena.
pub struct Executable {
    device: Arc<Device>,
    dispatches: Vec<Prepared>,
    constants: Vec<Option<Constant>>,
    arena: Arc<Counted>,
    sizes: Option<Counted>,
    output_lengths: Vec<usize>,
    placements: Placements,
    checks: Vec<InputCheck>,
    findings: Arc<[Finding]>,
    steps: Arc<[ProgramStep]>,
    bound: Arc<BindGroups>,
    /// See [`Backend::plan_bytes`](crate::backend::Backend::plan_bytes).
    pub plan_bytes: usize,
    _plan_charge: Charge,
    /// After the pipelines, so that they are let go before.
    _counted: Begun,
}

/// How the indices of a run are looked at.
pub struct Look {
    /// What the device will find, where it has to look.
    pub findings: Option<Arc<Findings>>,
    /// Inputs that the host has written: they are within.
    known: SmallVec<[usize; 2]>,
}

/// What a run is recorded with.
struct Run<'a> {
    inputs: &'a [Arc<DeviceStorage>],
    outputs: SmallVec<[Arc<DeviceStorage>; 2]>,
    found: Option<Buffer>,
    known: &'a [usize],
}

impl Run<'_> {
    /// The memory of a slot that is the run's.
    fn storage(&self, slot: Slot) -> Option<&DeviceStorage> {
        match slot {
            Slot::Input(position) => Some(&self.inputs[position]),
            Slot::Output(position) => Some(&self.outputs[position]),
            _ => None,
        }
    }
}

/// A graph among those of a device.
struct Begun(Arc<Device>);

impl Begun {
    fn new(device: &Arc<Device>) -> Self {
        device.graph_begins();
        Self(device.clone())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.graph_ends();
    }
}

/// A buffer, counted once however many graphs use it.
#[derive(Debug)]
struct Counted {
    buffer: Buffer,
    _charge: Charge,
}

/// What the graphs of one model share: an arena, since their runs follow each other on the device too. It is the largest.
#[derive(Debug, Default)]
struct OfModel(Mutex<Weak<Counted>>);

impl OfModel {
    /// An arena of at least so many bytes.
    fn arena(&self, device: &Device, length: usize, usage: &Arc<Usage>) -> Result<Arc<Counted>> {
        let mut largest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = largest.upgrade().filter(|found| found.buffer.size() >= length as u64) {
            return Ok(found);
        }
        let charge = usage.reserve(Use::Scratch, length)?;
        let buffer = device.buffer(length, BufferUsages::STORAGE)?;
        let counted = Arc::new(Counted { buffer, _charge: charge });
        *largest = Arc::downgrade(&counted);
        Ok(counted)
    }
}

impl Executable {
    /// # Errors
    /// `UnknownError` when the device has not the memory, `OperationError` when it refuses something else; those of `ask`, which
    /// is asked before each pipeline is made.
    pub fn new(
        device: Arc<Device>,
        program: GpuProgram,
        shared: &Shared,
        usage: &Arc<Usage>,
        ask: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        let GpuProgram {
            shaders,
            dispatches,
            constants,
            sizes,
            arena_length,
            output_lengths,
            placements,
            checks,
            findings,
            steps,
        } = program;
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
        let uploaded = |constant| device.constants.get(constant, usage, |bytes| upload(&device, bytes, BufferUsages::STORAGE));
        let constants = constants.iter().zip(&used).map(|(constant, used)| used.then(|| uploaded(constant)).transpose());
        let constants = constants.collect::<Result<Vec<_>>>()?;
        let arena = shared.of::<OfModel>().arena(&device, arena_length, usage)?;
        let sizes = match sizes.is_empty() {
            true => None,
            false => {
                let charge = usage.reserve(Use::Packed, sizes.len())?;
                Some(Counted { buffer: upload(&device, &sizes, BufferUsages::UNIFORM)?, _charge: charge })
            }
        };
        let plan_bytes = described(&dispatches);
        let _plan_charge = usage.reserve(Use::Plans, plan_bytes)?;
        let _counted = Begun::new(&device);
        let wanted = dispatches;
        let dispatches = Vec::new();
        let mut executable = Executable {
            device,
            dispatches,
            constants,
            arena,
            sizes,
            output_lengths,
            placements,
            checks,
            findings: findings.into(),
            steps: steps.into(),
            bound: Arc::default(),
            plan_bytes,
            _plan_charge,
            _counted,
        };
        for Dispatch { step, shader, bindings, grid, places, looks_at } in wanted {
            ask()?;
            let pipeline = pipelines[shader].clone().expect("all that are used are made");
            let mut prepared = Prepared { step, pipeline, bindings, grid, places, looks_at, fixed: None };
            let own = |memory: &Memory| Some(resource(executable.own(memory.slot)?, 0, memory));
            let resources: Option<Vec<BindingResource<'_>>> = prepared.bindings.iter().map(own).collect();
            if let Some(resources) = resources {
                prepared.fixed = Some(executable.device.checked(|| Ok(executable.bind(&prepared, resources)))?);
            }
            executable.dispatches.push(prepared);
        }
        Ok(executable)
    }

    /// The graph's own buffer for a slot.
    fn own(&self, slot: Slot) -> Option<&Buffer> {
        match slot {
            Slot::Arena => Some(&self.arena.buffer),
            Slot::Sizes => self.sizes.as_ref().map(|sizes| &sizes.buffer),
            Slot::Constant(position) => {
                let constant = self.constants[position].as_ref();
                Some(constant.expect("constants in use are uploaded").buffer())
            }
            Slot::Input(_) | Slot::Output(_) | Slot::Findings => None,
        }
    }

    /// See [`GpuProgram::placements`].
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// Looks at indices that the host has written. Others are the device's to look at: gives what it will find.
    ///
    /// # Errors
    /// `OperationError` with the first that is outside.
    pub fn check(&self, inputs: &[Arc<DeviceStorage>]) -> Result<Look> {
        let mut known: SmallVec<[usize; 2]> = SmallVec::new();
        for check in &self.checks {
            if let Some(checked) = inputs[check.input].with_known(|bytes| check.check(bytes)) {
                checked?;
                known.push(check.input);
            }
        }
        let is_left = |dispatch: &Prepared| {
            let finds = dispatch.bindings.iter().any(|memory| memory.slot == Slot::Findings);
            finds && !dispatch.looks_at.is_some_and(|input| known.contains(&input))
        };
        let has_left = !self.findings.is_empty() && self.dispatches.iter().any(is_left);
        Ok(Look { findings: has_left.then(|| Findings::new(&self.findings)), known })
    }

    fn bind<'a>(&self, dispatch: &Prepared, resources: impl IntoIterator<Item = BindingResource<'a>>) -> BindGroup {
        let entry = |(number, resource)| BindGroupEntry { binding: number as u32, resource };
        let entries: SmallVec<[BindGroupEntry<'_>; 8]> = resources.into_iter().enumerate().map(entry).collect();
        let layout = dispatch.pipeline.get_bind_group_layout(0);
        self.device.counts.bind_group();
        self.device.device.create_bind_group(&BindGroupDescriptor { label: None, layout: &layout, entries: &entries })
    }

    /// The commands of a run, with what [`Executable::check`] gave, and when its steps begin and end if that is wanted and the device can tell.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for outputs that nobody wants.
    pub fn record(&self, bindings: &Bindings<DeviceStorage>, look: &Look, watch: &Watch) -> Result<Recorded> {
        let device = &self.device.device;
        let run = self.run(bindings, look)?;
        let wanted = || self.dispatches.iter().enumerate().filter(|(_, dispatch)| !self.is_left_out(dispatch, &run));
        let mut encoder = device.create_command_encoder(&Default::default());
        if !watch.wants_steps() || !self.device.has_times() {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            wanted().for_each(|dispatch| self.add(&mut pass, dispatch, &run));
            drop(pass);
            return Ok(Recorded { commands: encoder.finish(), timestamps: None });
        }
        let wanted: Vec<(usize, &Prepared)> = wanted().collect();
        let passes: Vec<&[(usize, &Prepared)]> = wanted.chunk_by(|(_, one), (_, next)| one.step == next.step).collect();
        let mut queries = Queries::new(device, passes.len());
        for dispatches in &passes {
            let timestamp_writes = Some(queries.next(dispatches[0].1.step));
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            dispatches.iter().for_each(|&dispatch| self.add(&mut pass, dispatch, &run));
        }
        let all = (self.steps.clone(), watch.clone());
        let timestamps = (!passes.is_empty()).then(|| queries.finish(device, &mut encoder, all));
        Ok(Recorded { commands: encoder.finish(), timestamps })
    }

    /// The memory of a run.
    fn run<'a>(&self, bindings: &'a Bindings<DeviceStorage>, look: &'a Look) -> Result<Run<'a>> {
        let found = look.findings.as_ref().map(|findings| -> Result<Buffer> {
            let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC;
            let buffer = self.device.buffer(Finding::all(self.findings.len()), usage)?;
            findings.are_in(buffer.clone());
            Ok(buffer)
        });
        let found = found.transpose()?;
        let mut outputs: SmallVec<[Arc<DeviceStorage>; 2]> = SmallVec::new();
        for (tensor, &length) in bindings.outputs.iter().zip(&self.output_lengths) {
            outputs.push(match tensor {
                Some(tensor) => tensor.clone(),
                // Later steps may read it all the same.
                None => Arc::new(DeviceStorage::new(self.device.buffer(length, BufferUsages::STORAGE)?)),
            });
        }
        Ok(Run { inputs: &bindings.inputs, outputs, found, known: &look.known })
    }

    /// Whether a run need not do it: what it copies is there, or what it looks at is known.
    fn is_left_out(&self, dispatch: &Prepared, run: &Run<'_>) -> bool {
        let is_there = |input: usize| {
            self.placements[input].is_some_and(|Placement { output, first, .. }| {
                let (input, output) = (&run.inputs[input], &run.outputs[output]);
                input.buffer == output.buffer && input.offset == output.offset + first
            })
        };
        dispatch.places.is_some_and(is_there) || dispatch.looks_at.is_some_and(|input| run.known.contains(&input))
    }

    /// The bind group of a dispatch that mentions tensors of the run.
    fn bound(&self, number: usize, dispatch: &Prepared, run: &Run<'_>) -> BindGroup {
        let make = || {
            let resources = dispatch.bindings.iter().map(|memory| match (run.storage(memory.slot), memory.slot) {
                (Some(storage), _) => storage.resource(memory),
                (None, Slot::Findings) => resource(run.found.as_ref().expect("who looks leaves what was found"), 0, memory),
                (None, own) => resource(self.own(own).expect("the others are the graph's own"), 0, memory),
            });
            self.bind(dispatch, resources)
        };
        // What a run finds is in memory of its own.
        if dispatch.bindings.iter().any(|memory| memory.slot == Slot::Findings) {
            return make();
        }
        let storages = || dispatch.bindings.iter().filter_map(|memory| run.storage(memory.slot));
        let places = storages().map(|storage| (storage.buffer.clone(), storage.offset)).collect();
        self.bound.get(number, &places).unwrap_or_else(|| {
            let group = make();
            self.bound.keep(number, places, group.clone());
            // Who has the tensors has them until this run is recorded, so none is forgotten before.
            storages().for_each(|storage| storage.mentions.add(&self.bound));
            group
        })
    }

    fn add(&self, pass: &mut ComputePass<'_>, (number, dispatch): (usize, &Prepared), run: &Run<'_>) {
        pass.set_pipeline(&dispatch.pipeline);
        if let Some(fixed) = &dispatch.fixed {
            pass.set_bind_group(0, fixed, &[]);
        } else {
            pass.set_bind_group(0, &self.bound(number, dispatch, run), &[]);
        }
        let [x, y, z] = dispatch.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// What describes dispatches in the host's memory, as far as it is ours: what a driver keeps of pipelines, nobody tells.
fn described(dispatches: &[Dispatch]) -> usize {
    let bindings = dispatches.iter().map(|dispatch| size_of_val(&dispatch.bindings[..])).sum::<usize>();
    dispatches.len() * size_of::<Prepared>() + bindings
}

/// So many bytes are copied to the device at once.
const PIECE: usize = 1 << 20;

/// A buffer with some contents.
///
/// # Errors
/// `UnknownError` when the device has not the memory.
fn upload(device: &Device, bytes: &[u8], usage: BufferUsages) -> Result<Buffer> {
    let buffer = device.buffer(bytes.len(), usage | BufferUsages::COPY_DST)?;
    device.checked(|| {
        let (whole, rest) = bytes.split_at(bytes.len() & !3);
        for (piece, bytes) in whole.chunks(PIECE).enumerate() {
            device.queue.write_buffer(&buffer, (piece * PIECE) as u64, bytes);
            device.stages(bytes.len());
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
