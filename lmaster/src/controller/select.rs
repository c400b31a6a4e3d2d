//! Selections of jobs by clients, and the action on them: list their numbers, end them, or send them a signal.

use std::collections::BTreeMap;

use limo_model::{JobId, Tasks};
use limo_proto::{JobFilter, JobReport, MasterToNode, SelectQuery, Selection, Selector};
use limo_sched::{Phase, Refused};

use super::changes::{ENDING, LAST_SIGNAL};
use super::deeds::Deed;
use super::lookup::Lookup;
use super::numbers::Numbers;
use super::pages::Cursor;
use super::queries::Serve;
use super::{Caller, Controller, PeerId};
use crate::database::Database;

/// Most array tasks that one request may list; repeated tasks count each time. If an array is larger, all its tasks
/// are selected by the array.
const TASKS_LIMIT: u64 = 100_000;

/// The purpose of a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// List the numbers; with `live` only of unfinished jobs.
    Tell {
        live: bool,
    },
    Cancel,
    Signal(i32),
}

/// A selection during its query of the journal.
#[derive(Debug)]
pub(super) struct Selecting {
    pub(super) selection: Selection,
    pub(super) purpose: Purpose,
    /// Tasks of its finished arrays.
    over: BTreeMap<JobId, Tasks>,
}

impl Selecting {
    pub(super) fn new(selection: Selection, purpose: Purpose) -> Self {
        Self { selection, purpose, over: BTreeMap::new() }
    }

    /// Returns true if the jobs are ended or sent a signal.
    fn changes_something(&self) -> bool {
        !matches!(self.purpose, Purpose::Tell { .. })
    }
}

/// Finished arrays of a selection.
#[derive(Debug)]
struct ArraysLookup {
    over: Numbers,
    selecting: Selecting,
}

impl Lookup for ArraysLookup {
    type Found = Vec<JobReport>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.finished_jobs(&self.over.iter().collect::<Vec<_>>()).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, finished: Self::Found) {
        controller.arrays_found(peer, self.selecting, finished);
    }

    fn changes_something(&self) -> bool {
        self.selecting.changes_something()
    }
}

/// The caller's newest job, for a selection that includes it.
#[derive(Debug)]
struct NewestLookup {
    uid: u32,
    selecting: Selecting,
}

impl Lookup for NewestLookup {
    type Found = Option<JobId>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.newest_of(self.uid).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, newest: Self::Found) {
        controller.selected(peer, self.selecting, newest);
    }

    fn changes_something(&self) -> bool {
        self.selecting.changes_something()
    }
}

impl Serve for SelectQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let Self { selection, live } = self;
        controller.select(peer, Selecting::new(selection, Purpose::Tell { live }));
    }
}

impl Controller {
    pub(super) fn select(&mut self, peer: PeerId, selecting: Selecting) {
        let Some(caller) = self.caller(peer) else { return };
        if let Err(reason) = check(&selecting.selection, self.tx.settings.limits.of(caller.operator).selectors) {
            return self.refuse(peer, reason, None);
        }
        let over = |selector: &Selector| match selector {
            Selector::Tasks(own, _) if self.tasks_of(*own).is_none() => Some(*own),
            _ => None,
        };
        let over: Numbers = selecting.selection.which.iter().filter_map(over).collect();
        if over.is_empty() {
            self.select_among(peer, selecting);
        } else {
            self.ask(peer, ArraysLookup { over, selecting });
        }
    }

    /// Handles the finished jobs; the arrays among them have tasks.
    fn arrays_found(&mut self, peer: PeerId, mut selecting: Selecting, finished: Vec<JobReport>) {
        let tasks = |report: JobReport| report.array.map(|array| (report.job, array.tasks));
        selecting.over.extend(finished.into_iter().filter_map(tasks));
        self.select_among(peer, selecting);
    }

    fn select_among(&mut self, peer: PeerId, selecting: Selecting) {
        let Some(caller) = self.caller(peer) else { return };
        if selecting.selection.which.contains(&Selector::Last) {
            let uid = caller.uid;
            self.ask(peer, NewestLookup { uid, selecting });
        } else {
            self.selected(peer, selecting, None);
        }
    }

