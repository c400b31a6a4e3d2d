//! What a job is expected to do on a unit: from its profile, else from the nameplate; and says which.

use std::collections::BTreeMap;

use limo_model::{Estimate, EstimateSource, Power, Profile, ProfileKey, Request, Span, UnitSpec};

use crate::apply::cores_on;
use crate::state::State;

/// What estimates are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub profiles: &'a BTreeMap<ProfileKey, Profile>,
    pub default_duration: Span,
    pub cap_factor_permille: u32,
}

impl<'a> Known<'a> {
    pub fn of(state: &'a State) -> Self {
        let options = &state.settings.options;
        Self {
            profiles: &state.profiles,
            default_duration: options.default_duration,
            cap_factor_permille: options.cap_factor_permille,
        }
    }
}

/// The estimate for `request` on `unit`, uncapped or at `cap`.
pub(crate) fn estimate(known: Known<'_>, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Estimate {
    profile(known, request, unit, cap)
        .map_or_else(|| nameplate(known, request, unit), |profile| from_profile(request, profile))
}

/// The estimate at `cap`, whether there is a profile for it or not: without one, a run that draws P uncapped draws its
/// share P' of the cap and takes F P / P' times as long, but never less (power-capping-2018, section 5.1.1, with F from the
/// options). `measured` is what the job is known to draw, in thousandths of what profiles say.
pub(crate) fn under_cap(
    known: Known<'_>,
    request: &Request,
    unit: &UnitSpec,
    (cap, measured): (Option<Power>, i64),
) -> Estimate {
    let corrected = |estimate: Estimate| Estimate { power: estimate.power.scaled(measured, 1_000), ..estimate };
    let free = || corrected(estimate(known, request, unit, None));
    let Some(cap) = cap else { return free() };
    if let Some(profile) = profile(known, request, unit, Some(cap)) {
        return corrected(from_profile(request, profile));
    }
    let free = free();
    let share = cap.scaled(i64::from(cores_on(request, unit)), i64::from(unit.cores));
    if share >= free.power || share <= Power::ZERO {
        return free;
    }
    let factor = i64::from(known.cap_factor_permille);
    let slower = free.duration.scaled(free.power.mw().saturating_mul(factor), share.mw().saturating_mul(1_000));
    let duration = free.duration.max(slower);
    Estimate { duration, power: share, energy: share * duration, ..free }
}

/// What there is to know of an application on a type of hardware: looked up once for many jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    /// Without a cap.
    free: Option<Profile>,
    /// Caps of which there is a profile, lowest first. The profile may be of another size class than the caps.
    caps: Vec<(Power, Option<Profile>)>,
}

impl Looked {
    pub fn up(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Self {
        let at = |cap| profile(known, request, unit, cap).copied();
        Self {
            free: at(None),
            caps: known_caps(known, request, unit).into_iter().map(|cap| (cap, at(Some(cap)))).collect(),
        }
    }

    /// The caps that the unit obeys.
    pub fn caps(&self) -> impl Iterator<Item = Power> {
        self.caps.iter().map(|(cap, _)| *cap)
    }

    /// The same as [`under_cap`], for a job of which nothing was measured.
    pub fn under_cap(&self, known: Known<'_>, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Estimate {
        let found = match cap {
            None => self.free,
            Some(cap) => self.caps.iter().find(|(of, _)| *of == cap).and_then(|(_, profile)| *profile),
        };
        match (cap, found) {
            (_, Some(profile)) => from_profile(request, &profile),
            (None, None) => nameplate(known, request, unit),
            (Some(_), None) => under_cap(known, request, unit, (cap, 1_000)),
        }
    }
}

/// Caps for which the application has a profile on this hardware, and which the unit obeys, lowest first.
pub(crate) fn known_caps(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Vec<Power> {
    let Some((low, high)) = unit.caps else { return Vec::new() };
    let first = ProfileKey {
        application: request.application.clone(),
        size: request.size.clone(),
        hardware: unit.hardware.clone(),
        cap: None,
    };
    let same = |key: &ProfileKey| {
        (key.application == first.application) && key.size == first.size && key.hardware == first.hardware
    };
    known
        .profiles
        .range(first.clone()..)
        .map(|(key, _)| key)
        .take_while(|key| same(key))
        .filter_map(|key| key.cap)
        .filter(|cap| (low..=high).contains(cap))
        .collect()
}

/// The profile of the job's size class, else the one without a class.
fn profile<'a>(known: Known<'a>, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Option<&'a Profile> {
    if known.profiles.is_empty() {
        return None;
    }
    let key = |size: &str| ProfileKey {
        application: request.application.clone(),
        size: size.to_owned(),
        hardware: unit.hardware.clone(),
        cap,
    };
    known.profiles.get(&key(&request.size)).or_else(|| known.profiles.get(&key("")))
}

/// A time limit ends a run that would take longer.
fn from_profile(request: &Request, profile: &Profile) -> Estimate {
    let duration = request.time_limit.map_or(profile.duration, |limit| limit.min(profile.duration));
    let energy = if duration == profile.duration { profile.energy } else { profile.power * duration };
    Estimate { duration, power: profile.power, energy, source: profile.source, runs: profile.runs }
}

/// The job's share of what the nameplate says, for as long as the job may run.
fn nameplate(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Estimate {
    let cores = cores_on(request, unit).min(unit.cores);
    let power = unit.nameplate.scaled(i64::from(cores), i64::from(unit.cores));
    let duration = request.time_limit.unwrap_or(known.default_duration);
    Estimate { duration, power, energy: power * duration, source: EstimateSource::Nameplate, runs: 0 }
}
