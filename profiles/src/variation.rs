//! Factors of units as a text file, for `lconf variation import` and `export`: CSV with a header. Written factors are read
//! back equal.
//!
//! ```text
//! application,node,unit,cap,power,duration,runs
//! cg,n17,cpu,,1.041,0.998,12
//! ```
//!
//! Columns may have any order. An empty `application` means all of them, an empty `cap` no cap. `power` and `duration` are
//! ratios to the typical values of the hardware, above 0.1 and below 10, with at most six decimals. `runs` is 0 for factors that
//! learning must not change, and may be missing. Lines that begin with `#` are comments.

use std::io;

use limo_model::{Factor, Power, UnitName, decimal};

use crate::table::{Columns, Row, TextError};
use crate::text::thousandths;

/// The columns, in the order in which they are written.
const COLUMNS: Columns =
    Columns { names: &["application", "node", "unit", "cap", "power", "duration", "runs"], optional: &["runs"] };

/// Writes `factors` with a header.
///
/// # Errors
/// The errors of `sink`.
pub fn write(factors: &[(UnitName, Factor)], sink: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS.names)?;
    for (key, factor) in factors {
        writer.write_record([
            key.application.clone(),
            key.node.clone(),
            key.unit.clone(),
            key.cap.map_or_else(String::new, |cap| thousandths(cap.mw(), "W")),
            decimal::text(factor.power.into(), 6),
            decimal::text(factor.duration.into(), 6),
            factor.runs.to_string(),
        ])?;
    }
    writer.flush()
}

/// Reads a file of factors, each with its line.
///
/// # Errors
/// [`TextError`] for the first error, with its line, column and value.
pub fn read(source: impl io::Read) -> Result<Vec<(u64, UnitName, Factor)>, TextError> {
    COLUMNS.read(source, |row| {
        let key = UnitName {
            application: row.optional("application", |row| row.name("application", "application"))?.unwrap_or_default(),
            node: row.name("node", "node name")?,
            unit: row.name("unit", "unit name")?,
            cap: row.optional("cap", |row| row.quantity::<Power>("cap"))?,
        };
        let runs = row.optional("runs", |row| row.runs("runs"))?.unwrap_or(0);
        Ok((key, Factor { power: ratio(row, "power")?, duration: ratio(row, "duration")?, runs }))
    })
}

/// Parses a ratio as millionths.
fn ratio(row: &Row<'_>, column: &'static str) -> Result<u32, TextError> {
    let text = row.text(column);
    let millionths = decimal::parse(text, 6).and_then(|value| u32::try_from(value).ok());
    let valid = millionths.filter(|value| (Factor::ABOVE + 1..Factor::BELOW).contains(value));
    valid.ok_or_else(|| {
        let problem = "is not a factor above 0.1 and below 10 with at most six decimals, such as 1.041";
        row.refused(column, format!("`{text}` {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(application: &str, node: &str, cap: Option<Power>) -> UnitName {
        UnitName { application: application.to_owned(), node: node.to_owned(), unit: "cpu".to_owned(), cap }
    }

    #[test]
    fn written_factors_are_read_back() {
        let factors = vec![
            (named("", "n0", None), Factor { power: 1_041_000, duration: 998_001, runs: 0 }),
            (named("cg", "n1", Some(Power::from_mw(40_500))), Factor { power: 100_001, duration: 9_999_999, runs: 12 }),
        ];
        let mut written = Vec::new();
        write(&factors, &mut written).expect("written");
        let lines = read(&*written).expect("read");
        assert_eq!(lines.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(lines.into_iter().map(|(_, key, factor)| (key, factor)).collect::<Vec<_>>(), factors);
        let text = String::from_utf8(written).expect("text");
        assert_eq!(text.lines().nth(1), Some(",n0,cpu,,1.041,0.998001,0"));
    }

    #[test]
    fn a_wrong_line_is_named_with_its_column_and_value() {
        let refused = |line: &str| {
            let text = format!("node,unit,application,cap,power,duration\nn0,cpu,cg,,1,1\n{line}\n");
            read(text.as_bytes()).expect_err("refused").to_string()
        };
        let range = "is not a factor above 0.1 and below 10 with at most six decimals, such as 1.041";
        assert_eq!(refused("n1,cpu,cg,,0.1,1"), format!("line 3, column `power`: `0.1` {range}"));
        assert_eq!(refused("n1,cpu,cg,,1,10"), format!("line 3, column `duration`: `10` {range}"));
        assert_eq!(refused("n1,cpu,cg,,1.0000001,1"), format!("line 3, column `power`: `1.0000001` {range}"));
        assert_eq!(refused("n1,cpu,cg,-5 W,1,1"), "line 3, column `cap`: `-5 W` must not be negative");
        assert_eq!(refused("n0,cpu,cg,,1,2"), "line 3: cg on n0/cpu is already on line 2");
        assert_eq!(refused(",cpu,cg,,1,2"), "line 3, column `node`: the node name is empty");
    }
}