    /// Continues a selection. `newest` is the caller's newest job, if requested.
    fn selected(&mut self, peer: PeerId, selecting: Selecting, newest: Option<JobId>) {
        let Some(caller) = self.caller(peer) else { return };
        match self.found_jobs(caller, &selecting, newest) {
            Ok(jobs) if selecting.selection.filter.is_empty() => self.chosen(peer, &selecting, jobs),
            Ok(jobs) => self.tell_pages(peer, Cursor::sift(selecting, jobs)),
            Err(reason) => self.refuse(peer, reason, None),
        }
    }

    /// Acts on the selected jobs.
    pub(super) fn chosen(&mut self, peer: PeerId, Selecting { selection, purpose, .. }: &Selecting, jobs: Numbers) {
        let (deed, jobs) = match purpose {
            Purpose::Tell { .. } => return self.tell_pages(peer, Cursor::selected(jobs)),
            Purpose::Cancel => (Deed::Cancel, self.all_may_be_steered(peer, jobs)),
            Purpose::Signal(signal) => {
                let jobs = self.all_may_be_steered(peer, jobs);
                (Deed::Signal(*signal), jobs.and_then(|jobs| self.that_take(*signal, jobs, selection)))
            }
        };
        match jobs {
            Ok(jobs) => self.do_all_selected(peer, deed, jobs),
            Err(reason) => self.refuse(peer, reason, None),
        }
    }

    /// Returns the jobs of a selection before its filter.
    fn found_jobs(&self, caller: &Caller, selecting: &Selecting, newest: Option<JobId>) -> Result<Numbers, String> {
        let Selecting { selection: Selection { which, filter }, purpose, over } = selecting;
        let live = *purpose != (Purpose::Tell { live: false });
        // A task that is not yet a job can be cancelled, but not shown.
        let known = |job| match purpose {
            Purpose::Cancel | Purpose::Signal(_) if self.is_known(job) => Ok(job),
            _ => self.known(job, live),
        };
        let is_there = |id: &JobId| self.tx.core.job(*id).is_some();
        let own = || {
            let own = self.submissions.all().values().filter(|live| live.uid == caller.uid);
            own.filter(|live| live.request.step.is_none()).map(|live| live.job).filter(is_there)
        };
        let (mut ranges, mut all) = (Vec::new(), which.is_empty() && filter.users.is_empty());
        let mut live_ranges = Vec::new();
        for selector in which {
            match selector {
                Selector::Job(job) => ranges.push(only(known(*job)?)),
                Selector::Last => {
                    let none = || format!("{} has not submitted a job yet", caller.user);
                    ranges.push(only(known(newest.ok_or_else(none)?)?));
                }
                Selector::All => all = true,
                Selector::Range(from, to) if live => live_ranges.push(self.in_range(*from, *to, live)?),
                Selector::Range(from, to) => ranges.push(self.in_range(*from, *to, live)?),
                Selector::Tasks(own, tasks) => {
                    let all = self.tasks_of(*own).or_else(|| over.get(own));
                    let all = all.ok_or_else(|| format!("there is no array {own}"))?;
                    ranges.extend(self.tasks_named((*own, all), tasks, *purpose)?.into_iter().map(only));
                }
            }
        }
        if all {
            ranges.extend(own().map(only));
        } else if which.is_empty() {
            // Jobs of the users in the filter.
            ranges.extend(self.tx.core.jobs().map(|(id, _)| only(id)));
        }
        for (first, last) in Numbers::of_ranges(live_ranges).ranges() {
            let found = self.submissions.numbers(JobId(*first)..=JobId(*last));
            ranges.extend(found.filter(is_there).filter(|job| !self.is_step(*job)).map(only));
        }
        Ok(Numbers::of_ranges(ranges))
    }

