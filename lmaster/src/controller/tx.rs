//! The recorded state and the way to change it: all that the components of the controller share. Only this adds events to
//! the batch for the journal. It does not know the components.

use limo_journal::{ChangeItem, ChangeRow, Submission};
use limo_model::{Attempt, JobId, JournalId, MailEvent, NodeId, Span, Time};
use limo_proto::JobState;
use limo_sched::{Assignment, Core, Event, Refused};

use super::commits::{Commits, SHORTEST_WAKE};
use super::history::Actor;
use super::metering::Metering;
use super::{Effect, Settings};
use crate::budget::Stages;
use crate::changed::{self, Changed};

/// Longest delay before an event without a waiting message is written. The end of a short job is then written together
/// with its start, which saves one write to disk before the end is reported.
const UNAWAITED: Span = Span::from_ms(5);

pub(super) struct Tx {
    pub(super) core: Core,
    pub(super) stages: Stages,
    /// Its readings are recorded before each event.
    pub(super) metering: Metering,
    /// The last input time; never goes back.
    pub(super) now: Time,
    /// The clock of this process, with the offset of its start.
    pub(super) clock: limo_sched::Clock,
    pub(super) settings: Settings,
    /// Identity of the journal.
    pub(super) journal: JournalId,
    pub(super) commits: Commits,
    pub(super) effects: Vec<Effect>,
    /// Number of inputs so far: the changes of one input are one change.
    pub(super) steps: u64,
    /// The operator behind events that name another author, or undo something.
    pub(super) actor: Option<Actor>,
}

impl Tx {
    /// Applies an event and adds it to the open batch.
    ///
    /// # Errors
    /// [`Refused`]; nothing is changed then.
    pub(super) fn record(&mut self, event: Event) -> Result<(), Refused> {
        // A reading includes the jobs that were reported before it, so it must be recorded first.
        self.record_readings();
        self.apply(event)
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<(), Refused> {
        debug_assert!(self.commits.is_open(), "there is no state to apply {event:?} to");
        let changed = self.changed_by(&event);
        self.stages.apply(&mut self.core, self.now, &event)?;
        self.remember_change(changed);
        // A start is on record at its node, which reports it again, so the write can wait.
        let by = if matches!(event, Event::Started { .. }) { self.now + UNAWAITED } else { self.now };
        if let Event::Started { job, .. } = event {
            self.tell_site(job, (MailEvent::Begin, JobState::Running));
        }
        self.commits.batch().event(self.now, event, by);
        Ok(())
    }

    /// Records an event that cannot be refused, because it was checked before.
    pub(super) fn must(&mut self, event: Event) {
        if let Err(refused) = self.record(event) {
            tracing::error!(%refused, "an event that had to be possible was refused");
        }
    }

    /// Returns the time of the next monitoring stage; `None` if nothing can be written.
    pub(super) fn stage_due(&self) -> Option<Time> {
        let every = self.core.settings().options.monitor_every.max(SHORTEST_WAKE);
        let writes = self.commits.is_open() && self.commits.trouble().is_none();
        self.stages.due(every).filter(|_| writes)
    }

    /// Records a monitoring stage: the use that the master believes replaces the core's over-estimate.
    pub(super) fn stage(&mut self) {
        // Readings first: they replace the belief so far.
        self.record_readings();
        if let Some(energy) = self.stages.used(&self.core, self.now) {
            self.must(Event::Metered { energy });
        }
        self.stages.pass(self.now);
    }

    pub(super) fn submitted(&mut self, submission: Submission) {
        self.commits.batch().submission(submission);
    }

    pub(super) fn record_readings(&mut self) {
        let draws = self.metering.take_readings();
        if !draws.is_empty()
            && let Err(refused) = self.apply(Event::Readings { draws })
        {
            tracing::error!(%refused, "readings were refused");
        }
    }

    fn changed_by(&self, event: &Event) -> Option<(String, Changed)> {
        changed::of(&self.core, self.wall(), event, self.actor.as_ref().map(|actor| actor.by.as_str()))
    }

    /// Records a change. All that one input changes for one author is one change.
    fn remember_change(&mut self, changed: Option<(String, Changed)>) {
        let Some((by, changed)) = changed else { return };
        let body = match serde_json::to_string(&changed) {
            Ok(body) => body,
            Err(error) => return tracing::error!(%error, ?changed, "a change cannot be written down"),
        };
        let item = ChangeItem { subject: changed.subject, body };
        let undo_of = self.actor.as_ref().and_then(|actor| actor.undo_of);
        let at = self.wall();
        self.commits.batch().change(self.steps, ChangeRow { number: 0, at, by, undo_of, items: vec![item] });
    }

    /// Returns the wall-clock time by the recorded offset.
    pub(super) fn wall(&self) -> Time {
        self.core.clock().shown(self.now)
    }

    /// Starting attempts.
    pub(super) fn starting(&self) -> impl Iterator<Item = (JobId, Attempt)> {
        let starting = |(id, job): (JobId, &limo_sched::Job)| match &job.phase {
            limo_sched::Phase::Starting(assignment) => Some((id, assignment.attempt)),
            _ => None,
        };
        self.core.jobs().chain(self.core.steps()).filter_map(starting)
    }

    /// Returns the assignment of a job, if it is in this attempt.
    pub(super) fn assignment(&self, job: JobId, attempt: Attempt) -> Option<&Assignment> {
        self.core.job(job).and_then(|job| job.assignment()).filter(|assignment| assignment.attempt == attempt)
    }

    /// Returns the attempts that the core has on a node.
    pub(super) fn attempts_on(&self, node: NodeId) -> Vec<(JobId, Attempt)> {
        let attempt = |job: JobId| Some((job, self.core.job(job)?.assignment()?.attempt));
        let mut attempts: Vec<_> = self.core.jobs_on(node).into_iter().filter_map(attempt).collect();
        let of_steps = self.core.steps().filter_map(|(step, record)| Some((step, record.assignment()?)));
        let here = of_steps.filter(|(_, own)| own.placement.iter().any(|part| part.is_on(node)));
        attempts.extend(here.map(|(step, own)| (step, own.attempt)));
        attempts.sort_unstable();
        attempts
    }

    /// Returns the name of a node, or an empty text.
    pub(super) fn name_of(&self, node: NodeId) -> String {
        self.core.node(node).map(|node| node.spec().name.clone()).unwrap_or_default()
    }
}
