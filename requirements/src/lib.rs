//! Requirements of tests on their machine, and a file system that fills up. A test without its requirement prints the
//! reason, and is counted.
//!
//! Only for tests and other programs that are not installed: a forbidden skip panics, like a failed assertion.

#![warn(missing_docs)]

mod postgres;
mod small_disk;

use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

pub use postgres::{POSTGRES, PostgresServer, postgres};
pub use small_disk::SmallDisk;

/// Variable that turns a skip into a failure if CI provides the requirement. CI sets it to `1`.
pub const NO_SKIP: &str = "LIMO_TESTS_NO_SKIP";

/// Variable with the path of the file that gets a line for each skip: test, requirement and reason, separated by
/// tabs.
pub const SKIPS: &str = "LIMO_TESTS_SKIPS";

/// Variable with the path of the folder of traces.
pub const TRACES: &str = "LIMO_TRACES";

/// Returns the folder of traces: the value of [`TRACES`], otherwise `shared/traces` next to the workspace. It may be
/// missing.
pub fn traces() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    env::var_os(TRACES).map_or_else(beside, PathBuf::from)
}

/// Returns the folder of one set of traces, such as `easy-oracles`. Skips the rest of the test if it is missing.
///
/// # Panics
/// The same as for [`skip`].
pub fn trace_set(name: &str) -> Option<PathBuf> {
    let folder = traces().join(name);
    if !folder.is_dir() {
        skip(Requirement::Traces, &format!("{} is missing", folder.display()));
        return None;
    }
    Some(folder)
}

/// Returns the folder of calls that were recorded from clients of Slurm, which lies beside the traces. Skips the rest of
/// the test if it is missing.
///
/// # Panics
/// The same as for [`skip`].
pub fn slurm_calls() -> Option<PathBuf> {
    let folder = traces().with_file_name("peers").join("slurm/golden");
    if !folder.is_dir() {
        skip(Requirement::Traces, &format!("{} is missing", folder.display()));
        return None;
    }
    Some(folder)
}

/// A requirement that a machine may not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The rights of root.
    Root,
    /// The right to mount a small file system, and the programs for it.
    SmallDisk,
    /// Linux with glibc and the usual tools of its distributions: `/dev/full`, `tar`, `script`.
    Platform,
    /// A program that few machines have, such as `fish`.
    Program,
    /// Hosts made from systemd, namespaces and overlays, and the packages that a test installs there.
    Hosts,
    /// The traces in the directory `shared` next to the repository.
    Traces,
    /// A released version of the protocol.
    Release,
    /// Control groups that root can make, with the controllers that the test limits.
    ControlGroups,
    /// A PostgreSQL server for tests, or its packages.
    Postgres,
}

impl Requirement {
    /// Returns true if CI meets the requirement.
    pub fn is_in_ci(self) -> bool {
        matches!(self, Self::Root | Self::SmallDisk | Self::Platform)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::SmallDisk => "a small file system",
            Self::Platform => "Linux with glibc and its usual programs",
            Self::Program => "an optional program",
            Self::Hosts => "hosts with systemd and packages",
            Self::Traces => "the shared traces",
            Self::Release => "a released protocol",
            Self::ControlGroups => "control groups",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// Prints that the rest of the test does not run, and records it in the file of [`SKIPS`].
///
/// # Panics
/// If [`NO_SKIP`] is `1` and CI provides the requirement, or if the record cannot be written.
pub fn skip(requirement: Requirement, reason: &str) {
    println!("skipped: {reason}");
    let is_strict = env::var_os(NO_SKIP).is_some_and(|value| value == "1");
    assert!(!(is_strict && requirement.is_in_ci()), "{NO_SKIP} is set, and CI provides {requirement}: {reason}");
    if let Some(path) = env::var_os(SKIPS) {
        record(Path::new(&path), requirement, reason);
    }
}

fn record(path: &Path, requirement: Requirement, reason: &str) {
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().display();
    let thread = thread::current();
    let reason = reason.replace(['\n', '\t'], " ");
    let line = format!("{program} {}\t{requirement}\t{reason}\n", thread.name().unwrap_or_default());
    // A single write, because several tests append at the same time.
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot write {}, the value of {SKIPS}: {written:?}", path.display());
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Variable that selects the skips of the test [`skips_on_request`], in a separate process.
    const TOLD: &str = "LIMO_TESTS_TOLD";

    #[test]
    fn skips_on_request() {
        match env::var(TOLD).as_deref() {
            Ok("root") => skip(Requirement::Root, "only root\ncan do it"),
            Ok(_) => skip(Requirement::Traces, "no traces"),
            Err(_) => {}
        }
    }

    /// Returns true and the record if the skip is allowed.
    fn skipped(told: &str, no_skip: &str) -> (bool, String) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut test = Command::new(env::current_exe().expect("its path"));
        test.args(["--exact", "tests::skips_on_request"]).env(TOLD, told).env(NO_SKIP, no_skip).env(SKIPS, file.path());
        let has_passed = test.output().expect("the test runs").status.success();
        (has_passed, fs::read_to_string(file.path()).expect("the record"))
    }

    #[test]
    fn skips_are_recorded_and_fail_where_ci_provides_what_they_need() {
        let (has_passed, record) = skipped("root", "");
        assert!(has_passed && record.ends_with(" tests::skips_on_request\troot\tonly root can do it\n"), "{record}");
        assert_eq!(skipped("root", "1"), (false, String::new()));
        let (has_passed, record) = skipped("traces", "1");
        assert!(has_passed && record.ends_with("\tthe shared traces\tno traces\n"), "{record}");
    }
}
