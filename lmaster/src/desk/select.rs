//! Which jobs a client means, and what becomes of those: their numbers are told, they are ended, or sent a signal.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{JobId, Tasks};
use limo_proto::{Answer, JobReport, MasterToClient, MasterToNode, Selection, Selector};
use limo_sched::{Phase, Refused};

use super::changes::{ENDING, LAST_SIGNAL};
use super::clients::Asked;
use super::commit::After;
use super::{Caller, Desk, PeerId, Question};

/// What a client wants with jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To know their numbers; with `live` of those alone that are not over.
    Tell {
        live: bool,
    },
    Cancel,
    Signal(i32),
}

/// A selection while the journal is asked for what it names.
#[derive(Debug)]
pub(super) struct Selecting {
    pub(super) selection: Selection,
    pub(super) purpose: Purpose,
    /// The tasks of those of its arrays that are over.
    over: BTreeMap<JobId, Tasks>,
}

impl Selecting {
    pub(super) fn new(selection: Selection, purpose: Purpose) -> Self {
        Self { selection, purpose, over: BTreeMap::new() }
    }
}

impl Desk {
    pub(super) fn select(&mut self, peer: PeerId, selecting: Selecting) {
        let over = |selector: &Selector| match selector {
            Selector::Tasks(own, _) if self.tasks_of(*own).is_none() => Some(*own),
            _ => None,
        };
        let over: Vec<JobId> = selecting.selection.which.iter().filter_map(over).collect();
        if over.is_empty() {
            self.select_among(peer, selecting);
        } else {
            self.ask(peer, Question::Jobs(over), Asked::Arrays(peer, Box::new(selecting)));
        }
    }

    /// These jobs are over; the arrays among them have tasks.
    pub(super) fn arrays_found(&mut self, peer: PeerId, mut selecting: Selecting, finished: Vec<JobReport>) {
        let tasks = |report: JobReport| report.array.map(|array| (report.job, array.tasks));
        selecting.over.extend(finished.into_iter().filter_map(tasks));
        self.select_among(peer, selecting);
    }

    fn select_among(&mut self, peer: PeerId, selecting: Selecting) {
        let Some(caller) = self.caller(peer) else { return };
        if selecting.selection.which.contains(&Selector::Last) {
            let question = Question::NewestOf(caller.uid);
            self.ask(peer, question, Asked::Selection(peer, Box::new(selecting)));
        } else {
            self.selected(peer, &selecting, None);
        }
    }

    /// `newest` is the caller's newest job, where that was asked for.
    pub(super) fn selected(&mut self, peer: PeerId, selecting: &Selecting, newest: Option<JobId>) {
        let Some(caller) = self.caller(peer).cloned() else { return };
        let Selecting { selection, purpose, .. } = selecting;
        let found = self.found_jobs(&caller, selecting, newest).and_then(|jobs| match purpose {
            Purpose::Tell { .. } => Ok(jobs),
            Purpose::Cancel => self.all_may_be_steered(peer, jobs),
            Purpose::Signal(signal) => {
                let jobs = self.all_may_be_steered(peer, jobs)?;
                self.that_take(*signal, jobs, selection)
            }
        });
        let jobs = match found {
            Ok(jobs) => jobs,
            Err(reason) => return self.refuse(peer, reason, None),
        };
        for job in &jobs {
            match purpose {
                Purpose::Tell { .. } => {}
                Purpose::Cancel => self.cancel_for(peer, *job),
                Purpose::Signal(signal) => self.send_signal(peer, *job, *signal),
            }
        }
        let answer = MasterToClient::Answer(Box::new(Answer::Selected(jobs)));
        match purpose {
            Purpose::Tell { .. } => self.after_read(After::Answer(peer, answer)),
            Purpose::Cancel | Purpose::Signal(_) => self.answer(peer, answer),
        }
    }

