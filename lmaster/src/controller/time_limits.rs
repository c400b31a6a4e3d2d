//! Time limits. Nodes enforce them, so that they hold without a master. The master sends changed ones, extends those of
//! jobs that were suspended or slowed down, and stops a job that its node has not ended.

use limo_model::{Attempt, JobId, NodeId, Span};
use limo_proto::MasterToNode;
use limo_sched::Phase;

use super::Controller;
use super::commit::After;

/// Time after its time limit at which the master stops a job that its node has not ended.
const MARGIN: Span = Span::from_secs(30);

impl Controller {
    /// Records that a job has reached its time limit, which is durable. Its node ends it now.
    pub(super) fn limit_reached(&mut self, job: JobId, attempt: Attempt) {
        self.assignments.stop_at(job, attempt, self.tx.now + MARGIN);
    }

    /// Stops the jobs that their nodes have not ended in time.
    pub(super) fn stop_late(&mut self) {
        for (job, attempt) in self.assignments.take_late(self.tx.now) {
            if self.assignment(job, attempt).is_some() {
                tracing::warn!(%job, %attempt, "the job has not ended {MARGIN} after its time limit: it is stopped");
                self.halt(job, attempt);
            }
        }
    }

    /// Stops a job without the margin, because a person wants it to end after its time limit.
    pub(super) fn stop_now(&mut self, job: JobId) {
        if let Some(attempt) = self.assignments.take_late_of(job) {
            self.after(After::Halt(job, attempt));
        }
    }

    /// Returns the time limit of a job on its nodes, if it was changed after the submission.
    pub(super) fn changed_limit(&self, job: JobId) -> Option<MasterToNode> {
        let job_now = self.tx.core.job(job)?;
        let (attempt, limit) = (job_now.assignment()?.attempt, job_now.new_limit?.limit);
        Some(MasterToNode::TimeLimit { job, attempt, limit })
    }

    /// Sends the nodes of a job its new time limit, which ends an earlier extension.
    pub(super) fn send_limit(&mut self, job: JobId) {
        if let Some(order) = self.changed_limit(job) {
            for peer in self.open_links(job) {
                self.tell_node(peer, order.clone());
            }
            self.extend(job);
        }
    }

    /// Returns the total time that a suspended or slowed-down job may run.
    pub(super) fn extension(&self, job: JobId) -> Option<MasterToNode> {
        let job_now = self.tx.core.job(job)?;
        let Phase::Running(assignment, running) = &job_now.phase else { return None };
        let limit = job_now.request.time_limit.filter(|_| !running.steady)? + assignment.held.max(Span::ZERO);
        Some(MasterToNode::Extend { job, attempt: assignment.attempt, limit })
    }

    /// Sends the nodes of a job its extended time limit.
    pub(super) fn extend(&mut self, job: JobId) {
        if let Some(order) = self.extension(job) {
            for peer in self.open_links(job) {
                self.tell_node(peer, order.clone());
            }
        }
    }

    /// Does the same for all jobs of a node.
    pub(super) fn extend_all(&mut self, node: NodeId) {
        for job in self.tx.core.jobs_on(node) {
            self.extend(job);
        }
    }
}
