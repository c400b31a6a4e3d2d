//! The rules that hold at every moment of a world.

use limo_model::{Attempt, JobId};

use super::host::Host;
use super::*;
use crate::controller::multi_node::open_nodes_of;

impl World {
    /// Checks that no process outlives its time limit or its lease, and no cap the lease of its master, and that no
    /// job runs beside an owner.
    pub fn nothing_outlives(&self, node: usize, silent: Option<Span>) {
        let host = &self.hosts[node];
        for process in host.processes.values() {
            let (job, _) = process.key;
            // A changed limit waits until the daemon knows that the job has started.
            let limit = host.limits.get(&process.key).filter(|_| !host.is_behind());
            assert!(limit.is_none_or(|limit| process.ran < *limit), "job {job} outlives its time limit: {process:?}");
            let is_over = host.leases.get(&process.key).is_some_and(|lease| silent.is_some_and(|s| s >= *lease));
            assert!(!is_over, "job {job} outlives its lease: {process:?}");
        }
        if host.is_behind() {
            return;
        }
        let without_master =
            silent.is_some_and(|silent| silent.min(self.bench.now - host.began) >= host.machine.cap_lease);
        assert!(!without_master || host.capped.is_none(), "the caps of {} outlive their lease", host.name);
        let is_in_use = host.machine.has_owner && host.owner.is_there && host.owner.evict_after.is_some();
        let runs = host.processes.values().find(|process| !process.is_frozen && !process.is_told_to_stop);
        assert!(!is_in_use || runs.is_none(), "a job runs beside the owner of {}: {runs:?}", host.name);
    }

    /// Checks that the master counts each process: as one of a job on the node, or as held for the node.
    pub fn each_process_is_counted(&self) {
        for host in &self.hosts {
            for process in host.processes.values() {
                let (job, attempt) = process.key;
                let is_counted = self.is_counted(&host.name, job, attempt);
                assert!(is_counted, "the draw of attempt {attempt} of job {job} on {} is not counted", host.name);
            }
        }
        let core = &self.bench.controller.tx.core;
        let occupants = core.occupants();
        for node in core.known_nodes().map(|node| node.id()) {
            assert_eq!(occupants.of(node), core.jobs_on(node), "the pass over all jobs differs for node {}", node.0);
        }
    }

    /// Checks that each lost node has had time to connect.
    pub fn no_node_is_lost_early(&self) {
        let (core, lease) = (&self.bench.controller.tx.core, self.bench.settings.node_lease);
        for host in self.hosts.iter().filter(|host| !host.is_declared_dead) {
            let is_lost = core.node_named(&host.name).is_some_and(|node| node.lost_since().is_some());
            let time = host.unreached;
            assert!(!is_lost || time >= lease, "{} counts as lost too early: it had {time} to connect", host.name);
        }
    }

    /// Checks that the master believes the newest caps of a node only once they are set. A node that has registered again is
    /// told its caps again.
    pub fn caps_are_not_believed_early(&self) {
        let core = &self.bench.controller.tx.core;
        let is_told = |host: &&Host| host.link.is_some() && host.is_told_caps && !host.has_lied;
        for host in self.hosts.iter().filter(is_told) {
            let Some(node) = core.node_named(&host.name).filter(|node| !node.has_unconfirmed_caps()) else { continue };
            let ((generation, caps), Host { name, capped, .. }) = (node.caps(), host);
            let is_capped = caps.iter().any(Option::is_some);
            assert!(
                !is_capped || *capped >= Some(generation),
                "{name} counts as capped by order {generation}, {capped:?} is set"
            );
        }
    }

    fn is_counted(&self, name: &str, job: JobId, attempt: Attempt) -> bool {
        let controller = &self.bench.controller;
        let Some(node) = controller.tx.core.node_named(name) else { return false };
        let assignment = controller.assignment(job, attempt);
        assignment.is_some_and(|assignment| open_nodes_of(assignment).contains(&node.id()))
            || node.held().iter().any(|held| (held.job, held.attempt) == (job, attempt))
    }
}
