//! One simulation of the heterogeneity paper: strict order on whole nodes, jobs that arrive in scheduling steps.

use std::collections::BTreeMap;

use anyhow::Result;
use limo_model::{
    Budgets, Energy, EstimateSource, JobShare, NodeId, OrderRule, Overrides, PlacementRule, Power, Preset, Profile,
    ProfileKey, Span, Time, UnitKind,
};
use limo_sched::{Event, Options, RankBy, RankOptions};
use limo_trace::platform::{Draw, Group, Names, Run as KnownRun, Unit};
use limo_trace::{Application, Job, Platform, Treatment, Workload};
use lsim::engine::{Change, Rules, Trace, Variations, simulate_load};
use lsim::record::{JobRow, Sample, Sink, Summary, WriteError};

use crate::random::Random;

/// The scheduler looks at the queue once in this time.
const STEP: Span = Span::from_secs(10);
const HARDWARE: &str = "xeon-gold-6154";

/// Jobs of one kind.
#[derive(Debug, Clone, Copy)]
pub struct JobKind {
    pub application: &'static str,
    pub count: usize,
    pub nodes: u32,
    /// On typical nodes, in s.
    pub seconds: f64,
    /// Draw on a typical node, in W.
    pub power: f64,
}

/// An algorithm of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PaperAlgorithm {
    Naive,
    /// Ranked by the mean over all applications.
    Paa,
    Coa,
    Swa,
}

impl PaperAlgorithm {
    fn options(self) -> Options {
        let placement = match self {
            Self::Naive => PlacementRule::FirstFit,
            Self::Paa => PlacementRule::Ranked,
            Self::Coa => PlacementRule::Assignment,
            Self::Swa => PlacementRule::Window,
        };
        let chosen = Overrides { order: Some(OrderRule::Strict), placement: Some(placement), ..Overrides::default() };
        let ranks = RankOptions { by: RankBy::All, ..RankOptions::default() };
        Options { chosen, ranks, depth: 100_000, ..Options::default() }
    }
}

/// The nodes, and the differences between them.
pub struct VariedNodes {
    pub nodes: u32,
    pub variations: Variations,
    /// Nodes that get no jobs.
    pub drained: Vec<u32>,
}

/// Results of a simulation.
#[derive(Debug, Clone, Default)]
pub struct JobEnergies {
    /// Energy of all jobs, in J.
    pub energy: f64,
    /// Nodes (from 0, the first of each job) and duration in s of each job, by number.
    pub jobs: BTreeMap<i64, (u32, f64)>,
}

impl Sink for JobEnergies {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        self.energy += job.energy.joules();
        let first = job.allocated.first().map_or(u32::MAX, |(first, _)| *first);
        if let (Some(start), Some(end)) = (job.start, job.end) {
            self.jobs.insert(job.number, (first, (end - start).secs()));
        }
        Ok(())
    }

    fn sample(&mut self, _: &Sample) -> Result<(), WriteError> {
        Ok(())
    }

    fn finish(&mut self, _: &Summary) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Makes jobs in a random order that keep `load` of the nodes busy on average, once the first have ended: they arrive
/// independently of each other, and are submitted at the next step.
pub fn workload(kinds: &[JobKind], nodes: u32, load: f64, seed: u64) -> Workload {
    let mut random = Random::new(seed, 3);
    let mut order: Vec<usize> = kinds.iter().enumerate().flat_map(|(index, kind)| vec![index; kind.count]).collect();
    random.shuffle(&mut order);
    let work: f64 = order.iter().map(|index| kinds[*index].seconds * f64::from(kinds[*index].nodes)).sum();
    let gap = work / order.len() as f64 / (load * f64::from(nodes));
    let mut at = 0.0;
    let jobs = (1..).zip(&order).map(|(number, index)| {
        at += gap * random.exponential();
        let steps = (at / STEP.secs()).ceil() as i64;
        job(number, STEP.scaled(steps, 1), (*index, &kinds[*index]))
    });
    with_applications(kinds, jobs.collect())
}

