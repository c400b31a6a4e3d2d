//! Which jobs a client means: by number, as its newest, as all of its own; and which of many pass a filter.

use limo_model::{JobId, Tasks, Time};
use serde::{Deserialize, Serialize};

use crate::bound::{list, texts};
use crate::limits::{FILTER_LIMIT, NAME_LIMIT, SELECTORS_LIMIT};
use crate::report::JobReport;
use crate::state::JobState;

/// Job numbers that a client names in one wait or one change; more are named in several.
pub const NUMBERS_LIMIT: usize = 10_000;

/// One job, or several by one word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selector {
    /// One job, or one array with all of its tasks.
    Job(JobId),
    /// Both ends are part of it.
    Range(JobId, JobId),
    /// The caller's newest, over or not.
    Last,
    /// The caller's that are not over.
    All,
    /// Of an array those tasks that have these numbers.
    Tasks(JobId, Tasks),
}

/// Jobs that one request is about. Together: the filter leaves some of those that are selected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// None: the caller's that are not over, or, where the filter names users, theirs.
    #[serde(deserialize_with = "list::<_, _, SELECTORS_LIMIT>")]
    pub which: Vec<Selector>,
    /// Its users, states and names; only for jobs that are not over.
    pub filter: JobFilter,
}

impl From<Vec<Selector>> for Selection {
    fn from(which: Vec<Selector>) -> Self {
        Self { which, filter: JobFilter::default() }
    }
}

/// Which jobs a listing shows. An empty list lets every job pass.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobFilter {
    /// Names of users.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub users: Vec<String>,
    /// States, of jobs that are over too.
    #[serde(deserialize_with = "list::<_, _, FILTER_LIMIT>")]
    pub states: Vec<JobState>,
    /// Names of jobs, not of their applications.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub names: Vec<String>,
    /// One of them is enough.
    #[serde(deserialize_with = "texts::<_, NAME_LIMIT, FILTER_LIMIT>")]
    pub nodes: Vec<String>,
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
            && (self.states.is_empty() || self.states.contains(&job.state))
            && (self.nodes.is_empty() || job.nodes.iter().any(|node| self.nodes.contains(node)))
    }
}

/// Finished jobs, newest first: those that ended in `[since, until)` and pass the filter, at most `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Which jobs.
    pub filter: JobFilter,
    /// `None` for the begin of the records.
    pub since: Option<Time>,
    /// `None` for now.
    pub until: Option<Time>,
    /// Only those that stand behind this one in the list: when it ended, and its number. How a long list goes on.
    pub after: Option<(Time, JobId)>,
    /// The master may answer with fewer and say that there are more.
    pub limit: u32,
}
