//! A node with a real meter: what it shows is the cluster's draw, and while it fails the cluster goes by estimates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use limo_tests::{Cluster, Setup, until};
use serde_json::Value;
use tempfile::TempDir;

/// Between two steps of the counter: short beside the interval of readings.
const STEP: Duration = Duration::from_millis(2);

/// A sysfs with one package, whose counter a thread advances by so many watts.
struct Package {
    sysfs: TempDir,
    counter: PathBuf,
    counting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Package {
    fn new() -> Self {
        let sysfs = tempfile::tempdir().expect("a directory");
        let zone = sysfs.path().join("class/powercap/intel-rapl:0");
        fs::create_dir_all(&zone).expect("made");
        fs::write(zone.join("name"), "package-0\n").expect("written");
        fs::write(zone.join("max_energy_range_uj"), "262143328850\n").expect("written");
        let counter = zone.join("energy_uj");
        fs::write(&counter, "0\n").expect("written");
        Self { sysfs, counter, counting: None }
    }

    fn draw(&mut self, watts: u64) {
        self.stop();
        let counted: u64 = fs::read_to_string(&self.counter).expect("readable").trim().parse().expect("a number");
        let (counter, aside) = (self.counter.clone(), self.sysfs.path().join("aside"));
        let (stop, stopped) = mpsc::channel();
        let begin = Instant::now();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                let micros = u64::try_from(begin.elapsed().as_micros()).expect("a short time");
                // In one step, so that nobody reads half a number.
                fs::write(&aside, format!("{}\n", counted + watts * micros)).expect("written");
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

    /// Not even root can read it now.
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

    fn path(&self) -> &Path {
        self.sysfs.path()
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until the node and the cluster draw about `watts`, by a meter or by an estimate.
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
    // Nothing else happens: the last reading counts no longer by itself.
    await_draw(&cluster, 10.0, false);
    // The node works on without its meter; what a job on one of its two cores draws is estimated.
    let job = cluster.submitter().detach(&["--cores", "1", "sleep", "1000"]);
    await_draw(&cluster, 20.0, false);
    package.open(60);
    await_draw(&cluster, 60.0, true);
    cluster.submitter().lq(&["cancel", &job.to_string()]).succeeded();
    assert_eq!(cluster.submitter().wait(job), Some(143));
}
