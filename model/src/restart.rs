//! Limits of restarts: a job that is evicted again and again wastes energy (htc-sim-2015, section VI).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointEvery;
use crate::ending::Eviction;
use crate::time::Span;

/// Options of a job for its restarts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Restart {
    /// Most restarts after evictions, instead of [`RestartLimits::restarts`].
    pub most: Option<u32>,
    /// Running time between its checkpoints, if it has any.
    pub checkpoint: Option<CheckpointEvery>,
    /// Signal at which its processes make a checkpoint.
    #[serde(default)]
    pub signal: Option<i32>,
    /// Command that makes a checkpoint, instead of the signal.
    #[serde(default)]
    pub command: Option<String>,
}

/// Number of evictions of a job, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say what is counted")]
pub struct Evictions {
    pub by_owner: u32,
    pub by_reboot: u32,
}

impl Evictions {
    /// Returns true if there were none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Counts one more.
    pub fn count(&mut self, why: Eviction) {
        let count = match why {
            Eviction::Owner => &mut self.by_owner,
            Eviction::Reboot => &mut self.by_reboot,
        };
        *count = count.saturating_add(1);
    }

    /// Returns the number of all.
    pub fn all(&self) -> u32 {
        self.by_owner.saturating_add(self.by_reboot)
    }
}

/// A limit that can be switched off: in texts a value, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitOrNone<T>(pub Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for LimitOrNone<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            text => {
                text.parse().map(|limit| Self(Some(limit))).map_err(|error| format!("`{text}` is not none: {error}"))
            }
        }
    }
}

impl<T: fmt::Display> fmt::Display for LimitOrNone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(limit) => limit.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Limits of restarts; `None` stands for no limit. An evicted job that exceeds a limit does not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartLimits {
    /// Most restarts after evictions.
    pub restarts: Option<u32>,
    /// Most restarts after evictions by owners.
    pub by_owner: Option<u32>,
    /// Most restarts after evictions by reboots.
    pub by_reboot: Option<u32>,
    /// Time for which the evicted attempt may have run without an end in sight.
    pub last_run: Option<Span>,
}

impl Default for RestartLimits {
    fn default() -> Self {
        Self { restarts: Some(10), by_owner: None, by_reboot: None, last_run: None }
    }
}

impl RestartLimits {
    /// Returns true if these are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limit that an eviction exceeds: the last of `evictions`, after the attempt ran for `ran`.
    pub fn exceeded(&self, evictions: Evictions, why: Eviction, ran: Span) -> Option<RestartLimit> {
        let (of_reason, most) = match why {
            Eviction::Owner => (evictions.by_owner, self.by_owner),
            Eviction::Reboot => (evictions.by_reboot, self.by_reboot),
        };
        let restarts = self.restarts.filter(|most| evictions.all() > *most).map(RestartLimit::Restarts);
        let of_reason = most.filter(|most| of_reason > *most).map(RestartLimit::OfReason);
        let last_run = self.last_run.filter(|most| ran > *most).map(RestartLimit::LastRun);
        restarts.or(of_reason).or(last_run)
    }
}

/// The limit of restarts that a job exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartLimit {
    /// Of all restarts after evictions.
    Restarts(u32),
    /// Of those for the reason of the last eviction.
    OfReason(u32),
    /// Of the running time of the evicted attempt.
    LastRun(Span),
}

impl fmt::Display for RestartLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restarts(most) => write!(f, "its restarts are limited to {most}"),
            Self::OfReason(most) => write!(f, "its restarts for this reason are limited to {most}"),
            Self::LastRun(most) => write!(f, "it ran for more than {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_allows_as_many_restarts_as_it_says() {
        let limits = RestartLimits {
            restarts: Some(3),
            by_owner: Some(2),
            by_reboot: None,
            last_run: Some(Span::from_secs(60)),
        };
        let mut evictions = Evictions::default();
        let mut evict = |why, secs| {
            evictions.count(why);
            limits.exceeded(evictions, why, Span::from_secs(secs))
        };
        assert_eq!(evict(Eviction::Owner, 60), None);
        assert_eq!(evict(Eviction::Owner, 61), Some(RestartLimit::LastRun(Span::from_secs(60))));
        assert_eq!(evict(Eviction::Reboot, 1), None);
        assert_eq!(evict(Eviction::Owner, 1), Some(RestartLimit::Restarts(3)));
        let none = RestartLimits { restarts: None, ..limits };
        let evictions = Evictions { by_owner: 3, by_reboot: 90 };
        assert_eq!(none.exceeded(evictions, Eviction::Owner, Span::ZERO), Some(RestartLimit::OfReason(2)));
        assert_eq!(none.exceeded(evictions, Eviction::Reboot, Span::ZERO), None);
    }
}
