//! Nodes that are lost, nodes that register, and jobs that nodes do not begin.

use limo_model::NodeId;
use limo_sched::{Event, Job, Phase, Refused};

use super::Run;

impl Run {
    /// Loses a node. The believed draw stays the same as before the jobs of the node ended; if caps divide the upper limit,
    /// it may rise to the nameplates of their units.
    pub(super) fn lose(&mut self, node: NodeId) -> Result<(), Refused> {
        let before = self.world.core.node_draw(node);
        self.world.lose(node)?;
        let (after, divides) = (self.world.core.node_draw(node), self.world.core.settings().parts().divides());
        assert!(after == before || (divides && after > before), "what may still be drawn is held: {after} of {before}");
        Ok(())
    }

    pub(super) fn up(&mut self, node: NodeId, more: u32) -> Result<(), Refused> {
        let mut spec = self.world.core.node(node).expect("a node").spec().clone();
        spec.units[0].cores += more;
        self.world.silent.remove(&node);
        self.world.apply(Event::NodeUp { spec })?;
        self.world.registered(node);
        Ok(())
    }

    /// Takes back the first job that has not begun, if there is one.
    pub(super) fn take_back(&mut self) -> bool {
        let starting = |job: &Job| match &job.phase {
            Phase::Starting(assignment) => Some(assignment.attempt),
            _ => None,
        };
        let found = self.world.core.jobs().find_map(|(id, job)| starting(job).map(|attempt| (id, attempt)));
        if let Some((job, attempt)) = found {
            self.world.take_back(job, attempt);
        }
        found.is_some()
    }
}
