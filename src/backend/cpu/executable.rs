//! A compiled graph: steps whose operands have been resolved to regions of memory, so that a run looks nothing up.
#![allow(unsafe_code)]

use super::aligned::is_aligned_for;
use super::cancel::Cancel;
use super::checks::check;
use super::cost;
use super::dispatch::{Built, Constant, CopyRoom, LazyCopy, Problem, Target, TensorDesc, choose, describe, workspaces};
use super::kernels::{Kernel, Workspaces, budget_beside, divide_budget};
use super::packings::{self, Packings};
use super::profile::Profile;
use super::reference;
use super::run_time::RunTime;
use super::storage::Storage;
use super::view::{Arguments, View, ViewMut};
use crate::backend::Bindings;
use crate::compiler::{Check, Place, Plan, Value, ValueId, behind_inputs, multiplications};
use crate::disk_cache::Cache;
use crate::done::from_panic;
use crate::error::Result;
use crate::graph::{ConstantBytes, DataType, Op};
use crate::host_memory::{Placement, Placements};
use crate::memory::{Bytes, Charge, Together, Usage, Use, let_go, side_by_side, store_findings};
use crate::watch::{Description, StepNumber};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::HashSet;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

mod arenas;
mod followers;
mod narrowing;
mod overwriting;
mod placements;
mod resident;
mod sources;
mod tables;

use arenas::{Arena, Arenas};
use followers::{Follower, follow, follow_from};

/// A graph that can be run, by several dispatches at once.
#[derive(Debug)]
pub struct Executable {
    steps: Vec<Step>,
    constants: Vec<ConstantBytes>,
    /// Those that [`tables`] are.
    is_table: Vec<bool>,
    input_lengths: Vec<usize>,
    output_lengths: Vec<usize>,
    placements: Placements,
    arena_length: usize,
    /// Arenas that no run uses at the moment.
    arenas: Arc<Arenas>,
    usage: Arc<Usage>,
    estimate: usize,
    time_alone: RunTime,
    /// Of kernels, beside what graphs of a model share.
    own_bytes: usize,
    profile: Option<Profile>,
    /// See [`sources::of`], where a run was watched.
    sources: OnceLock<Vec<Vec<usize>>>,
    _constants_charge: Charge,
    _shared_charges: Vec<Arc<Charge>>,
}

