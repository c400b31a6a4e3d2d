//! A measured figure with its limit and the figures of other programs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The limit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    /// Unit of the value; empty for a count.
    pub unit: String,
    pub limit: Option<Limit>,
    /// True if the value is within its limit; `None` without a limit.
    pub reached: Option<bool>,
    /// Figure of other programs; empty if there is none.
    pub peers: String,
}

impl Figure {
    pub fn new(name: &str, value: f64, unit: &str) -> Self {
        Self { name: name.to_owned(), value, unit: unit.to_owned(), limit: None, reached: None, peers: String::new() }
    }

    #[must_use]
    pub fn within(mut self, limit: Limit) -> Self {
        self.reached = Some(match limit {
            Limit::AtLeast(least) => self.value >= least,
            Limit::AtMost(most) => self.value <= most,
        });
        self.limit = Some(limit);
        self
    }

    #[must_use]
    pub fn beside(mut self, peers: &str) -> Self {
        peers.clone_into(&mut self.peers);
        self
    }
}

/// Formats a line of the table: name, value, limit and if it is reached, other programs.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = format!("{} {}", shown(self.value), self.unit);
        let limit = match self.limit {
            None => String::new(),
            Some(Limit::AtLeast(least)) => format!("at least {}", shown(least)),
            Some(Limit::AtMost(most)) => format!("at most {}", shown(most)),
        };
        let reached = match self.reached {
            None => "",
            Some(true) => "reached",
            Some(false) => "MISSED",
        };
        let line = format!("{:<34}{value:>18}  {limit:<20}{reached:<9}{}", self.name, self.peers);
        f.write_str(line.trim_end())
    }
}

/// Formats with three decimals below ten, one below a thousand, and separated thousands above.
fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1_000.0 {
        return format!("{value:.0}");
    }
    if value.abs() < 10.0 {
        return format!("{value:.3}");
    }
    if value.abs() < 1_000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |value, text: &str| assert_eq!(shown(value), text);
        check(0.0, "0");
        check(1.23456, "1.235");
        check(50.0, "50");
        check(99.96, "100.0");
        check(232_542.4, "232,542");
        check(1_000_000.0, "1,000,000");
    }

    #[test]
    fn limits() {
        let figure = |value, limit| Figure::new("x", value, "us").within(limit).reached;
        assert_eq!(figure(50.0, Limit::AtMost(50.0)), Some(true));
        assert_eq!(figure(50.1, Limit::AtMost(50.0)), Some(false));
        assert_eq!(figure(50.1, Limit::AtLeast(50.0)), Some(true));
        assert_eq!(figure(49.9, Limit::AtLeast(50.0)), Some(false));
        let line = Figure::new("after an end, p99", 61.5, "us").within(Limit::AtMost(50.0)).beside("peer").to_string();
        assert_eq!(line, "after an end, p99                            61.5 us  at most 50          MISSED   peer");
    }
}
