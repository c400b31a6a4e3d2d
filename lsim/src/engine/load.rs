//! What a simulation runs: the jobs of a trace, or whatever else can say of its jobs what the engine has to know. Holds
//! no state of a simulation.

use limo_model::{Energy, Estimate, NodeSpec, Part, Power, Request, Span, Time};
use limo_sched::Event;
use limo_trace::{Platform, Workload};

use super::request::{self, node_specs};
use crate::record::{Fate, JobRow};

/// Jobs, each with an index, and what else happens to the cluster.
pub trait Load {
    fn start(&self) -> Time;

    /// What the nodes draw, by their numbers.
    fn platform(&self) -> &Platform;

    /// The nodes that are there from the start; the others come with [`Load::changes`].
    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_>;

    /// When the job of that index is submitted; times ascend. `None` after the last one.
    fn submitted(&self, index: usize) -> Option<Time>;

    fn request(&self, index: usize) -> Request;

    /// What is known of a job before it runs.
    fn row(&self, index: usize, fate: Fate) -> JobRow<'static>;

    /// What a job does on that placement. `estimate` is what the core expects of it.
    fn running(&self, index: usize, placement: &[Part], estimate: &Estimate) -> Running;

    /// What else happens, in order of time.
    fn changes(&self) -> &[(Time, Change)] {
        &[]
    }
}

/// What a job does where it was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// For so long, if nothing ends it.
    pub run: Span,
    /// It is ended after this time.
    pub walltime: Option<Span>,
    /// Draw above idle on all of its nodes together; `None`: as the platform says.
    pub draw: Option<Power>,
}

/// Something that happens besides what a policy does and what jobs do by themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Recorded as it is. What the core refuses did not happen.
    Event(Box<Event>),
    /// The job of that index is submitted: for loads that do not say so by [`Load::submitted`].
    Submit(usize),
    /// Somebody wants the job of that index gone.
    Cancel { index: usize, by: String },
    /// Nothing; the simulation goes on until then.
    Nothing,
}

/// A trace on a platform.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub start: Time,
}

impl Load for Trace<'_> {
    fn start(&self) -> Time {
        self.start
    }

    fn platform(&self) -> &Platform {
        self.platform
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_> {
        Box::new(node_specs(self.platform))
    }

    fn submitted(&self, index: usize) -> Option<Time> {
        self.workload.jobs.get(index).map(|job| self.start + job.submit)
    }

    fn request(&self, index: usize) -> Request {
        request::request(self.platform, &self.workload.jobs[index])
    }

    fn row(&self, index: usize, fate: Fate) -> JobRow<'static> {
        let job = &self.workload.jobs[index];
        JobRow {
            number: job.number,
            submit: self.start + job.submit,
            processors: job.processors,
            walltime: job.walltime,
            user: job.user,
            fate,
            start: None,
            end: None,
            allocated: &[],
            energy: Energy::ZERO,
            cost: None,
        }
    }

    fn running(&self, index: usize, _: &[Part], _: &Estimate) -> Running {
        let job = &self.workload.jobs[index];
        Running { run: job.run, walltime: job.walltime, draw: None }
    }
}
