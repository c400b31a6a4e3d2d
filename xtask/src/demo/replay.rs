//! A run of the hour: starts a cluster, sets its limits, prices and profiles, and submits its jobs with `lrun`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use limo_model::{Band, Curve, Span, Time};

use super::cluster::{Cluster, Programs};
use super::pace::{Pace, shortened};
use super::record::Record;
use super::workload::{self, Section};
use super::{Hour, Run};

/// Settings with the short times of the policies. Times of processes and messages are wall times: a job starts in
/// about 20 ms, and the next round follows soon. Times of the hour are shortened: nodes stay off or on for 12 s or 30
/// s, and jobs are spared for an hour. A reading is stored at once, because a second without it would be a minute of
/// the hour.
pub fn settings(policy: &str, factor: i64) -> String {
    let of_hour = |secs| shortened(Span::from_secs(secs), factor);
    format!(
        r#"
log = "warn"
readings_every = "1ms"

[policy]
lead = "100ms"
suspect_for = "1s"
steer_lead = "20ms"
least_off = "{}"
least_on = "{}"
sparing = "{}"

[initial]
policy = "{policy}"
"#,
        of_hour(12),
        of_hour(30),
        of_hour(3_600)
    )
}

/// Time to set limits and prices before the hour begins.
const PREPARATION: Span = Span::from_secs(3);

/// Limit after the hour, in its time. Even on the slowest units all work takes less, so a job that is not over by
/// then never will be.
const GIVE_UP: Span = Span::from_secs(3 * 3_600);

/// Data shared by both runs, and the directory of this one.
pub struct Stage<'a> {
    pub programs: &'a Programs,
    pub dir: PathBuf,
    pub machines: &'a Path,
    pub profiles: &'a Path,
    pub nodes: &'a [String],
    pub hour: &'a Hour,
    /// Factor by which the run is faster than the hour.
    pub factor: i64,
}

/// Replays the hour.
///
/// # Errors
/// If a program fails, or a job does not end with exit code 0.
pub async fn replay(stage: &Stage<'_>, run: Run) -> Result<Record> {
    let config = stage.write("lmaster.toml", &settings(run.policy, stage.factor))?;
    let mut cluster = Cluster::start(stage.programs, &stage.dir, &config).await?;
    let nodes: Vec<&str> = stage.nodes.iter().map(String::as_str).collect();
    cluster.add_nodes(stage.machines, &nodes).await?;
    let pace = Pace { begin: now() + PREPARATION, factor: stage.factor };
    let (limits, prices) = (stage.limits(pace)?, stage.prices(pace)?);
    for arguments in [["profile", "import", text(stage.profiles)?].as_slice(), &["set", "price", text(&prices)?]] {
        cluster.ask("lconf", arguments).await?;
    }
    if run.forecast {
        cluster.ask("lconf", &["set", "limits", "--curve", text(&limits)?]).await?;
    }
    ensure!(now() < pace.begin, "this machine is too slow: preparing took longer than {PREPARATION}");
    let mut jobs = Vec::new();
    for (at, section) in stage.hour.day.sections().filter(|(at, _)| *at < workload::END) {
        until(pace.on_wall(at)).await;
        let band = section.band()?;
        if !run.forecast {
            tell_limits(&cluster, band).await?;
        }
        let (minute, count) = ((at - workload::BEGIN).ms() / 60_000, section.jobs().count());
        eprintln!("demo: {}: minute {minute}: {count} jobs, band {} to {}", run.name, band.low(), band.high());
        jobs.extend(submit(&cluster, section, run).await?);
        cluster.must_run()?;
    }
    until(pace.on_wall(workload::END)).await;
    let waiting: Vec<&str> = ["wait"].into_iter().chain(jobs.iter().map(String::as_str)).collect();
    let ended = tokio::time::timeout(give_up(stage.factor), async {
        tokio::select! {
            ended = cluster.ask("lq", &waiting) => ended,
            Err(error) = later_limits(&cluster, stage, run, pace) => Err(error),
        }
    });
    let ended = ended.await;
    let state_dir = cluster.state_dir();
    // The journal is complete once the master has ended.
    drop(cluster);
    let record = Record::read(&state_dir, pace)?;
    let mishaps = record.mishaps();
    ensure!(mishaps.is_empty(), "not every job ended with exit code 0:\n{}", mishaps.join("\n"));
    ended.context("the jobs took too long")??;
    eprintln!("demo: {}: all {} jobs ended", run.name, record.jobs.len());
    Ok(record)
}

/// Longest wait after the hour for the last job, in wall time.
pub fn give_up(factor: i64) -> Duration {
    Duration::from_millis(shortened(GIVE_UP, factor).ms().unsigned_abs())
}

