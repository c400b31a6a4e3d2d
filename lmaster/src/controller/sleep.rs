//! Sleeping nodes: orders to sleep, waking, and the handling of failures.
//!
//! The stage of a node's sleep is state of the core, so a restarted master continues from it. This module keeps only
//! data that may begin again: the deadlines of answers, and the count of attempts to wake a node.
//!
//! | state in the core | event | result |
//! |---|---|---|
//! | going down | the node confirms | its connection is closed; it is asleep when its time to fall asleep is over |
//! | going down | the node refuses | awake, and no new order for `sleep_again_after` |
//! | going down | the node does not answer in time | its connection is closed |
//! | going down | its connection ends before the answer, or the master was restarted, and the node does not register in time | asleep |
//! | asleep | silence | none: no lease runs |
//! | waking | the node does not register in time | woken again, `wake_tries` times in total; then drained, its jobs taken back |
//! | going down, asleep | the node registers without an order | awake, and no new order for `sleep_again_after` |
//! | waking | the node registers | awake |
//!
//! A job on waking nodes is sent only when all of them have registered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use limo_model::{Attempt, JobId, NodeId, NodeSpec, Span, Time, Wake};
use limo_proto::MasterToNode;
use limo_sched::{Assignment, Event, Node, Sleep};

use super::assignments::Assignments;
use super::faults::{self, Fault};
use super::multi_node::nodes_of;
use super::node_peer::NodeLinks;
use super::tx::Tx;
use super::{Controller, Effect, PeerId};
use crate::changed::LOST;
use crate::wake::WakeOrder;

/// Settings for sleeping and waking: `[idle]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleSettings {
    /// Longest time for a node to confirm that it falls asleep. Positive.
    pub sleep_timeout: Span,
    /// Time before a node that did not fall asleep gets the next order. Positive.
    pub sleep_again_after: Span,
    /// Longest time for a woken node to register. At least the time in the node's description counts. Positive.
    pub wake_timeout: Span,
    /// Attempts to wake a node before it is drained. At least 1.
    pub wake_tries: u32,
    /// Command that wakes a node; its name is the argument.
    pub wake_command: Option<String>,
    /// Port for magic packets.
    pub wol_port: u16,
}

/// Nodes that are falling asleep or waking.
#[derive(Debug, Default)]
pub(super) struct Sleepers {
    steps: BTreeMap<NodeId, (Step, Time)>,
    due: BTreeSet<(Time, NodeId)>,
    /// Assignments that wait until all of their nodes are awake.
    starts: BTreeMap<JobId, Attempt>,
}

/// The awaited change.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Answer to an order to sleep.
    Told,
    /// Time that a node needs to fall asleep.
    Falling,
    /// Registration of a woken node, with the attempts so far and the last error.
    Woken { tries: u32, fault: Option<String> },
}

/// A node whose time is over.
enum Overdue {
    /// It does not answer an order to sleep.
    Silent(NodeId),
    /// It does not wake, with the attempts to wake it and the last error.
    Asleep { node: NodeId, tries: u32, fault: Option<String> },
}

