//! Owners of nodes and daily reboots: the events of a pool that no job causes.
//!
//! A reboot evicts the jobs of a node, or waits for their end if it is deferred. It waits for an owner to leave, and is left
//! out if its window ends meanwhile. A sleeping node is woken for it.

mod bills;
mod hours;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use limo_model::{Curve, Eviction, JobId, NodeId, Part, Power, Price, Span, Time, nodes};
use limo_sched::{Core, Event, Sleep};

use super::happen::Due;
use super::ledger::{Facts, NodeLedger, SpentByGroup, Switched};
use super::worked::RunTime;
use super::{Load, Run, Simulation, SimulationError, Visits};
use crate::record::Sink;
use bills::bills;
pub use bills::{GroupBill, Priced, all_uj};
pub use hours::HoursOfDay;

/// Duration of a reboot.
const REBOOT: Span = Span::from_secs(300);

const DAY: Span = Span::from_secs(86_400);

/// Figures of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolFigures {
    pub ledger: SpentByGroup,
    pub nodes: usize,
    pub hours: HoursOfDay,
    /// Logins of owners on each day since the midnight (UTC) before the start.
    pub logins: Vec<u32>,
    /// Cost and carbon of the groups of the configuration.
    pub bills: Vec<GroupBill>,
    /// Time from submission to end, less the running time, of each completed job, in milliseconds; in order of ends.
    pub overheads: Vec<i64>,
    /// Work of completed jobs.
    pub good: RunTime,
    /// Work that was lost, by cause: an owner, a reboot.
    pub wasted: [RunTime; 2],
    pub checkpoints: RunTime,
    /// Transfers of attempts that ended or were evicted; their number is that of the attempts.
    pub transfers: RunTime,
    /// Attempts of jobs that were removed, with their transfers and checkpoints.
    pub removed: RunTime,
    /// Jobs that were given up.
    pub given_up: u64,
    pub visits: u64,
    pub reboots: u64,
    /// Reboots that were left out.
    pub left_out: u64,
}

/// State of owners and reboots.
pub struct Visiting {
    next: usize,
    logouts: BinaryHeap<Reverse<(Time, u32)>>,
    /// Owners on each node.
    present: Vec<u16>,
    /// Midnight of the present day, and the next of the reboots.
    midnight: Time,
    next_reboot: usize,
    /// Last logout or submission. Later reboots do not happen, so that every simulation ends.
    last: Option<Time>,
    /// Nodes whose reboot waits, with the end of its window.
    pending: BTreeMap<NodeId, Time>,
    pub ledger: NodeLedger,
    pub figures: PoolFigures,
}

impl Visiting {
    pub fn new<L: Load>(
        load: &L,
        visits: &Visits,
        nodes: usize,
        (start, prices): (Time, Option<Curve<Price>>),
    ) -> Self {
        let midnight = Time::from_unix_ms(start.unix_ms().div_euclid(DAY.ms()) * DAY.ms());
        let logouts = visits.visits.iter().map(|visit| visit.logout);
        let past = visits.reboots.partition_point(|reboot| midnight + reboot.at < start);
        let mut visiting = Self {
            next: 0,
            logouts: BinaryHeap::new(),
            present: vec![0; nodes],
            midnight,
            next_reboot: past,
            last: logouts.chain((0..).map_while(|index| load.submitted(index))).max(),
            pending: BTreeMap::new(),
            ledger: NodeLedger::new(load.platform(), start, prices),
            figures: PoolFigures::default(),
        };
        visiting.follow_day(visits);
        visiting
    }

    /// Continues with the first reboot of the next day after the last one of a day.
    fn follow_day(&mut self, visits: &Visits) {
        if self.next_reboot == visits.reboots.len() {
            self.next_reboot = 0;
            self.midnight = self.midnight + DAY;
        }
    }

    /// Returns true if no owner comes or leaves any more.
    pub fn is_over(&self, visits: &Visits) -> bool {
        self.next >= visits.visits.len() && self.logouts.is_empty()
    }

    /// Returns the time of the next event.
    pub fn next_time(&self, visits: &Visits) -> Option<Time> {
        let login = visits.visits.get(self.next).map(|visit| visit.login);
        let logout = self.logouts.peek().map(|Reverse((at, _))| *at);
        Time::first_of(&[login, logout, self.reboot_at(visits)])
    }

    fn reboot_at(&self, visits: &Visits) -> Option<Time> {
        let at = self.midnight + visits.reboots.get(self.next_reboot)?.at;
        self.last.is_some_and(|last| at <= last).then_some(at)
    }

