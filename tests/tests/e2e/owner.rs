//! A person at a machine comes before jobs: the input device of an emulated machine is a pipe, into which the test writes events.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use limo_tests::{Cluster, Process, Setup, Submitter, until};
use nix::sys::stat::Mode;

/// Settings of the group. Nobody leaves during a test.
const GROUP: &str = "[group.desks]\nnodes = [\"n1\"]\nowners = { jobs = \"suspend\", evict_after = \"2s\" }\n";

/// Longest time from the first event until the processes stand still, on a busy machine.
const REACTION: Duration = Duration::from_secs(1);

/// Job that runs until it is killed, and at its second start ends with code 7.
const SCRIPT: &str = "trap '' TERM; echo $LIMO_NODE >> ran; [ $(wc -l < ran) = 2 ] && exit 7; sleep 1000; sleep 1000";

/// Job of 40 steps of at least 0.1 s, which saves their number at USR2, and ends with code 7.
const STEPS: &str = "n=$(cat $LIMO_CHECKPOINT_DIR/saved || echo 0); echo $LIMO_NODE >> ran; \
    trap 'echo $n > $LIMO_CHECKPOINT_DIR/new; mv $LIMO_CHECKPOINT_DIR/new $LIMO_CHECKPOINT_DIR/saved' USR2; \
    while [ $n -lt 40 ]; do n=$((n + 1)); echo $n >> steps; sleep 0.1; done; exit 7";

/// Command that saves the number of steps of the job, once this is allowed.
const SAVE: &str = "command:[ -e allowed ] || exit 3; d=$LIMO_CHECKPOINT_DIR; \
    kill -0 $LIMO_JOB_PID && wc -l < steps > $d/new && mv $d/new $d/saved";

struct Desk {
    cluster: Cluster,
    submitter: Submitter,
    keyboard: File,
    _directory: tempfile::TempDir,
}

impl Desk {
    /// Starts the machine of a person, and another one that is drained.
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let [settings, dev] = ["lmaster.toml", "dev"].map(|name| directory.path().join(name));
        fs::write(&settings, GROUP).expect("written");
        fs::create_dir_all(dev.join("input")).expect("made");
        let device = dev.join("input/event0");
        nix::unistd::mkfifo(&device, Mode::S_IRWXU).expect("a pipe");
        let keyboard = OpenOptions::new().read(true).write(true).open(device).expect("the pipe");
        let dev = dev.to_str().expect("text");
        let owner = ["--cpus", "1", "--owner", "input", "--owner-away-after", "1h", "--dev", dev];
        let setup = Setup::default().master(&["--kill-grace", "1s", "--config", settings.to_str().expect("text")]);
        let cluster = setup.node("n1", &owner).node("n2", &["--cpus", "1"]).start();
        let submitter = cluster.submitter().clone();
        submitter.lconf(&["node", "drain", "n2", "--reason", "a test"]).succeeded();
        Self { cluster, submitter, keyboard, _directory: directory }
    }

    /// Starts the job on the person's machine.
    fn job(&self) -> u64 {
        self.job_with(&[], SCRIPT)
    }

    /// Starts a job of this script, which makes the file `ran`, on the person's machine.
    fn job_with(&self, options: &[&str], script: &str) -> u64 {
        let job = self.submitter.detach(&[&["--requeue"], options, &["sh", "-c", script]].concat());
        until("the job runs", || (self.submitter.state(job) == "running").then_some(()));
        until("its command has begun", || fs::exists(self.submitter.path("ran")).ok()?.then_some(()));
        job
    }

    /// Returns the processes of jobs on the person's machine.
    fn processes(&self) -> Vec<Process> {
        let here = |process: &Process| process.variable("LIMO_NODE") == Some("n1");
        self.cluster.job_processes().into_iter().filter(here).collect()
    }

    /// Presses a key, and waits until the processes stand still.
    fn press(&mut self) {
        assert!(!self.processes().is_empty(), "the job runs");
        let pressed = Instant::now();
        self.keyboard.write_all(&[0; 24]).expect("an event");
        let stands_still = |process: &Process| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        until("the processes stand still", || self.processes().iter().all(stands_still).then_some(()));
        let took = pressed.elapsed();
        assert!(took < REACTION, "{took:?}");
        println!("the processes stood still after {took:?}");
    }

    /// Waits until a job of [`STEPS`] has done enough of them.
    fn await_steps(&self) {
        let steps = || fs::read_to_string(self.submitter.path("steps")).unwrap_or_default().lines().count();
        until("15 steps", || (steps() >= 15).then_some(()));
    }

    /// Checks that a job of [`STEPS`] repeated few of them. From its checkpoint to its end there is at most half a second.
    fn assert_few_repeated(&self, job: u64) {
        let steps = self.submitter.read("steps").lines().count();
        assert!((40..50).contains(&steps), "{steps} steps: without a checkpoint it would repeat 15 or more");
        let shown = self.submitter.lq(&["show", &job.to_string()]).succeeded();
        let is_kept = |line: &str| line.starts_with("checkpoint ") && line.ends_with(" kept");
        assert!(shown.contains("by owners: 1") && shown.lines().any(is_kept), "{shown}");
    }

    /// Waits until the job has ended on the other machine.
    fn await_end(&self, job: u64) {
        until("nothing is left of it", || self.processes().is_empty().then_some(()));
        self.submitter.lconf(&["node", "resume", "n2"]).succeeded();
        assert_eq!(self.submitter.wait(job), Some(7));
        assert_eq!(self.submitter.read("ran"), "n1\nn2\n", "it ran twice, and once to its end");
    }
}

