//! Starts one task as a process, with its own environment, streams and files.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use limo_model::Outcome;
use limo_model::environment::{WITH_SLURM_NAMES, slurm_names};
use nix::libc;
use thiserror::Error;
use tokio::process::{Child, Command};

use super::Plan;

/// Reason why a task was not started.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("command not found: {command}")]
    NotFound { command: String },
    #[error("cannot execute {command}: {source}")]
    NotExecutable { command: String, source: io::Error },
    #[error("cannot open {}: {source}", file.display())]
    Open { file: PathBuf, source: io::Error },
}

impl StartError {
    pub fn outcome(&self) -> Outcome {
        Outcome::Exited(if matches!(self, Self::NotFound { .. }) { 127 } else { 126 })
    }
}

/// Starts the task at `place` on this node, bound to the CPUs of the mask unless that is empty. `reads` is true if it gets
/// the job's stdin.
///
/// # Errors
/// [`StartError`]; nothing is left behind then.
pub fn start(plan: &Plan, (place, mask): (usize, Vec<usize>), reads: bool) -> Result<Child, StartError> {
    let files = plan.files.get(place).cloned().unwrap_or_default();
    let local = u32::try_from(place).unwrap_or(u32::MAX);
    let (program, arguments) = plan.argv.split_first().map_or((&[][..], &[][..]), |(program, rest)| (program, rest));
    let mut command = Command::new(OsStr::from_bytes(program));
    command.args(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    for (name, number) in [("LIMO_PROCID", plan.first.saturating_add(local)), ("LIMO_LOCALID", local)] {
        let slurm = slurm_names(name).filter(|_| std::env::var_os(WITH_SLURM_NAMES).is_some());
        command.envs([name].into_iter().chain(slurm).map(|name| (name, number.to_string())));
    }
    let stdin = match &files.stdin {
        Some(name) => File::open(path(name)).map_err(cannot_open(name))?.into(),
        None if reads => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut same = None;
    let stdout = output(plan, files.stdout.as_deref(), &mut same)?;
    let stderr = output(plan, files.stderr.as_deref(), &mut same)?;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    // SAFETY: the closure makes only async-signal-safe system calls.
    unsafe { command.pre_exec(plain_signals) };
    if !mask.is_empty() {
        // SAFETY: as above.
        unsafe { command.pre_exec(move || bind(&mask)) };
    }
    command.spawn().map_err(|source| {
        let command = String::from_utf8_lossy(program).into_owned();
        match source.kind() {
            io::ErrorKind::NotFound => StartError::NotFound { command },
            _ => StartError::NotExecutable { command, source },
        }
    })
}

fn path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

fn cannot_open(name: &[u8]) -> impl FnOnce(io::Error) -> StartError {
    let file = path(name).to_owned();
    move |source| StartError::Open { file, source }
}

/// Returns a pipe, or the file of that name, whose directories are made. `last` is the previously opened file: if both streams have the same
/// file, it is truncated once.
fn output(plan: &Plan, name: Option<&[u8]>, last: &mut Option<(Vec<u8>, File)>) -> Result<Stdio, StartError> {
    let Some(name) = name else { return Ok(Stdio::piped()) };
    if let Some((before, file)) = last
        && before == name
    {
        return Ok(file.try_clone().map_err(cannot_open(name))?.into());
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    let first = options.open(path(name)).or_else(|error| match path(name).parent() {
        Some(parent) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            options.open(path(name))
        }
        _ => Err(error),
    });
    let opened = first.and_then(|file| {
        if !plan.append && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    });
    let file = opened.map_err(cannot_open(name))?;
    *last = Some((name.to_vec(), file.try_clone().map_err(cannot_open(name))?));
    Ok(file.into())
}

/// Binds this process to the CPUs of the mask.
fn bind(mask: &[usize]) -> io::Result<()> {
    // SAFETY: the call reads the mask, of that size.
    match unsafe { libc::sched_setaffinity(0, size_of_val(mask), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unblocks the signals that this process blocks.
fn plain_signals() -> io::Result<()> {
    // SAFETY: the set outlives the calls.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        match libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
