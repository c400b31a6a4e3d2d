//! Columns of tables of jobs: titles, alignment, values and sort order. Used by all tables of jobs, and by `--format`
//! and `--sort`.

use std::cmp::Ordering;
use std::str::FromStr;

use limo_client::{Align, Clock, Room, Screen, Table, Tint, elapsed, end_in_words, job_label, marked, or_dash};
use limo_model::{Cores, Memory, Money, Power, Span, Time};
use limo_proto::{JobReport, JobState};

use crate::args::{STATES, ViewArgs};

/// A column. Its title in lower case is its name on the command line.
pub struct Column {
    title: &'static str,
    align: Align,
    room: Room,
    cell: fn(&JobReport, &Clock) -> String,
    order: fn(&JobReport, &JobReport, &Clock) -> Ordering,
}

/// Text column.
macro_rules! text {
    ($title:literal, $room:expr, $cell:expr) => {
        Column {
            title: $title,
            align: Align::Left,
            room: $room,
            cell: $cell,
            order: |a, b, clock| {
                let cell: fn(&JobReport, &Clock) -> String = $cell;
                cell(a, clock).cmp(&cell(b, clock))
            },
        }
    };
}

/// Right-aligned figure, sorted by its value. Unknown values come first.
macro_rules! figure {
    ($title:literal, $value:expr, $cell:expr) => {
        Column {
            title: $title,
            align: Align::Right,
            room: Room::Natural,
            cell: $cell,
            order: |a, b, clock| {
                let value = $value;
                value(a, clock).cmp(&value(b, clock))
            },
        }
    };
}

const COLUMNS: [Column; 29] = [
    figure!("JOBID", |job: &JobReport, _: &Clock| job.job, |job, _| job_label(job)),
    text!("NAME", Room::GivesWay(6), |job, _| job.name.clone()),
    text!("USER", Room::GivesWay(8), |job, _| job.user.clone()),
    Column {
        title: "ST",
        align: Align::Left,
        room: Room::Natural,
        cell: |job, _| code(job.state).to_owned(),
        order: |a, b, _| place(a.state).cmp(&place(b.state)),
    },
    Column {
        title: "STATE",
        align: Align::Left,
        room: Room::Natural,
        cell: |job, _| job.state.name().to_owned(),
        order: |a, b, _| place(a.state).cmp(&place(b.state)),
    },
    figure!("TIME", time_run, |job, clock| elapsed(time_run(job, clock))),
    figure!("TIMELIMIT", |job: &JobReport, _: &Clock| job.time_limit, |job, _| or_dash(job.time_limit.map(elapsed))),
    figure!("CORES", |job: &JobReport, _: &Clock| cores(job), |job, _| job.cores.to_string()),
    figure!("MEMORY", |job: &JobReport, _: &Clock| job.memory, |job, _| asked(job.memory)),
    text!("NODES(UNIT)", Room::GivesWay(11), |job, _| places(job)),
    Column {
        title: "ENERGY",
        align: Align::Figure,
        room: Room::Natural,
        cell: |job, _| or_dash(job.energy.map(|energy| marked(energy, job.emulated))),
        order: |a, b, _| a.energy.cmp(&b.energy),
    },
    Column {
        title: "DRAW",
        align: Align::Figure,
        room: Room::Natural,
        cell: |job, _| or_dash(draw(job)),
        order: |a, b, _| draw(a).cmp(&draw(b)),
    },
    figure!("COST", |job: &JobReport, _: &Clock| job.cost, |job, _| or_dash(job.cost)),
    figure!("STARTNOW", |job: &JobReport, _: &Clock| job.start_now_cost, |job, _| or_dash(job.start_now_cost)),
    figure!("SAVED", |job: &JobReport, _: &Clock| saved(job), |job, _| or_dash(saved(job))),
    time("SUBMIT", |job, clock| clock.show(job.submitted), |a, b, _| a.submitted.cmp(&b.submitted)),
    time("START", |job, clock| moment(job.started, clock), |a, b, _| a.started.cmp(&b.started)),
    time("END", |job, clock| moment(job.ended, clock), |a, b, _| a.ended.cmp(&b.ended)),
    time("DEADLINE", |job, clock| moment(job.deadline, clock), |a, b, _| a.deadline.cmp(&b.deadline)),
    time("STARTBY", |job, clock| moment(job.start_by, clock), |a, b, _| a.start_by.cmp(&b.start_by)),
    text!("APPLICATION", Room::GivesWay(8), |job, _| job.application.clone()),
    text!("COMMAND", Room::GivesWay(20), |job, _| job.command.clone()),
    text!("NODES", Room::GivesWay(8), |job, _| or_dash((!job.nodes.is_empty()).then(|| job.nodes.join(",")))),
    text!("HOW", Room::Natural, |job, _| how_known(job).to_owned()),
    text!("REASON", Room::GivesWay(16), reason),
    figure!("PRIORITY", |job: &JobReport, _: &Clock| priority(job), |job, _| or_dash(priority(job))),
    text!("QUEUE", Room::GivesWay(6), |job, _| or_dash(job.queue.clone())),
    text!("ACCOUNT", Room::GivesWay(6), |job, _| or_dash(job.account.clone())),
    text!("QOS", Room::GivesWay(6), |job, _| or_dash(job.qos.clone())),
];

