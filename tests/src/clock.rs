//! Wall clocks that jump: a library, preloaded into a daemon, shifts its `CLOCK_REALTIME`. Monotonic clocks and the
//! kernel's timestamps of files do not change.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clock/clock.c");

/// Variable with the path of the file with the offset. `clock.c` reads it.
const OFFSET_FILE: &str = "LIMO_TESTS_CLOCK";

/// The library, built once for several clocks.
#[derive(Debug, Clone)]
pub struct Library(PathBuf);

impl Library {
    /// Builds the library in `dir`.
    ///
    /// # Panics
    /// If there is no C compiler, or it fails.
    pub fn build(dir: &Path) -> Self {
        let library = dir.join("clock.so");
        let mut command = Command::new("cc");
        command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(SOURCE);
        let output = command.output().expect("the clock library needs a C compiler, `cc`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(library)
    }
}

/// The wall clock of one program.
#[derive(Debug, Clone)]
pub struct Clock {
    library: Library,
    offset: PathBuf,
}

impl Clock {
    /// Makes a correct clock. `name` distinguishes it from others in `dir`.
    pub fn new(library: &Library, dir: &Path, name: &str) -> Self {
        let clock = Self::existing(library, dir, name);
        clock.set(0);
        clock
    }

    /// Returns the clock that [`Clock::new`] made with the same arguments.
    pub fn existing(library: &Library, dir: &Path, name: &str) -> Self {
        Self { library: library.clone(), offset: dir.join(format!("{name}.clock")) }
    }

    /// Returns the variables that give a program this clock.
    pub fn variables(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.display().to_string();
        [("LD_PRELOAD".to_owned(), text(&self.library.0)), (OFFSET_FILE.to_owned(), text(&self.offset))]
    }

    /// Sets the clock to the true time plus `seconds`, at once and while programs run.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn set(&self, seconds: i64) {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&self.offset).expect("a clock");
        file.write_all_at(&(seconds * 1_000_000_000).to_ne_bytes(), 0).expect("a clock that can be set");
    }

    /// Returns the time by which the clock is ahead of the true time, in seconds.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn offset(&self) -> i64 {
        let bytes = fs::read(&self.offset).expect("a clock");
        i64::from_ne_bytes(bytes.try_into().expect("eight bytes")) / 1_000_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output of `date`, in seconds since the epoch.
    fn date(clock: Option<&Clock>) -> i64 {
        let mut command = Command::new("date");
        command.arg("+%s").envs(clock.into_iter().flat_map(Clock::variables));
        let output = command.output().expect("date is there");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    }

    #[test]
    fn a_clock_jumps_both_ways() {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Clock::new(&Library::build(dir.path()), dir.path(), "one");
        for seconds in [0, 3_600, -86_400, i64::from(u16::MAX), 0] {
            clock.set(seconds);
            assert_eq!(clock.offset(), seconds);
            let ahead = date(Some(&clock)) - date(None);
            assert!((ahead - seconds).abs() <= 1, "{ahead} s in place of {seconds} s");
        }
    }
}
