//! Questions: none of them changes anything.

use std::collections::BTreeSet;

use limo_model::{JobId, Request};
use limo_proto::{Answer, DryRun, EnergyReport, Finished, JobFilter, JobReport, MasterToClient, Query};
use limo_sched::Prospect;

use super::clients::Asked;
use super::commit::After;
use super::dependencies::Wanted;
use super::select::{Purpose, Selecting};
use super::{Desk, PeerId, Question};
use crate::report;

/// Most finished jobs in one answer: some megabytes. A longer history is asked for in several.
const HISTORY_PAGE: u32 = 1_000;

/// Most jobs that are looked at for one answer: some megabytes, and a few milliseconds in which nobody else is served.
const JOBS_PAGE: usize = 2_000;

/// A client that waits until jobs are over.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) peer: PeerId,
    jobs: Vec<JobId>,
    left: BTreeSet<JobId>,
}

impl Desk {
    pub(super) fn query(&mut self, peer: PeerId, query: Query) {
        match query {
            Query::Jobs { filter, from, ended } => self.jobs(peer, (filter, from), ended),
            Query::Job(id) => match self.core.job(id) {
                Some(job) => self.list(peer, vec![self.job_report(id, job)], Vec::new()),
                None => self.ask(peer, Question::Jobs(vec![id]), Asked::Job(peer, id)),
            },
            Query::Explain(id) => self.explain(peer, id),
            Query::Wait(jobs) => self.wait(peer, jobs),
            Query::Nodes => {
                let nodes = self.core.known_nodes().map(|node| report::node(&self.core, node, self.now)).collect();
                self.say(peer, Answer::Nodes(nodes));
            }
            Query::Status => {
                let trouble = self.book.trouble().map(str::to_owned);
                let sources = self.grid.arbiter.reports(self.wall());
                let status = report::status(&self.core, self.now, trouble, &sources);
                let (prices_by, feeds, meters) = (self.prices_by_operator(), self.feed_reports(), self.meter_reports());
                self.say(peer, Answer::Status(Box::new(limo_proto::Status { prices_by, feeds, meters, ..status })));
            }
            Query::Profiles => {
                let profiles = self.core.profiles().iter().map(|(key, profile)| (key.clone(), *profile)).collect();
                self.say(peer, Answer::Profiles(profiles));
            }
            Query::DryRun(request) => self.dry_run(peer, request),
            Query::Node(name) => self.probe(peer, &name),
            Query::Readings { node, from, until } => self.readings(peer, node, (from, until)),
            Query::Select { selection, live } => {
                self.select(peer, Selecting::new(selection, Purpose::Tell { live }));
            }
            Query::History(finished) => self.history(peer, finished),
            Query::Users => self.users(peer),
            Query::Energy(query) => self.ask(peer, Question::Energy(query), Asked::Energy(peer)),
            Query::Changes(query) => self.changes(peer, query),
            Query::Reservations => {
                let all = self.core.reservations().iter();
                let all = all
                    .map(|(name, reservation)| (name.clone(), self.core.clock().shown_reservation(reservation)))
                    .collect();
                self.say(peer, Answer::Reservations(all));
            }
            Query::BackupPart { file, offset } => self.backup_part(peer, file, offset),
        }
    }

    pub(super) fn say(&mut self, peer: PeerId, answer: Answer) {
        self.after_read(After::Answer(peer, MasterToClient::Answer(Box::new(answer))));
    }

    fn jobs(&mut self, peer: PeerId, (filter, from): (JobFilter, JobId), ended: u32) {
        // A report costs more than a look at whose the job is.
        let may_pass = |job: &limo_sched::Job| {
            let among = |list: &[String], value: &String| list.is_empty() || list.contains(value);
            among(&filter.users, &job.request.user) && among(&filter.names, &job.request.name)
        };
        let live = self.core.jobs().skip_while(|(id, _)| *id < from);
        let mut live = live.filter(|(id, job)| !self.is_folded(*id, job) && may_pass(job));
        let reports = live.by_ref().take(JOBS_PAGE).map(|(id, job)| self.job_report(id, job));
        let jobs: Vec<JobReport> = reports.filter(|report| filter.passes(report)).collect();
        let next = live.next().map(|(next, _)| next);
        drop(live);
        if let Some(next) = next {
            return self.say(peer, Answer::JobsUpTo { jobs, next });
        }
        if ended > 0 {
            let finished = Finished { filter, since: None, until: None, after: None, limit: ended };
            self.ask(peer, Question::History(finished), Asked::List(peer, jobs));
        } else {
            self.list(peer, jobs, Vec::new());
        }
    }

    fn history(&mut self, peer: PeerId, mut finished: Finished) {
        let limit = finished.limit.min(HISTORY_PAGE);
        // One more, to know whether there are more.
        finished.limit = limit + 1;
        self.ask(peer, Question::History(finished), Asked::History(peer, limit));
    }

    pub(super) fn history_found(&mut self, peer: PeerId, limit: u32, mut jobs: Vec<JobReport>) {
        let more = jobs.len() > limit as usize;
        jobs.truncate(limit as usize);
        self.say(peer, Answer::History { jobs, more });
    }

