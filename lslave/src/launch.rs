//! Makes a plan for `lshepherd` from an assignment, so that the job runs as its submitter would run it. Reads no file
//! of a user and never waits.

mod environment;
mod explain;
mod held;
mod program;
mod several;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use limo_model::{CheckpointBy, FileFacts, NodeSpec};
use limo_proto::{DoExec, FileNames, Io, Launch};
use limo_shepherd::{Carried, FIRST_INHERITED, Identity, Kept, Output, Plan};

pub use environment::cpu_bind;
use environment::environment;
pub use explain::{Explanation, LaunchError};
pub use held::{NAME as HELD, main as hold};
use program::Program;

use crate::tasks::share;
use crate::terminal;

/// Inputs besides the assignment.
pub struct Surroundings<'a> {
    pub spec: &'a NodeSpec,
    pub cookie: &'a str,
    /// Identity of the job's user; `None` if the daemon runs as that user.
    pub identity: Option<Identity>,
    /// True if emulated hardware decides when the work is done.
    pub emulated_work: bool,
    /// Time in seconds since 1970 (UTC).
    pub now_s: i64,
}

/// Launch that is ready to be ordered.
pub struct Prepared {
    pub plan: Plan,
    /// Stdin, stdout, stderr, the descriptors that the job inherits, and those that its shepherd keeps.
    pub descriptors: Vec<OwnedFd>,
    pub kept: Kept,
    pub explanation: Explanation,
}

/// Other ends of the job's stdio, in the order of [`Kept`]. Other streams go to files.
#[derive(Default)]
struct Pipes {
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// Terminal that replaces all three pipes.
    terminal: Option<OwnedFd>,
    /// On emulated hardware: closed when the job's work is done.
    work: Option<OwnedFd>,
}

impl Pipes {
    fn into_kept(self) -> (Kept, Vec<OwnedFd>) {
        let Self { stdin, stdout, stderr, terminal, work } = self;
        let kept = Kept {
            stdin: stdin.is_some(),
            stdout: stdout.is_some(),
            stderr: stderr.is_some(),
            terminal: terminal.is_some(),
            work: work.is_some(),
        };
        (kept, [stdin, stdout, stderr, terminal, work].into_iter().flatten().collect())
    }
}

/// Returns the directory of the file that came with a job.
///
/// It is in the system's directory for temporary files (`TMPDIR` of the daemon), because the daemon's own state is
/// closed to users. Its name contains the cookie, so that no user can guess it and create it first.
pub fn carried_directory(cookie: &str) -> PathBuf {
    std::env::temp_dir().join(format!("limo-{cookie}"))
}

/// Prepares the launch of `exec`.
///
/// # Errors
/// [`LaunchError`]; nothing is left behind then.
pub fn prepare(exec: &DoExec, around: Surroundings) -> Result<Prepared, LaunchError> {
    let launch = &exec.launch;
    let variant = variant(exec, around.spec);
    let Some((program, arguments)) = variant.unwrap_or(&launch.argv).split_first() else {
        return Err(LaunchError::NotFound { command: String::new() });
    };
    // A variant replaces the command whose file was sent.
    let carried = launch.carried.as_ref().filter(|_| variant.is_none() && !held::is_held(exec));
    let carried = carried.map(|content| carried_file(around.cookie, program, content));
    let path = carried
        .as_ref()
        .map(|carried| Path::new(OsStr::from_bytes(&carried.directory)).join(OsStr::from_bytes(&carried.name)));
    let program_path = path.as_ref().map_or(OsStr::from_bytes(program), |path| path.as_os_str());
    let files = launch.file_names(&facts(exec, around.spec, 0));
    let held = held::is_held(exec);
    // A held node opens no file of the job.
    let files = if held { FileNames::default() } else { files };
    let several = several::prepare(exec, around.spec, (program_path, arguments), &files)?;
    let (work_end, work) = around.emulated_work.then(io::pipe).transpose().map_err(LaunchError::Spawn)?.unzip();
    // The order of the descriptors determines their numbers in the job.
    let work_fd = work_end.is_some().then_some(FIRST_INHERITED);
    let plan_fd = FIRST_INHERITED + i32::from(work_end.is_some());
    let env = environment(exec, &around, work_fd);
    let own_argv = std::iter::once(program_path).chain(arguments.iter().map(|argument| OsStr::from_bytes(argument)));
    let child = match several.as_ref().map(|_| several::program(plan_fd)) {
        Some((path, argv)) => Program::new(&path, argv.into_iter(), env)?,
        None if held => {
            let (path, argv) = held::program(plan_fd);
            Program::new(&path, argv.into_iter(), env)?
        }
        None => Program::new(program_path, own_argv.map(OsStr::to_owned), env)?,
    };
    let keep = several.as_ref().map_or([false; 2], |several| several.keep);
    let own = several.as_ref().map_or(&files, |several| &several.own).clone();
    let explanation = Explanation {
        program: program.clone(),
        directory: launch.cwd.clone(),
        uid: launch.uid,
        files: own.clone(),
        carried: carried.is_some(),
        several: several.is_some(),
    };
    let (stdio, mut pipes) = stdio(launch, &files, around.identity.as_ref())?;
    pipes.work = work.map(OwnedFd::from);
    let (stdio_count, mut descriptors) = (stdio.len(), Vec::from(stdio));
    descriptors.extend(work_end.map(OwnedFd::from));
    let until_exec = usize::from(several.is_some() || held);
    if let Some(several) = several {
        descriptors.extend([OwnedFd::from(several.plan), several::own_program()?]);
    } else if held {
        descriptors.push(several::own_program()?);
    }
    let command = exec.checkpoint.as_ref().and_then(|checkpoint| match &checkpoint.by {
        CheckpointBy::Command(command) => Some(command.clone().into_bytes()),
        CheckpointBy::Signal(_) => None,
    });
    let nul = |bytes: &[u8]| bytes.contains(&0);
    if nul(&launch.cwd)
        || command.as_deref().is_some_and(nul)
        || [&own.stdin, &own.stdout, &own.stderr].into_iter().flatten().any(|name| nul(name))
    {
        return Err(LaunchError::Nul);
    }
    let output = |name: Option<Vec<u8>>, keep| name.map(|name| Output { name, keep: keep || launch.files.append });
    let inherited = descriptors.len() - stdio_count;
    let (kept, more) = pipes.into_kept();
    descriptors.extend(more);
    let plan = Plan {
        paths: child.paths,
        argv: child.argv,
        env: child.env,
        directory: launch.cwd.clone(),
        umask: launch.umask & 0o777,
        identity: around.identity,
        uid: launch.uid,
        stdin: own.stdin,
        stdout: output(own.stdout, keep[0]),
        stderr: output(own.stderr, keep[1]),
        terminal: launch.terminal.is_some() && launch.io == Io::Attached,
        blocked: share(exec).is_some() || held,
        cookie: around.cookie.to_owned(),
        carried,
        inherited,
        until_exec,
        // The shell makes it and chooses the cores when everything else is ready.
        group: Vec::new(),
        no_new_privs: false,
        session: None,
        checkpoints: checkpoint_directory(exec, around.spec).map(String::into_bytes),
        checkpoint_command: command,
        cores: Vec::new(),
    };
    Ok(Prepared { plan, descriptors, kept, explanation })
}

