//! Limits, prices, mode, policy, profiles and the variation of units.

use std::sync::OnceLock;

use limo_model::{
    Band, Budgets, Curve, Energy, Factor, ModeSetting, Parts, Preset, Price, Profile, ProfileKey, Slowdown,
    SlowdownKey, Time, VariationKey,
};

use super::margins;
use super::nodes::{judge_caps, settle, settle_nodes};
use crate::cluster::Cluster;
use crate::mode::follow_setting;
use crate::options::Options;
use crate::refused::Refused;
use crate::state::{Arrivals, Job, Phase, State};

/// Most laws of slowdown that operators can set.
const SLOWDOWNS_LIMIT: usize = 10_000;

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

pub(super) fn policy(cluster: &mut Cluster, now: Time, (preset, options): (Preset, Options)) -> Result<(), Refused> {
    let parts = options.parts_of(preset);
    if let Some(why) = parts.senseless() {
        return Err(Refused::Senseless { why });
    }
    if preset != cluster.state.settings.preset {
        forget_reasons(cluster);
    }
    let settings = &mut cluster.state.settings;
    (settings.preset, settings.options) = (preset, options);
    if !settings.is_by_arrivals() {
        settings.arrivals = Arrivals::default();
    }
    take_parts(cluster);
    margins::apply_rule(cluster, now);
    if !cluster.state.counts_begins() {
        cluster.state.session_begins.clear();
    }
    cluster.index.rank_again(&cluster.state);
    Ok(())
}

/// Counts the arrival of a job, which may change the order `by-arrivals`.
pub(super) fn arrived(cluster: &mut Cluster, now: Time) {
    let settings = &mut cluster.state.settings;
    if settings.is_by_arrivals() && settings.arrivals.count(now, settings.options.lists.rare_gap) {
        take_parts(cluster);
    }
}

/// Goes on with the parts that the settings give.
fn take_parts(cluster: &mut Cluster) {
    let (before, parts) = (cluster.parts, cluster.state.settings.parts());
    // No reason depends on the rule for idle nodes.
    if (Parts { idle: before.idle, ..parts }) != before {
        forget_reasons(cluster);
    }
    cluster.parts = parts;
    let failing = cluster.state.nodes.iter().filter(|node| !node.caps.failed.is_empty()).map(|node| node.id);
    let (failing, now) = (failing.collect::<Vec<_>>(), cluster.state.sums.since);
    failing.into_iter().for_each(|id| judge_caps(cluster, now, id));
    cluster.books.count_ends(&cluster.state);
    cluster.index.mode_until = None;
    cluster.index.queue_again(&cluster.state);
    cluster.index.rest_again(&cluster.state, now);
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

/// Records factors of units; refuses all of them if one is not valid.
pub(super) fn variation(cluster: &mut Cluster, factors: &[(VariationKey, Option<Factor>)]) -> Result<(), Refused> {
    for (key, factor) in factors {
        if cluster.state.unit(key.unit).is_none() {
            return Err(Refused::NoSuchUnit { unit: key.unit });
        }
        if let Some(factor) = factor.filter(|factor| !factor.is_valid()) {
            return Err(Refused::Factor { power: factor.power, duration: factor.duration });
        }
    }
    for (key, factor) in factors {
        cluster.state.variation.set(key, *factor);
    }
    cluster.index.ranks = OnceLock::new();
    Ok(())
}

/// Sets or removes a law of slowdown. Most estimates at caps may change, so the queue is considered anew.
pub(super) fn slowdown(cluster: &mut Cluster, key: &SlowdownKey, law: Option<Slowdown>) -> Result<(), Refused> {
    let law = check_slowdown(&cluster.state, key, law)?;
    match law {
        Some(law) => cluster.state.slowdowns.insert(key.clone(), law),
        None => cluster.state.slowdowns.remove(key),
    };
    cluster.index.queue_again(&cluster.state);
    Ok(())
}

/// Checks the value of a law, and that there are not too many laws.
fn check_slowdown(state: &State, key: &SlowdownKey, law: Option<Slowdown>) -> Result<Option<Slowdown>, Refused> {
    let is_new = law.is_some() && !state.slowdowns.contains_key(key);
    if is_new && state.slowdowns.len() >= SLOWDOWNS_LIMIT {
        return Err(Refused::TooManySlowdowns { key: key.to_string(), limit: SLOWDOWNS_LIMIT });
    }
    law.map(Slowdown::checked).transpose().map_err(|why| Refused::Slowdown { key: key.to_string(), why })
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

#[cfg(test)]
mod tests {
    use limo_model::{Preset, Slowdown, SlowdownKey, Time};

    use super::SLOWDOWNS_LIMIT;
    use crate::{Core, Event, Options, Refused};

    const NOW: Time = Time::from_unix_ms(0);

    fn set(core: &mut Core, application: &str, law: Option<Slowdown>) -> Result<(), Refused> {
        core.apply(NOW, &Event::SlowdownSet { key: SlowdownKey::of(application, ""), law, by: "root".into() })
    }

    #[test]
    fn laws_of_slowdown_are_checked_and_bounded() {
        let mut core = Core::new(NOW, Preset::Limo, Options::default());
        let refused = set(&mut core, "cg", Some(Slowdown::Factor(1_001))).expect_err("out of range");
        let expected = "the slowdown of cg on any hardware is not possible: F=1.001: F must be 0 to 1";
        assert_eq!(refused.to_string(), expected);
        for number in 0..SLOWDOWNS_LIMIT {
            set(&mut core, &number.to_string(), Some(Slowdown::Cpi(2_000))).expect("room");
        }
        let refused = set(&mut core, "cg", Some(Slowdown::Cpi(2_000))).expect_err("no room");
        let expected = "the slowdown of cg on any hardware cannot be set: the limit is 10000 laws";
        assert_eq!(refused.to_string(), expected);
        set(&mut core, "7", Some(Slowdown::Factor(500))).expect("it replaces another");
        set(&mut core, "8", None).expect("it is removed");
        set(&mut core, "cg", Some(Slowdown::Cpi(2_000))).expect("room");
        assert_eq!(core.slowdowns().get(&SlowdownKey::of("7", "")), Some(&Slowdown::Factor(500)));
        let text = serde_json::to_string(core.state()).expect("a snapshot");
        assert_eq!(serde_json::from_str::<crate::State>(&text).as_ref().ok(), Some(core.state()));
    }
}
