//! Settings from flags, `LIMO_*` variables, a TOML file and defaults, in this order of precedence. Checks the range
//! of each setting. Opens only the file.

mod connections;
pub mod grid;
mod idle;
mod initial;
mod limits;
mod meters;
mod policy;
mod privacy;
mod ranges;
mod site;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, Parser, ValueEnum};
use limo_feeds::config::FeedTables;
use limo_journal::Server;
use limo_model::{
    AccountTable, Accounts, Currency, GroupTable, Groups, LicenceTable, Licences, QosClasses, QosTable, QueueTable,
    Queues, Span, as_text,
};
use limo_proto::{Endpoint, default_socket, default_state_dir};
use serde::Deserialize;

use crate::controller;
use crate::listen::ConnectionLimits;
use crate::readings::Kept;
use connections::ConnectionLayer;
use idle::IdleTable;
use initial::InitialLayer;
use limits::LimitsTable;
use meters::MeterLayer;
use policy::PolicyLayer;
use privacy::PrivacyTable;
use ranges::{not_negative, permille, positive};
use tls::TlsLayer;
pub use tls::TlsSettings;

/// File that is read if it exists and no other file is given.
const DEFAULT_FILE: &str = "/etc/limo/lmaster.toml";

/// The master of a Limo cluster: keeps the queue, decides where and when jobs run, and relays their input and output.
#[derive(Debug, Clone, Parser)]
#[command(name = "lmaster", version)]
pub struct Cli {
    /// Read settings from this file [default: /etc/limo/lmaster.toml, if it exists]
    #[arg(long, value_name = "FILE", env = "LIMO_CONFIG")]
    config: Option<PathBuf>,
    /// Check the settings, report what is wrong, and exit
    #[arg(long)]
    pub check_config: bool,
    /// Record that the state directory was restored from a copy, and exit: the next start is a new incarnation, under
    /// which nodes end the jobs of the previous one. Not needed for copies made by `lconf backup`
    #[arg(long)]
    pub restored: bool,
    /// Move a journal to the configured place, which must be empty, and exit: from a state directory, or from a database,
    /// postgres://USER@HOST/DATABASE. No master may use it. What stays there is a copy
    #[arg(long, value_name = "PLACE", conflicts_with = "restored")]
    pub import_journal: Option<String>,
    #[command(flatten)]
    layer: Layer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Human,
    Json,
}

