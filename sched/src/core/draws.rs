//! Active jobs, draws and accounts of nodes.

use limo_model::{Energy, JobId, Money, NodeId, Power, Time, nodes};

use super::Core;
use crate::index::Occupants;
use crate::state::Job;

impl Core {
    /// Returns the starting and running jobs with a part on the node, in order.
    pub fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        self.cluster.jobs_on(node)
    }

    /// Returns the jobs of all nodes, each as [`Core::jobs_on`], in one pass over the jobs.
    pub fn occupants(&self) -> Occupants {
        let mut occupants = Occupants::default();
        for id in self.cluster.state.active.iter() {
            let parts = self.job(id).and_then(Job::assignment).map_or(&[][..], |assignment| &assignment.placement);
            nodes(parts).for_each(|node| occupants.insert(node, id));
        }
        occupants
    }

    /// Returns the believed draw of a node: its fresh reading or own draw, plus the estimates of jobs not in it.
    pub fn node_draw(&self, node: NodeId) -> Power {
        self.draw_with(node, &self.jobs_on(node))
    }

    /// Returns the believed draw of a node with these jobs.
    pub fn draw_with(&self, node: NodeId, jobs: &[JobId]) -> Power {
        let own = self.node(node).map(|node| node.own).unwrap_or_default();
        own + self.hidden(node, jobs).map(|(share, _)| share).sum::<Power>()
    }

    /// Returns the energy of a node with these jobs until `now`, and its cost for times with a known price (`None`
    /// without any).
    pub fn account_with(&self, node: NodeId, jobs: &[JobId], now: Time) -> (Energy, Option<Money>) {
        let Some(of) = self.node(node) else { return Default::default() };
        let prices = self.prices();
        let mut bill = of.bill;
        bill.add(of.own, of.since, now, prices);
        self.hidden(node, jobs).for_each(|(share, since)| bill.add(share, since, now, prices));
        let at = node.0 as usize;
        let (energy, cost) = (self.cluster.state.job_energy.of(at), self.cluster.state.job_cost.of(at));
        (bill.energy() + Energy::from_mj(energy), bill.cost().map(|own| own + Money::from_micro(cost)))
    }

    /// Returns the expected draw of an unmeasured node: without jobs, and with the estimates of its jobs.
    pub fn node_estimate(&self, node: NodeId) -> Power {
        let expected = |id: JobId| Some(self.job(id)?.assignment()?.draw_on(node));
        let still = self.node(node).map(|node| node.still_draw()).unwrap_or_default();
        let held = self.node(node).map(|node| node.held_draw()).unwrap_or_default();
        still + held + self.jobs_on(node).into_iter().filter_map(expected).sum::<Power>()
    }

    /// Returns the draws that no reading of the node shows, as [`hidden_share`].
    fn hidden(&self, node: NodeId, jobs: &[JobId]) -> impl Iterator<Item = (Power, Time)> {
        jobs.iter().filter_map(move |id| hidden_share(self.job(*id)?, node))
    }
}

/// Returns the draw of a job on a node that no reading shows, and the time since which it is not shown.
fn hidden_share(job: &Job, node: NodeId) -> Option<(Power, Time)> {
    let assignment = job.assignment().filter(|assignment| assignment.pending.is_zero())?;
    let seen = job.running().is_some_and(|running| running.seen_on.contains(&node));
    (!seen).then(|| (assignment.draw_on(node), assignment.hidden_since))
}
