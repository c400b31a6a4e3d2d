//! The same hour in `lsim`: writes the machines, profiles, jobs, limits and prices of the demo to files on the demo's
//! clock. Runs `lsim run` for each policy, and reads its draw and jobs back. Simulated machines answer at once,
//! without noise.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use limo_model::{Curve, JobId, Outcome, Power, Span, Time, UnitKind, decimal};
use limo_power::Hardware;
use serde_json::{Value, json};

use super::pace::{FACTOR, Pace, shortened};
use super::record::{JobRecord, Record};
use super::replay;
use super::workload::{self, BEGIN};
use super::{Hour, RUNS, Run, hardware};
use crate::workspace;

/// Pace at which the simulation starts with the hour.
const PACE: Pace = Pace { begin: BEGIN, factor: FACTOR };

/// Builds `lsim`.
///
/// # Errors
/// If it cannot be built.
pub fn build() -> Result<PathBuf> {
    let status = workspace::cargo(&["build", "--package", "lsim"])?.stdout(Stdio::null()).status();
    ensure!(status.context("cannot run cargo")?.success(), "lsim cannot be built: cargo build --package lsim");
    Ok(workspace::target_dir()?.join("debug/lsim"))
}

/// Simulates each of the runs over an hour, with all files in `dir`.
///
/// # Errors
/// If `lsim` fails, or a job fails.
pub fn simulate_all(lsim: &Path, dir: &Path, hour: &Hour) -> Result<Vec<(Run, Record)>> {
    let scene = Scene::write(dir, hour)?;
    let simulated = |run: Run| {
        let record = scene.simulate(lsim, run).with_context(|| format!("the run `{}` failed", run.name))?;
        let mishaps = record.mishaps();
        ensure!(mishaps.is_empty(), "not every job ended with exit code 0:\n{}", mishaps.join("\n"));
        Ok((run, record))
    };
    RUNS.into_iter().map(simulated).collect()
}

/// Data shared by the runs, in files.
struct Scene<'a> {
    dir: &'a Path,
    hour: &'a Hour,
    hardware: Hardware,
    /// Policy options of the live master.
    settings: Vec<String>,
}

impl<'a> Scene<'a> {
    fn write(dir: &'a Path, hour: &'a Hour) -> Result<Self> {
        let machines = dir.join("machines.toml");
        let hardware = hardware::prepare(&hour.machines, FACTOR, &machines, &dir.join("profiles.csv"))?;
        let text = fs::read_to_string(&machines).with_context(|| format!("cannot read {}", machines.display()))?;
        let scene = Self { dir, hour, hardware, settings: settings()? };
        scene.keep("platform.toml", &platform(&text)?)?;
        let decimal = |thousandths: i64| decimal::fixed(thousandths.into(), 3);
        let band = |band: &limo_model::Band| format!("{},{}", decimal(band.low().mw()), decimal(band.high().mw()));
        scene.keep("limits.csv", &rows("time,low_w,high_w", &hour.day.limits()?, band, ","))?;
        let price = |price: &limo_model::Price| decimal(price.milli_per_mwh());
        scene.keep("prices.csv", &rows("time,price_eur_per_mwh", &hour.prices.known()?, price, ""))?;
        Ok(scene)
    }