    fn leave_out(&mut self, node: NodeId) {
        self.pending.remove(&node);
        self.figures.left_out += 1;
    }
}

/// Most days for which logins are counted: a century.
const DAYS: usize = 36_525;

fn logins_by_day(visits: &Visits, start: Time) -> Vec<u32> {
    let mut days = Vec::new();
    let first = start.unix_ms().div_euclid(DAY.ms());
    for visit in &visits.visits {
        let day = usize::try_from(visit.login.unix_ms().div_euclid(DAY.ms()) - first).unwrap_or(0);
        if day < DAYS {
            days.resize(days.len().max(day + 1), 0);
            days[day] += 1;
        }
    }
    days
}

/// Returns all nodes of some runs.
pub fn each(runs: &[(NodeId, u32)]) -> impl Iterator<Item = NodeId> + '_ {
    runs.iter().flat_map(|(first, count)| (first.0..first.0.saturating_add(*count)).map(NodeId))
}

impl<L: Load, S: Sink> Simulation<'_, L, S> {
    /// Changes the ledger of a node, if there is one.
    pub fn note(&mut self, node: NodeId, change: impl FnOnce(&mut Facts)) {
        if let Some(visiting) = &mut self.visiting {
            let more = visiting.ledger.change(node, self.now, change);
            if more != Power::ZERO {
                self.machine.draw_more(more);
            }
        }
    }

    /// Changes the ledger of all nodes of some runs, if there is one.
    pub fn note_all(&mut self, runs: &[(NodeId, u32)], change: impl Fn(&mut Facts)) {
        if self.visiting.is_some() {
            each(runs).for_each(|node| self.note(node, &change));
        }
    }

    /// Changes the ledger of all nodes of a job, if there is one.
    pub fn note_job(&mut self, job: JobId, change: impl Fn(&mut Facts)) {
        if self.visiting.is_none() {
            return;
        }
        let run = self.jobs.get(job).and_then(|present| present.run.as_ref());
        run.map(|run| nodes(&run.placement)).into_iter().flatten().for_each(|node| self.note(node, &change));
    }

    /// Notes the end of a run on its nodes.
    pub fn note_end(&mut self, run: &Run) {
        if self.visiting.is_some() {
            let count = if run.still_since.is_some() {
                |facts: &mut Facts| facts.still -= 1
            } else {
                |facts: &mut Facts| facts.running -= 1
            };
            nodes(&run.placement).for_each(|node| self.note(node, count));
        }
    }

    /// Begins reboots that waited for the end of a job on these nodes.
    pub fn reboot_after(&mut self, placement: &[Part]) -> Result<(), SimulationError> {
        if self.visiting.as_ref().is_none_or(|of| of.pending.is_empty()) {
            return Ok(());
        }
        nodes(placement).try_for_each(|node| self.reboot_if_pending(node))
    }

    /// Lets the owners who are due leave and come, then begins the reboots that are due. Returns true if there were any.
    pub fn visit_all(&mut self) -> Result<bool, SimulationError> {
        let Some(visits) = self.load.visits() else { return Ok(false) };
        let (now, mut any) = (self.now, false);
        while let Some(node) = self.visiting.as_mut().and_then(|of| of.logout_due(now)) {
            any = true;
            self.owner(node, false)?;
        }
        while let Some(node) = self.visiting.as_mut().and_then(|of| of.login_due(visits, now)) {
            any = true;
            self.owner(node, true)?;
        }
        while let Some((node, until)) = self.visiting.as_mut().and_then(|of| of.reboot_due(visits, now)) {
            any = true;
            self.want_reboot(node, until)?;
        }
        Ok(any)
    }

    fn owner(&mut self, node: NodeId, comes: bool) -> Result<(), SimulationError> {
        let Some(visiting) = &mut self.visiting else { return Ok(()) };
        let Some(present) = visiting.present.get_mut(node.0 as usize) else { return Ok(()) };
        let before = *present;
        *present = if comes { before + 1 } else { before - 1 };
        if before.min(*present) > 0 {
            return Ok(());
        }
        visiting.figures.visits += u64::from(comes);
        self.note(node, |facts| facts.owner = comes);
        if comes {
            self.apply(&Event::OwnerCame { node })?;
            self.wake_for_owner(node);
            return Ok(());
        }
        self.apply(&Event::OwnerLeft { node })?;
        self.reboot_if_pending(node)
    }

    /// Wakes a sleeping node that the core expects to wake for its owner.
    pub fn wake_for_owner(&mut self, node: NodeId) {
        let wakes = self.core.node(node).is_some_and(|node| node.sleep() == Sleep::Waking);
        let sleeps = self.visiting.as_ref().is_some_and(|of| of.ledger.facts(node).switched == Switched::Asleep);
        if wakes && sleeps {
            self.wake(&[(node, 1)]);
        }
    }

    fn want_reboot(&mut self, node: NodeId, until: Time) -> Result<(), SimulationError> {
        let Some(visiting) = &mut self.visiting else { return Ok(()) };
        if visiting.pending.contains_key(&node) {
            visiting.leave_out(node);
        }
        visiting.pending.insert(node, until);
        self.reboot_if_pending(node)
    }

    /// Begins a reboot that waited, if it can begin now.
    pub fn reboot_if_pending(&mut self, node: NodeId) -> Result<(), SimulationError> {
        let (now, defers) = (self.now, self.load.visits().is_some_and(|visits| visits.defers));
        let Some(visiting) = &mut self.visiting else { return Ok(()) };
        let Some(until) = visiting.pending.get(&node).copied() else { return Ok(()) };
        if now > until {
            visiting.leave_out(node);
            return Ok(());
        }
        let facts = visiting.ledger.facts(node);
        match facts.switched {
            _ if facts.owner || (defers && !self.core.jobs_on(node).is_empty()) => return Ok(()),
            Switched::Down | Switched::Up => return Ok(()),
            Switched::Asleep => {
                self.apply(&Event::NodeAway { node })?;
                self.wake(&[(node, 1)]);
                return Ok(());
            }
            Switched::Awake => {}
        }
        visiting.pending.remove(&node);
        for job in self.core.jobs_on(node) {
            let Some(attempt) = self.core.job(job).and_then(|job| job.assignment()).map(|of| of.attempt) else {
                continue;
            };
            self.apply(&Event::Evicted { job, attempt, node, why: Eviction::Reboot })?;
            self.requeue(job, attempt)?;
        }
        if let Some(visiting) = &mut self.visiting {
            visiting.figures.reboots += 1;
        }
        self.apply(&Event::NodeAway { node })?;
        self.note(node, |facts| facts.reboots = true);
        self.due.push(Reverse((self.now + REBOOT, Due::Rebooted(node))));
        Ok(())
    }

    pub fn rebooted(&mut self, node: NodeId) -> Result<(), SimulationError> {
        self.note(node, |facts| facts.reboots = false);
        let up = self.core.up_again(self.now, node);
        up.map_err(|refused| SimulationError::Refused { at: self.now, refused })
    }

    /// Lets jobs use a node that was woken for a reboot: an owner may keep it from rebooting now.
    pub fn usable_if_awake(&mut self, node: NodeId) -> Result<(), SimulationError> {
        let is_awake = self.visiting.as_ref().is_some_and(|of| of.ledger.facts(node).switched == Switched::Awake);
        let is_away = self.core.node(node).is_some_and(|node| !node.is_connected());
        if is_awake && is_away { self.rebooted(node) } else { Ok(()) }
    }
}

