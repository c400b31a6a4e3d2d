//! Changes that an event makes to the cluster: in words for the history and, if the change can be undone, as values.
//! Only this module has them for each kind of event. Makes no decision and writes nothing.

mod jobs;
mod overrides;
mod users;
mod words;

use std::collections::BTreeSet;
use std::fmt::Display;

use limo_model::{
    Band, Budgets, Curve, Fairshare, JobId, JobShare, ModeSetting, Overrides, Power, Preset, Price, Quotas,
    Reservation, Slowdown, SlowdownKey, Span, Time,
};
use limo_sched::{Core, Drained, Event, Options};
use serde::{Deserialize, Serialize};

use jobs::of_others;
use words::{band, budgets, curve, policy, price, reserved};

/// The author of changes that no operator made. They cannot be undone, because the configuration would make them again.
pub const CONFIGURATION: &str = "configuration";
pub const FEEDS: &str = "price feed";
pub const GRID: &str = "grid";
pub const LEARNING: &str = "learning";
pub const DATABASE: &str = "profile database";
pub const LOST: &str = "lmaster";

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Subject; changes with the same subject form a sequence.
    pub subject: String,
    /// Old value in words; empty if there was none.
    pub old: String,
    pub new: String,
    /// Values to restore; `None` if the change cannot be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Back>,
}

/// The values before and after a change that can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Back {
    Limits {
        old: Curve<Band>,
        new: Curve<Band>,
    },
    Mode {
        old: ModeSetting,
        new: ModeSetting,
    },
    Policy {
        old: Preset,
        new: Preset,
        /// The parts chosen with the presets.
        #[serde(default, skip_serializing_if = "Overrides::is_empty")]
        old_parts: Overrides,
        #[serde(default, skip_serializing_if = "Overrides::is_empty")]
        new_parts: Overrides,
    },
    Prices {
        old: Option<Curve<Price>>,
        old_by: String,
        new: Option<Curve<Price>>,
    },
    Budgets {
        old: Budgets,
        new: Budgets,
    },
    /// The reason of the drain; `None` if the node takes jobs.
    Node {
        name: String,
        old: Option<Drained>,
        new: Option<Drained>,
    },
    /// A job of another user that was held, or released.
    Held {
        job: JobId,
        held: bool,
    },
    Reservation {
        name: String,
        old: Option<Reservation>,
        new: Option<Reservation>,
    },
    Quotas {
        old: Quotas,
        new: Quotas,
    },
    Fairshare {
        old: Fairshare,
        new: Fairshare,
    },
    Explore {
        old: JobShare,
        new: JobShare,
    },
    Slowdown {
        key: SlowdownKey,
        old: Option<Slowdown>,
        new: Option<Slowdown>,
    },
    Denied {
        old: BTreeSet<String>,
        new: BTreeSet<String>,
    },
    /// A job of another user.
    Priority {
        job: JobId,
        old: i32,
        new: i32,
    },
    /// The time limit of a job of another user; `None` for no limit.
    TimeLimit {
        job: JobId,
        old: Option<Span>,
        new: Option<Span>,
    },
    /// The state of a queue by an operator: true if it is down. `None` for the state of the configuration.
    Queue {
        name: String,
        old: Option<bool>,
        new: Option<bool>,
    },
    /// The limit of a group by an operator; `None` for that of the configuration.
    GroupLimit {
        name: String,
        old: Option<Power>,
        new: Option<Power>,
    },
}

