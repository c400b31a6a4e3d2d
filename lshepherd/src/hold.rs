//! The process of `limo-jobs.service`. It keeps the control group in which `lslave` makes those of jobs, apart from both
//! daemons: with processes below its control group, a service cannot be started again.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use anyhow::Context;
use limo_containment::{Mounts, hold};
use nix::sys::signal::{SigSet, Signal};

/// Prepares the control group, reports to the service manager, and waits until it is told to end.
///
/// # Errors
/// If the control group is not delegated to this process.
pub fn run() -> anyhow::Result<()> {
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGTERM);
    ends.add(Signal::SIGINT);
    ends.thread_block().context("cannot block signals")?;
    let group = Mounts::find().and_then(|mounts| hold(&mounts))?;
    match group {
        Some(path) => println!("holding the control group {}", path.display()),
        None => println!("holding the control groups of version 1"),
    }
    tell_ready().context("cannot reach the service manager at NOTIFY_SOCKET")?;
    ends.wait().context("cannot wait for a signal")?;
    Ok(())
}

/// Reports to the service manager, if there is one (sd_notify(3)). `limo-program` would add the parsing of a command line
/// to this program.
fn tell_ready() -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address).map(drop)
}
