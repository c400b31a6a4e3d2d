//! `lrun COMMAND`: passes streams, signals and the exit code between this process and its job.

use limo_client::{Failure, MasterArg, ReconnectArg};
use limo_proto::{Channel, SendExec, WindowSize};
use nix::libc::SIGCONT;
use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::HowArgs;
use crate::farewell::farewell;
use crate::link::{Link, LinkEvent};
use crate::pumps::{OutputWriter, Report, read_stdin};
use crate::session::{Effect, Input, Leave, Session};
use crate::signals;
use crate::terminal::{self, Keys};
use crate::voice::Voice;

/// Threads that read stdin and write stdout and stderr.
struct Pumps {
    /// Receiver of stdin; present once the job has asked for stdin.
    stdin: Option<mpsc::Receiver<bytes::Bytes>>,
    stdout: OutputWriter,
    stderr: OutputWriter,
}

/// Submits the job, passes its streams through and returns its exit code.
///
/// # Errors
/// If Limo fails: the master is absent or refuses, or the connection to the job is lost for good.
pub async fn run(exec: SendExec, how: &HowArgs, master: MasterArg, reconnect: ReconnectArg) -> Result<u8, Failure> {
    let has_terminal = exec.launch.terminal.is_some();
    follow(Session::new(exec), has_terminal, (how, master, reconnect)).await
}

/// Passes streams and signals between this process and a job until the job is over.
///
/// # Errors
/// The same as for [`run`].
pub async fn follow(
    mut session: Session,
    has_terminal: bool,
    (how, master, reconnect): (&HowArgs, MasterArg, ReconnectArg),
) -> Result<u8, Failure> {
    let patience = reconnect.reconnect_timeout;
    let cannot_catch = |error| Failure::new(format_args!("cannot catch signals: {error}"));
    let mut signals = signals::catch().map_err(cannot_catch)?;
    let mut keys = has_terminal.then(Keys::new).transpose()?;
    let mut sizes = keys.is_some().then(|| signal(SignalKind::window_change())).transpose().map_err(cannot_catch)?;
    let mut link = Link::open(master.master(), patience).await?;
    let mut voice = Voice::new(how);
    let (reports, mut written) = mpsc::unbounded_channel();
    let mut pumps = Pumps {
        stdin: None,
        stdout: OutputWriter::new(Channel::Stdout, reports.clone()),
        stderr: OutputWriter::new(Channel::Stderr, reports),
    };
    let begun = Instant::now();
    let leave = 'session: loop {
        if session.wants_stdin() && pumps.stdin.is_none() {
            pumps.stdin = Some(read_stdin());
        }
        voice.on_raw(keys.as_ref().is_some_and(Keys::is_raw));
        let input = tokio::select! {
            event = link.next() => input_of(event),
            Some(signal) = signals.recv() => {
                keys.as_mut().filter(|_| signal == SIGCONT).into_iter().for_each(Keys::go_on);
                Input::Signal(signal)
            }
            Some(size) = resized(&mut sizes) => Input::Resized(size),
            Some(report) = written.recv() => match report {
                Report::Written(channel, part, count) => Input::Written(channel, part, count),
                Report::Blocked(channel, error) => Input::Blocked(channel, error),
            },
            Some(piece) = piece(&mut pumps.stdin), if session.wants_stdin() => Input::Stdin(piece),
            // Each other event starts this wait again.
            () = tokio::time::sleep(patience.0), if session.awaits_output() => Input::Silence,
        };
        let mut effects = session.step(begun.elapsed(), input);
        // This comes before the first byte is shown, because the job's terminal has already ended its lines.
        keys.as_mut().filter(|_| session.is_running()).into_iter().for_each(Keys::give);
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Send(frame) => link.send(frame),
                    Effect::Write(Channel::Stderr, part, bytes) => pumps.stderr.write((part, bytes)),
                    Effect::Write(_, part, bytes) => pumps.stdout.write((part, bytes)),
                    Effect::Say(news) => voice.say(&news, patience.0),
                    Effect::Reconnect => more.extend(session.step(begun.elapsed(), input_of(link.hang_up()))),
                    Effect::StopSelf => {
                        keys.as_mut().into_iter().for_each(Keys::take_back);
                        stop(&link, &mut voice).await;
                    }
                    Effect::Leave(leave) => break 'session leave,
                }
            }
            effects = more;
        }
    };
    link.flush().await;
    drop(keys);
    voice.on_raw(false);
    end(leave, how, &mut voice)
}

fn input_of(event: LinkEvent) -> Input {
    match event {
        LinkEvent::Connected => Input::Connected,
        LinkEvent::Heard(frame) => Input::Heard(frame),
        LinkEvent::Broken => Input::Broken,
        LinkEvent::GaveUp(failure) => Input::GaveUp(failure),
    }
}

async fn piece(stdin: &mut Option<mpsc::Receiver<bytes::Bytes>>) -> Option<bytes::Bytes> {
    match stdin {
        Some(stdin) => stdin.recv().await,
        None => None,
    }
}

/// Returns the size of the terminal at each change. Never returns without a terminal.
async fn resized(sizes: &mut Option<tokio::signal::unix::Signal>) -> Option<WindowSize> {
    match sizes {
        Some(sizes) => sizes.recv().await.and_then(|()| terminal::size().ok()),
        None => None,
    }
}

/// Stops this process at the request of its terminal, after the job was notified. Returns when it is continued.
async fn stop(link: &Link, voice: &mut Voice) {
    link.flush().await;
    voice.wipe();
    // It cannot fail for a valid signal.
    let _ = raise(Signal::SIGSTOP);
}

fn end(leave: Leave, how: &HowArgs, voice: &mut Voice) -> Result<u8, Failure> {
    voice.wipe();
    let farewell = farewell(leave, how)?;
    for line in farewell.lines() {
        voice.line(&line);
    }
    Ok(farewell.code)
}
