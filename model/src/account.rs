//! Accounts: a tree of projects to which jobs belong, with limits and shares. `sched` enforces this.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{NameError, check_name};
use crate::quota::Quota;
use crate::text::clip;

/// Most accounts of a cluster.
pub const ACCOUNTS_LIMIT: usize = 1_000;

/// Most accounts from a leaf to a root.
pub const ACCOUNT_DEPTH_LIMIT: usize = 8;

/// Most users and most groups of one account.
const MEMBERS_LIMIT: usize = 100_000;

/// Longest name of a user or of a group in bytes, as on Linux.
const MEMBER_LIMIT: usize = 256;

/// Longest description in bytes.
const DESCRIPTION_LIMIT: usize = 256;

/// Largest share.
const SHARE_LIMIT: u32 = 1_000_000;

/// One account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountSpec {
    /// The account to which it belongs; `None` for a root.
    pub parent: Option<String>,
    /// Text for people, at most 256 bytes.
    pub description: String,
    /// Users who may use it.
    pub users: BTreeSet<String>,
    /// Groups of the master's machine whose members may use it, too.
    pub groups: BTreeSet<String>,
    /// Limits for the jobs of the account and of the accounts below it. Accounts have no limit of energy.
    pub quota: Quota,
    /// Weight among the accounts with the same parent, at most 1,000,000.
    pub share: u32,
    /// True if users of no other account use it.
    pub is_default: bool,
}

impl AccountSpec {
    /// Returns true if a user, who belongs to these groups, is a member.
    pub fn lists(&self, user: &str, groups: &BTreeSet<String>) -> bool {
        self.users.contains(user) || !self.groups.is_disjoint(groups)
    }
}

/// The accounts of a cluster by name. Without any, the account of a job is a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Accounts(BTreeMap<String, AccountSpec>);

/// Reason why accounts cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum AccountError {
    #[error("there are {count} accounts: the limit is {ACCOUNTS_LIMIT}")]
    TooMany { count: usize },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("account.{account}: the parent `{parent}` is not an account")]
    NoParent { account: String, parent: String },
    #[error("account.{account}: its parents form a circle, or are more than {}", ACCOUNT_DEPTH_LIMIT - 1)]
    TooDeep { account: String },
    #[error("account.{account}: {key} has {name:?}, which is not the name of a user or of a group")]
    NoMember { account: String, key: &'static str, name: String },
    #[error("account.{account}: {key} has {count} names: the limit is {MEMBERS_LIMIT}")]
    TooManyMembers { account: String, key: &'static str, count: usize },
    #[error(
        "account.{account}: the description has {length} bytes or control characters: the limit is {DESCRIPTION_LIMIT}"
    )]
    Description { account: String, length: usize },
    #[error("account.{account}: share is {share}: the limit is {SHARE_LIMIT}")]
    Share { account: String, share: u32 },
    #[error("account.{account} and account.{other} are both the default: only one account can be")]
    TwoDefaults { account: String, other: String },
}

/// Returns the first of these names that cannot be the name of a user or of a group, clipped.
pub(crate) fn wrong_member(names: &BTreeSet<String>) -> Option<String> {
    let is_wrong = |name: &&String| name.is_empty() || name.len() > MEMBER_LIMIT || name.contains(char::is_control);
    names.iter().find(is_wrong).map(|name| clip(name.clone(), MEMBER_LIMIT))
}

impl Accounts {
    /// Returns accounts that agree with each other.
    ///
    /// # Errors
    /// [`AccountError`], naming the account and the value.
    pub fn new(all: BTreeMap<String, AccountSpec>) -> Result<Self, AccountError> {
        let accounts = Self(all);
        accounts.check()?;
        Ok(accounts)
    }

