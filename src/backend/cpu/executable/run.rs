//! Runs the steps of an executable in order.

use super::Executable;
use super::regions::Regions;
use super::step::{Memory, Step};
use super::{sources, tables};
use crate::backend::Bindings;
use crate::backend::cpu::checks::check;
use crate::backend::cpu::storage::HostStorage;
use crate::cancel::Cancel;
use crate::done::from_panic;
use crate::error::Result;
use crate::watch::{Description, StepNumber};
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

    /// Runs the steps in order. Before each it gives way to whatever is more urgent.
    ///
    /// # Errors
    /// Those of [`Regions::new`], `OperationError` when a kernel fails, `InvalidStateError` when the context ends meanwhile.
    pub fn run(&self, bindings: &Bindings<HostStorage>, cancel: &Cancel, give_way: impl Fn()) -> Result<()> {
        let needed = self.needed(&bindings.outputs);
        let mut regions = Regions::new(self, bindings, needed.as_ref())?;
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
            give_way();
            cancel.check()?;
            let watched = watch.map(|_| Instant::now());
            self.run_step(step, &mut regions, cancel)?;
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
        let computed = catch_unwind(AssertUnwindSafe(|| step.compute(&views, &mut written, cancel)));
        // A kernel that nobody wants any more unwinds, too (`looks.rs`).
        cancel.check()?;
        let computed = computed.unwrap_or_else(|panic| Err(from_panic(&*panic)));
        let are_within = computed.map_err(|error| error.of(step.op.row().name, &step.label))?;
        // Says which one it was.
        if are_within { Ok(()) } else { checks() }
    }
}
