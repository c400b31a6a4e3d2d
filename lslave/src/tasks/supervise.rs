//! Runs the tasks, from the first start to the last byte of output.

use std::io::Write;
use std::process::ExitStatus;
use std::time::Duration;
use std::{io, thread};

use limo_model::Outcome;
use limo_proto::CHUNK;
use nix::libc;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Plan;
use super::binding::masks;
use super::broadcast::{broadcast, stdin};
use super::lines::Lines;
use super::report::{Report, outcome_of};
use super::start::start;

/// Most pieces of output that wait to be written, each of about [`CHUNK`] bytes. Tasks with more output wait.
const PIECES: usize = 4;

/// Longest time for which other processes may hold a task's pipes open after the last task. All of the tasks' output
/// is in the pipes by then.
const AFTER_END: Duration = Duration::from_millis(100);

/// A time much later than the end of any job.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

type Pieces = mpsc::Sender<Vec<u8>>;

/// Running tasks.
struct RunningTasks {
    waits: JoinSet<(u32, io::Result<ExitStatus>)>,
    readers: JoinSet<()>,
    /// Number and process of each task that has not ended.
    alive: Vec<(u32, i32)>,
    over: watch::Sender<bool>,
    report: Report,
}

/// Runs the tasks to their ends; returns the worst end.
pub async fn supervise(plan: Plan) -> Outcome {
    let (out, out_written) = writer(io::stdout());
    let (err, err_written) = writer(io::stderr());
    let mut running = RunningTasks {
        waits: JoinSet::new(),
        readers: JoinSet::new(),
        alive: Vec::new(),
        over: watch::Sender::new(false),
        report: Report::default(),
    };
    let mut failed = start_all(&plan, &mut running, (&out, &err)).await;
    let mut kill_at = None;
    loop {
        if failed && plan.parallel.kill_on_bad_exit && kill_at.is_none() {
            // SAFETY: no memory is involved. The group is that of this process, which blocks the signal.
            unsafe {
                libc::killpg(0, libc::SIGTERM);
                libc::killpg(0, libc::SIGCONT);
            }
            kill_at = Some(Instant::now() + Duration::from_millis(u64::try_from(plan.grace.ms()).unwrap_or(0)));
        }
        tokio::select! {
            ended = running.waits.join_next() => match ended {
                Some(Ok((task, status))) => failed |= ended_task(&mut running, task, status),
                Some(Err(_)) => {}
                None => break,
            },
            () = sleep_until(kill_at.unwrap_or_else(|| Instant::now() + NEVER)) => {
                kill_at = Some(Instant::now() + NEVER);
                running.alive.iter().for_each(|(_, pid)| signal(*pid, libc::SIGKILL));
            }
        }
    }
    running.over.send_replace(true);
    while running.readers.join_next().await.is_some() {}
    if plan.total > 1 && !plan.parallel.quiet {
        // This fails only if stderr has no reader.
        let _ = err.send(running.report.lines(&plan.node).into_bytes()).await;
    }
    drop((out, err));
    for written in [out_written, err_written] {
        let _ = written.join();
    }
    running.report.worst()
}

/// Starts all tasks; returns true if one of them could not be started.
async fn start_all(plan: &Plan, running: &mut RunningTasks, (out, err): (&Pieces, &Pieces)) -> bool {
    let stdin = stdin();
    let (mut sinks, mut failed) = (Vec::new(), false);
    for (place, mask) in masks(plan).into_iter().enumerate() {
        let task = plan.first.saturating_add(u32::try_from(place).unwrap_or(u32::MAX));
        let reads = stdin.is_some() && plan.parallel.reader.is_none_or(|reader| reader == task);
        // These signals for the group came before this task was in it.
        let missed = pending();
        let mut child = match start(plan, (place, mask), reads) {
            Ok(child) => child,
            Err(error) => {
                failed |= running.report.add(task, error.outcome());
                let _ = err.send(format!("limo: {}: task {task}: {error}\n", plan.node).into_bytes()).await;
                continue;
            }
        };
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
            missed.into_iter().for_each(|number| signal(pid, number));
            running.alive.push((task, pid));
        }
        sinks.extend(child.stdin.take());
        let lines = || Lines::of_task(task, plan.total, plan.parallel.label);
        if let Some(stdout) = child.stdout.take() {
            running.readers.spawn(relay(stdout, lines(), out.clone(), running.over.subscribe()));
        }
        if let Some(stderr) = child.stderr.take() {
            running.readers.spawn(relay(stderr, lines(), err.clone(), running.over.subscribe()));
        }
        running.waits.spawn(async move { (task, child.wait().await) });
    }
    if let Some(stdin) = stdin {
        tokio::spawn(broadcast(stdin, sinks));
    }
    failed
}

fn ended_task(running: &mut RunningTasks, task: u32, status: io::Result<ExitStatus>) -> bool {
    running.alive.retain(|(own, _)| *own != task);
    // The task is collected only here.
    running.report.add(task, status.map_or(Outcome::Signaled(libc::SIGKILL), outcome_of))
}

/// Passes whole lines on until the output ends, or all tasks are over and the pipe is empty.
async fn relay(mut from: impl AsyncRead + Unpin, mut lines: Lines, to: Pieces, mut over: watch::Receiver<bool>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let given_up = async {
            // The sender exists until the readers have ended.
            let _ = over.wait_for(|over| *over).await;
            tokio::time::sleep(AFTER_END).await;
        };
        let count = tokio::select! {
            biased;
            read = from.read(&mut buffer) => read.unwrap_or(0),
            () = given_up => 0,
        };
        if count == 0 {
            break;
        }
        let piece = lines.take(&buffer[..count]);
        if !piece.is_empty() && to.send(piece).await.is_err() {
            return;
        }
    }
    let _ = to.send(lines.end()).await;
}

/// Writes whole pieces in order. If the reader has ended, the remaining ones are discarded.
fn writer(mut to: impl Write + Send + 'static) -> (Pieces, thread::JoinHandle<()>) {
    let (pieces, mut taken) = mpsc::channel::<Vec<u8>>(PIECES);
    let thread = thread::spawn(move || {
        let mut open = true;
        while let Some(piece) = taken.blocking_recv() {
            open = open && to.write_all(&piece).and_then(|()| to.flush()).is_ok();
        }
    });
    (pieces, thread)
}

/// Takes the blocked signals that arrived for this process.
fn pending() -> Vec<i32> {
    // SAFETY: the set outlives the calls.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigpending(&raw mut set);
        (1..=libc::SIGRTMAX()).filter(|number| libc::sigismember(&raw const set, *number) == 1).collect()
    }
}

fn signal(pid: i32, number: i32) {
    // SAFETY: no memory is involved. The process is a child that has not been collected.
    unsafe { libc::kill(pid, number) };
}
