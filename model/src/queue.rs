//! Queues: classes of jobs with nodes, limits, users and an expected wait of their own. Slurm calls them partitions.
//! `sched` enforces this.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::as_text;
use crate::hosts::{HostError, parse_all};
use crate::id::{NameError, check_name};
use crate::text::clip;
use crate::time::Span;

/// Most queues of a cluster. A node keeps the names of those that do not have it.
pub const QUEUES_LIMIT: usize = 64;

/// Most nodes, most users and most groups of users that the queues of a cluster name together.
const NAMES_LIMIT: usize = 1_000_000;

/// Longest name of a user or of a group in bytes, as on Linux.
const USER_LIMIT: usize = 256;

/// Longest time in a queue's settings. Weights of jobs are ratios of such times.
const LONGEST: Span = Span::from_secs(3_650 * 86_400);

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueSpec {
    /// Names of its nodes; empty for all nodes.
    pub nodes: BTreeSet<String>,
    /// Time that its jobs are expected to wait: ewt of power-capping-2018, section 3.
    pub expected_wait: Option<Span>,
    /// Time limit of a job that requests none.
    pub default_time: Option<Span>,
    /// Longest time limit.
    pub max_time: Option<Span>,
    /// Most nodes of a job.
    pub max_nodes: Option<NonZeroU32>,
    /// Users who may submit jobs to it. Empty for all users, unless it has groups.
    pub users: BTreeSet<String>,
    /// Groups of the master's machine whose members may submit jobs to it, too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// True if its jobs do not start, by the configuration.
    pub is_down: bool,
    /// The same by an operator, until the configuration changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_by_operator: Option<bool>,
    /// True if jobs that name no queue are in it.
    pub is_default: bool,
}