/// The values of one source: flags, variables or the file.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Layer {
    /// Keep the journal and the profiles here; created if missing [default: /var/lib/limo/lmaster for root, else
    /// ~/.local/state/limo/lmaster]
    #[arg(long, value_name = "DIR", env = "LIMO_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// Keep the journal in this database of PostgreSQL instead, postgres://USER@HOST/DATABASE; of several masters that
    /// name one, one serves and the others stand by [default: none, the state directory]
    #[arg(long, value_name = "ADDRESS", env = "LIMO_JOURNAL")]
    journal: Option<String>,
    /// Listen on this Unix socket [default: /run/limo/master.sock for root, else $XDG_RUNTIME_DIR/limo/master.sock]
    #[arg(long, value_name = "PATH", env = "LIMO_SOCKET")]
    socket: Option<PathBuf>,
    /// Also listen on this loopback address; for port 0, DIR/address has the chosen port [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "LIMO_LISTEN")]
    listen: Option<SocketAddr>,
    /// Serve the page, its API and metrics on this loopback address; for port 0, DIR/web-address has the chosen port [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "LIMO_WEB")]
    web: Option<SocketAddr>,
    /// Group of this machine whose members are operators, if it exists [default: limo-admin]
    #[arg(long, value_name = "GROUP", env = "LIMO_ADMIN_GROUP")]
    admin_group: Option<String>,
    /// Log level, or levels per module such as `lmaster=debug,info` [default: info]
    #[arg(long, value_name = "FILTER", env = "LIMO_LOG")]
    log: Option<String>,
    /// Log format: human, or one JSON object per line [default: human]
    #[arg(long, value_name = "FORMAT", env = "LIMO_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// Time within which a node must acknowledge a job before another node gets it [default: 2s]
    #[arg(long, value_name = "SPAN", env = "LIMO_ACK_TIMEOUT")]
    #[serde(with = "as_text::option")]
    ack_timeout: Option<Span>,
    /// Time between TERM and KILL when a job is ended [default: 30s]
    #[arg(long, value_name = "SPAN", env = "LIMO_KILL_GRACE")]
    #[serde(with = "as_text::option")]
    kill_grace: Option<Span>,
    /// Time without its lrun after which an attached job is cancelled [default: 60s]
    #[arg(long, value_name = "SPAN", env = "LIMO_ORPHAN_GRACE")]
    #[serde(with = "as_text::option")]
    orphan_grace: Option<Span>,
    /// Time for which a node may be unreachable before its jobs end as node_failed [default: 60s]
    #[arg(long, value_name = "SPAN", env = "LIMO_NODE_LEASE")]
    #[serde(with = "as_text::option")]
    node_lease: Option<Span>,
    /// Time between two signs of life on a connection; a node is unreachable after three such times without one, 100ms
    /// to 1min [default: 5s]
    #[arg(long, value_name = "SPAN", env = "LIMO_HEARTBEAT")]
    #[serde(with = "as_text::option")]
    heartbeat: Option<Span>,
    /// Write a snapshot after this many entries of the journal [default: 10000]
    #[arg(long, value_name = "COUNT", env = "LIMO_SNAPSHOT_EVERY")]
    snapshot_every: Option<u32>,
    /// Shortest interval between records of meter readings, if nothing else happens [default: 1s]
    #[arg(long, value_name = "SPAN", env = "LIMO_READINGS_EVERY")]
    #[serde(with = "as_text::option")]
    readings_every: Option<Span>,
    /// Length of the intervals for which energy is recorded, from 1min to 1d [default: 1min]
    #[arg(long, value_name = "SPAN", env = "LIMO_READINGS_RESOLUTION")]
    #[serde(with = "as_text::option")]
    readings_resolution: Option<Span>,
    /// Time for which recorded energy is kept [default: 400d]
    #[arg(long, value_name = "SPAN", env = "LIMO_READINGS_KEEP")]
    #[serde(with = "as_text::option")]
    readings_keep: Option<Span>,
    /// Currency of all prices and amounts, as a code of ISO 4217 [default: that of the feeds, or else EUR]
    #[arg(long, value_name = "CODE", env = "LIMO_CURRENCY")]
    #[serde(with = "as_text::option")]
    currency: Option<Currency>,
    /// Meters; only in the file.
    #[arg(skip)]
    meter: Vec<MeterLayer>,
    /// Limits on users; only in the file.
    #[arg(skip)]
    limits: LimitsTable,
    /// Settings of sleep; only in the file.
    #[arg(skip)]
    idle: IdleTable,
    /// Data of other users that a user can see; only in the file.
    #[arg(skip)]
    privacy: PrivacyTable,
    #[command(flatten)]
    policy: PolicyLayer,
    /// Priority of the operator's own limits among the sources of `[[grid]]`; lower numbers come first [default: 100]
    #[arg(long, value_name = "NUMBER", env = "LIMO_OPERATOR_PRIORITY")]
    operator_priority: Option<u32>,
    #[command(flatten)]
    initial: InitialLayer,
    #[command(flatten)]
    connections: ConnectionLayer,
    #[command(flatten)]
    tls: TlsLayer,
    /// Queues of jobs; only in the file: `[queue.NAME]`.
    #[arg(skip)]
    queue: BTreeMap<String, QueueTable>,
    /// Groups of nodes; only in the file: `[group.NAME]`.
    #[arg(skip)]
    group: BTreeMap<String, GroupTable>,
    /// Licences of the cluster; only in the file: `[licence.NAME]`.
    #[arg(skip)]
    licence: BTreeMap<String, LicenceTable>,
    /// Accounts of jobs; only in the file: `[account.NAME]`.
    #[arg(skip)]
    account: BTreeMap<String, AccountTable>,
    /// QOS of jobs; only in the file: `[qos.NAME]`.
    #[arg(skip)]
    qos: BTreeMap<String, QosTable>,
    /// Program that is asked about each submission; only in the file.
    #[arg(skip)]
    submit_hook: Option<PathBuf>,
    /// Its time limit; only in the file.
    #[arg(skip)]
    #[serde(with = "as_text::option")]
    submit_hook_time_limit: Option<Span>,
    /// Receiver of events of jobs; only in the file.
    #[arg(skip)]
    notify: Option<String>,
    /// Time for one event; only in the file.
    #[arg(skip)]
    #[serde(with = "as_text::option")]
    notify_time_limit: Option<Span>,
    /// True to tell of all jobs; only in the file.
    #[arg(skip)]
    notify_all: Option<bool>,
    /// Feeds; only in the file.
    #[arg(skip)]
    feed: FeedTables,
    /// Sources that may set limits from outside; only in the file: `[[grid]]`.
    #[arg(skip)]
    grid: Vec<grid::GridTable>,
}

