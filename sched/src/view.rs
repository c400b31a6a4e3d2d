//! The view of policies: the recorded state at one moment, read only.

mod groups;
mod owners;

use limo_model::{
    Band, Budget, Curve, Estimate, Factor, JobId, Memory, Mode, NodeId, Part, Parts, Placement, Power, Price, Request,
    Time, UnitId, UnitSpec,
};

use crate::apply::bar;
use crate::cluster::Cluster;
use crate::facts::{
    HostCores, Known, Looked, allows_node, allows_unit, cores_on, host_cores, host_power, may_be_denied, under_cap,
    units_like, units_wanted, waking_draw, wants_host_cores, wants_several,
};
use crate::index::{Index, Rank, Ranks};
use crate::options::{Options, RankBy};
use crate::state::{Clock, Job, Node, Settings, State};

/// The state at the time `now`.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    cluster: &'a Cluster,
    now: Time,
}

/// A placement that a job could have, perhaps capped, with its estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub placement: Placement,
    pub estimate: Estimate,
    /// True if its nodes must not have other jobs.
    pub alone: bool,
    /// Additional draw of the nodes that have to be woken for the job.
    pub waking: Power,
}

impl<'a> View<'a> {
    pub(crate) fn new(cluster: &'a Cluster, now: Time) -> Self {
        Self { cluster, now }
    }

