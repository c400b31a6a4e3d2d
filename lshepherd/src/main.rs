//! `lshepherd`: launches a job of a node, holds its streams and its exit code, and enforces its time limit, lease and
//! stops, even while `lslave` is stopped or gone. `lslave` starts it and sends it orders. A later `lslave` finds it by
//! its socket (`home`) and continues. Without a directory for its socket it ends with `lslave`, and then ends every job.
//!
//! It has one thread, and one loop that never waits for a user's file or process. Launches happen in children. All
//! other accesses to a user's files and processes happen in workers with a deadline.

mod attempt;
mod carried;
mod child;
mod command;
mod hold;
mod home;
mod limits;
mod pam;
mod raw;
mod reap;
mod removals;
mod session;
mod shepherd;
mod stdio;
mod surroundings;
mod watch;
mod worker;

use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use limo_shepherd::processes::children;
use limo_shepherd::{Answer, BootTime, Handle, receive, send};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::shepherd::Shepherd;

/// Longest wait for the processes of jobs after KILL when `lslave` has ended.
const LAST_SWEEP: Duration = Duration::from_secs(3);

/// Interval between two checks of these processes.
const PAUSE: Duration = Duration::from_millis(5);

/// Messages handled before the loop checks other sources.
const MESSAGES: usize = 16;

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("--version") => {
            println!("lshepherd {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Some("--hold") => hold::run(),
        _ => run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lshepherd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let (socket, ended) = surroundings::prepare()?;
    let timer = Timer::new()?;
    let files = child::file_limit().context("cannot read the limit on open files")?;
    let mut shepherd = Shepherd::new(files);
    let result = serve(&mut shepherd, (socket, &ended), timer);
    if let Some((home, _)) = shepherd.home.as_ref().filter(|_| shepherd.is_idle()) {
        home.leave();
    }
    let end = BootTime::now().plus(LAST_SWEEP.as_millis().try_into().unwrap_or(u64::MAX));
    // Children of killed processes become children of this process, so this repeats until there are none.
    while children().is_some_and(|children| !children.is_empty()) && BootTime::now() < end {
        shepherd.end_all();
        std::thread::sleep(PAUSE);
    }
    result
}

/// Runs the loop until `lslave` has ended, and until no attempt is held.
fn serve(shepherd: &mut Shepherd, (socket, ended): (OwnedFd, &SignalFd), mut timer: Timer) -> anyhow::Result<()> {
    let mut connection = Some(socket);
    loop {
        if connection.as_ref().is_some_and(|socket| !answer(shepherd, socket)) {
            // Nobody reads answers, but orders may have come before.
            obey(shepherd, connection.take().as_ref(), usize::MAX)?;
        }
        // This follows the answers, because nobody waits for it.
        shepherd.close_groups();
        if shepherd.answers.is_empty() || connection.is_none() {
            // A module may block, so the answers come first.
            shepherd.session.close();
        }
        if shepherd.has_failed || shepherd.session.has_ended() {
            return Ok(());
        }
        if connection.is_none() {
            // The next `lslave` gets the answers about attempts again.
            shepherd.answers.clear();
            if shepherd.home.is_none() || shepherd.is_idle() {
                return Ok(());
            }
        }
        timer.set(shepherd.deadline())?;
        let ready = wait(shepherd, (connection.as_ref(), ended), &timer)?;
        if ready.time {
            shepherd.time_passed(BootTime::now());
        }
        for handle in ready.reported {
            shepherd.child_reported(handle);
        }
        for (handle, index) in ready.streams {
            shepherd.stream_ready(handle, index);
        }
        if ready.ended {
            while matches!(ended.read_signal(), Ok(Some(_))) {}
            shepherd.collect();
        }
        if ready.orders && !obey(shepherd, connection.as_ref(), MESSAGES)? {
            connection = None;
        }
        if let Some(next) = shepherd.home.as_ref().filter(|_| ready.calls).and_then(|(home, _)| home.accept()) {
            // Orders of the earlier `lslave`, which has ended, come first: one of them may be a launch.
            obey(shepherd, connection.as_ref(), usize::MAX)?;
            connection = Some(next);
            shepherd.greet();
        }
    }
}

/// Handles up to `most` orders that have arrived; returns false at the end of the connection.
fn obey(shepherd: &mut Shepherd, socket: Option<&OwnedFd>, most: usize) -> anyhow::Result<bool> {
    let Some(socket) = socket else { return Ok(false) };
    for _ in 0..most {
        match receive(socket.as_fd()) {
            Ok(Some(received)) => shepherd.received(received),
            Ok(None) => return Ok(false),
            Err(error) if error.is_would_block() => break,
            Err(error) if shepherd.home.is_none() => return Err(error.into()),
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// An event of the loop.
#[derive(Default)]
struct Ready {
    time: bool,
    ended: bool,
    orders: bool,
    calls: bool,
    reported: Vec<Handle>,
    streams: Vec<(Handle, usize)>,
}

/// The source of an event.
#[derive(Clone, Copy)]
enum Source {
    Ended,
    Time,
    Orders,
    Calls,
    Launch(Handle),
    Stream(Handle, usize),
}

fn wait(shepherd: &Shepherd, (socket, ended): (Option<&OwnedFd>, &SignalFd), timer: &Timer) -> anyhow::Result<Ready> {
    let orders = if shepherd.answers.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT };
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let mut all = vec![(Source::Ended, readable(ended.as_fd())), (Source::Time, readable(timer.0.as_fd()))];
    all.extend(socket.map(|socket| (Source::Orders, PollFd::new(socket.as_fd(), orders))));
    all.extend(shepherd.home.iter().map(|(home, _)| (Source::Calls, readable(home.listener()))));
    all.extend(shepherd.launching().map(|(handle, pipe)| (Source::Launch(handle), readable(pipe))));
    let streams = shepherd.streams().into_iter();
    all.extend(
        streams.map(|(handle, index, stream, flags)| (Source::Stream(handle, index), PollFd::new(stream, flags))),
    );
    let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) = all.into_iter().unzip();
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("cannot wait"),
    }
    let mut ready = Ready::default();
    let came = fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
    for (source, _) in sources.into_iter().zip(came).filter(|(_, came)| *came) {
        match source {
            Source::Ended => ready.ended = true,
            Source::Time => ready.time = true,
            Source::Orders => ready.orders = true,
            Source::Calls => ready.calls = true,
            Source::Launch(handle) => ready.reported.push(handle),
            Source::Stream(handle, index) => ready.streams.push((handle, index)),
        }
    }
    Ok(ready)
}

/// Sends queued answers as far as they fit; returns true while the receiver listens.
fn answer(shepherd: &mut Shepherd, socket: &OwnedFd) -> bool {
    while let Some(answer) = shepherd.answers.front() {
        let memory = if let Answer::Hello { .. } = answer { shepherd.memory() } else { Vec::new() };
        match send(socket.as_fd(), &answer.encode(), &memory) {
            Ok(()) => {
                shepherd.answers.pop_front();
            }
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
    true
}

/// Timer for a [`BootTime`], which also fires if the machine has slept past it.
struct Timer(TimerFd, Option<BootTime>);

impl Timer {
    fn new() -> anyhow::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self(TimerFd::new(ClockId::CLOCK_BOOTTIME, flags).context("cannot make a timer")?, None))
    }

    fn set(&mut self, at: Option<BootTime>) -> anyhow::Result<()> {
        // A time in the past has fired and must fire again, so it is set again each time.
        if at == self.1 && at.is_none_or(|at| at > BootTime::now()) {
            return Ok(());
        }
        self.1 = at;
        match at {
            None => self.0.unset(),
            Some(at) => {
                // A time of 0 would disable the timer.
                let time =
                    nix::sys::time::TimeSpec::from_duration(Duration::from_millis(at.0.clamp(1, i64::MAX as u64)));
                self.0.set(Expiration::OneShot(time), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
        }
        .context("cannot set a timer")
    }
}
