//! `lsim compare`: compares two results of `lsim run`: their figures, and the start of each job. Exact: nothing is
//! calculated in floating point.

mod shown;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use limo_model::decimal;
use serde::Serialize;
use serde_json::{Number, Value};

use crate::sweep::cells;
use shown::text;

/// Decimal places of all figures in a comparison.
const PLACES: u32 = 6;
/// Largest number of listed jobs.
const LISTED: usize = 10;
/// Keys without a comparison: properties of the run, and values that are not figures.
const LEFT_OUT: [&str; 3] = ["schema", "wall_s", "peak_rss_bytes"];
/// Figures of a whole simulation, which cannot be computed for a longer time.
const UNTIL_THE_END: [&str; 2] = ["cost", "energy_by_state_j"];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of results
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Folder to compare with it
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Also compare results of different workloads, by the jobs that both have
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Folder of results.
struct Outcome {
    shown: String,
    schedule: Value,
    /// Jobs, sorted by number, submission, processors and requested time.
    jobs: Vec<Job>,
}

/// Times in units of 10^-6 s.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    id: i64,
    submit: i128,
    processors: i128,
    walltime: i128,
    start: Option<i128>,
}

#[derive(Serialize)]
struct Comparison {
    schema: u32,
    a: String,
    b: String,
    /// Time until which `energy_j` counts in both results.
    until_s: Option<Number>,
    metrics: Vec<Metric>,
    starts: Starts,
    largest: Vec<StartDifference>,
}

/// Figure of both results, as text so that nothing is rounded. `percent` is the difference relative to the magnitude
/// of A.
#[derive(Serialize)]
struct Metric {
    name: String,
    a: Option<Number>,
    b: Option<Number>,
    difference: Option<Number>,
    percent: Option<Number>,
}

#[derive(Serialize, Default)]
struct Starts {
    earlier: usize,
    equal: usize,
    later: usize,
    only_a: usize,
    only_b: usize,
    neither: usize,
}

/// Difference in seconds; positive if the job starts later in B.
#[derive(Serialize)]
struct StartDifference {
    job_id: i64,
    submit_s: Number,
    start_a_s: Number,
    start_b_s: Number,
    difference_s: Number,
    #[serde(skip)]
    by: i128,
}

/// Compares two folders.
///
/// # Errors
/// If a folder is not a result, or the workloads differ.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (first, second) = (Outcome::read(&arguments.first)?, Outcome::read(&arguments.second)?);
    let (differing, notes) = differences(&first, &second);
    if !differing.is_empty() && !arguments.force {
        bail!(
            "{} and {} have different workloads: {} (--force compares them nevertheless)",
            first.shown,
            second.shown,
            differing.join("; ")
        );
    }
    let mut notes = [differing, notes, unfinished(&first), unfinished(&second)].concat();
    let comparison = compared(&first, &second, &mut notes);
    for note in &notes {
        eprintln!("lsim: note: {note}");
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{}", text(&comparison));
    }
    Ok(ExitCode::SUCCESS)
}