    fn keep(&self, name: &str, text: &str) -> Result<()> {
        let path = self.dir.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn simulate(&self, lsim: &Path, run: Run) -> Result<Record> {
        let name = run.file_name();
        let (jobs, out) = (format!("{name}.json"), self.dir.join(&name));
        self.keep(&jobs, &self.jobs(run).to_string())?;
        let mut command = Command::new(lsim);
        command.current_dir(self.dir).stdin(Stdio::null());
        command.args(["run", "--trace", &jobs, "--platform", "platform.toml", "--limits", "limits.csv"]);
        command.args(["--prices", "prices.csv", "--profiles", "profiles.csv", "--policy", run.policy]);
        if !run.forecast {
            command.arg("--unwarned");
        }
        if run.policy == "limo" {
            command.args(self.settings.iter().flat_map(|setting| ["--set", setting]));
        }
        let output =
            command.arg("--out").arg(&out).output().with_context(|| format!("cannot run {}", lsim.display()))?;
        if !output.status.success() {
            bail!("lsim failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        read(&out)
    }

    /// Returns the jobs of a run as a workload of Batsim. They use whole units, for the time given by the platform.
    fn jobs(&self, run: Run) -> Value {
        let units = || self.hardware.machines.iter().flat_map(|machine| machine.spec.units.iter().zip(&machine.units));
        let accelerators = units().map(|(spec, _)| spec).filter(|spec| spec.kind == UnitKind::Accelerator);
        let variants: BTreeSet<&str> = accelerators.map(|spec| spec.hardware.as_str()).collect();
        let variants = if run.accelerators { variants } else { BTreeSet::new() };
        let mut jobs = Vec::new();
        for (at, section) in self.hour.day.sections() {
            let subtime = shortened(at - BEGIN, FACTOR).secs();
            for application in section.jobs() {
                jobs.push(json!({
                    "id": jobs.len() + 1, "subtime": subtime, "res": 1, "profile": application,
                    "application": application, "variants": variants, "whole_unit": true,
                    "may_suspend": true,
                }));
            }
        }
        let longest = |name: &str| {
            let durations = units().filter_map(|(_, unit)| unit.application(name, "")).map(|known| known.duration);
            durations.max().unwrap_or_default().secs()
        };
        let profiles = workload::APPLICATIONS.map(|name| {
            let profile = json!({"type": "delay", "delay": longest(name)});
            (name.to_owned(), profile)
        });
        json!({"nb_res": 1, "jobs": jobs, "profiles": BTreeMap::from(profiles)})
    }
}

/// Policy options of the live master in the syntax of `lsim`, which has no suspect nodes.
fn settings() -> Result<Vec<String>> {
    let master: toml::Table = replay::settings("limo", FACTOR).parse().context("the master's settings")?;
    let policy =
        master.get("policy").and_then(toml::Value::as_table).context("the master's settings have no policy")?;
    let told = policy.iter().filter(|(key, _)| *key != "suspect_for");
    Ok(told.map(|(key, value)| format!("{}={}", key.replace('_', "-"), value.as_str().unwrap_or_default())).collect())
}

/// Converts emulated hardware to a platform of `lsim`: the same tables under another name, without noise.
fn platform(text: &str) -> Result<String> {
    let mut file: toml::Table = text.parse().context("not TOML")?;
    let mut machines = file.remove("machine").context("no machine")?;
    for machine in machines.as_array_mut().into_iter().flatten().filter_map(toml::Value::as_table_mut) {
        machine.remove("seed");
        machine.remove("reading_noise");
        let units = machine.get_mut("unit").and_then(toml::Value::as_array_mut).into_iter().flatten();
        for unit in units.filter_map(toml::Value::as_table_mut) {
            unit.remove("power_noise");
            unit.remove("duration_noise");
        }
    }
    file.insert("nodes".to_owned(), machines);
    Ok(toml::to_string(&file)?)
}

/// Formats a curve of the hour on the demo's clock, counted from its beginning.
fn rows<T>(header: &str, curve: &Curve<T>, row: impl Fn(&T) -> String, end: &str) -> String {
    let ms = |at: Time| shortened(at - BEGIN, FACTOR).ms();
    let steps = curve.steps().iter().map(|(at, value)| format!("{}ms,{}\n", ms(*at), row(value)));
    let last = curve.until().map(|until| format!("{}ms,{end}\n", ms(until)));
    format!("{header}\n{}", steps.chain(last).collect::<String>())
}

/// Parses a number of a table as thousandths.
fn thousandths(cell: &str) -> Result<i64> {
    let number: f64 = cell.parse().with_context(|| format!("`{cell}` is not a number"))?;
    Ok((number * 1_000.0).round() as i64)
}

/// Reads the draw and the jobs of a simulation, in times of the hour.
fn read(out: &Path) -> Result<Record> {
    let time = |cell: &str| thousandths(cell).map(|ms| PACE.of_hour(BEGIN + Span::from_ms(ms)));
    let table = |name: &str, columns: &[&str]| {
        let path = out.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        cells(&text, columns).with_context(|| format!("{} is not as expected", path.display()))
    };
    let mut draw = Vec::new();
    for row in table("draw.csv", &["time_s", "draw_w"])? {
        draw.push((time(&row[0])?, Power::from_mw(thousandths(&row[1])?)));
    }
    let mut jobs = BTreeMap::new();
    for row in table("jobs.csv", &["job_id", "submission_time", "starting_time", "finish_time", "success"])? {
        let maybe = |cell: &str| if cell.is_empty() { Ok(None) } else { time(cell).map(Some) };
        let outcome = if row[4] == "1" { Outcome::Exited(0) } else { Outcome::Signaled(15) };
        let (started, ended) = (maybe(&row[2])?, maybe(&row[3])?.map(|at| (at, outcome)));
        let application = String::new();
        let job = JobRecord { application, submitted: time(&row[1])?, started, ended };
        jobs.insert(JobId(row[0].parse().with_context(|| format!("`{}` is not a number of a job", row[0]))?), job);
    }
    Ok(Record { draw: Curve::new(draw, None)?, jobs })
}

/// Returns these columns of a table without quotes.
fn cells(text: &str, columns: &[&str]) -> Result<Vec<Vec<String>>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |column: &&str| header.iter().position(|title| title == column);
    let places = columns.iter().map(|column| place(column).with_context(|| format!("no column `{column}`")));
    let places = places.collect::<Result<Vec<usize>>>()?;
    let cell = |line: &str, place: usize| line.split(',').nth(place).unwrap_or_default().to_owned();
    Ok(lines.map(|line| places.iter().map(|place| cell(line, *place)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::measure::{Figures, end_of_all, measure};
    use crate::demo::prices::Market;
    use limo_model::Power;

    /// Returns the path next to the test, where cargo has built it.
    fn lsim() -> PathBuf {
        let test = std::env::current_exe().expect("a test knows where it is");
        let path = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps").join("lsim");
        assert!(path.is_file(), "{} is not there: build it with `cargo build --package lsim`", path.display());
        path
    }

    /// Checks promises and goals of the policies; the figures themselves are in docs/demo.md.
    #[test]
    fn the_hour_is_simulated_under_each_policy() {
        let dir = tempfile::tempdir().expect("a directory");
        let hour = Hour::of_2018(&Market::synthetic()).expect("the hour");
        let records = simulate_all(&lsim(), dir.path(), &hour).expect("simulated");
        let (limits, charged) = (hour.day.limits().expect("limits"), hour.prices.known().expect("prices"));
        let end = end_of_all(records.iter().map(|(_, record)| record));
        let figures: Vec<Figures> = records.iter().map(|(_, record)| measure(record, &limits, &charged, end)).collect();
        let [fifo, prototype, limo, unwarned] = figures[..] else { panic!("four runs") };
        assert!(records.iter().all(|(_, record)| record.jobs.len() == 80));
        assert!(fifo.in_band_share < 0.30 && fifo.in_band_share > 0.01, "{fifo:?}");
        for run in [prototype, limo, unwarned] {
            assert!(run.in_band_share > 2.0 * fifo.in_band_share && run.in_band_share <= 1.0, "{run:?}");
            assert!(run.cost < fifo.cost, "{run:?} {fifo:?}");
        }
        // In a simulation, running jobs lower their draw at once.
        assert_eq!((limo.above_upper, unwarned.above_upper), (Power::ZERO, Power::ZERO));
    }

    #[test]
    fn emulated_hardware_is_a_platform() {
        let machine = "[[machine]]\nname = \"a\"\nseed = 7\nreading_noise = \"1%\"\n[[machine.unit]]\nname = \"cpu\"\n\
            power_noise = \"1%\"\nduration_noise = \"2%\"\ncap_factor = 0.75\n";
        let expected = "[[nodes]]\nname = \"a\"\n\n[[nodes.unit]]\ncap_factor = 0.75\nname = \"cpu\"\n";
        assert_eq!(platform(machine).expect("a platform"), expected);
        assert_eq!(platform("").expect_err("refused").to_string(), "no machine");
    }

    #[test]
    fn tables() {
        let curve = Curve::new(vec![(BEGIN, -1_500), (BEGIN + Span::from_ms(37_500), 20)], Some(workload::END));
        let written = rows("time,x", &curve.expect("a curve"), |value| decimal::fixed((*value).into(), 3), "");
        assert_eq!(written, "time,x\n0ms,-1.500\n625ms,0.020\n60000ms,\n");
        assert_eq!(cells("a,b,c\n1,2,3\n4,5,6\n", &["c", "a"]).expect("cells"), [["3", "1"], ["6", "4"]]);
        assert_eq!(cells("a,b\n", &["c"]).expect_err("refused").to_string(), "no column `c`");
        assert_eq!(thousandths("-36.8005").expect("a number"), -36_801);
        assert_eq!(thousandths("x").expect_err("refused").to_string(), "`x` is not a number");
    }
}
