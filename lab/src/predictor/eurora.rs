//! The draws that the predictor of power-capping-2018 gave for jobs of Eurora: what a predictor without the names of users
//! can learn from the requests (section 4.1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use limo_model::{Power, Span, Time, decimal};
use limo_profiles::predict::{Features, FinishedJob, Submission};
use limo_trace::input;
use limo_trace::log_crypt::{self, LoggedJob};

use super::KnownJob;

/// Most unpacked bytes of the published predictions, which have 2 MB.
const FILE_LIMIT: u64 = 16 << 20;
const PREDICTIONS: &str = "power_predictions.csv.gz";
/// Names of the published predictions end in this; those of the jobs do not.
const SUFFIX: &str = ".node129";

/// Reads the jobs of the historical instances that have a published prediction, in the order of their submission. A job
/// that is in several instances counts once.
///
/// # Errors
/// If a file is missing or invalid.
pub fn cases(folder: &Path) -> Result<Vec<KnownJob>> {
    let published = predictions(folder)?;
    let mut jobs: BTreeMap<String, LoggedJob> = BTreeMap::new();
    for file in files(&folder.join("historical"))? {
        for job in log_crypt::read(&file)? {
            jobs.entry(job.id.clone()).or_insert(job);
        }
    }
    let mut cases: Vec<(String, KnownJob)> = Vec::new();
    for (id, job) in jobs {
        if let Some(mean) = published.get(&id) {
            cases.push((id, case(&job, *mean)));
        }
    }
    cases.sort_by(|(id, case), (other, second)| (case.row.submitted, id).cmp(&(second.row.submitted, other)));
    Ok(cases.into_iter().map(|(_, case)| case).collect())
}

/// Returns the published predictions in the folder of the traces, by the name of the job: the mean draw of its cores.
///
/// # Errors
/// If the file cannot be read, or a line is invalid.
pub fn predictions(folder: &Path) -> Result<BTreeMap<String, Power>> {
    let path = folder.join(PREDICTIONS);
    let text = input::text(&path, FILE_LIMIT).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut found = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let power =
            line.split_once(';').and_then(|(id, watts)| Some((id, i64::try_from(decimal::parse(watts, 3)?).ok()?)));
        let Some((id, mw)) = power else {
            bail!("{}:{}: `{line}` is not a job and its watts, such as 498459.node129;93.0", path.display(), index + 1)
        };
        found.insert(id.trim_end_matches(SUFFIX).to_owned(), Power::from_mw(mw));
    }
    Ok(found)
}

/// Returns the instances in the folders of `folder`, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = |folder: &Path| -> Result<Vec<PathBuf>> {
        let read = std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        let mut paths = read.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut files = Vec::new();
    for size in entries(folder)? {
        files.extend(entries(&size)?);
    }
    Ok(files)
}

fn case(job: &LoggedJob, mean: Power) -> KnownJob {
    let time = |seconds: i64| Time::from_unix_ms(seconds * 1_000);
    // The reader limits all counts to 10^9 for each of 10,000 units.
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let submission = Submission {
        queue: &job.queue,
        requested: (job.requested_s > 0).then(|| Span::from_secs(job.requested_s)),
        nodes: job.units.get(),
        cores: count(job.cores),
        accelerators: count(job.gpus + job.mics),
        hardware: if job.gpus > 0 {
            "gpu"
        } else if job.mics > 0 {
            "mic"
        } else {
            ""
        },
        memory_mib: job.memory_kib / 1_024,
        submitted: time(job.arrival_s),
        ..Submission::default()
    };
    let duration = Span::from_secs((job.end_s - job.start_s).max(1));
    let (submitted, start) = (time(job.arrival_s), time(job.start_s.max(job.arrival_s)));
    let (features, nameplate, ended) = (Features::of(&submission), Power::ZERO, start.moved(duration));
    let row = FinishedJob { features, mean, peak: mean, nameplate, duration, submitted, ended };
    KnownJob { row, start, expected: None }
}
