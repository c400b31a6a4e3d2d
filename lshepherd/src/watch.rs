//! The timers of one job: time limit, lease, checkpoints, and the time from TERM to KILL. Independent of clocks and processes.

use limo_shepherd::{BootTime, Launch, Why};

/// Longest running time of a command for a checkpoint, in milliseconds.
const COMMAND_LIMIT: u64 = 600_000;

/// The timers of a job.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// Milliseconds that the job may still run from `since` on while it is not suspended; `None` without a limit.
    limit: Option<u64>,
    began: Option<BootTime>,
    /// Milliseconds that the job may last at least, suspended or not.
    extended: u64,
    /// Time at which the limit began or continued to run; `None` while the job is suspended or has not begun.
    since: Option<BootTime>,
    /// A signal, and its time before the limit in milliseconds; `None` once it was sent.
    warning: Option<(i32, u64)>,
    /// A signal, or `None` for a command, and the running time from one checkpoint to the next in milliseconds.
    checkpoint: Option<(Option<i32>, u64)>,
    /// Running time until `since`, in milliseconds.
    ran: u64,
    /// Running time at the end of the last checkpoint.
    checkpointed: u64,
    /// Running time at the start of the command for a checkpoint, while it runs.
    command: Option<u64>,
    leased: bool,
    /// Milliseconds from TERM to KILL when a timer ends the job.
    grace: u64,
    stop: Option<Stop>,
}

#[derive(Debug, Clone, Copy)]
struct Stop {
    why: Why,
    /// Time of TERM, if a checkpoint comes first; `None` once it was sent.
    term_at: Option<BootTime>,
    /// Time of KILL; `None` once it was sent.
    kill_at: Option<BootTime>,
}

/// A due action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A signal that the job's user requested.
    Warn(i32),
    /// A checkpoint by a signal, or by a command, after this running time in milliseconds.
    Checkpoint(Option<i32>, u64),
    /// The end of a command for a checkpoint that takes too long.
    KillCommand,
    Term(Why),
    Kill,
}

impl Watch {
    pub fn new(launch: &Launch) -> Self {
        let Launch { time_limit: limit, warning, checkpoint, kill_grace: grace, lease, .. } = *launch;
        // A time of 0 would be due at any time.
        let checkpoint = checkpoint.filter(|(_, every)| *every > 0);
        Self { limit, warning, checkpoint, grace, leased: lease.is_some(), ..Self::default() }
    }

    /// Starts the time limit: the command runs from now on.
    pub fn begins(&mut self, now: BootTime) {
        self.since = Some(now);
        self.began = Some(now);
    }

    /// Moves the limit to at least `span` milliseconds after the beginning.
    pub fn extend(&mut self, span: u64) {
        self.extended = span;
    }

