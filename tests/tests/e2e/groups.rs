//! The limit of a rack is lowered and held: real processes of real daemons, with emulated watts.

use std::fs;

use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");

fn group(submitter: &Submitter) -> Value {
    let told = submitter.lconf(&["group", "list", "--json"]).succeeded();
    let mut value: Value = serde_json::from_str(&told).expect("JSON");
    value["groups"][0].take()
}

/// Waits for the sum of the draws of both nodes.
fn await_draw(cluster: &Cluster, is_so: impl Fn(f64) -> bool, what: &str) {
    until(what, || {
        let draws = ["n1", "n2"].map(|name| cluster.node_report(name).and_then(|node| node["draw_w"].as_f64()));
        is_so(draws[0]? + draws[1]?).then_some(())
    });
}

#[test]
fn a_lowered_limit_of_a_rack_is_held() {
    let directory = tempfile::tempdir().expect("a directory");
    let [settings, hardware] = ["lmaster.toml", "hardware.toml"].map(|name| directory.path().join(name));
    fs::write(&settings, "[group.rack]\nnodes = [\"n[1-2]\"]\nlimit = \"200 W\"\n").expect("written");
    let text = fs::read_to_string(HARDWARE).expect("readable").replace("name = \"n1\"", "name = \"n2\"");
    fs::write(&hardware, text).expect("written");
    let options = ["--readings-every", "20ms", "--least-off", "100ms", "--least-on", "100ms"];
    let config = ["--config", settings.to_str().expect("text")];
    let node = |hardware| ["--hardware", hardware, "--reading-interval", "100ms"];
    let setup = Setup::default().master(&[&options[..], &config].concat()).node("n1", &node(HARDWARE));
    let mut cluster = setup.node("n2", &node(hardware.to_str().expect("text"))).start();
    let submitter = cluster.submitter().clone();
    for name in ["n1", "n2"] {
        submitter.detach(&["--app", "steady", "-w", name, "sleep", "1000"]);
    }
    await_draw(&cluster, |draw| draw > 139.0, "70 W on each node");
    submitter.lconf(&["group", "limit", "rack", "80W"]).succeeded();
    await_draw(&cluster, |draw| draw <= 80.0, "80 W on both nodes");
    let job = submitter.detach(&["--app", "steady", "true"]);
    assert_eq!(submitter.state(job), "waiting");
    cluster.kill_master();
    cluster.start_master();
    ["n1", "n2"].into_iter().for_each(|name| cluster.await_node(name));
    until("the draw is known", || group(&submitter)["draw_w"].as_f64().filter(|draw| *draw <= 80.0).map(|_| ()));
    assert_eq!((&group(&submitter)["limit_w"], &group(&submitter)["configured_w"]), (&80.0.into(), &200.0.into()));
    submitter.lconf(&["group", "limit", "rack", "0W"]).failed("group.rack: limit is 0.0 W: it must be above 0 W");
    submitter.lconf(&["group", "limit", "rack", "200W"]).succeeded();
    await_draw(&cluster, |draw| draw > 139.0, "70 W on each node again");
}
