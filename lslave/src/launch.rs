//! Turns an assignment into a process that runs as its submitter would have run it. Waits for nobody's end.
//!
//! Names of users, groups and files are resolved before there is a process, where allocating is allowed (`child` and `steps`
//! have what follows).

mod carried;
mod child;
mod environment;
mod several;
mod steps;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use limo_model::{FileFacts, NodeSpec, clip_lossy};
use limo_proto::{DoExec, FileNames, Io, Launch};
use nix::unistd::Pid;
use thiserror::Error;

pub use carried::remove as remove_carried;
use child::{Failed, Program};
use environment::environment;
use steps::{Identity, Step, Steps, identity};

use crate::terminal;

/// What is needed besides the assignment itself.
pub struct Surroundings<'a> {
    pub spec: &'a NodeSpec,
    pub cookie: &'a str,
    /// Whether emulated hardware says when its work is done.
    pub emulated_work: bool,
    /// The time, in seconds since 1970 (UTC).
    pub now_s: i64,
}

pub struct Process {
    /// Leader of its own session and process group.
    pub leader: Pid,
    /// The other ends of its stdio; `None` where nobody is attached to it.
    pub pipes: Option<Pipes>,
    /// On emulated hardware: closed when its work is done.
    pub work: Option<PipeWriter>,
}

/// Those that are there; a stream that is not goes to a file.
pub struct Pipes {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// In place of all three.
    pub terminal: Option<OwnedFd>,
}

/// Why a command was not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("command not found: {command}")]
    NotFound { command: String },
    #[error("{file} came with the job, but the interpreter that its first line names is not on this node")]
    NoInterpreter { file: String },
    #[error("cannot execute {command}: {source}")]
    NotExecutable { command: String, source: io::Error },
    #[error("the user id {uid} is not known on this node")]
    UnknownUser { uid: u32 },
    #[error("this node runs as user id {own} and cannot run a job of user id {uid}")]
    OtherUser { own: u32, uid: u32 },
    #[error("cannot look up user id {uid}: {source}")]
    LookUp { uid: u32, source: nix::Error },
    #[error("cannot {what}: {source}")]
    Step { what: String, source: io::Error },
    #[error("the directory, command or environment has a NUL byte")]
    Nul,
    #[error("cannot start a process: {0}")]
    Spawn(io::Error),
}

impl LaunchError {
    /// The exit code that stands for it.
    pub fn code(&self) -> u8 {
        match self {
            Self::NotFound { .. } | Self::NoInterpreter { .. } => 127,
            _ => 126,
        }
    }
}

