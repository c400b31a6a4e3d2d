//! The record of the last ranking of the queue by priority, and of the next one.

use std::collections::BTreeMap;

use limo_model::Time;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Ranking {
    /// True if priorities in the queue may differ, or have differed. Otherwise no priorities are compared.
    pub mixed: bool,
    /// True if jobs may be out of the order of their priorities.
    pub due: bool,
    /// Time of the last ranking.
    pub at: Option<Time>,
    /// Points that the last ranking added to priorities of jobs, by user; users who are not listed used no energy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub points: BTreeMap<String, i64>,
    /// The same by account and user, for jobs with an account.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub in_accounts: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Ranking {
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}
