//! A timeline's loop, which its thread has, and now and then a thread that asks for something: whoever has it works in its order.

use super::inline::{Budget, timed};
use super::reports::Reports;
use super::run::{Look, Loop, Report};
use super::spin_wait::SpinWait;
use super::task::{ENDED, Task};
use crate::backend::Backend;
use crate::done::because;
use crossbeam_channel::{Receiver, Select, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct SharedLoop<B: Backend> {
    /// Nothing once the timeline has ended.
    state: Mutex<Option<Loop<B>>>,
    reports: Arc<Reports<Report<B>>>,
    leaves_a_core: bool,
}

impl<B: Backend> SharedLoop<B> {
    pub fn new(backend: B, state: impl FnOnce(B, Arc<Reports<Report<B>>>) -> Loop<B>) -> (SharedLoop<B>, Receiver<()>) {
        let (reports, woken) = Reports::new();
        let (reports, leaves_a_core) = (Arc::new(reports), backend.leaves_a_core());
        let state = Mutex::new(Some(state(backend, reports.clone())));
        (SharedLoop { state, reports, leaves_a_core }, woken)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Loop<B>>> {
        // Who panicked has left word of it, or is the timeline's thread, and has ended.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The timeline's thread has the loop. A panic of whoever did something in its place is its own.
    fn with<R>(&self, work: impl FnOnce(&mut Loop<B>) -> R) -> R {
        let mut guard = self.lock();
        let state = guard.as_mut().expect("only this thread ends it");
        if let Some(panic) = state.panicked.take() {
            resume_unwind(panic);
        }
        self.reports.attend();
        let result = work(state);
        while !self.reports.leave() {
            state.hear_all();
        }
        result
    }

    /// The life of the timeline's thread, until it is told to stop or nobody can send any more.
    pub fn run(&self, tasks: &mut Option<Receiver<Task>>, woken: &Receiver<()>) {
        tasks.as_ref().into_iter().for_each(|tasks| self.serve(tasks, woken));
        // What has not begun is dropped, and thereby reported. What is under way uses memory of the caller's: it is waited
        // for, which is short, since the backend was told to cancel.
        because(ENDED, || drop(tasks.take()));
        while !self.with(Loop::is_over) {
            woken.recv().expect("the reports hold a sender");
        }
    }

    fn serve(&self, tasks: &Receiver<Task>, woken: &Receiver<()>) {
        let mut spin_wait = SpinWait::new(self.leaves_a_core);
        loop {
            let _ = woken.try_recv();
            let all_is_done = match self.with(|state| state.look(tasks)) {
                Look::End => return,
                Look::Worked => continue,
                Look::Idle { all_is_done } => all_is_done,
            };
            if spin_wait.finds(!all_is_done, || !tasks.is_empty() || !self.reports.is_empty()) {
                continue;
            }
            let asleep = spin_wait.sleeps(all_is_done);
            // Nothing is taken without the loop: who finds no task there, and has the loop, knows that none is on its way.
            let mut select = Select::new();
            let asked = select.recv(tasks);
            select.recv(woken);
            if select.ready() == asked {
                spin_wait.wakes(asleep);
            }
        }
    }

    /// Carries a task out on the calling thread, if the timeline has nothing else to do and there is room for it, or has the backend's threads
    /// carry it out.
    ///
    /// # Errors
    /// The task, where it has to be sent.
    pub fn attempt(&self, task: Task, budget: Budget, tasks: &Sender<Task>) -> Result<(), Task> {
        let Ok(mut guard) = self.state.try_lock() else { return Err(task) };
        let Some(state) = guard.as_mut() else { return Err(task) };
        if !tasks.is_empty() {
            return Err(task);
        }
        if state.fits_budget(&task, budget) {
            self.reports.attend();
            if !self.guarded(state, |state| timed(|| state.carry_out(task, budget))) {
                self.reports.leave();
                return Ok(());
            }
            while !self.reports.leave() {
                state.hear_all();
            }
        } else if state.may_hand_over(&task) {
            self.guarded(state, |state| state.hand_over(task));
        } else {
            return Err(task);
        }
        Ok(())
    }

    /// Does something in the place of the timeline's thread. A panic is the timeline's, as on its own thread, and makes this false.
    fn guarded(&self, state: &mut Loop<B>, work: impl FnOnce(&mut Loop<B>)) -> bool {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(state))) else { return true };
        state.panicked = Some(panic);
        self.reports.wake();
        false
    }

    /// Lets go of everything.
    pub fn end(&self) {
        let state = self.lock().take();
        self.reports.end();
        drop(state);
    }
}