    pub(crate) fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    pub(crate) fn state(&self) -> &'a State {
        &self.cluster.state
    }

    pub(crate) fn index(&self) -> &'a Index {
        &self.cluster.index
    }

    /// Returns the order of nodes for an application, or for all of them, by the variation of their units.
    pub(crate) fn rank(&self, application: &str, by: RankBy) -> &'a Rank {
        let ranks = self.index().ranks.get_or_init(|| Ranks::of(self.state()));
        ranks.get(self.state(), &self.index().classes, (application, by))
    }

    /// Returns the release rule of a budget.
    pub(crate) fn release_of(&self, budget: &Budget) -> Vec<(Time, Power)> {
        self.cluster.state.spending.release_of(budget, self.idle(), self.prices())
    }

    /// Returns the energy of a budget that is released and not used, in µJ; zero before its period.
    pub(crate) fn available(&self, budget: &Budget) -> i128 {
        self.cluster.state.spending.available(budget)
    }

    /// Returns the rate at which the budget of the period at `at` is released then.
    pub(crate) fn rate_at(&self, at: Time) -> Option<Power> {
        let release = self.release_of(self.settings().budgets.at(at)?);
        release.iter().rev().find(|(from, _)| *from <= at).map(|(_, rate)| *rate)
    }

    /// Returns the waiting jobs without a reason from any round.
    pub fn untold(&self) -> impl Iterator<Item = (JobId, &'a Job)> {
        let state = self.state();
        self.cluster.index.untold.iter().filter_map(move |id| state.jobs.get(*id).map(|job| (*id, &**job)))
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn settings(&self) -> &'a Settings {
        &self.cluster.state.settings
    }

    pub(crate) fn clock(&self) -> &'a Clock {
        &self.cluster.state.clock
    }

    pub fn options(&self) -> &'a Options {
        &self.cluster.state.settings.options
    }

    pub fn parts(&self) -> Parts {
        self.cluster.parts
    }

    pub fn mode(&self) -> Mode {
        self.cluster.state.settings.mode
    }

    pub fn limits(&self) -> &'a Curve<Band> {
        &self.cluster.state.settings.limits
    }

    pub fn band(&self) -> Band {
        self.limits().band(self.now)
    }

    pub fn prices(&self) -> Option<&'a Curve<Price>> {
        self.cluster.state.settings.prices.as_ref()
    }

    pub fn price(&self) -> Option<Price> {
        self.price_at(self.now)
    }

    /// Returns the price at that time; `None` if it is unknown.
    pub(crate) fn price_at(&self, at: Time) -> Option<Price> {
        self.prices()?.at(at).copied()
    }

    /// Returns the believed draw, measured if possible. Unreachable nodes have not followed unconfirmed orders.
    pub fn draw(&self) -> Power {
        self.cluster.state.sums.draw + self.cluster.state.relief().1
    }

    /// Returns the power that nodes may still draw until they confirm their orders.
    pub fn unconfirmed(&self) -> Power {
        self.cluster.state.relief().0
    }

    pub fn idle(&self) -> Power {
        self.cluster.index.idle
    }

    /// Returns the idle draw plus the estimates of all starting and running jobs: the draw in limo-2018's prototype.
    pub fn estimated_draw(&self) -> Power {
        self.idle() + self.cluster.index.active_draw
    }

    pub fn nodes(&self) -> &'a [Node] {
        &self.cluster.state.nodes
    }

    pub fn node(&self, id: NodeId) -> Option<&'a Node> {
        self.cluster.state.node(id)
    }

    pub fn unit(&self, id: UnitId) -> Option<(&'a Node, &'a UnitSpec)> {
        let node = self.cluster.state.node(id.node)?;
        node.spec.units.get(usize::from(id.unit)).map(|unit| (node, unit))
    }

    /// Returns true if all nodes of a job are connected, so that they receive commands about it.
    pub(crate) fn reaches(&self, job: &Job) -> bool {
        let mut nodes = job.assignment().into_iter().flat_map(|assignment| &assignment.placement).flat_map(Part::nodes);
        nodes.all(|node| self.node(node).is_some_and(Node::is_connected))
    }

    pub fn job(&self, id: JobId) -> Option<&'a Job> {
        self.cluster.state.jobs.get(id).map(Box::as_ref)
    }

    /// Returns the waiting jobs that a round considers, in the order of their priorities and of submission.
    pub fn queue(&self) -> impl Iterator<Item = (JobId, &'a Job)> + use<'a> {
        let state = self.state();
        let depth = self.options().depth as usize;
        state.queue.iter().take(depth).filter_map(move |id| state.jobs.get(id).map(|job| (id, &**job)))
    }

    /// Returns a waiting job's place in the queue: lower places come first.
    pub(crate) fn place(&self, id: JobId) -> Option<u64> {
        self.cluster.state.queue.place(id)
    }

    /// Returns the job at a place of the queue.
    pub(crate) fn job_at(&self, place: u64) -> JobId {
        self.cluster.state.queue.job_at(place)
    }

    pub fn queue_length(&self) -> usize {
        self.cluster.state.queue.len()
    }

    /// Returns the starting and running jobs.
    pub fn active(&self) -> impl Iterator<Item = (JobId, &'a Job)> {
        let state = self.state();
        state.active.iter().filter_map(move |id| state.jobs.get(id).map(|job| (id, &**job)))
    }

    /// Returns the caps at which a job can be placed on a unit: the one that it requests. Otherwise, next to other jobs, this is the present cap. Alone,
    /// the job is uncapped, or has a cap with a profile.
    fn caps_for(&self, request: &Request, (node, id, unit): (&Node, UnitId, &UnitSpec)) -> Vec<Option<Power>> {
        if request.cap.is_some() {
            return vec![request.cap];
        }
        if self.index().cores_used(id) > 0 && !request.exclusive {
            return vec![node.cap(id.unit)];
        }
        let obeys = node.cap_range(id.unit).is_some();
        let known = if obeys { Looked::up(Known::of(self.state()), request, unit).caps(unit) } else { Vec::new() };
        std::iter::once(None).chain(known.into_iter().map(Some)).collect()
    }

    /// Returns true if the job may be placed on the node now, provided that it fits.
    pub(crate) fn may_use(&self, request: &Request, node: &Node) -> bool {
        self.may_have(request, node) && self.group_leaves(request, node)
    }

    /// Returns the same apart from the limits of groups.
    fn may_have(&self, request: &Request, node: &Node) -> bool {
        allows_node(request, node) && bar(self.cluster, self.now, request, node).is_none()
    }

    /// Returns true if some nodes may be denied to the job. If not, [`Self::may_use`] is always true.
    pub(crate) fn may_be_denied(&self, request: &Request) -> bool {
        may_be_denied(request) || !self.cluster.state.reservations.is_empty() || self.has_groups()
    }

    /// Returns every unit that meets a job's request for one node, free or not, in order of nodes and units. Each is
    /// uncapped, or at a cap with a profile.
    pub fn choices(&self, request: &Request) -> Vec<Choice> {
        let mut choices = Vec::new();
        for node in self.nodes().iter().filter(|node| allows_node(request, node)) {
            for (id, unit) in node.units() {
                let cores = cores_on(request, unit);
                if !allows_unit(request, unit) || cores > unit.cores || request.memory > node.spec.memory {
                    continue;
                }
                if wants_several(request) {
                    choices.extend(self.choice_of_several(request, (node, id, unit)));
                    continue;
                }
                for cap in self.caps_for(request, (node, id, unit)) {
                    let placement = vec![Part { unit: id, count: 1, cores, memory: request.memory, cap }];
                    let estimate = under_cap(Known::of(self.state()), request, unit, (cap, 1_000));
                    let estimate = self.factor(request, id, cap).map_or(estimate, |of| of.of_estimate(estimate));
                    let waking = waking_draw(node);
                    choices.push(Choice { placement, estimate, alone: request.exclusive, waking });
                }
            }
        }
        choices
    }

    /// Returns the factor of a unit for a request, if it has one and the policy counts it.
    pub(crate) fn factor(&self, request: &Request, unit: UnitId, cap: Option<Power>) -> Option<Factor> {
        let factors = self.state().variation.of(&request.application);
        factors.known(unit, cap).filter(|_| self.parts().knows_variation())
    }

    /// Returns the choices on several units of a node, all of the type of one of them. It is called for the first
    /// unit of the type.
    fn choice_of_several(&self, request: &Request, (node, id, unit): (&Node, UnitId, &UnitSpec)) -> Option<Choice> {
        let wanted = units_wanted(request);
        let mut units: Vec<u16> = units_like(&node.spec.units, id.unit).collect();
        if units.first() != Some(&id.unit) || units.len() < wanted {
            return None;
        }
        units.sort_by_key(|unit| self.index().cores_used(UnitId { unit: *unit, ..id }) > 0);
        units.truncate(wanted);
        units.sort_unstable();
        let (known, host) = (Known::of(self.state()), host_cores(request, &node.spec.units));
        if host.is_none() && wants_host_cores(request) {
            return None;
        }
        let placement = on_units((node.id, 1), &units, (cores_on(request, unit), request.memory), host).collect();
        let each = under_cap(known, request, unit, (None, 1_000));
        let estimate = each.times(wanted).with_draw(host_power(known, request, &node.spec.units));
        Some(Choice { placement, estimate, alone: request.exclusive, waking: waking_draw(node) })
    }
}

/// Returns a job's parts on some units of a node, or of adjacent nodes, and on the CPU next to them. The memory belongs
/// to the node, so only the first part contains it.
pub(crate) fn on_units(
    (node, count): (NodeId, u32),
    units: &[u16],
    (cores, memory): (u32, Memory),
    host: Option<HostCores>,
) -> impl Iterator<Item = Part> {
    let memory = std::iter::once(memory).chain(std::iter::repeat(Memory::ZERO));
    let part = move |((unit, cores), memory)| Part { unit: UnitId { node, unit }, count, cores, memory, cap: None };
    let host = host.map(|host| (host.unit, host.cores));
    units.iter().map(move |unit| (*unit, cores)).chain(host).zip(memory).map(part)
}
