//! Causes of a suspension. A job is suspended while it has any cause. Each cause is removed only by the component
//! that set it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Time;

/// A cause of a suspension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The upper limit leaves too little power for the job.
    Limit,
    /// A person suspended it.
    User,
}

/// Causes of a job's suspension, each with the time at which it was set.
///
/// Without a cause, the job continues when the next plan has decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Causes {
    since: Time,
    set: BTreeMap<Cause, Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

/// Forms in snapshots. Older snapshots have only the time, because only the limit suspended jobs.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Limit(Time),
    Causes {
        since: Time,
        set: BTreeMap<Cause, Time>,
        #[serde(default)]
        by: Option<String>,
    },
}

impl From<Written> for Causes {
    fn from(written: Written) -> Self {
        match written {
            Written::Limit(since) => Self::limit(since),
            Written::Causes { since, set, by } => Self { since, set, by },
        }
    }
}

impl Causes {
    /// Makes the causes of a job that the upper limit suspended.
    pub fn limit(now: Time) -> Self {
        Self { since: now, set: BTreeMap::from([(Cause::Limit, now)]), by: None }
    }

    /// Makes the causes of a job that a person suspended.
    pub fn user(now: Time, by: String) -> Self {
        Self { since: now, set: BTreeMap::from([(Cause::User, now)]), by: Some(by) }
    }

    /// Returns the time at which the suspension began.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Returns the time at which a cause was set.
    pub fn since_of(&self, cause: Cause) -> Option<Time> {
        self.set.get(&cause).copied()
    }

    /// Returns the name of the person who suspended the job.
    pub fn by(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Returns true if the next plan may let the job continue.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Adds the upper limit as a cause, if it is not set.
    pub fn add_limit(&mut self, now: Time) {
        self.set.entry(Cause::Limit).or_insert(now);
    }

    /// Adds a person as a cause, if none is set.
    pub fn add_user(&mut self, now: Time, by: String) {
        self.set.entry(Cause::User).or_insert(now);
        self.by.get_or_insert(by);
    }

    /// Removes a cause.
    pub fn remove(&mut self, cause: Cause) {
        self.set.remove(&cause);
        if cause == Cause::User {
            self.by = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    #[test]
    fn each_cause_is_set_and_removed_by_itself() {
        let mut causes = Causes::limit(at(1));
        causes.add_user(at(2), "ada".into());
        causes.add_user(at(3), "bob".into());
        causes.add_limit(at(4));
        let set = |causes: &Causes| [Cause::Limit, Cause::User].map(|cause| causes.since_of(cause));
        assert_eq!((set(&causes), causes.by()), ([Some(at(1)), Some(at(2))], Some("ada")), "the first one counts");
        causes.remove(Cause::Limit);
        assert_eq!((set(&causes), causes.since(), causes.is_empty()), ([None, Some(at(2))], at(1), false));
        causes.remove(Cause::User);
        assert_eq!((set(&causes), causes.by(), causes.is_empty()), ([None, None], None, true));
    }

    #[test]
    fn snapshots_keep_causes_and_older_ones_mean_the_limit() {
        let mut causes = Causes::user(at(5), "ada".into());
        causes.add_limit(at(6));
        let text = serde_json::to_string(&causes).expect("JSON");
        assert_eq!(text, r#"{"since":5,"set":{"limit":6,"user":5},"by":"ada"}"#);
        assert_eq!(serde_json::from_str::<Causes>(&text).expect("as written"), causes);
        assert_eq!(serde_json::from_str::<Causes>("7").expect("as before"), Causes::limit(at(7)));
    }
}
