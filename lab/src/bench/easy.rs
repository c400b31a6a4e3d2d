//! Runs EASY over whole traces as a user would, with reading, accounting, checking and writing. Compares the waits of
//! the same run with the complete schedule of another simulator.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::figure::{Figure, Limit};
use super::host::{Taken, child};
use super::part::Report;

/// A complete schedule, and the limits for its simulation.
#[derive(Debug, Clone, Copy)]
pub struct Oracle {
    pub name: &'static str,
    file: &'static str,
    /// Lower limit of the speed, in jobs per second of CPU time.
    jobs_per_s: Option<f64>,
    /// Speeds of other programs, in jobs per second of CPU time, on a loaded machine of two cores.
    peers: &'static str,
    /// Number of runs. The shortest counts, because other processes only add time.
    runs: u32,
}

pub const ORACLES: [Oracle; 4] = [
    Oracle {
        name: "kth-sp2",
        file: "KTH-SP2_easy_result.swf.gz",
        jobs_per_s: Some(200_000.0),
        peers: "AccaSim 348, Batsim 949, Alea 877",
        runs: 5,
    },
    Oracle { name: "sdsc-sp2", file: "SDSC-SP2_easy_result.swf.gz", jobs_per_s: None, peers: "", runs: 5 },
    Oracle {
        name: "sdsc-blue",
        file: "SDSC-BLUE_easy_result.swf.gz",
        jobs_per_s: Some(200_000.0),
        peers: "Batsim: not finished in 500 s of wall time",
        runs: 3,
    },
    Oracle { name: "curie", file: "CEA-curie_easy_result.swf.gz", jobs_per_s: Some(100_000.0), peers: "", runs: 3 },
];

/// Upper limit of the memory for any trace.
const PEAK_MB: f64 = 100.0;
const MB: f64 = 1e6;

impl Oracle {
    /// Runs the trace as often as configured, and compares its waits with the oracle.
    ///
    /// # Errors
    /// If a run fails, or a file is invalid.
    pub fn measure(&self, traces: &Path) -> Result<Report> {
        let trace = traces.join("easy-oracles").join(self.file);
        if !trace.exists() {
            return Ok(Report::skipped(format!("{} does not exist: give --traces", trace.display())));
        }
        let scratch = tempfile::tempdir().context("a folder for the results")?;
        let out = scratch.path().join("out");
        let (trace_arg, out_arg) = (trace.display().to_string(), out.display().to_string());
        let arguments = ["run", "--trace", &trace_arg, "--policy", "easy", "--out", &out_arg, "--replace"];
        let mut best: Option<Taken> = None;
        for _ in 0..self.runs {
            let taken = child(&arguments)?;
            best = Some(best.filter(|best| best.cpu_s <= taken.cpu_s).unwrap_or(taken));
        }
        let Some(taken) = best else { bail!("nothing was run") };
        let (jobs, different) = compare(&trace, &out.join("jobs.csv"))?;
        Ok(Report::of(self.figures(taken, jobs, different)))
    }

    fn figures(&self, taken: Taken, jobs: usize, different: usize) -> Vec<Figure> {
        let jobs = jobs as f64;
        let speed = Figure::new("jobs per second of CPU time", jobs / taken.cpu_s, "/s").beside(self.peers);
        let wall_peers = if self.name == "kth-sp2" { "AccaSim 228, Batsim 587, Alea 680" } else { "" };
        vec![
            Figure::new("jobs", jobs, ""),
            Figure::new("waits that differ", different as f64, "").within(Limit::AtMost(0.0)),
            match self.jobs_per_s {
                Some(least) => speed.within(Limit::AtLeast(least)),
                None => speed,
            },
            Figure::new("jobs per second of wall time", jobs / taken.wall_s, "/s").beside(wall_peers),
            Figure::new("CPU time", taken.cpu_s, "s"),
            Figure::new("wall time", taken.wall_s, "s"),
            Figure::new("peak memory", taken.peak_rss_bytes / MB, "MB").within(Limit::AtMost(PEAK_MB)),
        ]
    }
}

/// Returns the number of jobs in the schedule, and the number of those whose waits differ from `rows` or are missing in
/// one of them.
fn compare(oracle: &Path, rows: &Path) -> Result<(usize, usize)> {
    let packed = std::fs::File::open(oracle).with_context(|| oracle.display().to_string())?;
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(packed)
        .read_to_string(&mut text)
        .with_context(|| oracle.display().to_string())?;
    let expected = schedule(&text).with_context(|| oracle.display().to_string())?;
    let text = std::fs::read_to_string(rows).with_context(|| rows.display().to_string())?;
    let found = table(&text).with_context(|| rows.display().to_string())?;
    Ok((expected.len(), different(&expected, &found)))
}

/// Parses the numbers and waits of a schedule: columns 1 and 3.
fn schedule(text: &str) -> Result<Vec<(i64, i64)>> {
    let lines = text.lines().filter(|line| !line.starts_with(';') && !line.trim().is_empty());
    let pair = |line: &str| {
        let mut fields = line.split_whitespace();
        let (number, wait) = (fields.next(), fields.nth(1));
        let (Some(number), Some(wait)) = (number, wait) else { bail!("`{line}` has too few fields") };
        Ok((whole(number)?, whole(wait)?))
    };
    sorted(lines.map(pair))
}

/// Parses the numbers and waits of `jobs.csv`.
fn table(text: &str) -> Result<Vec<(i64, i64)>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name| head.iter().position(|cell| *cell == name).with_context(|| format!("there is no `{name}`"));
    let (number, wait) = (column("job_id")?, column("waiting_time")?);
    let pair = |line: &str| {
        let cell = |at| line.split(',').nth(at).unwrap_or_default();
        Ok((whole(cell(number))?, whole(cell(wait))?))
    };
    sorted(lines.map(pair))
}

fn whole(text: &str) -> Result<i64> {
    text.parse().with_context(|| format!("`{text}` is not a whole number of seconds"))
}

fn sorted(pairs: impl Iterator<Item = Result<(i64, i64)>>) -> Result<Vec<(i64, i64)>> {
    let mut pairs = pairs.collect::<Result<Vec<_>>>()?;
    pairs.sort_unstable();
    ensure!(!pairs.is_empty(), "there are no jobs");
    Ok(pairs)
}

/// Returns the number of jobs in `expected` that differ or are missing in `found`, plus the number of jobs that only
/// `found` has.
fn different(expected: &[(i64, i64)], found: &[(i64, i64)]) -> usize {
    let of = |number: i64| found.binary_search_by_key(&number, |(found, _)| *found).ok().map(|at| found[at].1);
    let wrong = expected.iter().filter(|(number, wait)| of(*number) != Some(*wait)).count();
    wrong + found.len().saturating_sub(expected.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits() {
        let oracle = schedule("; a comment\n2 0 5 10 1\n1 0 -1 10 1\n").expect("a schedule");
        assert_eq!(oracle, [(1, -1), (2, 5)]);
        let rows = table("waiting_time,x,job_id\n5,0,2\n0,0,1\n9,0,3\n").expect("a table");
        assert_eq!(rows, [(1, 0), (2, 5), (3, 9)]);
        assert_eq!(different(&oracle, &rows), 2);
        assert_eq!(different(&oracle, &oracle), 0);
        assert_eq!(different(&rows, &oracle), 2);
        assert_eq!(table("a,b\n").expect_err("no columns").to_string(), "there is no `job_id`");
        assert_eq!(schedule("1 2\n").expect_err("too few").to_string(), "`1 2` has too few fields");
    }
}
