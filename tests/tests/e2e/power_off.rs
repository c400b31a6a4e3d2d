//! Idle nodes sleep, and wake for jobs: by a command or a magic packet, and after `kill -9` of the master or of a
//! node's daemon in each state. A node may also fail to wake or to sleep.
//!
//! A killed daemon stands for a machine that is switched off. The wake command leaves a file, and the test switches the
//! machine on.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;

use limo_tests::{Cluster, NodeSetup, Setup, Submitter, until};
use serde_json::Value;
use tempfile::TempDir;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_limo-workload");

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/small.toml");

/// Command that kills the daemon that runs it.
const OFF: &str = "kill -KILL $PPID";
/// Command for a machine that goes down without killing its daemon, as in a suspension.
const SUSPENDED: &str = "exec sleep 1000";

/// Interval of readings: with such frequent ones, estimates matter little.
const READINGS: &str = "50ms";

/// Settings for an early sleep; a node is woken once, and the master waits for it.
const IDLE: &str = "sleep_timeout = \"1s\"\nwake_timeout = \"1h\"\n";

/// A cluster whose nodes sleep as soon as they have no job, once the policy is changed.
struct Sleepy {
    cluster: Cluster,
    directory: TempDir,
    /// Last part of the master's settings.
    idle: String,
}

impl Sleepy {
    /// Starts nodes `n1`, `n2` and so on with these sections `[idle]`.
    fn start(nodes: &[&str], idle: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let woken = directory.path().join("woken-");
        let idle = format!("[idle]\n{idle}wake_command = \"f() {{ touch {}$1; }}; f\"\n", woken.display());
        let settings = directory.path().join("lmaster.toml");
        fs::write(&settings, &idle).expect("written");
        let mut setup = Setup::default().master(&[
            "--initial-policy",
            "easy",
            "--readings-every",
            READINGS,
            "--config",
            text(&settings),
        ]);
        for (number, section) in (1..).zip(nodes) {
            let settings = directory.path().join(format!("n{number}.toml"));
            fs::write(&settings, format!("[idle]\n{section}\n")).expect("written");
            let options = [
                "--hardware",
                HARDWARE,
                "--machine",
                "n1",
                "--reading-interval",
                READINGS,
                "--config",
                text(&settings),
            ];
            setup.nodes.push(NodeSetup {
                name: format!("n{number}"),
                options: options.iter().map(|&option| option.to_owned()).collect(),
            });
        }
        Self { cluster: setup.start(), directory, idle }
    }

    /// Lets idle nodes sleep from now on.
    fn power_off(&self) {
        let settings = format!("{}[policy]\nrest = \"idle\"\n", self.idle);
        fs::write(self.directory.path().join("lmaster.toml"), settings).expect("written");
        self.cluster.reload_master();
    }

    /// Starts a cluster of one node, and waits until it sleeps.
    fn of_one(off: &str) -> Self {
        Self::of_one_with(off, IDLE)
    }

    fn of_one_with(off: &str, idle: &str) -> Self {
        let cluster = Self::start(&[&node(off)], idle);
        cluster.power_off();
        cluster.is("n1", "asleep");
        cluster
    }

    /// Starts a cluster of one sleeping node, and submits a job for which it is woken.
    fn waking(off: &str, idle: &str) -> (Self, u64) {
        let mut cluster = Self::of_one_with(off, idle);
        let job = cluster.job(&[]);
        cluster.is_woken("n1");
        cluster.is("n1", "waking");
        assert_eq!(cluster.submitter().state(job), "starting");
        cluster.cluster.collect_node("n1");
        (cluster, job)
    }

    fn submitter(&self) -> &Submitter {
        self.cluster.submitter()
    }

    /// Submits a short job that prints its node.
    fn job(&self, options: &[&str]) -> u64 {
        let words = [options, &["sh", "-c", "echo $LIMO_JOB_ID $LIMO_NODE >> ran"]].concat();
        self.submitter().detach(&words)
    }

    fn is(&self, node: &str, state: &str) {
        until(&format!("{node} is {state}"), || (self.cluster.node_report(node)?["state"] == state).then_some(()));
    }

    /// Waits until the wake command ran for a node, and removes its file.
    fn is_woken(&self, node: &str) {
        let file = self.directory.path().join(format!("woken-{node}"));
        until(&format!("{node} is woken"), || fs::remove_file(&file).ok());
    }