impl Sleepers {
    fn set(&mut self, node: NodeId, step: Step, until: Time) {
        self.forget(node);
        self.steps.insert(node, (step, until));
        self.due.insert((until, node));
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some((_, until)) = self.steps.remove(&node) {
            self.due.remove(&(until, node));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Gives all nodes this time in addition.
    pub(super) fn extend(&mut self, by: Span) {
        self.steps.values_mut().for_each(|(_, until)| *until = *until + by);
        self.due = self.due.iter().map(|(at, node)| (*at + by, *node)).collect();
    }

    fn take_due(&mut self, now: Time) -> Option<(NodeId, Step)> {
        let (_, node) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        let step = self.steps.get(&node).map(|(step, _)| step.clone())?;
        self.forget(node);
        Some((node, step))
    }

    /// Returns true if an assignment was not sent yet because one of its nodes is waking.
    pub(super) fn is_unsent(&self, job: JobId, attempt: Attempt) -> bool {
        self.starts.get(&job) == Some(&attempt)
    }

    /// Continues the changes that were in progress, after the state was restored.
    pub(super) fn take_up(&mut self, tx: &mut Tx, assignments: &mut Assignments) {
        *self = Self { starts: tx.starting().collect(), ..Self::default() };
        let core = &tx.core;
        let waits = |job: &JobId| core.job(*job)?.assignment().map(|assignment| wakes(core, assignment));
        self.starts.retain(|job, _| waits(job) == Some(true));
        // Unsent assignments were not released by any earlier process.
        assignments.not_released(|job| self.starts.contains_key(&job));
        let nodes: Vec<(NodeId, Sleep)> = core.known_nodes().map(|node| (node.id(), node.sleep())).collect();
        for (node, sleep) in nodes {
            match sleep {
                // The order may have been lost; then the node registers.
                Sleep::GoingDown => self.falls_asleep_unseen(tx, node),
                Sleep::Waking => self.call(tx, node, 1),
                Sleep::Awake | Sleep::Asleep => {}
            }
        }
    }

    /// Returns true if a node of this assignment is not awake yet.
    pub(super) fn awaits_waking(&mut self, tx: &Tx, job: JobId, attempt: Attempt) -> bool {
        let waits = tx.assignment(job, attempt).is_some_and(|assignment| wakes(&tx.core, assignment));
        if waits {
            self.starts.insert(job, attempt);
        }
        waits
    }

    pub(super) fn is_withdrawn(&mut self, job: JobId) {
        self.starts.remove(&job);
    }

    /// Sends durable orders to sleep.
    pub(super) fn put_to_sleep(&mut self, tx: &mut Tx, nodes: &NodeLinks, runs: &[(NodeId, u32)]) {
        for node in each(runs) {
            // A node whose connection broke meanwhile counts as awake again.
            if let (Some(peer), Sleep::GoingDown) = (nodes.welcomed(node), sleep_of(tx, node)) {
                nodes.tell(tx, peer, MasterToNode::Sleep);
                self.set(node, Step::Told, tx.now + tx.settings.idle.sleep_timeout);
            }
        }
    }

    /// Carries out durable orders to wake nodes.
    pub(super) fn wake_nodes(&mut self, tx: &mut Tx, runs: &[(NodeId, u32)]) {
        for node in each(runs) {
            if sleep_of(tx, node) == Sleep::Waking {
                self.call(tx, node, 1);
            }
        }
    }

    /// Returns true if a registering node was expected to be asleep.
    pub(super) fn was_to_sleep(tx: &Tx, node: NodeId) -> bool {
        matches!(sleep_of(tx, node), Sleep::GoingDown | Sleep::Asleep)
    }

    /// Records a registration. A node that should be asleep gets no order for a while: somebody switched it on, or it
    /// will report an error.
    pub(super) fn is_awake(&mut self, tx: &mut Tx, node: NodeId, unasked: bool) {
        self.forget(node);
        if unasked {
            let until = tx.now + tx.settings.idle.sleep_again_after;
            tx.must(Event::SleepFailed { node, until, reason: "it registered unasked".to_owned() });
        }
    }

    /// Handles a node that did not fall asleep. It registered again, or stayed connected.
    pub(super) fn sleep_failed(&mut self, tx: &mut Tx, node: NodeId, reason: &str) {
        let again = tx.settings.idle.sleep_again_after;
        tracing::warn!(node = tx.name_of(node), reason, "the node does not sleep; it is left alone for {again}");
        self.forget(node);
        tx.must(Event::SleepFailed { node, until: tx.now + again, reason: reason.to_owned() });
    }

    /// Handles a failure of the shell to wake a node.
    pub(super) fn wake_failed(&mut self, tx: &Tx, node: NodeId, reason: String) {
        tracing::warn!(node = tx.name_of(node), reason, "the node cannot be woken");
        if let Some((Step::Woken { fault, .. }, _)) = self.steps.get_mut(&node) {
            *fault = Some(reason);
        }
    }

    /// Handles a broken connection. Returns true if the node may have obeyed an order to sleep, and its answer is lost:
    /// then it is not unreachable, but falls asleep, unless it registers in time.
    pub(super) fn broke(&mut self, tx: &mut Tx, node: NodeId) -> bool {
        let may_obey = matches!(self.steps.get(&node), Some((Step::Told | Step::Falling, _)));
        self.forget(node);
        match sleep_of(tx, node) {
            Sleep::GoingDown if may_obey && !faults::has(Fault::SleeperForgotten) => {
                self.falls_asleep_unseen(tx, node);
                return true;
            }
            Sleep::Awake => {}
            Sleep::GoingDown | Sleep::Asleep | Sleep::Waking => tx.must(Event::Awake { nodes: vec![(node, 1)] }),
        }
        false
    }

    /// Expects a node to fall asleep that cannot say so.
    fn falls_asleep_unseen(&mut self, tx: &Tx, node: NodeId) {
        let down = span_of(tx, node, |rest| rest.down.span);
        self.set(node, Step::Falling, tx.now + tx.settings.idle.sleep_timeout.max(down));
    }

    /// Decides about nodes whose time has come, until one is overdue. Returns that one.
    fn decide(&mut self, tx: &mut Tx) -> Option<Overdue> {
        while tx.commits.is_open()
            && let Some((node, step)) = self.take_due(tx.now)
        {
            match (step, sleep_of(tx, node)) {
                // Its answer may be lost.
                (Step::Told, Sleep::GoingDown) => {
                    self.falls_asleep_unseen(tx, node);
                    return Some(Overdue::Silent(node));
                }
                (Step::Falling, Sleep::GoingDown) => {
                    tracing::info!(node = tx.name_of(node), "the node is asleep");
                    tx.must(Event::Asleep { nodes: vec![(node, 1)] });
                }
                (Step::Woken { .. }, Sleep::Waking) if faults::has(Fault::WokenOnce) => {}
                (Step::Woken { tries, fault }, Sleep::Waking) => match tries < tx.settings.idle.wake_tries {
                    true => self.call(tx, node, tries + 1),
                    false => return Some(Overdue::Asleep { node, tries, fault }),
                },
                // Another event has changed its state.
                _ => {}
            }
        }
        None
    }

    /// Wakes a node in attempt `tries`.
    fn call(&mut self, tx: &mut Tx, node: NodeId, tries: u32) {
        let timeout = wake_timeout(tx, node);
        let order = tx.core.node(node).and_then(|node| wake_order(tx, node.spec()));
        let fault = order.is_none().then(|| "the master has no wake command any more".to_owned());
        tracing::info!(node = tx.name_of(node), tries, "the node is being woken");
        self.set(node, Step::Woken { tries, fault }, tx.now + timeout);
        tx.effects.extend(order.map(|order| Effect::Wake(node, order)));
    }

    /// Marks a node as always on if it cannot be woken.
    pub(super) fn with_waking(tx: &Tx, spec: NodeSpec) -> NodeSpec {
        let can = wake_order(tx, &spec).is_some();
        if spec.rest.is_some() && !can {
            tracing::warn!(
                node = spec.name,
                "the node could sleep and stays awake: set `wake_command` in the section [idle] of the master's settings"
            );
        }
        NodeSpec { rest: spec.rest.filter(|_| can), ..spec }
    }
}

/// Returns each node of the ranges.
fn each(runs: &[(NodeId, u32)]) -> impl Iterator<Item = NodeId> {
    runs.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId))
}

