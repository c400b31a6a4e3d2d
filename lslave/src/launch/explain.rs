//! Explains why a command was not started.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use limo_model::clip_lossy;
use limo_proto::FileNames;
use limo_shepherd::Step;
use nix::libc;
use thiserror::Error;

/// Errors of a machine, on which no job could be started: its disk has failed or is full, or it has no memory or descriptors
/// left.
const OF_MACHINE: [i32; 5] = [libc::EIO, libc::EROFS, libc::ENOSPC, libc::ENOMEM, libc::ENFILE];

/// Reason why a command was not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("command not found: {command}")]
    NotFound { command: String },
    #[error("{file} was sent with the job, but the interpreter in its first line does not exist on this node")]
    NoInterpreter { file: String },
    #[error("cannot execute {command}: {source}")]
    NotExecutable { command: String, source: io::Error },
    #[error("cannot {what}: {source}")]
    Step { what: String, source: io::Error },
    #[error("cannot {what}: {reason}")]
    Reason { what: String, reason: String },
    #[error(
        "{command} did not start within {limit_s} s: its file, its directory or one of its outputs does not respond"
    )]
    Late { command: String, limit_s: u64 },
    #[error("the directory, command or environment has a NUL byte")]
    Nul,
    #[error("cannot start a process: {0}")]
    Spawn(io::Error),
    #[error("cannot make the control group of the job: {0}")]
    Group(limo_containment::ContainError),
    /// A refusal of PAM, or a session that was opened too late.
    #[error("{0}")]
    Session(String),
    #[error("cannot reach lshepherd, which launches jobs on this node: {0}")]
    Launcher(String),
}

impl LaunchError {
    /// Returns the exit code for the error. `None` if the machine has failed, so that the job may run on another one.
    pub fn code(&self) -> Option<u8> {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => Some(127),
            Self::Spawn(error) if error.raw_os_error().is_some_and(|errno| OF_MACHINE.contains(&errno)) => None,
            _ => Some(126),
        }
    }
}

/// Names for explanations.
#[derive(Debug)]
pub struct Explanation {
    pub program: Vec<u8>,
    pub directory: Vec<u8>,
    pub uid: u32,
    pub files: FileNames,
    /// True if the program was sent with the job.
    pub carried: bool,
    /// True if the program is `limo-tasks`, which runs the job's tasks.
    pub several: bool,
}

impl Explanation {
    /// Explains a launch that failed in `step`, with `errno` unless that is 0. `limit_s` is the deadline in seconds.
    pub fn of(&self, (step, errno): (Step, i32), reason: String, limit_s: u64) -> LaunchError {
        let source = io::Error::from_raw_os_error(errno);
        let open = |file: &Option<Vec<u8>>| {
            let file = OsStr::from_bytes(file.as_deref().unwrap_or_default());
            format!("open {}", shown(Path::new(OsStr::from_bytes(&self.directory)).join(file).as_os_str().as_bytes()))
        };
        let what = match step {
            Step::Exec if self.several => return LaunchError::Spawn(source),
            Step::Exec => return self.of_program(source),
            Step::Other | Step::Spawn if errno != 0 => return LaunchError::Spawn(source),
            Step::Deadline => return LaunchError::Late { command: shown(&self.program), limit_s },
            Step::Pam => return LaunchError::Session(reason),
            Step::Session => "start a session".to_owned(),
            Step::Identity => format!("become user id {}", self.uid),
            Step::Directory => format!("enter the directory {}", shown(&self.directory)),
            Step::Checkpoints => format!("make the directory for checkpoints in {}", shown(&self.directory)),
            Step::Stdin => open(&self.files.stdin),
            Step::Stdout => open(&self.files.stdout),
            Step::Stderr => open(&self.files.stderr),
            Step::Terminal => "set up the terminal".to_owned(),
            Step::Inherited => "pass on its descriptors".to_owned(),
            Step::Carried => "write the file that came with the job".to_owned(),
            Step::Group => "enter its control group".to_owned(),
            Step::Cores => "bind it to its cores".to_owned(),
            Step::Limits => "set the limit on open files".to_owned(),
            Step::Other | Step::Spawn => "start a process".to_owned(),
        };
        if errno == 0 { LaunchError::Reason { what, reason } } else { LaunchError::Step { what, source } }
    }

    /// Explains why the program itself was not started.
    fn of_program(&self, source: io::Error) -> LaunchError {
        let command = shown(&self.program);
        match source.raw_os_error() {
            Some(libc::ENOENT) if self.carried => LaunchError::NoInterpreter { file: command },
            Some(libc::ENOENT) => LaunchError::NotFound { command },
            _ => LaunchError::NotExecutable { command, source },
        }
    }
}

/// Longest part of a reason that a submitter chooses, in bytes. The cause follows this part and must stay visible.
const SHOWN_LIMIT: usize = 512;

fn shown(bytes: &[u8]) -> String {
    clip_lossy(bytes, SHOWN_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_machine_has_no_exit_code() {
        let (program, directory, files) = (b"/bin/true".to_vec(), b"/".to_vec(), FileNames::default());
        let explanation = Explanation { program, directory, uid: 0, files, carried: false, several: false };
        let code = |step, errno| explanation.of((step, errno), String::new(), 1).code();
        for step in [Step::Spawn, Step::Other] {
            assert_eq!([libc::EIO, libc::ENOMEM, libc::EAGAIN].map(|errno| code(step, errno)), [None, None, Some(126)]);
        }
        assert_eq!(code(Step::Stdout, libc::EIO), Some(126), "a file of the user");
        assert_eq!(LaunchError::NotFound { command: "x".into() }.code(), Some(127));
    }
}
