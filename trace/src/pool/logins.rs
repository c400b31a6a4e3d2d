//! Sessions made from two dumps: of logins and of logouts, `time,computer,user`, in any order and with duplicates.

use std::fmt;
use std::path::Path;

use super::clock::{PoolClock, TimeFault};
use super::error::PoolError;
use super::session::{Cell, Session, Sessions};
use crate::input::{Lines, shown};

/// Columns of a dump.
const COLUMNS: [&str; 3] = ["time", "computer", "user"];
/// Most lines of both dumps: 0.5 GB.
const EVENT_LIMIT: usize = 20_000_000;
/// Longest time between duplicates, in milliseconds.
const DUPLICATE_MS: i64 = 5_000;

/// Numbers of lines and of what was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoginTally {
    /// Lines of logins.
    pub logins: u64,
    /// Lines of logouts.
    pub logouts: u64,
    /// Logins of the same user on the same computer within 5 s.
    pub duplicate_logins: u64,
    /// Logouts of the same user on the same computer within 5 s.
    pub duplicate_logouts: u64,
    /// Logins without a logout before the next login on the computer.
    pub unmatched_logins: u64,
    /// Logouts of users who are not logged in.
    pub unmatched_logouts: u64,
    /// Sessions.
    pub sessions: u64,
}

impl fmt::Display for LoginTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} logins and {} logouts; duplicates: {} and {}; without a counterpart: {} and {}",
            self.logins,
            self.logouts,
            self.duplicate_logins,
            self.duplicate_logouts,
            self.unmatched_logins,
            self.unmatched_logouts
        )
    }
}

/// Login or logout. Ordered by computer and time; a logout comes before a login at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LoginEvent {
    computer: u32,
    at: i64,
    is_login: bool,
    user: u32,
}

/// Reads both dumps, plain or gzipped, and matches them.
///
/// # Errors
/// [`PoolError`] if a file cannot be read, or a line has no time, computer and user.
pub fn logins(logins: &Path, logouts: &Path, mut clock: PoolClock) -> Result<(Sessions, LoginTally), PoolError> {
    let (mut sessions, mut events) = (Sessions::default(), Vec::new());
    for (path, is_login) in [(logins, true), (logouts, false)] {
        let file = path.display().to_string();
        let lines = Lines::open(path).map_err(|source| PoolError::Open { file: file.clone(), source })?;
        read(lines, &file, is_login, &mut clock, &mut sessions, &mut events)?;
    }
    events.sort_unstable();
    let mut tally = LoginTally::default();
    for of_computer in events.chunk_by(|a, b| a.computer == b.computer) {
        pair(of_computer, &mut sessions.sessions, &mut tally);
    }
    tally.sessions = sessions.sessions.len() as u64;
    sessions.sort();
    Ok((sessions, tally))
}

fn read(
    mut lines: Lines,
    file: &str,
    is_login: bool,
    clock: &mut PoolClock,
    sessions: &mut Sessions,
    events: &mut Vec<LoginEvent>,
) -> Result<(), PoolError> {
    let mut is_first = true;
    loop {
        let more = lines.advance();
        let number = lines.number();
        if !more.map_err(|fault| PoolError::of_input(file, number, fault))? {
            return Ok(());
        }
        let line = lines.line().trim_ascii();
        if line.is_empty() {
            continue;
        }
        let mut cells = [b"".as_slice(); 3];
        let mut found = 0;
        for cell in line.split(|byte| *byte == b',') {
            if let Some(place) = cells.get_mut(found) {
                *place = cell.trim_ascii();
            }
            found += 1;
        }
        if found != COLUMNS.len() {
            let wanted = "3: time,computer,user";
            return Err(PoolError::Cells { file: file.to_owned(), line: number, found, wanted });
        }
        let is_head = std::mem::take(&mut is_first) && cells == COLUMNS.map(str::as_bytes);
        if is_head {
            continue;
        }
        if events.len() >= EVENT_LIMIT {
            return Err(PoolError::TooMany { file: file.to_owned(), line: number, what: "lines", limit: EVENT_LIMIT });
        }
        let [time, computer, user] = cells;
        let at = clock.time(&String::from_utf8_lossy(time)).map_err(|fault| no_time(file, number, time, fault))?;
        let computer = sessions.computer(&Cell { file, line: number, name: "computer", value: computer })?;
        let user = sessions.user(&Cell { file, line: number, name: "user", value: user })?;
        events.push(LoginEvent { computer, at, is_login, user });
    }
}

