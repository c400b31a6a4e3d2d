//! A cluster's history as a load: the same jobs of the same users at the same times on the same nodes, under the
//! original settings or others.
//!
//! On the same hardware at the same cap, a run keeps its time and draw. On another unit, the ratio of the two profiles
//! scales both, if both are known. If a job never ran, or did not end by itself, its time comes from its profile or
//! time limit, else from the mean of the application's other runs. It is at least the original time. The time of a
//! suspended run is that without its suspensions, and of a requeued job that of its last attempt with the work that
//! checkpoints kept of earlier ones. If the caps of a run moved, its time comes from its profile, else from its time on
//! the unit, which is too long. Both kinds are counted. Owners come and leave at their times, and evict jobs by the
//! rules of their groups; jobs with checkpoints then go on from the last one. Cancellations, holds, releases and
//! requeues keep their times. Failed jobs fail.

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

    /// The recorded time of a run includes that of its checkpoints.
    fn checkpoint_cost(&self) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn changes(&self) -> &[(Time, Change)] {
        &self.changes
    }
}

#[cfg(test)]
mod tests;
