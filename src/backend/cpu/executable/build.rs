//! Makes an executable of a schedule: chooses and makes the kernels of the steps, and says which constants steps still read.

use super::arenas::Arenas;
use super::followers::Follower;
use super::side_by_side::Group;
use super::step::{Memory, Operand, Step};
use super::{Compiled, Counted, Executable, hiding, narrowing, overwriting, placements, resident, side_by_side, tables};
use crate::backend::cpu::aligned::is_aligned_for;
use crate::backend::cpu::dispatch::{Built, Constant, CopyRoom, LazyCopy, Problem, Target, TensorDesc, choose};
use crate::backend::cpu::kernels::{Workspaces, budget_beside, divide_budget};
use crate::backend::cpu::packings::{self, Packings};
use crate::backend::cpu::reference;
use crate::cancel::Cancel;
use crate::compiler::Schedule;
use crate::disk_cache::{DiskCache, ModelCache};
use crate::error::{Error, Result};
use crate::graph::{ConstantBytes, Descriptor};
use crate::memory::{self, Together, Usage, Use, is_mapped, is_of_file, let_go, store_findings};
use smallvec::SmallVec;
use std::mem::take;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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
pub struct OfModel {
    pub arenas: Arc<Arenas>,
    /// Whether one has its kernels.
    has_kernels: AtomicBool,
}

impl OfModel {
    /// One has its kernels.
    pub fn has_kernels(&self) {
        self.has_kernels.store(true, Ordering::Relaxed);
    }
}

