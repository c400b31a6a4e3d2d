//! Faults that are injected into the node, the master and its database: the random worlds find each of them.

use std::cell::Cell;

use limo_node::Fault as OfNode;

use super::course::all_steps;
use super::panics::{self, Caught};
use super::*;
use crate::controller::faults::{self as of_master, Fault as OfMaster};

/// Number of worlds of each kind in which a fault must be found.
const SEEDS: u64 = 400;

/// Each fault, and the messages of worlds that find it.
const FAULTS: [(Injected, &[&str]); 38] = [
    (Injected::Node(OfNode::ToldBeforeDurable), &["recorded: None"]),
    (Injected::Node(OfNode::ForgottenEarly), &["does not come to an end", "was lost without need"]),
    (Injected::Node(OfNode::StartedAgain), &["is not counted", "is started twice"]),
    (Injected::Node(OfNode::LeaseForgotten), &["outlives its lease"]),
    (Injected::Node(OfNode::LimitForgotten), &["outlives its time limit"]),
    (Injected::Node(OfNode::ForeignAdopted), &["of another master"]),
    (Injected::Node(OfNode::CapsConfirmedEarly), &["confirms caps that are not set"]),
    (Injected::Node(OfNode::CodeChanged), &["recorded: Some(Exited("]),
    (Injected::Node(OfNode::ReleasedEarly), &["which ended Some(", "is not counted", "is started twice"]),
    (Injected::Node(OfNode::LossUntold), &["does not come to an end"]),
    (Injected::Node(OfNode::PrologIgnored), &["without a prolog"]),
    (Injected::Node(OfNode::EpilogSkipped), &["before its epilog"]),
    (Injected::Node(OfNode::AcknowledgedEarly), &["before it is recorded"]),
    (Injected::Node(OfNode::LimitNotChanged), &["outlives its time limit"]),
    (Injected::Node(OfNode::CapsKept), &["outlive their lease"]),
    (Injected::Node(OfNode::OwnerOverlooked), &["runs beside the owner"]),
    (Injected::Node(OfNode::OutputUnreported), &["does not come to an end"]),
    (Injected::Node(OfNode::ReasonUnbounded), &["has a reason of"]),
    (Injected::Node(OfNode::CapsLifted), &["are lifted while a job runs"]),
    (Injected::Master(OfMaster::AnsweredEarly), &["does not come to an end"]),
    (Injected::Master(OfMaster::StopNotRepeated), &["does not come to an end"]),
    (Injected::Master(OfMaster::EndNotAcknowledged), &["does not come to an end"]),
    (
        Injected::Master(OfMaster::LeaseNotAwaited),
        &["runs again", "is released while another one runs", "counts as lost too early"],
    ),
    (Injected::Master(OfMaster::DrawFreedEarly), &["is not counted"]),
    (Injected::Master(OfMaster::SubmissionForgotten), &["a submission became two jobs"]),
    (Injected::Master(OfMaster::AcknowledgementNotDue), &["does not come to an end"]),
    (Injected::Master(OfMaster::ReportsIgnored), &["is not counted"]),
    (Injected::Master(OfMaster::RestartOverlooked), &["was cancelled", "runs again"]),
    (Injected::Master(OfMaster::WallClockFollowed), &["does not come to an end"]),
    (Injected::Master(OfMaster::SleeperForgotten), &["does not come to an end"]),
    (Injected::Master(OfMaster::WokenOnce), &["does not come to an end"]),
    (Injected::Master(OfMaster::WindowLost), &["bytes that are kept"]),
    (Injected::Master(OfMaster::AbsenceOverlooked), &["counts as lost too early"]),
    (Injected::Master(OfMaster::HeartbeatOff), &["does not come to an end"]),
    (Injected::Master(OfMaster::LimitIgnored), &["connections of one user"]),
    (Injected::Master(OfMaster::CapsBelievedEarly), &["counts as capped", "is believed"]),
    (Injected::Master(OfMaster::AnswersConfused), &["is believed"]),
    (Injected::EpochUnchecked, &["a submission became two jobs", "a number given twice", "ended twice"]),
];

thread_local! {
    static EPOCH_UNCHECKED: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the database takes commits of a replaced master.
pub fn is_epoch_unchecked() -> bool {
    EPOCH_UNCHECKED.get()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Injected {
    Node(OfNode),
    Master(OfMaster),
    /// The database does not check the epoch of a commit.
    EpochUnchecked,
}

impl Injected {
    fn inject(self) {
        match self {
            Self::Node(fault) => limo_node::inject(Some(fault)),
            Self::Master(fault) => of_master::inject(Some(fault)),
            Self::EpochUnchecked => EPOCH_UNCHECKED.set(true),
        }
    }

    fn remove_all() {
        limo_node::inject(None);
        of_master::inject(None);
        EPOCH_UNCHECKED.set(false);
    }

    /// Returns the kinds of worlds that are searched for it. A fault that few worlds find is looked for where they are.
    fn kinds(self) -> Vec<WorldKind> {
        let [plain, wide, owners, sleepy, attached, capped] = WorldKind::busy();
        match self {
            Self::Node(OfNode::OutputUnreported) | Self::Master(OfMaster::WindowLost) => vec![attached],
            Self::Node(OfNode::CapsKept | OfNode::CapsLifted) => vec![capped],
            Self::Master(OfMaster::AnswersConfused) => vec![owners],
            Self::Node(OfNode::LossUntold | OfNode::LimitNotChanged) | Self::Master(OfMaster::CapsBelievedEarly) => {
                vec![plain]
            }
            Self::Node(OfNode::LeaseForgotten)
            | Self::Master(OfMaster::DrawFreedEarly | OfMaster::RestartOverlooked) => vec![wide],
            Self::Master(OfMaster::AbsenceOverlooked) => vec![owners],
            Self::Master(OfMaster::StopNotRepeated) => vec![sleepy],
            _ => vec![plain, wide, owners, sleepy],
        }
    }

    /// Returns the first seed whose world notices the fault, with its panic.
    fn found(self) -> Option<(u64, Caught)> {
        let (errors, _guard) = Errors::listen();
        self.inject();
        let kinds = self.kinds();
        let worlds = (1..=SEEDS).flat_map(|seed| kinds.iter().map(move |kind| (seed, *kind)));
        let run = |(seed, kind)| Some((seed, panics::run(seed, kind, &all_steps(kind), &errors).err()?));
        let found = worlds.filter_map(run).next();
        Self::remove_all();
        found
    }
}

#[test]
fn each_injected_fault_is_found() {
    let all = OfNode::ALL.map(Injected::Node).into_iter().chain(OfMaster::ALL.map(Injected::Master));
    let all = all.chain([Injected::EpochUnchecked]);
    assert_eq!(all.collect::<Vec<_>>(), FAULTS.map(|(fault, _)| fault));
    let mut missed = Vec::new();
    for (fault, signs) in FAULTS {
        let found = fault.found();
        println!("{fault:?}: {found:.300?}");
        if !found.as_ref().is_some_and(|(_, caught)| signs.iter().any(|sign| caught.message.contains(sign))) {
            missed.push((fault, found));
        }
    }
    assert!(missed.is_empty(), "not found, or for another reason: {missed:?}");
}
