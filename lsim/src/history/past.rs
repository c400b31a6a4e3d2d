//! Reads the history of a live cluster from its journal: jobs with their real running times and energies, nodes,
//! changes of settings, and its figures.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use limo_journal::{Entry, HistoryEntry};
use limo_model::{
    Attempt, Became, Condition, Cores, Dependency, Energy, Eviction, JobEnd, JobId, Money, NodeSpec, Part, Power,
    Preset, Profile, ProfileKey, Request, Span, StopReason, Time, UnitKind,
};
use limo_sched::{Array, Command, Core, Event, Finished, Options};
use limo_trace::Platform;

use super::figures::{Evictions, Figures};
use super::platform::platform;
use super::replay::Replay;
use super::work::Works;
use crate::engine::{Change, Spending};
use crate::output::Metrics;
use crate::record::{ByState, Fate, Heading, JobRow, Sample};

/// Job of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastJob {
    pub id: JobId,
    /// Request; its dependencies are indices into the history.
    pub request: Request,
    pub submitted: Time,
    /// Number of the user, in order of appearance.
    pub user: i32,
    /// Cores on all of its nodes together.
    pub processors: u32,
    /// Run of the job; `None` if it never ran.
    pub ran: Option<Ran>,
}

/// A measured run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Duration of the last attempt without its suspensions, and the work of earlier ones that checkpoints kept.
    pub span: Span,
    /// True if the run ended by itself; otherwise it would have been longer.
    pub whole: bool,
    /// True if the run ended by itself with a failure.
    pub failed: bool,
    /// True if the caps of the run never moved.
    pub steady: bool,
    /// Draw above idle; `None` if unknown.
    pub draw: Option<Power>,
    pub hardware: String,
    pub cap: Option<Power>,
}

/// The history; see the module.
pub struct Past {
    pub start: Time,
    /// Time of the last entry.
    pub end: Time,
    pub jobs: Vec<PastJob>,
    /// Submissions, cancellations, nodes and settings, in their order.
    pub changes: Vec<(Time, Change)>,
    pub nodes: Vec<NodeSpec>,
    /// Draws of the nodes.
    pub platform: Platform,
    /// Profiles at the end.
    pub profiles: BTreeMap<ProfileKey, Profile>,
    pub preset: Preset,
    pub options: Options,
    /// Figures of the original.
    pub figures: Figures,
    /// Number of unfinished jobs.
    pub unfinished: usize,
    /// Number of entries that the core replays differently.
    pub differences: u64,
}

impl Past {
    /// Reads a whole journal.
    ///
    /// # Errors
    /// If the journal cannot be read, or nothing was ever submitted.
    pub fn read(place: &Path) -> Result<Self> {
        let mut replay = Replay::open(place)?;
        let mut reader = Reader::default();
        while let Some(entry) = replay.read()? {
            if let Some(core) = replay.core() {
                reader.hold_until(core, entry.at);
            }
            let before = replay.core().map(|core| *core.sums());
            let accepted = replay.run(&entry).is_none();
            reader.differences += u64::from(!accepted);
            let Some((core, before)) = replay.core().zip(before) else { continue };
            reader.spending.book(before.draw, before.since, core.sums().since);
            reader.take(core, &entry, accepted);
        }
        let (Some((start, end)), Some(core)) = (replay.extent, replay.core()) else {
            bail!("{}: the journal has no entries", place.display());
        };
        if reader.jobs.is_empty() {
            bail!("{}: no job was ever submitted", place.display());
        }
        if reader.nodes.is_empty() {
            bail!("{}: no node ever registered", place.display());
        }
        Ok(reader.finish(core, (start, end)))
    }

    /// Returns the hardware of a placement, and its cap.
    pub fn unit(&self, placement: &[Part]) -> Option<(&str, Option<Power>)> {
        unit(&self.nodes, placement)
    }
}

fn unit<'n>(nodes: &'n [NodeSpec], placement: &[Part]) -> Option<(&'n str, Option<Power>)> {
    let part = placement.first()?;
    let unit = nodes.get(part.unit.node.0 as usize)?.units.get(usize::from(part.unit.unit))?;
    Some((unit.hardware.as_str(), part.cap))
}

/// State of the reader.
struct Reader {
    jobs: Vec<PastJob>,
    ids: BTreeMap<JobId, usize>,
    /// Number of tasks of each array.
    arrays: BTreeMap<JobId, u32>,
    users: BTreeMap<String, i32>,
    changes: Vec<(Time, Change)>,
    nodes: Vec<NodeSpec>,
    metrics: Metrics,
    sampled: Option<Time>,
    spending: Spending,
    differences: u64,
    work: Works,
    evictions: Evictions,
}

