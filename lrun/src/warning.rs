//! Parser of `--signal`: a signal, and its time before the time limit.

use limo_client::parse_signal;
use limo_model::{Span, UnitError, Warning};

/// Default, as in `srun`.
const BEFORE: Span = Span::from_ms(60_000);

pub fn warning(text: &str) -> Result<Warning, String> {
    let (name, before) = match text.split_once('@') {
        Some((name, span)) => (name, span.parse().map_err(|error: UnitError| error.to_string())?),
        None => (text, BEFORE),
    };
    if before <= Span::ZERO {
        return Err(format!("`{before}` is not above zero"));
    }
    Ok(Warning { signal: parse_signal(name)?, before })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;

    #[test]
    fn a_warning_is_a_signal_and_a_time() {
        let check = |text: &str, number: i32, secs: i64| {
            assert_eq!(warning(text), Ok(Warning { signal: number, before: Span::from_secs(secs) }), "{text}");
        };
        check("USR1", Signal::SIGUSR1 as i32, 60);
        check("sigusr2@90s", Signal::SIGUSR2 as i32, 90);
        check("64@2min", 64, 120);
    }

    #[test]
    fn wrong_warnings_are_refused() {
        let check = |text: &str, words: &str| {
            let error = warning(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        };
        check("B:USR1", "`B:USR1` is not a signal: write its name, such as `USR1`, or its number, 1 to 64");
        check("65", "`65` is not a signal");
        check("", "`` is not a signal");
        check("USR1@90", "`90` has no unit");
        check("USR1@0s", "is not above zero");
    }
}
