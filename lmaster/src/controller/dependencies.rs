//! Dependencies of a new job. The core has unfinished jobs; the journal has the ends of the others, and is queried
//! before the job is accepted. Dependencies that are already met are removed from the request.

use std::collections::BTreeSet;

use limo_model::{Became, Dependency, JobId, Request};
use limo_proto::{JobReport, SendExec};

use super::lookup::Lookup;
use super::{Controller, PeerId};
use crate::database::Database;

/// The action that follows once the ends of jobs are known.
#[derive(Debug)]
pub(super) enum Wanted {
    Submission(Box<SendExec>),
    DryRun(Box<Request>),
}

impl Wanted {
    fn request(&mut self) -> &mut Request {
        match self {
            Self::Submission(exec) => &mut exec.request,
            Self::DryRun(request) => request,
        }
    }

    fn dependencies(&mut self) -> Vec<Dependency> {
        self.request().conditions.as_ref().map(|conditions| conditions.dependencies.clone()).unwrap_or_default()
    }
}

/// Ends of the jobs on which a request depends.
#[derive(Debug)]
struct DependenciesLookup {
    wanted: Wanted,
    over: BTreeSet<JobId>,
}

impl Lookup for DependenciesLookup {
    type Found = Vec<JobReport>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Self::Found> {
        from.finished_jobs(&self.over.iter().copied().collect::<Vec<_>>()).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, finished: Self::Found) {
        controller.dependencies_found(peer, self.wanted, &self.over, &finished);
    }

    fn changes_something(&self) -> bool {
        true
    }
}

impl Controller {
    /// Continues when the core knows all dependencies.
    pub(super) fn with_dependencies(&mut self, peer: PeerId, mut wanted: Wanted) {
        let mut over = BTreeSet::new();
        for Dependency { job, .. } in wanted.dependencies() {
            let allowed = match self.is_known(job) {
                true => self.may_steer(peer, job),
                false if job.0 == 0 || job >= self.tx.core.next_job() => Err(format!("there is no job {job}")),
                false => {
                    over.insert(job);
                    Ok(())
                }
            };
            if let Err(reason) = allowed {
                return self.refuse(peer, reason, None);
            }
        }
        if over.is_empty() {
            return self.go_on(peer, wanted);
        }
        self.ask(peer, DependenciesLookup { wanted, over });
    }

    /// Removes met dependencies. If another job has ended since the query, the journal is queried again.
    fn dependencies_found(&mut self, peer: PeerId, mut wanted: Wanted, over: &BTreeSet<JobId>, reports: &[JobReport]) {
        for on in wanted.dependencies().into_iter().filter(|on| over.contains(&on.job)) {
            if let Err(reason) = self.is_met(peer, on, reports) {
                return self.refuse(peer, reason, None);
            }
        }
        let request = wanted.request();
        if let Some(conditions) = &mut request.conditions {
            conditions.dependencies.retain(|on| !over.contains(&on.job));
        }
        self.with_dependencies(peer, wanted);
    }

    /// Checks that a finished job meets the condition.
    fn is_met(&self, peer: PeerId, on: Dependency, reports: &[JobReport]) -> Result<(), String> {
        let job = on.job;
        let report = reports.iter().find(|report| report.job == job);
        let (Some(report), Some(caller)) = (report, self.caller(peer)) else {
            return Err(format!("there is no job {job}"));
        };
        if !caller.operator && report.user != caller.user {
            return Err(format!("job {job} belongs to {}, not to {}", report.user, caller.user));
        }
        match report.end.as_ref().map(Became::of) {
            Some(became) if became.meets(on.condition) => Ok(()),
            Some(became) => Err(format!("{on} can never be met: job {job} {became}")),
            None => Err(format!("the end of job {job} is unknown")),
        }
    }

    fn go_on(&mut self, peer: PeerId, mut wanted: Wanted) {
        let request = wanted.request();
        request.conditions = request.conditions.take().filter(|conditions| **conditions != Default::default());
        match wanted {
            Wanted::Submission(exec) => self.accept(peer, *exec),
            Wanted::DryRun(request) => self.try_out(peer, &request),
        }
    }
}
