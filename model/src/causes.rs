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
    /// The owner of a node of it is there.
    Owner,
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
    /// Time at which an owner evicts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    evicted_at: Option<Time>,
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
        #[serde(default)]
        evicted_at: Option<Time>,
    },
}

impl From<Written> for Causes {
    fn from(written: Written) -> Self {
        match written {
            Written::Limit(since) => Self::limit(since),
            Written::Causes { since, set, by, evicted_at } => Self { since, set, by, evicted_at },
        }
    }
}

impl Causes {
    /// Makes the causes of a job that the upper limit suspended.
    pub fn limit(now: Time) -> Self {
        Self::new(Cause::Limit, now)
    }

    /// Makes the causes of a job that a person suspended.
    pub fn user(now: Time, by: String) -> Self {
        Self { by: Some(by), ..Self::new(Cause::User, now) }
    }

    /// Makes the causes of a job that an owner suspended, and evicts at a time.
    pub fn owner(now: Time, evicted_at: Option<Time>) -> Self {
        Self { evicted_at, ..Self::new(Cause::Owner, now) }
    }

    fn new(cause: Cause, now: Time) -> Self {
        Self { since: now, set: BTreeMap::from([(cause, now)]), by: None, evicted_at: None }
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

    /// Returns the time at which an owner evicts the job.
    pub fn evicted_at(&self) -> Option<Time> {
        self.evicted_at
    }

    /// Returns true if others may use the job's power: a person or an owner suspended it.
    pub fn free_power(&self) -> bool {
        self.set.contains_key(&Cause::User) || self.set.contains_key(&Cause::Owner)
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

    /// Adds the owner of a node as a cause, if none is set, and changes the time at which the job is evicted.
    pub fn add_owner(&mut self, now: Time, evicted_at: Option<Time>) {
        self.set.entry(Cause::Owner).or_insert(now);
        self.evicted_at = evicted_at;
    }

    /// Removes a cause.
    pub fn remove(&mut self, cause: Cause) {
        self.set.remove(&cause);
        match cause {
            Cause::Limit => {}
            Cause::User => self.by = None,
            Cause::Owner => self.evicted_at = None,
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
    fn an_owner_is_a_cause_with_a_time() {
        let mut causes = Causes::owner(at(1), Some(at(9)));
        causes.add_owner(at(2), Some(at(7)));
        causes.add_limit(at(3));
        assert_eq!(
            (causes.evicted_at(), causes.since_of(Cause::Owner), causes.free_power()),
            (Some(at(7)), Some(at(1)), true)
        );
        let text = serde_json::to_string(&causes).expect("JSON");
        assert_eq!(serde_json::from_str::<Causes>(&text).expect("as written"), causes);
        causes.remove(Cause::Owner);
        assert_eq!((causes.evicted_at(), causes.is_empty(), causes.free_power()), (None, false, false));
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
