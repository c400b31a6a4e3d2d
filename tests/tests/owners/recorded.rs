//! The history of a pool with owners, simulated by `lsim what-if`.

use std::fs;
use std::time::Duration;

use limo_tests::{Cluster, Setup, until};
use serde_json::Value;

use crate::desk::Desk;
use crate::{AWAY_AFTER, pause};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_limo-workload");

/// Machines of 10 W at rest. The application draws 24 W more.
const MACHINE: &str = r#"
[[machine]]
name = "NAME"
cores = 4
memory = "1 GiB"
idle = "10 W"
reading_noise = "0.1%"

[[machine.unit]]
name = "cpu"
hardware = "small"
kind = "cpu"
nameplate = "40 W"
power_noise = "1%"

[machine.unit.application]
burn = { power = "24 W", duration = "3s" }
"#;

const NAMES: [&str; 2] = ["n1", "n2"];

/// Time between two decisions. Without it, a difference of some milliseconds between the history and the simulation changes their order.
const APART: Duration = Duration::from_millis(500);

/// Bound of the relative difference of energies.
const ENERGY_PART: f64 = 0.02;

/// Waits until the job runs, and returns its node.
fn node_of(cluster: &Cluster, job: u64) -> String {
    until("the job runs", || {
        let report = cluster.submitter().job(job);
        (report["state"] == "running").then(|| report["nodes"][0].as_str().map(str::to_owned))?
    })
}

#[test]
fn a_simulation_of_recorded_owners_has_the_same_evictions_and_energy() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (settings, hardware) = (place("lmaster.toml"), place("hardware.toml"));
    let owners = "{ jobs = \"suspend\", start_after = \"300ms\", evict_after = \"1s\" }";
    fs::write(&settings, format!("[group.desks]\nnodes = [\"n[1-2]\"]\nowners = {owners}\n")).expect("written");
    fs::write(&hardware, NAMES.map(|name| MACHINE.replace("NAME", name)).concat()).expect("written");
    let mut desks = NAMES.map(|name| Desk::new(name, directory.path(), 1));
    let away_after = format!("{}ms", AWAY_AFTER.as_millis());
    let mut setup = Setup::default().master(&["--kill-grace", "1s", "--config", &settings]);
    for name in NAMES {
        let owner = ["--owner", "input", "--owner-away-after", &away_after, "--dev", &place(name)];
        let machine = ["--hardware", &hardware, "--reading-interval", "20ms"];
        setup = setup.node(name, &[&owner[..], &machine].concat());
    }
    let cluster = setup.start();
    let submitter = cluster.submitter();
    // Without a profile, the master assumes the nameplate draw of a job until it is measured.
    submitter.lconf(&["profile", "set", "burn", "small", "--duration", "3s", "--power", "24W"]).succeeded();
    let mut evictions = Vec::new();
    for is_evicted in [true, false, true, true] {
        let job = submitter.detach(&["--requeue", "--app", "burn", "--cores", "4", WORKLOAD]);
        let node = node_of(&cluster, job);
        let desk = desks.iter_mut().find(|desk| desk.name == node).expect("a desk");
        pause(APART);
        if is_evicted {
            evictions.push((job, 1, node.clone()));
            until("the job runs elsewhere", || {
                desk.press();
                let report = submitter.job(job);
                (report["state"] == "running" && report["nodes"][0] != node.as_str()).then_some(())
            });
        } else {
            desk.press();
            until("the job is suspended", || (submitter.state(job) == "suspended").then_some(()));
        }
        assert_eq!(submitter.wait(job), Some(0));
        pause(APART);
    }
    let state = cluster.state_dir().to_str().expect("text");
    let ran = submitter.run("lsim", &["what-if", "--from", state, "--set", "depth=100", "--json"]).succeeded();
    let report: Value = serde_json::from_str(&ran).expect("JSON");
    let joules = |column: &Value| column["energy_j"].as_f64().expect("a number");
    let columns = report["columns"].as_array().expect("columns");
    let lived = joules(&columns[0]);
    for column in columns {
        let listed = column["evictions"].as_array().expect("a list").iter();
        let listed: Vec<_> =
            listed.map(|one| (one["job"].as_u64(), one["attempt"].as_u64(), one["node"].as_str())).collect();
        let expected: Vec<_> =
            evictions.iter().map(|(job, attempt, node)| (Some(*job), Some(*attempt), Some(node.as_str()))).collect();
        assert_eq!(listed, expected, "{report:#}");
        assert_eq!(column["ended"], 4, "{report:#}");
        let part = joules(column) / lived - 1.0;
        println!("{}: {:.1} J, {:+.2} %", column["name"], joules(column), part * 100.0);
        assert!(part.abs() < ENERGY_PART, "{report:#}");
    }
    // All jobs ended with a known time, although three were evicted and one was suspended.
    assert_eq!((&report["running_times"]["unsteady"], &report["running_times"]["stretched"]), (&0.into(), &0.into()));
}
