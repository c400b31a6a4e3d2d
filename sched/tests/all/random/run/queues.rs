//! The order of waiting jobs, and their queues, in a random run: jobs start only on the nodes of their queue, and not
//! while it is down.

use std::collections::BTreeMap;

use limo_model::{QueueSpec, Queues, nodes};
use limo_sched::{Command, Event, Job, Phase, Refused, Round};

use super::Run;

impl Run {
    pub(super) fn queues(&mut self, of: [(u8, bool); 2]) -> Result<(), Refused> {
        let queue = |(which, (mask, is_down)): (usize, (u8, bool))| {
            let nodes = (0..8).filter(|bit| mask >> bit & 1 == 1).map(|bit| format!("n{bit}")).collect();
            (format!("q{which}"), QueueSpec { nodes, is_down, ..QueueSpec::default() })
        };
        let queues = Queues::new(of.into_iter().enumerate().map(queue).collect::<BTreeMap<_, _>>());
        self.world.apply(Event::QueuesSet { queues: queues.expect("two queues"), by: "root".into() })
    }

    /// Checks the places of the jobs that a round starts.
    pub(super) fn check_starts(&self, round: &Round) {
        let core = &self.world.core;
        for command in &round.commands {
            let Command::Start { job, placement, .. } = command else { continue };
            // A node may have reported the end of the job meanwhile.
            let Some((queue, spec)) = core.job(*job).and_then(|job| self.queue_of(job)) else { continue };
            assert!(!spec.is_down, "job {job} starts in the queue {queue}, which is down");
            for node in nodes(placement) {
                let name = &core.node(node).expect("a node").spec().name;
                assert!(spec.nodes.is_empty() || spec.nodes.contains(name), "job {job} of {queue} is on {name}");
            }
        }
    }

    /// Checks that policies see no waiting job of a queue that is down, and that all others may start.
    pub(super) fn check_queues(&self) {
        for (id, job) in self.world.core.view(self.world.now).queue() {
            assert!(self.queue_of(job).is_none_or(|(_, spec)| !spec.is_down), "job {id} is before the policy");
        }
        for (id, job) in self.world.core.jobs() {
            let told = matches!(&job.phase, Phase::Waiting(Some(limo_model::Wait::Queue { .. })));
            assert!(!told || self.queue_of(job).is_some_and(|(_, spec)| spec.is_down), "job {id} waits for its queue");
        }
    }

    /// Checks that the queue is ordered by priority, then by submission.
    pub(super) fn check_order(&self) {
        let view = self.world.core.view(self.world.now);
        // Time passes between two rankings.
        let weighs = self.world.core.settings().fairshare.weighs();
        let queue: Vec<_> = view.queue().map(|(id, job)| (-job.request.priority, id)).collect();
        assert!(weighs || queue.is_sorted(), "{queue:?}");
    }

    fn queue_of(&self, job: &Job) -> Option<(String, QueueSpec)> {
        let queue = job.request.queue.clone()?;
        let spec = self.world.core.settings().queues.get(&queue).cloned()?;
        Some((queue, spec))
    }
}
