//! Nodes that die, hang or are disconnected. Limo shows this at once. Their jobs end after the lease or run
//! elsewhere, but never on two nodes. Their watts count until they are known to be gone.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use limo_tests::{Cluster, NodeSetup, Setup, Submitter, until};
use serde_json::Value;

const LEASE: &str = "500ms";
const HEARTBEAT: &str = "200ms";
const BEGINS: &str = "echo $LIMO_NODE >> begun; exec sleep 1000";

fn setup(nodes: usize, lease: &str) -> Setup {
    let setup = Setup::default().master(&[
        "--initial-policy",
        "fifo",
        "--node-lease",
        lease,
        "--heartbeat",
        HEARTBEAT,
        "--kill-grace",
        "0s",
    ]);
    (1..=nodes).fold(setup, |setup, node| {
        setup.node(&format!("n{node}"), &["--cpus", "1", "--nameplate", "40W", "--heartbeat", HEARTBEAT])
    })
}

/// Starts a job on n1.
fn begin(submitter: &Submitter, options: &[&str]) -> u64 {
    let words: Vec<&str> = options.iter().chain(&["sh", "-c", BEGINS]).copied().collect();
    let job = submitter.detach(&words);
    until("the job runs", || (submitter.read("begun") == "n1\n").then_some(()));
    until("the master knows", || (submitter.state(job) == "running").then_some(()));
    job
}

fn status(submitter: &Submitter) -> Value {
    serde_json::from_str(&submitter.lconf(&["status", "--json"]).succeeded()).expect("JSON")
}

fn state_of(cluster: &Cluster, node: &str) -> String {
    let report = cluster.node_report(node).expect("known");
    report["state"].as_str().expect("a state").to_owned()
}

fn await_state(cluster: &Cluster, node: &str, state: &str) {
    until(&format!("{node} is {state}"), || (state_of(cluster, node) == state).then_some(()));
}

#[test]
fn a_node_that_dies_with_its_job_ends_it_and_holds_its_watts_until_it_is_declared_dead() {
    let mut cluster = setup(1, LEASE).start();
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &[]);
    cluster.kill_node("n1");
    cluster.job_processes().iter().for_each(limo_tests::Process::kill);
    assert_eq!(submitter.wait(job), Some(125), "`lq wait` returns");
    let report = submitter.job(job);
    assert_eq!(report["state"], "node_failed", "{report}");
    assert_eq!(submitter.job(job)["energy_j"], report["energy_j"], "its energy rises no more");
    let found = status(&submitter);
    assert_eq!((&found["held_w"], &found["draw_w"]), (&Value::from(40.0), &Value::from(40.0)), "{found}");
    assert_eq!((&found["unreachable"][0]["node"], &found["unreachable"][0]["lost"]), (&"n1".into(), &true.into()));
    let words = submitter.lconf(&["status"]).succeeded();
    assert!(words.contains("40.0 W held; if the node is dead, type: lconf node lost n1"), "{words}");
    assert_eq!(state_of(&cluster, "n1"), "lost");
    submitter.lconf(&["node", "remove", "n1"]).failed("40.0 W are held for node `n1`");
    submitter.lconf(&["node", "lost", "n1"]).succeeded();
    let found = status(&submitter);
    assert_eq!((&found["held_w"], &found["draw_w"]), (&Value::from(0.0), &Value::from(0.0)), "{found}");
    submitter.lconf(&["node", "remove", "n1"]).succeeded();
    let log = cluster.master_log();
    for said in ["node unreachable: unless it connects again within 500ms", "node lost: its jobs end as node_failed"] {
        assert!(log.contains(said), "`{said}` is not in {log}");
    }
}

#[test]
fn a_stopped_daemon_is_unreachable_and_its_job_does_not_come_back() {
    let mut cluster = setup(1, LEASE).start();
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &[]);
    cluster.stop_node("n1");
    until("the job shows it", || {
        submitter.job(job)["unreachable"][0]["node"].as_str().map(|node| assert_eq!(node, "n1"))
    });
    assert_eq!(submitter.wait(job), Some(125));
    assert!(!cluster.job_processes().is_empty(), "nobody could end it");
    assert_eq!(status(&submitter)["held_w"], 40.0);
    cluster.continue_node("n1");
    await_state(&cluster, "n1", "up");
    until("what is left of it is ended", || cluster.job_processes().is_empty().then_some(()));
    until("its watts are free", || (status(&submitter)["held_w"] == 0.0).then_some(()));
    assert_eq!((submitter.state(job), submitter.read("begun")), ("node_failed".into(), "n1\n".into()));
}

/// Stops the master for longer than the lease of a node that wants to connect meanwhile.
#[test]
fn a_node_that_could_not_connect_to_a_stopped_master_is_not_lost() {
    let lease = Duration::from_secs(3);
    let mut cluster = setup(1, "3s").start();
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &[]);
    let before = cluster.job_processes();
    cluster.kill_node("n1");
    await_state(&cluster, "n1", "unreachable");
    cluster.stop_master();
    let stopped = Instant::now();
    cluster.start_node("n1");
    until("the lease is over", || (stopped.elapsed() > lease).then_some(()));
    cluster.continue_master();
    await_state(&cluster, "n1", "up");
    assert_eq!((submitter.state(job).as_str(), cluster.job_processes()), ("running", before));
    let log = cluster.master_log();
    assert!(log.contains("the master did not run for 3s") && !log.contains("node lost: its jobs"), "{log}");
}

