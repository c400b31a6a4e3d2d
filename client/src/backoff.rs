//! Computes the pauses before further calls to an absent master, and the time to give up. Uses no clock.

use std::str::FromStr;
use std::time::Duration;

use limo_model::{Backoff, Span, UnitError};

const PAUSES: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };

/// Option for the time that a client waits for an absent master.
#[derive(Debug, Clone, clap::Args)]
pub struct ReconnectArg {
    /// Give up when the master has been away for this long
    #[arg(long, env = "LIMO_RECONNECT_TIMEOUT", value_name = "SPAN", default_value = "60s", hide_env_values = true)]
    #[arg(help_heading = "General")]
    pub reconnect_timeout: Patience,
}

/// Longest time that a client waits for an absent master; not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub Duration);

impl FromStr for Patience {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let span: Span = text.parse()?;
        let ms = u64::try_from(span.ms()).map_err(|_| UnitError::Negative { value: text.to_owned() })?;
        Ok(Self(Duration::from_millis(ms)))
    }
}

/// The pauses between calls: 50 ms, doubled up to 2 s, for as long as the patience lasts.
#[derive(Debug, Clone)]
pub struct Retries {
    patience: Duration,
    failures: u32,
    spent: Duration,
}

impl Retries {
    /// Begins with a pause of 50 ms.
    pub fn new(patience: Patience) -> Self {
        Self { patience: patience.0, failures: 0, spent: Duration::ZERO }
    }

    /// Adds the time of a successful call. The next message of the master clears it.
    pub fn spend(&mut self, took: Duration) {
        self.spent += took;
    }

    /// Returns the pause before the next call, or `None` when the patience is used up. `last_took` is the time of the
    /// last pause and its call.
    pub fn pause(&mut self, last_took: Duration) -> Option<Duration> {
        self.spent += last_took;
        let left = self.patience.checked_sub(self.spent).filter(|left| !left.is_zero())?;
        self.failures = self.failures.saturating_add(1);
        Some(PAUSES.pause(self.failures).min(left))
    }

    /// Starts again, because the master has answered.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.spent = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let mut backoff = Retries::new("5s".parse().expect("a span"));
        let mut last = Duration::ZERO;
        let mut pauses = Vec::new();
        while let Some(pause) = backoff.pause(last) {
            pauses.push(pause.as_millis());
            last = pause;
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 1850]);
        backoff.reset();
        assert_eq!(backoff.pause(Duration::ZERO), Some(PAUSES.first));
    }

    #[test]
    fn patience_has_a_unit() {
        assert_eq!("1min".parse(), Ok(Patience(Duration::from_secs(60))));
        assert!("60".parse::<Patience>().is_err());
        assert!("-1s".parse::<Patience>().is_err());
    }
}
