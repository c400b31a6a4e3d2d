//! Batsim's JSON workloads: `nb_res`, `jobs`, `profiles`. Jobs may have further keys that Batsim ignores:
//! `application` is the job's application, `variants` the accelerators for which it has a command. `whole_unit`,
//! `may_suspend`, `may_requeue`, `filler`, `explore`, `accelerators` and `packed` are as in [`Treatment`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use limo_model::{Span, check_name};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::input;
use crate::workload::{Application, Job, Treatment, Workload};

/// Options for reading a workload.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Speed of every host in flop/s, as in [`BatsimPlatform`](super::BatsimPlatform). Required by profiles with an
    /// amount of computation.
    pub speed: Option<f64>,
}

/// Reason why a Batsim workload could not be read.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum WorkloadJsonError {
    #[error("{file}: the file cannot be read")]
    Read { file: String, source: io::Error },
    #[error("{file}: {source}")]
    Syntax { file: String, source: serde_json::Error },
    #[error("{file}: the file has no jobs")]
    NoJobs { file: String },
    #[error("{file}: job `{job}` (number {index} of the list): {reason}")]
    Job { file: String, job: String, index: usize, reason: String },
    #[error("{file}: job `{job}`: profile `{profile}` {reason}")]
    Profile { file: String, job: String, profile: String, reason: String },
}

#[derive(Deserialize)]
struct Document {
    nb_res: Option<u32>,
    jobs: Vec<JobText>,
    #[serde(default)]
    profiles: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct JobText {
    id: Id,
    subtime: f64,
    walltime: Option<f64>,
    res: u32,
    profile: Id,
    #[serde(default)]
    application: String,
    #[serde(default)]
    variants: Vec<String>,
    #[serde(default)]
    whole_unit: bool,
    #[serde(default)]
    accelerators: u32,
    #[serde(default)]
    packed: bool,
    #[serde(default)]
    may_suspend: bool,
    #[serde(default)]
    may_requeue: bool,
    #[serde(default)]
    filler: bool,
    #[serde(default)]
    explore: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number or text")]
enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => input::shown(text.as_bytes()),
        }
    }

    /// Returns the number, or the digits after the workload's name: `w0!12` is 12.
    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.rsplit('!').next().and_then(|digits| digits.parse().ok()),
        }
    }
}

/// Reads a workload, plain or gzipped. Jobs are sorted by submission, equal ones as in the file.
///
/// # Errors
/// [`WorkloadJsonError`] if the file is not such a workload, or for the first invalid job.
pub fn workload(path: &Path, options: Options) -> Result<Workload, WorkloadJsonError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(source) => parse(&file, source, options),
        Err(source) => Err(WorkloadJsonError::Read { file, source }),
    }
}

/// Parses bytes; errors name `file`.
///
/// # Errors
/// The same as for [`workload`].
pub fn parse(file: &str, source: impl Read + Send + 'static, options: Options) -> Result<Workload, WorkloadJsonError> {
    let name = file.to_owned();
    let source = input::unpacked(source).map_err(|source| WorkloadJsonError::Read { file: name.clone(), source })?.0;
    let document: Document = serde_json::from_reader(io::BufReader::new(source))
        .map_err(|source| WorkloadJsonError::Syntax { file: name.clone(), source })?;
    if document.jobs.is_empty() {
        return Err(WorkloadJsonError::NoJobs { file: name });
    }
    let numbered = document.jobs.iter().all(|job| job.id.number().is_some());
    let applications = applications(&document.jobs);
    let reading = Reading { file, profiles: document.profiles, numbered, options, applications: &applications };
    let jobs = document.jobs.iter().enumerate().map(|(index, text)| reading.job(text, index));
    let mut jobs = jobs.collect::<Result<Vec<Job>, _>>()?;
    reading.same_number(&jobs, &document.jobs)?;
    jobs.sort_by_key(|job| job.submit);
    let note = "not all ids are numbers: jobs are numbered by their place in the file";
    let notes = if numbered { Vec::new() } else { vec![note.to_owned()] };
    Ok(Workload { jobs, applications, processors: document.nb_res, notes, ..Workload::default() })
}

