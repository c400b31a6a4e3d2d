//! Queries of clients. The list is in `proto`; the code for each is beside its subject.

use limo_model::{JobId, Request, application};
use limo_proto::{
    Answer, DryRun, DryRunQuery, EnergyBy, EnergyQuery, EnergyReport, ExplainQuery, Finished, JobFilter, JobQuery,
    JobReport, JobsQuery, NodesQuery, ProfilesQuery, Query, ReservationsQuery, StatusQuery, encoded_len,
};
use limo_sched::{Job, Prospect};

use super::dependencies::Wanted;
use super::groups::limited;
use super::lookup::Lookup;
use super::pages::{Cursor, PAGE};
use super::queues::list_of;
use super::sift::Sieve;
use super::signals::prices_by_operator;
use super::{Controller, PeerId};
use crate::database::Database;
use crate::{energy, report};

/// Most finished jobs in one answer. A client asks for a longer history in parts.
const HISTORY_PAGE: u32 = 1_000;

/// Most jobs that are checked for one answer: a few milliseconds without service for other requests.
const LOOKS: usize = 20_000;

/// Cost of a report that the filter rejects, in encoded bytes.
const REPORT_COST: usize = 100;

/// A finished job.
#[derive(Debug)]
struct JobLookup(JobId);

impl Lookup for JobLookup {
    type Found = Option<JobReport>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.finished_job(self.0).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, finished: Self::Found) {
        controller.found(peer, self.0, finished);
    }
}

#[derive(Debug)]
struct EnergyLookup(EnergyQuery);

impl Lookup for EnergyLookup {
    type Found = EnergyReport;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<EnergyReport> {
        from.energy(self.0.clone()).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, report: EnergyReport) {
        controller.energy_found(peer, &self.0.by, report);
    }
}

/// Serves queries of one type without changing anything.
pub(super) trait Serve {
    fn serve(self, controller: &mut Controller, peer: PeerId);
}

macro_rules! dispatch {
    ($($name:ident($query:ty), $cost:ident, $answer:ty: match $how:tt;)+) => {
        impl Controller {
            pub(super) fn query(&mut self, peer: PeerId, query: Query) {
                match query {
                    $(Query::$name(query) => query.serve(self, peer),)+
                }
            }
        }
    };
}

limo_proto::for_each_query!(dispatch);

impl Serve for JobsQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.jobs(peer, (self.filter, self.from), self.ended);
    }
}

impl Serve for JobQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        match controller.tx.core.job(self.0) {
            Some(job) => controller.say(peer, Answer::Jobs(vec![controller.job_report(self.0, job)])),
            None => controller.ask(peer, JobLookup(self.0)),
        }
    }
}

impl Serve for ExplainQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.explain(peer, self.0);
    }
}

impl Serve for NodesQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.tell_pages(peer, Cursor::nodes());
    }
}

impl Serve for StatusQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let status = controller.status();
        controller.say(peer, Answer::Status(Box::new(status)));
    }
}

impl Serve for ProfilesQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let profiles = controller.tx.core.profiles().iter().map(|(key, profile)| (key.clone(), *profile)).collect();
        controller.say(peer, Answer::Profiles(profiles));
    }
}

impl Serve for DryRunQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.dry_run(peer, self.0);
    }
}

impl Serve for Finished {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let limit = self.limit.min(HISTORY_PAGE);
        controller.tell_pages(peer, Cursor::history(Finished { limit, ..self }));
    }
}

impl Serve for EnergyQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.ask(peer, EnergyLookup(self));
    }
}

impl Serve for ReservationsQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let shown = |reservation| controller.tx.core.clock().shown_reservation(reservation);
        let all =
            controller.tx.core.reservations().iter().map(|(name, reservation)| (name.clone(), shown(reservation)));
        let all = all.collect();
        controller.say(peer, Answer::Reservations(all));
    }
}

impl Controller {
    pub(super) fn status(&self) -> limo_proto::Status {
        let trouble = self.tx.commits.trouble().map(str::to_owned);
        let sources = self.signals.grid.arbiter.reports(self.tx.wall());
        let status = report::status(&self.tx.core, self.tx.now, trouble, &sources);
        limo_proto::Status {
            prices_by: prices_by_operator(&self.tx),
            feeds: self.signals.feed_reports(),
            meters: self.tx.metering.reports(&self.tx.core, self.tx.now),
            foreign: self.nodes.foreign.reports(self.tx.now, self.tx.core.clock()),
            groups: limited(&self.tx.core),
            ..status
        }
    }