    fn found_jobs(&self, caller: &Caller, selecting: &Selecting, newest: Option<JobId>) -> Result<Vec<JobId>, String> {
        let Selecting { selection: Selection { which, filter }, purpose, over } = selecting;
        let live = *purpose != (Purpose::Tell { live: false });
        // What is about to become a job can be cancelled, and not looked at.
        let known = |job| match purpose {
            Purpose::Cancel | Purpose::Signal(_) if self.is_known(job) => Ok(job),
            _ => self.known(job, live),
        };
        let is_own = |id: &JobId| self.live.get(id).is_some_and(|live| live.uid == caller.uid);
        let own = || self.core.jobs().map(|(id, _)| id).filter(is_own);
        let mut jobs: Vec<JobId> = Vec::new();
        for selector in which {
            match selector {
                Selector::Job(job) => jobs.push(known(*job)?),
                Selector::Last => {
                    let none = || format!("{} has not submitted a job yet", caller.user);
                    jobs.push(known(newest.ok_or_else(none)?)?);
                }
                Selector::All => jobs.extend(own()),
                Selector::Range(from, to) => jobs.extend(self.in_range(*from, *to, live)?),
                Selector::Tasks(own, tasks) => {
                    let all = self.tasks_of(*own).or_else(|| over.get(own));
                    let all = all.ok_or_else(|| format!("there is no array {own}"))?;
                    jobs.extend(self.tasks_named((*own, all), tasks, *purpose)?);
                }
            }
        }
        if which.is_empty() && filter.users.is_empty() {
            jobs.extend(own());
        } else if which.is_empty() {
            jobs.extend(self.core.jobs().filter(|(_, job)| filter.users.contains(&job.request.user)).map(|(id, _)| id));
        }
        let mut seen = BTreeSet::new();
        jobs.retain(|job| seen.insert(*job));
        if !filter.is_empty() {
            let report = |job: &JobId| self.core.job(*job).map(|found| self.job_report(*job, found));
            jobs.retain(|job| report(job).is_some_and(|report| filter.passes(&report)));
        }
        Ok(jobs)
    }

    fn known(&self, job: JobId, live: bool) -> Result<JobId, String> {
        if live && self.core.job(job).is_none() {
            return Err(Refused::NoSuchJob { job }.to_string());
        }
        if job >= self.core.next_job() {
            return Err(format!("there is no job {job}"));
        }
        Ok(job)
    }

    fn in_range(&self, from: JobId, to: JobId, live: bool) -> Result<Vec<JobId>, String> {
        let last = JobId(to.0.min(self.core.next_job().0.saturating_sub(1)));
        // The end of one that is in `live` alone is being written.
        let is_live = |id: &JobId| self.core.job(*id).is_some();
        let jobs: Vec<JobId> = if live {
            self.live.range(from..).map(|(id, _)| *id).take_while(|id| *id <= last).filter(is_live).collect()
        } else {
            (from.0..=last.0).map(JobId).collect()
        };
        match (jobs.is_empty(), live) {
            (false, _) => Ok(jobs),
            (true, true) => Err(format!("no job of {from}-{to} waits or runs")),
            (true, false) => Err(match last.0 {
                0 => format!("there is no job of {from}-{to}: none was submitted yet"),
                _ => format!("there is no job of {from}-{to}: the newest is {last}"),
            }),
        }
    }

    fn all_may_be_steered(&self, peer: PeerId, jobs: Vec<JobId>) -> Result<Vec<JobId>, String> {
        jobs.iter().try_for_each(|job| self.may_steer(peer, *job))?;
        Ok(jobs)
    }

    /// Those to which the signal can be sent. One that was named by itself must be among them.
    fn that_take(&self, signal: i32, mut jobs: Vec<JobId>, selection: &Selection) -> Result<Vec<JobId>, String> {
        if !(1..=LAST_SIGNAL).contains(&signal) {
            return Err(format!("{signal} is not a signal: 1 to {LAST_SIGNAL}"));
        }
        let takes = |job: &JobId| {
            let phase = self.core.job(*job).map(|job| &job.phase);
            ENDING.contains(&signal) || matches!(phase, Some(Phase::Running(..) | Phase::Suspended(..)))
        };
        let named = |job: &&JobId| selection.which.contains(&Selector::Job(**job));
        if let Some(job) = jobs.iter().filter(named).find(|job| !takes(job)) {
            return Err(format!("job {job} does not run yet: nobody is there to take signal {signal}"));
        }
        jobs.retain(takes);
        Ok(jobs)
    }

    /// A signal for a job that may be steered: a running one gets it, another is ended where the signal ends commands.
    pub(super) fn send_signal(&mut self, peer: PeerId, job: JobId, signal: i32) {
        match self.core.job(job).map(|job| &job.phase) {
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