#[test]
fn a_job_is_suspended_evicted_and_runs_elsewhere() {
    let mut desk = Desk::new();
    let job = desk.job();
    desk.press();
    until("the job is suspended", || (desk.submitter.state(job) == "suspended").then_some(()));
    let node = desk.cluster.node_report("n1").expect("the node");
    assert_eq!(node["state"], "owner", "{node}");
    let waiting = desk.submitter.detach(&["--requeue", "-w", "n1", "true"]);
    let explained = desk.submitter.lq(&["explain", &waiting.to_string()]).succeeded();
    assert!(explained.contains("n1 in use since "), "{explained}");
    let groups = desk.submitter.lconf(&["group", "list"]).succeeded();
    assert!(groups.contains("suspend, evict after 2s, start after 15min"), "{groups}");
    desk.await_end(job);
}

#[test]
fn without_a_master_a_job_is_suspended_and_evicted_and_then_runs_elsewhere() {
    let mut desk = Desk::new();
    let job = desk.job();
    desk.cluster.kill_master();
    desk.press();
    until("nothing is left of it", || desk.processes().is_empty().then_some(()));
    desk.cluster.start_master();
    until("the node tells of its owner", || (desk.cluster.node_report("n1")?["state"] == "owner").then_some(()));
    desk.await_end(job);
}

/// A job saves nothing before its eviction, and repeats only what it does between the checkpoint and its end.
#[test]
fn a_job_with_a_signal_makes_a_checkpoint_when_it_is_evicted() {
    let mut desk = Desk::new();
    let job = desk.job_with(&["--checkpoint", "signal:USR2", "--checkpoint-every", "1h"], STEPS);
    desk.await_steps();
    desk.press();
    desk.await_end(job);
    desk.assert_few_repeated(job);
}

#[test]
fn a_command_that_has_failed_makes_a_checkpoint_when_its_job_is_evicted() {
    let mut desk = Desk::new();
    let job = desk.job_with(&["--checkpoint", SAVE, "--checkpoint-every", "1s"], STEPS);
    let show = || desk.submitter.lq(&["show", &job.to_string()]).succeeded();
    until("it fails", || show().contains("the last one failed: its command ended with code 3").then_some(()));
    desk.await_steps();
    fs::write(desk.submitter.path("allowed"), "").expect("written");
    desk.press();
    desk.await_end(job);
    desk.assert_few_repeated(job);
}

/// The master is dead from the first checkpoint until after the eviction. Checkpoints go on, and the next master learns of
/// them.
#[test]
fn an_evicted_job_repeats_at_most_the_work_after_its_last_checkpoint() {
    let mut desk = Desk::new();
    let job = desk.job_with(&["--checkpoint", "signal:USR2", "--checkpoint-every", "1s"], STEPS);
    let saved = format!("limo-checkpoint-{job}/saved");
    let has_saved = |desk: &Desk, steps: u64| {
        let text = fs::read_to_string(desk.submitter.path(&saved)).ok()?;
        text.trim().parse::<u64>().ok().filter(|saved| *saved >= steps)
    };
    until("the first checkpoint", || has_saved(&desk, 1));
    desk.cluster.kill_master();
    until("a later checkpoint", || has_saved(&desk, 15));
    desk.press();
    until("nothing is left of it", || desk.processes().is_empty().then_some(()));
    desk.cluster.start_master();
    desk.await_end(job);
    let steps = desk.submitter.read("steps").lines().count();
    assert!((40..55).contains(&steps), "{steps} steps: without checkpoints it would repeat 15 or more");
    let shown = desk.submitter.lq(&["show", &job.to_string()]).succeeded();
    let fact = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
    assert_eq!(fact("evicted ").as_deref(), Some("by owners: 1"), "{shown}");
    assert!(fact("checkpoint ").is_some_and(|kept| kept.ends_with(" kept")), "{shown}");
}

#[test]
fn a_job_without_restarts_is_given_up_at_its_first_eviction() {
    let mut desk = Desk::new();
    let job = desk.job_with(&["--max-restarts", "0"], SCRIPT);
    desk.press();
    let show = || desk.submitter.lq(&["show", &job.to_string()]).succeeded();
    until("it is given up", || show().contains("its restarts are limited to 0").then_some(()));
    assert_eq!(desk.submitter.read("ran"), "n1\n");
}