/// Returns the name of the directory for checkpoints, in the job's directory, if the job makes any. All attempts have the
/// same one.
fn checkpoint_directory(exec: &DoExec, spec: &NodeSpec) -> Option<String> {
    exec.checkpoint.as_ref().map(|_| format!("limo-checkpoint-{}", facts(exec, spec, 0).own_number()))
}

/// Returns the command for the hardware of the job, if it differs.
fn variant<'a>(exec: &'a DoExec, spec: &NodeSpec) -> Option<&'a Vec<Vec<u8>>> {
    let first = exec.placement.first().and_then(|part| spec.units.get(usize::from(part.unit.unit)));
    let hardware = first.map_or("", |unit| unit.hardware.as_str());
    exec.launch.variants.iter().find(|(name, _)| name == hardware).map(|(_, argv)| argv)
}

/// Returns the explanation for a job that an earlier daemon has launched.
pub fn explanation(exec: &DoExec, spec: &NodeSpec) -> Explanation {
    let (launch, variant) = (&exec.launch, variant(exec, spec));
    Explanation {
        program: variant.unwrap_or(&launch.argv).first().cloned().unwrap_or_default(),
        directory: launch.cwd.clone(),
        uid: launch.uid,
        files: launch.file_names(&facts(exec, spec, 0)),
        carried: launch.carried.is_some() && variant.is_none(),
        several: share(exec).is_some(),
    }
}

fn carried_file(cookie: &str, program: &[u8], content: &[u8]) -> Carried {
    // A name with a directory in it could lead out of this directory.
    let name = Path::new(OsStr::from_bytes(program)).file_name().unwrap_or(OsStr::new("command"));
    Carried {
        directory: carried_directory(cookie).into_os_string().into_encoded_bytes(),
        name: name.as_bytes().to_vec(),
        content: content.to_vec(),
    }
}

/// Makes the child's streams until its files are opened, and the other ends of the pipes.
fn stdio(
    launch: &Launch,
    files: &FileNames,
    identity: Option<&Identity>,
) -> Result<([OwnedFd; 3], Pipes), LaunchError> {
    let attached = launch.io == Io::Attached;
    if let Some(size) = launch.terminal.filter(|_| attached) {
        let step = |source| LaunchError::Step { what: "make a terminal".into(), source };
        let terminal::Pair { ours, jobs } =
            terminal::open(size, identity.map(|identity| identity.uid)).map_err(step)?;
        let again = || jobs.try_clone().map_err(step);
        let ends = [again()?, again()?, again()?];
        return Ok((ends, Pipes { terminal: Some(ours), ..Pipes::default() }));
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
    let pipes = Pipes { stdin: to_stdin, stdout: from_stdout, stderr: from_stderr, ..Pipes::default() };
    Ok(([stdin, stdout, stderr], pipes))
}

fn null() -> io::Result<OwnedFd> {
    OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from)
}

/// Returns the values of patterns in file names, for the task at `place` on this node.
fn facts<'a>(exec: &'a DoExec, spec: &'a NodeSpec, place: u32) -> FileFacts<'a> {
    let DoExec { job, name, user, task, share, .. } = exec;
    let array = task.as_ref().map(|task| (task.array, task.number));
    let (node_index, first) = share.as_ref().map_or((0, 0), |share| (share.index, share.own().0));
    FileFacts { job: *job, name, user, node: &spec.name, node_index, task: first.saturating_add(place), array }
}
