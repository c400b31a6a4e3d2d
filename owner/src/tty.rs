//! Terminals of users who are logged in: the time at which they were last read. Jobs with terminals are not logged in.
//!
//! Linux updates this time every 8 s at most, and tells nobody about it, so the source looks once a second.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::error::OwnerError;
use crate::source::{Place, Source};
use crate::utmp::terminals;

/// Interval between looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Most bytes of the file that are read: some thousand users.
const LONGEST: u64 = 1 << 20;

/// Terminals in one directory.
pub struct Terminals {
    dev: PathBuf,
    utmp: PathBuf,
    away_after: Duration,
    told: Option<bool>,
}

impl Terminals {
    pub fn new(place: &Place) -> Self {
        Self { dev: place.dev.clone(), utmp: place.utmp.clone(), away_after: place.away_after, told: None }
    }

    /// Returns true if a terminal was read less than the time before `now`.
    fn is_in_use(&self, now: SystemTime) -> io::Result<bool> {
        let mut records = Vec::new();
        match File::open(&self.utmp) {
            Ok(file) => file.take(LONGEST).read_to_end(&mut records)?,
            // The file is made at the first login.
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let read = |terminal| fs::metadata(self.dev.join(terminal)).and_then(|found| found.accessed()).ok();
        // A time in the future is one before the clock was set back.
        let is_recent = |at: SystemTime| now.duration_since(at).map_or(true, |ago| ago < self.away_after);
        Ok(terminals(&records).filter_map(read).any(is_recent))
    }
}

impl Source for Terminals {
    fn next(&mut self) -> Result<bool, OwnerError> {
        loop {
            let found = self.is_in_use(SystemTime::now());
            let is_there = found.map_err(|source| OwnerError::Read { path: self.utmp.clone(), source })?;
            if self.told.replace(is_there) != Some(is_there) {
                return Ok(is_there);
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// Returns an error if nobody's login is recorded.
pub fn check(place: &Place) -> io::Result<()> {
    File::open(&place.utmp).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;

    use nix::libc;

    use super::*;
    use crate::utmp::tests::entry;

    #[test]
    fn a_terminal_that_was_read_is_in_use_for_a_while() {
        let root = tempfile::tempdir().expect("a directory");
        let place = Place { dev: root.path().into(), utmp: root.path().join("utmp"), ..Place::default() };
        let source = Terminals::new(&place);
        let now = SystemTime::now();
        assert!(!source.is_in_use(now).expect("no file"), "nobody has logged in since the start");
        fs::create_dir(root.path().join("pts")).expect("a directory");
        let touch = |name: &str, ago: u64| {
            let file = File::create(root.path().join(name)).expect("a terminal");
            file.set_times(FileTimes::new().set_accessed(now - Duration::from_secs(ago))).expect("its times");
        };
        touch("pts/0", 59);
        touch("tty1", 61);
        let logged_in = |terminals: &[&str]| {
            let records: Vec<u8> = terminals.iter().flat_map(|name| entry(libc::USER_PROCESS, name)).collect();
            fs::write(&place.utmp, records).expect("the file");
        };
        logged_in(&["tty1", "pts/9", ":0"]);
        assert!(!source.is_in_use(now).expect("good"), "61 s ago is more than a minute");
        logged_in(&["tty1", "pts/0"]);
        assert!(source.is_in_use(now).expect("good"));
        assert!(!source.is_in_use(now + Duration::from_secs(1)).expect("good"), "exactly a minute");
    }
}
