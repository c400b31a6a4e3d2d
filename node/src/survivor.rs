//! Records and shepherds that an earlier daemon left, and what follows from them.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Attempt, JobId, Outcome, Span};
use limo_shepherd::Handle;

use crate::exchange::Connected;
use crate::faults::{self, Fault};
use crate::owners::OwnerRecord;
use crate::records::{End, Found};

/// State that outlived the daemon.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Records of attempts.
    pub found: BTreeMap<(JobId, Attempt), Found>,
    /// Shepherds that hold an attempt.
    pub survivors: BTreeMap<(JobId, Attempt), Survivor>,
    /// Attempts whose shepherds have ended without a release.
    pub abandoned: BTreeSet<(JobId, Attempt)>,
    /// State of the owner.
    pub owner: OwnerRecord,
    /// True if caps of the earlier daemon may still be set.
    pub capped: bool,
}

/// A shepherd that holds an attempt.
#[derive(Debug, Clone)]
pub struct Survivor {
    pub handle: Handle,
    /// Value of `LIMO_ATTEMPT` in the job's environment. It must match the record.
    pub cookie: String,
    pub resumed: Resumed,
    /// Streams of the job; `None` if nobody is attached, or they were dropped.
    pub streams: Option<HeldStreams>,
}

/// State of a running job that no record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resumed {
    /// True if the job is suspended.
    pub frozen: bool,
    /// True if the submitter has stopped the job.
    pub halted: bool,
    /// Time since the command was started.
    pub elapsed: Span,
}

/// Streams of a job that an earlier daemon has left. Offsets count the end of a stream as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldStreams {
    pub connected: Connected,
    /// Offset up to which the job has read stdin.
    pub stdin_taken: u64,
    /// Offset up to which stdin was received.
    pub stdin: u64,
    pub stdin_ended: bool,
    pub stdout: HeldOutput,
    pub stderr: HeldOutput,
}

/// An output that an earlier daemon has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldOutput {
    /// Offset up to which the receiver has acknowledged.
    pub acknowledged: u64,
    /// True if this includes the end.
    pub is_done: bool,
}

/// Reason given for jobs whose `lshepherd` was killed.
pub const SHEPHERD_KILLED: &str = "lshepherd, which ran the job on its node, was killed";

/// State of an attempt in the records of an earlier daemon.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovered {
    Held,
    /// A shepherd holds the attempt, which goes on.
    Alive,
    Ended(End),
    /// The attempt is lost. Its processes must be killed before the report.
    Lost {
        reason: &'static str,
    },
}

/// Fate of the shepherd of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No shepherd has ever taken the attempt.
    Never,
    /// A shepherd holds it.
    Alive,
    /// Its shepherd was killed.
    Killed,
}

/// Interprets a record; `boot` is the kernel's current boot id. A command that may have been started is never started
/// again.
pub fn recovered(found: &Found, boot: &str, fate: Fate) -> Recovered {
    if let Some(end) = &found.end {
        if let (Outcome::Exited(code), true) = (&end.outcome, faults::has(Fault::CodeChanged)) {
            return Recovered::Ended(End { outcome: Outcome::Exited(code ^ 1), usage: end.usage });
        }
        // Earlier daemons recorded reasons of any length.
        return Recovered::Ended(End { outcome: end.outcome.clone().clipped(), usage: end.usage });
    }
    match &found.intent {
        None => Recovered::Lost { reason: "the node cannot read its record of the job" },
        // Nothing was flushed to the disk, so the record of a start may be missing, and an intent alone proves
        // nothing.
        Some(intent) if intent.boot != boot => Recovered::Lost { reason: "the node was restarted" },
        Some(_) if faults::has(Fault::StartedAgain) => Recovered::Held,
        Some(_) if fate == Fate::Alive => Recovered::Alive,
        Some(_) if fate == Fate::Killed => Recovered::Lost { reason: SHEPHERD_KILLED },
        Some(_) if found.going => Recovered::Lost { reason: "the node does not know whether the command ran" },
        Some(_) => Recovered::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::lost;
    use crate::attempt::tests::exec;
    use crate::records::Intent;

    #[test]
    fn after_a_restart() {
        let intent = |boot: &str| Intent { exec: exec(1), cookie: String::new(), boot: boot.into() };
        let check = |of: Option<&str>, going, ended: bool, expected| {
            let end = ended.then(|| lost("before"));
            let found = Found { intent: of.map(intent), going, end, ..Found::default() };
            assert_eq!(recovered(&found, "this boot", Fate::Never), expected);
        };
        let released = |boot, fate| {
            let released = Some(limo_model::Power::ZERO);
            recovered(&Found { intent: Some(intent(boot)), released, ..Found::default() }, "this boot", fate)
        };
        assert_eq!(released("this boot", Fate::Never), Recovered::Held, "no shepherd has taken it");
        assert_eq!(released("this boot", Fate::Alive), Recovered::Alive);
        assert_eq!(released("this boot", Fate::Killed), Recovered::Lost { reason: SHEPHERD_KILLED });
        assert_eq!(released("other", Fate::Alive), Recovered::Lost { reason: "the node was restarted" });
        check(Some("this boot"), false, false, Recovered::Held);
        check(
            Some("this boot"),
            true,
            false,
            Recovered::Lost { reason: "the node does not know whether the command ran" },
        );
        check(Some("other"), true, false, Recovered::Lost { reason: "the node was restarted" });
        check(Some("other"), false, false, Recovered::Lost { reason: "the node was restarted" });
        check(None, false, false, Recovered::Lost { reason: "the node cannot read its record of the job" });
        check(Some("other"), true, true, Recovered::Ended(lost("before")));
    }
}
