//! Reports about queues.

use limo_model::Span;
use serde::{Deserialize, Serialize};

use crate::bound::{clip, clip_some};

/// A queue in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// True if jobs that name no queue are in it.
    pub is_default: bool,
    /// True if its jobs do not start.
    pub is_down: bool,
    /// Time that its jobs are expected to wait.
    pub expected_wait: Option<Span>,
    /// Time limit of a job that requests none.
    pub default_time: Option<Span>,
    /// Longest time limit.
    pub max_time: Option<Span>,
    /// Most nodes of a job.
    pub max_nodes: Option<u32>,
    /// Its nodes as a short list; `None` for all nodes.
    #[serde(serialize_with = "clip_some::<_, 4096>")]
    pub nodes: Option<String>,
    /// Number of its nodes that the master knows.
    pub known: u32,
    /// Number of those that take new jobs.
    pub available: u32,
    /// Its users, separated by commas. All users may use it if it has neither users nor groups.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub users: String,
    /// Its groups of users, separated by commas.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub groups: String,
}

/// Asks for the queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuesQuery;
