//! A node with a real meter: its readings give the cluster's draw and the energy of jobs. While it fails, the cluster
//! uses estimates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use limo_tests::{Cluster, Setup, until};
use serde_json::Value;
use tempfile::TempDir;

/// Interval between two steps of the counter, short compared with the interval of readings.
const STEP: Duration = Duration::from_millis(2);

/// A sysfs with one package. A thread advances its counter by the given watts, and by the watts in the files in
/// `loads`. A file with watts and seconds, `40 2.5`, is a task that takes that long at this draw. It draws at most what
/// the limit of the package leaves, is slower in proportion, and its file is removed when it is done.
pub struct Package {
    sysfs: TempDir,
    pub loads: PathBuf,
    counter: PathBuf,
    counting: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The limit of the package, in µW.
const LIMIT: &str = "class/powercap/intel-rapl:0/constraint_0_power_limit_uw";

impl Package {
    pub fn new() -> Self {
        let sysfs = tempfile::tempdir().expect("a directory");
        let zone = sysfs.path().join("class/powercap/intel-rapl:0");
        fs::create_dir_all(&zone).expect("made");
        fs::write(zone.join("name"), "package-0\n").expect("written");
        fs::write(zone.join("max_energy_range_uj"), "262143328850\n").expect("written");
        fs::write(zone.join("enabled"), "1\n").expect("written");
        fs::write(zone.join("constraint_0_name"), "long_term\n").expect("written");
        fs::write(sysfs.path().join(LIMIT), "95000000\n").expect("written");
        let counter = zone.join("energy_uj");
        fs::write(&counter, "0\n").expect("written");
        let loads = sysfs.path().join("loads");
        fs::create_dir(&loads).expect("made");
        Self { sysfs, loads, counter, counting: None }
    }

    pub fn draw(&mut self, watts: u64) {
        self.stop();
        let counted: u64 = fs::read_to_string(&self.counter).expect("readable").trim().parse().expect("a number");
        let (counter, aside, loads) = (self.counter.clone(), self.sysfs.path().join("aside"), self.loads.clone());
        let (stop, stopped) = mpsc::channel();
        let (mut counted, mut before) = (counted, Instant::now());
        let (limit, mut tasks) = (self.sysfs.path().join(LIMIT), BTreeMap::new());
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                // A removed or half-written load is read at the next step.
                let texts = texts(&loads);
                let drawn = watts + texts.filter_map(|(_, text)| text.trim().parse::<u64>().ok()).sum::<u64>();
                let now = Instant::now();
                let elapsed = u64::try_from((now - before).as_micros()).expect("a short time");
                counted += drawn * elapsed + work(&loads, &mut tasks, left(&limit, drawn), elapsed);
                before = now;
                // The file is replaced in one step, so that a partial number is never read.
                fs::write(&aside, format!("{counted}\n")).expect("written");
                fs::rename(&aside, &counter).expect("renamed");
            }
        });
        self.counting = Some((stop, thread));
    }

    fn stop(&mut self) {
        if let Some((stop, thread)) = self.counting.take() {
            drop(stop);
            thread.join().expect("no panic");
        }
    }

    /// Makes the counter unreadable, even for root.
    fn close(&mut self) {
        self.stop();
        fs::rename(&self.counter, self.sysfs.path().join("kept")).expect("renamed");
        fs::create_dir(&self.counter).expect("made");
    }

    fn open(&mut self, watts: u64) {
        fs::remove_dir(&self.counter).expect("removed");
        fs::rename(self.sysfs.path().join("kept"), &self.counter).expect("renamed");
        self.draw(watts);
    }

    pub fn path(&self) -> &Path {
        self.sysfs.path()
    }

    /// Returns the file with the energy that it has used, in µJ.
    pub fn counter(&self) -> &Path {
        &self.counter
    }
}

fn texts(loads: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let text = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.ok()?.path();
        fs::read_to_string(&path).ok().map(|text| (path, text))
    };
    fs::read_dir(loads).expect("readable").filter_map(text)
}

/// Returns what the limit of the package leaves beyond `drawn` watts, in watts.
fn left(limit: &Path, drawn: u64) -> u64 {
    // A limit that is being written counts from the next step on.
    let limit = fs::read_to_string(limit).ok().and_then(|text| text.trim().parse::<u64>().ok());
    limit.map_or(u64::MAX, |limit| (limit / 1_000_000).saturating_sub(drawn))
}

/// Works on the tasks for `elapsed` microseconds and returns their energy in µJ. `tasks` has the remaining energy of
/// each: its watts by its seconds, which is the same at each speed.
fn work(loads: &Path, tasks: &mut BTreeMap<PathBuf, u64>, left: u64, elapsed: u64) -> u64 {
    let mut energy = 0;
    for (path, text) in texts(loads) {
        let Some((watts, seconds)) = text.trim().split_once(' ') else { continue };
        let (watts, seconds): (u64, f64) = (watts.parse().expect("watts"), seconds.parse().expect("seconds"));
        let remaining = tasks.entry(path.clone()).or_insert((watts as f64 * seconds * 1e6) as u64);
        let used = (watts.min(left) * elapsed).min(*remaining);
        (*remaining, energy) = (*remaining - used, energy + used);
        if *remaining == 0 {
            tasks.remove(&path);
            fs::remove_file(&path).expect("removed");
        }
    }
    energy
}

