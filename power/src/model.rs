//! What runs on an emulated machine draw, how long they take and what energy they used.
//!
//! - A run on a share of a unit's cores draws that share of what the application draws on the whole unit, for the same
//!   time: each core has its own part of the work.
//! - A cap holds the unit, so a run may draw its share of the cap. Where that lowers its draw from P to P' = M P, its
//!   duration D becomes D' = max(D, F D / M) (power-capping-2018, section 5.1.1). The paper's D' = F D / M would make a
//!   run shorter than without a cap wherever M is above F; no cap speeds a job up, so D is the least here. Like the
//!   paper, P is the draw above idle.
//! - An application that the file does not know draws its share of the unit's nameplate, and how long it takes is up to it.

use std::collections::BTreeMap;

use limo_model::{Energy, Power, Span, Time};

use crate::error::PlanError;
use crate::machine::Machine;
use crate::noise::Noise;

/// A run's share of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index into the machine's units.
    pub unit: usize,
    /// 1 up to the unit's cores.
    pub cores: u32,
    /// The cap on the whole unit, held to what the unit obeys; no effect on a unit that cannot be capped.
    pub cap: Option<Power>,
}

/// What one run will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Of the slowest of its shares; `None` for an application that the file does not know.
    pub duration: Option<Span>,
    /// Draw above idle, of all its shares.
    pub power: Power,
}

/// The state of one emulated machine.
#[derive(Debug, Clone)]
pub struct Emulated {
    machine: Machine,
    noise: Noise,
    /// Power and start of each run, by its owner's token.
    runs: BTreeMap<u64, (Power, Time)>,
}

impl Emulated {
    pub fn new(machine: Machine) -> Self {
        let noise = Noise::new(machine.seed);
        Self { machine, noise, runs: BTreeMap::new() }
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What a run of `application` in the size class `size` would do on `shares`, noise included. Starts nothing.
    ///
    /// # Errors
    /// [`PlanError`] where the machine has no such share.
    pub fn plan(&mut self, application: &str, size: &str, shares: &[Share]) -> Result<Plan, PlanError> {
        let mut plan = Plan { duration: None, power: Power::ZERO };
        for share in shares {
            let one = self.plan_share(application, size, share)?;
            plan.duration = plan.duration.max(one.duration);
            plan.power += one.power;
        }
        Ok(plan)
    }

    fn plan_share(&mut self, application: &str, size: &str, share: &Share) -> Result<Plan, PlanError> {
        let units = self.machine.units.len();
        let missing = PlanError::Unit { unit: share.unit, units };
        let (spec, unit) =
            self.machine.spec.units.get(share.unit).zip(self.machine.units.get(share.unit)).ok_or(missing)?;
        if share.cores == 0 || share.cores > spec.cores {
            return Err(PlanError::Cores { unit: share.unit, cores: share.cores, has: spec.cores });
        }
        let known = unit.application(application, size);
        let part = |whole: Power| whole.scaled(share.cores.into(), spec.cores.into());
        // Both are drawn for every run, so that a cap or an unknown application does not shift the noise of later runs.
        let (power_factor, duration_factor) =
            (self.noise.factor(unit.power_noise), self.noise.factor(unit.duration_noise));
        let power = part(known.map_or(spec.nameplate, |application| application.power)).scaled(power_factor, 1_000_000);
        let duration = known.map(|application| application.duration.scaled(duration_factor, 1_000_000));
        let cap = share.cap.zip(spec.caps).map(|(cap, (low, high))| part(cap.max(low).min(high)));
        Ok(match cap {
            Some(cap) if cap < power => {
                let factor = i64::from(unit.cap_factor_permille);
                let longer = |duration: Span| {
                    duration.max(duration.scaled(power.mw().saturating_mul(factor), cap.mw().saturating_mul(1000)))
                };
                Plan { duration: duration.map(longer), power: cap }
            }
            _ => Plan { duration, power },
        })
    }

    /// A run began at `now`, drawing `power`. A token that is in use is taken over.
    pub fn start(&mut self, token: u64, power: Power, now: Time) {
        self.runs.insert(token, (power, now));
    }

    /// A run ended at `now`: the energy above idle that it used. `None` where no such run is known.
    pub fn end(&mut self, token: u64, now: Time) -> Option<Energy> {
        let (power, since) = self.runs.remove(&token)?;
        Some(power * (now - since).max(Span::ZERO))
    }

    /// The draw of the whole machine: idle and every run.
    pub fn draw(&self) -> Power {
        self.machine.spec.idle + self.runs.values().map(|(power, _)| *power).sum()
    }

    /// What the machine's meter would show at `now`: the draw, off by at most the reading noise. Equal times give
    /// equal noise.
    pub fn reading(&self, now: Time) -> Power {
        // One number of a sequence that starts at this time; nothing is kept, so reading often changes nothing.
        let mut noise = Noise::new(self.machine.seed ^ now.unix_ms().unsigned_abs());
        self.draw().scaled(noise.factor(self.machine.reading_noise), 1_000_000)
    }
}
