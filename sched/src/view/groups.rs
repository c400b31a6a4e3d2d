//! Power that the limits of groups leave to a job on their nodes.
//!
//! A job counts with its draw without a cap, or at the cap that it requests; if caps divide the limits, with its draw at
//! the lowest caps, as do the running jobs. Orders that are not confirmed count as not followed. A job on several nodes
//! gets, of a group that does not leave enough for all of them, the first free ones for which it does. While a group
//! keeps the first job of the queue waiting, power is kept for this job: in those of the groups that could ever have it
//! which leave enough, else in the one that lacks least. Jobs behind it start there only beside that power.

use std::collections::BTreeMap;

use limo_model::{JobId, OrderRule, Power, Request, UnitId, UnitSpec, Wait, nodes};

use super::View;
use crate::apply::reason;
use crate::facts::{
    ChunkNeed, ChunkRoom, Known, allows_unit, chunks_on_node, cores_on, estimate, expected_of_units, fits_node,
    host_power, most_chunks, units_like, units_wanted, waking_draw,
};
use crate::index::{GroupRooms, KeptRoom};
use crate::state::{Job, Node, Phase};

/// The room and the power that a group could give to a job.
struct GroupOffer {
    group: usize,
    /// Chunks of the job for which its nodes have room, empty and now.
    chunks: u32,
    free: u32,
    /// Power that the job needs there, on as many nodes as it could have.
    needs: Power,
    /// The most that the group could leave.
    most: Power,
}

impl<'a> View<'a> {
    /// Returns true if groups have limits, which may deny nodes to jobs.
    pub(crate) fn has_groups(&self) -> bool {
        self.index().groups.are_limited
    }

