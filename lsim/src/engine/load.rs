//! Interface of the workload of a simulation: the jobs of a trace, or another source that provides the same data. Holds
//! no state of a simulation.

use limo_model::{
    Energy, Estimate, NodeSpec, Part, Power, Profile, ProfileKey, Request, Slowdown, Span, Time, Variation, nodes,
};
use limo_sched::Event;
use limo_trace::hot_start::FILLING_DRAW;
use limo_trace::platform::Unit;
use limo_trace::{CompactSpan, Job, Platform, Workload};

use super::request::{self, node_specs};
use super::{Mispredict, Transfer, Variations, Visits};
use crate::record::{Fate, JobRow};

/// Jobs, each with an index, and other events of the cluster.
pub trait Load {
    fn start(&self) -> Time;

    /// Returns the draws of the nodes, by their numbers.
    fn platform(&self) -> &Platform;

    /// Returns the nodes that exist from the start; others come with [`Load::changes`].
    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_>;

    /// Returns the profiles that the scheduler has from the start.
    fn profiles(&self) -> &[(ProfileKey, Profile)] {
        &[]
    }

    /// Returns the differences between units that the scheduler knows from the start.
    fn variation(&self) -> Option<&Variation> {
        None
    }

    /// Returns true if a model predicts the jobs from those that have ended.
    fn predicts(&self) -> bool {
        false
    }

    /// Returns the time of submission of the job at `index`; times ascend. `None` after the last one.
    fn submitted(&self, index: usize) -> Option<Time>;

    fn request(&self, index: usize) -> Request;

    /// Returns a job with only those values from which its request follows; the others are equal in all jobs. `None` if
    /// its request is its own. What the core fills in must not change during the simulation.
    fn asked(&self, _: usize) -> Option<Job> {
        None
    }

    /// Returns true if the job ends with an exit code other than 0.
    fn fails(&self, _: usize) -> bool {
        false
    }

    /// Returns true if the job counts in figures and rows.
    fn counts(&self, _: usize) -> bool {
        true
    }

    /// Returns the data of a job before it runs.
    fn row(&self, index: usize, fate: Fate) -> JobRow<'static>;

    /// Returns the behaviour of a job on that placement. `estimate` is the core's expectation.
    fn running(&self, index: usize, placement: &[Part], estimate: &Estimate) -> Running;

    /// Returns the draw and the running time of a job on each unit of a placement, in its order, without caps; empty if
    /// all are equal.
    fn by_unit(&self, _index: usize, _placement: &[Part]) -> Vec<(Power, Span)> {
        Vec::new()
    }

    /// Returns the time at which the user of a job removes it.
    fn removed(&self, _index: usize) -> Option<Time> {
        None
    }

    /// Returns the times of the job's transfers.
    fn transfer(&self, _index: usize) -> Transfer {
        Transfer::default()
    }

    /// Returns the owners and the reboots of nodes, if there are any.
    fn visits(&self) -> Option<&Visits> {
        None
    }

    /// Returns the time that a checkpoint adds to a run; `None` if jobs make none.
    fn checkpoint_cost(&self) -> Option<Span> {
        self.visits()?.checkpointing.map(|of| of.cost)
    }

    /// Returns other events, in order of time.
    fn changes(&self) -> &[(Time, Change)] {
        &[]
    }
}

/// Behaviour of a job on its placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Time from its assignment until its begin on awake nodes.
    pub delay: Span,
    /// Running time if nothing ends it.
    pub run: Span,
    /// Time limit.
    pub walltime: Option<Span>,
    /// Draw above idle on all of the job's nodes together; `None` to use the platform's values.
    pub draw: Option<Power>,
    /// The job's slowdown under a cap; `None` to use the policy's options.
    pub slowdown: Option<Slowdown>,
}

/// Event that neither a policy nor a job causes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Event that is applied as recorded. Ignored if the core refuses it.
    Event(Box<Event>),
    /// Submits the job with this index, for loads that do not use [`Load::submitted`].
    Submit(usize),
    /// A user cancels the job with that index.
    Cancel { index: usize, by: String },
    /// Holds, releases or requeues the job with this index; the event has the job's number in the history.
    Steer { index: usize, event: Box<Event> },
    /// No effect; the simulation continues until this time.
    Nothing,
}

/// Trace on a platform.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub start: Time,
    /// Profiles that the scheduler has.
    pub profiles: &'a [(ProfileKey, Profile)],
    pub variation: Option<&'a Variations>,
    /// True if a model predicts the jobs from those that have ended.
    pub predict: bool,
    pub changes: &'a [(Time, Change)],
    /// Predictions of draws, some of them wrong; without it the scheduler has none.
    pub mispredict: Option<Mispredict>,
    pub visits: Option<&'a Visits>,
}

