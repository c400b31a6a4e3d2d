//! Commits to the journal: the batch that is open, the one that is under way, and why none can be made. Knows no core.

use std::time::Duration;

use limo_journal::Batch;
use limo_model::{Backoff, Span, Time};
use limo_sched::Round;

use super::Effect;
use super::batch::OpenBatch;
use super::commit::After;

/// First pause after a failed commit, doubled with each further one up to the last: a full disk is not emptied by asking.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

/// A round that wants to be asked again at once would leave no time for anything else.
pub(super) const SHORTEST_WAKE: Span = Span::from_ms(10);

/// How often the ballast is tried while it is missing.
const BALLAST_EVERY: Span = Span::from_secs(2);

#[derive(Debug)]
enum Phase {
    Idle,
    Committing(Vec<After>),
    /// The state is being read back; until then there is none.
    Recovering,
    /// Reading it back failed; tried again at this time.
    Broken(Time),
    /// The state on disk can be shown and not changed, until the ballast is back.
    ReadOnly,
}

/// Why new jobs are refused at present.
#[derive(Debug)]
struct Trouble {
    reason: String,
    /// When to try to put the ballast back.
    ballast_at: Time,
}

/// The batches of the journal, and when the next one is due.
#[derive(Debug)]
pub(super) struct Commits {
    generation: u64,
    open: OpenBatch,
    phase: Phase,
    since_snapshot: usize,
    snapshot_wanted: bool,
    wake_at: Option<Time>,
    trouble: Option<Trouble>,
    /// No commit before this time, after so many in a row that failed.
    pause: Option<(Time, u32)>,
}

impl Commits {
    pub(super) fn new(generation: u64, since_snapshot: usize) -> Self {
        Self {
            generation,
            open: OpenBatch::default(),
            phase: Phase::Idle,
            since_snapshot,
            snapshot_wanted: false,
            wake_at: None,
            trouble: None,
            pause: None,
        }
    }

    /// The batch that is open.
    pub(super) fn batch(&mut self) -> &mut OpenBatch {
        &mut self.open
    }

    /// Gates something on all that has happened so far. Gives it back if that is on disk.
    pub(super) fn gate(&mut self, after: After) -> Option<After> {
        if !self.open.is_empty() {
            self.open.gate(after);
        } else if let Phase::Committing(under_way) = &mut self.phase {
            under_way.push(after);
        } else {
            return Some(after);
        }
        None
    }

    /// Returns true if something is gated on the open batch.
    pub(super) fn gates(&self, is_meant: impl FnMut(&After) -> bool) -> bool {
        self.open.gates(is_meant)
    }

