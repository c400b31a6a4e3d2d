//! Queues: which jobs they accept, and the effect of new ones.
//!
//! The promise: jobs of a queue run only on its nodes, and not while it is down. Its other limits hold at submission; a
//! later change of them concerns new jobs only.

use std::collections::BTreeSet;

use limo_model::{JobId, QueueSpec, Queues, Request, Time, clip};

use super::eligible::{reconsider, wait_again};
use crate::cluster::Cluster;
use crate::facts::closed_queue;
use crate::refused::Refused;

/// Longest list of groups in a refusal, in bytes.
const GROUPS_SHOWN: usize = 256;

/// Fills in the queue and the time limit of a request that names none, and the group by which its user, who belongs to these
/// groups, may use the queue.
pub(crate) fn resolve(queues: &Queues, groups: &BTreeSet<String>, request: &mut Request) -> Result<(), Refused> {
    request.queue_group = None;
    if queues.is_empty() && request.queue.is_none() {
        return Ok(());
    }
    if request.queue.is_none() {
        let default = queues.default_name().ok_or_else(|| Refused::NoDefaultQueue { known: known(queues) })?;
        request.queue = Some(default.to_owned());
    }
    if let Some((_, spec)) = of(queues, request)? {
        let (limit, group) = (spec.default_time.or(spec.max_time), spec.group_of(groups).cloned());
        request.time_limit = request.time_limit.or(limit);
        request.queue_group = group;
    }
    Ok(())
}

/// Returns the queue of a request, if it has one.
fn of<'a>(queues: &'a Queues, request: &'a Request) -> Result<Option<(&'a String, &'a QueueSpec)>, Refused> {
    let Some(name) = &request.queue else { return Ok(None) };
    let spec = queues.get(name);
    let spec = spec.ok_or_else(|| Refused::NoSuchQueue { name: name.clone(), known: known(queues) })?;
    Ok(Some((name, spec)))
}

fn known(queues: &Queues) -> String {
    let names: Vec<&str> = queues.iter().map(|(name, _)| name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Refuses a job that its queue does not accept.
pub(super) fn check(queues: &Queues, request: &Request) -> Result<(), Refused> {
    let Some((name, spec)) = of(queues, request)? else { return Ok(()) };
    let queue = || name.clone();
    let is_for_all = spec.users.is_empty() && spec.groups.is_empty();
    let is_member = request.queue_group.as_ref().is_some_and(|group| spec.groups.contains(group));
    if !is_for_all && !is_member && !spec.users.contains(&request.user) {
        let user = request.user.clone();
        if spec.groups.is_empty() {
            return Err(Refused::QueueForOthers { queue: queue(), user });
        }
        let groups = spec.groups.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(Refused::QueueForGroups { queue: queue(), user, groups: clip(groups, GROUPS_SHOWN) });
    }
    if spec.is_closed() && request.immediate {
        return Err(Refused::QueueIsDown { queue: queue() });
    }
    if let Some(most) = spec.max_time {
        match request.time_limit {
            None => return Err(Refused::QueueNeedsLimit { queue: queue(), most }),
            Some(limit) if limit > most => return Err(Refused::QueueTooShort { queue: queue(), limit, most }),
            Some(_) => {}
        }
    }
    // Each packed task may get a node of its own.
    let nodes = request.widths.map_or(request.nodes, |widths| widths.most).get();
    match spec.max_nodes.filter(|most| nodes > most.get()) {
        Some(most) => Err(Refused::QueueTooNarrow { queue: queue(), nodes, most: most.get() }),
        None => Ok(()),
    }
}

/// Returns the refusal of a job that may use none of the known nodes.
pub(super) fn none_left(request: &Request) -> Refused {
    match &request.queue {
        Some(queue) => Refused::NoneLeftInQueue { queue: queue.clone() },
        None => Refused::NoneLeft,
    }
}

pub(super) fn set(cluster: &mut Cluster, now: Time, queues: &Queues) -> Result<(), Refused> {
    queues.check()?;
    for node in cluster.state.nodes.iter_mut().filter(|node| !node.is_removed()) {
        node.closed_to = queues.closed_to(&node.spec.name);
    }
    cluster.state.settings.queues = queues.clone();
    cluster.find_again(now);
    let state = &cluster.state;
    let is_closed = |id: &JobId| state.jobs.get(*id).is_some_and(|job| closed_queue(state, &job.request).is_some());
    // Jobs that wait for their quota come first, so that none of them enters when others leave the queue. An array takes
    // back its tasks that wait, so it comes before them.
    let all = state
        .over_quota
        .iter()
        .chain(state.over_licence.iter())
        .chain(state.arrays.keys().copied())
        .chain(state.queue.iter());
    let closed: Vec<JobId> = all.filter(is_closed).collect();
    let open: Vec<JobId> = state.blocked.iter().filter(|id| !is_closed(id)).collect();
    closed.into_iter().for_each(|id| wait_again(cluster, now, id));
    open.into_iter().for_each(|id| reconsider(cluster, now, id));
    Ok(())
}
