//! Errors about control groups.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Reason why a control group cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ContainError {
    #[error("cannot {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write `{value}` to {}: {source}", path.display())]
    Write { path: PathBuf, value: String, source: io::Error },
    #[error("{} has `{value}` for {what}: a whole number is needed", path.display())]
    Number { path: PathBuf, what: &'static str, value: String },
    #[error("{} has no `{what}`", path.display())]
    Missing { path: PathBuf, what: &'static str },
    #[error("{} has more than {limit} bytes", path.display())]
    TooLong { path: PathBuf, limit: usize },
    #[error("{} has more than {limit} control groups below it", path.display())]
    TooMany { path: PathBuf, limit: usize },
    #[error("{} has `{value}`: numbers of CPUs up to {limit} are needed, for example `0-3,8`", path.display())]
    Cores { path: PathBuf, value: String, limit: u32 },
    #[error("the job needs {count} cores of its own, and {free} {} free", if *free == 1 { "is" } else { "are" })]
    TooFewCores { count: usize, free: usize },
    #[error("jobs cannot be bound to cores: the controller `cpuset` is not usable")]
    NoBinding,
    #[error("{} already exists and still has processes", path.display())]
    Busy { path: PathBuf },
    #[error("no control groups are mounted: /proc/self/mountinfo has no file system of type cgroup2 or cgroup")]
    NotMounted,
    #[error("`{place}` is not the path of a control group as in /proc/PID/cgroup, for example `/limo`")]
    Place { place: String },
    #[error("`{directory}` does not name a control group")]
    Directory { directory: String },
}

/// Makes an error of a function that names the action and the file.
pub fn failed(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ContainError {
    let path = path.into();
    move |source| ContainError::File { what, path, source }
}
