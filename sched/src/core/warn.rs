//! Signals that users request before the time limit. Each attempt gets the signal once.

use limo_model::Time;

use crate::cluster::Cluster;
use crate::round::Command;

pub(super) fn warnings(cluster: &mut Cluster, now: Time, commands: &mut Vec<Command>) {
    while let Some((at, id)) = cluster.index.warnings.first().copied().filter(|(at, _)| *at <= now) {
        cluster.index.warnings.remove(&(at, id));
        let Some(job) = cluster.state.jobs.get_mut(id) else { continue };
        let Some(warning) = job.request.warning else { continue };
        if let Some((assignment, running)) = job.running_mut() {
            running.warned = true;
            commands.push(Command::Signal { job: id, attempt: assignment.attempt, signal: warning.signal });
        }
    }
}
