//! Events become state. Each event is either recorded completely, or refused without a change. No decisions are made
//! here.

mod accounts;
mod arrays;
mod awaits;
mod clock;
mod eligible;
mod groups;
mod jobs;
mod known;
mod licences;
mod limit;
mod lost;
mod margins;
mod need;
mod nodes;
mod owners;
mod parts;
mod pause;
mod possible;
mod predicted;
mod queues;
mod quota;
mod rank;
mod reboots;
mod register;
mod reservations;
mod restarts;
mod runs;
mod sessions;
mod settings;
mod sleep;
mod steer;
mod steps;
mod tree;
mod widths;

use std::sync::{Arc, OnceLock};

use limo_model::{JobId, Kept, NodeId, Request, Time};

use crate::cluster::Cluster;
use crate::event::Event;
use crate::refused::Refused;
use crate::state::{Clock, Sleep};

pub(crate) use accounts::resolve as resolve_account;
pub(crate) use arrays::{count_tasks, make_tasks, started as task_started};
pub(crate) use awaits::{next_overdue, overdue, unconfirmed_caps, wait_for, wait_for_newest};
pub(crate) use eligible::{begin_due, check_hold, check_release, obstacle, over, tell_blocked};
pub(crate) use jobs::{dequeue, with_times};
pub(crate) use known::check_removal;
pub(crate) use limit::check as check_limit;
#[cfg(debug_assertions)]
pub(crate) use margins::are_enough;
pub(crate) use margins::divide as divide_margins;
pub(crate) use nodes::{settle, switch, take};
pub(crate) use owners::evict_due;
pub(crate) use pause::{check_resume, check_suspend};
pub(crate) use possible::check_request;
pub(crate) use queues::resolve as resolve_queue;
pub(crate) use quota::{next_turn, placed, turn};
pub(crate) use rank::{check_priority_of, rank, rank_at, standing};
pub(crate) use reservations::{bar, is_reserved, reason};
pub(crate) use sleep::{await_waking, wake};
pub(crate) use steer::{NodeCaps, check_requeue, hold_at, requeue, resume, suspend};
pub(crate) use widths::{AsRunning, charge_width, may_have, resize, set_width};

