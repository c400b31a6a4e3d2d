//! Faults that are injected into the node and the master: the random worlds find each of them.

use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex};
use std::thread;

use limo_node::Fault as OfNode;

use super::*;
use crate::controller::faults::{self as of_master, Fault as OfMaster};

/// Number of worlds of each kind in which a fault must be found.
const SEEDS: u64 = 200;

/// Each fault, and the message of a world that finds it.
const FAULTS: [(Injected, &str); 13] = [
    (Injected::Node(OfNode::ToldBeforeDurable), "recorded: None"),
    (Injected::Node(OfNode::ForgottenEarly), "does not come to an end"),
    (Injected::Node(OfNode::StartedAgain), "which ended Some("),
    (Injected::Node(OfNode::LeaseForgotten), "outlives its lease"),
    (Injected::Node(OfNode::LimitForgotten), "outlives its time limit"),
    (Injected::Node(OfNode::ForeignAdopted), "of another master"),
    (Injected::Node(OfNode::CapsConfirmedEarly), "confirms caps that are not set"),
    (Injected::Node(OfNode::CodeChanged), "recorded: Some(Exited("),
    (Injected::Node(OfNode::ReleasedEarly), "which ended Some("),
    (Injected::Node(OfNode::LossUntold), "does not come to an end"),
    (Injected::Node(OfNode::PrologIgnored), "without a prolog"),
    (Injected::Master(OfMaster::AnsweredEarly), "does not come to an end"),
    (Injected::Master(OfMaster::StopNotRepeated), "does not come to an end"),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Injected {
    Node(OfNode),
    Master(OfMaster),
}

impl Injected {
    fn inject(self) {
        match self {
            Self::Node(fault) => limo_node::inject(Some(fault)),
            Self::Master(fault) => of_master::inject(Some(fault)),
        }
    }

    /// Returns the first seed whose world notices the fault.
    fn found(self) -> Option<u64> {
        let (errors, _guard) = Errors::listen();
        self.inject();
        let found = (1..=SEEDS).find(|seed| {
            let kinds = [false, true].map(|wide| WorldKind { wide, busy: true, owners: false });
            kinds.iter().any(|kind| {
                errors.take();
                catch_unwind(|| World::run(*seed, *kind, errors.clone())).is_err()
            })
        });
        limo_node::inject(None);
        of_master::inject(None);
        found
    }
}

#[test]
fn each_injected_fault_is_found() {
    let all = OfNode::ALL.map(Injected::Node).into_iter().chain(OfMaster::ALL.map(Injected::Master));
    assert_eq!(all.collect::<Vec<_>>(), FAULTS.map(|(fault, _)| fault));
    // The panics of these worlds are expected, so they are kept and not shown.
    let (own, said) = (thread::current().id(), Arc::new(Mutex::new(String::new())));
    let (usual, kept) = (take_hook(), Arc::clone(&said));
    set_hook(Box::new(move |panic| {
        if thread::current().id() == own {
            *kept.lock().expect("nobody panics while holding it") = panic.to_string();
        } else {
            usual(panic);
        }
    }));
    let mut missed = Vec::new();
    for (fault, sign) in FAULTS {
        let seed = fault.found();
        let said = std::mem::take(&mut *said.lock().expect("nobody panics while holding it"));
        println!("{fault:?}: {seed:?}: {said:.300}");
        if seed.is_none() || !said.contains(sign) {
            missed.push((fault, seed, said));
        }
    }
    let _ = take_hook();
    assert!(missed.is_empty(), "not found, or for another reason: {missed:?}");
}
