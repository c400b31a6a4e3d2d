//! Settings of the sources of limits: `[[grid]]`. Each table contains one table for the kind of source: `openadr`,
//! `pull`, `push`, `file`, `contact` or `schedule`. Opens nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use limo_feeds::grid::contact::Contact;
use limo_feeds::grid::file::Watched;
use limo_feeds::grid::openadr::OpenAdr;
use limo_feeds::grid::pull::Pull;
use limo_feeds::grid::push::Push;
use limo_feeds::grid::schedule::{Line, Schedule};
use limo_feeds::grid::{Failsafe, Source};
use limo_model::{Band, Power, Span, as_text, check_name};
use serde::Deserialize;

/// Priority of the operator's own limits. A source without a priority comes before the operator.
const OPERATOR_PRIORITY: u32 = 100;
const PRIORITY: u32 = 50;

/// Default heartbeat, from EEBUS LPC: it is lost after 120 s, and failsafe holds for two hours.
const HEARTBEAT: Span = Span::from_secs(120);
const FAILSAFE_FOR: Span = Span::from_secs(7_200);

/// Default interval at which a server is queried or a file is checked.
const ASK_EVERY: Span = Span::from_secs(30);
const LOOK_EVERY: Span = Span::from_secs(1);

/// Shortest interval: a server could take more frequent queries for an attack, and a file needs no more.
const SHORTEST_POLL: Span = Span::from_ms(100);

/// All sources, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GridSources {
    pub operator_priority: u32,
    pub sources: Vec<(Source, SourceKind)>,
}

