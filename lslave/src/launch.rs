//! Turns an assignment into a process that runs as its submitter would have run it. Waits for nobody's end.
//!
//! The child drops its privileges itself, in one step after the fork: groups, then user, then umask and directory, then
//! the output files, so that whatever it touches it touches as the submitter. Names of users and groups are resolved
//! before the fork, where allocating is allowed.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use limo_model::NodeSpec;
use limo_proto::{DoExec, Io, Launch};
use nix::libc;
use nix::unistd::{Pid, Uid, User, geteuid, getgrouplist};
use thiserror::Error;

use crate::kill::COOKIE;

/// Names the descriptor on which a job on emulated hardware reads the end of its work.
const WORK_FD: &str = "LIMO_EMULATED_WORK_FD";

/// What is needed besides the assignment itself.
pub struct Surroundings<'a> {
    pub spec: &'a NodeSpec,
    pub cookie: &'a str,
    /// Whether emulated hardware says when its work is done.
    pub emulated_work: bool,
}

pub struct Process {
    /// Leader of its own session and process group.
    pub leader: Pid,
    /// The other ends of its stdio; `None` where it goes to files.
    pub pipes: Option<Pipes>,
    /// On emulated hardware: closed when its work is done.
    pub work: Option<PipeWriter>,
}

pub struct Pipes {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Why a command was not started.
#[derive(Debug, Error)]
pub enum LaunchError {
    #[error("command not found: {command}")]
    NotFound { command: String },
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
            Self::NotFound { .. } => 127,
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
    let argv = launch.variants.iter().find(|(name, _)| name == hardware).map_or(&launch.argv, |(_, argv)| argv);
    let Some((program, arguments)) = argv.split_first() else {
        return Err(LaunchError::NotFound { command: String::new() });
    };
    let mut command = Command::new(OsStr::from_bytes(program));
    command.args(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    // Both ends are close-on-exec: no other job inherits one, and the job itself only that which it is given below.
    let pipe = around.emulated_work.then(io::pipe).transpose().map_err(LaunchError::Spawn)?;
    let (work_end, work) = pipe.unzip();
    command.env_clear().envs(environment(exec, around, work_end.as_ref()));
    let stdio = || if launch.io == Io::Attached { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdio()).stdout(stdio()).stderr(stdio());
    let (mut failure, report) = io::pipe().map_err(LaunchError::Spawn)?;
    let kept = work_end.as_ref().map(AsRawFd::as_raw_fd);
    let steps = Steps { kept, ..Steps::prepare(exec, report.as_raw_fd())? };
    // SAFETY: `Steps::run` only makes system calls that are safe after a fork, and allocates nothing.
    unsafe { command.pre_exec(move || steps.run()) };
    // While this waits for the exec, nothing else of the daemon's loop runs, so nobody else collects the child.
    let spawned = command.spawn();
    drop((report, work_end));
    match spawned {
        Ok(mut child) => {
            let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
            let pipes = pipes.map(|((stdin, stdout), stderr)| Pipes {
                stdin: stdin.into(),
                stdout: stdout.into(),
                stderr: stderr.into(),
            });
            // A process number is positive and fits.
            Ok(Process { leader: Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)), pipes, work })
        }
        Err(source) => {
            let mut step = [0];
            let failed = failure.read(&mut step).is_ok_and(|count| count == 1).then(|| step[0]);
            Err(explain(failed, source, exec, program))
        }
    }
}

fn explain(step: Option<u8>, source: io::Error, exec: &DoExec, program: &[u8]) -> LaunchError {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let cwd = || shown(&exec.launch.cwd);
    let what = match step {
        None => {
            let command = shown(program);
            return match source.kind() {
                io::ErrorKind::NotFound => LaunchError::NotFound { command },
                io::ErrorKind::InvalidInput if source.raw_os_error().is_none() => LaunchError::Nul,
                _ => LaunchError::NotExecutable { command, source },
            };
        }
        Some(SESSION) => "start a session".to_owned(),
        Some(IDENTITY) => format!("become user id {}", exec.launch.uid),
        Some(DIRECTORY) => format!("enter the directory {}", cwd()),
        Some(STDOUT) => format!("open {}/limo-{}.out", cwd(), exec.job),
        Some(STDERR) => format!("open {}/limo-{}.err", cwd(), exec.job),
        Some(KEPT) => "hand over the end of its work".to_owned(),
        Some(_) => "prepare the process".to_owned(),
    };
    LaunchError::Step { what, source }
}

/// The submitter's environment, and what Limo tells the job.
fn environment(exec: &DoExec, around: &Surroundings, work_end: Option<&PipeReader>) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let units: Vec<_> =
        exec.placement.iter().filter_map(|part| around.spec.units.get(usize::from(part.unit.unit))).collect();
    let list = |names: Vec<&str>| OsString::from(names.join(","));
    let cores: u32 = exec.placement.iter().map(|part| part.cores).sum();
    let mut own = vec![
        ("LIMO_JOB_ID", exec.job.to_string().into()),
        ("LIMO_JOB_NAME", OsString::from(&exec.name)),
        (COOKIE, around.cookie.into()),
        ("LIMO_NODE", OsString::from(&around.spec.name)),
        ("LIMO_UNIT", list(units.iter().map(|unit| unit.name.as_str()).collect())),
        ("LIMO_HARDWARE", list(units.iter().map(|unit| unit.hardware.as_str()).collect())),
        ("LIMO_CPUS", cores.to_string().into()),
        ("LIMO_SUBMIT_DIR", text(&exec.launch.cwd)),
    ];
    if let Some(end) = work_end {
        own.push((WORK_FD, end.as_raw_fd().to_string().into()));
    }
    // A number that means something in the job which submits this one would mean something else here.
    let inherited = exec.launch.env.iter().filter(|(key, _)| key != WORK_FD.as_bytes());
    let given = inherited.map(|(key, value)| (text(key), text(value)));
    // Later ones win, so a job started from inside a job does not carry the other's names.
    given.chain(own.into_iter().map(|(key, value)| (key.into(), value))).collect()
}