/// All settings, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramSettings {
    pub state_dir: PathBuf,
    /// The database of the journal, if it is not in the state directory.
    pub journal: Option<Server>,
    pub socket: PathBuf,
    pub listen: Option<SocketAddr>,
    pub web: Option<SocketAddr>,
    /// Group whose members are operators.
    pub admin_group: String,
    pub connections: ConnectionLimits,
    /// The listener for other machines, if there is one.
    pub tls: Option<TlsSettings>,
    pub log: String,
    pub log_format: LogFormat,
    /// Time between two signs of life.
    pub heartbeat: Duration,
    pub controller: controller::Settings,
    /// Feeds, checked as far as possible without a query.
    pub feeds: FeedTables,
    pub grid: grid::GridSources,
}

impl Cli {
    /// Reads the file and merges the layers. May be called again when the file has changed.
    ///
    /// # Errors
    /// If the file cannot be read, has an unknown key or a value without its unit, or a value is out of range.
    pub fn settings(&self) -> Result<ProgramSettings> {
        let default = Path::new(DEFAULT_FILE);
        let file = self.config.as_deref().or_else(|| default.exists().then_some(default));
        let below = file.map(read).transpose()?.unwrap_or_default();
        self.layer.clone().over(below).resolve()
    }
}

fn read(path: &Path) -> Result<Layer> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not a configuration of lmaster", path.display()))
}

impl Layer {
    fn over(self, below: Self) -> Self {
        Self {
            state_dir: self.state_dir.or(below.state_dir),
            journal: self.journal.or(below.journal),
            socket: self.socket.or(below.socket),
            listen: self.listen.or(below.listen),
            web: self.web.or(below.web),
            admin_group: self.admin_group.or(below.admin_group),
            log: self.log.or(below.log),
            log_format: self.log_format.or(below.log_format),
            ack_timeout: self.ack_timeout.or(below.ack_timeout),
            kill_grace: self.kill_grace.or(below.kill_grace),
            orphan_grace: self.orphan_grace.or(below.orphan_grace),
            node_lease: self.node_lease.or(below.node_lease),
            heartbeat: self.heartbeat.or(below.heartbeat),
            snapshot_every: self.snapshot_every.or(below.snapshot_every),
            readings_every: self.readings_every.or(below.readings_every),
            readings_resolution: self.readings_resolution.or(below.readings_resolution),
            readings_keep: self.readings_keep.or(below.readings_keep),
            meter: below.meter,
            limits: below.limits,
            idle: below.idle,
            privacy: below.privacy,
            policy: self.policy.over(below.policy),
            initial: self.initial.over(below.initial),
            connections: self.connections.over(below.connections),
            tls: self.tls.over(below.tls),
            queue: below.queue,
            group: below.group,
            licence: below.licence,
            account: below.account,
            qos: below.qos,
            submit_hook: below.submit_hook,
            submit_hook_time_limit: below.submit_hook_time_limit,
            notify: below.notify,
            notify_time_limit: below.notify_time_limit,
            notify_all: below.notify_all,
            feed: below.feed,
            currency: self.currency.or(below.currency),
            operator_priority: self.operator_priority.or(below.operator_priority),
            grid: below.grid,
        }
    }

