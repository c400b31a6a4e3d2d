//! Limits on users' connections: `[connections]`, and the time between two signs of life.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Args;
use limo_model::{Span, as_text};
use serde::Deserialize;

use crate::listen::ConnectionLimits;

/// The same settings in flags, variables and the file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionLayer {
    /// Connections of one user, at most a sixteenth of the process's descriptors; operators have no limit [default: 1024]
    #[arg(id = "per_user", long = "connections-per-user", value_name = "COUNT", env = "LIMO_CONNECTIONS_PER_USER")]
    per_user: Option<usize>,
    /// Connections of one user that may be greeting at a time; others are queued [default: 16]
    #[arg(id = "ungreeted", long = "ungreeted-per-user", value_name = "COUNT", env = "LIMO_UNGREETED_PER_USER")]
    ungreeted_per_user: Option<usize>,
    /// Close a connection that has not greeted after this time [default: 5s]
    #[arg(long, value_name = "SPAN", env = "LIMO_GREETING_TIME")]
    #[serde(with = "as_text::option")]
    greeting_time: Option<Span>,
}

impl ConnectionLayer {
    pub fn over(self, below: Self) -> Self {
        Self {
            per_user: self.per_user.or(below.per_user),
            ungreeted_per_user: self.ungreeted_per_user.or(below.ungreeted_per_user),
            greeting_time: self.greeting_time.or(below.greeting_time),
        }
    }

    /// Checks the settings, and the addresses of the listeners for callers and for metrics.
    pub fn resolve(self, [listen, web]: [Option<SocketAddr>; 2]) -> Result<ConnectionLimits> {
        local_only(listen, web)?;
        let time = super::positive("greeting_time", self.greeting_time, Span::from_secs(5))?;
        let limits = ConnectionLimits {
            per_user: self.per_user.unwrap_or(1024),
            ungreeted_per_user: self.ungreeted_per_user.unwrap_or(16),
            users: usize::MAX,
            // The time is positive.
            greeting_time: Duration::from_millis(u64::try_from(time.ms()).unwrap_or_default()),
        };
        for (key, count) in [("per_user", limits.per_user), ("ungreeted_per_user", limits.ungreeted_per_user)] {
            ensure!((1..=1_000_000).contains(&count), "{key} of [connections] is {count}: it must be 1 to 1000000");
        }
        Ok(limits)
    }
}

/// Checks that callers without a certificate are on this machine.
fn local_only(listen: Option<SocketAddr>, web: Option<SocketAddr>) -> Result<()> {
    let is_foreign = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(listen) = listen.filter(is_foreign) {
        bail!(
            "cannot listen on {listen}: without certificates Limo serves only its own machine (use 127.0.0.1:{port}, or \
             --tls-listen {listen} for other machines)",
            port = listen.port()
        );
    }
    if let Some(web) = web.filter(is_foreign) {
        bail!(
            "cannot serve the page on {web}: anyone who reaches it could read them (use 127.0.0.1:{port}, and a proxy with \
             authentication for other machines)",
            port = web.port()
        );
    }
    Ok(())
}

/// Checks the time between two signs of life.
pub(super) fn heartbeat(given: Option<Span>) -> Result<Duration> {
    let (least, most) = (Span::from_ms(100), Span::from_secs(60));
    let heartbeat = given.unwrap_or(Span::from_secs(5));
    ensure!(least <= heartbeat && heartbeat <= most, "heartbeat is {heartbeat}: it must be {least} to {most}");
    Ok(Duration::from_millis(u64::try_from(heartbeat.ms()).unwrap_or(0)))
}
