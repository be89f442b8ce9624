//! Runs the steps of an executable in order.

use super::Executable;
use super::regions::Regions;
use super::step::{Memory, Step};
use super::{sources, tables};
use crate::backend::Bindings;
use crate::backend::cpu::checks::check;
use crate::backend::cpu::profile::Profile;
use crate::backend::cpu::storage::HostStorage;
use crate::backend::cpu::view::{View, ViewMut};
use crate::cancel::Cancel;
use crate::done::from_panic;
use crate::error::Result;
use crate::watch::{Description, StepNumber, Watch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

impl Executable {
    /// Waits for the inputs of the first step, which may be on their way.
    ///
    /// # Errors
    /// `OperationError` when somebody writes them.
    pub fn wait_for_first(&self, bindings: &Bindings<HostStorage>) -> Result<()> {
        for operand in self.steps.first().iter().flat_map(|step| &step.inputs) {
            if let Memory::Input(position) = operand.memory {
                bindings.inputs[position].read()?.wait();
            }
        }
        Ok(())
    }

    /// Runs the steps in order, those of a [group](super::side_by_side) side by side. Before each it gives way to whatever is more urgent.
    ///
    /// # Errors
    /// Those of [`Regions::new`], `OperationError` when a kernel fails, `InvalidStateError` when the context ends meanwhile.
    pub fn run(&self, bindings: &Bindings<HostStorage>, cancel: &Cancel, give_way: impl Fn()) -> Result<()> {
        let needed = self.needed(&bindings.outputs);
        let is_needed = |number: usize| needed.as_ref().is_none_or(|needed| needed.steps[number]);
        let mut regions = Regions::new(self, bindings, needed.as_ref())?;
        let watch = Some(cancel.watch()).filter(|watch| watch.wants_steps());
        let graph = watch.map_or(0, |watch| watch.graph());
        let watching = Watching { watch, graph, profile: self.profile.as_ref() };
        if let Some(profile) = watching.profile {
            profile.begin();
        }
        let mut number = 0;
        while let Some(step) = self.steps.get(number) {
            let group = self.group_at(number).filter(|group| group.steps.clone().all(is_needed));
            if group.is_none() && !is_needed(number) {
                number += 1;
                continue;
            }
            give_way();
            cancel.check()?;
            match group {
                Some(group) => {
                    self.run_group(group, &mut regions, cancel, &watching)?;
                    number = group.steps.end;
                }
                None => {
                    let began = watching.now();
                    self.run_step(step, &mut regions, cancel)?;
                    watching.step(self, number, began);
                    number += 1;
                }
            }
        }
        // Of the last kernel too.
        cancel.check()?;
        self.arenas.give_back(regions.into_arena());
        Ok(())
    }

    /// Of each step.
    fn sources(&self) -> &[Vec<usize>] {
        self.sources.get_or_init(|| sources::of(&self.steps))
    }

    fn run_step(&self, step: &Step, regions: &mut Regions<'_>, cancel: &Cancel) -> Result<()> {
        let (views, mut written) = regions.operands(step);
        let _rows = tables::rows(step, &views, &self.is_table, &self.constants)?;
        let checks = || step.checks.iter().try_for_each(|own| check(own, &views[own.input]));
        if !step.checks_itself() {
            checks()?;
        }
        let are_within = step.caught(&views, &mut written, cancel)?;
        // Says which one it was.
        if are_within { Ok(()) } else { checks() }
    }
}

impl Step {
    /// [Computes](Step::compute) it, and names it in the error.
    ///
    /// # Errors
    /// Those of computing it, also a panic.
    pub(super) fn caught<'a>(&self, views: &[View<'a>], written: &mut [ViewMut<'a>], cancel: &Cancel) -> Result<bool> {
        let computed = catch_unwind(AssertUnwindSafe(|| self.compute(views, written, cancel)));
        // A kernel that nobody wants any more unwinds, too (`looks.rs`).
        cancel.check()?;
        let computed = computed.unwrap_or_else(|panic| Err(from_panic(&*panic)));
        computed.map_err(|error| error.of(self.op.row().name, &self.label))
    }
}

/// Who wants to know how long steps take, if anybody does.
pub(super) struct Watching<'a> {
    watch: Option<&'a Watch>,
    /// The number of this run's graph among those that it watches.
    graph: usize,
    profile: Option<&'a Profile>,
}

impl Watching<'_> {
    /// When a step begins.
    pub fn now(&self) -> Option<Instant> {
        (self.watch.is_some() || self.profile.is_some()).then(Instant::now)
    }

    /// A step has ended.
    pub fn step(&self, executable: &Executable, number: usize, began: Option<Instant>) {
        let Some(began) = began else { return };
        let step = &executable.steps[number];
        if let Some(watch) = self.watch {
            let described = || Description { sources: executable.sources()[number].clone(), ..step.profiled() };
            watch.step(step.op.row().name, &step.label, StepNumber { graph: self.graph, step: number }, began, described);
        }
        if let Some(profile) = self.profile {
            profile.took(number, began.elapsed());
        }
    }
}
