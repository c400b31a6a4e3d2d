//! Daily reboots of the nodes of a group (htc-sim-2015, section III): each node has a time of its own in a window.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::digest::Digest;
use crate::time::{Span, Time};

const DAY: Span = Span::from_secs(86_400);

/// A time of each day, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayWindow {
    from: Span,
    until: Span,
}

impl DayWindow {
    /// Returns the time of the day at which it begins.
    pub fn from(&self) -> Span {
        self.from
    }

    /// Returns the time of the day at which it ends.
    pub fn until(&self) -> Span {
        self.until
    }

    /// Returns the time of the day at which a node has its turn. The turns are spread by the names of the nodes.
    pub fn turn(&self, node: &str) -> Span {
        let length = u64::try_from((self.until - self.from).ms()).unwrap_or_default().max(1);
        let offset = Digest::new().with(node.as_bytes()).value() % length;
        self.from + Span::from_ms(i64::try_from(offset).unwrap_or_default())
    }

    /// Returns the next turn of a node after `now`, and the end of its window.
    pub fn next_turn(&self, node: &str, now: Time) -> (Time, Time) {
        let turn = self.turn(node);
        let today = Time::from_unix_ms(now.unix_ms().div_euclid(DAY.ms()) * DAY.ms());
        let midnight = if today + turn > now { today } else { today + DAY };
        (midnight + turn, midnight + self.until)
    }
}

impl fmt::Display for DayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |at: Span| (at.ms() / 3_600_000, at.ms() / 60_000 % 60);
        let ((from, minute), (until, last)) = (time(self.from), time(self.until));
        write!(f, "{from:02}:{minute:02}-{until:02}:{last:02}")
    }
}

impl FromStr for DayWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            let (hours, minutes) = text.trim().split_once(':')?;
            let (hours, minutes) = (hours.parse::<u8>().ok()?, minutes.parse::<u8>().ok()?);
            (hours <= 24 && minutes < 60).then(|| Span::from_secs(i64::from(hours) * 3_600 + i64::from(minutes) * 60))
        };
        let times = text.split_once('-').and_then(|(from, until)| Some((time(from)?, time(until)?)));
        let window = times.filter(|(from, until)| from < until && *until <= DAY);
        let window = window.map(|(from, until)| Self { from, until });
        window.ok_or_else(|| format!("`{text}` is not a time of the day, such as `03:00-05:00`"))
    }
}

/// Effect of a reboot on the jobs of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deferral {
    /// They are evicted if all of them may run again; else the node waits for their end.
    No,
    /// The node waits for their end, and does not reboot after the end of the window.
    UntilEnd,
}

/// The rule of a group. In a configuration file: `reboot = { ... }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebootRule {
    /// Time in which each node has its turn.
    #[serde(with = "as_text")]
    pub window: DayWindow,
    /// Effect on jobs.
    pub defer: Deferral,
}

/// Progress of the reboot of a node by the rule of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reboot {
    /// Its turn has come: it takes no new jobs, and reboots when it has no job and no owner, but not after `until`. If
    /// it `evicts`, its jobs end and run again, provided that all of them may.
    Wanted {
        /// End of the window, in cluster time.
        until: Time,
        /// True if jobs do not keep it from the reboot.
        evicts: bool,
    },
    /// It was ordered to reboot, and had this boot id.
    Ordered {
        /// The boot id.
        boot: String,
    },
    /// It did not reboot, for this reason, and takes jobs again.
    Failed {
        /// For people.
        reason: String,
    },
}

impl Reboot {
    /// Returns true while it keeps jobs from its node.
    pub fn closes(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Span {
        text.parse().expect("a time")
    }

    #[test]
    fn windows_are_times_of_one_day() {
        let window: DayWindow = "3:00-05:30".parse().expect("a window");
        assert_eq!((window.from, window.until()), (at("3h"), at("5h30min")));
        assert_eq!(window.to_string(), "03:00-05:30");
        for wrong in ["", "03:00", "05:00-03:00", "03:00-03:00", "03:60-04:00", "23:00-24:01", "a:00-05:00"] {
            let error = wrong.parse::<DayWindow>().expect_err("refused");
            assert_eq!(error, format!("`{wrong}` is not a time of the day, such as `03:00-05:00`"));
        }
    }

    #[test]
    fn each_node_has_one_turn_a_day() {
        let window: DayWindow = "03:00-05:00".parse().expect("a window");
        let turns: Vec<Span> = (0..100).map(|node| window.turn(&format!("n{node}"))).collect();
        assert!(turns.iter().all(|turn| (at("3h")..at("5h")).contains(turn)), "{turns:?}");
        assert!(turns.iter().any(|turn| *turn < at("4h")) && turns.iter().any(|turn| *turn > at("4h")));
        let day = |days| Time::from_unix_ms(0) + DAY.scaled(days, 1);
        let (turn, until) = window.next_turn("n1", day(9));
        assert_eq!((turn, until), (day(9) + window.turn("n1"), day(9) + at("5h")));
        let before = turn - Span::from_ms(1);
        assert_eq!(window.next_turn("n1", before), (turn, until));
        assert_eq!(window.next_turn("n1", turn), (turn + DAY, until + DAY), "the next one is tomorrow");
    }
}