/// Starts the command of `exec`; returns once it is really running.
///
/// # Errors
/// [`LaunchError`], where it is not running and nothing is left of it.
pub fn spawn(exec: &DoExec, around: &Surroundings) -> Result<Process, LaunchError> {
    let launch = &exec.launch;
    let first = exec.placement.first().and_then(|part| around.spec.units.get(usize::from(part.unit.unit)));
    let hardware = first.map_or("", |unit| unit.hardware.as_str());
    let variant = launch.variants.iter().find(|(name, _)| name == hardware).map(|(_, argv)| argv);
    let Some((program, arguments)) = variant.unwrap_or(&launch.argv).split_first() else {
        return Err(LaunchError::NotFound { command: String::new() });
    };
    let identity = identity(launch.uid)?;
    // A variant is another command than the one whose file came along.
    let carried = launch.carried.as_ref().filter(|_| variant.is_none());
    let carried = carried.map(|content| {
        let owner = identity.as_ref().map(Identity::owner);
        let step = |source| LaunchError::Step { what: "write the file that came with the job".into(), source };
        carried::write(around.cookie, program, content, owner).map_err(step)
    });
    let carried = carried.transpose()?;
    let program_path = carried.as_ref().map_or(OsStr::from_bytes(program), |path| path.as_os_str());
    let files = launch.file_names(&facts(exec, around.spec, 0));
    let several = several::prepare(exec, around.spec, (program_path, arguments), &files)?;
    // Both ends are close-on-exec: no other job inherits one, and the job itself only that which it is given below.
    let pipe = around.emulated_work.then(io::pipe).transpose().map_err(LaunchError::Spawn)?;
    let (work_end, work) = pipe.unzip();
    let env = environment(exec, around, work_end.as_ref());
    let own_argv = std::iter::once(program_path).chain(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    let child = match several.as_ref().map(several::program) {
        Some((path, argv)) => Program::new(path, argv.into_iter(), env)?,
        None => Program::new(program_path, own_argv.map(OsStr::to_owned), env)?,
    };
    let own = several.as_ref().map_or(&files, |several| &several.own);
    let (stdio, pipes) = stdio(launch, &files, identity.as_ref())?;
    let kept = [work_end.as_ref().map(AsRawFd::as_raw_fd), several.as_ref().map(|several| several.plan.as_raw_fd())];
    let keep = several.as_ref().map_or([false; 2], |several| several.keep);
    let steps = Steps::prepare(exec, (own, keep), identity, kept)?;
    match child::spawn(&child, &stdio, &steps) {
        Ok(leader) => Ok(Process { leader, pipes, work }),
        Err(Failed::Step(step, source)) => Err(explain_step(step, source, (exec, own))),
        Err(Failed::Exec(source)) if several.is_none() => Err(explain(source, (program, carried.is_some()))),
        Err(Failed::Exec(source) | Failed::Spawn(source)) => Err(LaunchError::Spawn(source)),
    }
}

/// Where the child's streams go until its files are opened, and the daemon's side of those that it keeps.
fn stdio(
    launch: &Launch,
    files: &FileNames,
    identity: Option<&Identity>,
) -> Result<([OwnedFd; 3], Option<Pipes>), LaunchError> {
    let attached = launch.io == Io::Attached;
    if let Some(size) = launch.terminal.filter(|_| attached) {
        let step = |source| LaunchError::Step { what: "make a terminal".into(), source };
        let terminal::Pair { ours, jobs } =
            terminal::open(size, identity.map(|identity| identity.owner().0)).map_err(step)?;
        let again = || jobs.try_clone().map_err(step);
        let ends = [again()?, again()?, again()?];
        return Ok((ends, Some(Pipes { stdin: None, stdout: None, stderr: None, terminal: Some(ours) })));
    }
    let (stdin, to_stdin) = match attached && files.stdin.is_none() {
        true => io::pipe().map(|(read, write)| (read.into(), Some(write.into()))),
        false => null().map(|null| (null, None)),
    }
    .map_err(LaunchError::Spawn)?;
    let output = |file: &Option<Vec<u8>>| match attached && file.is_none() {
        true => io::pipe().map(|(read, write)| (OwnedFd::from(write), Some(OwnedFd::from(read)))),
        false => null().map(|null| (null, None)),
    };
    let (stdout, from_stdout) = output(&files.stdout).map_err(LaunchError::Spawn)?;
    let (stderr, from_stderr) = output(&files.stderr).map_err(LaunchError::Spawn)?;
    let pipes = Pipes { stdin: to_stdin, stdout: from_stdout, stderr: from_stderr, terminal: None };
    Ok(([stdin, stdout, stderr], attached.then_some(pipes)))
}

fn null() -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}

/// What the names of the files may hold, of the task at `place` of those here.
fn facts<'a>(exec: &'a DoExec, spec: &'a NodeSpec, place: u32) -> FileFacts<'a> {
    let DoExec { job, name, user, task, share, .. } = exec;
    let array = task.as_ref().map(|task| (task.array, task.number));
    let (node_index, first) = share.as_ref().map_or((0, 0), |share| (share.index, share.own().0));
    FileFacts { job: *job, name, user, node: &spec.name, node_index, task: first.saturating_add(place), array }
}

/// Why the program itself was not started.
fn explain(source: io::Error, (program, carried): (&[u8], bool)) -> LaunchError {
    let command = shown(program);
    match source.kind() {
        io::ErrorKind::NotFound if carried => LaunchError::NoInterpreter { file: command },
        io::ErrorKind::NotFound => LaunchError::NotFound { command },
        _ => LaunchError::NotExecutable { command, source },
    }
}

fn explain_step(step: Step, source: io::Error, (exec, files): (&DoExec, &FileNames)) -> LaunchError {
    let open = |file: &Option<Vec<u8>>| {
        let file = OsStr::from_bytes(file.as_deref().unwrap_or_default());
        format!("open {}", shown(Path::new(OsStr::from_bytes(&exec.launch.cwd)).join(file).as_os_str().as_bytes()))
    };
    let what = match step {
        Step::Session => "start a session".to_owned(),
        Step::Identity => format!("become user id {}", exec.launch.uid),
        Step::Directory => format!("enter the directory {}", shown(&exec.launch.cwd)),
        Step::Stdin => open(&files.stdin),
        Step::Stdout => open(&files.stdout),
        Step::Stderr => open(&files.stderr),
        Step::Terminal => "take up the terminal".to_owned(),
        Step::Kept => "hand over what it inherits".to_owned(),
    };
    LaunchError::Step { what, source }
}

/// Longest part of a reason that a submitter chooses, in bytes: the cause behind it has to be seen, too.
const SHOWN_LIMIT: usize = 512;

fn shown(bytes: &[u8]) -> String {
    clip_lossy(bytes, SHOWN_LIMIT)
}