async fn tell_limits(cluster: &Cluster<'_>, band: Band) -> Result<()> {
    cluster.ask("lconf", &["set", "limits", &band.low().to_string(), &band.high().to_string()]).await?;
    Ok(())
}

/// Sets the limits after the hour one by one, if there is no forecast.
async fn later_limits(cluster: &Cluster<'_>, stage: &Stage<'_>, run: Run, pace: Pace) -> Result<()> {
    let later = stage.hour.day.sections().filter(|(at, _)| *at >= workload::END && !run.forecast);
    for (at, section) in later {
        until(pace.on_wall(at)).await;
        tell_limits(cluster, section.band()?).await?;
    }
    Ok(())
}

/// Submits the jobs of a section, each with its own `lrun`. One after the other, to fix their order. Returns their
/// numbers.
async fn submit(cluster: &Cluster<'_>, section: Section, run: Run) -> Result<Vec<String>> {
    let mut jobs = Vec::new();
    for application in section.jobs() {
        let mut arguments = vec!["--detach", "--app", application, "-c", "all"];
        let variants = ["intel-hd-p530", "quadro-p2000"].map(|unit| format!("{unit}=limo-workload {application}"));
        if run.accelerators {
            arguments.extend(variants.iter().flat_map(|variant| ["--variant", variant]));
        }
        arguments.extend(["limo-workload", application]);
        jobs.push(cluster.ask("lrun", &arguments).await?.trim().to_owned());
    }
    Ok(jobs)
}

impl Stage<'_> {
    fn limits(&self, pace: Pace) -> Result<PathBuf> {
        let limits = self.hour.day.limits()?;
        let row = |at, band: &Band| format!("{at},{} mW,{} mW", band.low().mw(), band.high().mw());
        let rows = rows(&limits, pace, row, ",,")?;
        self.write("limits.csv", &format!("time,low,high\n{rows}"))
    }

    fn prices(&self, pace: Pace) -> Result<PathBuf> {
        let prices = self.hour.prices.known()?;
        let row = |at, price: &limo_model::Price| format!("{at},{}", price.per_mwh());
        let rows = rows(&prices, pace, row, ",")?;
        self.write("prices.csv", &format!("time,price_eur_per_mwh\n{rows}"))
    }

    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

/// Formats a curve of the hour as lines with wall times; the last line ends it.
fn rows<T>(curve: &Curve<T>, pace: Pace, row: impl Fn(String, &T) -> String, end: &str) -> Result<String> {
    let mut rows = String::new();
    for (at, value) in curve.steps() {
        rows += &row(shown(pace.on_wall(*at))?, value);
        rows.push('\n');
    }
    if let Some(until) = curve.until() {
        rows += &format!("{}{end}\n", shown(pace.on_wall(until))?);
    }
    Ok(rows)
}

/// Formats a time as RFC 3339, to the millisecond.
fn shown(time: Time) -> Result<String> {
    Ok(Timestamp::from_millisecond(time.unix_ms())?.to_string())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8 text", path.display()))
}

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

pub async fn until(time: Time) {
    let rest = (time - now()).ms();
    tokio::time::sleep(Duration::from_millis(u64::try_from(rest).unwrap_or(0))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_written_on_the_wall() {
        let pace = Pace { begin: Time::from_unix_ms(1_700_000_000_000), factor: 60 };
        let curve = Curve::new(vec![(Time::from_unix_ms(0), 1), (Time::from_unix_ms(37_500), 2)], Some(workload::END));
        let written = rows(&curve.expect("a curve"), pace, |at, value| format!("{at},{value}"), ",").expect("rows");
        let expected = "2023-11-14T22:13:20Z,1\n2023-11-14T22:13:20.625Z,2\n2023-11-14T22:14:20Z,\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn times_of_the_hour_scale_with_it_and_times_of_processes_do_not() {
        let policy = |factor| {
            let file: toml::Table = settings("fifo", factor).parse().expect("TOML");
            assert_eq!(file["initial"]["policy"].as_str(), Some("fifo"));
            let span = |key| file["policy"][key].as_str().expect("a text").parse::<Span>().expect("a span").ms();
            ["lead", "suspect_for", "steer_lead", "least_off", "least_on", "sparing"].map(span)
        };
        assert_eq!(policy(60), [100, 1_000, 20, 200, 500, 60_000]);
        assert_eq!(policy(10), [100, 1_000, 20, 1_200, 3_000, 360_000]);
        assert_eq!((give_up(60), give_up(10)), (Duration::from_secs(180), Duration::from_secs(1_080)));
    }
}