/// Makes the error of a cell that is not a time.
pub(super) fn no_time(file: &str, line: u64, value: &[u8], fault: TimeFault) -> PoolError {
    let (file, value) = (file.to_owned(), shown(value));
    match fault {
        TimeFault::NoYear => PoolError::NoYear { file, line, value },
        TimeFault::NoTime => {
            let reason = "that is not a time: write seconds since 1970 or `2010-01-31 12:00:00`".to_owned();
            PoolError::Cell { file, line, name: "time", value, reason }
        }
    }
}

/// Matches the events of one computer.
fn pair(events: &[LoginEvent], sessions: &mut Vec<Session>, tally: &mut LoginTally) {
    let mut open: Option<LoginEvent> = None;
    let mut last: Option<LoginEvent> = None;
    let repeats = |earlier: Option<LoginEvent>, event: &LoginEvent| {
        earlier.is_some_and(|earlier| earlier.user == event.user && event.at.saturating_sub(earlier.at) <= DUPLICATE_MS)
    };
    for event in events {
        if event.is_login {
            tally.logins += 1;
            if repeats(open, event) {
                tally.duplicate_logins += 1;
                continue;
            }
            tally.unmatched_logins += u64::from(open.is_some());
            open = Some(*event);
            continue;
        }
        tally.logouts += 1;
        match open {
            Some(login) if login.user == event.user => {
                let LoginEvent { at: logout, computer, user, .. } = *event;
                sessions.push(Session { login: login.at, logout, computer, user });
                (open, last) = (None, Some(*event));
            }
            _ if repeats(last, event) => tally.duplicate_logouts += 1,
            _ => tally.unmatched_logouts += 1,
        }
    }
    tally.unmatched_logins += u64::from(open.is_some());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the prepared sessions and the counts, or the error.
    fn matched(in_text: &str, out_text: &str) -> Result<(String, LoginTally), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("in"), in_text).expect("written");
        fs::write(path("out"), out_text).expect("written");
        let clock = PoolClock::default();
        let (sessions, tally) = logins(&path("in"), &path("out"), clock)
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))?;
        sessions.write(&path("sessions.csv")).expect("written");
        Ok((fs::read_to_string(path("sessions.csv")).expect("written"), tally))
    }

    #[test]
    fn duplicates_and_logins_without_a_logout_are_left_out() {
        // Ann: duplicates of both kinds, and a second session 2 s after the first. Bob's computer crashes.
        let logins =
            "time,computer,user\n200,b,cat\n12.003,a,ann\n12,a,ann\n102,a,ann\n1000,b,bob\n12,a,ann\n2000,b,cat\n";
        let logouts = "100.5,a,ann\n150,a,ann\n100,a,ann\n300,b,cat\n900,b,dan\n2500,b,cat\n";
        let (text, tally) = matched(logins, logouts).expect("sessions");
        let expected = "login,logout,computer,user\n12,100,a,ann\n102,150,a,ann\n200,300,b,cat\n2000,2500,b,cat\n";
        assert_eq!(text, expected);
        let counts = LoginTally {
            logins: 7,
            logouts: 6,
            duplicate_logins: 2,
            duplicate_logouts: 1,
            unmatched_logins: 1,
            unmatched_logouts: 1,
            sessions: 4,
        };
        assert_eq!(tally, counts);
    }

    #[test]
    fn dates_are_times() {
        let (text, _) = matched("2010-01-31 12:00:00.25,a,ann\n", "2010-01-31T13:00:00Z,a,ann\n").expect("sessions");
        assert_eq!(text, "login,logout,computer,user\n1264939200.25,1264942800,a,ann\n");
    }

    #[test]
    fn wrong_lines_are_errors() {
        let refused = |logins: &str, error: &str| assert_eq!(matched(logins, ""), Err(error.to_owned()));
        refused("1,a\n", "in:1: the line has 2 cells, but needs 3: time,computer,user");
        refused("1,a,ann\n1,a,ann,x\n", "in:2: the line has 4 cells, but needs 3: time,computer,user");
        let hint = "that is not a time: write seconds since 1970 or `2010-01-31 12:00:00`";
        refused("noon,a,ann\n", &format!("in:1: time is `noon`: {hint}"));
        let long = "x".repeat(NAME);
        let shown = "x".repeat(40);
        refused(&format!("1,{long},ann\n"), &format!("in:1: computer is `{shown}...`: it has more than 256 bytes"));
    }

    const NAME: usize = super::super::NAME_LIMIT + 1;
}
