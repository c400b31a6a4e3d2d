//! The states of jobs and nodes that clients see, from those of the core.

use limo_model::Time;
use limo_proto::{JobState, NodeSleep, NodeState};
use limo_sched::{Job, Node, Phase, Sleep};

/// Returns the state of a job that is not over.
pub fn of_job(job: &Job) -> JobState {
    let stops = job.assignment().is_some_and(|assignment| assignment.stop.is_some());
    match &job.phase {
        Phase::Waiting(_) => JobState::Waiting,
        _ if stops => JobState::Stopping,
        Phase::Starting(_) => JobState::Starting,
        Phase::Running(..) => JobState::Running,
        Phase::Suspended(..) => JobState::Suspended,
    }
}

/// Returns the way in which a node is not awake.
pub fn sleep_of(node: &Node) -> Option<NodeSleep> {
    match node.sleep() {
        Sleep::Awake => None,
        Sleep::GoingDown => Some(NodeSleep::FallingAsleep),
        Sleep::Asleep => Some(NodeSleep::Asleep),
        Sleep::Waking => Some(NodeSleep::Waking),
    }
}

/// Returns the state of a node.
pub fn of_node(node: &Node, now: Time) -> NodeState {
    match node.drained() {
        Some(_) => NodeState::Drained,
        None if node.lost_since().is_some() => NodeState::Lost,
        None if !node.is_connected() => NodeState::Unreachable,
        None if let Some(sleep) = sleep_of(node) => NodeState::Sleeps(sleep),
        None if node.reboots() => NodeState::Drained,
        None if node.is_suspect(now) => NodeState::Suspect,
        None if node.owner().suspends_since().is_some() || node.owner().opens_at(now).is_some() => NodeState::Owner,
        None => NodeState::Up,
    }
}