impl Outcome {
    fn read(folder: &Path) -> Result<Self> {
        let shown = folder.display().to_string();
        let path = folder.join("schedule.json");
        if !path.is_file() {
            bail!("{shown} is not a result of `lsim run`: it has no schedule.json");
        }
        let text = read(&path)?;
        let schedule: Value = serde_json::from_str(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if schedule.get("schema").and_then(Value::as_u64) != Some(1) {
            bail!("{}: this is not a schedule of this version of lsim (schema 1)", path.display());
        }
        let path = folder.join("jobs.csv");
        let jobs = jobs(&read(&path)?).map_err(|error| anyhow!("{}:{error}", path.display()))?;
        Ok(Self { shown, schedule, jobs })
    }

    /// Returns a figure in units of 10^-6.
    fn figure(&self, key: &str) -> Option<i128> {
        figure(self.schedule.get(key)?)
    }

    fn text(&self, key: &str) -> String {
        match self.schedule.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => "nothing".to_owned(),
        }
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{}: the file cannot be read", path.display()))
}

/// Parses a `jobs.csv`; an error begins with the line's number.
fn jobs(text: &str) -> Result<Vec<Job>, String> {
    let mut lines = text.lines();
    let header = lines.next().and_then(cells::values).unwrap_or_default();
    let place = |name: &str| {
        header.iter().position(|column| column == name).ok_or_else(|| format!("1: there is no column `{name}`"))
    };
    let places = [
        place("job_id")?,
        place("submission_time")?,
        place("requested_number_of_resources")?,
        place("requested_time")?,
        place("starting_time")?,
    ];
    let mut jobs = Vec::new();
    for (index, line) in lines.enumerate() {
        let row = cells::values(line).filter(|row| row.len() == header.len());
        let job = row.and_then(|row| job(places.map(|place| row[place].as_str())));
        jobs.push(job.ok_or_else(|| format!("{}: this line is not a job", index + 2))?);
    }
    jobs.sort_unstable();
    Ok(jobs)
}

fn job([id, submit, processors, walltime, start]: [&str; 5]) -> Option<Job> {
    let number = |text: &str| decimal::parse(text, PLACES);
    Some(Job {
        id: id.parse().ok()?,
        submit: number(submit)?,
        processors: number(processors)?,
        walltime: number(walltime)?,
        start: if start.is_empty() { None } else { Some(number(start)?) },
    })
}

/// Returns the differences between the workloads, and notes.
fn differences(first: &Outcome, second: &Outcome) -> (Vec<String>, Vec<String>) {
    let (mut differing, mut notes) = (Vec::new(), Vec::new());
    let same = |a: &Job, b: &Job| Job { start: None, ..a.clone() } == Job { start: None, ..b.clone() };
    if first.jobs.len() != second.jobs.len() {
        differing.push(format!("{} and {} jobs", first.jobs.len(), second.jobs.len()));
    } else {
        let mut changed = first.jobs.iter().zip(&second.jobs).filter(|(a, b)| !same(a, b));
        if let Some((a, _)) = changed.next() {
            let count = 1 + changed.count();
            let jobs = if count == 1 { "job has" } else { "jobs have" };
            differing.push(format!(
                "{count} {jobs} another number, submission, size or requested time (the first is job {})",
                a.id
            ));
        }
    }
    for (key, names) in [("workload", "workloads"), ("platform", "platforms"), ("processors", "processors")] {
        let (a, b) = (first.text(key), second.text(key));
        if a != b {
            let list = if key == "workload" && !differing.is_empty() { &mut differing } else { &mut notes };
            list.push(format!("the {names} are {a} and {b}"));
        }
    }
    (differing, notes)
}

/// Notes unfinished jobs, which have no energy and no wait.
fn unfinished(outcome: &Outcome) -> Vec<String> {
    let (Some(left), Some(jobs)) = (outcome.figure("jobs_unfinished"), outcome.figure("jobs")) else {
        return Vec::new();
    };
    let [left, jobs] = [left, jobs].map(|count| decimal::text(count, PLACES));
    let told = format!("{} left {left} of {jobs} jobs unfinished: its figures are for less work", outcome.shown);
    if left == "0" { Vec::new() } else { vec![told] }
}

/// Makes the figures comparable: the energy of both counts until the later end, because the machine stays idle after
/// its own end. Removes and notes figures that cannot be extended. Returns the later end.
fn same_time(a: &mut Value, b: &mut Value, notes: &mut Vec<String>) -> Option<i128> {
    let end = |schedule: &Value| schedule.get("simulated_s").and_then(figure);
    let (first, second) = end(a).zip(end(b))?;
    let until = first.max(second);
    for (schedule, end) in [(&mut *a, first), (&mut *b, second)] {
        let draw = schedule.get("draw_at_end_w").and_then(figure);
        let energy = schedule.get("energy_j").and_then(figure).zip(draw);
        let energy = energy.map(|(energy, draw)| energy + decimal::divide((until - end) * draw, 10_i128.pow(PLACES)));
        schedule["energy_j"] = energy.map_or(Value::Null, |energy| Value::Number(number(energy)));
    }
    if first != second {
        let removed: Vec<&str> = UNTIL_THE_END.into_iter().filter(|key| remove(a, b, key)).collect();
        let [first, second, until] = [first, second, until].map(|end| decimal::text(end, PLACES));
        notes.push(format!(
            "the simulations end at {first} s and {second} s: energy_j counts until {until} s in both; left out: {}",
            removed.join(", ")
        ));
    }
    let window = |schedule: &Value| ["from_s", "until_s"].map(|key| schedule.get("window")?.get(key).and_then(figure));
    if window(a) != window(b) {
        for key in ["window", "utilisation"] {
            remove(a, b, key);
        }
        let told = "the measured times differ; left out: window, utilisation; give both runs the same --measure";
        notes.push(told.to_owned());
    }
    Some(until)
}

/// Removes a figure from both results; returns true if either had it.
fn remove(a: &mut Value, b: &mut Value, key: &str) -> bool {
    let removed = [a, b].map(|schedule| schedule.as_object_mut()?.remove(key));
    removed.into_iter().flatten().any(|figure| !figure.is_null())
}

fn compared(first: &Outcome, second: &Outcome, notes: &mut Vec<String>) -> Comparison {
    let (mut starts, mut largest) = (Starts::default(), Vec::new());
    for (a, b) in pairs(&first.jobs, &second.jobs) {
        let (Some(from), Some(to)) = (a.start, b.start) else {
            *match (a.start, b.start) {
                (Some(_), _) => &mut starts.only_a,
                (_, Some(_)) => &mut starts.only_b,
                _ => &mut starts.neither,
            } += 1;
            continue;
        };
        let by = to - from;
        *match by {
            0 => &mut starts.equal,
            1.. => &mut starts.later,
            _ => &mut starts.earlier,
        } += 1;
        if by != 0 {
            largest.push((by, a, from, to));
        }
    }
    largest.sort_by_key(|(by, job, ..)| (std::cmp::Reverse(by.abs()), job.id));
    let difference = |(by, job, from, to): (i128, &Job, i128, i128)| StartDifference {
        job_id: job.id,
        submit_s: number(job.submit),
        start_a_s: number(from),
        start_b_s: number(to),
        difference_s: number(by),
        by,
    };
    let largest = largest.into_iter().take(LISTED).map(difference).collect();
    let (mut a, mut b) = (first.schedule.clone(), second.schedule.clone());
    let until_s = same_time(&mut a, &mut b, notes).map(number);
    let mut metrics = Vec::new();
    figures("", &a, &b, &mut metrics);
    let name = |outcome: &Outcome| format!("{} ({})", outcome.shown, outcome.text("policy"));
    Comparison { schema: 1, a: name(first), b: name(second), until_s, metrics, starts, largest }
}

/// Pairs the jobs of both; jobs with the same number are paired in order.
fn pairs<'j>(first: &'j [Job], second: &'j [Job]) -> Vec<(&'j Job, &'j Job)> {
    let (mut a, mut b, mut pairs) = (0, 0, Vec::new());
    while let (Some(one), Some(other)) = (first.get(a), second.get(b)) {
        match one.id.cmp(&other.id) {
            std::cmp::Ordering::Less => a += 1,
            std::cmp::Ordering::Greater => b += 1,
            std::cmp::Ordering::Equal => {
                pairs.push((one, other));
                (a, b) = (a + 1, b + 1);
            }
        }
    }
    pairs
}

