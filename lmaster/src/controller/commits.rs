//! Commits to the journal: the open batch, the running commit, and the reason if commits are impossible. Independent
//! of the core.

use std::time::Duration;

use limo_journal::Batch;
use limo_model::{Backoff, Span, Time};
use limo_sched::Round;

use super::Effect;
use super::batch::OpenBatch;
use super::commit::After;

/// First pause after a failed commit, doubled with each further one up to the longest: retries do not free space on a
/// full disk.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

/// Shortest time to the next round. An immediate round would leave no time for other work.
pub(super) const SHORTEST_WAKE: Span = Span::from_ms(10);

/// Interval between attempts to restore the ballast.
const BALLAST_EVERY: Span = Span::from_secs(2);

#[derive(Debug)]
enum Phase {
    Idle,
    Committing(Vec<After>),
    /// The state is being read back and is unavailable.
    Recovering,
    /// Reading it back failed; the next attempt is at this time.
    Broken(Time),
    /// The state on disk can be shown but not changed, until the ballast is restored.
    ReadOnly,
}

/// The reason why new jobs are refused.
#[derive(Debug)]
struct Trouble {
    reason: String,
    /// Time of the next attempt to restore the ballast.
    ballast_at: Time,
}

/// The batches of the journal and the time of the next one.
#[derive(Debug)]
pub(super) struct Commits {
    generation: u64,
    open: OpenBatch,
    phase: Phase,
    since_snapshot: usize,
    snapshot_wanted: bool,
    wake_at: Option<Time>,
    trouble: Option<Trouble>,
    /// Time before which no commit is made, and the number of consecutive failures.
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

    /// Returns the open batch.
    pub(super) fn batch(&mut self) -> &mut OpenBatch {
        &mut self.open
    }

    /// Gates `after` on all events so far. Returns it if they are on disk.
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

    /// Returns true if no commit is running and a pause is in force.
    pub(super) fn is_pausing(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Idle) && !self.may_commit(now)
    }

    /// Returns true if a batch with a round is due: for events, a round or a snapshot.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.open.is_due(now) || self.wake_at.is_some_and(|at| at <= now) || self.snapshot_wanted
    }

    /// Returns true if the open batch keeps texts, which need no round.
    pub(super) fn keeps_texts(&self) -> bool {
        self.open.keeps_texts()
    }

    /// Returns true if a snapshot is due, after `every` entries including the next round.
    pub(super) fn snapshot_is_due(&self, every: usize) -> bool {
        // On a full disk, the remaining space is reserved for the ends of jobs.
        self.snapshot_wanted || (self.since_snapshot + self.open.len() + 1 >= every && self.trouble.is_none())
    }

    /// Closes the open batch with its round and returns it for the commit.
    pub(super) fn close(&mut self, now: Time, round: Round) -> Batch {
        self.wake_at = round.wake_at.map(|at| at.max(now + SHORTEST_WAKE));
        let (batch, gated) = self.open.close(now, round);
        self.since_snapshot += batch.entries.len();
        self.phase = Phase::Committing(gated);
        Batch { generation: self.generation, ..batch }
    }

    /// Records that a snapshot was added to the running commit, or could not be made.
    pub(super) fn snapshot_made(&mut self, is_made: bool) {
        self.snapshot_wanted = false;
        if is_made {
            self.since_snapshot = 0;
        }
    }

    /// Closes the texts of the open batch for a commit of their own.
    pub(super) fn close_texts(&mut self) -> Batch {
        self.phase = Phase::Committing(Vec::new());
        Batch { generation: self.generation, kept: self.open.take_texts(), ..Batch::default() }
    }

    /// Ends the running commit. Returns the actions that waited for it.
    pub(super) fn ended(&mut self) -> Option<Vec<After>> {
        if !matches!(self.phase, Phase::Committing(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Committing(gated) => Some(gated),
            _ => None,
        }
    }

    /// Records that the ended commit is on disk.
    pub(super) fn succeeded(&mut self) {
        self.pause = None;
    }

    /// Records that the ended commit failed, so the state must be read back. Returns the pause, and the actions that
    /// waited for later events.
    pub(super) fn roll_back(&mut self, now: Time, reason: &str) -> (Span, Vec<After>) {
        let pause = self.fail(now);
        self.suffer(reason.to_owned(), now);
        self.phase = Phase::Recovering;
        self.wake_at = None;
        (pause, self.open.abandon())
    }

    /// Records that the state equals the one on disk and no commit is running.
    pub(super) fn recovered(&mut self, generation: u64, entries: usize) {
        self.generation = generation;
        self.since_snapshot = entries;
    }

    /// Allows changes to the state that was read back.
    pub(super) fn go_on(&mut self) {
        self.phase = Phase::Idle;
    }

    /// Records that the state cannot be read back. Returns the pause until the next attempt.
    pub(super) fn broken(&mut self, now: Time) -> Span {
        let pause = self.fail(now);
        self.phase = Phase::Broken(now + pause);
        pause
    }

    /// Returns true if events can be applied to the state.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Committing(_))
    }

    /// Returns true while the state is being read back.
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

    /// Makes the state read-only until the ballast is restored.
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

    /// Requests a snapshot at the end of the process. The next process then needs no replay, which a newer version
    /// might do differently.
    pub(super) fn want_snapshot(&mut self) {
        // On a full disk, the remaining space is reserved for the ends of jobs.
        self.snapshot_wanted = self.trouble.is_none() && (self.since_snapshot > 0 || !self.open.is_empty());
    }

    /// Returns the reason why new jobs are refused.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.reason.as_str())
    }

    /// Refuses new jobs until the ballast is restored.
    pub(super) fn suffer(&mut self, reason: String, now: Time) {
        self.trouble = Some(Trouble { reason, ballast_at: now + BALLAST_EVERY });
    }

    /// Handles the result of an attempt to restore the ballast.
    pub(super) fn ballast(&mut self, result: Result<(), String>, effects: &mut Vec<Effect>) {
        if result.is_ok() && self.is_read_only() {
            // New jobs are accepted after a successful recovery.
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
            (Err(error), Some(trouble)) => tracing::debug!(error, reason = trouble.reason, "the disk is still full"),
            (Err(_), None) => {}
        }
    }

    /// Returns the time of the next step. `readings` is the time to record readings, `rows` the time to write energy
    /// rows.
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