impl Default for Reader {
    fn default() -> Self {
        // Only sums and means are used, which need no heading.
        let heading = Heading::unnamed(1, Time::from_unix_ms(0));
        Self {
            jobs: Vec::new(),
            ids: BTreeMap::new(),
            arrays: BTreeMap::new(),
            users: BTreeMap::new(),
            changes: Vec::new(),
            nodes: Vec::new(),
            metrics: Metrics::new(&heading),
            sampled: None,
            spending: Spending::default(),
            differences: 0,
            work: Works::default(),
            evictions: Evictions::new(),
        }
    }
}

impl Reader {
    /// Continues until `until`, because prices and limits may change without an entry.
    fn hold_until(&mut self, core: &Core, until: Time) {
        let Some(mut at) = self.sampled else { return };
        let settings = core.settings();
        let next = |at| {
            let price = settings.prices.as_ref().and_then(|prices| prices.next_change(at));
            [settings.limits.next_change(at), price].into_iter().flatten().min()
        };
        while let Some(step) = next(at).filter(|step| *step < until) {
            self.metrics.add_sample(&sample(core, step));
            at = step;
        }
        self.sampled = Some(at);
    }

    fn take(&mut self, core: &Core, entry: &HistoryEntry, accepted: bool) {
        // If the clock was set back, the core's time stood still.
        let at = self.sampled.map_or(entry.at, |last| last.max(entry.at));
        match &entry.entry {
            Entry::Event(event) if accepted => self.event(core, at, event),
            Entry::Event(_) => {}
            Entry::Round(round) => {
                for command in &round.commands {
                    self.work.command(core, command);
                    if let Command::Stop { job, attempt, why: StopReason::Evicted { node, why: Eviction::Owner } } =
                        command
                    {
                        self.evicted(*job, *attempt, node);
                    }
                }
                round.finished.iter().for_each(|finished| self.finished(finished));
            }
        }
        self.metrics.add_sample(&sample(core, at));
        self.sampled = Some(at);
    }

    fn evicted(&mut self, job: JobId, attempt: Attempt, node: &str) {
        self.evictions.entry((number(job), attempt)).or_insert_with(|| node.to_owned());
    }

