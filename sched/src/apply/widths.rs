//! The numbers of nodes of moldable jobs: which ranges are accepted, and the number of a waiting job.

use std::num::NonZeroU32;
use std::sync::Arc;

use limo_model::{JobId, Request, Time};

use super::quota;
use crate::cluster::Cluster;
use crate::facts::Known;
use crate::refused::Refused;

/// Refuses a range that no plan could choose from.
pub(super) fn check(request: &Request) -> Result<(), Refused> {
    let Some(widths) = request.widths else { return Ok(()) };
    if !widths.is_sound() || !widths.contains(request.nodes.get()) {
        return Err(Refused::Widths { widths });
    }
    if request.is_packed() { Err(Refused::PackedWidths) } else { Ok(()) }
}

/// Gives a moldable job of the queue this number of nodes.
pub(crate) fn set_width(cluster: &mut Cluster, id: JobId, nodes: NonZeroU32) {
    let Some(job) = cluster.state.jobs.get_mut(id).filter(|job| job.request.nodes != nodes) else { return };
    let before = Arc::clone(&job.request);
    let request = before.at_width(nodes);
    job.request = cluster.requests.share(&request);
    let index = &mut cluster.index;
    index.cache = None;
    if let Some(place) = cluster.state.queue.place(id) {
        index.shapes.remove(place, &before);
        index.shapes.insert(Known::of(&cluster.state), &index.classes, place, &request);
    }
}

/// Returns true if the quota of the job's user admits it on this number of nodes.
pub(crate) fn may_have(cluster: &mut Cluster, now: Time, id: JobId, nodes: NonZeroU32) -> bool {
    let Some(job) = cluster.state.jobs.get(id) else { return false };
    if !cluster.state.charges.contains_key(&id) || job.request.nodes == nodes {
        return true;
    }
    let request = job.request.at_width(nodes);
    quota::would_admit(cluster, now, id, &request)
}

/// Charges a job to the quota of its user for the number of nodes that was chosen.
pub(crate) fn charge_width(cluster: &mut Cluster, id: JobId) {
    if cluster.state.charges.contains_key(&id)
        && let Some(job) = cluster.state.jobs.get(id)
    {
        let request = Arc::clone(&job.request);
        quota::charge_again(cluster, id, &request);
    }
}