    fn jobs(&mut self, peer: PeerId, (filter, from): (JobFilter, JobId), ended: u32) {
        let sieve = Sieve::new(&filter);
        let core = &self.tx.core;
        let mut live: Box<dyn Iterator<Item = (JobId, &Job)>> = match filter.steps_of {
            Some(of) => Box::new(core.steps_of(of).filter(|(step, _)| *step >= from)),
            None => Box::new(core.jobs_from(from)),
        };
        let (mut jobs, mut size) = (Vec::new(), 0);
        for (id, job) in live.by_ref().take(LOOKS) {
            if self.is_folded(id, job) || !sieve.may_pass(job) {
                continue;
            }
            let report = self.job_report(id, job);
            size += REPORT_COST;
            if sieve.passes(&report) {
                size += encoded_len(&report);
                jobs.push(report);
            }
            if size >= PAGE {
                break;
            }
        }
        let next = live.next().map(|(next, _)| next);
        drop(live);
        if let Some(next) = next {
            return self.say(peer, Answer::JobsUpTo { jobs, next });
        }
        if ended > 0 {
            let finished = Finished { filter, since: None, until: None, after: None, limit: ended };
            self.tell_pages(peer, Cursor::jobs(jobs, finished));
        } else {
            self.say(peer, Answer::Jobs(jobs));
        }
    }

    fn energy_found(&mut self, peer: PeerId, by: &EnergyBy, mut report: EnergyReport) {
        // The journal has no data about meters.
        for sum in report.sums.iter_mut().filter(|sum| sum.seen.is_some()) {
            let node = self.tx.core.node_named(&sum.key);
            if node.is_some_and(|node| node.spec().meter == limo_model::Meter::Emulated) {
                sum.emulated = std::mem::take(&mut sum.measured);
            }
        }
        if *by == EnergyBy::Group {
            report.sums = energy::by_group(report.sums, &self.tx.core.settings().groups);
        }
        self.say(peer, Answer::Energy(Box::new(report)));
    }

    fn found(&mut self, peer: PeerId, job: JobId, finished: Option<JobReport>) {
        if let Some(report) = finished {
            self.say(peer, Answer::Jobs(vec![report]));
        } else if let Some((own, _)) = self.tx.core.array_of(job) {
            let hint = format!("lq show {own}");
            self.refuse(peer, format!("job {job} is a task of array {own} whose turn has not come"), Some(&hint));
        } else {
            self.refuse(peer, format!("there is no job {job}"), None);
        }
    }

    fn explain(&mut self, peer: PeerId, id: JobId) {
        let Some(job) = self.tx.core.job(id) else {
            let reason = format!("there is no waiting or running job {id}");
            let hint = format!("lq show {id} tells of one that is over");
            return self.refuse(peer, reason, Some(&hint));
        };
        let explanation = report::explanation(&self.tx.core, self.tx.now, &job.request, self.job_report(id, job));
        self.say(peer, Answer::Explanation(Box::new(explanation)));
    }

    fn dry_run(&mut self, peer: PeerId, mut request: Box<Request>) {
        let Some(caller) = self.caller(peer).cloned() else { return };
        request.user = caller.user;
        match application::of_user(&request.user, &request.application) {
            Ok(application) => request.application = application,
            Err(error) => return self.refuse(peer, error.to_string(), None),
        }
        let user = request.user.clone();
        if let Err(refused) = self.tx.core.resolve(&mut request, &user, &caller.groups) {
            return self.refuse(peer, refused.to_string(), Some(list_of(&refused)));
        }
        if let Err(error) = request.settle(|request| self.tx.core.offered_cores(request)) {
            return self.refuse(peer, error.to_string(), None);
        }
        request.predicted = self.predicted(&request, (false, self.tx.wall()));
        if let Err(reason) = self.may_submit_at(peer, request.priority) {
            return self.refuse(peer, reason, Some("lrun without --priority"));
        }
        self.with_dependencies(peer, Wanted::DryRun(request));
    }

    /// Tries a request whose dependencies are known.
    pub(super) fn try_out(&mut self, peer: PeerId, request: &Request) {
        let prospect = match self.tx.core.dry_run(self.tx.now, request) {
            Ok(prospect) => prospect,
            Err(refused) => return self.refuse(peer, refused.to_string(), None),
        };
        let mut candidates = report::candidates(&self.tx.core, (self.tx.now, self.tx.now), request);
        let (start, wait) = match prospect {
            Prospect::Starts { unit, estimate } => {
                let here = |candidate: &&limo_proto::Candidate| {
                    candidate.estimate == estimate
                        && unit.is_none_or(|unit| report::is_at(&self.tx.core, unit, candidate))
                };
                (candidates.iter().find(here).cloned(), None)
            }
            Prospect::Waits(wait) | Prospect::Refused(wait) => {
                let wait = self.tx.core.still(self.tx.now, self.tx.core.next_job(), wait);
                (None, Some(wait.moved(self.tx.core.clock().offset)))
            }
        };
        let more = report::shorten(&mut candidates);
        self.say(peer, Answer::DryRun(Box::new(DryRun { start, wait, candidates, more })));
    }
}