/// Slurm's names for some columns.
const ALSO: [(&str, &str); 11] = [
    ("partition", "queue"),
    ("id", "jobid"),
    ("username", "user"),
    ("statecompact", "st"),
    ("timeused", "time"),
    ("cpus", "cores"),
    ("nodelist", "nodes"),
    ("submittime", "submit"),
    ("starttime", "start"),
    ("endtime", "end"),
    ("unit", "nodes(unit)"),
];

fn draw(job: &JobReport) -> Option<Power> {
    job.estimate.map(|estimate| estimate.power)
}

fn priority(job: &JobReport) -> Option<i64> {
    job.priority.map(|standing| standing.total())
}

const fn time(
    title: &'static str,
    cell: fn(&JobReport, &Clock) -> String,
    order: fn(&JobReport, &JobReport, &Clock) -> Ordering,
) -> Column {
    Column { title, align: Align::Left, room: Room::Natural, cell, order }
}

/// Finds a column by its name; returns its index in [`COLUMNS`].
fn column(name: &str) -> Result<usize, String> {
    let name = name.to_ascii_lowercase();
    let name = ALSO.iter().find(|(also, _)| *also == name).map_or(name.as_str(), |(_, name)| name);
    COLUMNS.iter().position(|column| column.title.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<String> = COLUMNS.iter().map(|column| column.title.to_ascii_lowercase()).collect();
        format!("`{name}` is not a column: {}", known.join(", "))
    })
}

/// Column to show, with an optional width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    column: usize,
    width: Option<usize>,
}

/// Largest width: more than any terminal has.
const WIDEST: usize = 1_000;

impl FromStr for Shown {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, width) = match text.split_once(':') {
            None => (text, None),
            Some((name, width)) => {
                let number = width.parse::<usize>().ok().filter(|width| (1..=WIDEST).contains(width));
                let refused = || format!("`{width}` in `{text}` is not a width: 1 to {WIDEST}");
                (name, Some(number.ok_or_else(refused)?))
            }
        };
        Ok(Self { column: column(name)?, width })
    }
}

/// Column to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    column: usize,
    descending: bool,
}

impl FromStr for SortKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, descending) = match text.strip_prefix('-') {
            Some(name) => (name, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        Ok(Self { column: column(name)?, descending })
    }
}

/// Sorts jobs; the sort is stable.
pub fn sort(jobs: &mut [JobReport], keys: &[SortKey], clock: &Clock) {
    jobs.sort_by(|a, b| {
        let by = |key: &SortKey| {
            let order = (COLUMNS[key.column].order)(a, b, clock);
            if key.descending { order.reverse() } else { order }
        };
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

/// Default columns of a table.
pub struct Usual {
    pub brief: &'static [&'static str],
    pub long: &'static [&'static str],
}

/// Renders jobs as a table, as wide as the screen if there is one.
pub fn table(jobs: &[JobReport], view: &ViewArgs, usual: &Usual, (clock, screen): (&Clock, &Screen)) -> String {
    let usual = if view.long { usual.long } else { usual.brief };
    let shown = if view.format.is_empty() {
        usual.iter().filter_map(|name| Some(Shown { column: column(name).ok()?, width: None })).collect()
    } else {
        view.format.clone()
    };
    let columns: Vec<&Column> = shown.iter().map(|shown| &COLUMNS[shown.column]).collect();
    let mut table = Table::new(&columns.iter().map(|column| (column.title, column.align)).collect::<Vec<_>>());
    if view.noheader {
        table.without_titles();
    }
    for (at, (shown, column)) in shown.iter().zip(&columns).enumerate() {
        table.room(at, shown.width.map_or(column.room, Room::Exactly));
    }
    let state = columns.iter().position(|column| ["ST", "STATE"].contains(&column.title));
    for job in jobs {
        table.row(columns.iter().map(|column| (column.cell)(job, clock)));
        if let (Some(state), Some(tint)) = (state, tint(job.state)) {
            table.tint(state, tint);
        }
    }
    table.render_for(screen)
}

/// Returns the colour of a state.
pub fn tint(state: JobState) -> Option<Tint> {
    match state {
        JobState::Running => Some(Tint::Good),
        JobState::Starting | JobState::Suspended | JobState::Stopping => Some(Tint::Busy),
        JobState::Failed | JobState::TimedOut | JobState::UsedUp | JobState::Lost | JobState::NodeFailed => {
            Some(Tint::Bad)
        }
        JobState::Waiting | JobState::Completed | JobState::Cancelled | JobState::Refused => None,
    }
}

/// Returns the code of a state, such as `R` for running.
pub fn code(state: JobState) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("?", |(_, code)| code)
}