/// Returns the author of an event and its change at `now`; `None` if it is not an operator's change. Must be called
/// before the event is applied. `now` and all times are wall times. `actor` is the operator behind an event with
/// another author.
pub fn of(core: &Core, now: Time, event: &Event, actor: Option<&str>) -> Option<(String, Changed)> {
    let (settings, clock) = (core.settings(), core.clock());
    let (by, changed) = match event {
        Event::LimitsSet { limits, by } => {
            let old = clock.shown_curve(settings.operator_limits());
            let words = (curve(&old, now, band), curve(limits, now, band));
            (by, changed("limits", words, Some(Back::Limits { old, new: limits.clone() })))
        }
        Event::GridLimited { limits } => {
            let words = (curve(&clock.shown_curve(&settings.limits), now, band), curve(limits, now, band));
            return Some((GRID.to_owned(), changed("limits in force", words, None)));
        }
        Event::ModeSet { mode, by } => {
            let old = settings.mode_setting;
            (by, changed("mode", (old, mode), Some(Back::Mode { old, new: *mode })))
        }
        Event::PolicySet { preset, by, .. } if settings.preset == *preset && by == CONFIGURATION => {
            (by, changed("options of the policy", ("", "as configured"), None))
        }
        Event::PolicySet { preset, options, by } => {
            let (old, new) = (settings.preset, *preset);
            let (old_parts, new_parts) = (settings.options.chosen, options.chosen);
            let words = (policy(old, old_parts), policy(new, new_parts));
            (by, changed("policy", words, Some(Back::Policy { old, new, old_parts, new_parts })))
        }
        Event::PricesSet { prices, by } => {
            let show = |prices: Option<&Curve<Price>>| prices.map_or("none".into(), |prices| curve(prices, now, price));
            let old = settings.prices.as_ref().map(|prices| clock.shown_curve(prices));
            let words = (show(old.as_ref()), show(prices.as_ref()));
            let old_by = settings.prices_by.clone();
            (by, changed("prices", words, Some(Back::Prices { old, old_by, new: prices.clone() })))
        }
        Event::BudgetsSet { budgets: new, by } => {
            let old = clock.shown_budgets(&settings.budgets);
            let words = (budgets(&old, now), budgets(new, now));
            (by, changed("budgets", words, Some(Back::Budgets { old, new: new.clone() })))
        }
        Event::NodeDrained { node, reason, by } => {
            let new = Drained { reason: reason.clone(), by: by.clone() };
            (by, service(core, *node, Some(new))?)
        }
        Event::NodeResumed { node, by } => (by, service(core, *node, None)?),
        Event::NodeAdded { spec, by } => (by, changed(&format!("node {}", spec.name), ("", "added"), None)),
        Event::NodeRemoved { node, by } => {
            let name = &core.node(*node)?.spec().name;
            (by, changed(&format!("node {name}"), ("", "removed"), None))
        }
        Event::NodeLost { node, by } if by != LOST => {
            let name = &core.node(*node)?.spec().name;
            (by, changed(&format!("node {name}"), ("", "declared dead"), None))
        }
        Event::ProfileSet { key, profile, by } if by != LEARNING && by != DATABASE => {
            let has = |is: bool| if is { "known" } else { "none" };
            let words = (has(core.profiles().contains_key(key)), if profile.is_some() { "set" } else { "forgotten" });
            (by, changed(&format!("profile {key}"), words, None))
        }
        Event::VariationSet { factors, by } if by != LEARNING => {
            (by, changed("factors of units", ("", format!("{} changed", factors.len())), None))
        }
        Event::CancelRequested { job, by } => (by, of_others(core, *job, by, ("", "cancelled"), None)?),
        Event::RequeueRequested { job, by } => (by, of_others(core, *job, by, ("", "requeued"), None)?),
        Event::SuspendRequested { job, by } => (by, of_others(core, *job, by, ("running", "suspended"), None)?),
        Event::ResumeRequested { job, by } => (by, of_others(core, *job, by, ("suspended", "resumed"), None)?),
        Event::Held { job, by } => {
            let back = Back::Held { job: *job, held: true };
            (by, of_others(core, *job, by, ("not held", "held"), Some(back))?)
        }
        Event::Released { job, by } => {
            let back = Back::Held { job: *job, held: false };
            (by, of_others(core, *job, by, ("held", "released"), Some(back))?)
        }
        Event::ReservationSet { name, reservation, by } => {
            let old = core.reservations().get(name).map(|of| clock.shown_reservation(of));
            let new = reservation.as_deref().cloned();
            let words = (reserved(old.as_ref()), reserved(new.as_ref()));
            let back = Back::Reservation { name: name.clone(), old, new };
            (by, changed(&format!("reservation {name}"), words, Some(back)))
        }
        Event::QuotasSet { quotas, by } => {
            let (old, new) = (settings.quotas.clone(), quotas.clone());
            (by, changed("quotas", users::quotas(&old, &new), Some(Back::Quotas { old, new })))
        }
        Event::FairshareSet { fairshare, by } => {
            let (old, new) = (settings.fairshare.clone(), fairshare.clone());
            (by, changed("fairshare", users::fairshare(&old, &new), Some(Back::Fairshare { old, new })))
        }
        Event::ExploreSet { share, by } => {
            let (old, new) = (settings.explore, *share);
            (by, changed("explore", (old, new), Some(Back::Explore { old, new })))
        }
        Event::SlowdownSet { key, law, by } => {
            let (old, new) = (core.slowdowns().get(key).copied(), *law);
            let shown = |law: Option<Slowdown>| law.map_or_else(|| "none".to_owned(), |law| law.to_string());
            let back = Back::Slowdown { key: key.clone(), old, new };
            (by, changed(&format!("slowdown of {key}"), (shown(old), shown(new)), Some(back)))
        }
        Event::UsersDenied { denied, by } => {
            let (old, new) = (settings.denied.clone(), denied.clone());
            (by, changed("denied users", users::denied(&old, &new), Some(Back::Denied { old, new })))
        }
        Event::PrioritySet { job, priority, by } => (by, jobs::priority(core, *job, *priority, by)?),
        Event::TimeLimitSet { job, limit, by } => (by, jobs::time_limit(core, *job, *limit, by)?),
        Event::GroupsSet { groups, by } => (by, overrides::groups(&settings.groups, groups, by)?),
        Event::LicencesSet { licences, by } => {
            (by, changed("licences", users::licences(&settings.licences, licences), None))
        }
        Event::AccountsSet { accounts, by } => {
            (by, changed("accounts", users::accounts(&settings.accounts, accounts), None))
        }
        Event::QosSet { qos, by } => (by, changed("QOS", users::qos(&settings.qos, qos), None)),
        Event::QueuesSet { queues, by } => (by, overrides::queues(&settings.queues, queues, by)?),
        _ => return None,
    };
    if let Some(actor) = actor {
        return Some((actor.to_owned(), changed));
    }
    let by_itself = [CONFIGURATION, FEEDS].contains(&by.as_str());
    let same = changed.old == changed.new;
    let changed = if by_itself { Changed { back: None, ..changed } } else { changed };
    (!by_itself || !same).then(|| (by.clone(), changed))
}

