//! Runs prologs and epilogs beside the loop, a few at a time, each with a time limit.
//!
//! A program runs as the daemon's user, which is root in a cluster. Its output goes to the log. Processes that it leaves
//! behind are not killed, unless it exceeds its limit or is interrupted.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use limo_model::{Attempt, JobId, Span, clip_lossy};
use limo_node::{Script, ScriptOrder, duration};
use limo_shepherd::processes::{COOKIE, Mark, ProcessHandle, group, sweep};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, geteuid};
use tokio::sync::{Semaphore, mpsc};
use tracing::{info, warn};

use crate::config::{ScriptProgram, ScriptSettings};
use crate::shell::Event;

/// Most programs that run at a time, each with a thread that waits for it; others wait for their turn.
const AT_A_TIME: usize = 16;

/// Most output of a program that is logged, in bytes.
const OUTPUT: usize = 16 * 1024;

/// Longest last line of output in the reason of a failure, in bytes.
const LAST_LINE: usize = 200;

/// Longest wait for killed processes.
const KILLED: Duration = Duration::from_secs(5);

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The programs of a node, and those that run or wait for their turn.
pub struct ScriptRunner {
    settings: ScriptSettings,
    node: String,
    turns: Arc<Semaphore>,
    /// Ends of pipes; closing one interrupts the program of the attempt.
    running: BTreeMap<(JobId, Attempt), PipeWriter>,
}

impl ScriptRunner {
    pub fn new(settings: ScriptSettings, node: &str) -> Self {
        let turns = Arc::new(Semaphore::new(AT_A_TIME));
        Self { settings, node: node.to_owned(), turns, running: BTreeMap::new() }
    }

    /// Runs a program. [`Event::ScriptEnded`] follows.
    pub fn run(&mut self, order: ScriptOrder, events: mpsc::WeakSender<Event>) {
        let (script, job, attempt) = (order.script, order.job, order.attempt);
        let program = match script {
            Script::Prolog => self.settings.prolog.clone(),
            Script::Epilog => self.settings.epilog.clone(),
        };
        let pipe = io::pipe().map_err(|error| cannot_run(&error)).and_then(|(interrupted, writer)| {
            self.running.insert((job, attempt), writer);
            Ok((program.ok_or("is not configured")?, interrupted))
        });
        let (turns, node) = (Arc::clone(&self.turns), self.node.clone());
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            let result = match pipe {
                Ok((program, interrupted)) => {
                    let ran = tokio::task::spawn_blocking(move || run(&program, &order, &node, &interrupted)).await;
                    ran.unwrap_or_else(|error| Err(format!("cannot be watched: {error}")))
                }
                Err(error) => Err(error),
            };
            if let Some(events) = events.upgrade() {
                // The loop has ended if the daemon has ended.
                let _ = events.send(Event::ScriptEnded { script, job, attempt, result }).await;
            }
        });
    }

    /// Kills the program of an attempt.
    pub fn interrupt(&mut self, job: JobId, attempt: Attempt) {
        self.running.remove(&(job, attempt));
    }
}

fn cannot_run(error: &io::Error) -> String {
    format!("cannot be run: {error}")
}

/// Runs a program to its end. The reason of a failure continues a sentence that begins with `the prolog of job 7`.
fn run(program: &ScriptProgram, order: &ScriptOrder, node: &str, interrupted: &PipeReader) -> Result<(), String> {
    // Its processes have another value than those of the job, which are killed when the job ends.
    let mark = Mark { cookie: format!("{}-{}", order.cookie, order.script), uid: geteuid().as_raw() };
    if order.again {
        sweep(&mark, KILLED);
    }
    let (mut output, writer) = io::pipe().map_err(|error| cannot_run(&error))?;
    let mut command = Command::new(&program.path);
    command.env_clear().envs(environment(order, node)).env(COOKIE, &mark.cookie).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stderr(writer.try_clone().map_err(|error| cannot_run(&error))?).stdout(writer);
    // SAFETY: the closure only makes a system call. The thread waits for the program, so that the signal follows the
    // end of the daemon.
    unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
    let mut child = command.spawn().map_err(|error| cannot_run(&error))?;
    // The pipe ends with the last process that writes to it.
    drop(command);
    // The kernel need not spare the program when memory runs out, unlike the daemon. Only root may change this.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "0");
    let mut kept = Output::default();
    let ended = watch(&mut child, (&mut output, interrupted), &mut kept, program.time_limit);
    kept.log(order);
    let status = ended.inspect_err(|_| kill(&mut child))?;
    if status.success() { Ok(()) } else { Err(format!("{}{}", words(status), kept.last_line())) }
}

