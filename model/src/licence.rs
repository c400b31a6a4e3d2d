//! Licences: countable resources of the whole cluster, such as those of a licence server. `sched` enforces this.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{NameError, check_name};

/// Most kinds of licences of a cluster.
pub const LICENCES_LIMIT: usize = 1_000;

/// Most kinds of licences of a job.
pub const JOB_LICENCES_LIMIT: usize = 16;

/// Most licences of one kind. A round looks at no more than this number of jobs that wait for one kind.
const COUNT_LIMIT: u32 = 100_000;

/// Licences of one kind that a job holds from its place in the queue until its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LicenceCount {
    /// Name of the kind.
    pub name: String,
    /// Their number.
    pub count: NonZeroU32,
}

impl fmt::Display for LicenceCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.count)
    }
}

/// Reason why licences cannot be configured or requested.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum LicenceError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("there are {count} kinds of licences: the limit is {LICENCES_LIMIT}")]
    TooMany { count: usize },
    #[error("licence.{name}: count is {count}: the limit is {COUNT_LIMIT}")]
    Count { name: String, count: u32 },
    #[error("`{text}` is not a number of licences: write 1 or more")]
    Number { text: String },
    #[error("the job names {count} kinds of licences: the limit is {JOB_LICENCES_LIMIT}")]
    TooManyOfJob { count: usize },
    #[error("the job names the licence `{name}` twice")]
    Twice { name: String },
}

impl FromStr for LicenceCount {
    type Err = LicenceError;

    /// Parses `NAME`, `NAME:N` or `NAME=N`, as Slurm does.
    fn from_str(text: &str) -> Result<Self, LicenceError> {
        let (name, count) = text.split_once([':', '=']).unwrap_or((text, "1"));
        check_name("licence", name)?;
        let count = count.parse().map_err(|_| LicenceError::Number { text: crate::clip(count.to_owned(), 32) })?;
        Ok(Self { name: name.to_owned(), count })
    }
}

/// Parses a list such as `matlab:2,ansys`. The result is in the order of names.
///
/// # Errors
/// [`LicenceError`], naming the entry.
pub fn parse_licences(text: &str) -> Result<Vec<LicenceCount>, LicenceError> {
    let mut all = text.split(',').map(str::parse).collect::<Result<Vec<LicenceCount>, _>>()?;
    all.sort_unstable();
    check_licences(&all)?;
    Ok(all)
}

/// Checks the licences of a request: their number, their names, and that each is named once.
///
/// # Errors
/// [`LicenceError`], naming the licence.
pub fn check_licences(licences: &[LicenceCount]) -> Result<(), LicenceError> {
    if licences.len() > JOB_LICENCES_LIMIT {
        return Err(LicenceError::TooManyOfJob { count: licences.len() });
    }
    for (index, licence) in licences.iter().enumerate() {
        check_name("licence", &licence.name)?;
        if licences[..index].iter().any(|other| other.name == licence.name) {
            return Err(LicenceError::Twice { name: licence.name.clone() });
        }
    }
    Ok(())
}

/// The licences of a cluster: how many there are of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Licences(BTreeMap<String, u32>);

impl Licences {
    /// Returns licences with valid names and numbers.
    ///
    /// # Errors
    /// [`LicenceError`], naming the licence.
    pub fn new(all: BTreeMap<String, u32>) -> Result<Self, LicenceError> {
        let licences = Self(all);
        licences.check()?;
        Ok(licences)
    }

    /// Checks licences that may have come from another program.
    ///
    /// # Errors
    /// The same as for [`Licences::new`].
    pub fn check(&self) -> Result<(), LicenceError> {
        if self.0.len() > LICENCES_LIMIT {
            return Err(LicenceError::TooMany { count: self.0.len() });
        }
        for (name, count) in self.iter() {
            check_name("licence", name)?;
            if count > COUNT_LIMIT {
                return Err(LicenceError::Count { name: name.to_owned(), count });
            }
        }
        Ok(())
    }

    /// Returns the licences of a configuration file.
    ///
    /// # Errors
    /// The same as for [`Licences::new`].
    pub fn of_tables(tables: BTreeMap<String, LicenceTable>) -> Result<Self, LicenceError> {
        Self::new(tables.into_iter().map(|(name, table)| (name, table.count)).collect())
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of licences of a kind; `None` for an unknown one.
    pub fn count(&self, name: &str) -> Option<u32> {
        self.0.get(name).copied()
    }

    /// Returns all kinds in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

/// A kind of licence in a configuration file: `[licence.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenceTable {
    count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_names_with_numbers() {
        let check = |text: &str, expected: &str| {
            let found = match parse_licences(text) {
                Ok(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected, "{text}");
        };
        check("matlab", "matlab:1");
        check("matlab:2,ansys=3", "ansys:3 matlab:2");
        check("matlab:0", "`0` is not a number of licences: write 1 or more");
        check("matlab:x", "`x` is not a number of licences: write 1 or more");
        check("matlab,matlab:2", "the job names the licence `matlab` twice");
        check("", "the licence is empty");
        check("a|b", "the licence `a|b` has the character `|`: letters, digits, `.`, `_`, `-`, `+` are allowed");
        let many = (0..17).map(|number| format!("l{number}")).collect::<Vec<_>>().join(",");
        check(&many, "the job names 17 kinds of licences: the limit is 16");
    }

    #[test]
    fn wrong_tables_are_refused() {
        let of = |json: &str| {
            let tables = serde_json::from_str(json).map_err(|error| error.to_string())?;
            Licences::of_tables(tables).map_err(|error| error.to_string())
        };
        let good = of(r#"{"matlab": {"count": 4}, "ansys": {"count": 0}}"#).expect("good");
        assert_eq!([good.count("matlab"), good.count("ansys"), good.count("other")], [Some(4), Some(0), None]);
        let check = |json: &str, expected: &str| {
            let error = of(json).expect_err(json);
            assert!(error.starts_with(expected), "{json}: {error}");
        };
        check(r#"{"matlab": {}}"#, "missing field `count`");
        check(r#"{"matlab": {"count": 1, "used": 1}}"#, "unknown field `used`");
        check(r#"{"matlab": {"count": 100001}}"#, "licence.matlab: count is 100001: the limit is 100000");
        check(r#"{"a b": {"count": 1}}"#, "the licence `a b` has the character ` `");
    }
}
