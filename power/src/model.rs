//! What runs on an emulated machine draw, when their work is done and what energy they used, under caps that move and
//! while they are suspended.
//!
//! - A run on a share of a unit's cores draws that share of what the application draws on the whole unit, for the same
//!   time: each core has its own part of the work.
//! - A cap belongs to a unit, and a run may draw its share of it. Where that lowers the draw of a run, its work goes on at
//!   the pace of [`limo_model::pace`] (power-capping-2018, section 5.1.1). Of several shares the slowest counts. Like the
//!   paper, all draws are above idle.
//! - A suspended run draws nothing and does no work.
//! - An application that the file does not know draws its share of the unit's nameplate, and how long it takes is up to it.
//!
//! A run whose work is done draws on until its owner says that it has ended: that is when its process is gone.

mod run;

use std::collections::BTreeMap;

use limo_model::{Energy, Power, Span, Time};

use crate::error::{CapRefused, PlanError};
use crate::machine::Machine;
use crate::noise::Noise;
pub use run::Plan;
use run::{EmulatedRun, Load};

/// A run's share of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the machine's units.
    pub unit: usize,
    /// 1 up to the unit's cores.
    pub cores: u32,
    /// A cap on the whole unit for as long as the run lasts, or until [`Emulated::set_caps`] says otherwise.
    pub cap: Option<Power>,
}

/// The state of one emulated machine. Times that are handed in never go back.
#[derive(Debug, Clone)]
pub struct Emulated {
    machine: Machine,
    noise: Noise,
    /// Of each unit, as [`Emulated::set_caps`] had it last.
    caps: Vec<Option<Power>>,
    /// By their owner's token.
    runs: BTreeMap<u64, EmulatedRun>,
}

impl Emulated {
    /// A machine that is idle and without caps.
    pub fn new(machine: Machine) -> Self {
        let noise = Noise::new(machine.seed);
        let caps = vec![None; machine.units.len()];
        Self { machine, noise, caps, runs: BTreeMap::new() }
    }

    /// What it was made from.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What a run of `application` in the size class `size` would do on `shares`, noise included. Starts nothing.
    ///
    /// # Errors
    /// [`PlanError`] where the machine has no such share.
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
            // Both are drawn for every run, so that an unknown application does not shift the noise of later runs.
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

    /// A run began at `now`. A token that is in use is taken over.
    pub fn start(&mut self, token: u64, plan: Plan, now: Time) {
        self.advance(now);
        self.runs.insert(token, EmulatedRun::new(plan, now));
        self.settle();
    }

    /// A run ended at `now`: the energy above idle that it used. `None` where no such run is known.
    pub fn end(&mut self, token: u64, now: Time) -> Option<Energy> {
        self.advance(now);
        let run = self.runs.remove(&token)?;
        self.settle();
        Some(run.energy())
    }

    /// It is learned at `now` that a run has ended, which lasted for `span`, pauses included: the energy above idle that it
    /// used. `None` where no such run is known.
    pub fn end_after(&mut self, token: u64, span: Span, now: Time) -> Option<Energy> {
        self.advance(now);
        self.runs.get_mut(&token)?.end_after(span);
        self.end(token, now)
    }

    /// From `now` on each unit has the cap of its index, or none; those that runs brought with them end. Returns the units,
    /// by index, that do not hold theirs.
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

    /// The run stands still from `now` on. Nothing where it does already, or is not known.
    pub fn suspend(&mut self, token: u64, now: Time) {
        self.set_suspended(token, true, now);
    }

    /// The run goes on from `now` on. Nothing where it does already, or is not known.
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

    /// The next run whose work will be done, and when, rounded up to a millisecond: `now` where that time has come. Those
    /// that [`Emulated::take_done`] has named are not meant.
    pub fn next_end(&self, now: Time) -> Option<(Time, u64)> {
        let ends = self.runs.iter().filter_map(|(token, run)| Some((run.done_at()?.max(now), *token)));
        ends.min()
    }

    /// The runs whose work is done by `now`, each once.
    pub fn take_done(&mut self, now: Time) -> Vec<u64> {
        self.advance(now);
        self.runs.iter_mut().filter_map(|(token, run)| run.take_done().then_some(*token)).collect()
    }

    /// The draw of the whole machine: idle and every run.
    pub fn draw(&self) -> Power {
        self.machine.spec.idle + self.runs.values().map(EmulatedRun::draw).sum()
    }

    /// What the machine's meter would show at `now`: the draw, off by at most the reading noise. Equal times give
    /// equal noise.
    pub fn reading(&self, now: Time) -> Power {
        // One number of a sequence that starts at this time; nothing is kept, so reading often changes nothing.
        let mut noise = Noise::new(self.machine.seed ^ now.unix_ms().unsigned_abs());
        self.draw().scaled(noise.factor(self.machine.reading_noise), 1_000_000)
    }

    /// Counts what the runs did up to `now`.
    fn advance(&mut self, now: Time) {
        self.runs.values_mut().for_each(|run| run.advance(now));
    }

    /// Gives every run the draw and the pace that it has from here on.
    fn settle(&mut self) {
        let caps: Vec<_> = (0..self.machine.units.len()).map(|unit| self.held(unit)).collect();
        for run in self.runs.values_mut() {
            run.settle(&self.machine, &caps);
        }
    }

    /// The cap that holds a unit now: the lowest of all, brought between those that it obeys; `None` where there is none,
    /// or no such unit.
    pub fn held(&self, unit: usize) -> Option<Power> {
        let (low, high) = self.machine.spec.units.get(unit)?.caps?;
        let brought = self.runs.values().flat_map(|run| run.caps(unit));
        let cap = self.caps.get(unit).copied().flatten().into_iter().chain(brought).min()?;
        Some(cap.max(low).min(high))
    }
}
