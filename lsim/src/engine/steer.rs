//! Changes to running jobs: moving caps, suspension, other nodes, and requeueing. Commands are performed and confirmed at once, as
//! by nodes without latency.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use limo_model::{
    Attempt, Energy, Eviction, JobId, Money, NodeId, Outcome, Part, Placement, Power, Slowdown, Span, StopReason,
    UnitId, Usage,
};
use limo_sched::Event;

use super::checkpoints::Checkpoints;
use super::happen::Due;
use super::machine::Machine;
use super::sections::Sections;
use super::task::{Task, evenly};
use super::{Load, Present, Running, Simulation, SimulationError};
use crate::record::{Fate, Sink, Steering};

/// State of changed runs; empty if jobs only start and end.
#[derive(Default)]
pub struct Steered {
    /// True once any run was changed. Most simulations never change a run, so they save the cost.
    pub any: bool,
    /// Runs that were capped or suspended.
    pub tasks: BTreeMap<JobId, Task>,
    /// Caps of nodes by unit, as set last.
    caps: BTreeMap<NodeId, Vec<Option<Power>>>,
    /// Energy and cost of jobs in attempts that were requeued.
    pub lost: BTreeMap<JobId, (Energy, Option<Money>)>,
    pub counts: Steering,
}

/// Returns the draw and the running time of a job on each unit of a placement.
fn on_units<L: Load>(
    load: &L,
    machine: &Machine,
    (index, running): (usize, &Running),
    placement: &[Part],
) -> Vec<(Power, Span)> {
    let units = load.by_unit(index, placement);
    if !units.is_empty() {
        return units;
    }
    let full = running.draw.unwrap_or_else(|| machine.extra(placement));
    evenly(full, limo_model::width(placement) as usize, running.run)
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    /// Sets the caps of a node's units.
    pub fn cap(&mut self, node: NodeId, generation: u64, caps: Vec<Option<Power>>) -> Result<(), SimulationError> {
        let before = self.steered.caps.insert(node, caps).unwrap_or_default();
        self.steered.any = true;
        self.steered.counts.caps += 1;
        for job in self.core.jobs_on(node) {
            let cap = |caps: &[Option<Power>], unit: UnitId| caps.get(usize::from(unit.unit)).copied().flatten();
            let after = self.steered.caps.get(&node).map_or(&[][..], Vec::as_slice);
            let is_other = |unit: UnitId| unit.node == node && cap(&before, unit) != cap(after, unit);
            let shares = self.shares(job, is_other);
            if !shares.is_empty() {
                let now = self.now;
                self.change(job, |task| task.hold(now, shares));
            }
        }
        self.apply(&Event::Capped { node, generation, failed: Vec::new() })
    }

    /// Returns the cap of a unit, as set last.
    fn cap_of(&self, unit: UnitId) -> Option<Power> {
        self.steered.caps.get(&unit.node)?.get(usize::from(unit.unit)).copied().flatten()
    }

    /// Returns a running job's shares of the caps of its units, by index among its units. `wanted` selects the units.
    fn shares(&self, job: JobId, wanted: impl Fn(UnitId) -> bool) -> Vec<(usize, Option<Power>)> {
        let run = self.jobs.get(job).and_then(|job| job.run.as_ref()).filter(|run| run.started.is_some());
        let placement = run.map_or(&[][..], |run| &run.placement);
        let units = placement.iter().flat_map(|part| part.units().map(move |unit| (unit, part.cores)));
        let share = |(unit, cores): (UnitId, u32)| {
            let spec = self.core.node(unit.node).and_then(|node| node.spec().units.get(usize::from(unit.unit)));
            let total = spec.map_or(cores, |spec| spec.cores).max(1);
            self.cap_of(unit).map(|cap| cap.scaled(i64::from(cores), i64::from(total)))
        };
        units.enumerate().filter(|(_, (unit, _))| wanted(*unit)).map(|(index, of)| (index, share(of))).collect()
    }

    /// Starts a job on units that may have caps.
    pub fn begin_capped(&mut self, job: JobId) {
        if self.steered.caps.is_empty() {
            return;
        }
        let shares = self.shares(job, |unit| self.cap_of(unit).is_some());
        if !shares.is_empty() {
            let now = self.now;
            self.change(job, |task| task.hold(now, shares));
        }
    }

    /// Suspends or resumes a job.
    pub fn pause(&mut self, job: JobId, attempt: Attempt, paused: bool) -> Result<(), SimulationError> {
        let now = self.now;
        let count = if paused { &mut self.steered.counts.suspended } else { &mut self.steered.counts.resumed };
        *count += 1;
        self.steered.any = true;
        self.change(job, |task| task.pause(now, paused));
        let run = self.jobs.get_mut(job).and_then(|present| present.run.as_mut());
        if let Some(run) = run.filter(|run| run.started.is_some())
            && run.stand_still(now, paused)
        {
            self.note_job(job, |facts| match paused {
                true => (facts.running, facts.still) = (facts.running - 1, facts.still + 1),
                false => (facts.running, facts.still) = (facts.running + 1, facts.still - 1),
            });
        }
        self.apply(&Event::Paused { job, attempt, paused })
    }

    /// Moves a running job to other nodes.
    pub fn resize(&mut self, id: JobId, placement: Placement) {
        self.steered.any = true;
        // Its task is that of the nodes that it leaves.
        self.change(id, |_| Power::ZERO);
        let Some(Present { run: Some(run), index }) = self.jobs.get_mut(id) else { return };
        let Some(estimate) = self.core.job(id).and_then(|job| job.assignment()).map(|of| of.estimate) else { return };
        let (now, index) = (self.now, *index);
        run.before += self.machine.idle_energy_of(&run.placement, now - run.since());
        run.moved = Some(now);
        // Only the idle draw: its own draw is that of the task.
        self.machine.give(&run.placement, Some(Power::ZERO));
        self.machine.compute(&placement, Some(Power::ZERO));
        let running = self.load.running(index, &placement, &estimate);
        let units = on_units(self.load, &self.machine, (index, &running), &placement);
        run.placement = placement;
        self.change(id, |task| task.resize(now, units));
    }

    /// Changes a run: its draw from now on, and the time of its end.
    fn change(&mut self, job: JobId, change: impl FnOnce(&mut Task) -> Power) {
        let Some(Present { run: Some(run), index }) = self.jobs.get(job) else { return };
        let Some(started) = run.started else { return };
        let task = self.steered.tasks.entry(job).or_insert_with(|| {
            let by_options = || Slowdown::Factor(self.core.settings().options.cap_factor_permille);
            let law = run.running.slowdown.unwrap_or_else(by_options);
            let units = on_units(self.load, &self.machine, (*index, &run.running), &run.placement);
            Task::new(units, law, (started, self.now))
        });
        let more = change(task);
        self.machine.draw_more(more);
        if let Some(at) = task.done_at() {
            let (started, attempt) = (run.order, run.attempt);
            self.due.push(Reverse((at.max(self.now), Due::End { started, job, attempt, full: false })));
        }
    }

    /// Returns true if this is the current end of that attempt; postponed ends still arrive. An attempt that makes room
    /// in this instant does not end by itself: the core expects it to run again.
    pub fn is_end(&self, job: JobId, attempt: Attempt, full: bool) -> bool {
        if !self.steered.any {
            return true;
        }
        let run = self.jobs.get(job).and_then(|present| present.run.as_ref());
        if run.is_none_or(|run| run.attempt != attempt) {
            return false;
        }
        let stop = self.core.job(job).and_then(|job| job.assignment()).and_then(|of| of.stop.as_ref());
        if stop.is_some_and(|(why, _)| why.runs_again()) {
            return false;
        }
        // A changed run has its own time limit, which may also be postponed.
        self.steered.tasks.get(&job).is_none_or(|task| !full && task.done_at().is_some_and(|at| at <= self.now))
    }

    /// Reduces a run by the work that earlier attempts kept, and adds the time of its checkpoints and its transfers.
    pub fn in_sections(&self, id: JobId, index: usize, running: Running) -> (Running, Sections) {
        let every = |cost| Some(Checkpoints { every: self.core.checkpoint_every(self.now, id)?, cost });
        let checkpoints = self.load.checkpoint_cost().and_then(every);
        let kept = if checkpoints.is_some() { self.core.job(id).map(|job| job.kept.ran) } else { None };
        let sections = Sections { transfer: self.load.transfer(index), checkpoints };
        let run = sections.running((running.run - kept.unwrap_or_default()).max(Span::ZERO));
        (Running { run, ..running }, sections)
    }

    /// Ends an attempt; its job runs again unless it was cancelled meanwhile.
    pub fn requeue(&mut self, id: JobId, attempt: Attempt) -> Result<(), SimulationError> {
        self.steered.any = true;
        let Some(present) = self.jobs.get_mut(id) else { return Ok(()) };
        let Some(run) = present.run.take_if(|run| run.attempt == attempt) else { return Ok(()) };
        let index = present.index;
        let stop = self.core.job(id).and_then(|job| job.assignment()).and_then(|of| of.stop.clone());
        let worked = self.steered.tasks.get(&id).map_or_else(|| run.worked(self.now), |task| task.worked(self.now));
        let done = run.done(worked);
        let made = done.made;
        if made.checkpoints > 0 {
            let took = made.cost.scaled(1, made.checkpoints);
            self.apply(&Event::Checkpointed { job: id, attempt, ran: made.kept, took, failed: None })?;
        }
        let kept = self.core.job(id).map_or(Span::ZERO, |job| job.kept.ran);
        let used = self.leave(id, &run);
        let usage = Usage { elapsed: self.now - run.started.unwrap_or(self.now), ..Usage::default() };
        self.apply(&Event::Ended { job: id, attempt, outcome: Outcome::Signaled(15), usage })?;
        if let Some((StopReason::Evicted { node, why }, _)) = stop {
            if why == Eviction::Owner {
                self.sink.evicted(self.load.row(index, Fate::Killed).number, attempt, &node);
            }
            let lost = self.core.job(id).is_none().then_some(kept);
            self.count_evicted(&run, why, done, lost);
        }
        self.reboot_after(&run.placement)?;
        if self.core.job(id).is_none() {
            self.jobs.remove(id);
            return self.row(id, index, (&run, used), true);
        }
        self.steered.counts.requeued += 1;
        let lost = self.steered.lost.entry(id).or_default();
        lost.0 += used.energy;
        lost.1 = Money::of_known(lost.1, used.cost);
        Ok(())
    }
}
