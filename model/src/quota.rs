//! Limits on a user's jobs and cores at a time, and on energy per day, week or month. Enforces nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Time;
use crate::units::Energy;

/// A window of the calendar in UTC, so that all machines agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// The time since midnight.
    Day,
    /// The time since Monday.
    Week,
    /// The time since the first day of the month.
    Month,
}

const DAY_MS: i64 = 24 * 3_600_000;

impl Window {
    /// All windows, the shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Returns the typed name: `day`, `week`, `month`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the begin of the window that contains `at`.
    pub fn begin(self, at: Time) -> Time {
        let day = at.unix_ms().div_euclid(DAY_MS);
        let first = match self {
            Self::Day => day,
            // The first day of 1970 was a Thursday.
            Self::Week => day - (day + 3).rem_euclid(7),
            Self::Month => day - (day_of_month(day) - 1),
        };
        Time::from_unix_ms(first * DAY_MS)
    }

    /// Returns the end of the window that contains `at`.
    pub fn end(self, at: Time) -> Time {
        let days = match self {
            Self::Day => 1,
            Self::Week => 7,
            // 31 days after the first of a month is always in the next month.
            Self::Month => 31,
        };
        self.begin(Time::from_unix_ms(self.begin(at).unix_ms() + days * DAY_MS))
    }
}

/// Returns the day of the month from 1, of a day counted from the first of 1970, by the Gregorian calendar. Years begin
/// in March, so that the leap day is the last of its year.
fn day_of_month(day: i64) -> i64 {
    // Days are counted from the first of March of the year 0, in periods of 400 years or 146,097 days.
    let of_era = (day + 719_468).rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    of_year - (153 * month + 2) / 5 + 1
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Window {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|window| window.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a period for energy: day, week, month"))
    }
}

/// The limits of a user; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quota {
    /// Jobs that run or may start.
    pub jobs: Option<u32>,
    /// Cores of those jobs.
    pub cores: Option<u32>,
    /// Energy above idle of jobs that ended in the window, plus the energy expected of those that run or may start.
    pub energy: Option<(Energy, Window)>,
    /// Unfinished jobs; each task of an array counts.
    pub submitted: Option<u32>,
}

impl Quota {
    /// Returns true if the quota has no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the quota can keep accepted jobs waiting.
    pub fn holds_back(&self) -> bool {
        self.jobs.is_some() || self.cores.is_some() || self.energy.is_some()
    }
}

/// Formats the quota as typed; empty without limits.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |name: &str, most: Option<u32>| most.map(|most| format!("{name}={most}"));
        let energy = self.energy.map(|(energy, window)| format!("energy={energy}/{window}").replace(' ', ""));
        let parts = [count("jobs", self.jobs), count("cores", self.cores), energy, count("submitted", self.submitted)];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

/// One limit of a quota as typed: `jobs=4`, `cores=none`, `energy=20kWh/day`, `submitted=1000`; `none` removes all
/// limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuotaLimit {
    /// See [`Quota::jobs`].
    Jobs(Option<u32>),
    /// See [`Quota::cores`].
    Cores(Option<u32>),
    /// See [`Quota::energy`].
    Energy(Option<(Energy, Window)>),
    /// See [`Quota::submitted`].
    Submitted(Option<u32>),
    /// Removes all limits.
    None,
}

impl QuotaLimit {
    /// Changes a quota.
    pub fn change(self, quota: &mut Quota) {
        match self {
            Self::Jobs(most) => quota.jobs = most,
            Self::Cores(most) => quota.cores = most,
            Self::Energy(most) => quota.energy = most,
            Self::Submitted(most) => quota.submitted = most,
            Self::None => *quota = Quota::default(),
        }
    }
}

impl FromStr for QuotaLimit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!(
                "`{text}` is not a limit: write for example `jobs=4`, `cores=64`, `energy=20kWh/day`, `submitted=1000`"
            )
        })?;
        let none = value == "none";
        let count = || match value.parse() {
            _ if none => Ok(None),
            Ok(most) => Ok(Some(most)),
            Err(_) => Err(format!("`{value}` in `{text}` is not a number: 0 or more, or none")),
        };
        match name {
            "jobs" => count().map(Self::Jobs),
            "cores" => count().map(Self::Cores),
            "submitted" => count().map(Self::Submitted),
            "energy" if none => Ok(Self::Energy(None)),
            "energy" => energy(value).map(|energy| Self::Energy(Some(energy))),
            _ => Err(format!("`{name}` in `{text}` is not a limit of a quota: jobs, cores, energy, submitted")),
        }
    }
}