    fn resolve(self) -> Result<ProgramSettings> {
        let (state_dir, socket) = places(self.state_dir, self.socket)?;
        let journal = self.journal.map(|address| journal(&address)).transpose()?;
        let connections = self.connections.resolve([self.listen, self.web])?;
        let tls = self.tls.resolve(&state_dir)?;
        let log = self.log.unwrap_or_else(|| "info".into());
        crate::logging::check(&log)?;
        let initial = self.initial.resolve()?;
        let feeds = self.feed.build()?;
        Currency::of_code(&feeds.currency).map_or(Ok(()), Currency::agree).context("feed")?;
        let options = self.policy.resolve()?;
        let controller = controller::Settings {
            ack_timeout: positive("ack_timeout", self.ack_timeout, Span::from_secs(2))?,
            kill_grace: not_negative("kill_grace", self.kill_grace, Span::from_secs(30))?,
            orphan_grace: not_negative("orphan_grace", self.orphan_grace, Span::from_secs(60))?,
            node_lease: positive("node_lease", self.node_lease, Span::from_secs(60))?,
            snapshot_every: self.snapshot_every.unwrap_or(10_000),
            readings_every: not_negative("readings_every", self.readings_every, Span::from_secs(1))?,
            kept: kept(self.readings_resolution, self.readings_keep)?,
            meters: meters::resolve(self.meter, options.stale_after)?,
            options,
            queues: Queues::of_tables(self.queue)?,
            groups: Groups::of_tables(self.group)?,
            licences: Licences::of_tables(self.licence)?,
            accounts: Accounts::of_tables(self.account)?,
            qos: QosClasses::of_tables(self.qos)?,
            submit_hook: site::submit_hook(self.submit_hook, self.submit_hook_time_limit)?,
            notify: site::notify(self.notify, self.notify_time_limit, self.notify_all)?,
            limits: self.limits.resolve()?,
            initial,
            idle: self.idle.resolve()?,
            has_feeds: !feeds.is_empty(),
            hides_commands: self.privacy.hides_commands(tls.is_some()),
        };
        let (every, stale_after) = (controller.readings_every, controller.options.stale_after);
        ensure!(
            every < stale_after,
            "readings_every is {every}, and a reading counts for {stale_after} (stale_after): it must be recorded before"
        );
        ensure!(controller.snapshot_every > 0, "snapshot_every is 0: it must be 1 or more");
        let grid = grid::resolve(self.grid, self.operator_priority)?;
        let heartbeat = connections::heartbeat(self.heartbeat)?;
        let log_format = self.log_format.unwrap_or(LogFormat::Human);
        Ok(ProgramSettings {
            state_dir,
            journal,
            socket,
            listen: self.listen,
            web: self.web,
            admin_group: self.admin_group.unwrap_or_else(|| "limo-admin".to_owned()),
            connections,
            tls,
            log,
            log_format,
            heartbeat,
            controller,
            feeds: self.feed,
            grid,
        })
    }
}

/// Returns the state directory and the socket.
fn places(state_dir: Option<PathBuf>, socket: Option<PathBuf>) -> Result<(PathBuf, PathBuf)> {
    let homeless = |option: &str| format!("this user has no home directory: name one by {option}");
    let state_dir = state_dir.or_else(|| default_state_dir("lmaster")).with_context(|| homeless("--state-dir"))?;
    let socket = socket.or_else(default_socket).with_context(|| homeless("--socket"))?;
    Endpoint::unix(&socket)?;
    Ok((state_dir, socket))
}

/// Returns the database of the journal. The address may contain a password, so no message repeats it.
fn journal(address: &str) -> Result<Server> {
    let reason = |reason| anyhow!("`journal` is not the address of a database of PostgreSQL: {reason}");
    address.parse().map_err(reason)
}

/// Checks the interval and the retention of readings. Shorter intervals would cause more commits, and longer ones
/// could not show a day.
fn kept(resolution: Option<Span>, keep: Option<Span>) -> Result<Kept> {
    let resolution = resolution.unwrap_or(Span::from_secs(60));
    let (least, most) = (Span::from_secs(60), Span::from_secs(86_400));
    ensure!(
        least <= resolution && resolution <= most,
        "readings_resolution is {resolution}: it must be {least} to {most}"
    );
    let keep = keep.unwrap_or(most.scaled(400, 1));
    ensure!(keep >= resolution, "readings_keep is {keep}: at least one interval of {resolution} must be kept");
    Ok(Kept { resolution, keep })
}

#[cfg(test)]
mod tests;