    pub(super) fn energy_found(&mut self, peer: PeerId, mut report: Box<EnergyReport>) {
        // The journal does not know what a meter is.
        for sum in report.sums.iter_mut().filter(|sum| sum.seen.is_some()) {
            let node = self.core.node_named(&sum.key);
            if node.is_some_and(|node| node.spec().meter == limo_model::Meter::Emulated) {
                sum.emulated = std::mem::take(&mut sum.measured);
            }
        }
        self.say(peer, Answer::Energy(report));
    }

    /// Jobs in the order of their numbers, each once: one that ended while the journal was asked is in both lists.
    pub(super) fn list(&mut self, peer: PeerId, mut reports: Vec<JobReport>, finished: Vec<JobReport>) {
        let over: BTreeSet<JobId> = finished.iter().map(|report| report.job).collect();
        reports.retain(|report| !over.contains(&report.job));
        reports.extend(finished);
        reports.sort_by_key(|report| report.job);
        self.say(peer, Answer::Jobs(reports));
    }

    pub(super) fn found(&mut self, peer: PeerId, job: JobId, finished: Vec<JobReport>) {
        if let Some((own, _)) = self.core.array_of(job).filter(|_| finished.is_empty()) {
            let hint = format!("lq show {own}");
            self.refuse(peer, format!("job {job} is a task of array {own} whose turn has not come"), Some(&hint));
        } else if finished.is_empty() {
            self.refuse(peer, format!("there is no job {job}"), None);
        } else {
            self.list(peer, Vec::new(), finished);
        }
    }

    fn explain(&mut self, peer: PeerId, id: JobId) {
        let Some(job) = self.core.job(id) else {
            let reason = format!("there is no waiting or running job {id}");
            let hint = format!("lq show {id} tells of one that is over");
            return self.refuse(peer, reason, Some(&hint));
        };
        let explanation = report::explanation(&self.core, self.now, &job.request, self.job_report(id, job));
        self.say(peer, Answer::Explanation(Box::new(explanation)));
    }

    fn dry_run(&mut self, peer: PeerId, mut request: Box<Request>) {
        if let Some(caller) = self.caller(peer) {
            request.user.clone_from(&caller.user);
        }
        if let Err(error) = request.settle(self.core.offered_cores(&request)) {
            return self.refuse(peer, error.to_string(), None);
        }
        self.with_dependencies(peer, Wanted::DryRun(request));
    }

    /// All that the request depends on is known.
    pub(super) fn try_out(&mut self, peer: PeerId, request: &Request) {
        let prospect = match self.core.dry_run(self.now, request) {
            Ok(prospect) => prospect,
            Err(refused) => return self.refuse(peer, refused.to_string(), None),
        };
        let candidates = report::candidates(&self.core, (self.now, self.now), request);
        let (start, wait) = match prospect {
            Prospect::Starts { unit, estimate } => {
                let here = |candidate: &&limo_proto::Candidate| {
                    candidate.estimate == estimate && unit.is_none_or(|unit| report::is_at(&self.core, unit, candidate))
                };
                (candidates.iter().find(here).cloned(), None)
            }
            Prospect::Waits(wait) | Prospect::Refused(wait) => (None, Some(wait.moved(self.core.clock().offset))),
        };
        self.say(peer, Answer::DryRun(Box::new(DryRun { start, wait, candidates })));
    }

    fn wait(&mut self, peer: PeerId, jobs: Vec<JobId>) {
        if let Some(unknown) = jobs.iter().find(|job| **job >= self.core.next_job() || job.0 == 0) {
            return self.refuse(peer, format!("there is no job {unknown}"), None);
        }
        // An accepted job is live until its end is on disk.
        let is_live = |job: &JobId| self.live.contains_key(job) || self.is_known(*job);
        let left: BTreeSet<JobId> = jobs.iter().copied().filter(is_live).collect();
        if left.is_empty() {
            return self.waited(peer, jobs);
        }
        let number = self.ticket().0;
        self.waiters.insert(number, Waiter { peer, jobs, left });
    }

    /// A job is over, and that is on disk; with an array all its tasks are, also those that never became jobs.
    pub(super) fn waited_for(&mut self, job: JobId, tasks: u32) {
        let all = job..=JobId(job.0 + u64::from(tasks));
        for waiter in self.waiters.values_mut() {
            let over: Vec<JobId> = waiter.left.range(all.clone()).copied().collect();
            for job in over {
                waiter.left.remove(&job);
            }
        }
        let done = self.waiters.extract_if(.., |_, waiter| waiter.left.is_empty());
        for (_, Waiter { peer, jobs, .. }) in done.collect::<Vec<_>>() {
            self.waited(peer, jobs);
        }
    }

    fn waited(&mut self, peer: PeerId, jobs: Vec<JobId>) {
        let ticket = self.ticket();
        self.asked.insert(ticket, Asked::Waited(peer));
        self.after_read(After::Ask(ticket, Question::Jobs(jobs)));
    }

    /// After a commit that failed: who waits for a job that was never accepted waits in vain.
    pub(super) fn waiters_of_lost_jobs(&mut self) {
        let (live, core) = (&self.live, &self.core);
        let is_live = |job: &JobId| live.contains_key(job) || core.job(*job).is_some() || core.array_of(*job).is_some();
        let lost = self.waiters.extract_if(.., |_, waiter| !waiter.left.iter().all(is_live));
        for (_, Waiter { peer, .. }) in lost.collect::<Vec<_>>() {
            self.refuse(peer, "a job of those that were waited for was never accepted", None);
        }
    }
}
