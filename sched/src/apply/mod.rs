//! Events become state. Each event either is recorded whole or is refused and changes nothing; nothing is decided here.

mod arrays;
mod clock;
mod eligible;
mod fits;
mod jobs;
mod known;
mod lost;
mod nodes;
mod parts;
mod quota;
mod rank;
mod reservations;
mod runs;
mod settings;
mod steer;

use std::sync::Arc;

use limo_model::{JobId, Request, Time};

use crate::event::Event;
use crate::refused::Refused;
use crate::state::{Clock, Sleep, State};

pub(crate) use arrays::{array_of, count_tasks, make_tasks};
pub(crate) use eligible::{begin_due, check_hold, check_release, obstacle, over, tell_blocked};
pub(crate) use fits::{
    allows_node, allows_unit, check_request, cores_on, first_fit, may_be_denied, units_like, units_wanted,
};
pub(crate) use jobs::{dequeue, with_times};
pub(crate) use known::check_removal;
pub(crate) use nodes::{settle, switch, take, wake};
pub(crate) use quota::{next_turn, placed, turn};
pub(crate) use rank::{check_priority_of, rank, rank_at, standing};
pub(crate) use reservations::{bar, is_reserved, note, reason};
pub(crate) use steer::{check_requeue, draw_at, draw_if_on, hold_at, requeue, resume, suspend};

pub(crate) fn apply(state: &mut State, now: Time, event: &Event) -> Result<(), Refused> {
    match event {
        Event::Submitted { job, request } => {
            let request = state.requests.share(request);
            return submit(state, now, *job, request);
        }
        Event::ArraySubmitted { job, tasks, request } => {
            let request = state.requests.share(request);
            arrays::submitted(state, now, *job, (tasks.clone(), request))?;
            state.dirty = true;
            return Ok(());
        }
        Event::CancelRequested { job, by } => jobs::cancel_requested(state, now, *job, by),
        Event::TakenBack { job, attempt, suspect, blame, .. } => {
            jobs::taken_back(state, now, (*job, *attempt), (*suspect, *blame))
        }
        Event::Started { job, attempt } => jobs::started(state, now, *job, *attempt),
        Event::Ended { job, attempt, outcome, usage } => jobs::ended(state, now, (*job, *attempt), outcome, *usage),
        Event::PartEnded { job, attempt, node, outcome, usage } => {
            parts::part_ended(state, (*job, *attempt), *node, (outcome, *usage))
        }
        Event::NodeUp { spec } => nodes::up(state, now, spec),
        Event::NodeAway { node } => nodes::away(state, now, *node),
        Event::NodeDrained { node, reason, by } => nodes::drained(state, now, *node, reason, by),
        Event::NodeResumed { node, .. } => nodes::resumed(state, now, *node),
        Event::Readings { draws } => nodes::readings(state, now, draws),
        Event::Capped { node, generation, failed } => steer::capped(state, now, (*node, *generation), failed),
        Event::Paused { job, attempt, paused } => steer::paused(state, (*job, *attempt), *paused),
        Event::Asleep { nodes } => nodes::switched(state, now, nodes, Sleep::Asleep),
        Event::Awake { nodes } => nodes::switched(state, now, nodes, Sleep::Awake),
        Event::Metered { energy } => settings::metered(state, now, *energy),
        Event::BudgetsSet { budgets, .. } => settings::budgets(state, now, budgets),
        Event::LimitsSet { limits, .. } => settings::limits(state, now, limits),
        Event::PricesSet { prices, by } => settings::prices(state, now, prices.as_ref(), by),
        Event::GridLimited { limits } => settings::grid_limits(state, now, limits),
        Event::ModeSet { mode, .. } => settings::mode(state, *mode),
        Event::PolicySet { preset, options, .. } => settings::policy(state, *preset, *options),
        Event::ProfileSet { key, profile, .. } => settings::profile(state, key, *profile),
        Event::Held { job, by } => eligible::held(state, now, *job, by),
        Event::RequeueRequested { job, by } => steer::requeue_requested(state, *job, by),
        Event::Released { job, .. } => eligible::released(state, now, *job),
        Event::NodeAdded { spec, .. } => known::added(state, now, spec),
        Event::NodeRemoved { node, .. } => known::removed(state, now, *node),
        Event::ReservationSet { name, reservation, .. } => reservations::set(state, now, name, reservation.as_deref()),
        Event::PrioritySet { job, priority, .. } => rank::priority_set(state, now, *job, *priority),
        Event::QuotasSet { quotas, .. } => quota::set(state, now, quotas),
        Event::FairshareSet { fairshare, .. } => rank::fairshare_set(state, now, fairshare),
        Event::NumbersRaised { next } => {
            state.next_job = state.next_job.max(next.0);
            Ok(())
        }
        Event::ClockOffset { offset, boot, since } => {
            clock::offset(state, now, Clock { offset: *offset, boot: boot.clone(), since: *since })
        }
        Event::LeaseSet { lease, .. } => {
            state.settings.lease = Some(*lease);
            Ok(())
        }
        Event::NodeLost { node, .. } => lost::lost(state, now, *node),
        Event::DrawReleased { node, kept, .. } => lost::released(state, now, *node, kept),
        Event::UsersDenied { denied, .. } => {
            state.settings.denied.clone_from(denied);
            Ok(())
        }
    }?;
    // What begins as planned takes nothing away from what the last plan found.
    if !matches!(event, Event::Started { .. }) {
        state.index.memo = None;
    }
    state.dirty = true;
    Ok(())
}

/// Records [`Event::Submitted`]. What is new in the queue takes nothing away from what the last plan found.
pub(crate) fn submit(state: &mut State, now: Time, job: JobId, request: Arc<Request>) -> Result<(), Refused> {
    jobs::submitted(state, now, job, request)?;
    state.dirty |= jobs::matters(state, job);
    Ok(())
}
