//! One simulation: a method, an instance and an upper limit.

use std::collections::BTreeMap;

use anyhow::Result;
use limo_model::{
    AdmissionRule, Band, Budgets, CapRule, Curve, Energy, EstimateSource, JobShare, OrderRule, Overrides,
    PlacementRule, Power, Preset, Profile, ProfileKey, Slowdown, SlowdownKey, Span, Time, UnitKind,
};
use limo_sched::{Event, ListOptions, Options, SearchResult, State};
use limo_trace::Platform;
use limo_trace::platform::Run;
use lsim::engine::{Change, Mispredict, Rules, Trace, simulate_load};
use lsim::record::{JobRow, Sample, Sink, Summary, WriteError};

use super::instances::CappedLoad;

/// One in ten jobs is under-predicted, with 0.6 of its draw (section 5.2.4).
const UNDER_PREDICTED: Mispredict = Mispredict { hundredths: 1_000, factor_permille: 600, seed: None };
/// Threshold of the bounded slowdown, in s (equation 3).
const THRESHOLD_S: f64 = 300.0;
const EURORA: &str = include_str!("../../../../trace/examples/eurora.toml");

/// A method of section 5.1, with the slowdown by caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Ls,
    Dec,
    Bf,
    Dvfs,
    Simple,
    DynShare,
    /// DynShare that admits jobs up to three times the cap.
    DynShare3,
    /// DEC while jobs arrive often, else DynShare3 (section 5.2.3).
    DecRapl,
}

/// The slowdown by a cap (section 5.1.1, equation 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// The same factor for all applications, in thousandths.
    Factor(u32),
    /// A factor for each application.
    Mixed,
    Cpi,
}

/// A column of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodVariant {
    pub method: Method,
    pub law: Law,
    /// With under-predicted jobs: the cap of the scheduler, in thousandths of the target.
    pub margin: Option<u32>,
}

/// Conditions of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    pub variant: MethodVariant,
    /// Upper limit of the draw; none without a cap.
    pub cap: Option<Power>,
    /// Jobs that one round of DEC may place in its search.
    pub plan_steps: u32,
}

/// Results of a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CappedRun {
    /// Mean of the bounded slowdowns.
    pub bsld: f64,
    /// Mean wait, in s.
    pub wait_s: f64,
    /// Highest true draw.
    pub peak: Power,
    /// Jobs that never ran.
    pub not_run: usize,
    /// Searches of DEC, and those whose list was worse than that of LS in equation 2.
    pub searches: usize,
    pub worse_searches: usize,
}

/// Collects the results.
struct CappedSink<'a> {
    load: &'a CappedLoad,
    slowdowns: f64,
    waits: f64,
    ended: usize,
    peak: Power,
    search: Option<SearchResult>,
    searches: usize,
    worse_searches: usize,
}

impl Sink for CappedSink<'_> {
    fn job(&mut self, job: &JobRow<'_>) -> Result<(), WriteError> {
        let index = usize::try_from(job.number - 1).unwrap_or(usize::MAX);
        let (Some(start), Some(end)) = (job.start, job.end) else { return Ok(()) };
        if index < self.load.counted {
            let of = &self.load.behaviours[index];
            let original = of.run.min(of.requested).secs();
            self.slowdowns += ((end - job.submit).secs() / original.max(THRESHOLD_S)).max(1.0);
            self.waits += (start - job.submit).secs();
            self.ended += 1;
        }
        Ok(())
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), WriteError> {
        self.peak = self.peak.max(sample.draw);
        Ok(())
    }

    fn finish(&mut self, _: &Summary) -> Result<(), WriteError> {
        Ok(())
    }

    fn round(&mut self, state: &State) {
        let found = state.search();
        if let Some(found) = found.filter(|_| found != self.search) {
            self.searches += 1;
            self.worse_searches += usize::from(found.cost > found.of_rule);
        }
        self.search = found;
    }
}