/// Returns the applications of the jobs, each once, sorted.
fn applications(jobs: &[JobText]) -> Vec<Application> {
    let named = jobs.iter().filter(|job| !job.application.is_empty() || !job.variants.is_empty());
    let mut applications: Vec<Application> = named.map(JobText::application).collect();
    applications.sort_unstable();
    applications.dedup();
    applications
}

impl JobText {
    fn application(&self) -> Application {
        Application { name: self.application.clone(), variants: self.variants.clone() }
    }
}

struct Reading<'f> {
    file: &'f str,
    profiles: BTreeMap<String, Value>,
    /// True if every id is a number.
    numbered: bool,
    options: Options,
    /// Applications, sorted by name.
    applications: &'f [Application],
}

impl Reading<'_> {
    fn job(&self, text: &JobText, index: usize) -> Result<Job, WorkloadJsonError> {
        let fault = |reason: &str| WorkloadJsonError::Job {
            file: self.file.to_owned(),
            job: text.id.text(),
            index: index + 1,
            reason: reason.to_owned(),
        };
        let submit = span(text.subtime).ok_or_else(|| fault("its `subtime` is negative or out of range"))?;
        let walltime = match text.walltime {
            // In Batsim, a walltime of zero or less means no limit.
            None | Some(..=0.0) => None,
            Some(seconds) => Some(span(seconds).ok_or_else(|| fault("its `walltime` is out of range"))?),
        };
        if text.res == 0 {
            return Err(fault("it requests 0 resources (`res`)"));
        }
        let names = [&text.application].into_iter().filter(|name| !name.is_empty()).chain(&text.variants);
        names.into_iter().try_for_each(|name| check_name("name", name)).map_err(|error| fault(&error.to_string()))?;
        let application = self.applications.binary_search(&text.application());
        let place = i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1);
        Ok(Job {
            number: text.id.number().filter(|_| self.numbered).unwrap_or(place),
            submit,
            wait: None,
            run: self.run(text)?,
            walltime: walltime.filter(|walltime| *walltime > Span::ZERO),
            processors: text.res,
            user: -1,
            application: application.ok().and_then(|place| i32::try_from(place).ok()).unwrap_or(-1),
            queue: -1,
            treatment: Treatment {
                may_suspend: text.may_suspend,
                may_requeue: text.may_requeue,
                filler: text.filler,
                explore: text.explore,
                whole_unit: text.whole_unit,
                accelerators: text.accelerators,
                packed: text.packed,
            },
            chunks: None,
        })
    }

    /// Returns the running time of the job's profile.
    fn run(&self, text: &JobText) -> Result<Span, WorkloadJsonError> {
        let fault = |reason: String| WorkloadJsonError::Profile {
            file: self.file.to_owned(),
            job: text.id.text(),
            profile: text.profile.text(),
            reason,
        };
        let name = match &text.profile {
            Id::Text(name) => name.clone(),
            Id::Number(number) => number.to_string(),
        };
        let profile = self.profiles.get(&name).ok_or_else(|| fault("is not in the list of profiles".to_owned()))?;
        let number = |key: &str| profile.get(key).and_then(Value::as_f64);
        let seconds = match profile.get("type").and_then(Value::as_str) {
            Some("delay") => number("delay").ok_or_else(|| fault("has no number `delay`".to_owned()))?,
            // The second name is that of Batsim before version 2.
            Some("parallel_homogeneous" | "msg_par_hg") => self.computed(&number).map_err(fault)?,
            Some(other) => {
                let other = input::shown(other.as_bytes());
                return Err(fault(format!("is of type `{other}`: it must be `delay` or `parallel_homogeneous`")));
            }
            None => return Err(fault("has no `type`".to_owned())),
        };
        span(seconds).ok_or_else(|| fault("gives a duration that is negative or out of range".to_owned()))
    }

    /// Returns the seconds of a profile that computes `cpu` flop on each host and does not communicate.
    fn computed(&self, number: &impl Fn(&str) -> Option<f64>) -> Result<f64, String> {
        if number("com").is_some_and(|bytes| bytes != 0.0) {
            return Err("communicates (`com` is not 0), which is not modelled".to_owned());
        }
        let flop = number("cpu").ok_or("has no number `cpu`")?;
        match self.options.speed {
            Some(speed) => Ok(flop / speed),
            None => {
                Err("gives computation (`cpu`), but the hosts' speed is unknown: give Batsim's platform too".to_owned())
            }
        }
    }

    fn same_number(&self, jobs: &[Job], texts: &[JobText]) -> Result<(), WorkloadJsonError> {
        let mut numbers: Vec<(i64, usize)> = jobs.iter().enumerate().map(|(index, job)| (job.number, index)).collect();
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => Err(WorkloadJsonError::Job {
                file: self.file.to_owned(),
                job: texts[pair[1].1].id.text(),
                index: pair[1].1 + 1,
                reason: format!("its number {} is also that of job number {} of the list", pair[1].0, pair[0].1 + 1),
            }),
        }
    }
}

