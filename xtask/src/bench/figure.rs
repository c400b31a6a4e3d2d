//! The results of the benchmark as text and as JSON.

use serde_json::{Map, Value, json};

/// The results of one part.
#[derive(Debug)]
pub struct Part {
    name: &'static str,
    what: String,
    rows: Vec<Row>,
    elsewhere: &'static [Elsewhere],
    notes: Vec<String>,
}

/// A figure measured on another machine.
#[derive(Debug, Clone, Copy)]
pub struct Elsewhere {
    pub who: &'static str,
    pub found: &'static str,
}

#[derive(Debug)]
struct Row {
    /// Name in JSON, which ends in the unit.
    key: String,
    label: String,
    value: f64,
    aim: Option<Aim>,
}

#[derive(Debug, Clone, Copy)]
pub enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Aim {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn in_words(self, key: &str) -> String {
        let (words, value) = match self {
            Self::AtMost(most) => ("at most", most),
            Self::AtLeast(least) => ("at least", least),
        };
        format!("{words} {}", shown(key, value))
    }
}

/// Symbols of units, by the ends of keys.
const UNITS: [(&str, &str); 11] = [
    ("_mb_per_s", " MB/s"),
    ("_per_s", "/s"),
    ("_percent", " %"),
    ("_mb", " MB"),
    ("_mib", " MiB"),
    ("_kib", " KiB"),
    ("_bytes", " B"),
    ("_ms", " ms"),
    ("_us", " us"),
    ("_s", " s"),
    ("_ratio", ""),
];

fn shown(key: &str, value: f64) -> String {
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end)).map(|(_, unit)| *unit);
    let is_count = unit.is_none_or(|unit| unit == " B");
    let digits = match value.abs() {
        _ if is_count => 0,
        small if small < 10.0 => 2,
        small if small < 100.0 => 1,
        _ => 0,
    };
    let unit = unit.unwrap_or_default();
    format!("{value:.digits$}{unit}")
}

impl Part {
    pub fn new(name: &'static str, what: impl Into<String>, elsewhere: &'static [Elsewhere]) -> Self {
        Self { name, what: what.into(), rows: Vec::new(), elsewhere, notes: Vec::new() }
    }

    /// Adds a figure; `key` ends in its unit.
    pub fn row(&mut self, key: impl Into<String>, label: impl Into<String>, value: f64) {
        self.rows.push(Row { key: key.into(), label: label.into(), value, aim: None });
    }

    /// Adds a figure with a lower or an upper bound.
    pub fn aim(&mut self, key: impl Into<String>, label: impl Into<String>, (value, aim): (f64, Aim)) {
        self.rows.push(Row { key: key.into(), label: label.into(), value, aim: Some(aim) });
    }

    /// Adds a note about the conditions of the figures.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.what);
        for Row { key, label, value, aim } in &self.rows {
            text += &format!("  {label:<52} {:>12}", shown(key, *value));
            if let Some(aim) = aim {
                let reached = if aim.is_reached(*value) { "" } else { "  MISSED" };
                text += &format!("   aim: {}{reached}", aim.in_words(key));
            }
            text.push('\n');
        }
        for Elsewhere { who, found } in self.elsewhere {
            text += &format!("  elsewhere: {who}: {found}\n");
        }
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text
    }

    pub fn json(&self) -> Value {
        let figures: Map<String, Value> = self.rows.iter().map(|row| (row.key.clone(), json!(row.value))).collect();
        let aim = |row: &Row| {
            let aim = row.aim?;
            let (word, value) = match aim {
                Aim::AtMost(most) => ("at_most", most),
                Aim::AtLeast(least) => ("at_least", least),
            };
            Some((row.key.clone(), json!({ word: value, "reached": aim.is_reached(row.value) })))
        };
        let aims: Map<String, Value> = self.rows.iter().filter_map(aim).collect();
        let elsewhere: Vec<Value> =
            self.elsewhere.iter().map(|other| json!({ "who": other.who, "found": other.found })).collect();
        json!({
            "name": self.name, "what": self.what, "figures": figures, "aims": aims, "elsewhere": elsewhere,
            "notes": self.notes,
        })
    }
}

/// Returns the median; 0 without values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 500)
}

/// Returns the value below which `permille` thousandths of the values lie; 0 without values.
pub fn quantile(values: &[f64], permille: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * permille / 1000).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_keys() {
        let check = |key: &str, value: f64, expected: &str| assert_eq!(shown(key, value), expected);
        check("lrun_ms", 8.214, "8.21 ms");
        check("lrun_ms", 34.3, "34.3 ms");
        check("relay_mb_per_s", 1649.4, "1649 MB/s");
        check("submissions_per_s", 1234.5, "1234/s");
        check("resident_mb", 117.6, "118 MB");
        check("journal_bytes", 7.0, "7 B");
        check("survivors", 30.0, "30");
        check("lrun_ms", 10.0, "10.0 ms");
        check("lrun_ms", 100.0, "100 ms");
        check("beside_ratio", 0.816, "0.82");
    }

    #[test]
    fn aims_are_reached_or_not() {
        let mut part = Part::new("true", "a command", &[Elsewhere { who: "X", found: "9 ms" }]);
        part.row("plain_ms", "plain", 1.0);
        part.aim("above_ms", "above", (5.5, Aim::AtMost(5.0)));
        part.aim("share_ratio", "share", (0.9, Aim::AtLeast(0.8)));
        part.aim("most_s", "most", (2.0, Aim::AtMost(2.0)));
        part.aim("least_per_s", "least", (3.0, Aim::AtLeast(3.0)));
        part.aim("below_per_s", "below", (2.0, Aim::AtLeast(3.0)));
        let text = part.text();
        assert!(text.contains("5.50 ms   aim: at most 5.00 ms  MISSED\n"), "{text}");
        assert_eq!(text.matches("MISSED").count(), 2, "{text}");
        assert!(text.contains("0.90   aim: at least 0.80\n") && text.contains("elsewhere: X: 9 ms"), "{text}");
        let json = part.json();
        assert_eq!(json["aims"]["above_ms"], json!({ "at_most": 5.0, "reached": false }));
        assert_eq!((&json["figures"]["plain_ms"], &json["aims"]["plain_ms"]), (&json!(1.0), &Value::Null));
    }

    #[test]
    fn quantiles() {
        assert_eq!((quantile(&[1.0, 2.0], 1000), quantile(&[4.0, 2.0, 3.0, 1.0], 499)), (2.0, 2.0));
        assert_eq!((median(&[3.0, 1.0, 2.0]), quantile(&[1.0, 2.0], 990), median(&[])), (2.0, 2.0, 0.0));
    }
}
