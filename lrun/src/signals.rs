//! Signals that are passed on to the job.

use std::io;

use nix::libc::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const FORWARDED: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCONT, SIGTSTP];

/// Begins to catch them. Signals that the parent told this process to ignore (nohup; a shell's `&`) stay ignored.
///
/// # Errors
/// If a handler cannot be set.
pub fn catch() -> io::Result<mpsc::UnboundedReceiver<i32>> {
    let (caught, signals) = mpsc::unbounded_channel();
    let ignored = ignored_mask();
    for number in FORWARDED.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0) {
        let mut stream = signal(SignalKind::from_raw(number))?;
        let caught = caught.clone();
        tokio::spawn(async move { while stream.recv().await.is_some() && caught.send(number).is_ok() {} });
    }
    Ok(signals)
}

/// Returns the mask of ignored signals: bit n-1 is signal n; 0 if the kernel does not report it.
fn ignored_mask() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
