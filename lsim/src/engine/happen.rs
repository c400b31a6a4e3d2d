//! Events of a simulation: due events, and effects of commands of the core: starts, ends, switches, changes of
//! settings, and readings of the site's meter.

use std::cmp::Reverse;

use limo_model::{Attempt, Energy, JobId, Money, NodeId, Outcome, Span, StopReason, Usage};
use limo_sched::{Command, Event, Sleep};

use super::ledger::Switched;
use super::visits::each;
use super::{Change, Load, Present, Run, Running, Simulation, SimulationError};
use crate::record::{Fate, JobRow, Sink};

/// A due event. At equal times events come in the order of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Nodes are awake; the number is the key of the entry in `switches`.
    Awake(u64),
    Asleep(u64),
    /// A node has started anew.
    Rebooted(NodeId),
    Start(JobId, Attempt),
    /// The attempt was cancelled, or has reached its time limit.
    Stop(JobId, Attempt),
    /// The attempt makes room, and its job will run again.
    Requeue(JobId, Attempt),
    /// An attempt ends. If several attempts end together, the one that started first ends first. `full` is true if it
    /// has run for all of its walltime.
    End {
        started: u64,
        job: JobId,
        attempt: Attempt,
        full: bool,
    },
    /// The user of a job removes it.
    Remove(JobId),
    Meter,
}

/// Way in which a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ByItself,
    Told,
}

