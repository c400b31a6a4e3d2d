//! The record of a node: its hardware, its state, its draw and its caps.

use std::collections::BTreeSet;

use limo_model::{
    Attempt, JobId, NodeId, NodeSpec, OwnerRules, Power, Reboot, SleepRules, Span, Time, UnitId, UnitSpec,
};
use serde::{Deserialize, Serialize};

use super::sessions::SessionRecord;
use super::slept::Slept;
use crate::account::Bill;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub(crate) id: NodeId,
    pub(crate) spec: NodeSpec,
    pub(crate) connected: bool,
    pub(crate) drained: Option<Box<Drained>>,
    pub(crate) suspect_until: Option<Time>,
    pub(crate) sleep: Sleep,
    pub(crate) reading: Option<Reading>,
    /// Draw apart from jobs that no reading contains: its fresh reading, else its idle or sleeping draw.
    pub(crate) own: Power,
    /// Energy and cost of `own` until `since`.
    pub(crate) bill: Bill,
    pub(crate) since: Time,
    /// Time since which it has no job.
    pub(crate) idle_since: Time,
    pub(crate) caps: Caps,
    /// Unconfirmed orders about jobs, with the error of the node's readings until the confirmation.
    pub(crate) unseen: Vec<(Change, Power)>,
    /// Time since which it is unreachable, in cluster time. `None` while it is connected, and for a node that never
    /// registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) away_since: Option<Time>,
    /// Time since which it is lost. Cleared when it registers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<Time>,
    /// Attempts that were on it when it was lost and may still run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) held: Vec<Held>,
    /// Time before which it is not put to sleep, because it failed to sleep as ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) awake_until: Option<Time>,
    /// Energy at the beginning of its present power state; `None` before the first change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slept: Option<Box<Slept>>,
    /// Names of the queues whose jobs it does not run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) closed_to: Vec<String>,
    /// Its group, as a place in the order of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<u16>,
    #[serde(default, skip_serializing_if = "Owner::is_unknown")]
    pub(crate) owner: Owner,
    /// The rules of its group.
    #[serde(default, skip_serializing_if = "SleepRules::are_usual")]
    pub(crate) rules: SleepRules,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reboot: Option<Box<Reboot>>,
    /// Sessions of its owners; `None` for a node that never had owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<Box<SessionRecord>>,
}

/// The owner of a node: present or not, and the rules of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owner {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<OwnerRules>,
    /// Time since which the owner is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) here: Option<Time>,
    /// Time at which jobs may start again on a node whose owner has left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) closed_until: Option<Time>,
}

impl Owner {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if owners suspend and evict jobs.
    pub(crate) fn evicts(&self) -> bool {
        self.rules.is_some_and(|rules| rules.evict())
    }

    /// Returns the time since which the owner is there and suspends jobs.
    pub fn suspends_since(&self) -> Option<Time> {
        self.here.filter(|_| self.evicts())
    }

    /// Returns the time at which jobs may start again, if its owner has left a short time ago.
    pub fn opens_at(&self, now: Time) -> Option<Time> {
        self.closed_until.filter(|until| now < *until)
    }

    /// Returns true if no job may start because of the owner.
    pub(crate) fn closes(&self, now: Time) -> bool {
        self.suspends_since().is_some() || self.opens_at(now).is_some()
    }
}

/// The draw of an attempt that was reported as ended although its node did not confirm it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub job: JobId,
    pub attempt: Attempt,
    /// Expected draw on this node at its end. Zero while the job is not over: its own draw then counts.
    pub draw: Power,
}

/// An order that a node confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// A job runs under other caps.
    Caps(JobId),
    /// A job is suspended or resumed.
    Pause(JobId),
}

impl Change {
    pub fn job(self) -> JobId {
        let (Self::Caps(job) | Self::Pause(job)) = self;
        job
    }
}

/// The last ordered caps of a node's units.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Caps {
    /// Caps by unit; the list may omit trailing units without caps.
    pub limits: Vec<Option<Power>>,
    pub generation: u64,
    /// Time of the last change.
    pub changed: Time,
    /// Units, by index, whose cap the node could not set.
    pub failed: BTreeSet<u16>,
    /// True if it takes no jobs because of these units, since the policy divides the upper limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disobeys: bool,
    /// True if the node has not confirmed the last order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}

impl Caps {
    /// Expects all units to obey caps again.
    pub(crate) fn obey_again(&mut self) {
        self.failed.clear();
        self.disobeys = false;
    }
}

/// The power state of a node. Falling asleep and waking are states of the node, never jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sleep {
    #[default]
    Awake,
    GoingDown,
    Asleep,
    Waking,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    pub reason: String,
    pub by: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub draw: Power,
    pub at: Time,
}

