//! A cluster's history as a load: the same jobs of the same users at the same times on the same nodes, under the
//! original settings or others.
//!
//! On the same hardware at the same cap, a run keeps its time and draw. On another unit, the ratio of the two profiles
//! scales both, if both are known. If a job never ran, or did not end by itself, its time comes from its profile or
//! time limit, else from the mean of the application's other runs. It is at least the original time. The time of a
//! suspended run is that without its suspensions, and of a requeued job that of its last attempt. If the caps of a run
//! moved, its time comes from its profile, else from its time on the unit, which is too long. Both kinds are counted.
//! Owners come and leave at their times, and evict jobs by the rules of their groups. Cancellations, holds, releases and requeues keep their times. Failed jobs fail.

use std::cell::Cell;
use std::collections::BTreeMap;

use limo_model::{
    Band, Budgets, Cores, Curve, Estimate, Groups, JobShare, NodeSpec, Part, Power, Preset, Price, Profile, ProfileKey,
    Queues, Request, Span, Time,
};
use limo_sched::{Event, Options};
use limo_trace::Platform;

use super::past::{Past, Ran, row};
use crate::engine::{Change, Load, Rules, Running};
use crate::record::{Fate, JobRow};

/// Changed settings; `None` keeps the original.
#[derive(Debug, Clone, Default)]
pub struct Otherwise {
    pub policy: Option<(Preset, Options)>,
    pub budgets: Option<Budgets>,
    pub limits: Option<Curve<Band>>,
    pub prices: Option<Curve<Price>>,
}

impl Otherwise {
    /// Returns true if a changed setting replaces the one of this event.
    fn replaces(&self, change: &Change) -> bool {
        let Change::Event(event) = change else { return false };
        match **event {
            Event::PolicySet { .. } => self.policy.is_some(),
            Event::BudgetsSet { .. } => self.budgets.is_some(),
            Event::LimitsSet { .. } | Event::GridLimited { .. } => self.limits.is_some(),
            Event::PricesSet { .. } => self.prices.is_some(),
            _ => false,
        }
    }

    /// Returns the settings from the beginning. Without a policy they are those of every new master; the recorded
    /// settings follow.
    fn rules(&self) -> Rules {
        let (preset, options) = self.policy.unwrap_or((Preset::DEFAULT, Options::default()));
        let (limits, prices) = (self.limits.clone(), self.prices.clone());
        let (queues, groups) = (Queues::default(), Groups::default());
        let budgets = self.budgets.clone().unwrap_or_default();
        Rules { preset, options, budgets, limits, prices, explore: JobShare::NONE, queues, groups, until: None }
    }
}

/// Sources of the running times of a simulation, in started jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sources {
    /// Runs on the same hardware at the same cap.
    pub measured: u64,
    /// Runs whose time is scaled by profiles.
    pub profiles: u64,
    /// Runs on another unit or at another cap with the measured time, because a profile is missing.
    pub unscaled: u64,
    pub estimated: u64,
    /// Runs by profile, because their caps moved.
    pub unsteady: u64,
    /// The same kind of run without a profile, with its time on the unit.
    pub stretched: u64,
}

/// The history as a load; see the module.
pub struct Again<'a> {
    past: &'a Past,
    changes: Vec<(Time, Change)>,
    rules: Rules,
    /// Mean running times of applications.
    means: BTreeMap<&'a str, Span>,
    sources: Cell<Sources>,
}

/// Means of the runs that ended by themselves.
fn means(past: &Past) -> BTreeMap<&str, Span> {
    let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for job in &past.jobs {
        if let Some(ran) = job.ran.as_ref().filter(|ran| ran.whole && ran.steady) {
            let (sum, count) = sums.entry(job.request.application.as_str()).or_default();
            (*sum, *count) = (sum.saturating_add(ran.span.ms()), *count + 1);
        }
    }
    sums.into_iter().map(|(application, (sum, count))| (application, Span::from_ms(sum / count))).collect()
}

impl<'a> Again<'a> {
    pub fn new(past: &'a Past, otherwise: &Otherwise) -> Self {
        let changes = past.changes.iter().filter(|(_, change)| !otherwise.replaces(change)).cloned().collect();
        Self { past, changes, rules: otherwise.rules(), means: means(past), sources: Cell::default() }
    }

    pub fn rules(&self) -> Rules {
        self.rules.clone()
    }

