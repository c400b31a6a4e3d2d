//! `lshepherd`: launches the jobs of one node and enforces their time limits, leases and stops, even while `lslave`
//! is stopped. `lslave` starts it and sends it orders. It ends with `lslave`, and then ends every job.
//!
//! It has one thread, and one loop that never waits for a user's file or process. Launches happen in children. All
//! other accesses to a user's files and processes happen in workers with a deadline.

mod attempt;
mod carried;
mod child;
mod raw;
mod reap;
mod removals;
mod shepherd;
mod surroundings;
mod watch;
mod worker;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use limo_shepherd::processes::children;
use limo_shepherd::{BootTime, Handle, receive, send};
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
    if std::env::args().nth(1).is_some_and(|word| word == "--version") {
        println!("lshepherd {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match run() {
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
    let result = serve(&mut shepherd, (&socket, &ended), timer);
    let end = BootTime::now().plus(LAST_SWEEP.as_millis().try_into().unwrap_or(u64::MAX));
    // Children of killed processes become children of this process, so this repeats until there are none.
    while children().is_some_and(|children| !children.is_empty()) && BootTime::now() < end {
        shepherd.end_all();
        std::thread::sleep(PAUSE);
    }
    result
}

/// Runs the loop until `lslave` has ended.
fn serve(shepherd: &mut Shepherd, (socket, ended): (&OwnedFd, &SignalFd), mut timer: Timer) -> anyhow::Result<()> {
    loop {
        if !answer(shepherd, socket) {
            return Ok(());
        }
        timer.set(shepherd.deadline())?;
        let ready = wait(shepherd, (socket, ended), &timer)?;
        if ready.time {
            shepherd.time_passed(BootTime::now());
        }
        for handle in ready.reported {
            shepherd.child_reported(handle);
        }
        if ready.ended {
            while matches!(ended.read_signal(), Ok(Some(_))) {}
            shepherd.collect();
        }
        for _ in 0..if ready.orders { MESSAGES } else { 0 } {
            match receive(socket.as_fd()) {
                Ok(Some(received)) => shepherd.received(received),
                Ok(None) => return Ok(()),
                Err(error) if error.is_would_block() => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// An event of the loop.
struct Ready {
    time: bool,
    ended: bool,
    orders: bool,
    reported: Vec<Handle>,
}

fn wait(shepherd: &Shepherd, (socket, ended): (&OwnedFd, &SignalFd), timer: &Timer) -> anyhow::Result<Ready> {
    let orders = if shepherd.answers.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT };
    let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let (handles, pipes): (Vec<Handle>, Vec<BorrowedFd<'_>>) = shepherd.launching().unzip();
    let mut fds = vec![PollFd::new(socket.as_fd(), orders), readable(ended.as_fd()), readable(timer.0.as_fd())];
    fds.extend(pipes.into_iter().map(readable));
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("cannot wait"),
    }
    let came = |index: usize| fds.get(index).and_then(PollFd::revents).is_some_and(|events| !events.is_empty());
    let reported = handles.iter().enumerate().filter(|(index, _)| came(index + 3)).map(|(_, handle)| *handle);
    Ok(Ready { orders: came(0), ended: came(1), time: came(2), reported: reported.collect() })
}

/// Sends queued answers as far as they fit; returns true while the receiver listens.
fn answer(shepherd: &mut Shepherd, socket: &OwnedFd) -> bool {
    while let Some(answer) = shepherd.answers.front() {
        match send(socket.as_fd(), &answer.encode(), &[]) {
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
