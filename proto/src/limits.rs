//! Limits on the size of a client's request. Decoding refuses more. A client that checks first can name the part that
//! is too large.

use limo_model::{JOB_LICENCES_LIMIT, PREDICTED_LIMIT, Request};
use thiserror::Error;

use crate::energy::EnergyBy;
use crate::message::{Change, ClientToMaster};
use crate::queries::{DryRunQuery, JobsQuery, Query, SelectQuery};
use crate::select::{JobFilter, Selection};

/// Longest name in bytes.
pub(crate) const NAME_LIMIT: usize = 256;

/// Most entries in each list of a filter.
pub(crate) const FILTER_LIMIT: usize = 1_000;

/// Most selectors in one request.
pub(crate) const SELECTORS_LIMIT: usize = 1_000;

/// Most nodes in one request.
pub(crate) const NODES_LIMIT: usize = 10_000;

/// Most days in one query about energy: 27 years.
pub(crate) const DAYS_LIMIT: usize = 10_000;

/// Most profiles in one change.
pub(crate) const PROFILES_LIMIT: usize = 4_096;

/// Most factors of units in one change.
pub const FACTORS_LIMIT: usize = 4_096;

/// Most parts in one change of the policy.
pub(crate) const PARTS_LIMIT: usize = 5;

/// Most descriptions of nodes in one change.
pub(crate) const SPECS_LIMIT: usize = 256;