impl Drop for Package {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until the node and the cluster draw about `watts`, as measured or as estimated.
fn await_draw(cluster: &Cluster, watts: f64, measured: bool) {
    let is_near = |value: &Value| value.as_f64().is_some_and(|draw| (draw - watts).abs() < 0.15 * watts);
    until(&format!("it draws {watts} W, measured: {measured}"), || {
        let node = cluster.node_report("n1")?;
        assert_eq!(node["emulated"], false);
        let status = cluster.submitter().lconf(&["status", "--json"]).succeeded();
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let is_so = node["measured"] == measured && is_near(&node["draw_w"]) && is_near(&status["draw_w"]);
        is_so.then_some(())
    });
}

#[test]
fn a_meter_that_fails_is_replaced_by_estimates_until_it_works_again() {
    let mut package = Package::new();
    package.draw(40);
    let sysfs = package.path().to_str().expect("UTF-8").to_owned();
    let options = ["--cpus", "2", "--idle", "10 W", "--nameplate", "20 W", "--reading-interval", "200ms"];
    let cluster = Setup::default()
        .master(&["--stale-after", "1s", "--readings-every", "100ms"])
        .node("n1", &[&options[..], &["--meter", "powercap", "--sysfs", &sysfs]].concat())
        .start();
    await_draw(&cluster, 40.0, true);
    package.draw(95);
    await_draw(&cluster, 95.0, true);

    package.close();
    // The last reading expires without another event.
    await_draw(&cluster, 10.0, false);
    // The node continues without its meter. The draw of a job on one of its two cores is estimated.
    let job = cluster.submitter().detach(&["--cores", "1", "sleep", "1000"]);
    await_draw(&cluster, 20.0, false);
    package.open(60);
    await_draw(&cluster, 60.0, true);
    cluster.submitter().lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(cluster.submitter().wait(job), Some(143));
}

/// Runs jobs with this draw and duration; the loads begin once all jobs have begun.
fn burn(cluster: &Cluster, loads: &Path, jobs: &[(&str, u64)]) -> Vec<Value> {
    let script = |watts: u64| {
        let (dir, count) = (loads.display(), jobs.len());
        format!(
            "touch {dir}/$LIMO_JOB_ID; until [ $(ls {dir} | wc -l) -ge {count} ]; do sleep 0.01; done; \
             echo {watts} > {dir}/$LIMO_JOB_ID; sleep 2; echo 0 > {dir}/$LIMO_JOB_ID"
        )
    };
    let submitter = cluster.submitter();
    let submit =
        |(cores, watts): &(&str, u64)| submitter.detach(&["--app", "burn", "-c", cores, "sh", "-c", &script(*watts)]);
    let ids: Vec<u64> = jobs.iter().map(submit).collect();
    ids.iter().for_each(|id| assert_eq!(submitter.wait(*id), Some(0)));
    ids.iter().for_each(|id| fs::remove_file(loads.join(id.to_string())).expect("removed"));
    submitter.show(&ids)
}

/// Checks that the value is within 5 %.
fn near(value: &Value, expected: f64) {
    let got = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((got - expected).abs() <= 0.05 * expected, "{got}, not {expected}");
}

/// Draws 30 W above idle for two seconds: with one job, and with two jobs at the same time.
#[test]
fn energy_of_jobs_is_the_counted_energy_above_idle() {
    let mut package = Package::new();
    package.draw(40);
    let sysfs = package.path().to_str().expect("UTF-8").to_owned();
    // The operator's value is wrong, so samples count.
    let options = ["--cpus", "4", "--idle", "10 W", "--nameplate", "400 W", "--reading-interval", "100ms"];
    let cluster =
        Setup::default().node("n1", &[&options[..], &["--meter", "powercap", "--sysfs", &sysfs]].concat()).start();
    await_draw(&cluster, 40.0, true);
    for job in burn(&cluster, &package.loads, &[("2", 30)]) {
        near(&job["energy_j"], 60.0);
        assert_eq!((&job["energy_measured"], &job["energy_confidence"]), (&Value::from(true), &Value::from(1.0)));
    }
    let profiles = cluster.submitter().lconf(&["profile", "list", "--json"]).succeeded();
    let profiles: Value = serde_json::from_str(&profiles).expect("JSON");
    let [learned] = profiles["profiles"].as_array().expect("a list").as_slice() else { panic!("{profiles}") };
    let key = ["application", "cores", "runs"].map(|name| learned[name].clone());
    assert_eq!(key, [Value::from("burn"), Value::from(2), Value::from(1)]);
    near(&learned["energy_j"], 60.0);
    // The job began slightly before its load and ended slightly after it.
    let duration = learned["duration_s"].as_f64().expect("a number");
    assert!((2.0..4.0).contains(&duration), "{duration}");
    near(&learned["power_w"], 60.0 / duration);
    // The expected draw is 30 W for one core, which is below its nameplate, and 45 W for three. So the shares are 2/5
    // and 3/5 of 60 J.
    let jobs = burn(&cluster, &package.loads, &[("1", 12), ("3", 18)]);
    for (job, part) in jobs.iter().zip([0.4, 0.6]) {
        near(&job["energy_j"], 60.0 * part);
        // One job may be alone until the other has begun.
        let confidence = job["energy_confidence"].as_f64().expect("a number");
        assert!((part - 0.01..part + 0.2).contains(&confidence), "{confidence}, not {part}");
    }
}
