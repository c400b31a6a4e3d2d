//! Sessions made from an `event_trace` of the Failure Trace Archive: the times when users kept computers for themselves.
//!
//! A line has nine columns, divided by tabs: event, component, platform and node by number, the name of the node, the
//! kind of event (1 available, 0 not), begin and end in seconds since 1970, and the reason why it ended.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use super::clock::PoolClock;
use super::error::PoolError;
use super::logins::no_time;
use super::session::{Cell, Session, Sessions};
use crate::input::{Lines, shown};

/// Most intervals.
const INTERVALS: usize = 20_000_000;

/// Numbers of lines and of what was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FtaTally {
    /// Lines with events.
    pub events: u64,
    /// Intervals in which a computer is not available for another reason.
    pub other: u64,
    /// Intervals that overlap an earlier one of the computer.
    pub joined: u64,
    /// Intervals that end before they begin.
    pub impossible: u64,
    /// Sessions.
    pub sessions: u64,
}

impl fmt::Display for FtaTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, other, joined, impossible, .. } = self;
        write!(
            f,
            "{events} events; left out: {other} absences for another reason, {impossible} that end before they begin; \
            {joined} overlapped others"
        )
    }
}

/// Line of the trace.
struct Interval {
    is_available: bool,
    from: i64,
    until: i64,
    reason: i64,
}

/// Reads a trace, plain or gzipped. An absence is a session if its own reason, or the reason of the availability that it
/// follows, is one of `reasons`.
///
/// # Errors
/// [`PoolError`] if the file cannot be read or a line is wrong.
pub fn fta(path: &Path, reasons: &[i64]) -> Result<(Sessions, FtaTally), PoolError> {
    let file = path.display().to_string();
    let mut lines = Lines::open(path).map_err(|source| PoolError::Open { file: file.clone(), source })?;
    let (mut sessions, mut tally) = (Sessions::default(), FtaTally::default());
    let mut of_computers: HashMap<u32, Vec<Interval>> = HashMap::new();
    loop {
        let more = lines.advance();
        let line = lines.number();
        if !more.map_err(|fault| PoolError::of_input(&file, line, fault))? {
            break;
        }
        let text = lines.line();
        if text.trim_ascii().is_empty() || text[0] == b'#' {
            continue;
        }
        tally.events += 1;
        if tally.events > INTERVALS as u64 {
            return Err(PoolError::TooMany { file, line, what: "lines", limit: INTERVALS });
        }
        let (computer, interval) = interval(text, &file, line)?;
        let computer = sessions.computer(&Cell { file: &file, line, name: "node_name", value: computer })?;
        of_computers.entry(computer).or_default().push(interval);
    }
    let unknown = sessions.user(&Cell { file: &file, line: 0, name: "user", value: b"" })?;
    for (computer, mut intervals) in of_computers {
        intervals.sort_by_key(|interval| (interval.from, interval.until));
        for (login, logout) in absences(&intervals, reasons, &mut tally) {
            sessions.sessions.push(Session { login, logout, computer, user: unknown });
        }
    }
    tally.sessions = sessions.sessions.len() as u64;
    sessions.sort();
    Ok((sessions, tally))
}

fn interval<'a>(text: &'a [u8], file: &str, line: u64) -> Result<(&'a [u8], Interval), PoolError> {
    let cells: Vec<&[u8]> = text.split(|byte| *byte == b'\t').map(<[u8]>::trim_ascii).take(10).collect();
    let &[_, _, _, _, computer, kind, from, until, reason] = &*cells else {
        let wanted = "9, divided by tabs: event_id ... node_name, event_type, event_start_time, event_stop_time, \
            event_end_reason";
        return Err(PoolError::Cells { file: file.to_owned(), line, found: cells.len(), wanted });
    };
    let is_available = match kind {
        b"1" => true,
        b"0" => false,
        other => {
            let reason = "that is neither 1 (available) nor 0".to_owned();
            let (file, value) = (file.to_owned(), shown(other));
            return Err(PoolError::Cell { file, line, name: "event_type", value, reason });
        }
    };
    let time = |cell: &[u8]| {
        let time = PoolClock::default().time(&String::from_utf8_lossy(cell));
        time.map_err(|fault| no_time(file, line, cell, fault))
    };
    // The reason is often NULL.
    let reason = str::from_utf8(reason).ok().and_then(|reason| reason.parse().ok()).unwrap_or(-1);
    Ok((computer, Interval { is_available, from: time(from)?, until: time(until)?, reason }))
}

/// Returns login and logout of the sessions of one computer, from its intervals in order of time.
fn absences(intervals: &[Interval], reasons: &[i64], tally: &mut FtaTally) -> Vec<(i64, i64)> {
    let mut sessions: Vec<(i64, i64)> = Vec::new();
    // Latest end of an availability that a user ended.
    let mut taken = None;
    for interval in intervals {
        let by_user = reasons.contains(&interval.reason);
        if interval.is_available {
            taken = if by_user { Some(interval.until) } else { None };
            continue;
        }
        let follows = taken.take() == Some(interval.from);
        if interval.until <= interval.from {
            tally.impossible += 1;
        } else if !by_user && !follows {
            tally.other += 1;
        } else if let Some((_, logout)) = sessions.last_mut().filter(|(_, logout)| interval.from < *logout) {
            tally.joined += 1;
            *logout = interval.until.max(*logout);
        } else {
            sessions.push((interval.from, interval.until));
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<(Vec<(i64, i64)>, FtaTally), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t");
        fs::write(&path, text).expect("written");
        let shown = |error: PoolError| error.to_string().replace(&format!("{}/", folder.path().display()), "");
        let (sessions, tally) = fta(&path, &[2, 3]).map_err(shown)?;
        Ok((sessions.sessions.iter().map(|session| (session.login, session.logout)).collect(), tally))
    }

    fn line(node: &str, kind: u8, from: &str, until: &str, reason: &str) -> String {
        format!("1\t1\t1\t1\t{node}\t{kind}\t{from}\t{until}\t{reason}\n")
    }

    #[test]
    fn absences_by_users_are_sessions() {
        let text = [
            "# event_id ...\n".to_owned(),
            // The availability says who ended it...
            line("a", 1, "0", "10.5", "2"),
            line("a", 0, "10.5", "20", "NULL"),
            line("a", 1, "20", "30", "1"),
            line("a", 0, "30", "40", "NULL"),
            // ...or the absence itself does.
            line("b", 0, "5", "9", "3"),
            line("b", 0, "7", "12", "3"),
            line("b", 0, "14", "13", "3"),
        ];
        let (sessions, tally) = read(&text.concat()).expect("sessions");
        assert_eq!(sessions, [(5_000, 12_000), (10_500, 20_000)]);
        assert_eq!(tally, FtaTally { events: 7, other: 1, joined: 1, impossible: 1, sessions: 2 });
    }

    #[test]
    fn wrong_lines_are_errors() {
        let refused = |text: &str, error: &str| assert_eq!(read(text), Err(error.to_owned()));
        let columns = "event_id ... node_name, event_type, event_start_time, event_stop_time, event_end_reason";
        refused("1 2 3\n", &format!("t:1: the line has 1 cells, but needs 9, divided by tabs: {columns}"));
        refused(&line("a", 2, "0", "1", "2"), "t:1: event_type is `2`: that is neither 1 (available) nor 0");
        let hint = "that is not a time: write seconds since 1970 or `2010-01-31 12:00:00`";
        refused(&line("a", 0, "x", "1", "2"), &format!("t:1: time is `x`: {hint}"));
    }
}
