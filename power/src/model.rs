//! Model of an emulated machine: the draw of its runs, their ends and their energy, under changing caps and suspension.
//!
//! - A run on a share of a unit's cores draws that share of the application's draw on the whole unit, for the same
//!   time: each core has its own part of the work.
//! - A cap belongs to a unit, and a run may draw its share of it. If that lowers the draw of a run, its work continues
//!   at the pace of [`limo_model::pace`] (power-capping-2018, section 5.1.1). The slowest of several shares counts. As
//!   in the paper, all draws are above idle.
//! - A suspended run draws nothing and does no work.
//! - An application that is not in the file draws its share of the unit's nameplate, and decides itself how long it
//!   takes.
//!
//! A run draws power after its work is done until its owner reports its end, when its process has ended.

mod run;

use std::collections::BTreeMap;

use limo_model::{Energy, Power, Span, Time};

use crate::error::{CapRefused, PlanError};
use crate::machine::Machine;
use crate::noise::Noise;
pub use run::Plan;
use run::{EmulatedRun, Load};

/// Share of a run in one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the machine's units.
    pub unit: usize,
    /// 1 up to the unit's cores.
    pub cores: u32,
    /// Cap on the whole unit while the run lasts, or until [`Emulated::set_caps`] is called.
    pub cap: Option<Power>,
}

/// State of one emulated machine. Times must not go back.
#[derive(Debug, Clone)]
pub struct Emulated {
    machine: Machine,
    noise: Noise,
    /// Caps of the units, set by [`Emulated::set_caps`].
    caps: Vec<Option<Power>>,
    /// Runs by their owner's token.
    runs: BTreeMap<u64, EmulatedRun>,
}

impl Emulated {
    /// Makes an idle machine without caps.
    pub fn new(machine: Machine) -> Self {
        let noise = Noise::new(machine.seed);
        let caps = vec![None; machine.units.len()];
        Self { machine, noise, caps, runs: BTreeMap::new() }
    }

    /// Returns the machine's description.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Plans a run of `application` in the size class `size` on `shares`, noise included. Starts nothing.
    ///
    /// # Errors
    /// [`PlanError`] if the machine has no such share.
    pub fn plan(&mut self, application: &str, size: &str, shares: &[Share]) -> Result<Plan, PlanError> {
        let mut plan = Plan { work: None, loads: Vec::with_capacity(shares.len()) };
        for share in shares {
            let units = self.machine.units.len();
            let missing = PlanError::Unit { unit: share.unit, units };
            let (spec, unit) =
                self.machine.spec.units.get(share.unit).zip(self.machine.units.get(share.unit)).ok_or(missing)?;
            if share.cores == 0 || share.cores > spec.cores {
                return Err(PlanError::Cores { unit: share.unit, cores: share.cores, has: spec.cores });
            }
            let known = unit.application(application, size);
            // Both factors are drawn for every run, so that an unknown application does not shift the noise of later
            // runs.
            let (power_factor, duration_factor) =
                (self.noise.factor(unit.power_noise), self.noise.factor(unit.duration_noise));
            let whole = known.map_or(spec.nameplate, |application| application.power);
            let power = whole.scaled(share.cores.into(), spec.cores.into()).scaled(power_factor, 1_000_000);
            let work = known.map(|application| application.duration.scaled(duration_factor, 1_000_000));
            plan.work = plan.work.max(work);
            plan.loads.push(Load { share: *share, power });
        }
        Ok(plan)
    }

    /// Starts a run at `now`. A token in use is replaced.
    pub fn start(&mut self, token: u64, plan: Plan, now: Time) {
        self.advance(now);
        self.runs.insert(token, EmulatedRun::new(plan, now));
        self.settle();
    }

    /// Ends a run at `now`; returns its energy above idle. `None` for an unknown run.
    pub fn end(&mut self, token: u64, now: Time) -> Option<Energy> {
        self.advance(now);
        let run = self.runs.remove(&token)?;
        self.settle();
        Some(run.energy())
    }

    /// Ends a run that lasted for `span`, pauses included, as reported at `now`. Returns its energy above idle; `None`
    /// for an unknown run.
    pub fn end_after(&mut self, token: u64, span: Span, now: Time) -> Option<Energy> {
        self.advance(now);
        self.runs.get_mut(&token)?.end_after(span);
        self.end(token, now)
    }