    /// Checks accounts that may have come from another program.
    ///
    /// # Errors
    /// The same as for [`Accounts::new`].
    pub fn check(&self) -> Result<(), AccountError> {
        if self.0.len() > ACCOUNTS_LIMIT {
            return Err(AccountError::TooMany { count: self.0.len() });
        }
        for (name, spec) in &self.0 {
            check_name("account", name)?;
            let account = || name.clone();
            if let Some(parent) = spec.parent.as_ref().filter(|parent| !self.0.contains_key(*parent)) {
                return Err(AccountError::NoParent { account: account(), parent: clip(parent.clone(), 64) });
            }
            if self.chain(name).count() == ACCOUNT_DEPTH_LIMIT + 1 {
                return Err(AccountError::TooDeep { account: account() });
            }
            for (key, names) in [("users", &spec.users), ("groups", &spec.groups)] {
                if names.len() > MEMBERS_LIMIT {
                    return Err(AccountError::TooManyMembers { account: account(), key, count: names.len() });
                }
                if let Some(name) = wrong_member(names) {
                    return Err(AccountError::NoMember { account: account(), key, name });
                }
            }
            let length = spec.description.len();
            if length > DESCRIPTION_LIMIT || spec.description.contains(char::is_control) {
                return Err(AccountError::Description { account: account(), length });
            }
            if spec.share > SHARE_LIMIT {
                return Err(AccountError::Share { account: account(), share: spec.share });
            }
        }
        let mut defaults = self.0.iter().filter(|(_, spec)| spec.is_default);
        match (defaults.next(), defaults.next()) {
            (Some((account, _)), Some((other, _))) => {
                Err(AccountError::TwoDefaults { account: account.clone(), other: other.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Returns true if no account is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an account.
    pub fn get(&self, name: &str) -> Option<&AccountSpec> {
        self.0.get(name)
    }

    /// Returns all accounts in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AccountSpec)> {
        self.0.iter().map(|(name, spec)| (name.as_str(), spec))
    }

    /// Returns an account and those above it, up to its root. Empty for an unknown one.
    pub fn chain<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, &'a AccountSpec)> {
        let find = |name: &str| self.0.get_key_value(name).map(|(name, spec)| (name.as_str(), spec));
        let above = move |(_, spec): &(&str, &'a AccountSpec)| find(spec.parent.as_deref()?);
        // One more than allowed, so that `check` can tell.
        std::iter::successors(find(name), above).take(ACCOUNT_DEPTH_LIMIT + 1)
    }

    /// Returns true if a user, who belongs to these groups, may use an account.
    pub fn admits(&self, name: &str, user: &str, groups: &BTreeSet<String>) -> bool {
        self.get(name).is_some_and(|spec| spec.is_default || spec.lists(user, groups))
    }

    /// Returns the account of a user who names none: the first that lists the user, else the default.
    pub fn of_user(&self, user: &str, groups: &BTreeSet<String>) -> Option<&str> {
        let own = self.iter().find(|(_, spec)| spec.lists(user, groups));
        own.or_else(|| self.iter().find(|(_, spec)| spec.is_default)).map(|(name, _)| name)
    }

    /// Returns true if an account has a limit.
    pub fn are_limited(&self) -> bool {
        self.0.values().any(|spec| !spec.quota.is_empty())
    }
}

/// An account in a configuration file: `[account.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccountTable {
    parent: Option<String>,
    description: String,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
    max_running_jobs: Option<u32>,
    max_submit_jobs: Option<u32>,
    max_cores: Option<u32>,
    share: Option<u32>,
    default: bool,
}

impl Accounts {
    /// Returns the accounts of a configuration file.
    ///
    /// # Errors
    /// The same as for [`Accounts::new`].
    pub fn of_tables(tables: BTreeMap<String, AccountTable>) -> Result<Self, AccountError> {
        let spec = |table: AccountTable| AccountSpec {
            parent: table.parent,
            description: table.description,
            users: table.users,
            groups: table.groups,
            quota: Quota {
                jobs: table.max_running_jobs,
                cores: table.max_cores,
                submitted: table.max_submit_jobs,
                energy: None,
            },
            share: table.share.unwrap_or(1),
            is_default: table.default,
        };
        Self::new(tables.into_iter().map(|(name, table)| (name, spec(table))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(json: &str) -> Result<Accounts, String> {
        let tables = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Accounts::of_tables(tables).map_err(|error| error.to_string())
    }

    #[test]
    fn users_have_the_first_account_that_lists_them() {
        let text = r#"{"physics": {}, "optics": {"parent": "physics", "users": ["ada"]},
            "theory": {"parent": "physics", "users": ["ada"], "groups": ["staff"]}, "guests": {"default": true}}"#;
        let found = accounts(text).expect("good");
        let of = |user: &str, group: &str| found.of_user(user, &BTreeSet::from([group.to_owned()]));
        assert_eq!(
            (of("ada", ""), of("bob", "staff"), of("bob", "")),
            (Some("optics"), Some("theory"), Some("guests"))
        );
        let admits = |name: &str, user: &str| found.admits(name, user, &BTreeSet::new());
        assert!(admits("theory", "ada") && admits("guests", "bob"));
        assert!(!admits("physics", "ada"), "a member of a child may use the child only");
        assert!(!admits("theory", "bob") && !admits("other", "ada"));
        assert_eq!(found.chain("optics").map(|(name, _)| name).collect::<Vec<_>>(), ["optics", "physics"]);
    }

    #[test]
    fn wrong_accounts_are_refused() {
        let check = |json: &str, expected: &str| assert_eq!(accounts(json).expect_err("refused"), expected, "{json}");
        check(r#"{"a": {"parent": "b"}}"#, "account.a: the parent `b` is not an account");
        let circle = "account.a: its parents form a circle, or are more than 7";
        check(r#"{"a": {"parent": "b"}, "b": {"parent": "a"}}"#, circle);
        check(r#"{"a": {"users": [""]}}"#, "account.a: users has \"\", which is not the name of a user or of a group");
        check(r#"{"a": {"share": 1000001}}"#, "account.a: share is 1000001: the limit is 1000000");
        check(
            r#"{"a": {"default": true}, "b": {"default": true}}"#,
            "account.a and account.b are both the default: only one account can be",
        );
        let long = format!(r#"{{"a": {{"description": "{}"}}}}"#, "x".repeat(257));
        check(&long, "account.a: the description has 257 bytes or control characters: the limit is 256");
        assert!(accounts(r#"{"a": {"max_nodes": 1}}"#).is_err_and(|error| error.contains("unknown field `max_nodes`")));
        // Eight accounts in a line are allowed, and nine are not.
        let line = |count: usize| {
            let tables = (1..count).map(|n| format!(r#""a{n}": {{"parent": "a{}"}}"#, n - 1)).collect::<Vec<_>>();
            accounts(&format!(r#"{{"a0": {{}}, {}}}"#, tables.join(",")))
        };
        assert!(line(8).is_ok() && line(9).is_err_and(|error| error.starts_with("account.a8: its parents")));
    }
}