#[derive(Debug)]
struct Step {
    /// See [`crate::compiler::Step::prologue`].
    prologue: Vec<Op>,
    /// See [`crate::compiler::Step::dequantized`].
    dequantized: Vec<Op>,
    op: Op,
    /// The name of what computes it (see [`Choice::name`]).
    implementation: &'static str,
    /// The kernel that was made for it; without one the reference kernel runs.
    kernel: Option<Box<dyn Kernel>>,
    /// Multiplications that the kernel takes as long as, where these are not those that the operator asks for.
    taken: Option<usize>,
    /// The names of what is fused, for people: kernels take the operators.
    fused_names: Box<[&'static str]>,
    /// What is done to the output afterwards; moved to `followers` once it is known that the kernel does not do it. The output
    /// as it was before stands behind the inputs.
    fused: Vec<Op>,
    followers: Vec<Follower>,
    label: String,
    inputs: Box<[Operand]>,
    outputs: Box<[Operand]>,
    /// The input that lies where the output does, of a kernel that [overwrites](Kernel::overwrites) it.
    overwritten: Option<usize>,
    /// See [`crate::compiler::Step::order`].
    order: Option<Vec<u32>>,
    /// See [`crate::compiler::Step::checks`].
    checks: Vec<Check>,
}

/// A tensor of a step.
#[derive(Debug)]
struct Operand {
    data_type: DataType,
    shape: SmallVec<[usize; 4]>,
    value: ValueId,
    memory: Memory,
    length: usize,
    /// See [`Value::order`].
    order: Option<Vec<u32>>,
}

/// What a run with fewer outputs computes.
struct Needed {
    steps: Vec<bool>,
    /// Outputs that a needed step touches.
    outputs: Vec<bool>,
}

/// Where an operand's bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Memory {
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
    fn new(id: ValueId, value: &Value) -> Self {
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
    fn written(&self) -> Option<(usize, std::ops::Range<usize>)> {
        match self.memory {
            Memory::Written { region, offset } => Some((region, offset..offset + self.length)),
            _ => None,
        }
    }
}

fn shapes(operands: &[Operand]) -> SmallVec<[&[usize]; 4]> {
    operands.iter().map(|operand| operand.shape.as_slice()).collect()
}

impl Step {
    /// The constants and steps of a plan, without kernels.
    fn of_plan(plan: &mut Plan) -> (Vec<ConstantBytes>, Vec<Step>) {
        let (constants, steps) = (take(&mut plan.constants), take(&mut plan.steps));
        let operand = |id: &ValueId| Operand::new(*id, &plan.values[id.0]);
        let step = |step: crate::compiler::Step| Step {
            prologue: step.prologue,
            dequantized: step.dequantized,
            op: step.op,
            implementation: "",
            kernel: None,
            taken: None,
            fused_names: step.fused.iter().map(|op| op.row().name).collect(),
            fused: behind_inputs(step.fused, step.inputs.len()),
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
    fn checks_itself(&self) -> bool {
        let [check] = &self.checks[..] else { return false };
        self.kernel.is_none() && reference::checks(&self.op, &check.op, check.input, &self.inputs[0].shape)
    }

    /// See [`workspaces`].
    fn workspaces(&self, target: &Target) -> Workspaces {
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
    fn looked_at<'a>(&self, operand: &Operand, constants: &'a [ConstantBytes]) -> Option<&'a ConstantBytes> {
        match operand.memory {
            Memory::Constant(position) if !matches!(self.op, Op::Gather(_)) => Some(&constants[position]),
            _ => None,
        }
    }

    /// Whether a kernel can be built from a constant where it lies: it is aligned, as what is computed is, or its bytes are looked at
    /// one by one.
    fn packs_from_anywhere(&self, input: usize, operand: &Operand, constant: &ConstantBytes) -> bool {
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
    fn estimate(&self) -> usize {
        let (inputs, outputs) = (shapes(&self.inputs), shapes(&self.outputs));
        let directly = |kernel: &dyn Kernel| multiplications(&self.op, &inputs, &outputs) / kernel.speed();
        let taken = self.kernel.as_deref().map(|kernel| self.taken.unwrap_or_else(|| directly(kernel)));
        cost::nanoseconds(&self.op, taken, &inputs, &outputs)
    }

    /// The bytes that describe it, about.
    fn kept_bytes(&self) -> usize {
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
    fn profiled(&self) -> Description {
        let before = self.prologue.iter().map(|op| cost::multiplications_before(op, &shapes(&self.inputs)));
        let (inputs, outputs) = (shapes(&self.inputs), shapes(&self.outputs));
        Description {
            text: self.describe(),
            implementation: self.implementation,
            multiplications: before.fold(multiplications(&self.op, &inputs, &outputs), usize::saturating_add),
            bytes: self.inputs.iter().chain(&self.outputs).map(|operand| operand.length).sum(),
            data_type: self.inputs.first().map_or("", |operand| operand.data_type.name()),
            sources: Vec::new(),
        }
    }

    /// Operators, shapes and the label, for people.
    fn describe(&self) -> String {
        let before = self.prologue.iter().chain(&self.dequantized).chain([&self.op]).map(|op| op.row().name);
        let operators = before.chain(self.fused_names.iter().copied());
        let [inputs, outputs] =
            [&self.inputs[..], &self.outputs[..]].map(|list| list.iter().map(|operand| operand.shape.as_slice()));
        let text = describe(operators, inputs, outputs);
        if self.label.is_empty() { text } else { format!("{text} \"{}\"", self.label) }
    }
}

/// A product of dequantized operands, operator by operator with the reference kernels.
fn dequantized_product(step: &Step, views: &[View<'_>], written: &mut [ViewMut<'_>], cancel: &Cancel) -> Result<()> {
    let mut numbers: Vec<(usize, Bytes)> = Vec::new();
    for op in &step.dequantized {
        let Op::DequantizeLinear(dequantize) = op else { unreachable!("the compiler puts nothing else there") };
        let input = dequantize.input.0 as usize;
        let shape = views[input].shape;
        let mut bytes = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<f32>())?;
        let mut outputs = [ViewMut { data_type: DataType::Float32, shape, bytes: &mut bytes }];
        reference::execute(op, &mut Arguments::new(views, &mut outputs));
        numbers.push((input, bytes));
    }
    let mut of_numbers: SmallVec<[View<'_>; 6]> = views.iter().copied().collect();
    for (position, bytes) in &numbers {
        of_numbers[*position] = View::new(DataType::Float32, views[*position].shape, bytes);
    }
    let shape = written[0].shape;
    let mut made = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<f32>())?;
    let mut outputs = [ViewMut { data_type: DataType::Float32, shape, bytes: &mut made }];
    reference::execute(&step.op, &mut Arguments::new(&of_numbers, &mut outputs));
    if step.followers.is_empty() {
        written[0].bytes.copy_from_slice(&made);
        return Ok(());
    }
    follow_from(made, DataType::Float32, &step.followers, views, &mut written[0], cancel)
}

/// A product of bytes, and what is done to the sums, operator by operator with the reference kernels: they are int32 first.
fn quantized_product(step: &Step, views: &[View<'_>], written: &mut [ViewMut<'_>], cancel: &Cancel) -> Result<()> {
    let shape = written[0].shape;
    let mut made = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<i32>())?;
    let mut outputs = [ViewMut { data_type: DataType::Int32, shape, bytes: &mut made }];
    reference::execute(&step.op, &mut Arguments::new(views, &mut outputs));
    follow_from(made, DataType::Int32, &step.followers, views, &mut written[0], cancel)
}

/// Calls back with what is known of each step, one after the other, and with the multiplications that it takes as long as with its
/// workspace, if it may have one.
fn for_each_problem(
    steps: &[Step],
    constants: &[ConstantBytes],
    target: &Target,
    mut done: impl FnMut(usize, &Problem<'_>, &[Option<ConstantBytes>], Option<usize>) -> Result<()>,
) -> Result<()> {
    let budget = budget_beside(constants.iter().map(ConstantBytes::len).sum());
    let workspaces: Vec<Workspaces> = steps.iter().map(|step| step.workspaces(target)).collect();
    let divided = divide_budget(budget, &workspaces);
    let room = CopyRoom::default();
    for (number, ((step, workspaces), workspace)) in steps.iter().zip(&workspaces).zip(divided).enumerate() {
        // What is read for this step only goes with it: the file and its packings are not in memory both.
        let brief = |operand: &Operand| step.looked_at(operand, constants).map(ConstantBytes::briefly);
        let brief: SmallVec<[Option<ConstantBytes>; 6]> = step.inputs.iter().map(brief).collect();
        let copy = |(i, operand): (usize, &Operand)| {
            let constant = brief[i].as_ref()?;
            (!step.packs_from_anywhere(i, operand, constant)).then(|| LazyCopy::new(constant, &room))
        };
        let copies: SmallVec<[Option<LazyCopy<'_>>; 6]> = step.inputs.iter().enumerate().map(copy).collect();
        let constant = |i: usize| match &copies[i] {
            Some(copy) => Some(Constant::Copied(copy)),
            None => brief[i].as_ref().map(Constant::Known),
        };
        let inputs: Vec<TensorDesc<'_>> = step
            .inputs
            .iter()
            .enumerate()
            .map(|(i, operand)| TensorDesc {
                data_type: operand.data_type,
                shape: &operand.shape,
                constant: constant(i),
                order: operand.order.as_deref(),
            })
            .collect();
        let (output, order) = (&step.outputs[0], step.order.as_deref());
        let output = TensorDesc { data_type: output.data_type, shape: &output.shape, constant: None, order };
        let problem = Problem {
            prologue: &step.prologue,
            dequantized: &step.dequantized,
            op: &step.op,
            fused: &step.fused,
            inputs: &inputs,
            output,
            workspace,
        };
        done(number, &problem, &brief, workspace.map(|workspace| workspaces[workspace].taken))?;
    }
    Ok(())
}

/// What the graphs of one model share.
#[derive(Debug, Default)]
struct OfModel {
    arenas: Arc<Arenas>,
    /// Whether one has its kernels.
    has_kernels: AtomicBool,
}

/// Makes the fast kernels. Constants that only they need, which they have packed for themselves, are let go of. The bytes of packings,
/// which are counted by themselves.
fn build_kernels(steps: &mut [Step], constants: &mut [ConstantBytes], target: &Target, cancel: &Cancel) -> Result<usize> {
    let mut counted = 0;
    let mut made: Vec<(&'static str, Option<Built>, Option<usize>)> = Vec::new();
    for_each_problem(steps, constants, target, |number, problem, known, taken| {
        cancel.check()?;
        let (choice, build) = choose(problem, target);
        choice.say(target, || steps[number].describe());
        // The reference kernels know no other orders, and one operator at a time.
        let is_ordered = problem.output.order.is_some() || problem.inputs.iter().any(|input| input.order.is_some());
        let is_special = is_ordered || !problem.prologue.is_empty();
        assert!(build.is_some() || !is_special, "products in other orders and attention have a kernel");
        let built = build.map(|build| {
            let identity = packings::identity(choice.name, problem, target, known.iter().map(Option::as_ref));
            let (built, bytes) = packings::during(identity, build);
            counted += bytes;
            built
        });
        let built = built.transpose()?;
        for &position in built.iter().flat_map(|built| &built.consumed) {
            // What was packed is read no more.
            known[position].iter().filter(|constant| constant.key().is_none()).for_each(|constant| let_go(constant.place()));
        }
        made.push((choice.name, built, taken));
        Ok(())
    })?;
    for (step, (implementation, built, taken)) in steps.iter_mut().zip(made) {
        step.implementation = implementation;
        if let Some(Built { kernel, consumed, fuses }) = built {
            step.kernel = Some(kernel);
            step.taken = taken;
            if fuses {
                step.fused.clear();
            }
            consumed.into_iter().for_each(|position| step.inputs[position].memory = Memory::Packed);
        }
        step.followers = take(&mut step.fused).into_iter().map(Follower::new).collect();
    }
    // As which types of elements steps read a constant, if any do, and nothing for one that reads it at any address.
    let mut used = vec![Vec::new(); constants.len()];
    for step in &*steps {
        for (input, operand) in step.inputs.iter().enumerate() {
            if let Memory::Constant(position) = operand.memory {
                let anywhere = reference::reads_any_address(&step.op, input, &operand.shape, operand.data_type);
                used[position].push((!anywhere).then_some(operand.data_type));
            }
        }
    }
    for (constant, used) in constants.iter_mut().zip(used) {
        if used.is_empty() {
            *constant = ConstantBytes::new([]);
            continue;
        }
        let fits =
            |constant: &ConstantBytes| used.iter().flatten().all(|data_type| is_aligned_for(*data_type, constant.place()));
        resident::share(constant, fits)?;
    }
    Ok(counted)
}

/// What would compute each step of a plan on a target, which need not be this machine: nothing is built.
#[cfg(test)]
pub fn choices(mut plan: Plan, target: &Target) -> Vec<(String, &'static str)> {
    let (constants, steps) = Step::of_plan(&mut plan);
    let mut choices = Vec::new();
    let choice = |number: usize, problem: &Problem<'_>, _: &[Option<ConstantBytes>], _| {
        choices.push((steps[number].describe(), choose(problem, target).0.name));
        Ok(())
    };
    for_each_problem(&steps, &constants, target, choice).expect("memory for constants");
    choices
}

impl Executable {
    /// # Errors
    /// `UnknownError` when there is no memory for constants and packed weights, `QuotaExceededError` where the context or the model may
    /// not hold them, `InvalidStateError` when the context ends meanwhile.
    pub fn new(mut plan: Plan, usage: &Arc<Usage>, target: &Target, cancel: &Cancel) -> Result<Self> {
        let target = &Target { fp_math: plan.fp_math, ..*target };
        let of_context = usage;
        let usage = &plan.shared.usage().unwrap_or(of_context).clone();
        let (mut constants, mut steps) = Step::of_plan(&mut plan);
        // The compiler may have looked at more than steps read.
        constants.iter_mut().for_each(|constant| *constant = constant.briefly());
        let of_model = plan.shared.of::<OfModel>();
        let lengths =
            |list: &[(String, crate::graph::Descriptor)]| list.iter().map(|(_, descriptor)| descriptor.byte_length()).collect();
        let expected = constants.iter().map(ConstantBytes::len).sum();
        // Later graphs of a model find most of it packed, and huge pages for the rest would be empty.
        let together = if of_model.has_kernels.load(Ordering::Relaxed) { Together::Large } else { Together::All };
        let cache = plan.shared.attached::<Cache>().or_else(Cache::of_all_graphs).map(|cache| (cache, target.caches));
        let is_cached = cache.is_some();
        let counted = packings::within(Packings::of_process(), usage, cache, || {
            side_by_side(expected, together, || build_kernels(&mut steps, &mut constants, target, cancel))
        })?;
        if is_cached {
            store_findings();
        }
        of_model.has_kernels.store(true, Ordering::Relaxed);
        cancel.check()?;
        narrowing::place(&mut steps, &mut plan, target);
        overwriting::place(&mut steps, &mut plan);
        let profile = Profile::is_wanted().then(|| Profile::of(steps.iter().map(Step::profiled).collect()));
        let estimate = steps.iter().map(Step::estimate).fold(0, usize::saturating_add);
        let kernel_bytes: usize = steps.iter().filter_map(|step| step.kernel.as_ref()).map(|kernel| kernel.bytes()).sum();
        let mut constant_bytes = kernel_bytes.saturating_sub(counted);
        let mut shared_charges = Vec::new();
        // What stays in a model's file, or is a copy that all of its graphs have, is counted with the model.
        for place in constants.iter().map(ConstantBytes::place).filter(|place| !plan.shared.is_stable(*place)) {
            match resident::charge(place, usage)? {
                Some(charge) => shared_charges.push(charge),
                None => constant_bytes += place.length,
            }
        }
        // Steps read them from here on, so a file that has changed is an error now.
        let is_table = tables::find(&steps, &constants);
        constants.iter().zip(&is_table).filter(|(_, is_table)| !**is_table).for_each(|(constant, _)| _ = constant.as_slice());
        let placements = placements::find(&steps, plan.inputs.len());
        let executable = Executable {
            estimate,
            time_alone: RunTime::estimated(estimate),
            own_bytes: kernel_bytes.saturating_sub(counted),
            placements,
            profile,
            sources: OnceLock::new(),
            steps,
            constants,
            is_table,
            input_lengths: lengths(&plan.inputs),
            output_lengths: lengths(&plan.outputs),
            arena_length: plan.arena_length,
            arenas: of_model.arenas.clone(),
            usage: usage.clone(),
            _constants_charge: usage.reserve(Use::Constants, constant_bytes)?,
            _shared_charges: shared_charges,
        };
        executable.assert_memory_is_sound();
        Ok(executable)
    }

    /// Where inputs may lie from the beginning.
    pub fn placements(&self) -> &[Option<Placement>] {
        &self.placements
    }

    /// How many nanoseconds a run takes on one thread, or so.
    pub fn estimate(&self) -> usize {
        self.estimate
    }

    /// What a run takes on one thread, by those that there were.
    pub fn time_alone(&self) -> Duration {
        self.time_alone.get()
    }

    /// A run of all outputs has taken so long on so many threads.
    pub fn took(&self, time: Duration, threads: usize) {
        self.time_alone.took(time, threads);
    }

    /// The bytes that it keeps beside weights, about: what stands behind pointers of kernels is not looked at, unless they count it.
    pub fn kept_bytes(&self) -> usize {
        self.own_bytes + self.steps.iter().map(Step::kept_bytes).sum::<usize>()
    }

    /// What [`Executable::run`] relies on: every written range lies in its region, and what a step writes overlaps nothing
    /// else that the step uses, unless it is what its kernel overwrites.
    fn assert_memory_is_sound(&self) {
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
            let apart = |(a, x): &(usize, std::ops::Range<usize>), (b, y): &(usize, std::ops::Range<usize>)| {
                a != b || x.end <= y.start || y.end <= x.start
            };
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

    /// Waits for the inputs of the first step, which may be on their way.
    ///
    /// # Errors
    /// `OperationError` when somebody writes them.
    pub fn wait_for_first(&self, bindings: &Bindings<Storage>) -> Result<()> {
        for operand in self.steps.first().iter().flat_map(|step| &step.inputs) {
            if let Memory::Input(position) = operand.memory {
                bindings.inputs[position].read()?.wait();
            }
        }
        Ok(())
    }

    /// Runs the steps in order.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for the arena, `OperationError` when a kernel fails, `InvalidStateError` when
    /// the context ends meanwhile.
    pub fn run(&self, bindings: &Bindings<Storage>, cancel: &Cancel) -> Result<()> {
        let inputs = bindings.inputs.iter().map(|tensor| tensor.read()).collect::<Result<SmallVec<[_; 4]>>>()?;
        // They may still be on their way: what needs them waits.
        assert!(inputs.iter().map(|contents| contents.length()).eq(self.input_lengths.iter().copied()));
        assert_eq!(bindings.outputs.len(), self.output_lengths.len());
        let mut arena = self.take_arena()?;
        // Outputs that nobody wants need memory all the same where a step uses them.
        let needed = self.needed(&bindings.outputs);
        let mut unwanted: SmallVec<[Bytes; 2]> = SmallVec::new();
        let mut outputs = SmallVec::<[_; 2]>::new();
        let mut regions: SmallVec<[*mut u8; 4]> = SmallVec::new();
        regions.push(arena.bytes.as_mut_ptr());
        for (position, tensor) in bindings.outputs.iter().enumerate() {
            match tensor {
                Some(tensor) => {
                    let mut bytes = tensor.write()?;
                    // No slice of it: inputs that are on their way there are others' to write (`Placement`).
                    assert_eq!(bytes.length(), self.output_lengths[position]);
                    regions.push(bytes.as_mut_ptr());
                    outputs.push(bytes);
                }
                None => {
                    let used = needed.as_ref().is_some_and(|needed| needed.outputs[position]);
                    let mut bytes = Bytes::zeroed(if used { self.output_lengths[position] } else { 0 })?;
                    regions.push(bytes.as_mut_ptr());
                    unwanted.push(bytes);
                }
            }
        }

        let mut began = self.profile.as_ref().map(|profile| {
            profile.begin();
            Instant::now()
        });
        let watch = Some(cancel.watch()).filter(|watch| watch.wants_steps());
        let graph = watch.map_or(0, |watch| watch.graph());
        for (number, step) in self.steps.iter().enumerate() {
            if needed.as_ref().is_some_and(|needed| !needed.steps[number]) {
                continue;
            }
            cancel.check()?;
            let watched = watch.map(|_| Instant::now());
            let views: SmallVec<[View<'_>; 4]> = step
                .inputs
                .iter()
                .enumerate()
                .map(|(number, operand)| {
                    let bytes = match operand.memory {
                        _ if step.overwritten == Some(number) => [].as_slice().into(),
                        Memory::Input(position) => {
                            if self.placements[position].is_some() {
                                // The step writes around it.
                                inputs[position].wait();
                            }
                            inputs[position].incoming()
                        }
                        // Its rows are read below.
                        Memory::Constant(position) if self.is_table[position] => self.constants[position].unread().into(),
                        Memory::Constant(position) => self.constants[position].as_slice().into(),
                        Memory::Packed => [].as_slice().into(),
                        // SAFETY: the range lies in its region, and no output of this step overlaps it (asserted in `new`);
                        // the regions are distinct memory that this run holds exclusively (the guards and the arena).
                        Memory::Written { region, offset } => unsafe {
                            std::slice::from_raw_parts(regions[region].add(offset), operand.length).into()
                        },
                    };
                    View::of(operand.data_type, &operand.shape, bytes)
                })
                .collect();
            let _rows = tables::rows(step, &views, &self.is_table, &self.constants)?;
            let mut written: SmallVec<[ViewMut<'_>; 1]> = step
                .outputs
                .iter()
                .map(|operand| {
                    let Memory::Written { region, offset } = operand.memory else { unreachable!("asserted in `new`") };
                    // SAFETY: as above; the outputs of a step do not overlap each other either.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(regions[region].add(offset), operand.length) };
                    ViewMut { data_type: operand.data_type, shape: &operand.shape, bytes }
                })
                .collect();
            let checks = || step.checks.iter().try_for_each(|own| check(own, &views[own.input]));
            let checks_itself = step.checks_itself();
            if !checks_itself {
                checks()?;
            }
            let is_outside = Cell::new(false);
            let kernel = || {
                #[cfg(feature = "faults")]
                crate::faults::at(crate::faults::Place::Step)?;
                match &step.kernel {
                    Some(kernel) => kernel.compute(&mut Arguments::new(&views, &mut written).overwriting(step.overwritten)),
                    None if !step.dequantized.is_empty() => return dequantized_product(step, &views, &mut written, cancel),
                    None if matches!(step.op, Op::QuantizedMatmul(_)) && !step.followers.is_empty() => {
                        return quantized_product(step, &views, &mut written, cancel);
                    }
                    None if checks_itself => {
                        let are_within = reference::gather_checked(&step.op, &mut Arguments::new(&views, &mut written));
                        is_outside.set(!are_within);
                    }
                    None => reference::execute(&step.op, &mut Arguments::new(&views, &mut written)),
                }
                follow(&step.followers, &views, &mut written, cancel)
            };
            let result = catch_unwind(AssertUnwindSafe(kernel)).unwrap_or_else(|panic| Err(from_panic(&*panic)));
            result.map_err(|error| error.of(step.op.row().name, &step.label))?;
            if is_outside.get() {
                // Says which one it was.
                checks()?;
            }
            if let (Some(watch), Some(watched)) = (watch, watched) {
                let described = || Description { sources: self.sources()[number].clone(), ..step.profiled() };
                watch.step(step.op.row().name, &step.label, StepNumber { graph, step: number }, watched, described);
            }
            if let (Some(profile), Some(began)) = (&self.profile, &mut began) {
                *began = profile.end(number, *began);
            }
        }
        // Of the last kernel too.
        cancel.check()?;
        self.arenas.give_back(arena);
        Ok(())
    }

    /// Of each step.
    fn sources(&self) -> &[Vec<usize>] {
        self.sources.get_or_init(|| sources::of(&self.steps))
    }

    /// The steps that the wanted outputs need; nothing when all outputs are wanted.
    fn needed(&self, outputs: &[Option<Arc<Storage>>]) -> Option<Needed> {
        if outputs.iter().all(Option::is_some) {
            return None;
        }
        let mut needed = Needed { steps: vec![false; self.steps.len()], outputs: outputs.iter().map(Option::is_some).collect() };
        // What later steps read, by region and offset: an exact match, since a value is written and read as a whole.
        let mut read: HashSet<(usize, usize)> = HashSet::new();
        for (number, step) in self.steps.iter().enumerate().rev() {
            let mut wanted = false;
            for output in &step.outputs {
                let Memory::Written { region, offset } = output.memory else { unreachable!("asserted in `new`") };
                // Written here: what stood there before is another value.
                wanted |= read.remove(&(region, offset)) || (region > 0 && outputs[region - 1].is_some());
            }
            if wanted {
                needed.steps[number] = true;
                for operand in step.inputs.iter().chain(&step.outputs) {
                    if let Memory::Written { region, .. } = operand.memory
                        && region > 0
                    {
                        needed.outputs[region - 1] = true;
                    }
                }
                for operand in &step.inputs {
                    if let Memory::Written { region, offset } = operand.memory {
                        read.insert((region, offset));
                    }
                }
            }
        }
        Some(needed)
    }

    fn take_arena(&self) -> Result<Arena> {
        self.arenas.take(self.arena_length, &self.usage)
    }
}