    /// Returns true if nothing is under way, and nothing may be for some time.
    pub(super) fn is_pausing(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Idle) && !self.may_commit(now)
    }

    /// Returns true if a batch with a round is to be committed: something has happened, or a round or a snapshot is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.open.is_due(now) || self.wake_at.is_some_and(|at| at <= now) || self.snapshot_wanted
    }

    /// Returns true if the open batch keeps texts, which need no round.
    pub(super) fn keeps_texts(&self) -> bool {
        self.open.keeps_texts()
    }

    /// Returns true if a snapshot is due, after `every` entries with the round that follows.
    pub(super) fn snapshot_is_due(&self, every: usize) -> bool {
        // The room that is left on a full disk belongs to the ends of jobs.
        self.snapshot_wanted || (self.since_snapshot + self.open.len() + 1 >= every && self.trouble.is_none())
    }

    /// The batch with the round that follows is under way. Returns it.
    pub(super) fn close(&mut self, now: Time, round: Round) -> Batch {
        self.wake_at = round.wake_at.map(|at| at.max(now + SHORTEST_WAKE));
        let (batch, gated) = self.open.close(now, round);
        self.since_snapshot += batch.entries.len();
        self.phase = Phase::Committing(gated);
        Batch { generation: self.generation, ..batch }
    }

    /// A snapshot goes with the batch that is under way, or cannot be made.
    pub(super) fn snapshot_made(&mut self, is_made: bool) {
        self.snapshot_wanted = false;
        if is_made {
            self.since_snapshot = 0;
        }
    }

    /// The texts of the open batch are under way by themselves.
    pub(super) fn close_texts(&mut self) -> Batch {
        self.phase = Phase::Committing(Vec::new());
        Batch { generation: self.generation, kept: self.open.take_texts(), ..Batch::default() }
    }

    /// A commit has ended. Returns what was gated on it.
    pub(super) fn ended(&mut self) -> Option<Vec<After>> {
        if !matches!(self.phase, Phase::Committing(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Committing(gated) => Some(gated),
            _ => None,
        }
    }

    /// The commit that has ended is on disk.
    pub(super) fn succeeded(&mut self) {
        self.pause = None;
    }

    /// The commit that has ended is not on disk: the state is to be read back. Returns the pause, and what was gated on what
    /// has happened since.
    pub(super) fn roll_back(&mut self, now: Time, reason: &str) -> (Span, Vec<After>) {
        let pause = self.fail(now);
        self.suffer(reason.to_owned(), now);
        self.phase = Phase::Recovering;
        self.wake_at = None;
        (pause, self.open.abandon())
    }

    /// The state is the one on disk. Nothing is under way.
    pub(super) fn recovered(&mut self, generation: u64, entries: usize) {
        self.generation = generation;
        self.since_snapshot = entries;
    }

    /// The state that was read back can be changed.
    pub(super) fn go_on(&mut self) {
        self.phase = Phase::Idle;
    }

    /// The state cannot be read back. Returns when that is tried again.
    pub(super) fn broken(&mut self, now: Time) -> Span {
        let pause = self.fail(now);
        self.phase = Phase::Broken(now + pause);
        pause
    }

    /// Returns true if there is a state that events can be applied to.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Committing(_))
    }

    /// Returns true if the state is being read back: there will be one in a moment.
    pub(super) fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovering)
    }

    /// Returns true if the state on disk could not be read back.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.phase, Phase::Broken(_))
    }

    pub(super) fn is_read_only(&self) -> bool {
        matches!(self.phase, Phase::ReadOnly)
    }

    /// From now on the state is the one on disk, until the ballast is back and it can be written again.
    pub(super) fn become_read_only(&mut self, reason: &str, now: Time) {
        self.phase = Phase::ReadOnly;
        self.suffer(format!("the master is read-only: {reason}"), now);
    }

    pub(super) fn is_quiet(&self) -> bool {
        if self.is_read_only() {
            return true;
        }
        matches!(self.phase, Phase::Idle) && self.open.is_empty() && !self.open.keeps_texts() && !self.snapshot_wanted
    }

    /// The process ends: a snapshot spares the next one the replay, which a newer program might do otherwise.
    pub(super) fn want_snapshot(&mut self) {
        // The room that is left on a full disk belongs to the ends of jobs.
        self.snapshot_wanted = self.trouble.is_none() && (self.since_snapshot > 0 || !self.open.is_empty());
    }

    /// Why new jobs are refused.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.reason.as_str())
    }

    /// From now on new jobs are refused, until the ballast is in its place.
    pub(super) fn suffer(&mut self, reason: String, now: Time) {
        self.trouble = Some(Trouble { reason, ballast_at: now + BALLAST_EVERY });
    }

    /// The answer to an attempt to put the ballast back.
    pub(super) fn ballast(&mut self, result: Result<(), String>, effects: &mut Vec<Effect>) {
        if result.is_ok() && self.is_read_only() {
            // New jobs are accepted when that has succeeded.
            self.phase = Phase::Recovering;
            return effects.push(Effect::Recover);
        }
        match (result, &mut self.trouble) {
            (Ok(()), trouble) => {
                self.pause = None;
                if trouble.take().is_some() {
                    tracing::info!("the journal can be written again: new jobs are accepted");
                }
            }
            (Err(error), Some(trouble)) => tracing::debug!(error, reason = trouble.reason, "still no room"),
            (Err(_), None) => {}
        }
    }

    /// `readings` is when readings are to be recorded, `rows` when the table of what was drawn is to be written.
    pub(super) fn deadline(&self, readings: Option<Time>, rows: Option<Time>) -> Option<Time> {
        let ballast = self.trouble.as_ref().map(|trouble| trouble.ballast_at);
        let own = match &self.phase {
            Phase::Committing(_) | Phase::Recovering | Phase::ReadOnly => None,
            Phase::Broken(at) => Some(*at),
            Phase::Idle => {
                let kept = (self.open.keeps_texts()).then_some(Time::default());
                let due = [self.open.due(), self.wake_at, readings, rows, kept].into_iter().flatten().min();
                due.map(|due| self.pause.map_or(due, |(until, _)| due.max(until)))
            }
        };
        [ballast, own].into_iter().flatten().min()
    }

    pub(super) fn timer(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Phase::Broken(at) = self.phase
            && at <= now
        {
            self.phase = Phase::Recovering;
            effects.push(Effect::Recover);
        }
        if let Some(trouble) = &mut self.trouble
            && trouble.ballast_at <= now
        {
            trouble.ballast_at = now + BALLAST_EVERY;
            effects.push(Effect::RestoreBallast);
        }
    }

    pub(super) fn may_commit(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Idle) && self.pause.is_none_or(|(until, _)| until <= now)
    }

    fn fail(&mut self, now: Time) -> Span {
        let failures = self.pause.map_or(0, |(_, failures)| failures).saturating_add(1);
        let pause = Span::from_ms(i64::try_from(PAUSES.pause(failures).as_millis()).unwrap_or(i64::MAX));
        self.pause = Some((now + pause, failures));
        pause
    }
}
