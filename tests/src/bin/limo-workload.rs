//! Application on emulated hardware for tests: runs until the model reports that its work is done, and uses its stdin
//! and stdout. It does not compute, so that one machine can run many.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use limo_model::{Digest, Span};

#[derive(Parser)]
#[command(about = "An application that does nothing for a given time, and reads its stdin to the end")]
struct Arguments {
    /// Name in its output
    #[arg(default_value = "workload")]
    name: String,
    /// Running time, such as `2s` [default: until the emulated hardware reports that the work is done]
    #[arg(long)]
    duration: Option<Span>,
    /// The descriptor that ends when its work on emulated hardware is done.
    #[arg(long, env = "LIMO_EMULATED_WORK_FD", hide = true)]
    emulated_work_fd: Option<RawFd>,
}

fn main() -> anyhow::Result<()> {
    let begin = Instant::now();
    let arguments = Arguments::parse();
    let name = &arguments.name;
    let input = match (arguments.duration, arguments.emulated_work_fd) {
        (Some(duration), _) => {
            say(&format!("{name} begins, for {duration}"))?;
            let input = thread::spawn(read_all);
            let whole = Duration::from_millis(u64::try_from(duration.ms()).unwrap_or(0));
            thread::sleep(whole.saturating_sub(begin.elapsed()));
            input
        }
        (None, Some(fd)) => {
            let work = work(fd)?;
            say(&format!("{name} begins"))?;
            let input = thread::spawn(read_all);
            io::copy(&mut fs::File::from(work), &mut io::sink()).context("cannot read the end of the work")?;
            input
        }
        (None, None) => bail!(
            "how long to run is not known: this application is not in the node's hardware file; give `--duration 2s`"
        ),
    };
    // The thread ends at the end of stdin. It does not panic, because it only counts.
    let Ok(seen) = input.join() else { bail!("the thread that reads stdin is gone") };
    let (bytes, checksum) = seen.context("cannot read stdin")?;
    say(&format!("{name} ends: {bytes} bytes of stdin, checksum {checksum:016x}"))
}

/// Returns the inherited descriptor with that number, if there is one.
fn work(fd: RawFd) -> anyhow::Result<OwnedFd> {
    let none = || format!("LIMO_EMULATED_WORK_FD is {fd}, and no such descriptor is open; give `--duration 2s`");
    if fd < 0 {
        bail!(none());
    }
    // SAFETY: this process has not closed any descriptor, and the kernel refuses a number that is not open.
    let inherited = unsafe { BorrowedFd::borrow_raw(fd) };
    inherited.try_clone_to_owned().with_context(none)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}

/// Reads stdin to its end; returns the number of bytes and their FNV-1a.
fn read_all() -> io::Result<(u64, u64)> {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 64 * 1024];
    let (mut bytes, mut checksum) = (0, Digest::new());
    loop {
        let count = stdin.read(&mut buffer)?;
        if count == 0 {
            return Ok((bytes, checksum.value()));
        }
        bytes += count as u64;
        checksum = checksum.with(&buffer[..count]);
    }
}
