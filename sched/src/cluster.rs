//! The recorded state with its index and the checker's books: events and executed plans change all of them.

mod requests;

use limo_model::{JobId, NodeId, Parts, Power, Time};

use crate::books::Books;
use crate::index::Index;
use crate::state::State;

use requests::Requests;

#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub state: State,
    pub index: Index,
    pub books: Books,
    /// The requests of jobs; equal requests are stored once.
    pub requests: Requests,
    /// The parts of the policy in force, as the settings give them.
    pub parts: Parts,
}

impl Cluster {
    /// Makes a cluster from a state, with a new index and new books.
    pub fn of(mut state: State, now: Time) -> Self {
        let mut requests = Requests::default();
        let jobs: Vec<JobId> = state.jobs.iter().map(|(id, _)| id).collect();
        for id in jobs {
            if let Some(job) = state.jobs.get_mut(id) {
                job.request = requests.share(&job.request);
            }
        }
        let (index, books) = (Index::of(&state, now), Books::of(&state, now));
        let parts = state.settings.parts();
        Self { state, index, books, requests, parts }
    }

    /// Recomputes all data derived from the record.
    pub fn find_again(&mut self, now: Time) {
        self.index = Index::of(&self.state, now);
        self.books = Books::of(&self.state, now);
    }

    /// Adds to the believed draw of a node.
    pub fn add_draw(&mut self, node: NodeId, more: Power) {
        self.state.sums.draw += more;
        self.index.groups.change(self.state.node(node), |draw| draw + more);
    }

    /// Subtracts from the believed draw of a node.
    pub fn take_draw(&mut self, node: NodeId, less: Power) {
        self.state.sums.draw -= less;
        self.index.groups.change(self.state.node(node), |draw| draw - less);
    }

    /// Returns true if a plan could use a node that takes jobs again.
    pub fn wants_nodes(&self) -> bool {
        self.state.settings.lets_sleep()
            || !self.state.queue.is_empty()
            || !self.index.hungry.is_empty()
            || !self.index.malleable.is_empty()
    }

    /// Returns the active jobs with a part on `node`. Nodes without a meter or an owner have no list of jobs, so all
    /// active jobs are searched.
    pub fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        if self.index.classes.lists_jobs(node) {
            let (first, last) = ((node, JobId(0)), (node, JobId(u64::MAX)));
            return self.index.occupants.range(first..=last).map(|(_, job)| *job).collect();
        }
        let is_on = |id: &JobId| {
            let assignment = self.state.jobs.get(*id).and_then(|job| job.assignment());
            assignment.is_some_and(|assignment| assignment.placement.iter().any(|part| part.is_on(node)))
        };
        self.state.active.iter().filter(is_on).collect()
    }
}