#[test]
fn a_requeueable_job_of_a_stopped_daemon_ends_before_it_runs_elsewhere() {
    let mut cluster = setup(2, LEASE).start();
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &["--requeue"]);
    cluster.stop_node("n1");
    until("its lease ends it", || cluster.job_processes().is_empty().then_some(()));
    assert_eq!(submitter.read("begun"), "n1\n", "it has not begun elsewhere");
    until("it runs again", || (submitter.read("begun") == "n1\nn2\n").then_some(()));
    until("the master knows", || (submitter.state(job) == "running").then_some(()));
    cluster.continue_node("n1");
    await_state(&cluster, "n1", "up");
    assert_eq!((submitter.state(job).as_str(), submitter.read("begun").as_str()), ("running", "n1\nn2\n"));
}

#[test]
fn an_operator_has_a_requeueable_job_of_a_dead_node_run_again_at_once() {
    let mut cluster = setup(2, "1h").start();
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &["--requeue"]);
    cluster.kill_node("n1");
    cluster.job_processes().iter().for_each(limo_tests::Process::kill);
    await_state(&cluster, "n1", "unreachable");
    assert_eq!(submitter.state(job), "running", "it may come back");
    submitter.lconf(&["node", "lost", "n1"]).succeeded();
    until("it runs again", || (submitter.read("begun") == "n1\nn2\n").then_some(()));
    until("the master knows", || (submitter.state(job) == "running").then_some(()));
}

#[test]
fn a_drained_node_shows_that_it_is_unreachable() {
    let mut cluster = setup(1, LEASE).start();
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["drain", "n1", "--reason", "fan"]).succeeded();
    cluster.kill_node("n1");
    until("it is missed", || (cluster.node_report("n1")?["connected"] == false).then_some(()));
    let table = submitter.lq(&["nodes"]).succeeded();
    assert!(table.contains("drained, unreachable"), "{table}");
}

/// Passes bytes between nodes and the master, until a test tells it to drop them.
struct Proxy {
    address: String,
    /// Connections with a smaller number pass nothing.
    dead_below: Arc<AtomicUsize>,
    made: Arc<AtomicUsize>,
    /// True to refuse new connections.
    closed: Arc<AtomicBool>,
}

impl Proxy {
    fn to(master: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (dead_below, made, closed) = (Arc::default(), Arc::default(), Arc::default());
        let proxy = Self { address, dead_below, made, closed };
        let (dead_below, made, closed) = (proxy.dead_below.clone(), proxy.made.clone(), proxy.closed.clone());
        let master = master.to_owned();
        thread::spawn(move || {
            for node in listener.incoming().map_while(Result::ok) {
                if closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(up) = TcpStream::connect(&master) else { continue };
                let number = made.fetch_add(1, Ordering::SeqCst);
                for (from, to) in [(node.try_clone(), up.try_clone()), (Ok(up), Ok(node))] {
                    let (from, to) = (from.expect("a descriptor"), to.expect("a descriptor"));
                    let dead_below = dead_below.clone();
                    thread::spawn(move || pass(from, to, || number < dead_below.load(Ordering::SeqCst)));
                }
            }
        });
        proxy
    }

    /// Drops the bytes of all present connections, which stay open.
    fn swallow(&self) {
        self.dead_below.store(self.made.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_dead: impl Fn() -> bool) {
    let mut bytes = [0; 16 * 1024];
    from.set_read_timeout(Some(Duration::from_secs(60))).expect("possible");
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            // The bytes are dropped; the end of the connection is also hidden.
            Ok(_) if is_dead() => {}
            Ok(count) if to.write_all(&bytes[..count]).is_err() => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => break,
        }
    }
    if !is_dead() {
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}

fn through_proxy(lease: &str) -> (Cluster, Proxy) {
    let mut cluster = setup(0, lease).over_tcp().start();
    let proxy = Proxy::to(&cluster.submitter().address.clone());
    let options = ["--cpus", "1", "--heartbeat", HEARTBEAT].map(str::to_owned).to_vec();
    cluster.add_node_via(&NodeSetup { name: "n1".into(), options }, &proxy.address);
    cluster.await_node("n1");
    (cluster, proxy)
}

#[test]
fn both_ends_detect_a_half_open_connection_and_the_job_continues() {
    let (cluster, proxy) = through_proxy("1h");
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &[]);
    let before = cluster.job_processes();
    proxy.swallow();
    until("the master notices", || cluster.master_log().contains("gives no sign of life").then_some(()));
    until("the node notices", || cluster.node_log("n1").contains("no sign of life from the peer").then_some(()));
    await_state(&cluster, "n1", "up");
    assert_eq!((submitter.state(job).as_str(), cluster.job_processes()), ("running", before));
}

#[test]
fn a_partitioned_node_ends_a_requeueable_job_before_it_runs_elsewhere() {
    let (mut cluster, proxy) = through_proxy(LEASE);
    let submitter = cluster.submitter().clone();
    let job = begin(&submitter, &["--requeue"]);
    proxy.closed.store(true, Ordering::SeqCst);
    proxy.swallow();
    let options = ["--cpus", "1", "--heartbeat", HEARTBEAT].map(str::to_owned).to_vec();
    cluster.add_node(&NodeSetup { name: "n2".into(), options });
    cluster.await_node("n2");
    until("the node ends it", || cluster.job_processes().is_empty().then_some(()));
    assert_eq!(submitter.read("begun"), "n1\n", "it has not begun elsewhere");
    until("it runs again", || (submitter.read("begun") == "n1\nn2\n").then_some(()));
    until("the master knows", || (submitter.state(job) == "running").then_some(()));
    // The node returns with the end of the first attempt, which changes nothing.
    proxy.closed.store(false, Ordering::SeqCst);
    cluster.await_node("n1");
    assert_eq!((submitter.state(job).as_str(), submitter.read("begun").as_str()), ("running", "n1\nn2\n"));
}