impl Back {
    /// Returns true if the new value equals the old one, so that there is nothing to undo.
    pub fn is_nothing(&self) -> bool {
        match self {
            Self::Limits { old, new } => old == new,
            Self::Mode { old, new } => old == new,
            Self::Policy { old, new, old_parts, new_parts } => (old, old_parts) == (new, new_parts),
            // The same prices from another source are a change.
            Self::Prices { old, old_by, new } => old == new && !old_by.is_empty() && old_by != FEEDS,
            Self::Budgets { old, new } => old == new,
            Self::Node { old, new, .. } => old == new,
            Self::Reservation { old, new, .. } => old == new,
            Self::Quotas { old, new } => old == new,
            Self::Fairshare { old, new } => old == new,
            Self::Explore { old, new } => old == new,
            Self::Slowdown { old, new, .. } => old == new,
            Self::Denied { old, new } => old == new,
            Self::Priority { old, new, .. } => old == new,
            Self::TimeLimit { old, new, .. } => old == new,
            Self::Queue { old, new, .. } => old == new,
            Self::GroupLimit { old, new, .. } => old == new,
            Self::Held { .. } => false,
        }
    }

    /// Returns true if the cluster still has the value that the change set.
    pub fn holds(&self, core: &Core, now: Time) -> bool {
        let (settings, clock) = (core.settings(), core.clock());
        match self {
            Self::Limits { new, .. } => clock.shown_curve(settings.operator_limits()) == *new,
            Self::Mode { new, .. } => settings.mode_setting == *new,
            Self::Policy { new, new_parts, .. } => (settings.preset, settings.options.chosen) == (*new, *new_parts),
            Self::Prices { new, .. } => settings.prices.as_ref().map(|prices| clock.shown_curve(prices)) == *new,
            Self::Budgets { new, .. } => {
                clock.shown_budgets(&settings.budgets).from_then_on(now) == new.from_then_on(now)
            }
            Self::Node { name, new, .. } => core.node_named(name).is_some_and(|node| node.drained() == new.as_ref()),
            Self::Reservation { name, new, .. } => {
                core.reservations().get(name).map(|of| clock.shown_reservation(of)) == *new
            }
            Self::Quotas { new, .. } => settings.quotas == *new,
            Self::Fairshare { new, .. } => settings.fairshare == *new,
            Self::Explore { new, .. } => settings.explore == *new,
            Self::Slowdown { key, new, .. } => core.slowdowns().get(key) == new.as_ref(),
            Self::Denied { new, .. } => settings.denied == *new,
            Self::Priority { job, new, .. } => core.job(*job).is_some_and(|job| job.request.priority == *new),
            Self::TimeLimit { job, new, .. } => core.job(*job).is_some_and(|job| job.request.time_limit == *new),
            Self::Queue { name, new, .. } => {
                settings.queues.get(name).is_some_and(|queue| queue.down_by_operator == *new)
            }
            Self::GroupLimit { name, new, .. } => {
                settings.groups.get(name).is_some_and(|group| group.limit_by_operator == *new)
            }
            Self::Held { job, held } => core.job(*job).is_some_and(|job| job.held.is_some() == *held),
        }
    }

