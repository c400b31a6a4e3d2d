//! `lconf audit`: shows the audit log of the master, from its files.

use std::io;
use std::path::PathBuf;

use limo_client::{Align, Clock, Failure, Table, answer, exit, plain};
use limo_model::Time;
use limo_proto::default_state_dir;
use serde::Deserialize;

const NAMES: [&str; 2] = ["audit.log.1", "audit.log"];

#[derive(Debug, clap::Args)]
pub struct Audit {
    /// State directory of lmaster, on the machine of the master [default: that of this user's lmaster]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of lines, the newest last
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    last: usize,
}

/// A line of the log; unknown fields are of a later version.
#[derive(Debug, Deserialize)]
struct AuditLine {
    at_unix_ms: i64,
    what: String,
    #[serde(default)]
    who: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    text: String,
}

/// Runs the command.
///
/// # Errors
/// If the log cannot be read.
pub fn run(audit: &Audit) -> Result<u8, Failure> {
    let state_dir = audit.state_dir.clone().or_else(|| default_state_dir("lmaster"));
    let state_dir = state_dir.ok_or_else(|| Failure::new("this user has no home").hint("use --state-dir"))?;
    let mut lines = Vec::new();
    for name in NAMES {
        let path = state_dir.join(name);
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && name != NAMES[1] => {}
            Err(error) => return Err(Failure::new(format_args!("cannot read {}: {error}", path.display()))),
            Ok(text) => lines.extend(text.lines().map(str::to_owned)),
        }
    }
    let kept = &lines[lines.len().saturating_sub(audit.last)..];
    answer(&table(kept, &Clock::system()))?;
    Ok(exit::DONE)
}

fn table(lines: &[String], clock: &Clock) -> String {
    let columns = ["TIME", "WHAT", "WHO", "FROM", "TEXT"];
    let mut table = Table::new(&columns.map(|title| (title, Align::Left)));
    // A line that was cut off by a crash is not shown.
    for line in lines.iter().filter_map(|line| serde_json::from_str::<AuditLine>(line).ok()) {
        let time = clock.show_full(Time::from_unix_ms(line.at_unix_ms));
        // A caller chooses parts of its texts.
        let [who, from, text] = [line.who, line.from, line.text].map(|text| match text.as_str() {
            "" => "-".to_owned(),
            text => plain(text),
        });
        table.row([time, line.what, who, from, text]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rows() {
        let lines = [
            r#"{"at_unix_ms":0,"what":"refused","who":"","from":"192.0.2.1:5","text":"no\u001b[1m"}"#,
            r#"{"at_unix_ms":0,"what":"asked","who":"root","text":"{}"}"#,
            r#"{"at_unix"#,
        ];
        let text = table(&lines.map(str::to_owned), &Clock::utc(Time::from_unix_ms(0)));
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().rev().take(4).collect()).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert_eq!(rows[0][1..], ["192.0.2.1:5", "-", "refused"]);
        assert!(!text.contains('\u{1b}'));
        assert_eq!(rows[1], ["{}", "-", "root", "asked"]);
    }
}