/// Energy and cost of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    pub energy: Energy,
    /// Cost; `None` without prices.
    pub cost: Option<Money>,
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    pub fn obey(&mut self, command: Command) -> Result<(), SimulationError> {
        match command {
            Command::Start { job, attempt, placement, estimate, after } => {
                let Some(present) = self.jobs.get(job) else { return Ok(()) };
                let running = self.load.running(present.index, &placement, &estimate);
                // The queue of a job may have given it a time limit.
                let walltime = self.core.job(job).and_then(|job| job.request.time_limit);
                let (running, sections) = self.in_sections(job, present.index, Running { walltime, ..running });
                let Some(present) = self.jobs.get_mut(job) else { return Ok(()) };
                present.run = Some(Box::new(Run {
                    attempt,
                    placement,
                    running,
                    started: None,
                    order: 0,
                    moved: None,
                    before: Energy::ZERO,
                    still: Span::ZERO,
                    still_since: None,
                    sections,
                }));
                if after.is_empty() {
                    self.start_when_awake(job)?;
                }
            }
            Command::Release { job, .. } => self.start_when_awake(job)?,
            Command::Stop { job, attempt, why: StopReason::Cancelled { .. } | StopReason::UsedUp { .. } } => {
                // The next round must see the nodes that become free.
                self.due.push(Reverse((self.now, Due::Stop(job, attempt))));
            }
            Command::Stop {
                job,
                attempt,
                why:
                    StopReason::Requeued { .. }
                    | StopReason::RequeuedBy { .. }
                    | StopReason::Unconfirmed { .. }
                    | StopReason::Evicted { .. }
                    | StopReason::GivenUp { .. },
            } => {
                self.steered.any = true;
                self.due.push(Reverse((self.now, Due::Requeue(job, attempt))));
            }
            Command::Stop { job, attempt, why: StopReason::TimeLimit { .. } } => {
                // Other jobs end at their walltime at the latest.
                if self.steered.tasks.contains_key(&job) {
                    self.due.push(Reverse((self.now, Due::Stop(job, attempt))));
                }
            }
            Command::Cap { node, generation, caps } => self.cap(node, generation, caps)?,
            Command::Suspend { job, attempt } => self.pause(job, attempt, true)?,
            Command::Resume { job, attempt } => self.pause(job, attempt, false)?,
            Command::Resize { job, placement, .. } => self.resize(job, placement),
            // The effect on the job is part of its running time.
            Command::Signal { .. } | Command::UsedUp { .. } => {}
            Command::Sleep { nodes } => {
                self.note_all(&nodes, |facts| facts.switched = Switched::Down);
                for (at, runs) in self.machine.sleep(&nodes) {
                    self.switched += 1;
                    self.switches.insert(self.switched, runs);
                    self.due.push(Reverse((at, Due::Asleep(self.switched))));
                }
            }
            Command::Wake { nodes } => self.wake(&nodes),
        }
        Ok(())
    }

    /// Wakes sleeping nodes.
    pub fn wake(&mut self, nodes: &[(NodeId, u32)]) {
        self.note_all(nodes, |facts| facts.switched = Switched::Up);
        for (at, runs) in self.machine.wake(nodes) {
            self.switched += 1;
            self.switches.insert(self.switched, runs);
            self.due.push(Reverse((at, Due::Awake(self.switched))));
        }
    }

    /// Starts a job now, or when its nodes are awake and ready.
    fn start_when_awake(&mut self, id: JobId) -> Result<(), SimulationError> {
        let Some(run) = self.jobs.get(id).and_then(|job| job.run.as_ref()) else { return Ok(()) };
        let (waking, delay) = (self.machine.awake_at(&run.placement), run.running.delay);
        if waking.is_none() && delay <= Span::ZERO {
            return self.start(id);
        }
        let attempt = run.attempt;
        self.due.push(Reverse((waking.unwrap_or(self.now) + delay, Due::Start(id, attempt))));
        Ok(())
    }

    fn start(&mut self, id: JobId) -> Result<(), SimulationError> {
        let Some(run) = self.jobs.get_mut(id).and_then(|job| job.run.as_mut()) else { return Ok(()) };
        run.started = Some(self.now);
        let attempt = run.attempt;
        let running = run.running;
        let takes = running.walltime.map_or(running.run, |walltime| running.run.min(walltime));
        self.machine.compute(&run.placement, running.draw);
        self.started += 1;
        run.order = self.started;
        let full = running.walltime == Some(takes);
        self.due.push(Reverse((self.now + takes, Due::End { started: self.started, job: id, attempt, full })));
        self.note_job(id, |facts| facts.running += 1);
        self.apply(&Event::Started { job: id, attempt })?;
        self.begin_capped(id);
        Ok(())
    }

    pub fn happen(&mut self, due: Due) -> Result<(), SimulationError> {
        match due {
            Due::Awake(switch) => {
                let nodes = self.switches.remove(&switch).unwrap_or_default();
                self.machine.awake(&nodes);
                self.note_all(&nodes, |facts| facts.switched = Switched::Awake);
                self.apply(&Event::Awake { nodes: nodes.clone() })?;
                self.reboot_awake(&nodes)
            }
            Due::Asleep(switch) => {
                let nodes = self.switches.remove(&switch).unwrap_or_default();
                self.machine.asleep(&nodes);
                self.note_all(&nodes, |facts| facts.switched = Switched::Asleep);
                self.apply(&Event::Asleep { nodes: nodes.clone() })?;
                if self.visiting.is_some() {
                    each(&nodes).for_each(|node| self.wake_for_owner(node));
                }
                self.reboot_awake(&nodes)
            }
            Due::Rebooted(node) => self.rebooted(node),
            Due::Start(id, attempt) if self.is_attempt(id, attempt) => self.start(id),
            Due::Start(..) => Ok(()),
            Due::Remove(job) if self.core.job(job).is_some() => {
                self.apply(&Event::CancelRequested { job, by: "user".to_owned() })
            }
            Due::Remove(_) => Ok(()),
            Due::Stop(job, attempt) => self.end(job, attempt, Way::Told),
            Due::Requeue(job, attempt) => self.requeue(job, attempt),
            Due::End { job, attempt, full, .. } if self.is_end(job, attempt, full) => {
                self.end(job, attempt, Way::ByItself)
            }
            Due::End { .. } => Ok(()),
            Due::Meter => self.meter(),
        }
    }

    fn is_attempt(&self, id: JobId, attempt: Attempt) -> bool {
        self.jobs.get(id).and_then(|job| job.run.as_ref()).is_some_and(|run| run.attempt == attempt)
    }

    /// Begins the reboots that waited for nodes to be awake or asleep.
    fn reboot_awake(&mut self, runs: &[(NodeId, u32)]) -> Result<(), SimulationError> {
        match self.visiting {
            Some(_) => each(runs).try_for_each(|node| {
                self.usable_if_awake(node)?;
                self.reboot_if_pending(node)
            }),
            None => Ok(()),
        }
    }

    fn end(&mut self, id: JobId, attempt: Attempt, way: Way) -> Result<(), SimulationError> {
        let Some(Present { index, run: Some(run) }) = self.jobs.remove(id) else { return Ok(()) };
        let late = || run.running.walltime.is_some_and(|walltime| run.running.run > walltime);
        let was_steered = self.steered.tasks.contains_key(&id);
        let killed = way == Way::Told || (!was_steered && late());
        if !killed && !was_steered && !self.load.fails(index) {
            self.learn((id, index), &run, self.now - run.started.unwrap_or(self.now))?;
        }
        if self.visiting.is_some() {
            let kept = self.core.job(id).map_or(Span::ZERO, |job| job.kept.ran);
            self.count_ended(index, &run, (kept, killed));
        }
        let used = self.leave(id, &run);
        self.row(id, index, (&run, used), killed)?;
        let outcome = if killed { Outcome::Signaled(15) } else { Outcome::Exited(self.load.fails(index).into()) };
        let usage = Usage { elapsed: self.now - run.started.unwrap_or(self.now), ..Usage::default() };
        self.apply(&Event::Ended { job: id, attempt, outcome, usage })?;
        self.reboot_after(&run.placement)
    }

    /// Removes a run from its nodes. Returns the energy and cost.
    #[inline]
    pub fn leave(&mut self, id: JobId, run: &Run) -> Used {
        let started = run.started.unwrap_or(self.now);
        let span = self.now - started;
        let task = if self.steered.tasks.is_empty() { None } else { self.steered.tasks.remove(&id) };
        let energy = match &task {
            None => self.machine.energy_of(&run.placement, span, run.running.draw),
            Some(task) => {
                let here = self.now - run.moved.unwrap_or(started);
                run.before + self.machine.idle_energy_of(&run.placement, here) + task.used(self.now)
            }
        };
        if run.started.is_some() {
            self.machine.give(&run.placement, task.map_or(run.running.draw, |task| Some(task.draw())));
            self.note_end(run);
        }
        Used { energy, cost: self.core.cost_on(&run.placement, energy, (started, span)) }
    }

    /// Reports a finished job, with the energy of its earlier attempts.
    #[inline]
    pub fn row(
        &mut self,
        id: JobId,
        index: usize,
        (run, used): (&Run, Used),
        killed: bool,
    ) -> Result<(), SimulationError> {
        let lost = if self.steered.lost.is_empty() { None } else { self.steered.lost.remove(&id) };
        let (lost_energy, lost_cost) = lost.unwrap_or_default();
        self.intervals.clear();
        for part in &run.placement {
            let (first, last) = (part.unit.node.0, part.unit.node.0 + part.count - 1);
            match self.intervals.last_mut() {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => self.intervals.push((first, last)),
            }
        }
        self.intervals.sort_unstable();
        let fate = if killed { Fate::Killed } else { Fate::Completed };
        if !self.load.counts(index) {
            return Ok(());
        }
        self.sink.job(&JobRow {
            start: Some(run.started.unwrap_or(self.now)),
            end: Some(self.now),
            allocated: &self.intervals,
            energy: used.energy + lost_energy,
            cost: Money::of_known(used.cost, lost_cost),
            ..self.load.row(index, fate)
        })?;
        Ok(())
    }

    /// Makes the changes that are due; returns true if there were any.
    pub fn change_all(&mut self) -> Result<bool, SimulationError> {
        let load = self.load;
        let before = self.next_change;
        while let Some((_, change)) = load.changes().get(self.next_change).filter(|(at, _)| *at <= self.now) {
            self.next_change += 1;
            match change {
                Change::Event(event) => self.record(event),
                Change::Submit(index) => self.submit(*index)?,
                Change::Steer { index, event } => self.steer(*index, event),
                Change::Cancel { index, by } => {
                    let job = self.job_of(*index);
                    // The simulated job may be over before the time of its cancellation.
                    if let Some(job) = job {
                        self.apply(&Event::CancelRequested { job, by: by.clone() })?;
                    }
                }
                Change::Nothing => {}
            }
        }
        Ok(self.next_change > before)
    }

    /// Returns the job at `index`, if it is not over.
    pub fn job_of(&self, index: usize) -> Option<JobId> {
        self.jobs.iter().find(|(_, job)| job.index == index).map(|(id, _)| id)
    }

    /// Applies an event to the job, unless the job's simulated state forbids it.
    fn steer(&mut self, index: usize, event: &Event) {
        let Some(job) = self.job_of(index) else { return };
        let event = match event {
            Event::Held { by, .. } => Event::Held { job, by: by.clone() },
            Event::Released { by, .. } => Event::Released { job, by: by.clone() },
            Event::RequeueRequested { by, .. } => Event::RequeueRequested { job, by: by.clone() },
            Event::SuspendRequested { by, .. } => Event::SuspendRequested { job, by: by.clone() },
            Event::ResumeRequested { by, .. } => Event::ResumeRequested { job, by: by.clone() },
            Event::Predicted { predicted, .. } => Event::Predicted { job, predicted: predicted.clone() },
            Event::PrioritySet { priority, by, .. } => Event::PrioritySet { job, priority: *priority, by: by.clone() },
            Event::TimeLimitSet { limit, by, .. } => Event::TimeLimitSet { job, limit: *limit, by: by.clone() },
            _ => return,
        };
        let _ = self.core.apply(self.now, &event);
    }

    fn record(&mut self, event: &Event) {
        // A node that is asleep in the simulation has no daemon that could be lost or found.
        let sleeps = |node: &limo_sched::Node| node.sleep() != Sleep::Awake;
        let asleep = match event {
            Event::NodeUp { spec } => self.core.node_named(&spec.name).is_some_and(sleeps),
            Event::NodeAway { node } => self.core.node(*node).is_some_and(sleeps),
            _ => false,
        };
        let nodes = self.core.nodes().len();
        if asleep || self.core.apply(self.now, event).is_err() {
            return;
        }
        if self.core.nodes().len() > nodes {
            self.machine.join(NodeId(u32::try_from(nodes).unwrap_or(u32::MAX)));
        }
        if matches!(
            event,
            Event::BudgetsSet { .. } | Event::LimitsSet { .. } | Event::GridLimited { .. } | Event::PricesSet { .. }
        ) {
            self.follow_settings();
        }
    }

    /// Takes over changed budgets, limits or prices.
    pub fn follow_settings(&mut self) {
        let budgets = &self.core.settings().budgets;
        self.spending.follow(budgets, self.now);
        if !self.metering {
            let next = budgets.from_then_on(self.now).first().map(|budget| budget.from.max(self.now));
            self.metering = next.is_some();
            self.due.extend(next.map(|at| Reverse((at, Due::Meter))));
        }
        self.follow_steps();
    }

    /// Finds the next step of limits and prices.
    pub fn follow_steps(&mut self) {
        let settings = self.core.settings();
        let price = settings.prices.as_ref().and_then(|prices| prices.next_change(self.now));
        self.step_at = [settings.limits.next_change(self.now), price].into_iter().flatten().min();
    }

    /// Reads the site's meter: at the start of each budget period, at every monitoring stage, and at the end. If
    /// another period begins at an end, the end is omitted, because the energy belongs to the new period.
    fn meter(&mut self) -> Result<(), SimulationError> {
        let uj = self.machine.energy_uj() - self.metered_uj;
        self.metered_uj += uj;
        let mut budgets = self.core.settings().budgets.iter();
        let begins = budgets.clone().any(|budget| budget.from == self.now);
        if !begins && budgets.any(|budget| budget.from < self.now && self.now <= budget.until) {
            // The energy is rounded up, so that the energy used is never understated.
            let mj = uj.div_euclid(1_000) + i128::from(uj.rem_euclid(1_000) != 0);
            self.apply(&Event::Metered { energy: Energy::from_mj(i64::try_from(mj).unwrap_or(i64::MAX)) })?;
        }
        let every = self.core.settings().options.monitor_every.max(Span::from_ms(1));
        let budgets = &self.core.settings().budgets;
        let next = match budgets.at(self.now) {
            Some(budget) => Some((self.now + every).min(budget.until)),
            None => budgets.iter().map(|budget| budget.from).find(|from| *from > self.now),
        };
        self.metering = next.is_some();
        self.due.extend(next.map(|at| Reverse((at, Due::Meter))));
        Ok(())
    }
}