impl Node {
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns true if it was removed, so that only its number is left.
    pub fn is_removed(&self) -> bool {
        self.spec.units.is_empty()
    }

    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns the time since which it is unreachable, if it ever was reachable.
    pub fn away_since(&self) -> Option<Time> {
        self.away_since
    }

    /// Returns the time since which it is lost; its jobs ended without a report.
    pub fn lost_since(&self) -> Option<Time> {
        self.lost
    }

    /// Returns the attempts that ended without its report and may still draw power on it.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    /// Returns the sum of its held draws.
    pub fn held_draw(&self) -> Power {
        self.held.iter().map(|held| held.draw).sum()
    }

    pub fn drained(&self) -> Option<&Drained> {
        self.drained.as_deref()
    }

    pub fn is_suspect(&self, now: Time) -> bool {
        self.caps.disobeys || self.suspect_until.is_some_and(|until| now < until)
    }

    /// Returns true if it may get new jobs.
    pub fn is_available(&self, now: Time) -> bool {
        self.is_open(now) && !self.owner.closes(now) && !self.stays_asleep()
    }

    /// Returns true if it sleeps, or is about to, and no job may wake it.
    pub(crate) fn stays_asleep(&self) -> bool {
        self.rules.stays && matches!(self.sleep, Sleep::GoingDown | Sleep::Asleep)
    }

    /// Returns true if only its owner, or its sleep, may keep new jobs from it.
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.connected && self.drained.is_none() && !self.is_suspect(now) && !self.reboots()
    }

    /// Returns the progress of its daily reboot.
    pub fn reboot(&self) -> Option<&Reboot> {
        self.reboot.as_deref()
    }

    /// Returns true if its daily reboot keeps jobs from it.
    pub fn reboots(&self) -> bool {
        self.reboot.as_ref().is_some_and(|reboot| reboot.closes())
    }

    /// Returns the state of its owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns true if its believed draw comes from a reading.
    pub fn is_measured(&self, now: Time, stale_after: Span) -> bool {
        self.reading.is_some_and(|reading| now - reading.at <= stale_after)
    }

    pub fn sleep(&self) -> Sleep {
        self.sleep
    }

    pub fn is_awake(&self) -> bool {
        self.sleep == Sleep::Awake
    }

    /// Returns true if a job could start on it at once.
    pub(crate) fn is_usable(&self, now: Time) -> bool {
        self.is_available(now) && self.sleep == Sleep::Awake
    }

    /// Returns the cap of a unit.
    pub fn cap(&self, unit: u16) -> Option<Power> {
        self.caps.limits.get(usize::from(unit)).copied().flatten()
    }

    /// Returns the last ordered caps of its units, and the number of the order.
    pub fn caps(&self) -> (u64, Vec<Option<Power>>) {
        (
            self.caps.generation,
            (0..self.spec.units.len()).map(|unit| self.caps.limits.get(unit).copied().flatten()).collect(),
        )
    }

    /// Returns true if the node has not confirmed the last order of caps.
    pub fn has_unconfirmed_caps(&self) -> bool {
        self.caps.unconfirmed
    }

    /// Returns the lowest and the highest cap of a unit, if it can be capped: it obeys caps, and has not failed to.
    pub fn cap_range(&self, unit: u16) -> Option<(Power, Power)> {
        let range = self.spec.units.get(usize::from(unit))?.caps;
        range.filter(|_| !self.caps.failed.contains(&unit))
    }

    /// Returns the place of its group in the order of their names.
    pub(crate) fn group(&self) -> Option<usize> {
        self.group.map(usize::from)
    }

    /// Returns its draw without jobs and readings.
    pub(crate) fn still_draw(&self) -> Power {
        match (self.sleep, &self.spec.rest) {
            (Sleep::GoingDown, Some(rest)) => rest.down.draw,
            (Sleep::Asleep, Some(rest)) => rest.draw,
            (Sleep::Waking, Some(rest)) => rest.up.draw,
            // Without a meter, an owner may use all of it.
            _ if self.owner.here.is_some() => self.spec.idle + self.spec.units.iter().map(|unit| unit.nameplate).sum(),
            _ => self.spec.idle,
        }
    }

    /// Returns all of its units.
    pub fn units(&self) -> impl Iterator<Item = (UnitId, &UnitSpec)> {
        let id = |index: usize| UnitId { node: self.id, unit: u16::try_from(index).unwrap_or(u16::MAX) };
        self.spec.units.iter().enumerate().map(move |(index, spec)| (id(index), spec))
    }
}
