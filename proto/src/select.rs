//! Selections of jobs: by number, the newest or all of a user, and filters.

use limo_model::{Cores, JobId, Span, Tasks, Time};
use serde::{Deserialize, Serialize};

use crate::bound::{list, texts};
use crate::limits::{FILTER_LIMIT, NAME_LIMIT, SELECTORS_LIMIT};
use crate::report::JobReport;
use crate::state::JobState;

/// Most job numbers in one wait or one change; longer lists are split.
pub const NUMBERS_LIMIT: usize = 10_000;

/// A job, or several by one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selector {
    /// A job, or an array with all of its tasks.
    Job(JobId),
    /// An inclusive range.
    Range(JobId, JobId),
    /// The caller's newest job, finished or not.
    Last,
    /// The caller's unfinished jobs.
    All,
    /// Tasks of an array with these numbers.
    Tasks(JobId, Tasks),
}

/// The jobs of one request: those that are selected and pass the filter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Selected jobs. If empty: the unfinished jobs of the caller, or of the users in the filter.
    #[serde(deserialize_with = "list::<_, _, SELECTORS_LIMIT>")]
    pub which: Vec<Selector>,
    /// Filter by user, state and name; only for unfinished jobs.
    pub filter: JobFilter,
}

impl From<Vec<Selector>> for Selection {
    fn from(which: Vec<Selector>) -> Self {
        Self { which, filter: JobFilter::default() }
    }
}

/// A filter of jobs. Empty lists match every job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobFilter {
    /// Names of users.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub users: Vec<String>,
    /// States, including those of finished jobs.
    #[serde(deserialize_with = "list::<_, _, FILTER_LIMIT>")]
    pub states: Vec<JobState>,
    /// Names of jobs, not of their applications.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub names: Vec<String>,
    /// Names of nodes; one match is enough.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub nodes: Vec<String>,
    /// Names of queues.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub queues: Vec<String>,
    /// The job whose steps are selected. Without it, steps do not pass.
    pub steps_of: Option<JobId>,
}

impl JobFilter {
    /// Returns true if every job passes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the job fits all lists that are not empty.
    pub fn passes(&self, job: &JobReport) -> bool {
        let among = |list: &[String], value: &String| list.is_empty() || list.contains(value);
        among(&self.users, &job.user)
            && among(&self.names, &job.name)
            && (self.queues.is_empty() || job.queue.as_ref().is_some_and(|queue| self.queues.contains(queue)))
            && (self.states.is_empty() || self.states.contains(&job.state))
            && self.steps_of == job.step.map(|(of, _)| of)
            && (self.nodes.is_empty() || job.nodes.iter().any(|node| self.nodes.contains(node)))
    }
}

/// Order of unfinished jobs. Jobs without a value come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOrder {
    /// By number, which is the order of submission.
    Number,
    /// By start.
    Start,
    /// By time limit.
    TimeLimit,
    /// By cores on each node; all cores of a node come last.
    Cores,
}

impl JobOrder {
    /// Returns the value by which a job is ordered.
    pub fn key(self, job: &JobReport) -> i64 {
        match self {
            Self::Number => 0,
            Self::Start => job.started.map_or(i64::MAX, Time::unix_ms),
            Self::TimeLimit => job.time_limit.map_or(i64::MAX, Span::ms),
            Self::Cores => match job.cores {
                Cores::Count(count) => i64::from(count.get()),
                Cores::All => i64::MAX,
            },
        }
    }
}

/// Asks for unfinished jobs in an order, jobs of equal values by number. Tasks of arrays that wait are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingQuery {
    /// The filter.
    pub filter: JobFilter,
    /// The order.
    pub order: JobOrder,
    /// True for the reversed order.
    pub descending: bool,
    /// Continues a long list after this job: its value in the order, and its number.
    pub after: Option<(i64, JobId)>,
    /// Most jobs. The master may answer with fewer and report that more follow.
    pub limit: u32,
}

/// Asks for finished jobs, newest first: those that ended in `[since, until)` and pass the filter, at most `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// The filter.
    pub filter: JobFilter,
    /// Earliest end; `None` for the begin of the records.
    pub since: Option<Time>,
    /// Exclusive latest end; `None` for now.
    pub until: Option<Time>,
    /// Continues a long list after this job: its end and its number.
    pub after: Option<(Time, JobId)>,
    /// Most jobs. The master may answer with fewer and report that more follow.
    pub limit: u32,
}