impl Controller {
    /// Decides about nodes whose time has come.
    pub(super) fn sleep_due(&mut self) {
        while let Some(overdue) = self.sleepers.decide(&mut self.tx) {
            match overdue {
                Overdue::Silent(node) => {
                    let timeout = self.tx.settings.idle.sleep_timeout;
                    let peer = self.link(node);
                    let reason = format!("the order to sleep was not answered within {timeout}");
                    peer.into_iter().for_each(|peer| self.close_node(peer, reason.clone()));
                }
                Overdue::Asleep { node, tries, fault } => self.give_up(node, tries, fault),
            }
        }
    }

    /// Drains a node that does not wake, until an operator has checked it. Its draw is unknown, as for an unreachable
    /// node.
    fn give_up(&mut self, node: NodeId, tries: u32, fault: Option<String>) {
        let (name, timeout) = (self.tx.name_of(node), wake_timeout(&self.tx, node));
        let times = if tries == 1 { "once".to_owned() } else { format!("{tries} times") };
        let fault = fault.map(|fault| format!(": {fault}")).unwrap_or_default();
        let reason = format!("did not wake within {timeout}, tried {times}{fault}");
        tracing::error!(
            node = name,
            reason,
            "node drained; when it is repaired, run `lconf node resume {name}` and start lslave on it"
        );
        for (job, attempt) in self.attempts_on(node) {
            self.take_back(job, attempt, &format!("its node {name} did not wake"));
        }
        if self.tx.core.node(node).is_some_and(|node| node.drained().is_none()) {
            self.tx.must(Event::NodeDrained { node, reason, by: LOST.to_owned() });
        }
        self.tx.must(Event::Awake { nodes: vec![(node, 1)] });
        self.tx.must(Event::NodeAway { node });
        self.liveness.is_unreachable(&self.tx, node);
    }

