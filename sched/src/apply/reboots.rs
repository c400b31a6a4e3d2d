//! Daily reboots of nodes: a node whose turn has come takes no jobs, and may evict those that it has.

use limo_model::{Eviction, NodeId, Reboot, StopReason, Time};

use super::nodes::refresh_place;
use super::owners;
use crate::cluster::Cluster;
use crate::refused::Refused;

/// Records the progress of a reboot; `None` means that there is none any more.
pub(super) fn set(cluster: &mut Cluster, now: Time, id: NodeId, reboot: Option<&Reboot>) -> Result<(), Refused> {
    owners::known(cluster, id)?.reboot = reboot.cloned().map(Box::new);
    refresh_place(cluster, id, now);
    evict(cluster, id);
    Ok(())
}

/// Ends the jobs of a node that is to reboot at once, unless its owner is there or one of them may not run again.
pub(super) fn evict(cluster: &mut Cluster, id: NodeId) {
    let Some(node) = cluster.state.node(id).filter(|node| node.owner.here.is_none()) else { return };
    if !matches!(node.reboot.as_deref(), Some(Reboot::Wanted { evicts: true, .. })) {
        return;
    }
    let (name, jobs) = (node.spec.name.clone(), cluster.jobs_on(id));
    let may_requeue = |id| cluster.state.jobs.get(id).is_some_and(|job| job.request.may_requeue);
    if !jobs.iter().all(|id| may_requeue(*id)) {
        return;
    }
    let goes_on =
        |id: &_| cluster.state.jobs.get(*id).and_then(|job| job.assignment()).is_some_and(|of| of.stop.is_none());
    for id in jobs.into_iter().filter(goes_on).collect::<Vec<_>>() {
        owners::stop(cluster, id, StopReason::Evicted { node: name.clone(), why: Eviction::Reboot }, false);
        cluster.index.to_stop.insert(id);
    }
}
