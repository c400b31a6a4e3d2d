//! Checkpoints: a job that is evicted goes on from the last one (htc-sim-2015, section III-E.5).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Shortest time between two checkpoints.
const SHORTEST: Span = Span::from_secs(1);
/// Longest time between two checkpoints.
const LONGEST: Span = Span::from_secs(30 * 86_400);

/// Longest command for checkpoints, in bytes.
pub const CHECKPOINT_COMMAND_LIMIT: usize = 4096;

/// The way to make checkpoints of a job, and the running time from one to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The way.
    pub by: CheckpointBy,
    /// Running time, without suspensions.
    pub every: Span,
}

/// A way to make a checkpoint of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointBy {
    /// The processes of the job make it at this signal, by its number on Linux.
    Signal(i32),
    /// A shell makes it by this command.
    Command(String),
}

/// The reason for which a command made no checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointFailure {
    /// It ended with this code, which is not 0.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was killed at its time limit.
    TooLong,
}

impl fmt::Display for CheckpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "its command ended with code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} ended its command"),
            Self::TooLong => f.write_str("its command took too long"),
        }
    }
}

/// Running time from one checkpoint of a job to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointEvery {
    /// A fixed time, from 1s to 30d.
    Span(Span),
    /// The time of least expected loss: see [`best_interval`].
    Auto,
}

impl fmt::Display for CheckpointEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for CheckpointEvery {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let span = text.parse::<Span>().map_err(|_| format!("`{text}` is not a span such as 15min, or auto"))?;
        Self::Span(span).checked()
    }
}

impl CheckpointEvery {
    /// Returns the value itself if it is within its limits.
    ///
    /// # Errors
    /// If it is not; the text has the value and the limits.
    pub fn checked(self) -> Result<Self, String> {
        match self {
            Self::Span(span) if !(SHORTEST..=LONGEST).contains(&span) => {
                Err(format!("{span} is not between {SHORTEST} and {LONGEST}"))
            }
            checked => Ok(checked),
        }
    }
}

/// Work of a job that its checkpoints have kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Running time up to the last checkpoint, in all attempts together.
    pub ran: Span,
    /// Duration of the last checkpoint; zero if it is unknown.
    pub took: Span,
    /// The reason, if a later checkpoint failed.
    #[serde(default)]
    pub failed: Option<CheckpointFailure>,
}

impl Kept {
    /// Returns true if no checkpoint has kept anything.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the running time between checkpoints that take `cost`, if a job is evicted once in `mean` of running: the root
/// of 2 x cost x mean, within 1s and 30d (J. W. Young, CACM 17(9), 1974, equation 8).
pub fn best_interval(cost: Span, mean: Span) -> Span {
    let (cost, mean) = (cost.ms().max(1), mean.ms().max(1));
    let square = 2 * u128::from(cost.unsigned_abs()) * u128::from(mean.unsigned_abs());
    Span::from_ms(i64::try_from(square.isqrt()).unwrap_or(i64::MAX)).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        // The root of 2 x 60 s x 10800 s is 1138.42 s.
        assert_eq!(best_interval(Span::from_secs(60), Span::from_secs(10_800)), Span::from_ms(1_138_419));
        assert_eq!(best_interval(Span::ZERO, Span::from_secs(1)), SHORTEST);
        assert_eq!(best_interval(LONGEST, LONGEST), LONGEST);
        assert_eq!("auto".parse(), Ok(CheckpointEvery::Auto));
        assert_eq!("15min".parse(), Ok(CheckpointEvery::Span(Span::from_secs(900))));
        assert_eq!("0s".parse::<CheckpointEvery>(), Err("0s is not between 1s and 30d".into()));
        assert_eq!("often".parse::<CheckpointEvery>(), Err("`often` is not a span such as 15min, or auto".into()));
    }
}