    /// Returns the event by which `by` restores the old value.
    ///
    /// # Errors
    /// The reason if the change cannot be undone.
    pub fn event(&self, core: &Core, now: Time, by: &str) -> Result<Event, String> {
        let by = by.to_owned();
        Ok(match self {
            Self::Limits { old, .. } => Event::LimitsSet { limits: old.clone(), by },
            Self::Mode { old, .. } => Event::ModeSet { mode: *old, by },
            Self::Policy { old, old_parts, .. } => {
                let options = Options { chosen: *old_parts, ..core.settings().options };
                Event::PolicySet { preset: *old, options, by }
            }
            // Prices without an author, or from the feeds, are returned to the feeds.
            Self::Prices { old, old_by, .. } if old_by.is_empty() || old_by == FEEDS => {
                Event::PricesSet { prices: old.clone(), by: old_by.clone() }
            }
            Self::Prices { old, .. } => Event::PricesSet { prices: old.clone(), by },
            Self::Budgets { old, .. } => {
                let periods = old.from_then_on(now).to_vec();
                Event::BudgetsSet { budgets: Budgets::new(periods).map_err(|error| error.to_string())?, by }
            }
            Self::Node { name, old, .. } => {
                let node = core.node_named(name).ok_or_else(|| format!("node `{name}` no longer exists"))?.id();
                match old {
                    Some(Drained { reason, .. }) => Event::NodeDrained { node, reason: reason.clone(), by },
                    None => Event::NodeResumed { node, by },
                }
            }
            Self::Reservation { name, old, .. } => {
                Event::ReservationSet { name: name.clone(), reservation: old.clone().map(Box::new), by }
            }
            Self::Quotas { old, .. } => Event::QuotasSet { quotas: old.clone(), by },
            Self::Fairshare { old, .. } => Event::FairshareSet { fairshare: old.clone(), by },
            Self::Explore { old, .. } => Event::ExploreSet { share: *old, by },
            Self::Slowdown { key, old, .. } => Event::SlowdownSet { key: key.clone(), law: *old, by },
            Self::Denied { old, .. } => Event::UsersDenied { denied: old.clone(), by },
            Self::Priority { job, old, .. } => {
                core.check_priority(*job, *old).map_err(|refused| refused.to_string())?;
                Event::PrioritySet { job: *job, priority: *old, by }
            }
            Self::TimeLimit { job, old, .. } => {
                core.check_time_limit(core.clock().cluster(now), *job, *old).map_err(|refused| refused.to_string())?;
                Event::TimeLimitSet { job: *job, limit: *old, by }
            }
            Self::Queue { name, old, .. } => {
                let queues = core.settings().queues.clone().with_state(name, *old);
                Event::QueuesSet { queues: queues.ok_or_else(|| format!("queue `{name}` no longer exists"))?, by }
            }
            Self::GroupLimit { name, old, .. } => {
                let groups =
                    core.settings().groups.clone().with_limit(name, *old).map_err(|error| error.to_string())?;
                Event::GroupsSet { groups: groups.ok_or_else(|| format!("group `{name}` no longer exists"))?, by }
            }
            Self::Held { job, .. } if core.job(*job).is_none() => return Err(format!("job {job} is over")),
            Self::Held { job, held: true } => {
                core.check_release(*job).map_err(|refused| refused.to_string())?;
                Event::Released { job: *job, by }
            }
            Self::Held { job, held: false } => {
                core.check_hold(*job).map_err(|refused| refused.to_string())?;
                Event::Held { job: *job, by }
            }
        })
    }
}

fn changed(subject: &str, (old, new): (impl Display, impl Display), back: Option<Back>) -> Changed {
    Changed { subject: subject.to_owned(), old: old.to_string(), new: new.to_string(), back }
}

fn service(core: &Core, node: limo_model::NodeId, new: Option<Drained>) -> Option<Changed> {
    let node = core.node(node)?;
    let old = node.drained().cloned();
    let words = |drained: Option<&Drained>| match drained {
        Some(Drained { reason, .. }) if reason.is_empty() => "drained".to_owned(),
        Some(Drained { reason, .. }) => format!("drained: {reason}"),
        None => "in service".to_owned(),
    };
    let shown = (words(old.as_ref()), words(new.as_ref()));
    let name = node.spec().name.clone();
    Some(changed(&format!("node {name}"), shown, Some(Back::Node { name, old, new })))
}