    fn event(&mut self, core: &Core, at: Time, event: &Event) {
        self.work.event(at, event, |job| core.job(job).map_or(Span::ZERO, |job| job.kept.ran));
        match event {
            Event::Submitted { job, request } => self.submitted(*job, request, at),
            // Each task is a separate job in the simulation.
            Event::ArraySubmitted { job, tasks, request } => {
                for place in 0..tasks.count() {
                    self.submitted(Array::job_at(*job, place), request, at);
                }
                self.arrays.insert(*job, tasks.count());
            }
            Event::CancelRequested { job, by } => {
                let tasks = self.arrays.get(job).copied().unwrap_or(0);
                let jobs = std::iter::once(*job).chain((0..tasks).map(|place| Array::job_at(*job, place)));
                let cancel = |index: &usize| (at, Change::Cancel { index: *index, by: by.clone() });
                self.changes.extend(jobs.filter_map(|job| self.ids.get(&job)).map(cancel));
            }
            Event::Held { job, .. }
            | Event::Released { job, .. }
            | Event::RequeueRequested { job, .. }
            | Event::SuspendRequested { job, .. }
            | Event::ResumeRequested { job, .. }
            | Event::Predicted { job, .. }
            | Event::TimeLimitSet { job, .. }
            | Event::PrioritySet { job, .. } => {
                let steer = |index: &usize| (at, Change::Steer { index: *index, event: Box::new(event.clone()) });
                self.changes.extend(self.ids.get(job).map(steer));
            }
            // The core of the simulation evicts, too, by the time at which the owner came.
            Event::Evicted { job, attempt, node, why: Eviction::Owner } => {
                let name = core.node(*node).map(|node| node.spec().name.clone()).unwrap_or_default();
                self.evicted(*job, *attempt, &name);
            }
            // The simulation itself makes these events.
            Event::Evicted { .. }
            | Event::TakenBack { .. }
            | Event::NumbersRaised { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::PartEnded { .. }
            | Event::Readings { .. }
            | Event::Asleep { .. }
            | Event::Awake { .. }
            | Event::Capped { .. }
            | Event::Paused { .. }
            | Event::Metered { .. } => {}
            other => {
                if let Event::NodeUp { spec } | Event::NodeAdded { spec, .. } = other
                    && core.nodes().len() > self.nodes.len()
                {
                    self.nodes.push(spec.clone());
                }
                if let Event::BudgetsSet { budgets, .. } = other {
                    self.spending.follow(budgets, at);
                }
                self.changes.push((at, Change::Event(Box::new(other.clone()))));
            }
        }
    }

    fn submitted(&mut self, id: JobId, request: &Request, submitted: Time) {
        let next = i32::try_from(self.users.len()).unwrap_or(i32::MAX);
        let user = *self.users.entry(request.user.clone()).or_insert(next);
        let widest = || {
            let units = self.nodes.iter().flat_map(|node| &node.units).filter(|unit| unit.kind == UnitKind::Cpu);
            units.map(|unit| unit.cores).max().unwrap_or(1)
        };
        let cores = match request.cores {
            Cores::Count(count) => count.get(),
            Cores::All => widest(),
        };
        let index = self.jobs.len();
        let processors = cores.saturating_mul(request.nodes.get());
        let mut request = request.clone();
        if let Some(conditions) = &mut request.conditions {
            let place = |on: &mut Dependency| on.job = JobId(self.ids.get(&on.job).map_or(0, |place| *place as u64));
            conditions.dependencies.iter_mut().for_each(place);
        }
        self.jobs.push(PastJob { id, request, submitted, user, processors, ran: None });
        self.ids.insert(id, index);
        self.changes.push((submitted, Change::Submit(index)));
    }

    fn finished(&mut self, finished: &Finished) {
        let Some(index) = self.ids.get(&finished.job).copied() else { return };
        let (fate, whole) = match &finished.end {
            // A job stopped at its time limit has run for all of its time.
            JobEnd::Ran { stopped, .. } => (
                if stopped.is_some() { Fate::Killed } else { Fate::Completed },
                matches!(stopped, None | Some(StopReason::TimeLimit { .. })),
            ),
            JobEnd::Cancelled { .. } | JobEnd::Unmet { .. } => (Fate::Unfinished, false),
            JobEnd::Refused { .. } => (Fate::Refused, false),
        };
        let work = self.work.take(finished.job);
        if let (JobEnd::Ran { .. }, Some((hardware, cap))) = (&finished.end, unit(&self.nodes, &finished.placement)) {
            // The energy includes that of all attempts.
            let (span, all) = (work.kept + work.last, work.before + work.last);
            let draw = Some(if all > Span::ZERO { finished.account.energy.over(all) } else { Power::ZERO });
            let failed = whole && !Became::of(&finished.end).meets(Condition::AfterOk);
            let (steady, hardware) = (finished.steady || !work.moved, hardware.to_owned());
            self.jobs[index].ran = Some(Ran { span, whole, failed, steady, draw, hardware, cap });
        }
        let end = finished.started.map(|_| finished.ended);
        let (energy, cost) = (finished.account.energy, finished.account.cost);
        let row = row(&self.jobs[index], fate);
        self.metrics.add_job(&JobRow { start: finished.started, end, energy, cost, ..row });
    }

    fn finish(mut self, core: &Core, (start, end): (Time, Time)) -> Past {
        let mut unfinished = 0;
        for (id, job) in core.jobs() {
            let Some(index) = self.ids.get(&id).copied() else { continue };
            unfinished += 1;
            let started = job.running().map(|running| running.started);
            let placement = job.assignment().map_or(&[][..], |assignment| &assignment.placement);
            if let (Some(started), Some((hardware, cap))) = (started, unit(&self.nodes, placement)) {
                let (span, hardware) = (job.kept.ran + (end - started), hardware.to_owned());
                let steady = job.running().is_some_and(|running| running.steady);
                self.jobs[index].ran =
                    Some(Ran { span, whole: false, failed: false, steady, draw: None, hardware, cap });
            }
            let row = row(&self.jobs[index], Fate::Unfinished);
            self.metrics.add_job(&JobRow { start: started, ..row });
        }
        self.hold_until(core, end);
        self.metrics.end(end);
        self.changes.push((end, Change::Nothing));
        let figures = Figures::of(&self.metrics, self.spending.periods(), end - start, self.evictions);
        let settings = core.settings();
        Past {
            start,
            end,
            jobs: self.jobs,
            changes: self.changes,
            platform: platform(&self.nodes),
            nodes: self.nodes,
            profiles: core.profiles().clone(),
            preset: settings.preset,
            options: settings.options,
            figures,
            unfinished,
            differences: self.differences,
        }
    }
}

fn number(job: JobId) -> i64 {
    i64::try_from(job.0).unwrap_or(i64::MAX)
}

/// Returns the data of a job before it runs.
pub fn row(job: &PastJob, fate: Fate) -> JobRow<'static> {
    JobRow {
        number: number(job.id),
        submit: job.submitted,
        processors: job.processors,
        walltime: job.request.time_limit,
        user: job.user,
        fate,
        start: None,
        end: None,
        allocated: &[],
        energy: Energy::ZERO,
        cost: None::<Money>,
    }
}

/// Samples the master's belief about its cluster.
fn sample(core: &Core, at: Time) -> Sample {
    let settings = core.settings();
    let band = settings.limits.band(at);
    let draw = core.sums().drawn();
    Sample {
        at,
        draw,
        believed: draw,
        limit: Some(band.high()).filter(|high| !high.is_unlimited()),
        lower: Some(band.low()).filter(|low| !low.is_zero()),
        budget: None,
        price: settings.prices.as_ref().and_then(|prices| prices.at(at).copied()),
        queued: 0,
        running: 0,
        processors: ByState::default(),
    }
}