/// The way in which reports of a source arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    OpenAdr(OpenAdr, Option<PathBuf>),
    Pull(Pull, Option<PathBuf>),
    Push(Push, SocketAddr),
    File(Watched),
    Contact(Contact),
    Schedule(Schedule),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridTable {
    name: String,
    priority: Option<u32>,
    #[serde(default)]
    obligatory: bool,
    #[serde(default)]
    may_widen: bool,
    #[serde(default, with = "as_text::option")]
    heartbeat: Option<Span>,
    #[serde(default, with = "as_text::option")]
    failsafe_high: Option<Power>,
    #[serde(default, with = "as_text::option")]
    failsafe_for: Option<Span>,
    #[serde(default, with = "as_text::option")]
    ttl: Option<Span>,
    openadr: Option<OpenAdrTable>,
    pull: Option<PullTable>,
    push: Option<PushTable>,
    file: Option<FileTable>,
    contact: Option<ContactTable>,
    schedule: Option<ScheduleTable>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenAdrTable {
    url: String,
    token_url: Option<String>,
    credentials: Option<PathBuf>,
    program: Option<String>,
    #[serde(default, with = "as_text::option")]
    emergency_high: Option<Power>,
    #[serde(default, with = "as_text::option")]
    poll: Option<Span>,
    authorities: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PullTable {
    url: String,
    token_file: Option<PathBuf>,
    #[serde(default, with = "as_text::option")]
    poll: Option<Span>,
    authorities: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PushTable {
    listen: SocketAddr,
    token_file: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    path: PathBuf,
    #[serde(default, with = "as_text::option")]
    poll: Option<Span>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContactTable {
    path: PathBuf,
    #[serde(default)]
    active_low: bool,
    #[serde(with = "as_text")]
    high: Power,
    #[serde(default, with = "as_text::option")]
    poll: Option<Span>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScheduleTable {
    zone: String,
    lines: Vec<LineTable>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTable {
    days: Option<String>,
    from: String,
    until: String,
    #[serde(default, with = "as_text::option")]
    low: Option<Power>,
    #[serde(default, with = "as_text::option")]
    high: Option<Power>,
    #[serde(default)]
    priority: u32,
}

/// Checks the tables.
///
/// # Errors
/// If a table has no kind or two, a name occurs twice, or a value is out of range.
pub fn resolve(tables: Vec<GridTable>, operator_priority: Option<u32>) -> Result<GridSources> {
    let mut grid =
        GridSources { operator_priority: operator_priority.unwrap_or(OPERATOR_PRIORITY), sources: Vec::new() };
    for table in tables {
        let name = table.name.clone();
        check_name("source", &name).context("[[grid]]")?;
        ensure!(grid.sources.iter().all(|(source, _)| source.name != name), "[[grid]] {name} is given twice");
        grid.sources.push(table.resolve().with_context(|| format!("[[grid]] {name}"))?);
    }
    Ok(grid)
}

impl GridTable {
    fn resolve(self) -> Result<(Source, SourceKind)> {
        ensure!(
            !(self.obligatory && self.may_widen),
            "obligatory and may_widen exclude each other: an obligatory limit only narrows"
        );
        let failsafe = match (self.failsafe_high, self.failsafe_for) {
            (Some(high), hold) => {
                ensure!(high >= Power::ZERO, "failsafe_high is {high}: it cannot be negative");
                let hold = super::not_negative("failsafe_for", hold, FAILSAFE_FOR)?;
                Some(Failsafe { high, hold })
            }
            (None, Some(_)) => bail!("failsafe_for needs failsafe_high, which is missing"),
            (None, None) => None,
        };
        let heartbeat = self.heartbeat.or(failsafe.map(|_| HEARTBEAT));
        let heartbeat = heartbeat.map(|span| super::positive("heartbeat", Some(span), span)).transpose()?;
        let ttl = self.ttl.map(|span| super::positive("ttl", Some(span), span)).transpose()?;
        let source = Source {
            name: self.name.clone(),
            priority: self.priority.unwrap_or(PRIORITY),
            obligatory: self.obligatory,
            may_widen: self.may_widen,
            heartbeat,
            failsafe,
            ttl,
        };
        let (kind, poll) = self.kind()?;
        if let (Some(heartbeat), Some(poll)) = (source.heartbeat, poll) {
            ensure!(
                heartbeat > poll,
                "heartbeat is {heartbeat}, but values come only every {poll}: make it longer, or `poll` shorter"
            );
        }
        if matches!(kind, SourceKind::Schedule(_)) {
            ensure!(
                source.heartbeat.is_none() && source.ttl.is_none(),
                "a schedule is always known: it needs no heartbeat and no ttl"
            );
        }
        Ok((source, kind))
    }

    /// Returns the kind. The span is the interval between queries, if Limo queries the source.
    fn kind(self) -> Result<(SourceKind, Option<Span>)> {
        let Self { openadr, pull, push, file, contact, schedule, name, .. } = self;
        let kinds = [
            openadr.map(OpenAdrTable::resolve),
            pull.map(PullTable::resolve),
            push.map(|table| table.resolve(name)),
            file.map(FileTable::resolve),
            contact.map(ContactTable::resolve),
            schedule.map(ScheduleTable::resolve),
        ];
        let mut kinds = kinds.into_iter().flatten();
        let (Some(kind), None) = (kinds.next(), kinds.next()) else {
            bail!("give it one of the tables openadr, pull, push, file, contact and schedule");
        };
        kind
    }
}

type Resolved = Result<(SourceKind, Option<Span>)>;

impl OpenAdrTable {
    fn resolve(self) -> Resolved {
        let Self { url, token_url, credentials, program, emergency_high, poll, authorities } = self;
        let emergency_high = emergency_high.unwrap_or(Power::MAX);
        ensure!(emergency_high >= Power::ZERO, "emergency_high is {emergency_high}: it cannot be negative");
        let (poll, span) = every(poll, ASK_EVERY)?;
        let ven = OpenAdr { url, token_url, credentials, program, emergency_high, poll };
        Ok((SourceKind::OpenAdr(ven, authorities), Some(span)))
    }
}

impl PullTable {
    fn resolve(self) -> Resolved {
        let (poll, span) = every(self.poll, ASK_EVERY)?;
        let pull = Pull { url: self.url, token_file: self.token_file, poll };
        Ok((SourceKind::Pull(pull, self.authorities), Some(span)))
    }
}

impl PushTable {
    fn resolve(self, name: String) -> Resolved {
        ensure!(
            self.listen.ip().is_loopback(),
            "push cannot listen on {}: it does not support TLS (use 127.0.0.1:{}, behind a proxy with TLS)",
            self.listen,
            self.listen.port()
        );
        Ok((SourceKind::Push(Push { name, token_file: self.token_file }, self.listen), None))
    }
}

impl FileTable {
    fn resolve(self) -> Resolved {
        let (poll, _) = every(self.poll, LOOK_EVERY)?;
        Ok((SourceKind::File(Watched { path: self.path, poll }), None))
    }
}

impl ContactTable {
    fn resolve(self) -> Resolved {
        let (poll, span) = every(self.poll, LOOK_EVERY)?;
        ensure!(self.high >= Power::ZERO, "high is {}: it cannot be negative", self.high);
        let contact = Contact { path: self.path, active_low: self.active_low, high: self.high, poll };
        Ok((SourceKind::Contact(contact), Some(span)))
    }
}

impl ScheduleTable {
    fn resolve(self) -> Resolved {
        let zone = Schedule::zone(&self.zone)?;
        let lines =
            (1..).zip(self.lines).map(|(number, line)| line.resolve().with_context(|| format!("line {number}")));
        Ok((SourceKind::Schedule(Schedule { zone, lines: lines.collect::<Result<_>>()? }), None))
    }
}

impl LineTable {
    fn resolve(self) -> Result<Line> {
        let band = Band::new(self.low.unwrap_or(Power::ZERO), self.high.unwrap_or(Power::MAX))?;
        let days = self.days.as_deref().unwrap_or("daily").parse()?;
        let (from, until) = (Line::hour(&self.from)?, Line::hour(&self.until)?);
        Ok(Line { days, from, until, band, priority: self.priority })
    }
}

fn every(poll: Option<Span>, default: Span) -> Result<(Duration, Span)> {
    let poll = poll.unwrap_or(default);
    ensure!(poll >= SHORTEST_POLL, "poll is {poll}: {SHORTEST_POLL} is the shortest");
    Ok((Duration::from_millis(u64::try_from(poll.ms())?), poll))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Result<GridSources, String> {
        #[derive(Deserialize)]
        struct GridFile {
            grid: Vec<GridTable>,
        }
        let file: GridFile = toml::from_str(text).map_err(|error| error.to_string())?;
        resolve(file.grid, None).map_err(|error| format!("{error:#}"))
    }

    fn refused(text: &str, expected: &str) {
        let error = grid(text).expect_err("refused");
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    #[test]
    fn defaults() {
        let text = "[[grid]]\nname = \"dso\"\nfailsafe_high = \"4.2 kW\"\nfile = { path = \"/run/limit.json\" }\n";
        let grid = grid(text).expect("good");
        let (source, kind) = &grid.sources[0];
        let failsafe = Failsafe { high: Power::from_watts(4_200), hold: Span::from_secs(7_200) };
        assert_eq!((source.priority, grid.operator_priority), (50, 100));
        assert_eq!((source.heartbeat, source.failsafe), (Some(Span::from_secs(120)), Some(failsafe)));
        assert_eq!(*kind, SourceKind::File(Watched { path: "/run/limit.json".into(), poll: Duration::from_secs(1) }));
    }

    #[test]
    fn refusals() {
        let file = "file = { path = \"x\" }\n";
        let head = "[[grid]]\nname = \"a\"\n";
        refused(head, "[[grid]] a: give it one of the tables openadr, pull, push, file, contact and schedule");
        refused(&format!("{head}{file}contact = {{ path = \"y\", high = \"5 W\" }}\n"), "give it one of the tables");
        refused(&format!("{head}{file}{head}{file}"), "[[grid]] a is given twice");
        refused(&format!("{head}{file}fail = 1\n"), "unknown field `fail`");
        refused(&format!("[[grid]]\nname = \"a b\"\n{file}"), "[[grid]]: ");
        refused(&format!("{head}{file}obligatory = true\nmay_widen = true\n"), "exclude each other");
        refused(&format!("{head}{file}failsafe_for = \"2h\"\n"), "failsafe_high, which is missing");
        refused(&format!("{head}{file}failsafe_high = \"-5 W\"\n"), "failsafe_high is -5.0 W");
        refused(&format!("{head}{file}heartbeat = \"0s\"\n"), "heartbeat is zero");
        refused(&format!("{head}{file}ttl = 5\n"), "`5` has no unit");
        let pull = "pull = { url = \"http://x/\", poll = \"5min\" }\n";
        refused(
            &format!("{head}{pull}failsafe_high = \"5 W\"\n"),
            "heartbeat is 2min, but values come only every 5min",
        );
        refused(
            &format!("{head}pull = {{ url = \"http://x/\", poll = \"1ms\" }}\n"),
            "poll is 1ms: 100ms is the shortest",
        );
        refused(
            &format!("{head}push = {{ listen = \"0.0.0.0:80\", token_file = \"t\" }}\n"),
            "it does not support TLS",
        );
        let schedule =
            |zone: &str, line: &str| format!("{head}schedule = {{ zone = \"{zone}\", lines = [{{{line}}}] }}\n");
        let line = "from = \"17:00\", until = \"20:00\", high = \"5 W\"";
        assert_eq!(grid(&schedule("Europe/Berlin", line)).map(|grid| grid.sources.len()), Ok(1));
        refused(&schedule("Europe/Atlantis", line), "`Europe/Atlantis` is not a time zone");
        refused(
            &schedule("UTC", "from = \"17\", until = \"20:00\""),
            "line 1: `17` is not a time of day: write for example `17:30`",
        );
        refused(&schedule("UTC", &format!("{line}, days = \"fr\"")), "line 1: `fr` names no days");
        refused(&format!("{}heartbeat = \"2min\"\n", schedule("UTC", line)), "a schedule is always known");
    }
}
