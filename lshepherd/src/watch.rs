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
mod tests {
    use limo_shepherd::Handle;

    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime(ms)
    }

    /// Makes timers; times are in milliseconds.
    fn timers(time_limit: Option<u64>, kill_grace: u64, leased: bool) -> Watch {
        let (handle, lease) = (Handle(1), leased.then_some(at(0)));
        let launch_deadline = 1000;
        let (claim, kept) = (None, limo_shepherd::Kept::default());
        let (warning, checkpoint) = (None, None);
        Watch::new(&Launch { handle, time_limit, warning, checkpoint, kill_grace, lease, launch_deadline, claim, kept })
    }

    #[test]
    fn checkpoints_come_after_running_time_without_suspensions() {
        let mut watch = Watch { checkpoint: Some((Some(12), 30)), ..timers(Some(100), 10, false) };
        assert_eq!(watch.deadline(None), None, "it has not begun");
        watch.begins(at(1000));
        assert_eq!((watch.deadline(None), watch.due(None, at(1029))), (Some(at(1030)), None));
        assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(Some(12), 30)));
        assert_eq!((watch.deadline(None), watch.due(None, at(1030))), (Some(at(1060)), None));
        watch.frozen(true, at(1040));
        assert_eq!((watch.deadline(None), watch.due(None, at(9000))), (None, None));
        watch.frozen(false, at(5000));
        assert_eq!((watch.deadline(None), watch.due(None, at(5019))), (Some(at(5020)), None));
        // A late one counts as late, and the next one is due a whole interval later.
        assert_eq!(watch.due(None, at(5025)), Some(Due::Checkpoint(Some(12), 65)));
        assert_eq!(watch.deadline(None), Some(at(5055)));
        assert!(watch.stop(Why::Stop, at(5100)));
        assert_eq!((watch.deadline(None), watch.due(None, at(5099))), (Some(at(5070)), Some(Due::Kill)));
    }

    #[test]
    fn one_command_runs_at_a_time_and_has_a_limit() {
        let mut watch = Watch { checkpoint: Some((None, 30)), ..timers(None, 10, false) };
        watch.begins(at(1000));
        assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(None, 30)));
        assert_eq!(watch.deadline(None), Some(at(1030 + COMMAND_LIMIT)), "no second one meanwhile");
        watch.frozen(true, at(1040));
        assert_eq!((watch.deadline(None), watch.due(None, at(9_000_000))), (None, None), "it is suspended, too");
        watch.frozen(false, at(5000));
        assert_eq!(watch.command_ended(at(5015)), Some((30, 25)), "10 ms before the suspension, and 15 after it");
        assert_eq!((watch.command_ended(at(5016)), watch.deadline(None)), (None, Some(at(5045))));
        assert_eq!(watch.due(None, at(5045)), Some(Due::Checkpoint(None, 85)));
        assert_eq!(watch.due(None, at(5044 + COMMAND_LIMIT)), None);
        assert_eq!(watch.due(None, at(5045 + COMMAND_LIMIT)), Some(Due::KillCommand));
    }

    #[test]
    fn a_checkpoint_precedes_the_end_of_an_evicted_job() {
        let evicted = |checkpoint, every| {
            let mut watch = Watch { checkpoint: Some((checkpoint, every)), ..timers(None, 10, false) };
            watch.begins(at(1000));
            watch.frozen(true, at(1040));
            let first = watch.evict(100, at(5000));
            assert_eq!(watch.evict(900, at(5001)), None, "a repeated order changes nothing");
            (watch, first)
        };
        let (mut watch, first) = evicted(Some(12), 900);
        assert_eq!(first, Some(Due::Checkpoint(Some(12), 40)));
        assert_eq!((watch.due(None, at(5049)), watch.due(None, at(5050))), (None, Some(Due::Term(Why::Stop))));
        assert_eq!((watch.due(None, at(5099)), watch.due(None, at(5100))), (None, Some(Due::Kill)));
        assert_eq!(watch.deadline(None), None);
        // TERM follows the end of a command.
        let (mut watch, first) = evicted(None, 900);
        assert_eq!((first, watch.due(None, at(5060))), (Some(Due::Checkpoint(None, 40)), None));
        assert_eq!(watch.command_ended(at(5060)), Some((40, 60)));
        assert_eq!(watch.due(None, at(5060)), Some(Due::Term(Why::Stop)));
        assert_eq!(watch.deadline(None), Some(at(5100)));
        // A command without an end is not waited for.
        let (mut watch, _) = evicted(None, 900);
        assert_eq!(watch.due(None, at(5100)), Some(Due::Term(Why::Stop)));
        assert_eq!(watch.due(None, at(5100)), Some(Due::Kill));
        // A command that has begun before the suspension is the checkpoint.
        let mut watch = Watch { checkpoint: Some((None, 30)), ..timers(None, 10, false) };
        watch.begins(at(1000));
        assert_eq!(watch.due(None, at(1030)), Some(Due::Checkpoint(None, 30)));
        watch.frozen(true, at(1040));
        assert_eq!((watch.evict(100, at(5000)), watch.command_ended(at(5005))), (None, Some((30, 15))));
        // A stop does not wait for the checkpoint, and without checkpoints nothing precedes TERM.
        let (mut watch, _) = evicted(None, 900);
        assert!(watch.stop(Why::Stop, at(5050)) && !watch.stop(Why::Stop, at(5060)));
        assert_eq!(watch.deadline(None), Some(at(5050)));
        assert_eq!(timers(None, 10, false).evict(100, at(0)), Some(Due::Term(Why::Stop)));
    }

    #[test]
    fn a_warning_comes_once_ahead_of_the_limit() {
        let mut watch = Watch { warning: Some((10, 30)), ..timers(Some(100), 10, false) };
        watch.begins(at(1000));
        assert_eq!((watch.deadline(None), watch.due(None, at(1069))), (Some(at(1070)), None));
        watch.extend(150);
        assert_eq!((watch.deadline(None), watch.due(None, at(1119))), (Some(at(1120)), None));
        assert_eq!(watch.due(None, at(1120)), Some(Due::Warn(10)));
        assert_eq!((watch.deadline(None), watch.due(None, at(1149))), (Some(at(1150)), None));
        assert_eq!(watch.due(None, at(1150)), Some(Due::Term(Why::Limit)));
    }

    #[test]
    fn a_limit_excludes_frozen_time() {
        let mut watch = timers(Some(100), 10, false);
        assert_eq!(watch.deadline(None), None, "it has not begun");
        watch.begins(at(1000));
        watch.frozen(true, at(1040));
        watch.frozen(true, at(1041));
        assert_eq!((watch.deadline(None), watch.due(None, at(9000))), (None, None));
        watch.frozen(false, at(5000));
        assert_eq!(watch.deadline(None), Some(at(5060)));
        assert_eq!(watch.due(None, at(5059)), None);
        assert_eq!(watch.due(None, at(5060)), Some(Due::Term(Why::Limit)));
        assert_eq!((watch.deadline(None), watch.due(None, at(5069))), (Some(at(5070)), None));
        assert_eq!(watch.due(None, at(5070)), Some(Due::Kill));
        assert_eq!((watch.deadline(None), watch.due(None, at(9999)), watch.why()), (None, None, Why::Limit));
    }

    #[test]
    fn an_extended_limit_counts_from_the_beginning() {
        let mut watch = timers(Some(100), 10, false);
        watch.begins(at(1000));
        watch.extend(40);
        assert_eq!(watch.deadline(None), Some(at(1100)), "no limit becomes shorter");
        watch.extend(150);
        assert_eq!((watch.deadline(None), watch.due(None, at(1149))), (Some(at(1150)), None));
        watch.frozen(true, at(1050));
        assert_eq!(watch.due(None, at(9000)), None);
        watch.frozen(false, at(1110));
        assert_eq!(watch.deadline(None), Some(at(1160)), "the pause was longer than what the master knows");
        assert_eq!(watch.due(None, at(1160)), Some(Due::Term(Why::Limit)));
    }

    #[test]
    fn a_lease_ends_only_leased_jobs_and_can_be_renewed() {
        let mut watch = timers(None, 10, true);
        watch.begins(at(0));
        watch.frozen(true, at(1));
        assert_eq!((watch.deadline(Some(at(50))), watch.due(Some(at(50)), at(49))), (Some(at(50)), None));
        assert_eq!(watch.due(Some(at(80)), at(50)), None, "renewed");
        assert_eq!(watch.due(Some(at(80)), at(80)), Some(Due::Term(Why::Lease)), "frozen or not");
        let mut other = timers(None, 10, false);
        other.begins(at(0));
        assert_eq!((other.deadline(Some(at(50))), other.due(Some(at(50)), at(60))), (None, None));
    }

    #[test]
    fn the_earliest_kill_counts() {
        let mut watch = timers(None, 10, false);
        assert!(watch.stop(Why::Stop, at(500)));
        watch.stop(Why::Stop, at(200));
        watch.stop(Why::Stop, at(900));
        assert_eq!(watch.deadline(None), Some(at(200)));
        assert_eq!(watch.due(None, at(200)), Some(Due::Kill));
        watch.stop(Why::Stop, at(100));
        assert_eq!(watch.due(None, at(300)), None, "KILL was sent");
        let mut long = timers(Some(100), 10, true);
        long.begins(at(0));
        assert!(long.stop(Why::Stop, at(9000)) && !long.stop(Why::Stop, at(8000)));
        assert_eq!(long.deadline(Some(at(500))), Some(at(110)), "the time limit and its grace come first");
        assert_eq!(long.deadline(Some(at(50))), Some(at(60)), "the lease and its grace come first");
        assert_eq!((long.due(Some(at(50)), at(60)), long.why()), (Some(Due::Kill), Why::Stop));
    }
}
