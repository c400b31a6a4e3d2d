//! What a job is expected to do on a unit: from its profile, else from the nameplate; and says which.

use limo_model::{Estimate, EstimateSource, Power, Profile, ProfileKey, Request, UnitSpec};

use crate::apply::cores_on;
use crate::state::State;

/// The estimate for `request` on `unit`, uncapped or at `cap`.
pub(crate) fn estimate(state: &State, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Estimate {
    profile(state, request, unit, cap)
        .map_or_else(|| nameplate(state, request, unit), |profile| known(request, profile))
}

/// Caps for which the application has a profile on this hardware, and which the unit obeys, lowest first.
pub(crate) fn known_caps(state: &State, request: &Request, unit: &UnitSpec) -> Vec<Power> {
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
    state
        .profiles
        .range(first.clone()..)
        .map(|(key, _)| key)
        .take_while(|key| same(key))
        .filter_map(|key| key.cap)
        .filter(|cap| (low..=high).contains(cap))
        .collect()
}

/// The profile of the job's size class, else the one without a class.
fn profile<'a>(state: &'a State, request: &Request, unit: &UnitSpec, cap: Option<Power>) -> Option<&'a Profile> {
    if state.profiles.is_empty() {
        return None;
    }
    let key = |size: &str| ProfileKey {
        application: request.application.clone(),
        size: size.to_owned(),
        hardware: unit.hardware.clone(),
        cap,
    };
    state.profiles.get(&key(&request.size)).or_else(|| state.profiles.get(&key("")))
}

/// A time limit ends a run that would take longer.
fn known(request: &Request, profile: &Profile) -> Estimate {
    let duration = request.time_limit.map_or(profile.duration, |limit| limit.min(profile.duration));
    let energy = if duration == profile.duration { profile.energy } else { profile.power * duration };
    Estimate { duration, power: profile.power, energy, source: profile.source, runs: profile.runs }
}

/// The job's share of what the nameplate says, for as long as the job may run.
fn nameplate(state: &State, request: &Request, unit: &UnitSpec) -> Estimate {
    let cores = cores_on(request, unit).min(unit.cores);
    let power = unit.nameplate.scaled(i64::from(cores), i64::from(unit.cores));
    let duration = request.time_limit.unwrap_or(state.settings.options.default_duration);
    Estimate { duration, power, energy: power * duration, source: EstimateSource::Nameplate, runs: 0 }
}
