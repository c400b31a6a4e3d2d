//! Figures of the cluster at one time, for metrics. Making them takes one look at each node and each job that is not over.

use std::collections::BTreeMap;

use limo_model::{Meter, Power, Span};
use limo_proto::{JobReport, JobState, NodeState, Status};
use limo_sched::{Node, Phase};

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
}

impl Controller {
    /// Returns the present figures; changes nothing.
    pub fn figures(&self) -> Figures {
        let core = &self.tx.core;
        let (mut jobs, mut waiting) = (BTreeMap::new(), BTreeMap::new());
        for (_, job) in core.jobs().filter(|(id, _)| core.array(*id).is_none()) {
            *jobs.entry(states::of_job(job)).or_default() += 1;
            if let Phase::Waiting(told) = &job.phase {
                *waiting.entry(told.as_ref().map_or("undecided", |wait| wait.kind())).or_default() += 1;
            }
        }
        let sums = core.sums();
        Figures {
            status: self.status(),
            jobs,
            waiting,
            ended: self.ended.0.clone(),
            nodes: core.known_nodes().map(|node| self.node_figures(node)).collect(),
            limited: sums.limited,
            inside: sums.inside,
        }
    }

    fn node_figures(&self, node: &Node) -> NodeFigures {
        let (core, now) = (&self.tx.core, self.tx.now);
        let is_measured = node.is_measured(now, core.settings().options.stale_after);
        let cap =
            |(id, unit): (limo_model::UnitId, &limo_model::UnitSpec)| Some((unit.name.clone(), node.cap(id.unit)?));
        NodeFigures {
            name: node.spec().name.clone(),
            state: states::of_node(node, now),
            draw: core.node_draw(node.id()),
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
