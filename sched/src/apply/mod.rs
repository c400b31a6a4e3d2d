//! Events become state. Each event either is recorded whole or is refused and changes nothing; nothing is decided here.

mod jobs;
mod nodes;
mod settings;

use limo_model::Time;

use crate::event::Event;
use crate::refused::Refused;
use crate::state::State;

pub(crate) use jobs::{allows_node, allows_unit, check_request, cores_on};
pub(crate) use nodes::{settle, take};

pub(crate) fn apply(state: &mut State, now: Time, event: &Event) -> Result<(), Refused> {
    match event {
        Event::Submitted { job, request } => jobs::submitted(state, now, *job, request),
        Event::CancelRequested { job, by } => jobs::cancel_requested(state, now, *job, by),
        Event::TakenBack { job, attempt, suspect, .. } => jobs::taken_back(state, now, (*job, *attempt), *suspect),
        Event::Started { job, attempt } => jobs::started(state, now, *job, *attempt),
        Event::Ended { job, attempt, outcome, usage } => jobs::ended(state, now, (*job, *attempt), outcome, *usage),
        Event::NodeUp { spec } => nodes::up(state, now, spec),
        Event::NodeAway { node } => nodes::away(state, now, *node),
        Event::NodeDrained { node, reason, by } => nodes::drained(state, *node, reason, by),
        Event::NodeResumed { node, .. } => nodes::resumed(state, *node),
        Event::Readings { draws } => nodes::readings(state, now, draws),
        Event::LimitsSet { limits, .. } => settings::limits(state, now, limits),
        Event::PricesSet { prices, .. } => settings::prices(state, now, prices.as_ref()),
        Event::ModeSet { mode, .. } => settings::mode(state, *mode),
        Event::PolicySet { preset, options, .. } => settings::policy(state, *preset, *options),
        Event::ProfileSet { key, profile, .. } => settings::profile(state, key, *profile),
    }?;
    state.dirty = true;
    Ok(())
}