/// Makes one job of a kind, given by its index among the kinds.
pub fn job(number: i64, submit: Span, (index, kind): (usize, &JobKind)) -> Job {
    Job {
        number,
        submit,
        wait: None,
        run: span(kind.seconds),
        walltime: None,
        processors: kind.nodes,
        user: -1,
        application: i32::try_from(index).unwrap_or(-1),
        queue: -1,
        treatment: Treatment::default(),
        chunks: None,
        moldable: None,
        removed: None,
        bytes: None,
    }
}

pub fn with_applications(kinds: &[JobKind], jobs: Vec<Job>) -> Workload {
    let application = |kind: &JobKind| Application { name: kind.application.to_owned(), variants: Vec::new() };
    Workload { jobs, applications: kinds.iter().map(application).collect(), ..Workload::default() }
}

fn span(seconds: f64) -> Span {
    Span::from_ms((seconds * 1e3).round() as i64)
}

fn watts(watts: f64) -> Power {
    Power::from_mw((watts * 1e3).round() as i64)
}

/// Simulates an algorithm. Idle nodes draw nothing, so only jobs use energy.
///
/// # Errors
/// If the simulation fails.
pub fn run(
    kinds: &[JobKind],
    workload: &Workload,
    machine: &VariedNodes,
    algorithm: PaperAlgorithm,
) -> Result<JobEnergies> {
    let platform = platform(kinds, machine.nodes);
    let profiles = profiles(kinds);
    let start = Time::from_unix_ms(0);
    let drained = machine.drained.iter().map(|node| {
        let (reason, by) = ("busy".to_owned(), "lab".to_owned());
        (start, Change::Event(Box::new(Event::NodeDrained { node: NodeId(*node), reason, by })))
    });
    let changes: Vec<(Time, Change)> = drained.collect();
    let variation = Some(&machine.variations);
    let (platform, profiles, changes) = (&platform, &profiles, &changes);
    let load = Trace {
        workload,
        platform,
        start,
        profiles,
        variation,
        changes,
        predict: false,
        mispredict: None,
        visits: None,
    };
    let rules = Rules {
        preset: Preset::Fifo,
        options: algorithm.options(),
        budgets: Budgets::default(),
        limits: None,
        prices: None,
        explore: JobShare::NONE,
        queues: limo_model::Queues::default(),
        groups: limo_model::Groups::default(),
        until: None,
    };
    let mut outcome = JobEnergies::default();
    simulate_load(&load, rules, &mut outcome)?;
    Ok(outcome)
}

fn platform(kinds: &[JobKind], nodes: u32) -> Platform {
    let runs = kinds.iter().map(|kind| {
        let run = KnownRun { power: watts(kind.power), duration: span(kind.seconds), slowdown: None };
        (kind.application.to_owned(), run)
    });
    let unit = Unit {
        name: "cpu".to_owned(),
        hardware: HARDWARE.to_owned(),
        kind: UnitKind::Cpu,
        cores: 1,
        draw: watts(150.0),
        nameplate: watts(400.0),
        caps: None,
        cap_factor_permille: 1_000,
        applications: runs.collect(),
    };
    let draw = Draw { idle: Power::ZERO, busy: watts(150.0) };
    let group = Group {
        names: Names::Numbered("n".to_owned()),
        count: nodes,
        cores: 1,
        memory: None,
        hardware: HARDWARE.to_owned(),
        units: vec![unit],
        draw,
        believed: draw,
        rest: None,
        start_delay: Span::ZERO,
        variation: None,
    };
    Platform { groups: vec![group] }
}

fn profiles(kinds: &[JobKind]) -> Vec<(ProfileKey, Profile)> {
    let profile = |kind: &JobKind| {
        let (power, duration) = (watts(kind.power), span(kind.seconds));
        let energy: Energy = power * duration;
        let key = ProfileKey {
            application: kind.application.to_owned(),
            size: String::new(),
            hardware: HARDWARE.to_owned(),
            cores: None,
            nodes: None,
            cap: None,
        };
        let source = EstimateSource::Imported;
        (key, Profile { duration, power, energy, spread_permille: 0, runs: 10, source })
    };
    kinds.iter().map(profile).collect()
}