fn environment(order: &ScriptOrder, node: &str) -> [(&'static str, String); 7] {
    let subject = &order.subject;
    [
        ("PATH", PATH.to_owned()),
        ("LIMO_JOB_ID", order.job.to_string()),
        ("LIMO_JOB_NAME", subject.name.clone()),
        ("LIMO_JOB_USER", subject.user.clone()),
        ("LIMO_JOB_UID", subject.uid.to_string()),
        ("LIMO_NODE", node.to_owned()),
        ("LIMO_RESTART_COUNT", subject.restarts.to_string()),
    ]
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or(libc::SIGKILL)),
    }
}

/// Reads the output until the program has ended.
fn watch(
    child: &mut Child,
    (output, interrupted): (&mut PipeReader, &PipeReader),
    kept: &mut Output,
    time_limit: Span,
) -> Result<ExitStatus, String> {
    let watched = |error: io::Error| format!("cannot be watched: {error}");
    fcntl(output.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| watched(error.into()))?;
    let process = open(child).ok_or_else(|| watched(io::Error::other("the kernel gives no handle of it")))?;
    let end = Instant::now() + duration(time_limit);
    let mut is_open = true;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("exceeded its time limit of {time_limit}"));
        }
        let mut fds = vec![PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        fds.push(PollFd::new(interrupted.as_fd(), PollFlags::POLLIN));
        fds.extend(is_open.then(|| PollFd::new(output.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(watched(error.into())),
        }
        let [has_ended, is_interrupted] = [0, 1].map(|index| fds[index].any().unwrap_or(false));
        is_open = is_open && kept.read(output);
        if has_ended {
            return child.wait().map_err(watched);
        }
        if is_interrupted {
            return Err("was interrupted".to_owned());
        }
    }
}

fn open(child: &Child) -> Option<ProcessHandle> {
    ProcessHandle::open(i32::try_from(child.id()).ok()?)
}

/// Kills a program with all processes of its group. A process that cannot be killed is left to the kernel.
fn kill(child: &mut Child) {
    // The child is not collected yet, so that its number is its own.
    group(Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX)), libc::SIGKILL);
    let end = Instant::now() + KILLED;
    if let Some(process) = open(child) {
        let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
        let left = end.saturating_duration_since(Instant::now());
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    }
    if !matches!(child.try_wait(), Ok(Some(_))) {
        warn!(pid = child.id(), "the program cannot be killed");
    }
}

/// The first bytes of a program's output.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    dropped: usize,
}

