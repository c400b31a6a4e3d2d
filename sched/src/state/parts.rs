//! The end of a multi-node job, from the reported ends of its parts.

use limo_model::{NodeId, Outcome, Span, Usage};
use serde::{Deserialize, Serialize};

/// The end of one node's part of a job, while other nodes have not reported theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEnd {
    pub node: NodeId,
    pub outcome: Outcome,
    pub usage: Usage,
}

/// Returns the end of a job from the ends of its parts. It is lost if one part was lost, else failed with a node if
/// one part was, else not started if one part was not, else not prepared if one part was not. Otherwise it has the
/// highest exit code. A job that was not prepared failed with that node if another part has run. Usages are added, but
/// the time is the longest one. The energy is known if the energy of each part is known.
pub fn joined(parts: &[PartEnd]) -> (Outcome, Usage) {
    let weight = |outcome: &Outcome| {
        let kind = match outcome {
            Outcome::Lost { .. } => 4,
            Outcome::NodeFailed { .. } => 3,
            Outcome::NotStarted { .. } => 2,
            Outcome::NotPrepared { .. } => 1,
            Outcome::Exited(_)
            | Outcome::Signaled(_)
            | Outcome::ExitedAtLimit(_)
            | Outcome::SignaledAtLimit(_)
            | Outcome::ExceededMemory { .. }
            | Outcome::EndedWithJob { .. } => 0,
        };
        // The node that ended its part at the time limit, or knows of its memory or its job, also knows the reason for the others.
        let has_reason = outcome.clone().split_limit().1
            || matches!(outcome, Outcome::ExceededMemory { .. } | Outcome::EndedWithJob { .. });
        (kind, outcome.exit_code(), has_reason)
    };
    // Takes the first of equal ones.
    let worst = parts.iter().rev().max_by_key(|part| weight(&part.outcome));
    let mut usage = Usage::default();
    for part in parts {
        let elapsed = usage.elapsed.max(part.usage.elapsed);
        usage.add(&part.usage);
        usage.elapsed = elapsed;
    }
    if parts.iter().any(|part| part.usage.energy.is_none()) {
        (usage.energy, usage.confidence) = (None, 0);
    }
    let outcome = match worst.map_or(Outcome::Exited(0), |part| part.outcome.clone()) {
        Outcome::NotPrepared { reason } if parts.iter().any(has_run) => Outcome::NodeFailed { reason },
        outcome => outcome,
    };
    (outcome, usage)
}

/// Returns true if the part's command may have run. A part that was stopped before its command ran has no time.
fn has_run(part: &PartEnd) -> bool {
    match part.outcome {
        Outcome::Lost { .. } | Outcome::NodeFailed { .. } => true,
        Outcome::NotStarted { .. } | Outcome::NotPrepared { .. } => false,
        Outcome::Signaled(_) => part.usage.elapsed > Span::ZERO,
        Outcome::Exited(_)
        | Outcome::ExitedAtLimit(_)
        | Outcome::SignaledAtLimit(_)
        | Outcome::ExceededMemory { .. }
        | Outcome::EndedWithJob { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Energy, Memory};

    fn part(node: u32, outcome: Outcome, secs: i64, energy: Option<i64>) -> PartEnd {
        let elapsed = Span::from_secs(secs);
        let energy = energy.map(Energy::from_mj);
        let confidence = energy.map_or(0, |_| 800);
        let usage = Usage { elapsed, user_cpu: elapsed, energy, confidence, ..Usage::default() };
        PartEnd { node: NodeId(node), outcome, usage }
    }

    #[test]
    fn the_worst_part_counts() {
        let lost = || Outcome::Lost { reason: "gone".into() };
        let missing = || Outcome::NotStarted { code: 126, reason: "no".into() };
        let check = |outcomes: &[Outcome], expected: Outcome| {
            let parts: Vec<PartEnd> = outcomes.iter().map(|outcome| part(0, outcome.clone(), 1, None)).collect();
            assert_eq!(joined(&parts).0, expected, "{outcomes:?}");
        };
        check(&[Outcome::Exited(0), Outcome::Exited(7), Outcome::Exited(3)], Outcome::Exited(7));
        check(&[Outcome::Exited(7), Outcome::Signaled(15)], Outcome::Signaled(15));
        check(&[Outcome::Signaled(15), missing()], missing());
        let exceeded = || Outcome::ExceededMemory { code: 137, limit: Memory::from_bytes(1) };
        check(&[Outcome::Signaled(9), exceeded(), Outcome::Signaled(9)], exceeded());
        let failed = || Outcome::NodeFailed { reason: "away".into() };
        check(&[missing(), failed(), Outcome::Signaled(15)], failed());
        check(&[failed(), lost()], lost());
        check(&[missing(), lost(), Outcome::Exited(255)], lost());
        check(&[], Outcome::Exited(0));
    }

    #[test]
    fn a_job_that_was_not_prepared_failed_with_its_node_only_if_a_part_has_run() {
        let unprepared = || Outcome::NotPrepared { reason: "no scratch".into() };
        let failed = Outcome::NodeFailed { reason: "no scratch".into() };
        let check = |outcome: Outcome, secs: i64, expected: &Outcome| {
            let parts = [part(0, outcome, secs, None), part(1, unprepared(), 0, None)];
            assert_eq!(&joined(&parts).0, expected, "{parts:?}");
        };
        // Stopped before its command ran, and after that.
        check(Outcome::Signaled(15), 0, &unprepared());
        check(Outcome::Signaled(15), 1, &failed);
        check(Outcome::Exited(0), 1, &failed);
        check(unprepared(), 0, &unprepared());
    }

    #[test]
    fn usages_of_parts_are_added() {
        let (_, usage) = joined(&[part(0, Outcome::Exited(0), 5, Some(10)), part(1, Outcome::Exited(0), 3, Some(20))]);
        assert_eq!((usage.elapsed, usage.user_cpu), (Span::from_secs(5), Span::from_secs(8)));
        assert_eq!((usage.energy, usage.confidence), (Some(Energy::from_mj(30)), 800));
        let (_, usage) = joined(&[part(0, Outcome::Exited(0), 5, Some(10)), part(1, Outcome::Exited(0), 3, None)]);
        assert_eq!((usage.energy, usage.confidence), (None, 0), "half of it is no sum");
    }
}
