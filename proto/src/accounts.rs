//! Reports about accounts and QOS.

use limo_model::{Quota, Span};
use serde::{Deserialize, Serialize};

use crate::bound::clip;

/// An account in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// The account to which it belongs.
    pub parent: Option<String>,
    /// Text for people.
    pub description: String,
    /// Its users, separated by commas.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub users: String,
    /// Its groups of users, separated by commas.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub groups: String,
    /// Limits for its jobs and those of the accounts below it.
    pub quota: Quota,
    /// Weight among the accounts with the same parent.
    pub share: u32,
    /// True if all users may use it, and those of no other account do.
    pub is_default: bool,
    /// Jobs on nodes, with those of the accounts below it.
    pub running: u32,
    /// Waiting jobs, likewise; each task of an array counts.
    pub waiting: u32,
    /// Cores of the jobs on nodes, likewise.
    pub cores: u64,
}

/// A QOS in listings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// Added to the priority of its jobs.
    pub priority: i32,
    /// Limits for the jobs of each user.
    pub quota: Quota,
    /// Longest time limit.
    pub max_time: Option<Span>,
    /// Its users, separated by commas. All users may use it if it has no users, groups and accounts.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub users: String,
    /// Its groups of users, separated by commas.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub groups: String,
    /// Its accounts, separated by commas.
    #[serde(serialize_with = "clip::<_, 4096>")]
    pub accounts: String,
    /// True if jobs that name no QOS have it.
    pub is_default: bool,
}

/// Asks for the accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountsQuery;

/// Asks for the QOS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosQuery;