fn energy(text: &str) -> Result<(Energy, Window), String> {
    let (energy, window) = text.split_once('/').ok_or_else(|| {
        format!("`{text}` is not an energy in a day, a week or a month: write for example `20kWh/day`")
    })?;
    let energy: Energy = energy.parse().map_err(|error: crate::number::UnitError| error.to_string())?;
    if energy < Energy::ZERO {
        return Err(format!("`{text}` is negative"));
    }
    Ok((energy, window.parse()?))
}

/// The quotas of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quotas {
    /// Quota of users without their own.
    pub default: Quota,
    /// Quotas of single users, by name.
    pub users: BTreeMap<String, Quota>,
}

impl Quotas {
    /// Returns true if no user has a limit.
    pub fn is_empty(&self) -> bool {
        self.default.is_empty() && self.users.is_empty()
    }

    /// Returns the quota of a user, or else the default one.
    pub fn of(&self, user: &str) -> &Quota {
        self.users.get(user).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_the_calendar() {
        // The time 2024-02-29, a Thursday, at 12:00.
        let at = Time::from_unix_ms(1_709_208_000_000);
        let check = |window: Window, begin: i64, end: i64| {
            let found = (window.begin(at).unix_ms(), window.end(at).unix_ms());
            assert_eq!(found, (begin * 1_000, end * 1_000), "{window}");
            assert_eq!(window.begin(window.begin(at)), window.begin(at), "{window}");
            assert_eq!(window.begin(window.end(at)), window.end(at), "{window}");
        };
        check(Window::Day, 1_709_164_800, 1_709_251_200);
        check(Window::Week, 1_708_905_600, 1_709_510_400);
        check(Window::Month, 1_706_745_600, 1_709_251_200);
        // Every month of 800 years has the right length.
        let mut begin = Window::Month.begin(at);
        let lengths = (0..9_600).map(|_| {
            let end = Window::Month.end(begin);
            let days = (end - begin).ms() / DAY_MS;
            begin = end;
            days
        });
        assert_eq!(lengths.sum::<i64>(), 2 * 146_097);
        assert_eq!(Window::Day.begin(Time::from_unix_ms(-1)).unix_ms(), -DAY_MS);
    }

    #[test]
    fn as_it_is_typed() {
        let energy = Some(("20kWh".parse().expect("an energy"), Window::Week));
        let quota = Quota { jobs: Some(4), cores: Some(16), energy, submitted: Some(9) };
        assert_eq!(quota.to_string(), "jobs=4 cores=16 energy=20.000kWh/week submitted=9");
        assert_eq!((Quota::default().to_string(), "year".parse::<Window>().is_err()), (String::new(), true));
    }

    #[test]
    fn limits_one_by_one() {
        let mut quota = Quota::default();
        for text in ["jobs=4", "cores=16", "energy=20kWh/week", "submitted=9", "jobs=none", "jobs=3"] {
            text.parse::<QuotaLimit>().expect(text).change(&mut quota);
        }
        assert_eq!(quota.to_string(), "jobs=3 cores=16 energy=20.000kWh/week submitted=9");
        QuotaLimit::None.change(&mut quota);
        assert_eq!(quota, Quota::default());
        let check = |text: &str, part: &str| {
            let error = text.parse::<QuotaLimit>().expect_err(text);
            assert!(error.contains(part), "{error}");
        };
        check("jobs", "`jobs` is not a limit");
        check("jobs=-1", "`-1` in `jobs=-1` is not a number");
        check("nodes=3", "`nodes` in `nodes=3` is not a limit of a quota");
        check("energy=3kWh", "`3kWh` is not an energy in a day");
        check("energy=3kWh/year", "`year` is not a period");
        check("energy=-3kWh/day", "is negative");
        check("energy=3/day", "3");
    }

    #[test]
    fn an_own_quota_replaces_the_default() {
        let default = Quota { jobs: Some(1), ..Quota::default() };
        let users = BTreeMap::from([("ada".to_owned(), Quota { cores: Some(2), ..Quota::default() })]);
        let quotas = Quotas { default, users };
        assert_eq!((quotas.of("ada").jobs, quotas.of("bob").jobs), (None, Some(1)));
    }
}