    /// Checks that the job ran once, on this node, and that the node sleeps again.
    fn ran(&self, job: u64, node: &str) {
        assert_eq!(self.submitter().wait(job), Some(0));
        assert_eq!(self.submitter().read("ran"), format!("{job} {node}\n"));
        self.is(node, "asleep");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn node(off: &str) -> String {
    format!("off = \"{off}\"\nwake = \"command\"\nsleep_time = \"300ms\"\nwake_time = \"1s\"\nsleep_draw = \"2W\"")
}

fn status(submitter: &Submitter) -> Value {
    serde_json::from_str(&submitter.lconf(&["status", "--json"]).succeeded()).expect("JSON")
}

#[test]
fn idle_nodes_sleep_and_one_is_woken_for_a_job() {
    let mut cluster = Sleepy::start(&[&node(OFF), &node(OFF)], IDLE);
    let before = status(cluster.submitter());
    assert_eq!((before["nodes_up"].as_u64(), before["nodes_asleep"].as_u64()), (Some(2), Some(0)));
    cluster.power_off();
    cluster.is("n1", "asleep");
    cluster.is("n2", "asleep");
    cluster.cluster.collect_node("n1");
    cluster.cluster.collect_node("n2");
    let asleep = status(cluster.submitter());
    assert_eq!((asleep["nodes_up"].as_u64(), asleep["nodes_asleep"].as_u64()), (Some(0), Some(2)));
    assert_eq!(asleep["draw_w"], 4.0, "{asleep:#}");
    let job = cluster.job(&[]);
    cluster.is_woken("n1");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
    assert_eq!(cluster.cluster.node_report("n2").expect("known")["state"], "asleep");
}

#[test]
fn a_master_killed_while_a_node_falls_asleep_finds_it_asleep() {
    let slow = node(OFF).replace("300ms", "3s");
    let mut cluster = Sleepy::start(&[&slow], IDLE);
    cluster.power_off();
    cluster.is("n1", "falling_asleep");
    cluster.cluster.kill_master();
    cluster.cluster.start_master();
    assert_eq!(cluster.cluster.node_report("n1").expect("known")["state"], "falling_asleep");
    cluster.is("n1", "asleep");
    cluster.cluster.collect_node("n1");
    let job = cluster.job(&[]);
    cluster.is_woken("n1");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

#[test]
fn a_master_killed_while_a_node_sleeps_wakes_it_for_a_job() {
    let mut cluster = Sleepy::of_one(OFF);
    cluster.cluster.collect_node("n1");
    cluster.cluster.kill_master();
    cluster.cluster.start_master();
    assert_eq!(cluster.cluster.node_report("n1").expect("known")["state"], "asleep");
    let job = cluster.job(&[]);
    cluster.is_woken("n1");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

#[test]
fn a_master_killed_while_a_node_wakes_wakes_it_again_and_its_job_runs_once() {
    let (mut cluster, job) = Sleepy::waking(OFF, IDLE);
    cluster.cluster.kill_master();
    cluster.cluster.start_master();
    cluster.is_woken("n1");
    assert_eq!(cluster.submitter().state(job), "starting");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

#[test]
fn a_daemon_killed_while_its_node_falls_asleep_comes_back_awake() {
    let slow = node(SUSPENDED).replace("300ms", "1h");
    let mut cluster = Sleepy::start(&[&slow], IDLE);
    cluster.power_off();
    until("the command runs", || cluster.cluster.node_log("n1").contains("goes to sleep").then_some(()));
    cluster.is("n1", "falling_asleep");
    cluster.cluster.kill_node("n1");
    let job = cluster.job(&[]);
    cluster.cluster.start_node("n1");
    // The node registers, so it is awake, and takes the waiting job.
    assert_eq!(cluster.submitter().wait(job), Some(0));
    assert_eq!(cluster.submitter().read("ran"), format!("{job} n1\n"));
    cluster.is("n1", "up");
}

#[test]
fn a_daemon_killed_while_its_node_sleeps_is_not_missed() {
    let mut cluster = Sleepy::of_one(SUSPENDED);
    cluster.cluster.kill_node("n1");
    let job = cluster.job(&[]);
    cluster.is_woken("n1");
    assert_eq!(cluster.cluster.node_report("n1").expect("known")["state"], "waking");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

#[test]
fn a_daemon_killed_while_its_node_wakes_is_woken_again_and_its_job_runs_once() {
    let idle = "sleep_timeout = \"1s\"\nwake_timeout = \"2s\"\nwake_tries = 100\n";
    let (mut cluster, job) = Sleepy::waking(OFF, idle);
    cluster.cluster.start_node("n1");
    cluster.cluster.kill_node("n1");
    assert_eq!(cluster.cluster.node_report("n1").expect("known")["state"], "waking");
    cluster.is_woken("n1");
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

#[test]
fn a_node_that_never_wakes_is_drained_and_its_job_runs_elsewhere() {
    let idle = "sleep_timeout = \"1s\"\nwake_timeout = \"500ms\"\nwake_tries = 2\n";
    let mut cluster = Sleepy::start(&[&node(OFF), &node(OFF)], idle);
    cluster.power_off();
    cluster.is("n1", "asleep");
    cluster.is("n2", "asleep");
    cluster.cluster.collect_node("n2");
    let job = cluster.job(&[]);
    cluster.is_woken("n1");
    // The node is woken once more, then the job's next node.
    cluster.is_woken("n1");
    cluster.is_woken("n2");
    cluster.cluster.start_node("n2");
    cluster.ran(job, "n2");
    let report = cluster.cluster.node_report("n1").expect("known");
    assert_eq!(report["state"], "drained");
    assert_eq!(report["reason"], "did not wake within 1s, tried 2 times (lmaster)");
    let shown = cluster.submitter().lq(&["nodes"]).succeeded();
    assert!(shown.contains("drained, unreachable") && shown.contains("did not wake within 1s"), "{shown}");
    // A job that can run on no other node waits, and reports the reason.
    let stuck = cluster.job(&["--nodelist", "n1"]);
    let shown = cluster.submitter().job(stuck);
    assert_eq!(shown["state"], "waiting");
    assert_eq!(shown["wait_reason"], "no node: no node that could run it is up");
}

#[test]
fn a_node_that_does_not_sleep_stays_up_and_is_left_alone() {
    let cluster = Sleepy::start(&[&node("echo no; exit 3")], IDLE);
    cluster.power_off();
    let says = "failed with exit status: 3";
    until("the master knows why", || cluster.cluster.master_log().contains(says).then_some(()));
    cluster.is("n1", "up");
    let job = cluster.job(&[]);
    assert_eq!(cluster.submitter().wait(job), Some(0));
    cluster.is("n1", "up");
    assert_eq!(cluster.cluster.node_log("n1").matches("goes to sleep").count(), 1);
}

#[test]
fn a_magic_packet_wakes_a_node() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = socket.local_addr().expect("an address").port();
    let wol = node(OFF)
        .replace("wake = \"command\"", "wake = \"wol\"\nmac = \"52:54:00:12:34:56\"\nbroadcast = \"127.0.0.1\"");
    let mut cluster = Sleepy::start(&[&wol], &format!("{IDLE}wol_port = {port}\n"));
    cluster.power_off();
    cluster.is("n1", "asleep");
    cluster.cluster.collect_node("n1");
    let job = cluster.job(&[]);
    let mut packet = [0; 200];
    socket.set_read_timeout(Some(limo_tests::LIMIT)).expect("a time limit");
    let length = socket.recv(&mut packet).expect("a packet");
    let mut expected = vec![0xff; 6];
    (0..16).for_each(|_| expected.extend([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
    assert_eq!(packet[..length], expected[..]);
    cluster.cluster.start_node("n1");
    cluster.ran(job, "n1");
}

/// Returns the energy of a column of `lsim what-if`, in joules.
fn energy(column: &Value) -> f64 {
    column["energy_j"].as_f64().unwrap_or_else(|| panic!("{column:#}"))
}

#[test]
fn a_cluster_that_sleeps_uses_the_energy_that_lsim_predicts() {
    let timed = node(OFF).replace("300ms", "1s").replace("wake_time = \"1s\"", "wake_time = \"200ms\"");
    let mut cluster = Sleepy::start(&[&timed, &timed], IDLE);
    cluster.power_off();
    cluster.is("n1", "asleep");
    cluster.is("n2", "asleep");
    cluster.cluster.collect_node("n1");
    cluster.cluster.collect_node("n2");
    for (node, cores) in [("n1", "4"), ("n1", "2"), ("n1", "4")] {
        let words = ["--app", "burn", "--cores", cores, WORKLOAD, "burn", "--duration", "2s"];
        let job = cluster.submitter().detach(&words);
        cluster.is_woken(node);
        cluster.cluster.start_node(node);
        assert_eq!(cluster.submitter().wait(job), Some(0));
        cluster.is(node, "asleep");
        cluster.cluster.collect_node(node);
    }
    let state = cluster.cluster.state_dir().to_str().expect("text");
    let arguments = ["what-if", "--from", state, "--policy", "easy", "--json"];
    let report: Value = serde_json::from_str(&cluster.submitter().run("lsim", &arguments).succeeded()).expect("JSON");
    let columns = report["columns"].as_array().expect("columns");
    let (lived, simulated) = (energy(&columns[0]), energy(&columns[1]));
    println!("{lived} J lived, {simulated} J simulated: {report:#}");
    assert!((lived - simulated).abs() <= lived * 0.02, "{lived} J lived, {simulated} J simulated: {report:#}");
}
