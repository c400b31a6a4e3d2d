//! Reports about users. Clients decide how to show them.

use limo_model::{Energy, Fairshare, Measure, Quota, QuotaLimit, Span};
use serde::{Deserialize, Serialize};

/// Users with their quotas and use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsersReport {
    /// Quota of users without their own.
    pub default: Quota,
    /// Users in the order of their names: those with jobs, a quota, recorded use or denied access.
    pub users: Vec<UserReport>,
    /// Weights of waiting time and past use in priorities.
    pub fairshare: Fairshare,
}

/// A user with quota and use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserReport {
    /// The user's name on the master's machine.
    pub name: String,
    /// Number of jobs on nodes.
    pub running: u32,
    /// Number of cores of the jobs on nodes.
    pub cores: u32,
    /// Waiting jobs; each task of an array counts.
    pub waiting: u32,
    /// Expected energy of the jobs on nodes.
    pub expected: Energy,
    /// Energy of jobs that ended in this day, week and month; counted from the first quota or share on.
    pub used: Option<[Energy; 3]>,
    /// The user's own quota.
    pub quota: Option<Quota>,
    /// True if the user's submissions are refused.
    pub denied: bool,
    /// The user's share; 1 unless another is set.
    pub share: u32,
    /// Weighted past use, in thousandths of that of all users; counted from the first quota or share on.
    pub counted_permille: Option<u32>,
}

/// Changes of users' quotas, access and priorities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum UsersChange {
    /// Limits of the quota of one user, or the default of all others. Limits that are not listed stay unchanged.
    Quota { user: Option<String>, limits: Vec<QuotaLimit> },
    /// Users whose submissions are refused, or accepted again.
    Denied { names: Vec<String>, denied: bool },
    /// Weights of waiting time and past use in priorities. Unset fields stay unchanged.
    Fairshare(FairshareChange),
}

/// A change of [`Fairshare`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FairshareChange {
    /// See [`Fairshare::age_weight`]; the same applies to the next fields.
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
    /// A user, and the user's new share.
    pub share: Option<(String, u32)>,
}
