//! Reports about licences.

use serde::{Deserialize, Serialize};

/// A kind of licence in the state of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenceReport {
    /// Name, unique within the cluster.
    pub name: String,
    /// Their number.
    pub total: u32,
    /// Number that jobs hold which run or may start.
    pub held: u32,
    /// Jobs that hold some.
    pub holders: u32,
    /// Jobs that wait for some.
    pub waiting: u32,
}
