//! Messages to the service manager by the protocol of sd_notify(3): the daemon is ready, is alive, is stopping.
//!
//! Written here because it needs fewer lines than a dependency would add to the tree.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Sends the state of the daemon to the service manager. Does nothing if no manager asked for it.
#[derive(Debug)]
pub struct Notifier {
    target: Option<(UnixDatagram, SocketAddr)>,
    /// Time between two signs of life.
    every: Option<Duration>,
    last: Option<Instant>,
}

impl Notifier {
    /// Reads the address and the watchdog interval from the variables that the service manager sets. A watchdog for
    /// another process is ignored.
    ///
    /// # Errors
    /// If `NOTIFY_SOCKET` is not the address of a Unix socket, or the process cannot open another socket.
    pub fn from_env() -> io::Result<Self> {
        let variable = |name: &str| std::env::var_os(name);
        let is_ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == *std::process::id().to_string());
        let watchdog = variable("WATCHDOG_USEC").filter(|_| is_ours);
        Self::new(variable("NOTIFY_SOCKET"), watchdog.as_deref())
    }

    fn new(socket: Option<OsString>, watchdog_us: Option<&OsStr>) -> io::Result<Self> {
        let target = match socket {
            None => None,
            Some(path) => {
                let address = match path.as_bytes().strip_prefix(b"@") {
                    Some(name) => SocketAddr::from_abstract_name(name)?,
                    None => SocketAddr::from_pathname(&path)?,
                };
                let sender = UnixDatagram::unbound()?;
                // A manager that does not read must not stop the daemon.
                sender.set_nonblocking(true)?;
                Some((sender, address))
            }
        };
        let interval = watchdog_us.and_then(OsStr::to_str).and_then(|text| text.parse().ok());
        // sd_watchdog_enabled(3) recommends half of the interval.
        let every = interval.filter(|us| *us > 0).map(|us: u64| Duration::from_micros(us / 2));
        Ok(Self { target, every, last: None })
    }

    /// Reports that the daemon serves requests.
    pub fn ready(&self) {
        self.send("READY=1\n");
    }

    /// Reports that the daemon is ending.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Reports that the daemon's loop makes progress. Sends at most one message per half of the watchdog interval, so
    /// the loop may call this in each iteration.
    pub fn alive(&mut self, now: Instant) {
        let Some(every) = self.every else { return };
        if self.last.is_none_or(|last| now.saturating_duration_since(last) >= every) {
            self.last = Some(now);
            self.send("WATCHDOG=1\n");
        }
    }

    fn send(&self, state: &str) {
        if let Some((sender, address)) = &self.target {
            // The daemon works without its manager.
            let _ = sender.send_to_addr(state.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(manager: &UnixDatagram) -> Vec<String> {
        manager.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 64];
        let mut next = || manager.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec());
        std::iter::from_fn(|| next().map(|bytes| String::from_utf8(bytes).expect("text"))).collect()
    }

    #[test]
    fn states_reach_the_socket_of_the_manager() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let mut notifier = Notifier::new(Some(path.into()), Some(OsStr::new("2000000"))).expect("an address");
        let begin = Instant::now();
        notifier.ready();
        // Half of 2 s passes between two messages.
        for ms in [0, 999, 1000, 1500, 2000] {
            notifier.alive(begin + Duration::from_millis(ms));
        }
        notifier.stopping();
        let expected = ["READY=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n", "STOPPING=1\n"];
        assert_eq!(received(&manager), expected);
    }

    #[test]
    fn an_abstract_address_begins_with_an_at_sign() {
        let name = format!("limo-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an address");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        Notifier::new(Some(format!("@{name}").into()), None).expect("an address").ready();
        assert_eq!(received(&manager), ["READY=1\n"]);
    }

    #[test]
    fn no_watchdog_means_no_signs_of_life() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        for watchdog in [None, Some("0"), Some("soon")] {
            let mut notifier = Notifier::new(Some(path.clone().into()), watchdog.map(OsStr::new)).expect("an address");
            notifier.alive(Instant::now());
        }
        assert!(received(&manager).is_empty());
    }

    #[test]
    fn a_daemon_without_a_manager_sends_nothing() {
        let mut notifier = Notifier::new(None, Some(OsStr::new("1000"))).expect("nothing to open");
        notifier.ready();
        notifier.alive(Instant::now());
        notifier.stopping();
        assert!(notifier.target.is_none());
    }
}