impl QueueSpec {
    /// Returns true if jobs of the queue may run on the node of this name.
    pub fn has(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    /// Returns the first of the queue's groups that a user belongs to.
    pub fn group_of(&self, memberships: &BTreeSet<String>) -> Option<&String> {
        self.groups.iter().find(|group| memberships.contains(*group))
    }

    /// Returns true if its jobs do not start.
    pub fn is_closed(&self) -> bool {
        self.down_by_operator.unwrap_or(self.is_down)
    }
}

/// The queues of a cluster by name. Without any, jobs have no queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queues(BTreeMap<String, QueueSpec>);

/// Reason why queues cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum QueueError {
    #[error("there are {count} queues: the limit is {QUEUES_LIMIT}")]
    TooMany { count: usize },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("queue.{queue}: nodes: {error}")]
    Nodes { queue: String, error: HostError },
    #[error("queue.{queue}: the queues name more than {NAMES_LIMIT} {what}")]
    TooManyNames { queue: String, what: &'static str },
    #[error("queue.{queue}: {key} is empty: leave it out to allow all users")]
    NoNames { queue: String, key: &'static str },
    #[error("queue.{queue}: {key} has {name:?}, which is not the name of a user or of a group")]
    NoName { queue: String, key: &'static str, name: String },
    #[error("queue.{queue}: {key} is {value}: it must be above 0s and at most {LONGEST}")]
    Time { queue: String, key: &'static str, value: Span },
    #[error("queue.{queue}: default_time is {default}: the limit is the max_time of {most}")]
    DefaultAboveMost { queue: String, default: Span, most: Span },
    #[error("queue.{queue} and queue.{other} are both the default: only one queue can be")]
    TwoDefaults { queue: String, other: String },
}

impl Queues {
    /// Returns queues that agree with each other.
    ///
    /// # Errors
    /// [`QueueError`], naming the queue and the value.
    pub fn new(all: BTreeMap<String, QueueSpec>) -> Result<Self, QueueError> {
        let queues = Self(all);
        queues.check()?;
        Ok(queues)
    }

    /// Checks queues that may have come from another program.
    ///
    /// # Errors
    /// The same as for [`Queues::new`].
    pub fn check(&self) -> Result<(), QueueError> {
        if self.0.len() > QUEUES_LIMIT {
            return Err(QueueError::TooMany { count: self.0.len() });
        }
        let [mut nodes, mut users, mut groups] = [0; 3];
        for (name, spec) in &self.0 {
            let queue = || name.clone();
            check_name("queue", name)?;
            spec.nodes.iter().try_for_each(|node| check_name("node name", node))?;
            let is_wrong =
                |name: &&String| name.is_empty() || name.len() > USER_LIMIT || name.contains(char::is_control);
            for (key, names) in [("users", &spec.users), ("groups", &spec.groups)] {
                if let Some(name) = names.iter().find(is_wrong) {
                    return Err(QueueError::NoName { queue: queue(), key, name: clip(name.clone(), USER_LIMIT) });
                }
            }
            nodes += spec.nodes.len();
            users += spec.users.len();
            groups += spec.groups.len();
            for (what, count) in [("nodes", nodes), ("users", users), ("groups", groups)] {
                if count > NAMES_LIMIT {
                    return Err(QueueError::TooManyNames { queue: queue(), what });
                }
            }
            let times = [
                ("expected_wait", spec.expected_wait),
                ("default_time", spec.default_time),
                ("max_time", spec.max_time),
            ];
            let is_wrong = |time: &Span| *time <= Span::ZERO || *time > LONGEST;
            for (key, value) in times {
                if let Some(value) = value.filter(is_wrong) {
                    return Err(QueueError::Time { queue: queue(), key, value });
                }
            }
            if let Some((default, most)) = spec.default_time.zip(spec.max_time).filter(|(default, most)| default > most)
            {
                return Err(QueueError::DefaultAboveMost { queue: queue(), default, most });
            }
        }
        let mut defaults = self.0.iter().filter(|(_, spec)| spec.is_default);
        match (defaults.next(), defaults.next()) {
            (Some((queue, _)), Some((other, _))) => {
                Err(QueueError::TwoDefaults { queue: queue.clone(), other: other.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns true if there is no queue.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a queue.
    pub fn get(&self, name: &str) -> Option<&QueueSpec> {
        self.0.get(name)
    }

    /// Returns these queues with the states that an operator set for `before`, except where this changes the state in the
    /// configuration.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        for (name, spec) in &mut self.0 {
            let same = before.get(name).filter(|before| before.is_down == spec.is_down);
            spec.down_by_operator = same.and_then(|before| before.down_by_operator);
        }
        self
    }

    /// Returns these queues, one of them set down or up by an operator, or neither; `None` if it has no queue of that name.
    #[must_use]
    pub fn with_state(mut self, name: &str, is_down: Option<bool>) -> Option<Self> {
        self.0.get_mut(name)?.down_by_operator = is_down;
        Some(self)
    }

    /// Returns all queues in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &QueueSpec)> {
        self.0.iter().map(|(name, spec)| (name.as_str(), spec))
    }

    /// Returns the queue of jobs that name none.
    pub fn default_name(&self) -> Option<&str> {
        self.iter().find(|(_, spec)| spec.is_default).map(|(name, _)| name)
    }

    /// Returns the queues whose jobs must not run on a node, in the order of their names.
    pub fn closed_to(&self, node: &str) -> Vec<String> {
        self.0.iter().filter(|(_, spec)| !spec.has(node)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the weight of the waiting time of a queue's jobs, in thousandths: the longest expected wait of all queues
    /// over its own (power-capping-2018, equation 2). It is 1000 without an expected wait.
    pub fn weight(&self, name: Option<&str>) -> i128 {
        let own = name.and_then(|name| self.get(name)?.expected_wait);
        let longest = self.0.values().filter_map(|spec| spec.expected_wait).max();
        own.zip(longest).map_or(1_000, |(own, longest)| i128::from(longest.ms()) * 1_000 / i128::from(own.ms().max(1)))
    }
}

/// A queue in a configuration file: `[queue.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueTable {
    nodes: Option<Vec<String>>,
    #[serde(with = "as_text::option")]
    expected_wait: Option<Span>,
    #[serde(with = "as_text::option")]
    default_time: Option<Span>,
    #[serde(with = "as_text::option")]
    max_time: Option<Span>,
    max_nodes: Option<NonZeroU32>,
    users: Option<Vec<String>>,
    groups: Option<Vec<String>>,
    state: QueueState,
    default: bool,
}

/// The state of a queue in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum QueueState {
    #[default]
    Up,
    Down,
}

impl Queues {
    /// Returns the queues of a configuration file.
    ///
    /// # Errors
    /// The same as for [`Queues::new`].
    pub fn of_tables(tables: BTreeMap<String, QueueTable>) -> Result<Self, QueueError> {
        let specs = tables.into_iter().map(|(name, table)| Ok((name.clone(), table.spec(&name)?)));
        Self::new(specs.collect::<Result<_, QueueError>>()?)
    }
}

impl QueueTable {
    fn spec(self, name: &str) -> Result<QueueSpec, QueueError> {
        let nodes = self.nodes.as_deref().map(parse_all).transpose();
        let nodes = nodes.map_err(|error| QueueError::Nodes { queue: name.to_owned(), error })?.unwrap_or_default();
        for (key, names) in [("users", &self.users), ("groups", &self.groups)] {
            if names.as_ref().is_some_and(Vec::is_empty) {
                return Err(QueueError::NoNames { queue: name.to_owned(), key });
            }
        }
        Ok(QueueSpec {
            nodes,
            expected_wait: self.expected_wait,
            default_time: self.default_time,
            max_time: self.max_time,
            max_nodes: self.max_nodes,
            users: self.users.into_iter().flatten().collect(),
            groups: self.groups.into_iter().flatten().collect(),
            is_down: self.state == QueueState::Down,
            down_by_operator: None,
            is_default: self.default,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(json: &str) -> Result<Queues, String> {
        let tables = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Queues::of_tables(tables).map_err(|error| error.to_string())
    }

    #[test]
    fn a_node_is_closed_to_the_queues_that_lack_it() {
        let found = queues(r#"{"a": {"nodes": ["n[1-2]", "m"]}, "b": {"nodes": ["n2,n3"]}, "all": {}}"#).expect("good");
        let check = |node: &str, expected: &[&str]| assert_eq!(found.closed_to(node), expected, "{node}");
        check("n1", &["b"]);
        check("n2", &[]);
        check("n3", &["a"]);
        check("m", &["b"]);
        check("other", &["a", "b"]);
    }

    #[test]
    fn weights_are_ratios_of_expected_waits() {
        // 24 h over 30 min is 48, over 6 h it is 4.
        let text = r#"{"debug": {"expected_wait": "30min"}, "parallel": {"expected_wait": "6h"},
            "longpar": {"expected_wait": "24h"}, "other": {}}"#;
        let found = queues(text).expect("good");
        let check = |name: Option<&str>, expected| assert_eq!(found.weight(name), expected, "{name:?}");
        check(Some("debug"), 48_000);
        check(Some("parallel"), 4_000);
        check(Some("longpar"), 1_000);
        check(Some("other"), 1_000);
        check(Some("unknown"), 1_000);
        check(None, 1_000);
    }

    #[test]
    fn wrong_queues_are_refused() {
        let check = |json: &str, expected: &str| assert_eq!(queues(json).expect_err("refused"), expected, "{json}");
        check(
            r#"{"a b": {}}"#,
            "the queue `a b` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed",
        );
        check(r#"{"a": {"nodes": []}}"#, "queue.a: nodes: the list of nodes is empty");
        check(r#"{"a": {"nodes": ["n[1-"]}}"#, "queue.a: nodes: `n[1-` has a bracket that does not match");
        check(r#"{"a": {"users": []}}"#, "queue.a: users is empty: leave it out to allow all users");
        check(
            r#"{"a": {"users": ["ada", ""]}}"#,
            "queue.a: users has \"\", which is not the name of a user or of a group",
        );
        check(r#"{"a": {"groups": []}}"#, "queue.a: groups is empty: leave it out to allow all users");
        check(
            r#"{"a": {"groups": ["a\nb"]}}"#,
            "queue.a: groups has \"a\\nb\", which is not the name of a user or of a group",
        );
        check(r#"{"a": {"max_time": "0s"}}"#, "queue.a: max_time is 0s: it must be above 0s and at most 3650d");
        check(
            r#"{"a": {"default_time": "2h", "max_time": "1h"}}"#,
            "queue.a: default_time is 2h: the limit is the max_time of 1h",
        );
        check(
            r#"{"a": {"default": true}, "b": {}, "c": {"default": true}}"#,
            "queue.a and queue.c are both the default: only one queue can be",
        );
        let many: Vec<String> = (0..=QUEUES_LIMIT).map(|number| format!("\"q{number}\": {{}}")).collect();
        check(&format!("{{{}}}", many.join(",")), "there are 65 queues: the limit is 64");
        assert!(queues(r#"{"a": {"max_nodes": 0}}"#).is_err_and(|error| error.contains("nonzero")));
        assert!(queues(r#"{"a": {"state": "drained"}}"#).is_err_and(|error| error.contains("unknown variant")));
        assert!(queues(r#"{"a": {"node": "n1"}}"#).is_err_and(|error| error.contains("unknown field `node`")));
    }

    #[test]
    fn the_default_is_found() {
        let found = queues(r#"{"a": {}, "b": {"default": true, "state": "down"}}"#).expect("good");
        assert_eq!(found.default_name(), Some("b"));
        assert!(found.get("b").is_some_and(|spec| spec.is_down && spec.is_closed()));
        let up = found.clone().with_state("b", Some(false)).expect("a queue");
        assert!(up.get("b").is_some_and(|spec| !spec.is_closed()));
        assert_eq!(found.clone().after(&up), up, "the same configuration leaves the state");
        let mut changed = found.clone();
        changed.0.get_mut("b").expect("a queue").is_down = false;
        assert_eq!(changed.clone().after(&up), changed, "a changed one replaces it");
        assert_eq!(found.clone().with_state("c", Some(true)), None);
        assert_eq!(Queues::default().default_name(), None);
    }
}
