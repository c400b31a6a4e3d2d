//! Batsim's JSON workloads: `nb_res`, `jobs`, `profiles`. Jobs may have further keys that Batsim ignores:
//! `application` is the job's application, `variants` the accelerators for which it has a command. `whole_unit`,
//! `may_suspend`, `may_requeue`, `filler`, `explore`, `accelerators` and `packed` are as in [`Treatment`]. `nodes` is a range
//! of whole nodes such as `2-8`; a profile `delay` may then have `delays`, the seconds by number of nodes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use limo_model::{NodeRange, NodeRangeError, Span, Widths, check_name};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::compact::{CompactSpan, Index};
use crate::input;
use crate::workload::{Application, Job, Moldable, Treatment, Workload};

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
    nodes: Option<String>,
    #[serde(default)]
    malleable: bool,
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
    let moldables = document.jobs.iter().enumerate().map(|(index, text)| reading.moldable(text, index));
    let moldables: Vec<Option<Moldable>> = moldables.collect::<Result<_, _>>()?;
    let of_range = jobs.iter_mut().zip(&moldables).filter(|(_, moldable)| moldable.is_some());
    for (index, (job, _)) in of_range.enumerate() {
        job.moldable = Some(Index::of(index));
    }
    let moldables: Vec<Moldable> = moldables.into_iter().flatten().collect();
    reading.same_number(&jobs, &document.jobs)?;
    jobs.sort_by_key(|job| job.submit);
    let note = "not all ids are numbers: jobs are numbered by their place in the file";
    let notes = if numbered { Vec::new() } else { vec![note.to_owned()] };
    Ok(Workload { jobs, applications, moldables, processors: document.nb_res, notes, ..Workload::default() })
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
            walltime: walltime.filter(|walltime| *walltime > Span::ZERO).map(CompactSpan::of),
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
                fills: false,
            },
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        })
    }

    /// Returns the range of nodes of a job, if it has one, with the running times of its profile.
    fn moldable(&self, text: &JobText, index: usize) -> Result<Option<Moldable>, WorkloadJsonError> {
        let fault = |reason: String| WorkloadJsonError::Job {
            file: self.file.to_owned(),
            job: text.id.text(),
            index: index + 1,
            reason,
        };
        let Some(nodes) = &text.nodes else {
            let without = || fault("it is `malleable`, so it needs a range of `nodes`".to_owned());
            return if text.malleable { Err(without()) } else { Ok(None) };
        };
        let range: NodeRange = nodes.parse().map_err(|error: NodeRangeError| fault(format!("its `nodes`: {error}")))?;
        if text.packed {
            return Err(fault("it has `nodes`, so it cannot be `packed`".to_owned()));
        }
        let delays = self.profiles.get(&text.profile.text()).and_then(|profile| profile.get("delays"));
        let delays = delays.map(|delays| delays.as_object().ok_or("`delays`, which is not a table"));
        let run = |(nodes, seconds): (&String, &Value)| {
            let nodes = nodes.parse().ok().filter(|nodes| *nodes > 0);
            Some((nodes?, seconds.as_f64().and_then(span)?))
        };
        let runs = delays.transpose().and_then(|delays| {
            let runs: Option<BTreeMap<u32, Span>> = delays.into_iter().flatten().map(run).collect();
            runs.ok_or("`delays` with something else than numbers of nodes and seconds")
        });
        let runs = runs.map_err(|what| fault(format!("its profile has {what}")))?;
        let NodeRange { least, most } = range;
        let malleable = text.malleable;
        if malleable && text.accelerators > 0 {
            return Err(fault("it is `malleable`, so it cannot have `accelerators`".to_owned()));
        }
        Ok(Some(Moldable { widths: Widths { least, most, tasks_per_node: None }, runs, malleable }))
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
mod tests;