pub(crate) fn apply(cluster: &mut Cluster, now: Time, event: &Event) -> Result<(), Refused> {
    if let Some(applied) = steps::apply(&mut cluster.state, now, event) {
        return applied;
    }
    match event {
        Event::Submitted { job, request } => {
            let request = cluster.requests.share(request);
            return submit(cluster, now, *job, request);
        }
        Event::ArraySubmitted { job, tasks, request } => {
            predicted::check(&request.predicted)?;
            let request = cluster.requests.share(request);
            arrays::submitted(cluster, now, *job, (tasks.clone(), request))?;
            settings::arrived(cluster, now);
            cluster.state.dirty = true;
            return Ok(());
        }
        Event::CancelRequested { job, by } => jobs::cancel_requested(cluster, now, *job, by),
        Event::TakenBack { job, attempt, suspect, blame, .. } => {
            jobs::taken_back(cluster, now, (*job, *attempt), (*suspect, *blame))
        }
        Event::OwnerCame { node } => return owners::came(cluster, now, *node),
        Event::OwnerLeft { node } => return owners::left(cluster, now, *node),
        Event::Rebooting { node, reboot } => reboots::set(cluster, now, *node, reboot.as_ref()),
        Event::SessionsKnown { nodes } => sessions::known(cluster, nodes),
        Event::Evicted { job, attempt, node, why } => owners::evicted(cluster, (*job, *attempt), (*node, *why)),
        Event::Checkpointed { job, attempt, ran, took, failed } => {
            let kept = Kept { ran: *ran, took: *took, failed: *failed };
            return restarts::checkpointed(cluster, now, (*job, *attempt), kept);
        }
        Event::Started { job, attempt } => jobs::started(cluster, now, *job, *attempt),
        Event::Ended { job, attempt, outcome, usage } => jobs::ended(cluster, now, (*job, *attempt), outcome, *usage),
        Event::PartEnded { job, attempt, node, outcome, usage } => {
            parts::part_ended(&mut cluster.state, (*job, *attempt), *node, (outcome, *usage))
        }
        Event::NodeUp { spec } => register::up(cluster, now, spec),
        Event::NodeAway { node } => nodes::away(cluster, now, *node),
        Event::NodeDrained { node, reason, by } => nodes::drained(cluster, now, *node, reason, by),
        Event::NodeResumed { node, .. } => nodes::resumed(cluster, now, *node),
        Event::Readings { draws } => nodes::readings(cluster, now, draws),
        Event::Capped { node, generation, failed } => steer::capped(cluster, now, (*node, *generation), failed),
        Event::Paused { job, attempt, paused } => steer::paused(cluster, (*job, *attempt), *paused),
        Event::Asleep { nodes } => sleep::switched(cluster, now, nodes, Sleep::Asleep),
        Event::Awake { nodes } => sleep::switched(cluster, now, nodes, Sleep::Awake),
        Event::Metered { energy } => settings::metered(cluster, now, *energy),
        Event::BudgetsSet { budgets, .. } => settings::budgets(cluster, now, budgets),
        Event::LimitsSet { limits, .. } => settings::limits(cluster, now, limits),
        Event::PricesSet { prices, by } => settings::prices(cluster, now, prices.as_ref(), by),
        Event::GridLimited { limits } => settings::grid_limits(cluster, now, limits),
        Event::ModeSet { mode, .. } => settings::mode(cluster, *mode),
        Event::PolicySet { preset, options, .. } => settings::policy(cluster, now, (*preset, *options)),
        Event::ProfileSet { key, profile, .. } => settings::profile(cluster, key, *profile),
        Event::VariationSet { factors, .. } => settings::variation(cluster, factors),
        Event::Held { job, by } => eligible::held(cluster, now, *job, by),
        Event::RequeueRequested { job, by } => steer::requeue_requested(cluster, *job, by),
        Event::SuspendRequested { job, by } => pause::suspend_requested(cluster, now, *job, by),
        Event::ResumeRequested { job, .. } => pause::resume_requested(cluster, now, *job),
        Event::Released { job, .. } => eligible::released(cluster, now, *job),
        Event::NodeAdded { spec, .. } => known::added(cluster, now, spec),
        Event::NodeRemoved { node, .. } => known::removed(cluster, now, *node),
        Event::ReservationSet { name, reservation, .. } => {
            reservations::set(cluster, now, name, reservation.as_deref())
        }
        Event::PrioritySet { job, priority, .. } => rank::priority_set(cluster, now, *job, *priority),
        Event::TimeLimitSet { job, limit, .. } => limit::set(cluster, now, *job, *limit),
        Event::QueuesSet { queues, .. } => queues::set(cluster, now, queues),
        Event::LicencesSet { licences, .. } => licences::set(cluster, now, licences),
        Event::AccountsSet { accounts, .. } => accounts::set(cluster, now, accounts),
        Event::QosSet { qos, .. } => accounts::set_qos(cluster, now, qos),
        Event::GroupsSet { groups, .. } => groups::set(cluster, now, groups),
        Event::QuotasSet { quotas, .. } => quota::set(cluster, now, quotas),
        Event::FairshareSet { fairshare, .. } => rank::fairshare_set(&mut cluster.state, now, fairshare),
        Event::NumbersRaised { next } => {
            cluster.state.next_job = cluster.state.next_job.max(next.0);
            Ok(())
        }
        Event::ClockOffset { offset, boot, since } => {
            clock::offset(cluster, now, Clock { offset: *offset, boot: boot.clone(), since: *since })
        }
        Event::LeaseSet { lease, .. } => {
            cluster.state.settings.lease = Some(*lease);
            Ok(())
        }
        Event::SleepFailed { node, until, .. } => sleep::sleep_failed(cluster, now, *node, *until),
        Event::NodeLost { node, .. } => lost::lost(cluster, now, *node),
        Event::DrawReleased { node, kept, .. } => lost::released(cluster, now, *node, kept),
        Event::Predicted { job, predicted } => predicted::predicted(cluster, *job, predicted),
        Event::SlowdownSet { key, law, .. } => settings::slowdown(cluster, key, *law),
        Event::ExploreSet { share, .. } => {
            cluster.state.settings.explore = *share;
            Ok(())
        }
        Event::UsersDenied { denied, .. } => {
            cluster.state.settings.denied.clone_from(denied);
            Ok(())
        }
    }?;
    // A job that begins as planned does not change the last plan.
    if !matches!(event, Event::Started { .. }) {
        cluster.index.cache = None;
    }
    cluster.index.rooms = OnceLock::new();
    cluster.state.dirty = true;
    Ok(())
}

/// Records [`Event::NodeUp`] with the present description of the node.
pub(crate) fn up_again(cluster: &mut Cluster, now: Time, node: NodeId) -> Result<(), Refused> {
    register::up_again(cluster, now, node)?;
    cluster.index.rooms = OnceLock::new();
    cluster.state.dirty = true;
    Ok(())
}

/// Records [`Event::Submitted`]. A new job in the queue does not invalidate the cache of the last plan.
pub(crate) fn submit(cluster: &mut Cluster, now: Time, job: JobId, request: Arc<Request>) -> Result<(), Refused> {
    if let Some(step) = request.step {
        return steps::submitted(cluster, now, (job, step), request);
    }
    predicted::check(&request.predicted)?;
    jobs::submitted(cluster, now, job, request)?;
    settings::arrived(cluster, now);
    cluster.state.dirty |= jobs::matters(cluster, job);
    Ok(())
}
