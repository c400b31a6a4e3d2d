//! What the master tells of users. Clients decide how to show it.

use limo_model::{Energy, Fairshare, Measure, Quota, QuotaLimit, Span};
use serde::{Deserialize, Serialize};

/// What is known of users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersReport {
    /// Of who has no quota of their own.
    pub default: Quota,
    /// In the order of their names: those who have jobs, a quota, used something since there are quotas, or are denied.
    pub users: Vec<UserReport>,
    /// How priorities follow from waiting and from past use.
    pub fairshare: Fairshare,
}

/// What is known of one user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserReport {
    /// As the machine of the master knows the user.
    pub name: String,
    /// Jobs on nodes, and their cores.
    pub running: u32,
    /// See [`UserReport::running`].
    pub cores: u32,
    /// Jobs that wait, tasks of arrays counted singly.
    pub waiting: u32,
    /// What is expected of the jobs on nodes.
    pub expected: Energy,
    /// Used by jobs that ended in this day, week and month; only counted since there are quotas or shares.
    pub used: Option<[Energy; 3]>,
    /// Of their own.
    pub quota: Option<Quota>,
    /// Set if the user's submissions are refused.
    pub denied: bool,
    /// The user's share; 1 unless another is set.
    pub share: u32,
    /// What counts of all that was used, in thousandths of what counts of all users; only counted since there are quotas
    /// or shares.
    pub counted_permille: Option<u32>,
}

/// What users may have, and which of their jobs are first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum UsersChange {
    /// Limits of the quota of one user, or of all who have none of their own. What is not named stays.
    Quota { user: Option<String>, limits: Vec<QuotaLimit> },
    /// Whose submissions are refused, or are no longer.
    Denied { names: Vec<String>, denied: bool },
    /// How far waiting and use count in priorities. What is not named stays.
    Fairshare(FairshareChange),
}

/// What is to change of [`Fairshare`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FairshareChange {
    /// See [`Fairshare::age_weight`], as for all that follow.
    pub age_weight: Option<u32>,
    /// See [`Fairshare::age_max`].
    pub age_max: Option<Span>,
    /// See [`Fairshare::weight`].
    pub weight: Option<u32>,
    /// See [`Fairshare::half_life`].
    pub half_life: Option<Span>,
    /// See [`Fairshare::measure`].
    pub measure: Option<Measure>,
    /// See [`Fairshare::rank_every`].
    pub rank_every: Option<Span>,
    /// A user, and the share that the user is to have.
    pub share: Option<(String, u32)>,
}