impl Load for Trace<'_> {
    fn removed(&self, index: usize) -> Option<Time> {
        let job = &self.workload.jobs[index];
        job.removed.map(|after| self.start + job.submit + after.span())
    }

    fn transfer(&self, index: usize) -> Transfer {
        let Some(bandwidth) = self.visits.and_then(|visits| visits.bandwidth) else { return Transfer::default() };
        let bytes = self.workload.transfer(&self.workload.jobs[index]);
        let takes =
            |[input, output]: [u64; 2]| Transfer { input: bandwidth.takes(input), output: bandwidth.takes(output) };
        bytes.map(takes).unwrap_or_default()
    }

    fn visits(&self) -> Option<&Visits> {
        self.visits
    }

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

    fn variation(&self) -> Option<&Variation> {
        self.variation.map(|variation| &variation.believed)
    }

    fn predicts(&self) -> bool {
        self.predict
    }

    fn submitted(&self, index: usize) -> Option<Time> {
        self.workload.jobs.get(index).map(|job| self.start + job.submit)
    }

    fn request(&self, index: usize) -> Request {
        let job = &self.workload.jobs[index];
        let mut request = request::request(self.platform, self.workload, &request::asked(job));
        request.restart.checkpoint = self.visits.and_then(|visits| visits.checkpointing).map(|of| of.every);
        if let Some(of) = self.mispredict.filter(|_| self.counts(index)) {
            of.predict((self.platform, self.workload), index, &mut request);
        }
        request
    }

    fn asked(&self, index: usize) -> Option<Job> {
        let asked = || request::asked(&self.workload.jobs[index]);
        self.mispredict.is_none().then(asked)
    }

    fn counts(&self, index: usize) -> bool {
        !self.workload.jobs[index].treatment.fills
    }

    fn row(&self, index: usize, fate: Fate) -> JobRow<'static> {
        let job = &self.workload.jobs[index];
        JobRow {
            number: job.number,
            submit: self.start + job.submit,
            processors: job.processors,
            walltime: job.walltime.map(CompactSpan::span),
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
        let typical = self.typical(index, placement);
        let units = self.varied(index, placement, typical.run);
        if units.is_empty() {
            return typical;
        }
        let (draw, run) = units.iter().fold((Power::ZERO, Span::ZERO), |(draw, run), of| (draw + of.0, run.max(of.1)));
        Running { run, draw: Some(draw), ..typical }
    }

    fn by_unit(&self, index: usize, placement: &[Part]) -> Vec<(Power, Span)> {
        self.varied(index, placement, self.typical(index, placement).run)
    }
}

impl Trace<'_> {
    /// Returns the behaviour of a job as if its units were typical.
    fn typical(&self, index: usize, placement: &[Part]) -> Running {
        let job = &self.workload.jobs[index];
        let draw = job.treatment.fills.then_some(FILLING_DRAW);
        let width = u32::try_from(nodes(placement).count()).unwrap_or(u32::MAX);
        let on_width = self.workload.moldable(job).and_then(|moldable| moldable.run_on(width, job.run));
        let run = on_width.unwrap_or(job.run);
        let plain =
            Running { delay: Span::ZERO, run, walltime: job.walltime.map(CompactSpan::span), draw, slowdown: None };
        let Some((part, group)) = placement.first().and_then(|part| Some((part, self.platform.group(part.unit.node)?)))
        else {
            return plain;
        };
        let delay = group.start_delay;
        let application = self.workload.application(job);
        let Some(unit) = group.units.get(usize::from(part.unit.unit)) else {
            return Running { delay, ..plain };
        };
        let known = |unit: &Unit| application.and_then(|of| unit.applications.get(&of.name)).copied();
        let share = |part: &Part| {
            let unit = self.platform.group(part.unit.node)?.units.get(usize::from(part.unit.unit))?;
            let whole = known(unit).map_or(unit.draw, |known| known.power);
            let each = whole.scaled(i64::from(part.cores), i64::from(unit.cores));
            Some(each.scaled(i64::from(part.count), 1))
        };
        let draw = placement.iter().filter_map(share).sum();
        let known = known(unit);
        let run = on_width.or(known.map(|known| known.duration)).unwrap_or(job.run);
        let slowdown = known.and_then(|known| known.slowdown).or(Some(Slowdown::Factor(unit.cap_factor_permille)));
        Running { delay, run, draw: plain.draw.or(Some(draw)), slowdown, ..plain }
    }

    /// Returns the draw and the running time of a job on each of its units, whose typical time is `run`: each draws by
    /// its own factor, and the slowest one decides the time (heterogeneity paper, equations 2 to 5). Empty without
    /// differences.
    fn varied(&self, index: usize, placement: &[Part], run: Span) -> Vec<(Power, Span)> {
        let Some(actual) = self.variation.map(|of| &of.actual).filter(|actual| !actual.is_empty()) else {
            return Vec::new();
        };
        let application = self.workload.application(&self.workload.jobs[index]).map_or("", |of| &of.name);
        let factors = actual.of(application);
        let draw_of = |part: &Part| {
            let group = self.platform.group(part.unit.node)?;
            let (whole, cores) = match group.units.get(usize::from(part.unit.unit)) {
                Some(unit) => {
                    let known = unit.applications.get(application).map_or(unit.draw, |known| known.power);
                    (known, unit.cores)
                }
                None => (group.draw.busy - group.draw.idle, group.cores),
            };
            Some(whole.scaled(i64::from(part.cores), i64::from(cores)))
        };
        let each = placement.iter().flat_map(|part| {
            let draw = draw_of(part).unwrap_or_default();
            part.units().map(move |unit| (factors.factor(unit, None), draw))
        });
        each.map(|(factor, draw)| (factor.of_power(draw), factor.of_span(run))).collect()
    }
}
