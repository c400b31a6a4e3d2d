//! Groups of nodes, such as racks and rooms: the nodes of a group together draw at most its limit, besides the power band
//! of the cluster, and may have owners. `sched` enforces this.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::as_text;
use crate::curve::Curve;
use crate::hosts::{HostError, parse_all};
use crate::id::{NameError, check_name};
use crate::owner::OwnerRules;
use crate::reboot::RebootRule;
use crate::sleep::{SleepAfter, SleepRules};
use crate::tariff::{CarbonCharge, CarbonIntensity, CostRatio, Tariff, TariffError};
use crate::time::{Span, Time};
use crate::units::Power;

/// Most groups of a cluster.
pub const GROUPS_LIMIT: usize = 256;

/// Most nodes that the groups of a cluster name together.
const NAMES_LIMIT: usize = 1_000_000;

/// Most times at which a group opens or closes.
const OPEN_LIMIT: usize = 4_096;

/// One group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Names of its nodes.
    pub nodes: BTreeSet<String>,
    /// Upper limit of the draw of its nodes, by the configuration. [`Power::MAX`] stands for no limit.
    #[serde(default = "unlimited")]
    pub limit: Power,
    /// The same by an operator, until the configuration changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_by_operator: Option<Power>,
    /// Rules for their owners, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<OwnerRules>,
    /// Rules for the sleep of its nodes.
    #[serde(default, skip_serializing_if = "SleepRules::are_usual")]
    pub sleep: SleepRules,
    /// Daily reboots of its nodes, if they have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<RebootRule>,
    /// True while the owners may use its nodes, by time on the wall. If it is missing, they may at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Curve<bool>>,
    /// Differences between the cost of its energy and that of the cluster.
    #[serde(default, skip_serializing_if = "Tariff::is_usual")]
    pub tariff: Tariff,
}

fn unlimited() -> Power {
    Power::MAX
}

impl Default for GroupSpec {
    /// Returns a group without nodes and rules.
    fn default() -> Self {
        Self {
            nodes: BTreeSet::new(),
            limit: unlimited(),
            limit_by_operator: None,
            owners: None,
            sleep: SleepRules::default(),
            reboot: None,
            open: None,
            tariff: Tariff::default(),
        }
    }
}

impl GroupSpec {
    /// Returns the upper limit in force.
    pub fn limit(&self) -> Power {
        self.limit_by_operator.unwrap_or(self.limit)
    }

    /// Returns true if owners may use its nodes at that time; false for a group without owners, or at a time that the
    /// curve does not cover.
    pub fn is_open(&self, at: Time) -> bool {
        self.owners.is_some() && self.open.as_ref().is_none_or(|open| open.at(at) == Some(&true))
    }
}

/// The groups of a cluster by name. A node is in one group at most.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Groups(BTreeMap<String, GroupSpec>);

/// Reason why groups cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum GroupError {
    #[error("there are {count} groups: the limit is {GROUPS_LIMIT}")]
    TooMany { count: usize },
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("group.{group}: nodes: {error}")]
    Nodes { group: String, error: HostError },
    #[error("group.{group}: the groups name more than {NAMES_LIMIT} nodes")]
    TooManyNames { group: String },
    #[error("node {node} is in group.{group} and in group.{other}: a node can be in one group only")]
    TwoGroups { node: String, group: String, other: String },
    #[error("group.{group}: limit is {limit}: it must be above 0 W")]
    Limit { group: String, limit: Power },
    #[error("group.{group}: owners: {what} is {span}: it must be from 0s to 7d")]
    Owners { group: String, what: &'static str, span: Span },
    #[error("group.{group}: sleep_after is {after}: it must be from 0s to 7d, or never")]
    SleepAfter { group: String, after: SleepAfter },
    #[error("group.{group}: open has {count} steps: the limit is {OPEN_LIMIT}")]
    Open { group: String, count: usize },
    #[error("group.{group}: {error}")]
    Tariff { group: String, error: TariffError },
}

impl Groups {
    /// Returns groups that agree with each other.
    ///
    /// # Errors
    /// [`GroupError`], naming the group and the value.
    pub fn new(all: BTreeMap<String, GroupSpec>) -> Result<Self, GroupError> {
        let groups = Self(all);
        groups.check()?;
        Ok(groups)
    }

