//! What `--signal` takes: a signal, and how long before the time limit it is sent.

use std::str::FromStr;

use limo_model::{Span, UnitError, Warning};
use nix::sys::signal::Signal;

/// As `srun` has it.
const BEFORE: Span = Span::from_ms(60_000);

/// The highest real-time signal of Linux.
const LAST_SIGNAL: i32 = 64;

pub fn warning(text: &str) -> Result<Warning, String> {
    let (name, before) = match text.split_once('@') {
        Some((name, span)) => (name, span.parse().map_err(|error: UnitError| error.to_string())?),
        None => (text, BEFORE),
    };
    if before <= Span::ZERO {
        return Err(format!("`{before}` is not longer than zero"));
    }
    Ok(Warning { signal: signal(name)?, before })
}

/// `USR1`, `SIGUSR1` or `10`.
fn signal(name: &str) -> Result<i32, String> {
    let upper = name.to_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let by_number = || name.parse::<i32>().ok().filter(|number| (1..=LAST_SIGNAL).contains(number));
    let by_name = || Signal::from_str(&full).ok().map(|signal| signal as i32);
    by_number().or_else(by_name).ok_or_else(|| {
        format!("`{name}` is not a signal: write for example `USR1`, or a number from 1 to {LAST_SIGNAL}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_and_its_time() {
        let check = |text: &str, number: i32, secs: i64| {
            assert_eq!(warning(text), Ok(Warning { signal: number, before: Span::from_secs(secs) }), "{text}");
        };
        check("USR1", Signal::SIGUSR1 as i32, 60);
        check("sigusr2@90s", Signal::SIGUSR2 as i32, 90);
        check("64@2min", 64, 120);
    }

    #[test]
    fn refusals() {
        let check = |text: &str, words: &str| {
            let error = warning(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        };
        check("B:USR1", "`B:USR1` is not a signal: write for example `USR1`, or a number from 1 to 64");
        check("65", "`65` is not a signal");
        check("", "`` is not a signal");
        check("USR1@90", "`90` has no unit");
        check("USR1@0s", "is not longer than zero");
    }
}
