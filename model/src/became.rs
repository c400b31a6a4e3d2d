//! The end of a job, as far as other jobs depend on it.

use std::fmt;

use crate::{Condition, Outcome};
use serde::{Deserialize, Serialize};

use crate::{JobEnd, StopReason};

/// The end of a job, as filters and dependencies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// The job ended by itself, with this code.
    Exited(u8),
    /// The job ended by itself, by this signal.
    Signaled(i32),
    /// The job was not started, because its command could not be executed.
    NotStarted,
    /// The job was lost: the node does not know its end.
    Lost,
    /// The job was cancelled before or during its run, by a user or because of another job's end.
    Cancelled,
    /// The job ended at its time limit.
    TimedOut,
    /// The job was refused, because an immediate start was required and impossible.
    Refused,
    /// The job was ended, because its allowance of energy or money was used up.
    UsedUp,
    /// The job ended, because its node was declared lost.
    NodeFailed,
}

impl Became {
    /// Classifies an end.
    pub fn of(end: &JobEnd) -> Self {
        match end {
            JobEnd::Cancelled { .. }
            | JobEnd::Unmet { .. }
            | JobEnd::Ran { outcome: Outcome::EndedWithJob { .. }, .. } => Self::Cancelled,
            JobEnd::Refused { .. } => Self::Refused,
            JobEnd::Ran { outcome: Outcome::ExitedAtLimit(_) | Outcome::SignaledAtLimit(_), .. } => Self::TimedOut,
            JobEnd::Ran { outcome: Outcome::Lost { .. }, .. } => Self::Lost,
            JobEnd::Ran { outcome: Outcome::NodeFailed { .. }, .. } => Self::NodeFailed,
            JobEnd::Ran { stopped: Some(StopReason::Cancelled { .. }), .. } => Self::Cancelled,
            JobEnd::Ran { stopped: Some(StopReason::TimeLimit { .. }), .. } => Self::TimedOut,
            JobEnd::Ran { stopped: Some(StopReason::UsedUp { .. }), .. } => Self::UsedUp,
            JobEnd::Ran { outcome: Outcome::Exited(code) | Outcome::ExceededMemory { code, .. }, .. } => {
                Self::Exited(*code)
            }
            JobEnd::Ran { outcome: Outcome::Signaled(signal), .. } => Self::Signaled(*signal),
            JobEnd::Ran { outcome: Outcome::NotStarted { .. } | Outcome::NotPrepared { .. }, .. } => Self::NotStarted,
        }
    }

    /// Returns true if this end meets the condition; otherwise the condition can never be met.
    pub fn meets(self, condition: Condition) -> bool {
        let is_well = self == Self::Exited(0);
        match condition {
            Condition::After | Condition::AfterAny => true,
            Condition::AfterOk => is_well,
            Condition::AfterNotOk => !is_well,
        }
    }
}

/// Continues a sentence that begins with `job 12`.
impl fmt::Display for Became {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signaled(signal) => write!(f, "was ended by signal {signal}"),
            Self::NotStarted => f.write_str("could not be started"),
            Self::Lost => f.write_str("was lost"),
            Self::Cancelled => f.write_str("was cancelled"),
            Self::TimedOut => f.write_str("reached its time limit"),
            Self::Refused => f.write_str("was refused"),
            Self::UsedUp => f.write_str("had used up its allowance"),
            Self::NodeFailed => f.write_str("ended because its node failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    /// Checks `afterok` and `afternotok`; the other conditions are always met.
    fn check(end: &JobEnd, words: &str, expected: (bool, bool)) {
        let became = Became::of(end);
        assert_eq!(became.to_string(), words);
        assert_eq!((became.meets(Condition::AfterOk), became.meets(Condition::AfterNotOk)), expected, "{words}");
        assert!(became.meets(Condition::AfterAny) && became.meets(Condition::After));
    }

    #[test]
    fn only_a_whole_run_with_exit_code_0_is_well() {
        let ran = |outcome: Outcome, stopped| JobEnd::Ran { outcome, stopped };
        let cancelled = || Some(StopReason::Cancelled { by: "ada".into() });
        let limit = || Some(StopReason::TimeLimit { limit: Span::from_secs(1) });
        check(&ran(Outcome::Exited(0), None), "exited with code 0", (true, false));
        check(&ran(Outcome::Exited(3), None), "exited with code 3", (false, true));
        check(&ran(Outcome::Signaled(9), None), "was ended by signal 9", (false, true));
        // It may have caught the signal, but was kept from finishing its work.
        check(&ran(Outcome::Exited(0), cancelled()), "was cancelled", (false, true));
        check(&ran(Outcome::Exited(0), limit()), "reached its time limit", (false, true));
        check(&ran(Outcome::Lost { reason: String::new() }, cancelled()), "was lost", (false, true));
        let failed = Outcome::NodeFailed { reason: String::new() };
        check(&ran(failed, cancelled()), "ended because its node failed", (false, true));
        check(
            &ran(Outcome::NotStarted { code: 127, reason: String::new() }, None),
            "could not be started",
            (false, true),
        );
        check(&JobEnd::Cancelled { by: "ada".into() }, "was cancelled", (false, true));
    }
}
