//! Reservations: only this module decides if they allow a job on a node.
//!
//! The promise: while a reservation runs, only jobs with the right to it run on its nodes. A job without the right
//! starts there only if its time limit ends it before the reservation. A job has the right if it requests the
//! reservation and its user is named there. It runs on the nodes alone, and only during the reservation. No job is
//! ended for a reservation: if a running job could last into it, the reservation is refused.

use limo_model::{JobId, NodeId, Request, Reservation, Span, Time, Wait};

use crate::cluster::Cluster;
use crate::facts::{MARGIN, allows_node, begin_of, chunks_on_node, fits_node, longest};
use crate::refused::Refused;
use crate::state::{Job, Node, Phase, State};

/// Returns the name of the reservation that keeps a job off a node now.
pub(crate) fn bar<'a>(cluster: &'a Cluster, now: Time, request: &'a Request, node: &Node) -> Option<&'a str> {
    let own = request.reservation.as_deref();
    if cluster.state.reservations.is_empty() && own.is_none() {
        return None;
    }
    let end = longest(request, node).map(|longest| now + longest);
    let by = |time: Time| end.is_some_and(|end| end <= time);
    if let Some(name) = own {
        let has_right = |of: &Reservation| of.users.contains(&request.user) && of.nodes.contains(&node.spec.name);
        let runs = |of: &Reservation| of.from <= now && by(of.until);
        if !cluster.state.reservations.get(name).is_some_and(|of| has_right(of) && runs(of)) {
            return Some(name);
        }
    }
    let on_node = cluster.index.reserved.range((node.id, String::new())..).take_while(|(id, _)| *id == node.id);
    let mut others = on_node.filter(|(_, name)| Some(name.as_str()) != own);
    others.find_map(|(_, name)| {
        let (name, of) = cluster.state.reservations.get_key_value(name)?;
        (now < of.until && !by(of.from)).then_some(name.as_str())
    })
}

/// Returns true if a job on the node must not be suspended: its time limit would end it later than the reservation expects.
pub(crate) fn is_reserved(cluster: &Cluster, node: NodeId) -> bool {
    first_on(cluster, node).is_some()
}

/// Returns the first reservation of a node, by its name.
pub(super) fn first_on(cluster: &Cluster, node: NodeId) -> Option<&str> {
    let (id, name) = cluster.index.reserved.range((node, String::new())..).next()?;
    (*id == node).then_some(name.as_str())
}

/// Returns the wait reason of a job if only reservations make its nodes too few.
pub(crate) fn reason(cluster: &Cluster, now: Time, request: &Request) -> Option<Wait> {
    if let Some(name) = &request.reservation {
        let from = cluster.state.reservations.get(name).map(|of| of.from).filter(|from| now < *from);
        let may_have = |node: &Node| bar(cluster, now, request, node) != Some(name);
        let waits = from.is_some() || !cluster.state.nodes.iter().any(may_have);
        return waits.then(|| Wait::Reservation { reservation: name.clone(), from });
    }
    if cluster.state.reservations.is_empty() {
        return None;
    }
    let able = |node: &&Node| node.is_available(now) && allows_node(request, node) && fits_node(request, node);
    let (mut able_to, mut may_have, mut first) = (0_u32, 0_u32, None);
    for node in cluster.state.nodes.iter().filter(able) {
        let chunks = chunks_on_node(request, node);
        able_to = chunks.saturating_add(able_to);
        match bar(cluster, now, request, node) {
            Some(name) => drop(first.get_or_insert((node, name))),
            None => may_have = chunks.saturating_add(may_have),
        }
        if may_have >= request.nodes.get() {
            return None;
        }
    }
    if able_to < request.nodes.get() {
        return None;
    }
    let (node, name) = first?;
    let of = cluster.state.reservations.get(name)?;
    let (node, reservation) = (node.spec.name.clone(), name.to_owned());
    Some(Wait::Reserved { node, reservation, from: of.from, until: of.until })
}

/// Refuses a job that can never have its reservation.
pub(super) fn check(state: &State, now: Time, request: &Request) -> Result<(), Refused> {
    let Some(name) = &request.reservation else { return Ok(()) };
    let of = known(state, name)?;
    if !of.users.contains(&request.user) {
        return Err(Refused::ReservedForOthers { reservation: name.clone(), user: request.user.clone() });
    }
    let most = of.span() - MARGIN;
    let Some(limit) = request.time_limit.filter(|limit| *limit <= most) else {
        return Err(Refused::ReservationTooShort { reservation: name.clone(), most });
    };
    let begin = begin_of(request, &state.clock);
    let earliest = [Some(now), Some(of.from), begin].into_iter().flatten().max().unwrap_or(now);
    if earliest + limit + MARGIN > of.until {
        return Err(Refused::ReservationEnds {
            reservation: name.clone(),
            left: (of.until - earliest - MARGIN).max(Span::ZERO),
        });
    }
    let fits =
        |node: &&Node| of.nodes.contains(&node.spec.name) && allows_node(request, node) && fits_node(request, node);
    let offered: usize = state.nodes.iter().filter(fits).map(|node| chunks_on_node(request, node) as usize).sum();
    if offered < request.nodes.get() as usize {
        let (reservation, nodes) = (name.clone(), request.nodes.get());
        return Err(match request.is_packed() {
            true => Refused::ReservationLacksRoom { reservation, chunks: nodes, offered },
            false => Refused::ReservationTooSmall { reservation, nodes, offered },
        });
    }
    Ok(())
}

