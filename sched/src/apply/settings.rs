//! Limits, prices, mode, policy and profiles.

use limo_model::{Band, Budgets, Curve, Energy, ModeSetting, Preset, Price, Profile, ProfileKey, Time};

use super::nodes::{settle, settle_nodes};
use crate::mode::follow_setting;
use crate::options::Options;
use crate::refused::Refused;
use crate::state::{Job, Phase, State};

pub(super) fn limits(state: &mut State, now: Time, limits: &Curve<Band>) -> Result<(), Refused> {
    settle(state, now);
    state.settings.limits = state.clock.curve(limits);
    state.settings.own_limits = None;
    Ok(())
}

pub(super) fn grid_limits(state: &mut State, now: Time, limits: &Curve<Band>) -> Result<(), Refused> {
    settle(state, now);
    let limits = state.clock.curve(limits);
    let settings = &mut state.settings;
    let own = std::mem::replace(&mut settings.limits, limits);
    settings.own_limits.get_or_insert(own);
    Ok(())
}

pub(super) fn prices(state: &mut State, now: Time, prices: Option<&Curve<Price>>, by: &str) -> Result<(), Refused> {
    settle(state, now);
    settle_nodes(state, now);
    state.settings.prices = prices.map(|prices| state.clock.curve(prices));
    by.clone_into(&mut state.settings.prices_by);
    state.spending.release_again(state.index.idle, state.settings.prices.as_ref());
    state.index.mode_until = None;
    Ok(())
}

pub(super) fn mode(state: &mut State, mode: ModeSetting) -> Result<(), Refused> {
    state.settings.mode_setting = mode;
    follow_setting(&mut state.settings);
    state.index.mode_until = None;
    Ok(())
}

pub(super) fn policy(state: &mut State, preset: Preset, options: Options) -> Result<(), Refused> {
    if preset != state.settings.preset {
        forget_reasons(state);
    }
    state.settings.preset = preset;
    state.settings.options = options;
    state.index.mode_until = None;
    let mut index = std::mem::take(&mut state.index);
    index.queue_again(state);
    state.index = index;
    Ok(())
}

/// Forgets the reasons that the previous policy gave for the jobs in the queue.
fn forget_reasons(state: &mut State) {
    for id in state.queue.iter() {
        if let Some(Job { phase: phase @ Phase::Waiting(_), .. }) = state.jobs.get_mut(id).map(Box::as_mut) {
            *phase = Phase::Waiting(None);
            state.index.untold.insert(id);
        }
    }
}

pub(super) fn profile(state: &mut State, key: &ProfileKey, profile: Option<Profile>) -> Result<(), Refused> {
    match profile {
        Some(profile) => state.profiles.insert(key.clone(), profile),
        None => state.profiles.remove(key),
    };
    let mut index = std::mem::take(&mut state.index);
    index.estimate_again(state, &key.application);
    state.index = index;
    Ok(())
}

pub(super) fn budgets(state: &mut State, now: Time, budgets: &Budgets) -> Result<(), Refused> {
    settle(state, now);
    state.settings.budgets = state.clock.budgets(budgets);
    state.spending.follow(&state.settings.budgets, now);
    Ok(())
}

/// What was consumed since the last reading of the site's meter, in place of what was estimated.
pub(super) fn metered(state: &mut State, now: Time, energy: Energy) -> Result<(), Refused> {
    settle(state, now);
    state.spending.measured(energy);
    Ok(())
}
