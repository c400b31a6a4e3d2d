//! `lrun COMMAND`: becomes the job until it is over.

use limo_client::{Failure, MasterArg, ReconnectArg};
use limo_proto::{Channel, SendExec};
use nix::sys::signal::{Signal, raise};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::HowArgs;
use crate::farewell::farewell;
use crate::link::{Link, LinkEvent};
use crate::pumps::{Report, read_stdin, write_output};
use crate::session::{Effect, Input, Leave, Session};
use crate::signals;
use crate::voice::Voice;

/// The threads that read and write for this process.
struct Pumps {
    /// Started when the job takes its first byte.
    stdin: Option<mpsc::Receiver<bytes::Bytes>>,
    stdout: std::sync::mpsc::Sender<bytes::Bytes>,
    stderr: std::sync::mpsc::Sender<bytes::Bytes>,
}

/// Submits the job, passes everything through and returns its exit code.
///
/// # Errors
/// Where Limo fails: no master, a refusal, no way back to a job.
pub async fn run(exec: SendExec, how: &HowArgs, master: MasterArg, reconnect: ReconnectArg) -> Result<u8, Failure> {
    let patience = reconnect.reconnect_timeout;
    let mut signals = signals::catch().map_err(|error| Failure::new(format_args!("cannot catch signals: {error}")))?;
    let mut link = Link::open(master.master, patience).await?;
    let mut session = Session::new(exec);
    let mut voice = Voice::new(how);
    let (reports, mut written) = mpsc::unbounded_channel();
    let mut pumps = Pumps {
        stdin: None,
        stdout: write_output(Channel::Stdout, reports.clone()),
        stderr: write_output(Channel::Stderr, reports),
    };
    let begun = Instant::now();
    let leave = 'session: loop {
        if session.wants_stdin() && pumps.stdin.is_none() {
            pumps.stdin = Some(read_stdin());
        }
        let input = tokio::select! {
            event = link.next() => input_of(event),
            Some(signal) = signals.recv() => Input::Signal(signal),
            Some(report) = written.recv() => match report {
                Report::Written(channel, count) => Input::Written(channel, count),
                Report::Blocked(channel, error) => Input::Blocked(channel, error),
            },
            Some(piece) = piece(&mut pumps.stdin), if session.wants_stdin() => Input::Stdin(piece),
            // Begins anew with every other input.
            () = tokio::time::sleep(patience.0), if session.awaits_output() => Input::Silence,
        };
        let mut effects = session.step(begun.elapsed(), input);
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Send(frame) => link.send(frame),
                    // A pump ends only with this process.
                    Effect::Write(Channel::Stderr, bytes) => drop(pumps.stderr.send(bytes)),
                    Effect::Write(_, bytes) => drop(pumps.stdout.send(bytes)),
                    Effect::Say(news) => voice.say(&news, patience.0),
                    Effect::Reconnect => more.extend(session.step(begun.elapsed(), input_of(link.hang_up()))),
                    Effect::StopSelf => stop(&link, &mut voice).await,
                    Effect::Leave(leave) => break 'session leave,
                }
            }
            effects = more;
        }
    };
    link.flush().await;
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

/// Stops this process as its terminal asked, after the job has been told. Returns when it is continued.
async fn stop(link: &Link, voice: &mut Voice) {
    link.flush().await;
    voice.wipe();
    // It cannot fail for a valid signal.
    let _ = raise(Signal::SIGSTOP);
}

fn end(leave: Leave, how: &HowArgs, voice: &mut Voice) -> Result<u8, Failure> {
    voice.wipe();
    let farewell = farewell(leave, how)?;
    if let Some(words) = &farewell.words {
        voice.line(words);
    }
    Ok(farewell.code)
}