fn known<'a>(state: &'a State, name: &str) -> Result<&'a Reservation, Refused> {
    state.reservations.get(name).ok_or_else(|| {
        let names: Vec<&str> = state.reservations.keys().map(String::as_str).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Refused::NoSuchReservation { name: name.to_owned(), known }
    })
}

pub(super) fn set(
    cluster: &mut Cluster,
    now: Time,
    name: &str,
    reservation: Option<&Reservation>,
) -> Result<(), Refused> {
    match reservation {
        Some(reservation) => {
            let reservation = cluster.state.clock.reservation(reservation);
            check_new(cluster, now, name, &reservation)?;
            cluster.state.reservations.insert(name.to_owned(), reservation);
        }
        None => {
            known(&cluster.state, name)?;
            cluster.state.reservations.remove(name);
        }
    }
    renew(cluster, now);
    Ok(())
}

fn check_new(cluster: &Cluster, now: Time, name: &str, new: &Reservation) -> Result<(), Refused> {
    if new.until <= new.from || new.until <= now {
        return Err(Refused::ReservationOver { reservation: name.to_owned() });
    }
    let unknown = |node: &&String| !cluster.index.names.contains_key(node.as_str());
    if let Some(node) = new.nodes.iter().find(unknown) {
        let known = cluster.state.nodes.iter().filter(|node| !node.is_removed());
        let known = known.map(|node| node.spec.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(Refused::UnknownNode { name: node.clone(), known });
    }
    if new.nodes.is_empty() {
        return Err(Refused::NoneLeft);
    }
    for (other, of) in cluster.state.reservations.iter().filter(|(other, of)| *other != name && of.overlaps(new)) {
        if let Some(node) = of.nodes.iter().find(|node| new.nodes.contains(node)) {
            return Err(Refused::ReservedAlready { node: node.clone(), other: other.clone() });
        }
    }
    for node in new.nodes.iter().filter_map(|node| cluster.index.names.get(node)) {
        let lasts = |job: &Job| {
            let has_right = job.request.reservation.as_deref() == Some(name) && new.users.contains(&job.request.user);
            !has_right && over_by(&cluster.state, now, job, *node).is_none_or(|end| end > new.from)
        };
        let jobs = cluster.jobs_on(*node).into_iter();
        if let Some((job, _)) =
            jobs.filter_map(|id| Some((id, cluster.state.jobs.get(id)?))).find(|(_, job)| lasts(job))
        {
            let node = cluster.state.node(*node).map(|node| node.spec.name.clone()).unwrap_or_default();
            return Err(Refused::LastsIntoReservation { job, node, reservation: name.to_owned() });
        }
    }
    Ok(())
}

/// Refuses the time limit of a job on its nodes with which it could last into a reservation, or longer than its own.
pub(super) fn check_limit(cluster: &Cluster, now: Time, id: JobId, job: &Job) -> Result<(), Refused> {
    let nodes = job.assignment().into_iter().flat_map(|assignment| limo_model::nodes(&assignment.placement));
    for node in nodes {
        let on_node = cluster.index.reserved.range((node, String::new())..).take_while(|(of, _)| *of == node);
        for (_, name) in on_node {
            let Some(of) = cluster.state.reservations.get(name) else { continue };
            let is_own = job.request.reservation.as_ref() == Some(name);
            let most = if is_own { of.until } else { of.from };
            if over_by(&cluster.state, now, job, node).is_none_or(|end| end > most) {
                let node = cluster.state.node(node).map(|node| node.spec.name.clone()).unwrap_or_default();
                return Err(Refused::LastsIntoReservation { job: id, node, reservation: name.clone() });
            }
        }
    }
    Ok(())
}

/// Returns the latest end of a running job.
fn over_by(state: &State, now: Time, job: &Job, node: NodeId) -> Option<Time> {
    match &job.phase {
        Phase::Waiting(_) => Some(now),
        Phase::Starting(_) => longest(&job.request, state.node(node)?).map(|longest| now + longest),
        Phase::Running(..) => job.limit_end().map(|end| end.max(now) + MARGIN),
        // The job may be suspended for any time.
        Phase::Suspended(..) => None,
    }
}

/// Handles begins and ends of reservations.
pub(super) fn pass(cluster: &mut Cluster, now: Time) {
    let mut due = false;
    while cluster.index.boundaries.first().is_some_and(|at| *at <= now) {
        cluster.index.boundaries.pop_first();
        due = true;
    }
    if due {
        cluster.state.boundaries_seen = Some(now);
        cluster.state.dirty = true;
        cluster.index.cache = None;
        let before = cluster.state.reservations.len();
        cluster.state.reservations.retain(|_, of| of.until > now);
        if cluster.state.reservations.len() != before {
            renew(cluster, now);
        }
    }
}

/// Handles a jump of the wall clock. Reservations that are over now are removed.
pub(super) fn moved(state: &mut State, now: Time, later: Span) {
    state.reservations.values_mut().for_each(|of| *of = of.moved(later));
    state.reservations.retain(|_, of| of.until > now);
    state.boundaries_seen = (!state.reservations.is_empty()).then_some(now);
}

/// Recomputes the data derived from reservations.
fn renew(cluster: &mut Cluster, now: Time) {
    cluster.state.boundaries_seen = (!cluster.state.reservations.is_empty()).then_some(now);
    cluster.index.note_reservations(&cluster.state);
    cluster.index.queue_again(&cluster.state);
}