/// Simulates a load. The scheduler expects each job to take its requested time and to draw what it draws. With a margin, a
/// tenth of the jobs is expected to draw 40 % less (section 5.2.4).
///
/// # Errors
/// If the simulation fails.
pub fn run(load: &CappedLoad, conditions: Conditions) -> Result<CappedRun> {
    let MethodVariant { law, margin, .. } = conditions.variant;
    let platform = platform(load, law)?;
    let profiles = profiles(load, &platform, margin.is_some());
    let start = load.workload.start.unwrap_or(Time::from_unix_ms(0));
    let changes: Vec<(Time, Change)> = laws(load, law).map(|event| (start, Change::Event(Box::new(event)))).collect();
    let workload = &load.workload;
    let (platform, profiles, changes) = (&platform, &profiles, &changes);
    let trace = Trace {
        workload,
        platform,
        start,
        profiles,
        variation: None,
        changes,
        predict: false,
        mispredict: None,
        visits: None,
    };
    let planned = |cap: Power| cap.scaled(margin.unwrap_or(1_000).into(), 1_000);
    let limits = conditions.cap.map(|cap| Band::new(Power::ZERO, planned(cap)).map(Curve::constant)).transpose()?;
    let rules = Rules {
        preset: Preset::Easy,
        options: options(conditions.variant.method, conditions),
        budgets: Budgets::default(),
        limits,
        prices: None,
        explore: JobShare::NONE,
        queues: limo_model::Queues::default(),
        groups: limo_model::Groups::default(),
        until: None,
    };
    let mut measured = CappedSink {
        load,
        slowdowns: 0.0,
        waits: 0.0,
        ended: 0,
        peak: Power::ZERO,
        search: None,
        searches: 0,
        worse_searches: 0,
    };
    simulate_load(&trace, rules, &mut measured)?;
    let of = |sum: f64| sum / measured.ended.max(1) as f64;
    Ok(CappedRun {
        bsld: of(measured.slowdowns),
        wait_s: of(measured.waits),
        peak: measured.peak,
        not_run: load.counted - measured.ended,
        searches: measured.searches,
        worse_searches: measured.worse_searches,
    })
}

fn options(method: Method, conditions: Conditions) -> Options {
    let chosen = match method {
        Method::Ls => parts(OrderRule::Rule, AdmissionRule::Rate, CapRule::Untouched),
        Method::Dec => parts(OrderRule::Program, AdmissionRule::Rate, CapRule::Untouched),
        // Its caps go on to hold jobs that were admitted above the limit; those that DEC starts need none.
        Method::DecRapl => parts(OrderRule::ByArrivals, AdmissionRule::Relaxed, CapRule::Ellsworth),
        Method::Bf => parts(OrderRule::Easy, AdmissionRule::Rate, CapRule::Untouched),
        Method::Dvfs => parts(OrderRule::Easy, AdmissionRule::Rate, CapRule::AtStart),
        Method::Simple => parts(OrderRule::Easy, AdmissionRule::Rate, CapRule::FixedShare),
        Method::DynShare => parts(OrderRule::Easy, AdmissionRule::Resources, CapRule::Ellsworth),
        Method::DynShare3 => parts(OrderRule::Easy, AdmissionRule::Relaxed, CapRule::Ellsworth),
    };
    // A search goes on whenever a job arrives or ends.
    let lists = ListOptions { plan_steps: conditions.plan_steps, think_every: Span::ZERO, ..ListOptions::default() };
    Options { chosen, lists, reserve_permille: 0, depth: 100_000, ..Options::default() }
}

fn parts(order: OrderRule, admission: AdmissionRule, caps: CapRule) -> Overrides {
    Overrides {
        order: Some(order),
        admission: Some(admission),
        placement: Some(PlacementRule::LeastRoom),
        caps: Some(caps),
        idle: None,
    }
}

/// Returns the law of an application.
fn law_of(load: &CappedLoad, application: usize, law: Law) -> Slowdown {
    match law {
        Law::Factor(permille) => Slowdown::Factor(permille),
        Law::Mixed => load.behaviours[application].factor,
        Law::Cpi => load.behaviours[application].cpi,
    }
}