    /// Sends the assignments whose last missing node has registered now.
    pub(super) fn start_woken(&mut self, node: NodeId) {
        let starts: Vec<(JobId, Attempt)> = self.attempts_on(node);
        for (job, attempt) in starts {
            let Some(assignment) = self.assignment(job, attempt).filter(|_| self.sleepers.is_unsent(job, attempt))
            else {
                continue;
            };
            let is_ready = |node: &NodeId| self.link(*node).is_some();
            if !wakes(&self.tx.core, assignment) && nodes_of(assignment).iter().all(is_ready) {
                self.sleepers.starts.remove(&job);
                self.assign(job, attempt);
            }
        }
    }

    /// Handles a node's message that it falls asleep and will be silent until it is awake.
    pub(super) fn falls_asleep(&mut self, peer: PeerId, node: NodeId) {
        if sleep_of(&self.tx, node) != Sleep::GoingDown {
            return self.close_node(peer, "the node falls asleep, which it was not told to".into());
        }
        self.nodes.remove(peer);
        self.tx.effects.push(Effect::Part(peer));
        self.tx.forget_reading(node);
        self.probes_broke(node);
        let down = span_of(&self.tx, node, |rest| rest.down.span);
        self.sleepers.set(node, Step::Falling, self.tx.now + down);
        tracing::info!(node = self.tx.name_of(node), "the node falls asleep");
    }
}

fn wake_order(tx: &Tx, spec: &NodeSpec) -> Option<WakeOrder> {
    let idle = &tx.settings.idle;
    match spec.rest()?.wake? {
        Wake::Command => {
            let command = idle.wake_command.clone()?;
            Some(WakeOrder::Command { command, node: spec.name.clone() })
        }
        Wake::Wol { mac, broadcast } => {
            let to = SocketAddrV4::new(broadcast.unwrap_or(Ipv4Addr::BROADCAST), idle.wol_port);
            Some(WakeOrder::Packet { mac, to })
        }
    }
}

fn wake_timeout(tx: &Tx, node: NodeId) -> Span {
    tx.settings.idle.wake_timeout.max(span_of(tx, node, |rest| rest.up.span))
}

fn sleep_of(tx: &Tx, node: NodeId) -> Sleep {
    tx.core.node(node).map(Node::sleep).unwrap_or_default()
}

fn span_of(tx: &Tx, node: NodeId, of: fn(limo_model::Rest) -> Span) -> Span {
    tx.core.node(node).and_then(|node| node.spec().rest()).map_or(Span::ZERO, of)
}

fn wakes(core: &limo_sched::Core, assignment: &Assignment) -> bool {
    nodes_of(assignment).iter().any(|node| core.node(*node).is_some_and(|node| !node.is_awake()))
}