impl Output {
    /// Reads all that there is. Returns false at the end of the pipe.
    fn read(&mut self, output: &mut PipeReader) -> bool {
        let mut piece = [0; 4096];
        // A program that never stops writing must not keep its time limit from being checked.
        for _ in 0..64 {
            match output.read(&mut piece) {
                Ok(0) => return false,
                Ok(count) => {
                    let kept = count.min(OUTPUT - self.bytes.len());
                    self.bytes.extend_from_slice(&piece[..kept]);
                    self.dropped += count - kept;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        true
    }

    fn lines(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
    }

    fn log(&self, order: &ScriptOrder) {
        let (script, job) = (order.script, order.job);
        for line in self.lines() {
            info!(%job, "{script}: {}", clip_lossy(line, OUTPUT));
        }
        if self.dropped > 0 {
            warn!(%job, "{script}: {} further bytes of output, above the limit of {OUTPUT}", self.dropped);
        }
    }

    /// Returns the last line for the end of a sentence.
    fn last_line(&self) -> String {
        self.lines().next_back().map(|line| format!(": {}", clip_lossy(line, LAST_LINE))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use limo_node::Subject;
    use tempfile::TempDir;

    use super::*;

    /// Returns a program with this script, in a directory of its own.
    fn program(script: &str, time_limit: Span) -> (TempDir, ScriptProgram) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("own file");
        (dir, ScriptProgram { path, time_limit })
    }

    fn order(again: bool) -> ScriptOrder {
        let subject = Subject { name: "tidy".into(), user: "ada".into(), uid: 7, restarts: 2 };
        let (job, attempt) = (JobId(1), Attempt(1));
        // The value is unique on this machine, because processes with it are killed.
        let cookie = format!("test-{}-{:?}", std::process::id(), std::thread::current().id());
        ScriptOrder { script: Script::Epilog, job, attempt, subject, cookie, again }
    }

    fn ran(script: &str, time_limit: Span) -> Result<(), String> {
        let (_dir, program) = program(script, time_limit);
        let (interrupted, _writer) = io::pipe().expect("a pipe");
        run(&program, &order(false), "n1", &interrupted)
    }

    const LONG: Span = Span::from_secs(60);

    #[test]
    fn a_program_has_an_environment_of_its_own_and_its_failure_has_a_reason() {
        let shown = "echo $LIMO_JOB_ID $LIMO_JOB_NAME $LIMO_JOB_USER $LIMO_JOB_UID $LIMO_NODE $LIMO_RESTART_COUNT";
        assert_eq!(ran("test $(env | grep -vcE '^(PWD|SHLVL|_)=') = 8 && ! read line", LONG), Ok(()));
        let failed = ran(&format!("{shown} >&2; echo; exit 3"), LONG);
        assert_eq!(failed, Err("failed with exit code 3: 1 tidy ada 7 n1 2".into()));
        assert_eq!(ran("kill -9 $$", LONG), Err("was ended by signal 9".into()));
        let missing = ScriptProgram { path: "/nowhere/program".into(), time_limit: LONG };
        let (interrupted, _writer) = io::pipe().expect("a pipe");
        let error = run(&missing, &order(false), "n1", &interrupted).expect_err("it is missing");
        assert!(error.starts_with("cannot be run: No such file"), "{error}");
    }

    #[test]
    fn endless_output_is_dropped_and_the_time_limit_holds() {
        let limit = Span::from_ms(200);
        assert_eq!(ran("exec yes", limit), Err("exceeded its time limit of 200ms".into()));
        let mut output = Output::default();
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let written = std::thread::spawn(move || io::Write::write_all(&mut &writer, &[b'x'; 100_000]));
        while output.read(&mut reader) {}
        written.join().expect("no panic").expect("read");
        assert_eq!((output.bytes.len(), output.dropped), (16 * 1024, 100_000 - 16 * 1024));
    }

    #[test]
    fn a_process_that_a_program_leaves_behind_does_not_delay_its_end() {
        let begin = Instant::now();
        assert_eq!(ran("sleep 20 & exit 0", LONG), Ok(()));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn processes_of_an_interrupted_run_are_killed_before_the_next() {
        let (dir, program) = program("cd ${0%/*}; [ -e child ] && exit; sleep 1000 & echo $! > child", LONG);
        let (interrupted, _writer) = io::pipe().expect("a pipe");
        let child = || fs::read_to_string(dir.path().join("child")).expect("written").trim().parse().expect("a number");
        assert_eq!(run(&program, &order(false), "n1", &interrupted), Ok(()));
        let left = ProcessHandle::open(child()).expect("it runs on");
        assert_eq!(run(&program, &order(true), "n1", &interrupted), Ok(()));
        let mut fds = [PollFd::new(left.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO), Ok(1), "it has ended");
    }

    #[test]
    fn an_interrupted_program_is_killed() {
        let (_dir, program) = program("sleep 1000", LONG);
        let (interrupted, writer) = io::pipe().expect("a pipe");
        drop(writer);
        assert_eq!(run(&program, &order(false), "n1", &interrupted), Err("was interrupted".into()));
    }
}