impl Visiting {
    /// Returns the figures at the end.
    pub fn close(self, now: Time, (core, visits, start): (&Core, Option<&Visits>, Time)) -> PoolFigures {
        let late = self.pending.values().filter(|until| **until < now).count() as u64;
        let left_out = self.figures.left_out + late;
        let closed = self.ledger.close(now);
        let logins = visits.map(|visits| logins_by_day(visits, start)).unwrap_or_default();
        let (ledger, nodes, hours, bills) =
            (closed.groups, closed.nodes.len(), closed.hours, bills(core, &closed.nodes));
        PoolFigures { ledger, nodes, hours, logins, bills, left_out, ..self.figures }
    }

    fn logout_due(&mut self, now: Time) -> Option<NodeId> {
        let Reverse((at, node)) = *self.logouts.peek()?;
        (at <= now).then(|| {
            self.logouts.pop();
            NodeId(node)
        })
    }

    fn login_due(&mut self, visits: &Visits, now: Time) -> Option<NodeId> {
        let visit = visits.visits.get(self.next).filter(|visit| visit.login <= now)?;
        self.next += 1;
        self.logouts.push(Reverse((visit.logout, visit.node.0)));
        Some(visit.node)
    }

    fn reboot_due(&mut self, visits: &Visits, now: Time) -> Option<(NodeId, Time)> {
        if self.reboot_at(visits)? > now {
            return None;
        }
        let reboot = visits.reboots[self.next_reboot];
        let until = self.midnight + reboot.until;
        self.next_reboot += 1;
        self.follow_day(visits);
        Some((reboot.node, until))
    }
}
