//! Figures of the cluster at one time, for the page and metrics. Making them takes one look at each node, and now and then at
//! each job that is not over.

use std::collections::BTreeMap;

use limo_feeds::slot::Intensity;
use limo_model::{Meter, Power, Span, Time};
use limo_proto::{JobReport, JobState, NodeState, Status};
use limo_sched::{Core, Node, Phase};

use super::Controller;
use crate::states;

/// Numbers of jobs that have ended in this process, by state.
#[derive(Debug, Default)]
pub struct Ended(BTreeMap<JobState, u64>);

impl Ended {
    /// Counts a job that is over. An array is counted by its tasks, and a step is part of its job.
    pub(super) fn count(&mut self, report: &JobReport) {
        if report.array.is_none() && report.step.is_none() {
            *self.0.entry(report.state).or_default() += 1;
        }
    }
}

/// Counts of the jobs that are not over. They hold for a while that grows with their number, so that counting a long queue
/// takes little of the loop's time.
#[derive(Debug, Default)]
pub struct JobCounts {
    at: Option<Time>,
    jobs: BTreeMap<JobState, u64>,
    waiting: BTreeMap<&'static str, u64>,
}

impl JobCounts {
    /// Returns the counts as of now, or the last ones while they hold: 5 s with 100,000 jobs.
    fn of(&mut self, core: &Core, now: Time) -> &Self {
        if !self.hold(now) {
            *self = Self { at: Some(now), ..Self::default() };
            for (_, job) in core.jobs().filter(|(id, _)| core.array(*id).is_none()) {
                *self.jobs.entry(states::of_job(job)).or_default() += 1;
                if let Phase::Waiting(told) = &job.phase {
                    *self.waiting.entry(told.as_ref().map_or("undecided", |wait| wait.kind())).or_default() += 1;
                }
            }
        }
        self
    }

    fn hold(&self, now: Time) -> bool {
        let count = self.jobs.values().sum::<u64>();
        let life = Span::from_ms(i64::try_from(count / 20).unwrap_or(i64::MAX));
        self.at.is_some_and(|at| at <= now && now - at < life)
    }
}

/// The way in which a draw is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrawSource {
    Measured,
    Estimated,
    Emulated,
}

impl DrawSource {
    pub const ALL: [Self; 3] = [Self::Measured, Self::Estimated, Self::Emulated];

    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Estimated => "estimated",
            Self::Emulated => "emulated",
        }
    }
}

/// Figures of a node.
#[derive(Debug)]
pub struct NodeFigures {
    pub name: String,
    pub state: NodeState,
    /// Believed draw of the whole node.
    pub draw: Power,
    pub source: DrawSource,
    /// Caps in force, by unit.
    pub caps: Vec<(String, Power)>,
    pub cores: u32,
    pub cores_used: u32,
}

/// Figures of the cluster.
#[derive(Debug)]
pub struct Figures {
    pub status: Status,
    /// Jobs that are not over, by state; an array counts only by its tasks that are jobs.
    pub jobs: BTreeMap<JobState, u64>,
    /// Waiting jobs by the kind of their reason.
    pub waiting: BTreeMap<&'static str, u64>,
    /// Jobs that have ended since the process began.
    pub ended: BTreeMap<JobState, u64>,
    pub nodes: Vec<NodeFigures>,
    /// Time with limits, and the part of it in which the believed draw was inside.
    pub limited: Span,
    pub inside: Span,
    /// Carbon intensity that the feeds know for now.
    pub intensity: Option<Intensity>,
}

impl Controller {
    /// Returns the present figures; changes nothing but the counts of jobs.
    pub fn figures(&mut self) -> Figures {
        let JobCounts { jobs, waiting, .. } = self.counts.of(&self.tx.core, self.tx.now);
        let (jobs, waiting) = (jobs.clone(), waiting.clone());
        let core = &self.tx.core;
        let sums = core.sums();
        let occupants = core.occupants();
        let figures = |node: &Node| self.node_figures(node, core.draw_with(node.id(), occupants.of(node.id())));
        Figures {
            status: self.status(),
            jobs,
            waiting,
            ended: self.ended.0.clone(),
            nodes: core.known_nodes().map(figures).collect(),
            limited: sums.limited,
            inside: sums.inside,
            intensity: self.signals.news.as_ref().and_then(|news| news.intensity),
        }
    }

    fn node_figures(&self, node: &Node, draw: Power) -> NodeFigures {
        let (core, now) = (&self.tx.core, self.tx.now);
        let is_measured = node.is_measured(now, core.settings().options.stale_after);
        let cap =
            |(id, unit): (limo_model::UnitId, &limo_model::UnitSpec)| Some((unit.name.clone(), node.cap(id.unit)?));
        NodeFigures {
            name: node.spec().name.clone(),
            state: states::of_node(node, now),
            draw,
            source: match node.spec().meter {
                Meter::Emulated => DrawSource::Emulated,
                _ if is_measured => DrawSource::Measured,
                _ => DrawSource::Estimated,
            },
            caps: node.units().filter_map(cap).collect(),
            cores: node.units().map(|(_, unit)| unit.cores).sum(),
            cores_used: node.units().map(|(id, _)| core.cores_used(id)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_long_queue_hold_for_a_while() {
        let at = |ms: i64| Time::from_unix_ms(ms);
        let counts = |count: u64| JobCounts {
            at: Some(at(1_000)),
            jobs: [(JobState::Waiting, count - 1), (JobState::Running, 1)].into(),
            waiting: BTreeMap::new(),
        };
        assert!(!JobCounts::default().hold(at(0)));
        assert!(!counts(10).hold(at(1_000)), "few jobs are counted each time");
        assert!(counts(100_000).hold(at(5_999)) && !counts(100_000).hold(at(6_000)));
        assert!(!counts(100_000).hold(at(999)), "the clock was set back");
    }
}