    /// Replaces the limit: milliseconds of running, without suspensions, from the beginning. Ends earlier extensions.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit.map(|limit| limit.saturating_sub(self.ran));
        self.extended = 0;
    }

    /// Suspends or continues the time limit.
    pub fn frozen(&mut self, on: bool, now: BootTime) {
        match (on, self.since) {
            (true, Some(since)) => {
                let used = now.0.saturating_sub(since.0);
                self.limit = self.limit.map(|limit| limit.saturating_sub(used));
                self.ran = self.ran.saturating_add(used);
                self.since = None;
            }
            (false, None) => self.since = Some(now),
            _ => {}
        }
    }

    /// Begins to end the job. If it is being ended already, the earlier KILL counts. Returns true if TERM is due.
    pub fn stop(&mut self, why: Why, kill_at: BootTime) -> bool {
        match &mut self.stop {
            None => {
                self.stop = Some(Stop { why, term_at: None, kill_at: Some(kill_at) });
                return true;
            }
            Some(Stop { kill_at: Some(earlier), term_at, .. }) => {
                *earlier = kill_at.min(*earlier);
                return term_at.take().is_some();
            }
            Some(_) => {}
        }
        false
    }

    /// Begins to end the job after a checkpoint, and returns the first action. A signal has half of `grace`, and a command all
    /// of it.
    pub fn evict(&mut self, grace: u64, now: BootTime) -> Option<Due> {
        let why = Why::Stop;
        let kill_at = now.plus(grace);
        match (&mut self.stop, self.checkpoint) {
            (Some(stop), _) => {
                stop.kill_at = stop.kill_at.map(|earlier| kill_at.min(earlier));
                None
            }
            (None, Some((signal, _))) if self.began.is_some() => {
                self.frozen(false, now);
                let term_at = if signal.is_some() { now.plus(grace / 2) } else { kill_at };
                self.stop = Some(Stop { why, term_at: Some(term_at), kill_at: Some(kill_at) });
                self.checkpoint(now)
            }
            (None, _) => self.stop(why, kill_at).then_some(Due::Term(why)),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Returns the cause of the job's end.
    pub fn why(&self) -> Why {
        self.stop.map_or(Why::OfItself, |stop| stop.why)
    }

    fn limit_at(&self) -> Option<BootTime> {
        let limit = self.since?.plus(self.limit?);
        Some(limit.max(self.began?.plus(self.extended)))
    }

    fn warn_at(&self) -> Option<BootTime> {
        let (_, before) = self.warning?;
        Some(BootTime(self.limit_at()?.0.saturating_sub(before)))
    }

    fn checkpoint_at(&self) -> Option<BootTime> {
        let (_, every) = self.checkpoint.filter(|_| self.command.is_none())?;
        let more = self.checkpointed.saturating_add(every).saturating_sub(self.ran);
        Some(self.since?.plus(more))
    }

    fn command_late_at(&self) -> Option<BootTime> {
        let more = self.command?.saturating_add(COMMAND_LIMIT).saturating_sub(self.ran);
        Some(self.since?.plus(more))
    }

    /// Returns the next due time. `lease` is the end of all leases.
    pub fn deadline(&self, lease: Option<BootTime>) -> Option<BootTime> {
        let end = [self.limit_at(), lease.filter(|_| self.leased)].into_iter().flatten().min();
        match self.stop {
            None => {
                let checkpoint = [self.checkpoint_at(), self.command_late_at()].into_iter().flatten();
                end.into_iter().chain(self.warn_at()).chain(checkpoint).min()
            }
            // A long grace does not outlive the limit or the lease.
            Some(Stop { kill_at, term_at, .. }) => {
                let kill_at = kill_at.map(|at| end.map_or(at, |end| at.min(end.plus(self.grace))));
                term_at.into_iter().chain(kill_at).min()
            }
        }
    }

    /// Takes the due actions.
    pub fn due(&mut self, lease: Option<BootTime>, now: BootTime) -> Option<Due> {
        let deadline = self.deadline(lease);
        if let Some(stop) = &mut self.stop {
            if stop.term_at.is_some_and(|at| at <= now) {
                stop.term_at = None;
                return Some(Due::Term(stop.why));
            }
            return deadline.filter(|at| *at <= now).map(|_| {
                (stop.term_at, stop.kill_at) = (None, None);
                Due::Kill
            });
        }
        let over = |at: Option<BootTime>| at.is_some_and(|at| at <= now);
        let why = match () {
            () if over(lease.filter(|_| self.leased)) => Why::Lease,
            () if over(self.limit_at()) => Why::Limit,
            () if over(self.warn_at()) => return self.warning.take().map(|(signal, _)| Due::Warn(signal)),
            () if over(self.command_late_at()) => return Some(Due::KillCommand),
            () if over(self.checkpoint_at()) => return self.checkpoint(now),
            () => return None,
        };
        self.stop = Some(Stop { why, term_at: None, kill_at: Some(now.plus(self.grace)) });
        Some(Due::Term(why))
    }

    fn checkpoint(&mut self, now: BootTime) -> Option<Due> {
        let (signal, _) = self.checkpoint.filter(|_| self.command.is_none())?;
        self.checkpointed = self.ran_until(now);
        self.command = signal.is_none().then_some(self.checkpointed);
        Some(Due::Checkpoint(signal, self.checkpointed))
    }

    fn ran_until(&self, now: BootTime) -> u64 {
        self.ran.saturating_add(self.since.map_or(0, |since| now.0.saturating_sub(since.0)))
    }

    /// Handles the end of the command for a checkpoint. Returns the running time at its start, and its own.
    pub fn command_ended(&mut self, now: BootTime) -> Option<(u64, u64)> {
        let began = self.command.take()?;
        self.checkpointed = self.ran_until(now);
        if let Some(Stop { term_at: Some(at), .. }) = &mut self.stop {
            *at = now;
        }
        Some((began, self.checkpointed - began))
    }
}

#[cfg(test)]
mod tests;
