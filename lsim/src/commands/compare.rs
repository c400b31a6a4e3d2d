//! `lsim compare`: two results of `lsim run` side by side: their figures, and which jobs start earlier or later. Exact:
//! nothing is calculated in floating point.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::{Number, Value};

use crate::sweep::{cells, decimal};

/// Places of all figures here.
const PLACES: u32 = 6;
/// Jobs that are listed.
const LISTED: usize = 10;
/// What the simulation cost its machine, and what is no figure.
const LEFT_OUT: [&str; 3] = ["schema", "wall_s", "peak_rss_bytes"];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A folder of results
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The folder that is compared with it
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Compare results of different workloads too: the jobs that both have
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One folder of results.
struct Outcome {
    shown: String,
    schedule: Value,
    /// In order of number, submission, processors and requested time.
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
    metrics: Vec<Metric>,
    starts: Starts,
    largest: Vec<Difference>,
}

/// A figure of both, as text so that nothing is rounded; `percent` is the difference by the magnitude of A.
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

/// In seconds; positive where the job starts later in B.
#[derive(Serialize)]
struct Difference {
    job_id: i64,
    submit_s: Number,
    start_a_s: Number,
    start_b_s: Number,
    difference_s: Number,
    #[serde(skip)]
    by: i128,
}

/// # Errors
/// Folders that are no results, or of different workloads.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (first, second) = (Outcome::read(&arguments.first)?, Outcome::read(&arguments.second)?);
    let (differing, notes) = differences(&first, &second);
    if !differing.is_empty() && !arguments.force {
        bail!(
            "{} and {} are of different workloads: {} (--force compares them all the same)",
            first.shown,
            second.shown,
            differing.join("; ")
        );
    }
    for note in differing.iter().chain(&notes) {
        eprintln!("lsim: note: {note}");
    }
    let comparison = compared(&first, &second);
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
            bail!("{shown} is no result of `lsim run`: it has no schedule.json");
        }
        let text = read(&path)?;
        let schedule: Value = serde_json::from_str(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        if schedule.get("schema").and_then(Value::as_u64) != Some(1) {
            bail!("{}: this is no schedule of this version of lsim (schema 1)", path.display());
        }
        let path = folder.join("jobs.csv");
        let jobs = jobs(&read(&path)?).map_err(|error| anyhow!("{}:{error}", path.display()))?;
        Ok(Self { shown, schedule, jobs })
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

/// The jobs of a `jobs.csv`; an error begins with the line's number.
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
        jobs.push(job.ok_or_else(|| format!("{}: this is no job", index + 2))?);
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

/// What makes the workloads different, and what else is worth a note.
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

fn compared(first: &Outcome, second: &Outcome) -> Comparison {
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
    let difference = |(by, job, from, to): (i128, &Job, i128, i128)| Difference {
        job_id: job.id,
        submit_s: number(job.submit),
        start_a_s: number(from),
        start_b_s: number(to),
        difference_s: number(by),
        by,
    };
    let largest = largest.into_iter().take(LISTED).map(difference).collect();
    let mut metrics = Vec::new();
    figures("", &first.schedule, &second.schedule, &mut metrics);
    let name = |outcome: &Outcome| format!("{} ({})", outcome.shown, outcome.text("policy"));
    Comparison { schema: 1, a: name(first), b: name(second), metrics, starts, largest }
}

/// The jobs that both have; of several with one number the first belongs to the first.
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

/// All numbers of both schedules, also within objects, under the names of the way to them.
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

fn metric(name: String, a: &Value, b: &Value) -> Metric {
    let value = |value: &Value| value.as_number().and_then(|number| decimal::parse(&number.to_string(), PLACES));
    let (a, b) = (value(a), value(b));
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

/// Exactly these digits, as far as a reader of JSON keeps them.
fn number(value: i128) -> Number {
    let text = decimal::text(value, PLACES);
    // The text is a plain decimal number, which is JSON.
    text.parse().unwrap_or_else(|_| Number::from(0))
}

fn text(comparison: &Comparison) -> String {
    let Comparison { a, b, metrics, starts, largest, .. } = comparison;
    let mut text = format!("A  {a}\nB  {b}\n\n");
    let shown = |number: &Option<Number>| number.as_ref().map_or_else(|| "-".to_owned(), plain);
    let signed =
        |number: &Option<Number>| number.as_ref().map_or_else(|| "-".to_owned(), |number| sign(&plain(number)));
    let mut rows = vec![["metric", "A", "B", "difference", "%"].map(str::to_owned)];
    rows.extend(metrics.iter().map(|metric| {
        let percent = metric.percent.as_ref().and_then(|number| decimal::parse(&plain(number), PLACES));
        let percent = percent
            .map_or_else(|| "-".to_owned(), |value| sign(&decimal::fixed(decimal::rescale(value, PLACES, 2), 2)));
        [metric.name.clone(), shown(&metric.a), shown(&metric.b), signed(&metric.difference), percent]
    }));
    text.push_str(&aligned(&rows));
    let Starts { earlier, equal, later, only_a, only_b, neither } = starts;
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "\njobs in B: {earlier} start earlier, {equal} at the same time, {later} later");
    if only_a + only_b + neither > 0 {
        let _ = writeln!(text, "{only_a} start only in A, {only_b} only in B, {neither} in neither");
    }
    if !largest.is_empty() {
        text.push_str("\nthe largest differences:\n");
        let mut rows = vec![["job", "submitted s", "start A s", "start B s", "difference s"].map(str::to_owned)];
        rows.extend(largest.iter().map(|row| {
            let by = sign(&decimal::text(row.by, PLACES));
            [row.job_id.to_string(), plain(&row.submit_s), plain(&row.start_a_s), plain(&row.start_b_s), by]
        }));
        text.push_str(&aligned(&rows));
    }
    text
}

/// Without the `.0` that whole numbers get.
fn plain(number: &Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn sign(text: &str) -> String {
    let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'-'));
    if text.starts_with('-') || zero {
        text.trim_start_matches(if zero { "-" } else { "" }).to_owned()
    } else {
        format!("+{text}")
    }
}

/// The first column at the left, the others at the right.
fn aligned(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4].map(width);
    let mut text = String::new();
    for row in rows {
        let first = format!("{:<width$}", row[0], width = widths[0]);
        let rest: Vec<String> = (1..5).map(|at| format!("  {:>width$}", row[at], width = widths[at])).collect();
        let _ = writeln!(text, "{first}{}", rest.concat());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs() {
        let shown = ["3", "-3", "0", "-0.00", "0.5"].map(sign);
        assert_eq!(shown, ["+3", "-3", "0", "0.00", "+0.5"]);
    }

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