    fn known(&self, job: JobId, live: bool) -> Result<JobId, String> {
        if live && self.tx.core.job(job).is_none() {
            return Err(Refused::NoSuchJob { job }.to_string());
        }
        if job >= self.tx.core.next_job() {
            return Err(format!("there is no job {job}"));
        }
        Ok(job)
    }

    /// Returns the first and the last number of a range with jobs in it.
    fn in_range(&self, from: JobId, to: JobId, live: bool) -> Result<(u64, u64), String> {
        let last = JobId(to.0.min(self.tx.core.next_job().0.saturating_sub(1)));
        // The end of a job that is only in `live` is being written.
        let is_live = |id: &JobId| self.tx.core.job(*id).is_some();
        let found = match live {
            true => from <= last && self.submissions.numbers(from..=last).any(|id| is_live(&id)),
            false => from <= last,
        };
        match (found, live) {
            (true, _) => Ok((from.0, last.0)),
            (false, true) => Err(format!("no job of {from}-{to} waits or runs")),
            (false, false) => Err(match last.0 {
                0 => format!("there is no job of {from}-{to}: none was submitted yet"),
                _ => format!("there is no job of {from}-{to}: the newest is {last}"),
            }),
        }
    }

    fn all_may_be_steered(&self, peer: PeerId, jobs: Numbers) -> Result<Numbers, String> {
        jobs.iter().try_for_each(|job| self.may_steer(peer, job))?;
        Ok(jobs)
    }

    /// Keeps the jobs that can get the signal. A single job must be among them.
    fn that_take(&self, signal: i32, mut jobs: Numbers, selection: &Selection) -> Result<Numbers, String> {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return Err(format!("{signal} is not a signal: 1 to {LAST_SIGNAL}"));
        }
        let takes = |job: &JobId| {
            let phase = self.tx.core.job(*job).map(|job| &job.phase);
            ENDING.contains(&signal) || matches!(phase, Some(Phase::Running(..) | Phase::Suspended(..)))
        };
        let mut named = selection.which.iter().filter_map(|selector| match selector {
            Selector::Job(job) => Some(*job),
            _ => None,
        });
        if let Some(job) = named.find(|job| jobs.contains(*job) && !takes(job)) {
            return Err(format!("job {job} does not run yet: no process can receive signal {signal}"));
        }
        jobs.retain(takes);
        Ok(jobs)
    }

    /// Sends a signal to a job that the caller may control. A running job gets it; another is ended if the signal ends
    /// commands.
    pub(super) fn send_signal(&mut self, peer: PeerId, job: JobId, signal: i32) {
        match self.tx.core.job(job).map(|job| &job.phase) {
            Some(Phase::Running(assignment, _) | Phase::Suspended(assignment, ..)) => {
                let attempt = assignment.attempt;
                for link in self.open_links(job) {
                    self.tell_node(link, MasterToNode::Signal { job, attempt, signal });
                }
            }
            _ if ENDING.contains(&signal) => self.cancel_for(peer, job),
            _ => {}
        }
    }
}

/// Returns a range of one number.
fn only(job: JobId) -> (u64, u64) {
    (job.0, job.0)
}

/// Checks that a selection is short enough to be looked up.
fn check(selection: &Selection, limit: u32) -> Result<(), String> {
    let JobFilter { users, states, names, nodes, queues, steps_of: _ } = &selection.filter;
    let limit = limit as usize;
    for (what, count) in [
        ("selectors", selection.which.len()),
        ("users", users.len()),
        ("states", states.len()),
        ("names", names.len()),
        ("nodes", nodes.len()),
        ("queues", queues.len()),
    ] {
        if count > limit {
            return Err(format!("the request has {count} {what}: the limit is {limit}"));
        }
    }
    let tasks = |selector: &Selector| match selector {
        Selector::Tasks(_, tasks) => u64::from(tasks.count()),
        _ => 0,
    };
    let tasks: u64 = selection.which.iter().map(tasks).sum();
    if tasks > TASKS_LIMIT {
        return Err(format!("the request names {tasks} tasks: the limit is {TASKS_LIMIT}"));
    }
    Ok(())
}