/// Makes the fast kernels. Constants that only they need, which they have packed for themselves, are let go of. The bytes of packings,
/// which are counted by themselves.
fn build_kernels(
    steps: &mut [Step],
    groups: &[Range<usize>],
    constants: &mut [ConstantBytes],
    target: &Target,
    cancel: &Cancel,
) -> Result<usize> {
    let mut counted = 0;
    // A step of a group has a thread.
    let alone = Target { threads: 1, ..*target };
    let target_of = |step: usize| if groups.iter().any(|group| group.contains(&step)) { &alone } else { target };
    let mut built_steps: Vec<(&'static str, Option<Built>, Option<usize>)> = Vec::new();
    for_each_problem(steps, constants, target, |number, problem, known, taken| {
        cancel.check()?;
        let target = target_of(number);
        let (choice, build) = choose(problem, target);
        choice.say(target, || steps[number].describe());
        // The reference kernels know no other orders, and one operator at a time.
        let is_ordered = problem.output.order.is_some() || problem.inputs.iter().any(|input| input.order.is_some());
        let is_special = is_ordered || !problem.prologue.is_empty();
        assert!(build.is_some() || !is_special, "products in other orders and attention have a kernel");
        let built = build.map(|build| {
            let identity = packings::Identity::of(choice.name, problem, target, known.iter().map(Option::as_ref));
            let (built, bytes) = cancel.during(|| packings::during(identity, build));
            counted += bytes;
            built
        });
        let built = built.transpose()?;
        for &position in built.iter().flat_map(|built| &built.consumed) {
            // What was packed is read no more.
            known[position].iter().filter(|constant| constant.key().is_none()).for_each(|constant| let_go(constant.place()));
        }
        built_steps.push((choice.name, built, taken));
        Ok(())
    })?;
    for (step, (implementation, built, taken)) in steps.iter_mut().zip(built_steps) {
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
    keep_what_is_read(steps, constants)?;
    Ok(counted)
}

/// Lets go of constants that no step reads, and has the others where all who read them find their elements aligned.
fn keep_what_is_read(steps: &[Step], constants: &mut [ConstantBytes]) -> Result<()> {
    // As which types of elements steps read a constant, if any do, and nothing for one that reads it at any address.
    let mut used = vec![Vec::new(); constants.len()];
    for step in steps {
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
        let fits = |constant: &ConstantBytes| used.iter().flatten().all(|data_type| is_aligned_for(*data_type, constant.place()));
        resident::share(constant, fits)?;
    }
    Ok(())
}

/// What would compute each step of a schedule on a target, which need not be this machine: nothing is built.
#[cfg(test)]
pub fn choices(mut schedule: Schedule, target: &Target) -> Vec<(String, &'static str)> {
    let (constants, steps) = Step::of_schedule(&mut schedule);
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
    pub fn new(mut schedule: Schedule, usage: &Arc<Usage>, target: &Target, cancel: &Cancel) -> Result<Self> {
        let target = &Target { fp_math: schedule.fp_math, ..*target };
        let of_context = usage;
        let usage = &schedule.shared.usage().unwrap_or(of_context).clone();
        let (mut constants, mut steps) = Step::of_schedule(&mut schedule);
        // The compiler may have looked at more than steps read.
        constants.iter_mut().for_each(|constant| *constant = constant.briefly());
        let groups = side_by_side::find(&steps, &schedule, target.threads);
        let of_model = schedule.shared.of::<OfModel>();
        let lengths = |list: &[(String, Descriptor)]| list.iter().map(|(_, descriptor)| descriptor.byte_length()).collect();
        let expected = constants.iter().map(ConstantBytes::len).sum();
        // Later graphs of a model find most of it packed, and huge pages for the rest would be empty.
        let together = if of_model.has_kernels.load(Ordering::Relaxed) { Together::Large } else { Together::All };
        let cache = schedule.shared.attached::<ModelCache>().or_else(|| DiskCache::of_all_graphs().map(ModelCache::new));
        let of_target = cache.clone().map(|cache| (cache, target.caches));
        let (counted, packings) = packings::within(Packings::of_process(), usage, of_target, || {
            let build = || build_kernels(&mut steps, &groups, &mut constants, target, cancel);
            let counted = memory::side_by_side(expected, together, build)?;
            Ok::<_, Error>((counted, packings::take_used()))
        })?;
        if let Some(cache) = cache {
            store_findings();
            cache.end();
        }
        hiding::mark(&mut steps, &schedule);
        cancel.check()?;
        narrowing::place(&mut steps, &mut schedule, target);
        groups.iter().for_each(|group| schedule.run_at_once(group));
        overwriting::place(&mut steps, &mut schedule);
        let groups = Group::checked(groups, &steps);
        let estimate = steps.iter().map(Step::estimate).fold(0, usize::saturating_add);
        let kernel_bytes: usize = steps.iter().filter_map(|step| step.kernel.as_ref()).map(|kernel| kernel.bytes()).sum();
        let mut constant_bytes = kernel_bytes.saturating_sub(counted);
        let is_table = tables::find(&steps, &constants);
        let mut shared_constants = Vec::new();
        for (place, is_table) in constants.iter().map(ConstantBytes::place).zip(&is_table) {
            // Of tables rows are read, and the bytes of a model in memory are counted with the model.
            let is_stable = schedule.shared.is_stable(place);
            if is_stable && (*is_table || !is_of_file(place) && !is_mapped(place)) {
                continue;
            }
            match resident::charge(place, usage)? {
                Some(lending) => shared_constants.push(lending),
                None if is_stable => {}
                None => constant_bytes += place.length,
            }
        }
        // Steps read them from here on, so a file that has changed is an error now.
        constants.iter().zip(&is_table).filter(|(_, is_table)| !**is_table).for_each(|(constant, _)| _ = constant.as_slice());
        let placements = placements::find(&steps, schedule.inputs.len());
        let described = steps.iter().map(Step::plan_bytes).sum();
        let compiled = Compiled {
            estimate,
            own_bytes: kernel_bytes.saturating_sub(counted),
            placements,
            sources: OnceLock::new(),
            steps,
            groups,
            constants,
            is_table,
            input_lengths: lengths(&schedule.inputs),
            output_lengths: lengths(&schedule.outputs),
            arena_length: schedule.arena_length,
            counted: Counted {
                plan: usage.reserve(Use::Plans, described)?.into(),
                constants: usage.reserve(Use::Constants, constant_bytes)?.into(),
                shared_constants,
                packings,
            },
        };
        compiled.assert_memory_is_sound();
        compiled.assert_groups_are_apart();
        Ok(Executable::of_compiled(Arc::new(compiled), &schedule.shared, of_context))
    }
}
