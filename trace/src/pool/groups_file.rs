//! `groups.toml`: the groups of computers of a pool, with their draws and rules.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use limo_model::{
    Beside, CarbonCharge, CarbonIntensity, CostRatio, DayWindow, GroupSpec, Groups, OwnerRules, Power, SleepAfter,
    SleepRules, Span, Tariff, as_text,
};
use serde::Deserialize;
use thiserror::Error;

use super::opening::OpeningHours;
use crate::input;
use crate::platform::{Draw, Group, Names, Platform, PlatformError, Rest};

/// Most bytes of the file.
const FILE_LIMIT: u64 = 1 << 20;
/// Time to fall asleep or to wake, at the idle draw (htc-sim-2015 gives none).
const SWITCH: Span = Span::from_secs(10);

/// Computers of a pool.
#[derive(Debug, Clone)]
pub struct Pool {
    /// One group for each group of the pool, in the order of their names.
    pub platform: Platform,
    /// The groups, with rules for owners.
    pub groups: Groups,
    /// Hours at which each group is open to its owners; always if there are none.
    pub open: Vec<Option<OpeningHours>>,
    /// Time of the day in which the computers of each group are restarted, if they are.
    pub reboots: Vec<Option<DayWindow>>,
}

/// Reason why the file cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PoolFileError {
    #[error("{file}: the file cannot be read")]
    Read { file: String, source: io::Error },
    #[error("{file}: {reason}")]
    Syntax { file: String, reason: String },
    #[error("{file}: group.{group}: {source}")]
    Value { file: String, group: String, source: PlatformError },
    #[error("{file}: group.{group}: reboot is `{value}`: expected a time of the day, such as `03:00-05:00`")]
    Reboot { file: String, group: String, value: String },
    #[error("{file}: group.{group}: open has `{value}`: expected days and hours, such as `mon-fri 08:00-18:00`")]
    Open { file: String, group: String, value: String },
    #[error("{file}: {reason}")]
    Groups { file: String, reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolFile {
    group: BTreeMap<String, Computers>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Computers {
    computers: u32,
    #[serde(rename = "type")]
    kind: String,
    cores: u32,
    #[serde(with = "as_text")]
    active: Power,
    #[serde(with = "as_text")]
    idle: Power,
    #[serde(default, with = "as_text::option")]
    sleep: Option<Power>,
    open: Option<Vec<String>>,
    reboot: Option<String>,
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
    wake: Option<bool>,
}

/// The rules that htc-sim-2015 describes, with its times where the file has none.
fn usual() -> OwnerRules {
    OwnerRules { jobs: Beside::Suspend, start_after: Span::from_secs(900), evict_after: Span::from_secs(600) }
}

impl Pool {
    /// Returns true if a platform file has groups of computers.
    pub fn is_pool(path: &Path) -> bool {
        let text = input::text(path, FILE_LIMIT).unwrap_or_default();
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("group"))
    }

    /// Reads the file, plain or gzipped.
    ///
    /// # Errors
    /// [`PoolFileError`], naming the group and the value.
    pub fn read(path: &Path) -> Result<Self, PoolFileError> {
        let file = path.display().to_string();
        let text =
            input::text(path, FILE_LIMIT).map_err(|source| PoolFileError::Read { file: file.clone(), source })?;
        Self::parse(&file, &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, PoolFileError> {
        let file = || file.to_owned();
        let parsed: PoolFile =
            toml::from_str(text).map_err(|error| PoolFileError::Syntax { file: file(), reason: error.to_string() })?;
        let (mut platform, mut groups) = (Platform { groups: Vec::new() }, BTreeMap::new());
        let (mut reboots, mut open) = (Vec::new(), Vec::new());
        for (name, of) in parsed.group {
            let nodes: Vec<String> = (1..=of.computers.min(crate::platform::NODE_LIMIT))
                .map(|number| format!("{name}-{number:03}"))
                .collect();
            let draw = Draw { idle: of.idle, busy: of.active };
            let rest = of.sleep.map(|draw| Rest {
                draw,
                down_time: SWITCH,
                down_draw: of.idle,
                up_time: SWITCH,
                up_draw: of.idle,
            });
            let spec = GroupSpec {
                nodes: nodes.iter().cloned().collect(),
                owners: Some(of.owners.unwrap_or_else(usual)),
                tariff: Tariff::of_keys((of.pue, of.price_factor), (of.carbon, of.carbon_charge)),
                sleep: SleepRules { after: of.sleep_after, stays: of.wake == Some(false) },
                ..GroupSpec::default()
            };
            let group = Group {
                names: Names::Listed(nodes),
                count: of.computers,
                cores: of.cores,
                memory: None,
                hardware: of.kind,
                units: Vec::new(),
                draw,
                believed: draw,
                rest,
                start_delay: Span::ZERO,
                variation: None,
            };
            group.check().map_err(|source| PoolFileError::Value { file: file(), group: name.clone(), source })?;
            let window = of.reboot.as_deref().map(|text: &str| {
                let wrong = || PoolFileError::Reboot {
                    file: file(),
                    group: name.clone(),
                    value: input::shown(text.as_bytes()),
                };
                text.parse().map_err(|_| wrong())
            });
            reboots.push(window.transpose()?);
            let wrong = |text: &str| {
                let (group, value) = (name.clone(), input::shown(text.as_bytes()));
                PoolFileError::Open { file: file(), group, value }
            };
            open.push(of.open.as_deref().map(|texts| OpeningHours::parse(texts).map_err(wrong)).transpose()?);
            platform.groups.push(group);
            groups.insert(name, spec);
        }
        let wrong = |reason: String| PoolFileError::Groups { file: file(), reason };
        platform.check().map_err(|error| wrong(error.to_string()))?;
        let groups = Groups::new(groups).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { platform, groups, open, reboots })
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Time;

    use super::*;

    const GROUP: &str = "[group.a]\ncomputers = 2\ntype = \"normal\"\ncores = 2\nactive = \"57 W\"\nidle = \"40 W\"\n";

    #[test]
    fn computers_with_draws_and_rules() {
        let text = format!("{GROUP}sleep = \"2 W\"\nopen = [\"mon-fri 08:00-18:00\"]\nreboot = \"03:00-05:00\"\n");
        let pool = Pool::parse("f", &text).expect("good");
        let group = &pool.platform.groups[0];
        assert_eq!((group.node_name(1), group.draw.busy), ("a-002".to_owned(), Power::from_watts(57)));
        assert_eq!(group.rest.map(|rest| (rest.draw, rest.up_time)), Some((Power::from_watts(2), SWITCH)));
        assert_eq!(pool.open[0].as_ref().map(|open| open.is_open(Time::from_unix_ms(8 * 3_600_000))), Some(true));
        assert_eq!(pool.reboots, ["03:00-05:00".parse().ok()]);
        assert_eq!(pool.groups.iter().next().and_then(|(_, spec)| spec.owners), Some(usual()));
        let text = format!("{GROUP}owners = {{ jobs = \"suspend\", evict_after = \"0s\" }}\n");
        let pool = Pool::parse("f", &text).expect("good");
        assert_eq!(
            pool.groups.iter().next().and_then(|(_, spec)| spec.owners).map(|of| of.evict_after),
            Some(Span::ZERO)
        );
    }

    #[test]
    fn wrong_values_are_refused() {
        for (more, expected) in [
            ("reboot = \"3\"\n", "f: group.a: reboot is `3`: expected a time of the day, such as `03:00-05:00`"),
            (
                "reboot = \"05:00-03:00\"\n",
                "f: group.a: reboot is `05:00-03:00`: expected a time of the day, such as `03:00-05:00`",
            ),
            (
                "open = [\"mon-fri 08:00-18:00\", \"daily\"]\n",
                "f: group.a: open has `daily`: expected days and hours, such as `mon-fri 08:00-18:00`",
            ),
            (
                "owners = { jobs = \"suspend\", evict_after = \"9d\" }\n",
                "f: group.a: owners: evict_after is 9d: it must be from 0s to 7d",
            ),
        ] {
            let error = Pool::parse("f", &format!("{GROUP}{more}")).expect_err("refused");
            assert_eq!(error.to_string(), expected);
        }
        let none = GROUP.replace("computers = 2", "computers = 0");
        assert!(Pool::parse("f", &none).expect_err("refused").to_string().contains("`count` is 0"));
    }
}
