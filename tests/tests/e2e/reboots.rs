//! The daily reboot of a node: it waits for the job, the node runs its command, and comes back with another boot id.
//!
//! A killed daemon and another boot id stand for a restart of the machine.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use limo_model::{DayWindow, Time};
use limo_tests::{Cluster, Setup, until};
use nix::sys::stat::Mode;

/// Returns a window in which the turn of a node comes after some seconds.
fn window_of(node: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = Time::from_unix_ms(i64::try_from(since.as_millis()).expect("before the year 292278994"));
    let minutes = |all: i64| format!("{:02}:{:02}", all / 60, all % 60);
    let windows = (1..=1440_i64).flat_map(|length| (0..=1440 - length).map(move |from| (from, from + length)));
    let soon = |text: &String| {
        let (turn, until) = text.parse::<DayWindow>().expect("a window").next_turn(node, now);
        let wait = (turn - now).ms();
        (4_000..8_000).contains(&wait) && (until - turn).ms() > 120_000
    };
    let mut texts = windows.map(|(from, until)| format!("{}-{}", minutes(from), minutes(until)));
    texts.find(soon).expect("one of a million windows")
}

fn is(cluster: &Cluster, state: &str, reason: &str) {
    until(&format!("n1 is {state} because of `{reason}`"), || {
        let node = cluster.node_report("n1")?;
        (node["state"] == state && node["reason"].as_str().unwrap_or_default().contains(reason)).then_some(())
    });
}

#[test]
fn a_node_reboots_once_its_job_has_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let [master, node, boot] = ["lmaster.toml", "lslave.toml", "boot"].map(|name| directory.path().join(name));
    fs::write(&master, "").expect("written");
    fs::write(&boot, "first").expect("written");
    let command = format!("echo second > {}; kill -KILL $PPID", boot.display());
    let section = format!("[reboot]\ncommand = \"{command}\"\nboot_id = \"{}\"\n", boot.display());
    fs::write(&node, section).expect("written");
    let setup = Setup::default().master(&["--config", master.to_str().expect("text")]);
    let mut cluster = setup.node("n1", &["--cpus", "1", "--config", node.to_str().expect("text")]).start();
    let submitter = cluster.submitter().clone();
    let gate = submitter.path("gate");
    nix::unistd::mkfifo(&gate, Mode::S_IRWXU).expect("made");
    let job = submitter.detach(&["sh", "-c", "read line < gate"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let window = window_of("n1");
    let group =
        format!("[group.desks]\nnodes = [\"n1\"]\nreboot = {{ window = \"{window}\", defer = \"until-end\" }}\n");
    fs::write(&master, group).expect("written");
    cluster.reload_master();
    is(&cluster, "drained", "reboots when its jobs have ended");
    let next = submitter.detach(&["true"]);
    assert_eq!(submitter.state(next), "waiting");
    fs::write(&gate, "go\n").expect("read");
    assert_eq!(submitter.wait(job), Some(0));
    cluster.collect_node("n1");
    assert_eq!(fs::read_to_string(&boot).expect("readable"), "second\n");
    is(&cluster, "unreachable", "reboots");
    cluster.start_node("n1");
    assert_eq!(submitter.wait(next), Some(0));
    is(&cluster, "up", "");
    assert_eq!(cluster.node_report("n1").expect("known")["reason"], serde_json::Value::Null);
    assert!(cluster.master_log().contains("the node has rebooted"), "{}", cluster.master_log());
    let listed = submitter.lconf(&["group", "list"]).succeeded();
    assert!(listed.contains(&format!("reboot {window} when jobs have ended")), "{listed}");
}
