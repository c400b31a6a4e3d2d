//! Settings take effect at once, and survive a crash.

use std::fs;

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

fn settings(submitter: &Submitter) -> Value {
    serde_json::from_str(&submitter.lconf(&["show", "--json"]).succeeded()).expect("JSON")
}

#[test]
fn limits_mode_policy_and_price_are_set_and_survive_a_crash() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    assert_eq!(submitter.lconf(&["set", "limits", "39W", "0.06 kW"]).succeeded(), "");
    submitter.lconf(&["set", "mode", "low"]).succeeded();
    submitter.lconf(&["set", "policy", "limo-prototype"]).succeeded();
    fs::write(submitter.path("prices.csv"), "time,price\n2026-01-01 00:00,80 EUR/MWh\n2100-01-01 00:00,-20 EUR/MWh\n")
        .expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).succeeded();
    let before = settings(&submitter);
    assert_eq!((&before["band_low_w"], &before["band_high_w"]), (&39.0.into(), &60.0.into()));
    assert_eq!((&before["mode"], &before["mode_setting"]), (&"low".into(), &"low".into()));
    assert_eq!((&before["policy"], &before["price_per_mwh"]), (&"limo-prototype".into(), &80.0.into()));
    cluster.kill_master();
    cluster.start_master();
    assert_eq!(settings(&submitter), before);
}

#[test]
fn wrong_settings_are_refused_and_change_nothing() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let before = settings(submitter);
    let crossed = "the lower limit 90.0 W is above the upper limit 60.0 W";
    submitter.lconf(&["set", "limits", "90W", "60W"]).failed(crossed);
    submitter.lconf(&["set", "limits", "39", "60"]).failed("`39` has no unit");
    submitter.lconf(&["set", "mode", "middle"]).failed("middle");
    submitter.lconf(&["set", "policy", "lifo"]).failed("fifo, limo-prototype, limo");
    submitter.lconf(&["set", "price", "missing.csv"]).failed("missing.csv");
    fs::write(submitter.path("prices.csv"), "time,price\n2026-10-26 00:00,80 EUR/MWh\n2026-10-26 01:00,cheap\n")
        .expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).failed("prices.csv: line 3, column 2 (price): `cheap`");
    fs::write(submitter.path("limits.csv"), "time,low,high\n2026-10-26 00:00,90 W,60 W\n").expect("written");
    submitter
        .lconf(&["set", "limits", "--curve", "limits.csv"])
        .failed("limits.csv: line 2, column 2 (low): the lower");
    submitter.lconf(&["node", "drain", "n7", "--reason", "x"]).failed("there is no node `n7`");
    assert_eq!(settings(submitter), before);
}

#[test]
fn a_limit_holds_a_job_back_until_it_is_raised() {
    let cluster = Setup::default().node("n1", &["--cpus", "1", "--idle", "5 W", "--nameplate", "10 W"]).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "limits", "none", "12W"]).succeeded();
    let job = submitter.detach(&["true"]);
    let reason = until("the job waits for the band", || {
        let job = submitter.job(job);
        (job["wait_kind"] == "band").then(|| job["wait_reason"].as_str().expect("a text").to_owned())
    });
    assert!(reason.contains("needs 10.0 W"), "{reason}");
    submitter.lconf(&["set", "limits", "none", "20W"]).succeeded();
    assert_eq!(submitter.wait(job), Some(0));
}

#[test]
fn a_drained_node_gets_no_job_until_it_is_resumed() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lconf(&["node", "drain", "n1", "--reason", "new disk"]).succeeded();
    let report = cluster.node_report("n1").expect("known");
    assert_eq!(report["state"], "drained");
    assert!(report["reason"].as_str().is_some_and(|reason| reason.contains("new disk")), "{report}");
    let job = submitter.detach(&["true"]);
    until("the job has a reason to wait", || submitter.job(job)["wait_reason"].is_string().then_some(()));
    submitter.lconf(&["node", "resume", "n1"]).succeeded();
    assert_eq!(submitter.wait(job), Some(0));
}
