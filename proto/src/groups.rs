//! Reports about groups of nodes.

use limo_model::{Beside, OwnerRules, Power, Span};
use serde::{Deserialize, Serialize};

use crate::bound::clip;

/// A group in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// Believed draw of its nodes, with jobs that are about to start.
    pub draw: Power,
    /// Upper limit in force.
    pub limit: Power,
    /// The limit of the configuration.
    pub configured: Power,
    /// Its nodes as a short list.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub nodes: String,
    /// Number of its nodes that the master knows.
    pub known: u32,
    /// Rules for the owners of its nodes.
    pub owners: Option<OwnersReport>,
}

/// Rules for owners, in the form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnersReport {
    /// What jobs do while the owner of their node is there.
    pub jobs: Beside,
    /// Time after an owner left during which no job starts.
    pub start_after: Span,
    /// Time for which an owner suspends a job until it is evicted.
    pub evict_after: Span,
}

impl From<OwnerRules> for OwnersReport {
    fn from(OwnerRules { jobs, start_after, evict_after }: OwnerRules) -> Self {
        Self { jobs, start_after, evict_after }
    }
}

/// Asks for the groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsQuery;