    pub fn sources(&self) -> Sources {
        self.sources.get()
    }

    /// Returns the expected running time of a job without a known one. This is not the estimate of the core: some
    /// policies use the time limit, or one guess for all users.
    fn expected(&self, request: &Request, here: Option<(&str, Option<Power>)>, estimate: &Estimate) -> Span {
        let profile = here.and_then(|(hardware, cap)| self.profile(request, hardware, cap));
        let mean = || self.means.get(request.application.as_str()).copied();
        match (profile, request.time_limit) {
            (Some(profile), limit) => limit.map_or(profile.duration, |limit| limit.min(profile.duration)),
            (None, Some(limit)) => limit,
            (None, None) => mean().unwrap_or(estimate.duration),
        }
    }

    fn profile(&self, request: &Request, hardware: &str, cap: Option<Power>) -> Option<&Profile> {
        let on = |size: &str, cores, nodes| {
            let (application, size, hardware) = (request.application.clone(), size.to_owned(), hardware.to_owned());
            self.past.profiles.get(&ProfileKey { application, size, hardware, cores, nodes, cap })
        };
        let of = |size, cores| on(size, cores, Some(request.nodes.get())).or_else(|| on(size, cores, None));
        let count = if let Cores::Count(count) = request.cores { Some(count.get()) } else { None };
        let counted = count.and_then(|count| of(&request.size, Some(count)));
        counted.or_else(|| of(&request.size, None)).or_else(|| of("", None))
    }

    fn count(&self, which: impl FnOnce(&mut Sources) -> &mut u64) {
        let mut sources = self.sources.get();
        *which(&mut sources) += 1;
        self.sources.set(sources);
    }

    /// Returns the profiles of the job's original unit and of its unit here.
    fn profiles(&self, request: &Request, from: &Ran, to: (&str, Option<Power>)) -> Option<(&Profile, &Profile)> {
        let before = self.profile(request, &from.hardware, from.cap)?;
        let now = self.profile(request, to.0, to.1)?;
        (before.duration.ms() > 0 && before.power.mw() > 0).then_some((before, now))
    }
}