/// Returns the events that tell the scheduler the laws.
fn laws(load: &CappedLoad, law: Law) -> impl Iterator<Item = Event> {
    let event = move |application: usize| Event::SlowdownSet {
        key: SlowdownKey::of(&load.workload.applications[application].name, ""),
        law: Some(law_of(load, application, law)),
        by: "lab".to_owned(),
    };
    (0..load.behaviours.len()).map(event)
}

/// Returns the nodes of Eurora.
///
/// # Errors
/// If the file in the program is wrong.
pub fn eurora() -> Result<Platform> {
    Ok(Platform::parse("eurora.toml", EURORA)?)
}

/// Returns the nodes of Eurora, on which each application draws what it does on as many cores as its chunks have.
fn platform(load: &CappedLoad, law: Law) -> Result<Platform> {
    let mut platform = eurora()?;
    let cores = cores_of(load);
    for unit in platform.groups.iter_mut().flat_map(|group| &mut group.units) {
        let runs = load.behaviours.iter().enumerate().map(|(application, of)| {
            let name = load.workload.applications[application].name.clone();
            let power = match unit.kind {
                UnitKind::Accelerator => of.accelerator,
                UnitKind::Cpu => of.cores.scaled(i64::from(unit.cores), i64::from(cores[&application])),
            };
            (name, Run { power, duration: of.run, slowdown: Some(law_of(load, application, law)) })
        });
        let runs: BTreeMap<String, Run> = runs.collect();
        unit.applications = runs;
    }
    Ok(platform)
}

/// Returns the cores of a chunk of each application.
fn cores_of(load: &CappedLoad) -> BTreeMap<usize, u32> {
    let all = (0..load.behaviours.len()).map(|application| (application, 1));
    let mut cores: BTreeMap<usize, u32> = all.collect();
    for job in &load.workload.jobs {
        let chunks = load.workload.chunks(job);
        if let (Some(chunks), Ok(application)) = (chunks, usize::try_from(job.application)) {
            cores.insert(application, chunks.each.cores.on(u32::MAX));
        }
    }
    cores
}

/// Returns what the scheduler knows of the applications: their draws, and their requested times.
fn profiles(load: &CappedLoad, platform: &Platform, is_wrong: bool) -> Vec<(ProfileKey, Profile)> {
    let cores = cores_of(load);
    let mut profiles = BTreeMap::new();
    for unit in platform.groups.iter().flat_map(|group| &group.units) {
        for (application, of) in load.behaviours.iter().enumerate() {
            let (power, cores) = match unit.kind {
                UnitKind::Accelerator => (of.accelerator, None),
                UnitKind::Cpu => (of.cores, Some(cores[&application])),
            };
            let power = if is_wrong { UNDER_PREDICTED.predicted(application, power) } else { power };
            let key = ProfileKey {
                application: load.workload.applications[application].name.clone(),
                size: String::new(),
                hardware: unit.hardware.clone(),
                cores,
                nodes: None,
                cap: None,
            };
            let energy: Energy = power * of.requested;
            let (duration, source) = (of.requested, EstimateSource::Imported);
            profiles.insert(key, Profile { duration, power, energy, spread_permille: 0, runs: 10, source });
        }
    }
    profiles.into_iter().collect()
}

impl MethodVariant {
    pub const fn of(method: Method, law: Law) -> Self {
        Self { method, law, margin: None }
    }

    /// Returns the name in the paper's figures.
    pub fn name(self) -> String {
        let law = match self.law {
            Law::Factor(permille) => (f64::from(permille) / 1e3).to_string(),
            Law::Mixed => "mixed".to_owned(),
            Law::Cpi => "CPI".to_owned(),
        };
        let name = match self.method {
            Method::Ls => "LS".to_owned(),
            Method::Dec => "DEC".to_owned(),
            Method::Bf => "BF".to_owned(),
            Method::DecRapl => "DEC+RAPL".to_owned(),
            Method::Dvfs => format!("DVFS_{law}"),
            Method::Simple => format!("Simple_{law}"),
            Method::DynShare => format!("DynShare_{law}"),
            Method::DynShare3 => format!("DynShare3_{law}"),
        };
        self.margin.map_or(name.clone(), |margin| format!("{name}_vU{}", margin / 10))
    }
}
