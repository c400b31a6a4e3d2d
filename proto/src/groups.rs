//! Reports about groups of nodes.

use limo_model::Power;
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
}

/// Asks for the groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupsQuery;
