//! Reports about groups of nodes.

use limo_model::{Beside, OwnerRules, Power, Span};
use serde::{Deserialize, Serialize};

use crate::bound::{Text, clip};

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
    /// Time after which its idle nodes sleep, such as `30min` or `never`; `None` if the rule of the cluster holds.
    pub sleep_after: Option<Text<32>>,
    /// True if jobs wake its sleeping nodes.
    pub wake: bool,
    /// Window of its daily reboots, such as `03:00-05:00`.
    pub reboot: Option<Text<32>>,
    /// True if the reboots wait for the ends of jobs.
    pub reboot_deferred: bool,
}

/// A group with a limit in the state of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDraw {
    /// Name, unique within the cluster.
    pub name: String,
    /// Believed draw of its nodes, with jobs that are about to start.
    pub draw: Power,
    /// Upper limit in force.
    pub limit: Power,
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
