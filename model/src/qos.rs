//! QOS (quality of service): a class of jobs with a priority, limits per user, and a longest time. `sched` enforces this.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::account::wrong_member;
use crate::as_text;
use crate::id::{NameError, check_name};
use crate::job::PRIORITY_LIMIT;
use crate::quota::Quota;
use crate::time::Span;

/// Most QOS of a cluster.
pub const QOS_LIMIT: usize = 64;

/// Most names in one list of a QOS.
const NAMES_LIMIT: usize = 100_000;

/// One QOS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosSpec {
    /// Added to the priority of each job; within plus and minus [`PRIORITY_LIMIT`].
    pub priority: i32,
    /// Limits for the jobs of each user. A QOS has no limit of energy or of submitted jobs.
    pub quota: Quota,
    /// Longest time limit; also that of a job that requests none.
    pub max_time: Option<Span>,
    /// Users who may use it. With no users, groups and accounts, all may.
    pub users: BTreeSet<String>,
    /// Groups of the master's machine whose members may use it, too.
    pub groups: BTreeSet<String>,
    /// Accounts whose jobs may use it, too, with the accounts below them.
    pub accounts: BTreeSet<String>,
    /// True if jobs that name no QOS have it.
    pub is_default: bool,
}

/// The QOS of a cluster by name. Without any, the QOS of a job is a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QosClasses(BTreeMap<String, QosSpec>);

/// Reason why QOS cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum QosError {
    #[error("there are {count} QOS: the limit is {QOS_LIMIT}")]
    TooMany { count: usize },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("qos.{qos}: priority is {priority}: it must be within -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}")]
    Priority { qos: String, priority: i32 },
    #[error("qos.{qos}: max_time is {value}: it must be above 0s")]
    Time { qos: String, value: Span },
    #[error("qos.{qos}: {key} has {name:?}, which is not a possible name")]
    NoMember { qos: String, key: &'static str, name: String },
    #[error("qos.{qos}: {key} has {count} names: the limit is {NAMES_LIMIT}")]
    TooManyMembers { qos: String, key: &'static str, count: usize },
    #[error("qos.{qos} and qos.{other} are both the default: only one QOS can be")]
    TwoDefaults { qos: String, other: String },
}

impl QosClasses {
    /// Returns QOS that agree with each other.
    ///
    /// # Errors
    /// [`QosError`], naming the QOS and the value.
    pub fn new(all: BTreeMap<String, QosSpec>) -> Result<Self, QosError> {
        let classes = Self(all);
        classes.check()?;
        Ok(classes)
    }

    /// Checks QOS that may have come from another program.
    ///
    /// # Errors
    /// The same as for [`QosClasses::new`].
    pub fn check(&self) -> Result<(), QosError> {
        if self.0.len() > QOS_LIMIT {
            return Err(QosError::TooMany { count: self.0.len() });
        }
        for (name, spec) in &self.0 {
            check_name("QOS", name)?;
            let qos = || name.clone();
            if !(-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(&spec.priority) {
                return Err(QosError::Priority { qos: qos(), priority: spec.priority });
            }
            if let Some(value) = spec.max_time.filter(|time| *time <= Span::ZERO) {
                return Err(QosError::Time { qos: qos(), value });
            }
            for (key, names) in [("users", &spec.users), ("groups", &spec.groups), ("accounts", &spec.accounts)] {
                if names.len() > NAMES_LIMIT {
                    return Err(QosError::TooManyMembers { qos: qos(), key, count: names.len() });
                }
                if let Some(name) = wrong_member(names) {
                    return Err(QosError::NoMember { qos: qos(), key, name });
                }
            }
        }
        let mut defaults = self.0.iter().filter(|(_, spec)| spec.is_default);
        match (defaults.next(), defaults.next()) {
            (Some((qos, _)), Some((other, _))) => Err(QosError::TwoDefaults { qos: qos.clone(), other: other.clone() }),
            _ => Ok(()),
        }
    }

    /// Returns true if no QOS is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a QOS.
    pub fn get(&self, name: &str) -> Option<&QosSpec> {
        self.0.get(name)
    }

    /// Returns all QOS in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &QosSpec)> {
        self.0.iter().map(|(name, spec)| (name.as_str(), spec))
    }

    /// Returns the QOS of jobs that name none.
    pub fn default_name(&self) -> Option<&str> {
        self.iter().find(|(_, spec)| spec.is_default).map(|(name, _)| name)
    }

    /// Returns true if a QOS has a limit.
    pub fn are_limited(&self) -> bool {
        self.0.values().any(|spec| !spec.quota.is_empty())
    }
}

/// A QOS in a configuration file: `[qos.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QosTable {
    priority: i32,
    max_running_jobs_per_user: Option<u32>,
    max_cores_per_user: Option<u32>,
    #[serde(with = "as_text::option")]
    max_time: Option<Span>,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
    accounts: BTreeSet<String>,
    default: bool,
}

impl QosClasses {
    /// Returns the QOS of a configuration file.
    ///
    /// # Errors
    /// The same as for [`QosClasses::new`].
    pub fn of_tables(tables: BTreeMap<String, QosTable>) -> Result<Self, QosError> {
        let spec = |table: QosTable| QosSpec {
            priority: table.priority,
            quota: Quota { jobs: table.max_running_jobs_per_user, cores: table.max_cores_per_user, ..Quota::default() },
            max_time: table.max_time,
            users: table.users,
            groups: table.groups,
            accounts: table.accounts,
            is_default: table.default,
        };
        Self::new(tables.into_iter().map(|(name, table)| (name, spec(table))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_qos_are_refused() {
        let of = |json: &str| {
            let tables = serde_json::from_str(json).map_err(|error| error.to_string())?;
            QosClasses::of_tables(tables).map_err(|error| error.to_string())
        };
        let good = of(r#"{"long": {"max_time": "2d", "max_cores_per_user": 8}, "short": {"default": true}}"#);
        let good = good.expect("good");
        assert_eq!((good.default_name(), good.are_limited()), (Some("short"), true));
        let check = |json: &str, expected: &str| assert_eq!(of(json).expect_err("refused"), expected, "{json}");
        check(r#"{"a": {"priority": 10001}}"#, "qos.a: priority is 10001: it must be within -10000 to 10000");
        check(r#"{"a": {"max_time": "0s"}}"#, "qos.a: max_time is 0s: it must be above 0s");
        check(r#"{"a": {"accounts": [""]}}"#, "qos.a: accounts has \"\", which is not a possible name");
        check(
            r#"{"a": {"default": true}, "b": {"default": true}}"#,
            "qos.a and qos.b are both the default: only one QOS can be",
        );
    }
}