    /// Sets the caps of the units by index, from `now` on; replaces the caps of runs. Returns the units that do not
    /// hold their cap.
    pub fn set_caps(&mut self, caps: &[Option<Power>], now: Time) -> Vec<(usize, CapRefused)> {
        self.advance(now);
        for (unit, held) in self.caps.iter_mut().enumerate() {
            *held = caps.get(unit).copied().flatten();
        }
        self.runs.values_mut().for_each(EmulatedRun::drop_caps);
        self.settle();
        let asked = caps.iter().enumerate().filter_map(|(unit, cap)| cap.map(|cap| (unit, cap)));
        asked.filter_map(|(unit, cap)| self.refusal(unit, cap).map(|refusal| (unit, refusal))).collect()
    }

    fn refusal(&self, unit: usize, cap: Power) -> Option<CapRefused> {
        let Some(spec) = self.machine.spec.units.get(unit) else {
            return Some(CapRefused::Unit { unit, units: self.machine.units.len() });
        };
        match spec.caps {
            None => Some(CapRefused::Never { unit: spec.name.clone(), cap }),
            Some((low, _)) if cap < low => Some(CapRefused::Low { unit: spec.name.clone(), cap, low }),
            Some(_) => None,
        }
    }

    /// Suspends a run at `now`. Ignores suspended and unknown runs.
    pub fn suspend(&mut self, token: u64, now: Time) {
        self.set_suspended(token, true, now);
    }

    /// Resumes a run at `now`. Ignores running and unknown runs.
    pub fn resume(&mut self, token: u64, now: Time) {
        self.set_suspended(token, false, now);
    }

    fn set_suspended(&mut self, token: u64, suspended: bool, now: Time) {
        self.advance(now);
        if let Some(run) = self.runs.get_mut(&token) {
            run.set_suspended(suspended);
        }
        self.settle();
    }

    /// Returns the next run whose work will be done, and its time, rounded up to a millisecond; `now` if it is done
    /// already. Omits runs that [`Emulated::take_done`] has returned.
    pub fn next_end(&self, now: Time) -> Option<(Time, u64)> {
        let ends = self.runs.iter().filter_map(|(token, run)| Some((run.done_at()?.max(now), *token)));
        ends.min()
    }

    /// Returns the runs whose work is done by `now`, each once.
    pub fn take_done(&mut self, now: Time) -> Vec<u64> {
        self.advance(now);
        self.runs.iter_mut().filter_map(|(token, run)| run.take_done().then_some(*token)).collect()
    }

    /// Returns the draw of the whole machine: idle and every run.
    pub fn draw(&self) -> Power {
        self.machine.spec.idle + self.runs.values().map(EmulatedRun::draw).sum()
    }

    /// Returns the reading of the machine's meter at `now`: the draw, off by at most the reading noise. Equal times
    /// give equal noise.
    pub fn reading(&self, now: Time) -> Power {
        // Each time has its own number in the sequence, so that frequent readings change nothing.
        let mut noise = Noise::new(self.machine.seed ^ now.unix_ms().unsigned_abs());
        self.draw().scaled(noise.factor(self.machine.reading_noise), 1_000_000)
    }

    /// Counts the work and energy of the runs up to `now`.
    fn advance(&mut self, now: Time) {
        self.runs.values_mut().for_each(|run| run.advance(now));
    }

    /// Sets the draw and the pace of every run.
    fn settle(&mut self) {
        let caps: Vec<_> = (0..self.machine.units.len()).map(|unit| self.held(unit)).collect();
        for run in self.runs.values_mut() {
            run.settle(&self.machine, &caps);
        }
    }

    /// Returns the effective cap of a unit: the lowest of all, clamped to its range; `None` if there is none, or no
    /// such unit.
    pub fn held(&self, unit: usize) -> Option<Power> {
        let (low, high) = self.machine.spec.units.get(unit)?.caps?;
        let brought = self.runs.values().flat_map(|run| run.caps(unit));
        let cap = self.caps.get(unit).copied().flatten().into_iter().chain(brought).min()?;
        Some(cap.max(low).min(high))
    }
}
