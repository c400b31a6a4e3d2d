//! Jobs of other journals that a node still has when it meets another master. The node ends them, reports each once,
//! and forgets them; their output is dropped. It registers when they have ended, so that no job of the master shares
//! the machine with them. If they cannot be killed, it registers after [`PATIENCE`].

use std::time::Duration;

use limo_model::{Attempt as Number, JobId, JournalId};
use limo_proto::{AttemptReport, Identity, NewSlave, Registration};
use tracing::{error, warn};

use super::Node;
use crate::attempt::{Attempt, State};
use crate::exchange::Effect;
use crate::faults::{self, Fault};
use crate::io::JobIo;

/// Time from TERM to KILL.
const GRACE: Duration = Duration::from_secs(5);

/// Time for which the registration waits for the ends of foreign jobs.
const PATIENCE: Duration = Duration::from_secs(12);

/// Connection to a master.
#[derive(Debug)]
pub(super) struct Link {
    /// Time of the registration.
    pub(super) since: Duration,
    pub(super) registered: bool,
    /// Deadline of the registration; `None` once it was sent.
    pub(super) introduce_by: Option<Duration>,
}

impl Node {
    pub(super) fn connected(&mut self, identity: Identity) {
        let Identity { journal, epoch, .. } = identity;
        if self.journal.replace(journal).is_some_and(|before| before != journal) {
            warn!(%journal, %epoch, "the master works from another journal than the one before");
            self.attempts.forget_gone();
        }
        self.end_foreign(journal);
        let since = self.now.since;
        self.link = Some(Link { since, registered: false, introduce_by: Some(since + PATIENCE) });
        self.connected = true;
    }

    fn end_foreign(&mut self, journal: JournalId) {
        let foreign = self.attempts.known.iter().filter(|(_, attempt)| !journal.owns(attempt.journal));
        let foreign: Vec<(JobId, Number, JournalId)> =
            foreign.map(|(&job, attempt)| (job, attempt.number, attempt.journal)).collect();
        let lingering = self.lingering.iter().filter(|(_, attempt)| !journal.owns(attempt.journal));
        for job in lingering.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.discard(job);
        }
        for (job, number, of) in foreign {
            error!(%job, attempt = %number, journal = %of, "a job of another journal than the master's is ended");
            self.discard(job);
            self.stop(job, number, GRACE);
        }
    }

    /// Returns true if the known attempt of this job belongs to another journal than the master's.
    pub(super) fn is_foreign(&self, job: JobId) -> bool {
        let of = self.attempts.known.get(&job).map(|attempt| attempt.journal);
        self.journal.zip(of).is_some_and(|(journal, of)| !journal.owns(of))
    }

    fn has_foreign(&self) -> bool {
        self.attempts.known.iter().any(|(&job, attempt)| attempt.is_open() && self.is_foreign(job))
    }

    /// Returns when the node registers even with foreign jobs.
    pub(super) fn introduction_due(&self) -> Option<Duration> {
        self.link.as_ref().and_then(|link| link.introduce_by)
    }

    /// Registers once all foreign jobs and those of an earlier daemon have ended, and every record is durable.
    pub(super) fn introduce(&mut self) {
        let Some(by) = self.introduction_due() else { return };
        let is_unsettled = self.has_foreign() || !self.clearing.is_empty() || !self.writing.is_empty();
        if is_unsettled && self.now.since < by {
            return;
        }
        let (Some(journal), Some(link)) = (self.journal, &mut self.link) else { return };
        link.introduce_by = None;
        link.since = self.now.since;
        self.drop_unrecorded();
        let known = self.attempts.known.iter();
        let lingering = self.lingering.iter().filter(|_| !faults::has(Fault::OutputUnreported));
        let attempts = known.chain(lingering).map(|(&job, attempt)| AttemptReport {
            journal: attempt.journal,
            job,
            attempt: attempt.number,
            state: attempt.report(),
            stdin_offset: self.streams.get(&job).map_or(0, JobIo::stdin_offset),
            kept: self.streams.get(&job).map(JobIo::kept).unwrap_or_default(),
            is_evicted: attempt.is_evicted,
            checkpointed: attempt.checkpointed.map(|checkpointed| checkpointed.kept),
        });
        let attempts: Vec<_> = attempts.collect();
        let (spec, instance, boot) = (self.spec.clone(), self.instance.clone(), self.boot.clone());
        let unfit = self.attempts.known.values().find_map(Attempt::told_unfit).map(Into::into);
        let owner = self.introduce_owner();
        let slave = NewSlave { journal, spec, instance, boot, containment: self.containment, unfit, owner };
        let registration = Registration { slave, attempts };
        self.effects.extend(registration.into_messages().into_iter().map(Effect::Send));
    }

    /// Drops each attempt whose intent is still being recorded: the registration cannot report it, so the master takes it back.
    fn drop_unrecorded(&mut self) {
        let unrecorded = |attempt: &Attempt| matches!(attempt.state, State::Accepting(_));
        let known = self.attempts.known.iter().filter(|(_, attempt)| unrecorded(attempt));
        for (job, number) in known.map(|(&job, attempt)| (job, attempt.number)).collect::<Vec<_>>() {
            self.drop_held(job, number);
        }
    }

    /// Forgets foreign jobs: the registration has reported them.
    pub(super) fn forget_foreign(&mut self) {
        let over = |job: &JobId| {
            let ended = |attempt: &Attempt| matches!(attempt.state, State::Ended(_));
            self.attempts.known.get(job).is_some_and(ended) && self.is_foreign(*job)
        };
        let jobs: Vec<JobId> = self.attempts.known.keys().copied().filter(over).collect();
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            let Some(number) = self.attempts.known.get(&job).map(|attempt| attempt.number) else { continue };
            self.drop_streams(job);
            self.forget(job, number);
        }
        // In this journal, their numbers stand for other jobs.
        self.attempts.forget_gone();
    }
}
