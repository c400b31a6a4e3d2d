//! The time between two checkpoints of a job.

use limo_model::{CheckpointEvery, JobId, NodeId, Span, Time, best_interval, nodes};

use super::Core;

/// Duration of a checkpoint that is assumed before the first one of a job, and for one whose end is unknown.
const ASSUMED: Span = Span::from_secs(10);

impl Core {
    /// Returns the running time between two checkpoints of an assigned job, if it has any. For [`CheckpointEvery::Auto`]
    /// it follows from the duration of its last checkpoint, and from the mean time without owners in the groups of its
    /// nodes.
    pub fn checkpoint_every(&self, now: Time, id: JobId) -> Option<Span> {
        let job = self.job(id)?;
        match job.request.restart.checkpoint? {
            CheckpointEvery::Span(span) => Some(span),
            CheckpointEvery::Auto => {
                let cost = if job.kept.took > Span::ZERO { job.kept.took } else { ASSUMED };
                let placement = &job.assignment()?.placement;
                let mean = nodes(placement).filter_map(|node| self.mean_free(now, node)).min();
                Some(best_interval(cost, mean.unwrap_or(Span::from_secs(86_400))))
            }
        }
    }

    /// Returns the mean time between sessions of owners at the nodes of a node's group, including those at present. `None`
    /// without owners.
    fn mean_free(&self, now: Time, node: NodeId) -> Option<Span> {
        let group = self.node(node)?.group();
        let of_group = self.nodes().iter().filter(|node| node.group() == group && !node.is_removed());
        let (free, gaps) = of_group.filter_map(|node| node.sessions.as_deref()).fold((0, 0), |(free, gaps), of| {
            let present = of.free_since.map_or(Span::ZERO, |since| now - since);
            (free + i128::from((of.past.free + present).ms()), gaps + i128::from(of.past.gaps))
        });
        (free > 0).then(|| Span::from_ms(i64::try_from(free / gaps.max(1)).unwrap_or(i64::MAX)))
    }
}
