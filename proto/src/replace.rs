//! Replacements for messages that do not fit into a frame, because sending them again would fail forever.
//!
//! The bounds of the fields keep messages below the limit. This module is a second safeguard, in case a bound is
//! wrong.

use limo_model::Outcome;

use crate::bound::{List, Text};
use crate::encoding::EncodeError;
use crate::message::{ClientToMaster, MasterToClient, NodeToMaster};
use crate::orders::MasterToNode;
use crate::register::{AttemptReport, AttemptState};

/// A message with a smaller replacement.
pub trait Replace: Sized {
    /// Returns a message that reports the failure. `None` if the sender must be told instead.
    fn replacement(&self, error: &EncodeError) -> Option<Self>;
}

/// Returns the same end without its large parts.
fn short(outcome: &Outcome, error: &EncodeError) -> Outcome {
    let reason = format!("its reason cannot be reported: {error}");
    match outcome {
        Outcome::NotStarted { code, .. } => Outcome::NotStarted { code: *code, reason },
        Outcome::Lost { .. } => Outcome::Lost { reason },
        Outcome::NodeFailed { .. } => Outcome::NodeFailed { reason },
        Outcome::NotPrepared { .. } => Outcome::NotPrepared { reason },
        Outcome::Exited(_)
        | Outcome::Signaled(_)
        | Outcome::ExitedAtLimit(_)
        | Outcome::SignaledAtLimit(_)
        | Outcome::ExceededMemory { .. }
        | Outcome::EndedWithJob { .. } => outcome.clone(),
    }
}

fn short_report(report: &AttemptReport, error: &EncodeError) -> AttemptReport {
    let state = match &report.state {
        AttemptState::Ended { outcome, usage } => AttemptState::Ended { outcome: short(outcome, error), usage: *usage },
        state => state.clone(),
    };
    AttemptReport { state, ..report.clone() }
}

impl Replace for NodeToMaster {
    fn replacement(&self, error: &EncodeError) -> Option<Self> {
        let reason = || Text::new(format!("the answer cannot be sent: {error}"));
        match self {
            Self::JobRefused { job, attempt, .. } => {
                Some(Self::JobRefused { job: *job, attempt: *attempt, reason: reason() })
            }
            Self::Ended { job, attempt, outcome, usage } => {
                Some(Self::Ended { job: *job, attempt: *attempt, outcome: short(outcome, error), usage: *usage })
            }
            Self::Capped { generation, failed } => {
                let failed = failed.iter().map(|(unit, _)| (*unit, Text::default())).collect();
                Some(Self::Capped { generation: *generation, failed: List::clipped(failed) })
            }
            Self::Probed { ticket, .. } => {
                Some(Self::Probed { ticket: *ticket, report: Text::new(format!("the report cannot be sent: {error}")) })
            }
            Self::Attempts(reports) => {
                let reports = reports.iter().map(|report| short_report(report, error)).collect();
                Some(Self::Attempts(List::clipped(reports)))
            }
            _ => None,
        }
    }
}

impl Replace for MasterToNode {
    fn replacement(&self, error: &EncodeError) -> Option<Self> {
        match self {
            Self::Refused { .. } => {
                Some(Self::Refused { reason: Text::new(format!("the reason cannot be sent: {error}")) })
            }
            // A node without the assignment does not acknowledge it, so the master takes it back.
            Self::DoExec(exec) => Some(Self::Drop { job: exec.job, attempt: exec.attempt }),
            _ => None,
        }
    }
}

impl Replace for MasterToClient {
    fn replacement(&self, error: &EncodeError) -> Option<Self> {
        let refused = |hint: Option<&str>| Self::Refused {
            reason: format!("the answer is too long: {error}"),
            hint: hint.map(str::to_owned),
        };
        match self {
            Self::Finished { job, report } => {
                let mut report = report.clone();
                (report.units, report.dependencies, report.array) = (Vec::new(), Vec::new(), None);
                (report.stdout, report.stderr) = (None, None);
                report.command.clear();
                // The nodes are kept, because the client counts the streams by them.
                Some(Self::Finished { job: *job, report })
            }
            Self::Running { job, .. } => {
                Some(Self::Running { job: *job, node: "several nodes".into(), unit: String::new() })
            }
            Self::TakenUp { .. } => Some(refused(None)),
            _ => Some(refused(Some("ask for less"))),
        }
    }
}

impl Replace for ClientToMaster {
    fn replacement(&self, _: &EncodeError) -> Option<Self> {
        // The user must learn about this failure.
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BODY_LIMIT, Frame};
    use limo_model::{Attempt, JobId, Usage};

    #[test]
    fn a_replacement_of_a_message_is_small_and_has_its_subject() {
        let error = EncodeError::TooLarge { size: 2_000_000, limit: BODY_LIMIT };
        let check = |message: NodeToMaster, expected: &str| {
            let short = message.replacement(&error).expect("something stands in for it");
            let size = Frame::Message(short.clone()).encode().expect("small").len();
            assert!(size < 512 * 1024, "{size} bytes");
            let shown = format!("{short:?}");
            assert!(shown.contains(expected), "{shown}");
        };
        let (job, attempt, usage) = (JobId(7), Attempt(2), Usage::default());
        let why = "the message takes 2000000 bytes: the limit is 1048576";
        let outcome = Outcome::NotStarted { code: 127, reason: "x".repeat(2_000_000) };
        check(NodeToMaster::Ended { job, attempt, outcome: outcome.clone(), usage }, why);
        check(NodeToMaster::Ended { job, attempt, outcome, usage }, "code: 127");
        check(NodeToMaster::JobRefused { job, attempt, reason: "x".into() }, why);
        check(NodeToMaster::Probed { ticket: 5, report: "x".into() }, why);
        let failed = List::clipped(vec![(3, Text::from("x"))]);
        check(NodeToMaster::Capped { generation: 9, failed }, "(3, \"\")");
        let state = AttemptState::Ended { outcome: Outcome::Lost { reason: "x".repeat(2_000_000) }, usage };
        let report = AttemptReport {
            journal: Default::default(),
            job,
            attempt,
            state,
            stdin_offset: 0,
            kept: Default::default(),
            is_evicted: false,
            checkpointed: None,
        };
        check(NodeToMaster::Attempts(List::clipped(vec![report])), why);
        let long = "x".repeat(2_000_000);
        let refused = MasterToClient::Refused { reason: long, hint: None };
        match refused.replacement(&error) {
            Some(MasterToClient::Refused { reason, .. }) => {
                assert_eq!(reason, format!("the answer is too long: {why}"))
            }
            other => panic!("{other:?}"),
        }
    }
}
