//! Limits, prices, mode, policy and profiles.

use limo_model::{Band, Budgets, Curve, Energy, ModeSetting, Parts, Preset, Price, Profile, ProfileKey, Time};

use super::nodes::{settle, settle_nodes};
use crate::cluster::Cluster;
use crate::mode::follow_setting;
use crate::options::Options;
use crate::refused::Refused;
use crate::state::{Job, Phase};

pub(super) fn limits(cluster: &mut Cluster, now: Time, limits: &Curve<Band>) -> Result<(), Refused> {
    settle(cluster, now);
    cluster.state.settings.limits = cluster.state.clock.curve(limits);
    cluster.state.settings.own_limits = None;
    Ok(())
}

pub(super) fn grid_limits(cluster: &mut Cluster, now: Time, limits: &Curve<Band>) -> Result<(), Refused> {
    settle(cluster, now);
    let limits = cluster.state.clock.curve(limits);
    let settings = &mut cluster.state.settings;
    let own = std::mem::replace(&mut settings.limits, limits);
    settings.own_limits.get_or_insert(own);
    Ok(())
}

pub(super) fn prices(cluster: &mut Cluster, now: Time, prices: Option<&Curve<Price>>, by: &str) -> Result<(), Refused> {
    settle(cluster, now);
    settle_nodes(&mut cluster.state, now);
    cluster.state.settings.prices = prices.map(|prices| cluster.state.clock.curve(prices));
    by.clone_into(&mut cluster.state.settings.prices_by);
    cluster.state.spending.release_again(cluster.index.idle, cluster.state.settings.prices.as_ref());
    cluster.index.mode_until = None;
    Ok(())
}

pub(super) fn mode(cluster: &mut Cluster, mode: ModeSetting) -> Result<(), Refused> {
    cluster.state.settings.mode_setting = mode;
    follow_setting(&mut cluster.state.settings);
    cluster.index.mode_until = None;
    Ok(())
}

pub(super) fn policy(cluster: &mut Cluster, preset: Preset, options: Options) -> Result<(), Refused> {
    let parts = options.parts_of(preset);
    if let Some(why) = parts.senseless() {
        return Err(Refused::Senseless { why });
    }
    let before = cluster.parts;
    // No reason depends on the rule for idle nodes.
    if preset != cluster.state.settings.preset || (Parts { idle: before.idle, ..parts }) != before {
        forget_reasons(cluster);
    }
    cluster.state.settings.preset = preset;
    cluster.state.settings.options = options;
    cluster.parts = parts;
    cluster.books.count_ends(&cluster.state);
    cluster.index.mode_until = None;
    cluster.index.queue_again(&cluster.state);
    Ok(())
}

/// Forgets the reasons that the previous policy gave for the jobs in the queue.
fn forget_reasons(cluster: &mut Cluster) {
    for id in cluster.state.queue.iter() {
        if let Some(Job { phase: phase @ Phase::Waiting(_), .. }) = cluster.state.jobs.get_mut(id).map(Box::as_mut) {
            *phase = Phase::Waiting(None);
            cluster.index.untold.insert(id);
        }
    }
}

pub(super) fn profile(cluster: &mut Cluster, key: &ProfileKey, profile: Option<Profile>) -> Result<(), Refused> {
    match profile {
        Some(profile) => cluster.state.profiles.insert(key.clone(), profile),
        None => cluster.state.profiles.remove(key),
    };
    cluster.index.estimate_again(&cluster.state, &key.application);
    Ok(())
}

pub(super) fn budgets(cluster: &mut Cluster, now: Time, budgets: &Budgets) -> Result<(), Refused> {
    settle(cluster, now);
    cluster.state.settings.budgets = cluster.state.clock.budgets(budgets);
    cluster.state.spending.follow(&cluster.state.settings.budgets, now);
    Ok(())
}

/// Records the consumption since the last reading of the site's meter, instead of the estimate.
pub(super) fn metered(cluster: &mut Cluster, now: Time, energy: Energy) -> Result<(), Refused> {
    settle(cluster, now);
    cluster.state.spending.measured(energy);
    Ok(())
}
