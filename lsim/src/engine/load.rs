//! What a simulation runs: the jobs of a trace, or whatever else can say of its jobs what the engine has to know. Holds
//! no state of a simulation.

use limo_model::{Energy, Estimate, NodeSpec, Part, Power, Profile, ProfileKey, Request, Span, Time, width};
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

    /// What the scheduler knows of applications from the start.
    fn profiles(&self) -> &[(ProfileKey, Profile)] {
        &[]
    }

    /// When the job of that index is submitted; times ascend. `None` after the last one.
    fn submitted(&self, index: usize) -> Option<Time>;

    fn request(&self, index: usize) -> Request;

    /// Whether the job ends with an exit code that is not 0.
    fn fails(&self, _: usize) -> bool {
        false
    }

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
    /// From its assignment until it begins on nodes that are awake.
    pub delay: Span,
    /// For so long, if nothing ends it.
    pub run: Span,
    /// It is ended after this time.
    pub walltime: Option<Span>,
    /// Draw above idle on all of its nodes together; `None`: as the platform says.
    pub draw: Option<Power>,
    /// F of power-capping-2018, section 5.1.1, in thousandths: how a cap slows it down; `None`: as the options of the
    /// policy say.
    pub cap_factor_permille: Option<u32>,
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
    /// The job of that index is held, released or requeued, as the event says of a job of another number.
    Steer { index: usize, event: Box<Event> },
    /// Nothing; the simulation goes on until then.
    Nothing,
}

/// A trace on a platform.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub start: Time,
    /// What the scheduler knows of applications.
    pub profiles: &'a [(ProfileKey, Profile)],
    pub changes: &'a [(Time, Change)],
}

impl Load for Trace<'_> {
    fn changes(&self) -> &[(Time, Change)] {
        self.changes
    }

    fn start(&self) -> Time {
        self.start
    }

    fn platform(&self) -> &Platform {
        self.platform
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_> {
        Box::new(node_specs(self.platform))
    }

    fn profiles(&self) -> &[(ProfileKey, Profile)] {
        self.profiles
    }

    fn submitted(&self, index: usize) -> Option<Time> {
        self.workload.jobs.get(index).map(|job| self.start + job.submit)
    }

    fn request(&self, index: usize) -> Request {
        let job = &self.workload.jobs[index];
        request::request(self.platform, job, self.workload.application(job))
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

    fn running(&self, index: usize, placement: &[Part], _: &Estimate) -> Running {
        let job = &self.workload.jobs[index];
        let plain =
            Running { delay: Span::ZERO, run: job.run, walltime: job.walltime, draw: None, cap_factor_permille: None };
        let Some((part, group)) = placement.first().and_then(|part| Some((part, self.platform.group(part.unit.node)?)))
        else {
            return plain;
        };
        let delay = group.start_delay;
        let Some(unit) = group.units.get(usize::from(part.unit.unit)) else { return Running { delay, ..plain } };
        let known = self.workload.application(job).and_then(|application| unit.applications.get(&application.name));
        let whole = known.map_or(unit.draw, |known| known.power).scaled(i64::from(part.cores), i64::from(unit.cores));
        let draw = whole.scaled(i64::from(width(placement)), 1);
        let run = known.map_or(job.run, |known| known.duration);
        Running { delay, run, draw: Some(draw), cap_factor_permille: Some(unit.cap_factor_permille), ..plain }
    }
}
