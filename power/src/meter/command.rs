//! Runs a command that prints watts, for meters without direct support.
//!
//! The first number on stdout counts, with an optional unit: `41.5`, `Power: 41.5 W`, `0.0415 kW`. Only a unit may
//! follow it on its line, so that volts, or a number with a decimal comma, are not taken for watts.

use std::time::Duration;

use limo_model::Power;

use super::error::MeterError;
use super::run::{self, LIMIT};
use super::{Meter, Reading, plausible};

/// Units that a command may print, and their forms in the model. `ipmitool` prints `Watts`.
const UNITS: [(&str, &str); 5] = [("W", "W"), ("mW", "mW"), ("kW", "kW"), ("Watts", "W"), ("watts", "W")];

/// Draw by a command.
#[derive(Debug)]
pub struct Command {
    text: String,
    limit: Duration,
}

impl Command {
    /// Makes a meter. `text` is passed to `sh -c` and may take 5 s.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), limit: LIMIT }
    }

    /// Sets another time limit.
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

impl Meter for Command {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let command = self.text.clone();
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(&self.text);
        let ran = run::succeeded(shell, &command, self.limit)?;
        if ran.stdout.trim().is_empty() && ran.stderr.trim().is_empty() {
            return Err(MeterError::Silent { command });
        }
        match watts(&ran.stdout) {
            Some(draw) => plausible(draw, || format!("the meter command `{command}`")),
            None => Err(MeterError::Nonsense { command, printed: ran.shown() }),
        }
    }
}

/// Returns the first number of a text with its unit, by default watts.
pub(crate) fn watts(text: &str) -> Option<Power> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    text.lines().find_map(|line| {
        let starts = |(at, c): &(usize, char)| {
            c.is_ascii_digit() && !line[..*at].ends_with(|before| is_word(before) || before == '.')
        };
        let (digits, _) = line.char_indices().find(starts)?;
        let start = if line[..digits].ends_with('-') { digits - 1 } else { digits };
        Some(quantity(&line[start..], is_number))
    })?
}

/// Parses `41.5 W`. A separator must follow the unit.
fn quantity(text: &str, is_number: impl Fn(char) -> bool) -> Option<Power> {
    let end =
        text.char_indices().find(|(at, c)| !is_number(*c) && (*at > 0 || *c != '-')).map_or(text.len(), |(at, _)| at);
    let rest = &text[end..];
    let word = rest.trim_start();
    let unit = if word.is_empty() {
        "W"
    } else {
        let length = word.find(|c: char| !c.is_alphanumeric()).unwrap_or(word.len());
        UNITS.iter().find(|(printed, _)| *printed == &word[..length])?.1
    };
    format!("{} {unit}", &text[..end]).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units() {
        let check = |text: &str, expected: Option<i64>| assert_eq!(watts(text).map(Power::mw), expected, "{text:?}");
        check("41.5\n", Some(41_500));
        check("41.5 W\n", Some(41_500));
        check("Power: 250mW, mean\n", Some(250));
        check("\n\n0.0415 kW", Some(41_500));
        check("    Instantaneous power reading:                   220 Watts\n    Minimum: 4 Watts\n", Some(220_000));
        check("eth0: 12 W", Some(12_000));
        check("-3 W", Some(-3_000));
        check("", None);
        check("no sensor", None);
        check("230 V 0.2 A 46 W", None);
        check("45,2 W", None);
        check("1.2.3", None);
        check("4.5e1", None);
        check("12 at noon", None);
        check("99999999999999999999999 W", None);
    }
}