    /// Returns the groups of a configuration file.
    ///
    /// # Errors
    /// The same as for [`Groups::new`].
    pub fn of_tables(tables: BTreeMap<String, GroupTable>) -> Result<Self, GroupError> {
        let spec = |(name, table): (String, GroupTable)| {
            let nodes = parse_all(&table.nodes).map_err(|error| GroupError::Nodes { group: name.clone(), error })?;
            let limit = table.limit.unwrap_or_else(unlimited);
            let tariff = Tariff::of_keys((table.pue, table.price_factor), (table.carbon, table.carbon_charge));
            let sleep = SleepRules { after: table.sleep_after, stays: !table.wake };
            let (owners, reboot) = (table.owners, table.reboot);
            Ok((name, GroupSpec { nodes, limit, owners, sleep, reboot, tariff, ..GroupSpec::default() }))
        };
        Self::new(tables.into_iter().map(spec).collect::<Result<_, GroupError>>()?)
    }

    /// Checks groups that may have come from another program.
    ///
    /// # Errors
    /// The same as for [`Groups::new`].
    pub fn check(&self) -> Result<(), GroupError> {
        if self.0.len() > GROUPS_LIMIT {
            return Err(GroupError::TooMany { count: self.0.len() });
        }
        let mut groups: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, spec) in &self.0 {
            let group = || name.clone();
            check_name("group", name)?;
            if let Some(limit) = [Some(spec.limit), spec.limit_by_operator].into_iter().flatten().find(is_wrong) {
                return Err(GroupError::Limit { group: group(), limit });
            }
            if let Some((what, span)) = spec.owners.and_then(|owners| owners.fault()) {
                return Err(GroupError::Owners { group: group(), what, span });
            }
            spec.tariff.check().map_err(|error| GroupError::Tariff { group: group(), error })?;
            if let Some(after) = spec.sleep.after.filter(|after| !after.is_valid()) {
                return Err(GroupError::SleepAfter { group: group(), after });
            }
            let steps = spec.open.as_ref().map_or(0, |open| open.steps().len());
            if steps > OPEN_LIMIT {
                return Err(GroupError::Open { group: group(), count: steps });
            }
            if spec.nodes.len() > NAMES_LIMIT - groups.len() {
                return Err(GroupError::TooManyNames { group: group() });
            }
            for node in &spec.nodes {
                check_name("node name", node)?;
                if let Some(other) = groups.insert(node, name) {
                    return Err(GroupError::TwoGroups { node: node.clone(), group: other.to_owned(), other: group() });
                }
            }
        }
        Ok(())
    }

    /// Returns true if it has no groups.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the draw of a group is limited.
    pub fn are_limited(&self) -> bool {
        self.0.values().any(|spec| !spec.limit().is_unlimited())
    }

    /// Returns true if the energy of a group has a cost of its own.
    pub fn have_tariffs(&self) -> bool {
        self.0.values().any(|spec| !spec.tariff.is_usual())
    }

    /// Returns true if a group lets its nodes sleep, whatever the rule of the cluster.
    pub fn put_to_sleep(&self) -> bool {
        self.0.values().any(|spec| matches!(spec.sleep.after, Some(SleepAfter::Idle(_))))
    }

    /// Returns all groups in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &GroupSpec)> {
        self.0.iter().map(|(name, spec)| (name.as_str(), spec))
    }

    /// Returns a group.
    pub fn get(&self, name: &str) -> Option<&GroupSpec> {
        self.0.get(name)
    }

    /// Returns the group of a node of that name.
    pub fn of(&self, node: &str) -> Option<&GroupSpec> {
        self.0.values().find(|spec| spec.nodes.contains(node))
    }

    /// Returns these groups with the limits that an operator set for `before`, except where this changes the limit in the
    /// configuration.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        for (name, spec) in &mut self.0 {
            let same = before.0.get(name).filter(|before| before.limit == spec.limit);
            spec.limit_by_operator = same.and_then(|before| before.limit_by_operator);
        }
        self
    }

    /// Returns these groups, one of them with the limit of an operator, or without one; `None` if it has no group of that name.
    ///
    /// # Errors
    /// [`GroupError::Limit`].
    pub fn with_limit(mut self, name: &str, limit: Option<Power>) -> Result<Option<Self>, GroupError> {
        let Some(spec) = self.0.get_mut(name) else { return Ok(None) };
        if let Some(limit) = limit.filter(is_wrong) {
            return Err(GroupError::Limit { group: name.to_owned(), limit });
        }
        spec.limit_by_operator = limit;
        Ok(Some(self))
    }
}