    /// Returns the upper limit of each group, less the reserve if the policy keeps one.
    pub(crate) fn group_ceilings(&self) -> impl Iterator<Item = Power> + use<'a> {
        let (parts, reserve) = (self.parts(), i64::from(self.options().reserve_permille));
        let keeps = parts.steers() || parts.divides();
        let limits = self.settings().groups.iter().map(|(_, spec)| spec.limit());
        limits.map(move |limit| if keeps { limit - limit.scaled(reserve, 1_000) } else { limit })
    }

    /// Returns the believed draw of a group. As in [`View::draw`], orders that are not confirmed count as followed, unless
    /// they are overdue or to unreachable nodes.
    pub(crate) fn group_draw(&self, group: usize) -> Power {
        let (state, draw) = (self.state(), self.index().groups.draw(group));
        draw + state.relief_in(|node| node.group() == Some(group)).1
    }

    /// Returns the same with all unconfirmed orders as not followed.
    pub(crate) fn highest_group_draw(&self, group: usize) -> Power {
        let (open, gone) = self.state().relief_in(|node| node.group() == Some(group));
        self.index().groups.draw(group) + open + gone
    }

    /// Returns the power that the groups leave to starts; `None` without groups.
    pub(crate) fn group_rooms(&self) -> Option<&'a GroupRooms> {
        self.has_groups().then(|| self.index().rooms.get_or_init(|| self.find_rooms()))
    }

    fn find_rooms(&self) -> GroupRooms {
        let draws = (0..).map(|group| self.highest_group_draw(group));
        let mut left: Vec<Power> = self.group_ceilings().zip(draws).map(|(most, draw)| most - draw).collect();
        if self.parts().steers() {
            self.keep_for_suspended(&mut left);
        }
        let free = left.clone();
        if self.parts().divides() {
            self.add_lowerable(&mut left);
        }
        let mut nodes = vec![Vec::new(); left.len()];
        for node in self.nodes() {
            if let Some(nodes) = node.group().and_then(|group| nodes.get_mut(group)) {
                nodes.push(node.id);
            }
        }
        let mut rooms = GroupRooms { left, free, nodes, kept: None };
        rooms.kept = self.kept(&rooms);
        rooms
    }

    /// Adds the power that the lowest caps take from running jobs.
    fn add_lowerable(&self, left: &mut [Power]) {
        let jobs = self.active().map(|(_, job)| job).filter(|job| job.is_active_and_kept() && self.reaches(job));
        for assignment in jobs.filter_map(|job| job.assignment()) {
            let ended = assignment.left();
            let units = assignment.units().zip(assignment.draw_by_unit());
            for ((id, part), (_, draw)) in units.filter(|((id, _), _)| !ended.contains(&id.node)) {
                let Some((node, unit)) = self.unit(id) else { continue };
                let Some((low, _)) = node.cap_range(id.unit).filter(|(low, _)| node.cap(id.unit) != Some(*low)) else {
                    continue;
                };
                let lowest = low.scaled(part.cores.into(), unit.cores.into());
                if let Some(left) = node.group().and_then(|group| left.get_mut(group)) {
                    *left += (draw - lowest).at_least_zero();
                }
            }
        }
    }

    /// Takes the power of suspended jobs, and the power that must stay free when they continue.
    fn keep_for_suspended(&self, left: &mut [Power]) {
        let mut kept: BTreeMap<usize, Power> = BTreeMap::new();
        for job in self.index().suspended.iter().filter_map(|id| self.job(*id)) {
            self.resumed_in_groups(job).into_iter().for_each(|(group, draw)| *kept.entry(group).or_default() += draw);
        }
        for (group, kept) in kept {
            left[group] -= kept + self.group_margin(group);
        }
    }

    /// Returns the power that must stay free beyond the reserve when jobs of a group get power back.
    pub(crate) fn group_margin(&self, group: usize) -> Power {
        let limit = self.settings().groups.iter().nth(group).map_or(Power::ZERO, |(_, spec)| spec.limit());
        limit.scaled(i64::from(self.options().steer_margin_permille), 1_000)
    }

    /// Returns the draw of a suspended job in each group when it continues.
    pub(crate) fn resumed_in_groups(&self, job: &Job) -> BTreeMap<usize, Power> {
        let cap_of = |unit: UnitId| self.node(unit.node)?.cap(unit.unit);
        let expected = self.has_groups().then(|| expected_of_units(self.state(), job, cap_of)).flatten();
        let mut draws = BTreeMap::new();
        if let Some((assignment, expected)) = job.assignment().zip(expected) {
            for ((unit, _), draw) in assignment.units().zip(expected.by_unit(assignment)) {
                if let Some(group) = self.node(unit.node).and_then(Node::group) {
                    *draws.entry(group).or_default() += draw;
                }
            }
        }
        draws
    }

    /// Returns true if the limit of the node's group leaves power for the job on it, together with other nodes of the
    /// group that the job may get. A node without room for the job now counts as if it did.
    pub(crate) fn group_leaves(&self, request: &Request, node: &Node) -> bool {
        let Some((rooms, group)) = self.group_rooms().zip(node.group()) else { return true };
        if self.chunks_free(request, node) == 0 {
            return true;
        }
        if self.index().barred.iter().any(|barred| is_same(barred, request)) {
            return false;
        }
        let left = self.left_for(rooms, request, group);
        let needs = self.draw_on(request, node);
        if needs > left || needs.scaled(request.nodes.get().into(), 1) <= left {
            return needs <= left;
        }
        let mut sum = Power::ZERO;
        let before = rooms.nodes[group].iter().take_while(|id| **id != node.id).filter_map(|id| self.node(*id));
        for other in before.filter(|other| self.chunks_free(request, other) > 0 && self.may_have(request, other)) {
            let more = self.draw_on(request, other);
            sum += if sum + more <= left { more } else { Power::ZERO };
        }
        sum + needs <= left
    }

    /// Returns true if the limit of a group keeps the job off a node on which it could start now.
    pub(crate) fn groups_deny(&self, request: &Request) -> bool {
        self.has_groups()
            && self.nodes().iter().any(|node| self.may_have(request, node) && !self.group_leaves(request, node))
    }

    /// Returns the power that a group leaves to a request.
    fn left_for(&self, rooms: &GroupRooms, request: &Request, group: usize) -> Power {
        let is_other = |kept: &&KeptRoom| self.job(kept.job).is_some_and(|job| !is_same(&job.request, request));
        let kept = rooms.kept.as_ref().filter(is_other);
        rooms.left[group] - kept.map_or(Power::ZERO, |kept| kept.power[group])
    }

    /// Returns the highest power that the job adds to a node by any of its units.
    fn draw_on(&self, request: &Request, node: &Node) -> Power {
        let (known, units) = (Known::of(self.state()), &node.spec.units);
        let factors = self.state().variation.of(&request.application);
        let of_unit = |(id, unit): (UnitId, &UnitSpec)| {
            let chunks = most_chunks(request, (units, node.spec.memory), usize::from(id.unit)) as usize;
            let host = host_power(known, request, units);
            let each = estimate(known, request, unit).times(units_wanted(request) * chunks);
            let power = each.power + host.scaled(i64::try_from(chunks).unwrap_or(i64::MAX), 1);
            let power = factors.factor(id, request.cap).of_power(power).max(power);
            match node.cap_range(id.unit).filter(|_| self.parts().divides()) {
                Some((low, _)) => low.scaled(cores_on(request, unit).into(), unit.cores.into()).min(power),
                None => power,
            }
        };
        let draws = node.units().filter(|(_, unit)| allows_unit(request, unit)).map(of_unit);
        draws.max().unwrap_or_default() + waking_draw(node)
    }

    /// Returns the number of chunks of a job for which a node has free resources now: at most one, unless it is packed.
    fn chunks_free(&self, request: &Request, node: &Node) -> u32 {
        let used = |unit: u16| self.index().cores_used(UnitId { node: node.id, unit });
        if !node.is_available(self.now) || (request.exclusive && node.units().any(|(unit, _)| used(unit.unit) > 0)) {
            return 0;
        }
        let units = &node.spec.units;
        let free = |unit: u16| units.get(usize::from(unit)).map_or(0, |of| of.cores.saturating_sub(used(unit)));
        let memory = node.spec.memory.saturating_sub(self.index().classes.memory_used(node.id));
        let on = |(id, unit): (UnitId, &UnitSpec)| {
            let need = ChunkNeed::of(request, units, unit);
            let like = units_like(units, id.unit).filter(|unit| used(*unit) == 0).count();
            let room = ChunkRoom {
                cores: free(id.unit),
                units: u32::try_from(like).unwrap_or(u32::MAX),
                host: need.host.map_or(0, |host| free(host.unit)),
                memory,
            };
            need.fits(&room).min(most_chunks(request, (units, node.spec.memory), usize::from(id.unit)))
        };
        node.units().filter(|(_, unit)| allows_unit(request, unit)).map(on).max().unwrap_or(0)
    }

    /// Returns what each group with nodes for a job could give to it.
    fn offers_of_groups(&self, rooms: &GroupRooms, request: &Request) -> Vec<GroupOffer> {
        let could =
            |node: &&Node| node.is_available(self.now) && self.may_have(request, node) && fits_node(request, node);
        let of_group = |(group, ceiling): (usize, Power)| {
            let all: Vec<&Node> = rooms.nodes[group].iter().filter_map(|id| self.node(*id)).collect();
            let able: Vec<&Node> = all.iter().copied().filter(could).collect();
            let each = able.iter().map(|node| self.draw_on(request, node)).max()?;
            let nodes = u32::try_from(able.len()).unwrap_or(u32::MAX).min(request.nodes.get());
            let idle: Power = all.iter().map(|node| node.spec.idle).sum();
            Some(GroupOffer {
                group,
                chunks: able.iter().fold(0, |sum, node| chunks_on_node(request, node).saturating_add(sum)),
                free: able.iter().fold(0, |sum, node| self.chunks_free(request, node).saturating_add(sum)),
                needs: each.scaled(nodes.into(), 1),
                most: ceiling - idle,
            })
        };
        self.group_ceilings().enumerate().filter_map(of_group).collect()
    }

    /// Returns the power that is kept for the first job of the queue, if a group keeps it waiting and the order lets
    /// others pass it.
    fn kept(&self, rooms: &GroupRooms) -> Option<KeptRoom> {
        if self.parts().order == OrderRule::Strict {
            return None;
        }
        let could = |job: &Job| {
            let shape = self.index().shapes.find(&job.request);
            shape.is_some_and(|shape| !shape.ways.is_empty()) && reason(self.cluster, self.now, &job.request).is_none()
        };
        let (id, job) = self.queue().find(|(_, job)| !job.request.filler && could(job))?;
        let waits = matches!(job.phase, Phase::Waiting(Some(Wait::Group { .. })));
        let is_list = matches!(self.parts().order, OrderRule::Rule | OrderRule::Program);
        if !waits || (is_list && self.now < job.eligible() + self.options().hold_after) {
            return None;
        }
        let wanted = job.request.nodes.get();
        let offers = self.offers_of_groups(rooms, &job.request);
        let able = || offers.iter().filter(|of| of.chunks >= wanted && of.needs <= of.most);
        let lack = |of: &GroupOffer| of.needs - rooms.left[of.group];
        let mut keeping: Vec<&GroupOffer> = able().filter(|of| lack(of) <= Power::ZERO).collect();
        if keeping.is_empty() {
            keeping.extend(able().min_by_key(|of| (of.free < wanted, lack(of), of.group)));
        }
        if keeping.is_empty() {
            keeping.extend(&offers);
        }
        let mut power = vec![Power::ZERO; rooms.left.len()];
        keeping.into_iter().for_each(|of| power[of.group] = of.needs.min(of.most));
        Some(KeptRoom { job: id, power })
    }

    /// Returns the wait reason of a job that would have more free nodes without the limits of groups, and too few with
    /// them.
    pub(crate) fn waits_for_group(&self, id: JobId) -> Option<Wait> {
        let (rooms, job) = self.group_rooms().zip(self.job(id))?;
        let (request, wanted) = (&job.request, job.request.nodes.get());
        let (mut free, mut full) = (0_u32, Vec::new());
        for node in self.nodes().iter().filter(|node| self.may_have(request, node)) {
            match self.chunks_free(request, node) {
                0 => {}
                chunks if self.group_leaves(request, node) => free = free.saturating_add(chunks),
                _ => full.extend(node.group()),
            }
        }
        if free >= wanted || full.is_empty() {
            return None;
        }
        let offers = self.offers_of_groups(rooms, request);
        let lack = |of: &&GroupOffer| (of.chunks < wanted, of.needs - rooms.left[of.group], of.group);
        let least = offers.iter().filter(|of| full.contains(&of.group)).min_by_key(lack)?;
        let keeps = |kept: &&KeptRoom| kept.job != id && kept.power[least.group] > Power::ZERO;
        match rooms.kept.as_ref().filter(keeps).filter(|_| least.needs <= rooms.left[least.group]) {
            Some(kept) => Some(Wait::Behind { job: kept.job, until: None }),
            None => self.full(least.group, least.needs),
        }
    }

    /// Returns the draw and the limit for which a running job gives way: those of its group if that is too full, else those
    /// of the cluster.
    pub(crate) fn exceeded(&self, id: JobId) -> (Power, Power) {
        let placement =
            self.job(id).and_then(|job| job.assignment()).map_or(&[][..], |assignment| &assignment.placement);
        let groups = nodes(placement).filter_map(|node| self.node(node)?.group());
        let full = groups.filter_map(|group| {
            let ((_, spec), most) = self.settings().groups.iter().zip(self.group_ceilings()).nth(group)?;
            Some((self.group_draw(group), spec.limit())).filter(|(draw, _)| *draw > most)
        });
        full.into_iter().next().unwrap_or((self.state().sums.draw, self.band().high()))
    }

    /// Returns the wait reason of a job that the limit of its group keeps off a node now.
    pub(crate) fn full_group(&self, request: &Request, node: &Node) -> Option<Wait> {
        let group = node.group().filter(|_| !self.group_leaves(request, node))?;
        self.full(group, self.draw_on(request, node))
    }

    fn full(&self, group: usize, needs: Power) -> Option<Wait> {
        let (name, spec) = self.settings().groups.iter().nth(group)?;
        let draw = self.highest_group_draw(group);
        Some(Wait::Group { group: name.to_owned(), draw, limit: spec.limit(), needs })
    }
}

/// Returns true if two requests are equal. Those of one job are usually one object.
fn is_same(one: &Request, other: &Request) -> bool {
    std::ptr::eq(one, other) || one == other
}
