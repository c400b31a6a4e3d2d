//! Running jobs and the limits of groups: the part of the cluster whose draw is lowered, and the power that groups return.

use limo_model::{NodeId, Power, UnitId};

use super::largest_permille;
use super::units::SharedUnit;
use crate::facts::expected_of_units;
use crate::state::{Assignment, Job, Node};
use crate::view::View;

/// The cluster, or one group of its nodes.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    view: View<'a>,
    group: Option<usize>,
}

impl<'a> Scope<'a> {
    pub fn cluster(view: &View<'a>) -> Self {
        Self { view: *view, group: None }
    }

    /// Returns the groups whose draw, apart from jobs that are being ended, is above the limit minus half of the reserve;
    /// each with the power by which it is above the limit minus the reserve.
    pub fn full_groups(view: &View<'a>) -> impl Iterator<Item = (Self, Power)> + use<'a> {
        let view = *view;
        let limits = view.settings().groups.iter().map(|(_, spec)| spec.limit());
        limits.zip(view.group_ceilings()).enumerate().filter_map(move |(group, (limit, ceiling))| {
            let (scope, most) = (Self { view, group: Some(group) }, ceiling + (limit - ceiling).scaled(1, 2));
            let draw = view.group_draw(group);
            let draw = if draw > most { draw - scope.leaving() } else { draw };
            (draw > most).then_some((scope, draw - ceiling))
        })
    }

    pub fn has(&self, node: NodeId) -> bool {
        self.group.is_none() || self.view.node(node).and_then(Node::group) == self.group
    }

    /// Returns the draw of jobs that are being ended.
    pub fn leaving(&self) -> Power {
        let assignments = self.view.active().filter_map(|(_, job)| job.assignment());
        assignments.filter(|assignment| assignment.stop.is_some()).map(|assignment| self.draw_of(assignment)).sum()
    }

    /// Returns the draw of a job.
    pub fn draw_of(&self, assignment: &Assignment) -> Power {
        match self.group {
            None => assignment.draw,
            Some(_) => assignment.draw_by_unit().filter(|(unit, _)| self.has(unit.node)).map(|(_, draw)| draw).sum(),
        }
    }

    /// Returns the draw of a job with each of its units at the cap from `cap_of`, as if it were not suspended.
    pub fn draw_at(&self, job: &Job, cap_of: impl FnMut(UnitId) -> Option<Power>) -> Option<Power> {
        let (assignment, expected) = job.assignment().zip(expected_of_units(self.view.state(), job, cap_of))?;
        if self.group.is_none() {
            return Some(expected.draw);
        }
        let units = assignment.units().zip(expected.by_unit(assignment));
        Some(units.filter(|((unit, _), _)| self.has(unit.node)).map(|(_, draw)| draw).sum())
    }
}

/// The power that each group returns to its jobs.
pub(in crate::policy) struct GroupPower<'a>(Vec<(Scope<'a>, Power)>);

impl<'a> GroupPower<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let left = view.group_ceilings().enumerate().map(|(group, ceiling)| {
            let left = ceiling - view.group_margin(group) - view.highest_group_draw(group);
            (Scope { view: *view, group: Some(group) }, left)
        });
        Self(left.collect())
    }

    /// Returns true if the groups of a suspended job leave the power that it takes when it continues.
    pub fn leaves(&self, view: &View<'_>, job: &Job) -> bool {
        let draws = view.resumed_in_groups(job);
        draws.into_iter().all(|(group, draw)| self.0.get(group).is_none_or(|(_, left)| draw <= *left))
    }

    /// Takes the power of a job that continues.
    pub fn take(&mut self, view: &View<'_>, job: &Job) {
        for (group, draw) in view.resumed_in_groups(job) {
            self.0.get_mut(group).into_iter().for_each(|(_, left)| *left -= draw);
        }
    }

    /// Returns the thousandths of its gain that each of some units may have: at most `permille`, and in a group only as far
    /// as its limit leaves power. A unit gets none if its group's step would be small, unless the draw is `below` the band.
    pub(super) fn permilles(
        &self,
        units: &[SharedUnit],
        gain: impl Fn(&SharedUnit) -> Power,
        (permille, below): (i64, bool),
    ) -> Vec<Option<i64>> {
        let mut found = vec![Some(permille); units.len()];
        for (group, (scope, left)) in self.0.iter().enumerate() {
            let is_in = |unit: &SharedUnit| scope.has(unit.unit.node);
            let all: Power = units.iter().filter(|unit| is_in(unit)).map(&gain).sum();
            let own = largest_permille(|of| all.scaled(of, 1_000) <= (*left).at_least_zero()).min(permille);
            let is_small = own < permille && all.scaled(own, 1_000) < scope.view.group_margin(group);
            let own = Some(own).filter(|_| !is_small || below);
            found.iter_mut().zip(units).filter(|(_, unit)| is_in(unit)).for_each(|(found, _)| *found = own);
        }
        found
    }
}
