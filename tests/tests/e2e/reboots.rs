//! The daily reboot of a node: it waits for the job, the node runs its command, and comes back with another boot id.
//!
//! A killed daemon and another boot id stand for a restart of the machine.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use limo_model::{DayWindow, Time};
use limo_tests::{Cluster, Setup, until};
use nix::sys::stat::Mode;

/// Returns the name of a node, and a window of an hour at most in which its turn comes after some seconds. All turns of a
/// node are at the same second of a minute.
fn turn_soon() -> (String, String) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = Time::from_unix_ms(i64::try_from(since.as_millis()).expect("before the year 292278994"));
    let minute = now.unix_ms() / 60_000 % 1440;
    let shown = |all: i64| format!("{:02}:{:02}", all / 60, all % 60);
    let begins = (minute - 60).max(0)..=minute;
    let windows = begins.flat_map(|from| (3..=60).map(move |length| (from, from + length)));
    let windows: Vec<(i64, i64)> = windows.filter(|(_, until)| *until <= 1440).collect();
    let of_node = |name: String| {
        let mut texts = windows.iter().map(|(from, until)| format!("{}-{}", shown(*from), shown(*until)));
        let window = texts.find(|text| {
            let (turn, until) = text.parse::<DayWindow>().expect("a window").next_turn(&name, now);
            (10_000..14_000).contains(&(turn - now).ms()) && (until - turn).ms() > 60_000
        });
        window.map(|window| (name, window))
    };
    (1..1_000).map(|number| format!("n{number}")).find_map(of_node).expect("it is not the last minute of a day")
}

fn is(cluster: &Cluster, name: &str, (state, reason): (&str, &str)) {
    until(&format!("{name} is {state} because of `{reason}`"), || {
        let node = cluster.node_report(name)?;
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
    let (name, window) = turn_soon();
    let setup = Setup::default().master(&["--config", master.to_str().expect("text")]);
    let mut cluster = setup.node(&name, &["--cpus", "1", "--config", node.to_str().expect("text")]).start();
    let submitter = cluster.submitter().clone();
    let gate = submitter.path("gate");
    nix::unistd::mkfifo(&gate, Mode::S_IRWXU).expect("made");
    let job = submitter.detach(&["sh", "-c", "read line < gate"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let group =
        format!("[group.desks]\nnodes = [\"{name}\"]\nreboot = {{ window = \"{window}\", defer = \"until-end\" }}\n");
    fs::write(&master, group).expect("written");
    cluster.reload_master();
    is(&cluster, &name, ("drained", "reboots when its jobs have ended"));
    let next = submitter.detach(&["true"]);
    assert_eq!(submitter.state(next), "waiting");
    fs::write(&gate, "go\n").expect("read");
    assert_eq!(submitter.wait(job), Some(0));
    cluster.collect_node(&name);
    assert_eq!(fs::read_to_string(&boot).expect("readable"), "second\n");
    is(&cluster, &name, ("unreachable", "reboots"));
    cluster.start_node(&name);
    assert_eq!(submitter.wait(next), Some(0));
    is(&cluster, &name, ("up", ""));
    assert_eq!(cluster.node_report(&name).expect("known")["reason"], serde_json::Value::Null);
    assert!(cluster.master_log().contains("the node has rebooted"), "{}", cluster.master_log());
    let listed = submitter.lconf(&["group", "list"]).succeeded();
    assert!(listed.contains(&format!("reboot {window} when jobs have ended")), "{listed}");
}