/// A part of a message that is too large.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TooLarge {
    #[error("the {place} takes {size} bytes: the limit is {limit}")]
    Bytes { place: &'static str, size: usize, limit: usize },
    #[error("{count} {place}: the limit is {limit}")]
    Count { place: &'static str, count: usize, limit: usize },
}

fn count(place: &'static str, count: usize, limit: usize) -> Result<(), TooLarge> {
    if count > limit { Err(TooLarge::Count { place, count, limit }) } else { Ok(()) }
}

fn names(place: &'static str, names: &[String], limit: usize) -> Result<(), TooLarge> {
    count(place, names.len(), limit)?;
    match names.iter().map(String::len).find(|size| *size > NAME_LIMIT) {
        Some(size) => Err(TooLarge::Bytes { place: "longest of the names", size, limit: NAME_LIMIT }),
        None => Ok(()),
    }
}

impl ClientToMaster {
    /// Checks that every part is within its bound; the master refuses to decode anything else.
    ///
    /// # Errors
    /// [`TooLarge`], naming the first part above its bound.
    pub fn check(&self) -> Result<(), TooLarge> {
        match self {
            Self::SendExec(exec) => {
                exec.launch.check()?;
                check_request(&exec.request)
            }
            Self::Attach { more, .. } => count("nodes", more.len(), NODES_LIMIT),
            Self::Ask(query) => query.check(),
            Self::ChangeConf(change) => change.check(),
            _ => Ok(()),
        }
    }
}

fn check_request(request: &Request) -> Result<(), TooLarge> {
    names("included nodes", &request.include, NODES_LIMIT)?;
    names("excluded nodes", &request.exclude, NODES_LIMIT)?;
    names("types of hardware", &request.hardware, NODES_LIMIT)?;
    names("variants", &request.variants, NODES_LIMIT)?;
    count("predictions", request.predicted.len(), PREDICTED_LIMIT)?;
    count("licences", request.licences.len(), JOB_LICENCES_LIMIT)
}

impl Query {
    fn check(&self) -> Result<(), TooLarge> {
        match self {
            Self::Jobs(JobsQuery { filter, .. }) => filter.check(),
            Self::DryRun(DryRunQuery(request)) => check_request(request),
            Self::Select(SelectQuery { selection, .. }) => selection.check(),
            Self::History(finished) => finished.filter.check(),
            Self::Listing(query) => query.filter.check(),
            Self::Energy(query) => {
                if let EnergyBy::Days(days) = &query.by {
                    count("days", days.len(), DAYS_LIMIT)?;
                }
                query.filter.check()
            }
            _ => Ok(()),
        }
    }
}

impl Change {
    fn check(&self) -> Result<(), TooLarge> {
        match self {
            Self::Drain { nodes, .. }
            | Self::StopNodes { nodes, .. }
            | Self::Resume { nodes }
            | Self::RemoveNodes(nodes) => names("nodes", nodes, NODES_LIMIT),
            Self::Policy { parts, .. } => count("parts of the policy", parts.len(), PARTS_LIMIT),
            Self::SetProfiles(profiles) => count("profiles", profiles.len(), PROFILES_LIMIT),
            Self::SetVariation(factors) => count("factors of units", factors.len(), FACTORS_LIMIT),
            Self::AddNodes(specs) => count("nodes to add", specs.len(), SPECS_LIMIT),
            Self::CancelSelected { selection, .. } => selection.check(),
            _ => Ok(()),
        }
    }
}

impl Selection {
    fn check(&self) -> Result<(), TooLarge> {
        count("selected jobs or ranges", self.which.len(), SELECTORS_LIMIT)?;
        self.filter.check()
    }
}

impl JobFilter {
    fn check(&self) -> Result<(), TooLarge> {
        names("users in the filter", &self.users, FILTER_LIMIT)?;
        count("states in the filter", self.states.len(), FILTER_LIMIT)?;
        names("job names in the filter", &self.names, FILTER_LIMIT)?;
        names("nodes in the filter", &self.nodes, FILTER_LIMIT)?;
        names("queues in the filter", &self.queues, FILTER_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::select::Selector;

    /// Checks that the decoder agrees with the message's own check, at the bound and above it.
    fn check(message: impl Fn(usize) -> ClientToMaster, limit: usize, expected: &str) {
        let decode =
            |message| Frame::<ClientToMaster>::decode(Frame::Message(message).encode().expect("below a frame"));
        assert_eq!(message(limit).check(), Ok(()));
        decode(message(limit)).expect("at the bound");
        assert_eq!(message(limit + 1).check().expect_err("above the bound").to_string(), expected);
        let refused = decode(message(limit + 1)).expect_err("above the bound").to_string();
        assert!(refused.contains(&format!("the limit is {limit}")), "{refused}");
    }

    #[test]
    fn a_client_and_the_decoder_agree_on_the_bounds() {
        let ask = |query| ClientToMaster::Ask(Box::new(query));
        let change = |change| ClientToMaster::ChangeConf(Box::new(change));
        let select =
            |count| ask(Query::Select(SelectQuery { selection: vec![Selector::All; count].into(), live: true }));
        check(select, SELECTORS_LIMIT, "1001 selected jobs or ranges: the limit is 1000");
        let named = |length: usize| {
            let filter = JobFilter { names: vec!["x".repeat(length)], ..JobFilter::default() };
            ask(Query::Jobs(JobsQuery { filter, from: limo_model::JobId(0), ended: 0 }))
        };
        check(named, NAME_LIMIT, "the longest of the names takes 257 bytes: the limit is 256");
        let users = |count: usize| {
            let filter = JobFilter { users: vec!["ada".into(); count], ..JobFilter::default() };
            change(Change::CancelSelected { selection: Selection { which: Vec::new(), filter }, signal: None })
        };
        check(users, FILTER_LIMIT, "1001 users in the filter: the limit is 1000");
        let drain = |count: usize| change(Change::Drain { nodes: vec!["n1".into(); count], reason: String::new() });
        check(drain, NODES_LIMIT, "10001 nodes: the limit is 10000");
        let rule = limo_model::PartRule::Idle(limo_model::IdleRule::PowerOff);
        let policy = |count| change(Change::Policy { preset: limo_model::Preset::Easy, parts: vec![rule; count] });
        check(policy, PARTS_LIMIT, "6 parts of the policy: the limit is 5");
        let name =
            limo_model::UnitName { application: String::new(), node: "n1".into(), unit: "cpu".into(), cap: None };
        let factors = |count| change(Change::SetVariation(vec![(name.clone(), None); count]));
        check(factors, FACTORS_LIMIT, "4097 factors of units: the limit is 4096");
    }
}