/// Returns the rank of a state in the life of a job.
fn place(state: JobState) -> usize {
    STATES.iter().position(|(known, _)| *known == state).unwrap_or(STATES.len())
}

fn cores(job: &JobReport) -> u32 {
    match job.cores {
        Cores::Count(count) => count.get(),
        Cores::All => u32::MAX,
    }
}

/// Returns the running time so far, or in total.
pub fn time_run(job: &JobReport, clock: &Clock) -> Span {
    job.started.map_or(Span::ZERO, |started| job.ended.unwrap_or(clock.now()) - started)
}

fn moment(time: Option<Time>, clock: &Clock) -> String {
    or_dash(time.map(|time| clock.show(time)))
}

/// Formats requested memory; empty if none was requested.
fn asked(memory: Memory) -> String {
    if memory > Memory::ZERO { memory.to_string() } else { String::new() }
}

/// Returns the savings compared with a start at submission.
fn saved(job: &JobReport) -> Option<Money> {
    Some(job.start_now_cost? - job.cost?)
}

/// Describes the source of the job's energy.
fn how_known(job: &JobReport) -> &'static str {
    match (job.energy, job.emulated, job.measured) {
        (None, ..) => "-",
        (_, true, Some(true)) => "emulated",
        (_, _, Some(true)) => "measured",
        (_, _, Some(false)) => "estimated",
        (_, _, None) if job.ended.is_none() => "estimated",
        (_, _, None) => "unknown",
    }
}

/// Formats places, such as `n1(cpu),n2(cpu)`.
pub fn places(job: &JobReport) -> String {
    let place = |unit: &String| match unit.split_once('/') {
        Some((node, unit)) => format!("{node}({unit})"),
        None => unit.clone(),
    };
    or_dash((!job.units.is_empty()).then(|| job.units.iter().map(place).collect::<Vec<_>>().join(",")))
}

/// Returns the reason why the job waits or is suspended, or its end.
pub fn reason(job: &JobReport, clock: &Clock) -> String {
    match (&job.wait, &job.end) {
        (Some(wait), _) => wait.shown(|time| clock.show(time)).to_string(),
        (None, Some(end)) => end_in_words(end, clock),
        (None, None) => match (unreachable(job, clock), &job.suspended) {
            (Some(nodes), _) => format!("node unreachable: {nodes}"),
            (None, Some(suspended)) => suspended.to_string(),
            (None, None) => String::new(),
        },
    }
}

/// Formats the unreachable nodes of a job, such as `n1 since 14:00:05`.
pub fn unreachable(job: &JobReport, clock: &Clock) -> Option<String> {
    let node = |(node, since): &(String, Option<Time>)| match since {
        Some(since) => format!("{node} since {}", clock.show(*since)),
        None => node.clone(),
    };
    (!job.unreachable.is_empty()).then(|| job.unreachable.iter().map(node).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (at, known) in COLUMNS.iter().enumerate() {
            assert_eq!(column(&known.title.to_ascii_lowercase()), Ok(at), "{}", known.title);
        }
        for (also, name) in ALSO {
            assert!(column(also).is_ok() && column(also) == column(name), "{also}");
        }
        assert!(column("foo").is_err_and(|error| error.starts_with("`foo` is not a column: jobid, name, user, st, ")));
        let (jobid, name) = (column("jobid").expect("known"), column("name").expect("known"));
        assert_eq!("JobID:8".parse(), Ok(Shown { column: jobid, width: Some(8) }));
        assert_eq!("-name".parse(), Ok(SortKey { column: name, descending: true }));
        for text in ["jobid:", "jobid:0", "jobid:x", "jobid:1001"] {
            assert!(text.parse::<Shown>().is_err_and(|error| error.contains("is not a width: 1 to 1000")), "{text}");
        }
    }
}