fn is_wrong(limit: &Power) -> bool {
    *limit <= Power::ZERO
}

/// A group in a configuration file: `[group.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTable {
    nodes: Vec<String>,
    #[serde(default, with = "as_text::option")]
    limit: Option<Power>,
    owners: Option<OwnerRules>,
    #[serde(default, with = "as_text::option")]
    pue: Option<CostRatio>,
    #[serde(default, with = "as_text::option")]
    price_factor: Option<CostRatio>,
    #[serde(default, with = "as_text::option")]
    carbon: Option<CarbonIntensity>,
    #[serde(default, with = "as_text::option")]
    carbon_charge: Option<CarbonCharge>,
    #[serde(default, with = "as_text::option")]
    sleep_after: Option<SleepAfter>,
    #[serde(default = "wakes")]
    wake: bool,
    reboot: Option<RebootRule>,
}

fn wakes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Beside;

    fn groups(json: &str) -> Result<Groups, String> {
        let tables = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Groups::of_tables(tables).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_are_lists_as_those_of_queues() {
        let found = groups(r#"{"a": {"nodes": ["n[1-2]", "m"], "limit": "90 W"}}"#).expect("good");
        let specs: Vec<_> = found.iter().collect();
        let [(name, spec)] = specs[..] else { panic!("one group: {found:?}") };
        assert_eq!((name, spec.limit()), ("a", Power::from_watts(90)));
        assert_eq!(spec.nodes.iter().map(String::as_str).collect::<Vec<_>>(), ["m", "n1", "n2"]);
    }

    #[test]
    fn wrong_groups_are_refused() {
        let check = |json: &str, expected: &str| assert_eq!(groups(json).expect_err("refused"), expected, "{json}");
        check(
            r#"{"a b": {"nodes": ["n"], "limit": "9 W"}}"#,
            "the group `a b` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed",
        );
        check(r#"{"a": {"nodes": [], "limit": "9 W"}}"#, "group.a: nodes: the list of nodes is empty");
        check(
            r#"{"a": {"nodes": ["n[1-"], "limit": "9 W"}}"#,
            "group.a: nodes: `n[1-` has a bracket that does not match",
        );
        check(r#"{"a": {"nodes": ["n"], "limit": "0 W"}}"#, "group.a: limit is 0.0 W: it must be above 0 W");
        check(
            r#"{"a": {"nodes": ["n[1-3]"], "limit": "9 W"}, "b": {"nodes": ["n3"], "limit": "9 W"}}"#,
            "node n3 is in group.a and in group.b: a node can be in one group only",
        );
        let many: Vec<String> =
            (0..=GROUPS_LIMIT).map(|of| format!("\"g{of}\": {{\"nodes\": [\"n{of}\"], \"limit\": \"9 W\"}}")).collect();
        check(&format!("{{{}}}", many.join(",")), "there are 257 groups: the limit is 256");
        for (json, part) in [
            (r#"{"a": {"nodes": ["n"], "owners": {}}}"#, "missing field `jobs`"),
            (r#"{"a": {"nodes": ["n"], "owners": {"jobs": "stop"}}}"#, "unknown variant `stop`"),
            (
                r#"{"a": {"nodes": ["n"], "owners": {"jobs": "suspend", "evict_after": "8d"}}}"#,
                "group.a: owners: evict_after is 8d: it must be from 0s to 7d",
            ),
            (r#"{"a": {"nodes": ["n"], "sleep_after": "8d"}}"#, "group.a: sleep_after is 8d: it must be from 0s to 7d"),
            (r#"{"a": {"nodes": ["n"], "sleep_after": "soon"}}"#, "`soon` is neither `never` nor a time"),
            (
                r#"{"a": {"nodes": ["n"], "reboot": {"window": "3-5", "defer": "no"}}}"#,
                "`3-5` is not a time of the day",
            ),
            (
                r#"{"a": {"nodes": ["n"], "reboot": {"window": "03:00-05:00", "defer": "yes"}}}"#,
                "unknown variant `yes`, expected `no` or `until-end`",
            ),
            (r#"{"a": {"nodes": ["n"], "wake": "no"}}"#, "invalid type: string \"no\", expected a boolean"),
            (r#"{"a": {"limit": "9 W"}}"#, "missing field `nodes`"),
            (r#"{"a": {"nodes": ["n"], "limit": 9}}"#, "`9` has no unit"),
            (r#"{"a": {"nodes": ["n"], "limit": "9 W", "price": "1"}}"#, "unknown field `price`"),
        ] {
            let error = groups(json).expect_err("refused");
            assert!(error.contains(part), "{json}: {error}");
        }
        check(r#"{"a": {"nodes": ["n"], "pue": 0.9}}"#, "group.a: pue is 0.9: it must be from 1 to 10");
    }

    #[test]
    fn the_energy_of_a_group_may_have_a_cost_of_its_own() {
        let found = groups(r#"{"a": {"nodes": ["n"], "pue": 1.5, "price_factor": 2, "carbon": "250 g/kWh"}}"#);
        let found = found.expect("good");
        assert!(found.have_tariffs());
        let tariff = found.iter().next().map(|(_, spec)| spec.tariff).expect("a group");
        let (pue, price_factor) = (CostRatio::from_permille(1_500), CostRatio::from_permille(2_000));
        assert_eq!((tariff.pue, tariff.price_factor, tariff.carbon.mg_per_kwh()), (pue, price_factor, 250_000));
        // Records of earlier versions have none.
        let plain = groups(r#"{"a": {"nodes": ["n"]}}"#).expect("good");
        let text = serde_json::to_string(&plain).expect("text");
        assert!(!plain.have_tariffs() && !text.contains("tariff"), "{text}");
        assert_eq!(serde_json::from_str::<Groups>(&text).expect("read back"), plain);
    }

    #[test]
    fn a_group_may_have_owners_without_a_limit() {
        let found = groups(r#"{"a": {"nodes": ["n"], "owners": {"jobs": "suspend", "start_after": "1min"}}}"#);
        let found = found.expect("good");
        let spec = found.iter().next().map(|(_, spec)| spec).expect("a group");
        let (minute, ten) = (Span::from_secs(60), Span::from_secs(600));
        assert_eq!(spec.owners, Some(OwnerRules { jobs: Beside::Suspend, start_after: minute, evict_after: ten }));
        assert!(!found.are_limited() && spec.limit().is_unlimited(), "{spec:?}");
        let limited = found.with_limit("a", Some(Power::from_watts(9))).expect("positive").expect("a group");
        assert!(limited.are_limited());
    }

    #[test]
    fn groups_have_rules_for_sleep() {
        let text = r#"{"a": {"nodes": ["m"], "sleep_after": "30min"}, "b": {"nodes": ["n"], "sleep_after": "never"},
            "c": {"nodes": ["o"], "wake": false}}"#;
        let found = groups(text).expect("good");
        let of: Vec<_> = found.iter().map(|(_, spec)| spec.sleep).collect();
        let half = Some(SleepAfter::Idle(Span::from_secs(1800)));
        let never = Some(SleepAfter::Never);
        let rules = |after, stays| SleepRules { after, stays };
        assert_eq!(of, [rules(half, false), rules(never, false), rules(None, true)]);
        assert!(found.put_to_sleep());
        let text = serde_json::to_string(&found).expect("text");
        assert_eq!(serde_json::from_str::<Groups>(&text).expect("groups"), found);
    }

    #[test]
    fn the_limit_of_an_operator_lasts_until_the_configuration_changes_it() {
        let watts = Power::from_watts;
        let found = groups(r#"{"a": {"nodes": ["n"], "limit": "90 W"}}"#).expect("good");
        let limit = |of: &Groups| of.iter().map(|(_, spec)| spec.limit()).next();
        let lower = found.clone().with_limit("a", Some(watts(50))).expect("positive").expect("a group");
        assert_eq!(limit(&lower), Some(watts(50)));
        assert_eq!(limit(&found.clone().after(&lower)), Some(watts(50)), "the same configuration keeps it");
        let changed = groups(r#"{"a": {"nodes": ["n"], "limit": "80 W"}}"#).expect("good").after(&lower);
        assert_eq!(limit(&changed), Some(watts(80)), "a changed one replaces it");
        assert_eq!(found.clone().with_limit("b", Some(watts(50))), Ok(None));
        let error = found.with_limit("a", Some(Power::ZERO)).expect_err("refused");
        assert_eq!(error.to_string(), "group.a: limit is 0.0 W: it must be above 0 W");
    }
}