/// Converts seconds of a JSON number, to the millisecond; `None` if negative or beyond 285,000 years.
fn span(seconds: f64) -> Option<Span> {
    // One product and one rounding to an integer give the same result on every machine. It is below 2^53, so the cast
    // is exact.
    let ms = (seconds * 1_000.0).round();
    (0.0..9.007e15).contains(&ms).then_some(Span::from_ms(ms as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, speed: Option<f64>) -> Result<Workload, String> {
        let source = io::Cursor::new(text.to_owned().into_bytes());
        parse("w.json", source, Options { speed }).map_err(|error| error.to_string())
    }

    fn document(jobs: &str, profiles: &str) -> String {
        format!("{{\"nb_res\": 4, \"jobs\": [{jobs}], \"profiles\": {{{profiles}}}, \"version\": 0}}")
    }

    const DELAY: &str = r#""d": {"type": "delay", "delay": 20.2}"#;

    #[test]
    fn jobs_with_delays() {
        let jobs = r#"{"id": "w0!12", "subtime": 10.5, "walltime": 100, "res": 4, "profile": "d"},
            {"id": 3, "subtime": 0.1, "res": 1, "profile": "d", "extra": true},
            {"id": "first", "subtime": 10.5, "walltime": -1, "res": 1, "profile": "d"}"#;
        let workload = read(&document(jobs, DELAY), None).expect("a workload");
        let shown: Vec<_> = workload
            .jobs
            .iter()
            .map(|job| (job.number, job.submit.ms(), job.run.ms(), job.walltime.map(Span::ms), job.processors))
            .collect();
        let limit = Some(100_000);
        assert_eq!(shown, [(2, 100, 20_200, None, 1), (1, 10_500, 20_200, limit, 4), (3, 10_500, 20_200, None, 1)]);
        assert_eq!(workload.notes.len(), 1);
        let numbers = read(&document(&jobs.replace("first", "w0!0"), DELAY), None).expect("a workload");
        assert_eq!(numbers.jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [3, 12, 0]);
    }

    #[test]
    fn fields_of_limo_are_read() {
        let jobs = r#"{"id": 1, "subtime": 0, "res": 8, "profile": "d", "application": "ft", "variants": ["p2000"],
            "whole_unit": true, "may_suspend": true},
            {"id": 2, "subtime": 0, "res": 1, "profile": "d", "application": "cg", "may_requeue": true, "explore": true, "accelerators": 2,
            "packed": true},
            {"id": 3, "subtime": 0, "res": 1, "profile": "d", "filler": true},
            {"id": 4, "subtime": 0, "res": 1, "profile": "d", "application": "cg"}"#;
        let workload = read(&document(jobs, DELAY), None).expect("a workload");
        let shown = |job: &Job| {
            let Treatment { may_suspend, may_requeue, filler, explore, whole_unit, accelerators, packed } =
                job.treatment;
            let name = workload.application(job).map(|application| application.name.as_str());
            (
                name.unwrap_or("-").to_owned(),
                [may_suspend, may_requeue, filler, explore, whole_unit, packed],
                accelerators,
            )
        };
        let expected = [
            ("ft".to_owned(), [true, false, false, false, true, false], 0),
            ("cg".to_owned(), [false, true, false, true, false, true], 2),
            ("-".to_owned(), [false, false, true, false, false, false], 0),
            ("cg".to_owned(), [false; 6], 0),
        ];
        assert_eq!(workload.jobs.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(workload.applications.len(), 2);
        assert_eq!(workload.application(&workload.jobs[0]).expect("ft").variants, ["p2000"]);
        assert_eq!(
            read(&document(&jobs.replace("\"ft\"", "\"f t\""), DELAY), None).expect_err("refused"),
            "w.json: job `1` (number 1 of the list): the name `f t` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed"
        );
    }

    #[test]
    fn computation_needs_a_speed() {
        let job = r#"{"id": 1, "subtime": 0, "walltime": 9, "res": 1, "profile": "16078"}"#;
        let profile = r#""16078": {"com": 0.0, "type": "msg_par_hg", "cpu": 1607800000000.0}"#;
        let run = |speed| read(&document(job, profile), speed).map(|workload| workload.jobs[0].run.ms());
        assert_eq!(run(Some(100e6)), Ok(16_078_000));
        assert_eq!(
            run(None).expect_err("refused"),
            "w.json: job `1`: profile `16078` gives computation (`cpu`), but the hosts' speed is unknown: give Batsim's platform too"
        );
        assert!(run(Some(0.0)).expect_err("refused").ends_with("gives a duration that is negative or out of range"));
    }

    #[test]
    fn refusals() {
        let check = |job: &str, profile: &str, expected: &str| {
            assert_eq!(read(&document(job, profile), Some(1.0)).expect_err("refused"), expected);
        };
        let job = |id: &str, fields: &str| format!(r#"{{"id": {id}, "profile": "d", "walltime": 9, {fields}}}"#);
        let good = job("1", r#""subtime": 0, "res": 1"#);
        check(
            &job("1", r#""subtime": -1, "res": 1"#),
            DELAY,
            "w.json: job `1` (number 1 of the list): its `subtime` is negative or out of range",
        );
        check(
            &job("1", r#""subtime": 0, "res": 0"#),
            DELAY,
            "w.json: job `1` (number 1 of the list): it requests 0 resources (`res`)",
        );
        check(
            &format!("{good},{good}"),
            DELAY,
            "w.json: job `1` (number 2 of the list): its number 1 is also that of job number 1 of the list",
        );
        check(&good, "", "w.json: job `1`: profile `d` is not in the list of profiles");
        check(&good, r#""d": {"type": "delay"}"#, "w.json: job `1`: profile `d` has no number `delay`");
        check(&good, r#""d": {"delay": 3}"#, "w.json: job `1`: profile `d` has no `type`");
        check(
            &good,
            r#""d": {"type": "parallel_homogeneous", "cpu": 1, "com": 5}"#,
            "w.json: job `1`: profile `d` communicates (`com` is not 0), which is not modelled",
        );
        check(
            &good,
            r#""d": {"type": "smpi", "trace": "x"}"#,
            "w.json: job `1`: profile `d` is of type `smpi`: it must be `delay` or `parallel_homogeneous`",
        );
        check("", DELAY, "w.json: the file has no jobs");
        assert_eq!(
            read("{\"jobs\": [\n{\"id\": 1,", None).expect_err("cut"),
            "w.json: EOF while parsing a value at line 2 column 9"
        );
        assert_eq!(
            read("{\"jobs\": 1}", None).expect_err("no list"),
            "w.json: invalid type: integer `1`, expected a sequence at line 1 column 11"
        );
    }
}