impl Load for Again<'_> {
    fn start(&self) -> Time {
        self.past.start
    }

    fn platform(&self) -> &Platform {
        &self.past.platform
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = NodeSpec> + '_> {
        Box::new(std::iter::empty())
    }

    fn submitted(&self, _: usize) -> Option<Time> {
        None
    }

    fn request(&self, index: usize) -> Request {
        self.past.jobs[index].request.clone()
    }

    fn fails(&self, index: usize) -> bool {
        self.past.jobs[index].ran.as_ref().is_some_and(|ran| ran.failed)
    }

    fn row(&self, index: usize, fate: Fate) -> JobRow<'static> {
        row(&self.past.jobs[index], fate)
    }

    fn running(&self, index: usize, placement: &[Part], estimate: &Estimate) -> Running {
        let job = &self.past.jobs[index];
        let walltime = job.request.time_limit;
        let running = |run, draw| Running { delay: Span::ZERO, run, walltime, draw: Some(draw), slowdown: None };
        let here = self.past.unit(placement);
        let Some(ran) = &job.ran else {
            self.count(|sources| &mut sources.estimated);
            return running(self.expected(&job.request, here, estimate), estimate.power);
        };
        let draw = ran.draw.unwrap_or(estimate.power);
        if !ran.whole {
            self.count(|sources| &mut sources.estimated);
            return running(self.expected(&job.request, here, estimate).max(ran.span), draw);
        }
        if !ran.steady {
            let profile = here.and_then(|(hardware, _)| self.profile(&job.request, hardware, None));
            return match profile {
                Some(profile) => {
                    self.count(|sources| &mut sources.unsteady);
                    running(profile.duration, profile.power)
                }
                None => {
                    self.count(|sources| &mut sources.stretched);
                    running(ran.span, draw)
                }
            };
        }
        if here == Some((ran.hardware.as_str(), ran.cap)) {
            self.count(|sources| &mut sources.measured);
            return running(ran.span, draw);
        }
        match here.and_then(|here| self.profiles(&job.request, ran, here)) {
            Some((before, now)) => {
                self.count(|sources| &mut sources.profiles);
                running(
                    ran.span.scaled(now.duration.ms(), before.duration.ms()),
                    draw.scaled(now.power.mw(), before.power.mw()),
                )
            }
            None => {
                self.count(|sources| &mut sources.unscaled);
                running(ran.span, draw)
            }
        }
    }

    fn changes(&self) -> &[(Time, Change)] {
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Energy, EstimateSource, JobId, Memory, Meter, NodeId, UnitId, UnitKind, UnitSpec};

    use super::*;
    use crate::engine::simulate_load;
    use crate::history::{figures::Figures, past::PastJob};
    use crate::output::Metrics;
    use crate::record::Heading;

    fn at(secs: i64) -> Time {
        Time::from_unix_ms(secs * 1_000)
    }

    /// Makes a node of one core with an idle draw of 10 W.
    fn node(name: &str, hardware: &str) -> NodeSpec {
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: hardware.into(),
            kind: UnitKind::Cpu,
            cores: 1,
            nameplate: Power::from_watts(30),
            caps: None,
        };
        let (memory, idle) = (Memory::ZERO, Power::from_watts(10));
        NodeSpec { name: name.into(), units: vec![unit], memory, idle, meter: Meter::None, rest: None }
    }

    /// Makes a job that ran on hardware `a` for `secs` at 5 W, or never.
    fn job(id: u64, secs: Option<i64>) -> PastJob {
        let request = Request { user: "ada".into(), name: "cg".into(), ..Request::one_core("cg") };
        let (hardware, draw) = ("a".to_owned(), Some(Power::from_watts(5)));
        let ran = secs.map(|secs| Ran {
            span: Span::from_secs(secs),
            whole: true,
            failed: false,
            steady: true,
            draw,
            hardware,
            cap: None,
        });
        PastJob { id: JobId(id), request, submitted: at(0), user: 0, processors: 1, ran }
    }

    /// Makes a history with all jobs submitted at the beginning.
    fn past(nodes: Vec<NodeSpec>, jobs: Vec<PastJob>) -> Past {
        let up = nodes.iter().map(|spec| (at(0), Change::Event(Box::new(Event::NodeUp { spec: spec.clone() }))));
        let submitted = (0..jobs.len()).map(|index| (at(0), Change::Submit(index)));
        Past {
            start: at(0),
            end: at(0),
            changes: up.chain(submitted).collect(),
            platform: crate::history::platform::platform(&nodes),
            nodes,
            jobs,
            profiles: BTreeMap::new(),
            preset: Preset::Limo,
            options: Options::default(),
            figures: Figures::of(&Metrics::new(&heading()), Vec::new(), Span::ZERO, BTreeMap::new()),
            unfinished: 0,
            differences: 0,
        }
    }

    fn heading() -> Heading {
        Heading::unnamed(1, at(0))
    }

    fn easy() -> Otherwise {
        Otherwise { policy: Some((Preset::Easy, Options::default())), ..Otherwise::default() }
    }

    #[test]
    fn two_jobs_and_one_that_is_cancelled_while_it_waits() {
        let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(50)), job(3, None)]);
        past.changes.push((at(120), Change::Cancel { index: 2, by: "ada".into() }));
        past.changes.push((at(200), Change::Nothing));
        let again = Again::new(&past, &easy());
        let mut metrics = Metrics::new(&heading());
        let summary = simulate_load(&again, again.rules(), &mut metrics).expect("possible");
        // The jobs run in turn, with waits of 0 s and 100 s. The energy is 10 W for 200 s and 5 W for 150 s.
        let figures = Figures::of(&metrics, summary.budgets, summary.end - at(0), BTreeMap::new());
        assert_eq!((figures.jobs, figures.ended), (3, 2));
        assert_eq!((figures.mean_wait, figures.max_wait), (Span::from_secs(50), Span::from_secs(100)));
        assert_eq!((figures.span, figures.energy), (Span::from_secs(200), Energy::from_joules(2_750)));
        assert_eq!(again.sources(), Sources { measured: 2, ..Sources::default() });
    }

    #[test]
    fn a_job_that_runs_when_it_is_cancelled_is_stopped() {
        let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(10))]);
        past.changes.push((at(30), Change::Cancel { index: 0, by: "ada".into() }));
        let again = Again::new(&past, &easy());
        let mut metrics = Metrics::new(&heading());
        let summary = simulate_load(&again, again.rules(), &mut metrics).expect("possible");
        assert_eq!((metrics.counts.killed, metrics.counts.completed), (1, 1));
        assert_eq!((metrics.max_wait(), summary.end), (Span::from_secs(30), at(40)));
    }

    #[test]
    fn profiles_scale_runs_on_other_hardware() {
        let mut past = past(vec![node("n1", "a"), node("n2", "b")], vec![job(1, Some(100)), job(2, None)]);
        let profile = |secs, watts| Profile {
            duration: Span::from_secs(secs),
            power: Power::from_watts(watts),
            energy: Energy::ZERO,
            spread_permille: 0,
            runs: 1,
            source: EstimateSource::Learned,
        };
        let key = |hardware: &str| ProfileKey {
            application: "cg".into(),
            size: String::new(),
            hardware: hardware.into(),
            cores: None,
            nodes: None,
            cap: None,
        };
        let on = |past: &Past, index: usize, node: u32| {
            let unit = UnitId { node: NodeId(node), unit: 0 };
            let part = Part { unit, count: 1, cores: 1, memory: Memory::ZERO, cap: None };
            let estimate = Estimate {
                duration: Span::from_secs(3_600),
                power: Power::from_watts(30),
                energy: Energy::ZERO,
                source: EstimateSource::Nameplate,
                runs: 0,
            };
            let again = Again::new(past, &easy());
            let Running { run, draw, .. } = again.running(index, &[part], &estimate);
            let Sources { measured, profiles, unscaled, estimated, .. } = again.sources();
            (run.ms() / 1_000, draw.map(Power::mw), [measured, profiles, unscaled, estimated])
        };
        past.profiles.insert(key("a"), profile(80, 4));
        assert_eq!(on(&past, 0, 0), (100, Some(5_000), [1, 0, 0, 0]));
        assert_eq!(on(&past, 0, 1), (100, Some(5_000), [0, 0, 1, 0]));
        // The job takes half as long at three times the draw.
        past.profiles.insert(key("b"), profile(40, 12));
        assert_eq!(on(&past, 0, 1), (50, Some(15_000), [0, 1, 0, 0]));
        assert_eq!(on(&past, 1, 1), (40, Some(30_000), [0, 0, 0, 1]));
        // Without a profile only the original running time is known.
        past.profiles.clear();
        assert_eq!(on(&past, 1, 1), (100, Some(30_000), [0, 0, 0, 1]));
        past.jobs[1].request.application = "ft".into();
        assert_eq!(on(&past, 1, 1), (3_600, Some(30_000), [0, 0, 0, 1]));
    }

    /// Checks that the time of a run with moved caps is not used, but its profile is, and is counted.
    #[test]
    fn a_run_that_was_not_steady_was_not_measured() {
        let mut past = past(vec![node("n1", "a")], vec![job(1, Some(100)), job(2, Some(30))]);
        past.jobs[0].ran.as_mut().expect("it ran").steady = false;
        let check = |past: &Past, end: i64, expected: Sources| {
            let again = Again::new(past, &easy());
            let summary = simulate_load(&again, again.rules(), &mut Metrics::new(&heading())).expect("possible");
            assert_eq!((summary.end, again.sources()), (at(end), expected));
        };
        check(&past, 130, Sources { measured: 1, stretched: 1, ..Sources::default() });
        let (duration, power, source) = (Span::from_secs(40), Power::from_watts(7), EstimateSource::Learned);
        let profile = Profile { duration, power, energy: Energy::ZERO, spread_permille: 0, runs: 1, source };
        let (application, size, hardware) = ("cg".to_owned(), String::new(), "a".to_owned());
        past.profiles.insert(ProfileKey { application, size, hardware, cores: None, nodes: None, cap: None }, profile);
        check(&past, 70, Sources { measured: 1, unsteady: 1, ..Sources::default() });
    }

    #[test]
    fn other_settings_replace_the_recorded_ones() {
        let mut past = past(vec![node("n1", "a")], vec![job(1, Some(1))]);
        let set = Event::PolicySet { preset: Preset::Fifo, options: Options::default(), by: "ada".into() };
        past.changes.insert(0, (at(0), Change::Event(Box::new(set))));
        assert_eq!(Again::new(&past, &Otherwise::default()).changes().len(), 3);
        assert_eq!(Again::new(&past, &easy()).changes().len(), 2);
    }
}
