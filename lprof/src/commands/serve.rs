//! `lprof serve`: accepts generators, one at a time, or serves one on standard input and output.
//!
//! Each session is a process of its own, `lprof serve --stdio`, so that a driver that fails ends only its session, and
//! each session finds the same state. Generators that wait are in the queue of the socket, which the kernel limits. A signal
//! ends the session too, which removes its files.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::apps;
use crate::apps::lud::opencl;
use crate::interrupt::Events;
use crate::measure::command_report::CommandReport;
use crate::quantity::si;
use crate::session::executor::{self, Served};
use crate::workload::format::{MAX_DELAY, MAX_PACKAGE};

/// Time for a generator to begin its session.
const START_LIMIT: u16 = 30_000;

/// Time for a generator to take a status.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// Number of attempts to remove a directory into which a driver still writes.
const REMOVALS: u32 = 10;

/// Address of an executor, unless another is given.
pub const ADDRESS: &str = "127.0.0.1:7317";

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Address to listen on, which must be of this machine only; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", default_value = ADDRESS)]
    listen: SocketAddr,
    /// Serve one session on standard input and output instead
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    /// Largest package, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MAX_PACKAGE)]
    max_package: u64,
}

/// Serves.
///
/// # Errors
/// If the address cannot be listened on or is not a loopback address; with `--stdio`, if the session fails.
pub fn run(arguments: &Serve) -> Result<ExitCode> {
    if arguments.stdio {
        let served = session(arguments.max_package)?;
        let kernel_s = Some(served.busy.as_secs_f64());
        CommandReport { kernel_s, ..CommandReport::default() }.send()?;
        eprintln!("lprof: {}", told(&served));
        return Ok(ExitCode::SUCCESS);
    }
    let address = loopback(arguments.listen)?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = listener.local_addr().context("cannot read the address of the socket")?;
    println!("listening on {address}");
    io::stdout().flush().context("cannot write to standard output")?;
    let session = CurrentSession::default();
    on_signal({
        let session = session.clone();
        move || session.end()
    })?;
    loop {
        let (generator, _) = listener.accept().with_context(|| format!("cannot accept on {address}"))?;
        if let Err(error) = serve(generator, arguments.max_package, &session) {
            eprintln!("lprof: {error:#}");
        }
    }
}

/// Returns the address if it is one of this machine only: sessions have no certificates.
pub fn loopback(address: SocketAddr) -> Result<SocketAddr> {
    if !address.ip().is_loopback() {
        bail!(
            "{address} is not a loopback address: use {ADDRESS}, or `lprof workload run --stdio 'lrun -w NODE lprof \
             serve --stdio'` for another node"
        );
    }
    Ok(address)
}

/// Calls `clean` after a signal that ends this process, which it then does.
fn on_signal(clean: impl FnOnce() + Send + 'static) -> Result<()> {
    let events = Events::catch()?;
    // The thread ends with the process.
    thread::spawn(move || {
        if let Err(interrupted) = events.wait(None) {
            clean();
            std::process::exit(128 + interrupted.0);
        }
    });
    Ok(())
}

/// Process of the session that is being served.
#[derive(Debug, Clone, Default)]
struct CurrentSession(Arc<Mutex<Option<Pid>>>);

impl CurrentSession {
    fn set(&self, process: Option<Pid>) {
        // The value is whole after a panic, too.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = process;
    }

    /// Ends the session. Its process is not reaped before it is taken from here, so no other one has its number.
    fn end(&self) {
        let process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = *process {
            // It may have ended.
            let _ = kill(process, Signal::SIGTERM);
        }
    }
}

/// Runs the session of a connection in a process, and waits for its end.
fn serve(generator: TcpStream, max_package: u64, current: &CurrentSession) -> Result<()> {
    generator.set_nodelay(true).context("cannot set up a connection")?;
    // The generator sends a package within the longest delay.
    generator.set_read_timeout(Some(MAX_DELAY + STATUS_LIMIT)).context("cannot set up a connection")?;
    generator.set_write_timeout(Some(STATUS_LIMIT)).context("cannot set up a connection")?;
    let own = std::env::current_exe().context("cannot find the path of lprof")?;
    let stream = || generator.try_clone().map(|stream| Stdio::from(OwnedFd::from(stream)));
    let (input, output) = (stream().context("cannot copy a socket")?, stream().context("cannot copy a socket")?);
    let mut session = Command::new(own);
    session.args(["serve", "--stdio", "--max-package", &max_package.to_string()]).stdin(input).stdout(output);
    let mut session = session.spawn().context("cannot start the process of a session")?;
    let process =
        i32::try_from(session.id()).map(Pid::from_raw).context("the process of a session has a large number")?;
    current.set(Some(process));
    // An error is that of the second wait.
    let _ = waitid(Id::Pid(process), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    current.set(None);
    // It prints its own error.
    session.wait().context("cannot wait for the process of a session")?;
    Ok(())
}

/// Runs one session on standard input and output.
fn session(max_package: u64) -> Result<Served> {
    let cache = opencl::own_cache().context("cannot make a temporary directory")?;
    on_signal({
        let dir = cache.path().to_owned();
        move || remove(&dir)
    })?;
    let (input, output) = (io::stdin(), io::stdout());
    executor::greet(&output).context("cannot greet the generator")?;
    let mut ready = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, PollTimeout::from(START_LIMIT)).context("cannot wait for the generator")? == 0 {
        bail!("the generator did not start the session within {} s", START_LIMIT / 1000);
    }
    Ok(executor::run(input.lock(), &output, apps::ALL, max_package)?)
}

/// Removes a directory into which another thread may still write.
fn remove(dir: &Path) {
    for _ in 0..REMOVALS {
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            return;
        }
    }
}

fn told(served: &Served) -> String {
    let seconds = served.duration.as_secs_f64();
    format!(
        "session {:?}: {}: {} jobs, {} in {seconds:.3} s",
        served.name,
        served.application,
        served.jobs,
        si(served.bytes as f64, "B")
    )
}