/// Whom the job runs as; `None` where the daemon already is that user.
fn identity(uid: u32) -> Result<Option<Identity>, LaunchError> {
    let own = geteuid();
    if !own.is_root() {
        return if own.as_raw() == uid { Ok(None) } else { Err(LaunchError::OtherUser { own: own.as_raw(), uid }) };
    }
    let look_up = |source| LaunchError::LookUp { uid, source };
    let user = User::from_uid(Uid::from_raw(uid)).map_err(look_up)?.ok_or(LaunchError::UnknownUser { uid })?;
    let name = CString::new(user.name).map_err(|_| LaunchError::Nul)?;
    let groups = getgrouplist(&name, user.gid).map_err(look_up)?;
    Ok(Some(Identity { uid, gid: user.gid.as_raw(), groups: groups.into_iter().map(|group| group.as_raw()).collect() }))
}

struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: Vec<libc::gid_t>,
}

// Which step failed, as one byte through the report pipe: an errno alone does not say it.
const SESSION: u8 = 1;
const IDENTITY: u8 = 2;
const DIRECTORY: u8 = 3;
const STDOUT: u8 = 4;
const STDERR: u8 = 5;
const KEPT: u8 = 6;

/// What the child does between fork and exec.
struct Steps {
    identity: Option<Identity>,
    umask: libc::mode_t,
    directory: CString,
    /// For stdout and stderr, relative to `directory`.
    files: Option<[CString; 2]>,
    /// A descriptor that the command inherits.
    kept: Option<RawFd>,
    report: RawFd,
}

impl Steps {
    fn prepare(exec: &DoExec, report: RawFd) -> Result<Self, LaunchError> {
        let Launch { cwd, uid, umask, io, .. } = &exec.launch;
        let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| LaunchError::Nul);
        let file = |end: &str| text(format!("limo-{}.{end}", exec.job).into_bytes());
        let files = match io {
            Io::Attached => None,
            Io::Detached => Some([file("out")?, file("err")?]),
        };
        Ok(Self {
            identity: identity(*uid)?,
            umask: umask & 0o777,
            directory: text(cwd.clone())?,
            files,
            kept: None,
            report,
        })
    }

    /// Runs in the child after the fork: only system calls, no allocation, no lock.
    fn run(&self) -> io::Result<()> {
        // SAFETY: every pointer is to memory of this process that lives until the call returns.
        unsafe {
            self.check(SESSION, libc::setsid() >= 0)?;
            // What the daemon ignores, the job would ignore too; numbers that cannot be set are refused, harmlessly.
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            if let Some(identity) = &self.identity {
                let Identity { uid, gid, groups } = identity;
                self.check(IDENTITY, libc::setgroups(groups.len(), groups.as_ptr()) == 0)?;
                self.check(IDENTITY, libc::setresgid(*gid, *gid, *gid) == 0)?;
                self.check(IDENTITY, libc::setresuid(*uid, *uid, *uid) == 0)?;
            }
            libc::umask(self.umask);
            self.check(DIRECTORY, libc::chdir(self.directory.as_ptr()) == 0)?;
            if let Some([out, err]) = &self.files {
                self.redirect(STDOUT, out, libc::STDOUT_FILENO)?;
                self.redirect(STDERR, err, libc::STDERR_FILENO)?;
            }
            if let Some(kept) = self.kept {
                self.check(KEPT, libc::fcntl(kept, libc::F_SETFD, 0) == 0)?;
            }
        }
        Ok(())
    }

    /// Makes the descriptor `onto` write to a file.
    ///
    /// # Safety
    /// Only between fork and exec.
    unsafe fn redirect(&self, step: u8, name: &CString, onto: RawFd) -> io::Result<()> {
        // Without O_NONBLOCK a FIFO of that name, which anybody may make, would stop the daemon until somebody reads it.
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_CLOEXEC;
        // SAFETY: `name` lives until the calls return, and `onto` is a descriptor of this process.
        unsafe {
            let fd = libc::open(name.as_ptr(), flags | libc::O_NONBLOCK | libc::O_NOCTTY, 0o666);
            self.check(step, fd >= 0)?;
            self.check(step, libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND) == 0)?;
            self.check(step, libc::dup2(fd, onto) == onto)
        }
    }

    fn check(&self, step: u8, done: bool) -> io::Result<()> {
        if done {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // SAFETY: one byte of this stack frame into a pipe that the parent has open.
        unsafe { libc::write(self.report, (&raw const step).cast(), 1) };
        Err(error)
    }
}