/// Collects the numbers of both schedules, even within objects; names are the paths to them.
fn figures(prefix: &str, a: &Value, b: &Value, metrics: &mut Vec<Metric>) {
    let empty = serde_json::Map::new();
    let of = |value: &'_ Value| value.as_object().cloned().unwrap_or_else(|| empty.clone());
    let (a, b) = (of(a), of(b));
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names.into_iter().filter(|name| !LEFT_OUT.contains(&name.as_str())) {
        let (a, b) = (a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null));
        let name = format!("{prefix}{name}");
        if a.is_object() || b.is_object() {
            figures(&format!("{name}."), a, b, metrics);
        } else if a.is_number() || b.is_number() {
            metrics.push(metric(name, a, b));
        }
    }
}

/// Returns a value in units of 10^-6.
fn figure(value: &Value) -> Option<i128> {
    value.as_number().and_then(|number| decimal::parse(&number.to_string(), PLACES))
}

fn metric(name: String, a: &Value, b: &Value) -> Metric {
    let (a, b) = (figure(a), figure(b));
    let difference = a.zip(b).map(|(a, b)| b - a);
    let percent = difference.zip(a).filter(|(_, a)| *a != 0);
    let percent = percent.map(|(by, a)| decimal::divide(by * 100_000_000, a.abs()));
    Metric {
        name,
        a: a.map(number),
        b: b.map(number),
        difference: difference.map(number),
        percent: percent.map(number),
    }
}

/// Makes a JSON number of exactly these digits.
fn number(value: i128) -> Number {
    let text = decimal::text(value, PLACES);
    // A decimal number is valid JSON.
    text.parse().unwrap_or_else(|_| Number::from(0))
}

#[cfg(test)]
mod tests {
    use super::shown::plain;
    use super::*;

    #[test]
    fn jobs_with_the_same_number() {
        let job = |id, submit| Job { id, submit, processors: 1, walltime: -1, start: None };
        let (first, second) = ([job(1, 0), job(1, 5), job(3, 0)], [job(1, 0), job(2, 0), job(3, 0)]);
        let found: Vec<(i64, i128)> = pairs(&first, &second).iter().map(|(a, _)| (a.id, a.submit)).collect();
        assert_eq!(found, [(1, 0), (3, 0)]);
    }

    #[test]
    fn numbers_are_exact() {
        let of = |a: &str, b: &str| {
            let value = |text: &str| serde_json::from_str(text).expect("JSON");
            let metric = metric("x".to_owned(), &value(a), &value(b));
            [metric.difference, metric.percent].map(|number| number.map(|number| plain(&number)))
        };
        assert_eq!(of("0.3", "0.1"), [Some("-0.2".to_owned()), Some("-66.666667".to_owned())]);
        assert_eq!(of("-2", "1"), [Some("3".to_owned()), Some("150".to_owned())]);
        assert_eq!(of("0", "1"), [Some("1".to_owned()), None]);
        assert_eq!(of("null", "1"), [None, None]);
    }
}
