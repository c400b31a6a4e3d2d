//! A cluster whose prices are in DKK.

use limo_tests::{Cluster, Setup, Submitter};
use serde_json::Value;

fn json(submitter: &Submitter, program: &str, arguments: &[&str]) -> Value {
    let all = [arguments, &["--json"]].concat();
    serde_json::from_str(&submitter.run(program, &all).succeeded()).expect("JSON")
}

fn file(submitter: &Submitter, name: &str, text: &str) {
    std::fs::write(submitter.path(name), text).expect("written");
}

#[test]
fn amounts_are_in_the_currency_of_the_cluster_and_others_are_refused() {
    let mut cluster = Setup::nodes(1, 1).master(&["--currency", "DKK"]).start();
    let submitter = cluster.submitter().clone();
    let status = json(&submitter, "lconf", &["status"]);
    assert_eq!((&status["currency"], &status["cost"]), (&"DKK".into(), &Value::Null));
    let hours = "2026-01-01T00:00:00Z,600.5\n2100-01-01T00:00:00Z,\n";
    file(&submitter, "eur.csv", &format!("time,price_eur_per_mwh\n{hours}"));
    file(&submitter, "dkk.csv", &format!("time,price_dkk_per_mwh\n{hours}"));
    let refused = "DKK is another currency than EUR: all prices and amounts of a cluster must be in one";
    submitter.lconf(&["set", "price", "eur.csv"]).failed(refused);
    submitter.lconf(&["set", "price", "dkk.csv"]).succeeded();
    let shown = submitter.lconf(&["status"]).succeeded();
    assert!(shown.contains("600.50 DKK/MWh") && !shown.contains("EUR"), "{shown}");
    let settings = json(&submitter, "lconf", &["show"]);
    assert_eq!((&settings["price_per_mwh"], &settings["currency"]), (&600.5.into(), &"DKK".into()));

    submitter.lrun(&["--cost-limit", "1 EUR", "true"]).failed(refused);
    submitter.lrun(&["--cost-limit", "4 DKK", "true"]).succeeded();
    let job = submitter.job(1);
    assert_eq!((&job["currency"], &job["cost_limit"]), (&"DKK".into(), &4.0.into()));
    let energy = json(&submitter, "lq", &["energy"]);
    assert_eq!((&energy["currency"], &energy["total"]["cost"]), (&"DKK".into(), &job["cost"]));
    let shown = submitter.lq(&["show", "1"]).succeeded();
    assert!(shown.contains("4.000 DKK") && !shown.contains("EUR"), "{shown}");

    // The costs of the journal are in DKK.
    cluster.kill_master();
    let state = cluster.state_dir().to_str().expect("plain").to_owned();
    let euros = submitter.run("lmaster", &["--state-dir", &state, "--currency", "EUR"]);
    let remedy = "the prices and costs in the journal are in DKK: write `currency = \"DKK\"`";
    assert!(euros.code == Some(1) && euros.stderr.contains(remedy), "{euros:?}");
    cluster.start_master();
    assert_eq!(submitter.job(1)["currency"], "DKK");
}

#[test]
fn prices_without_a_currency_setting_are_in_euros() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    file(submitter, "gbp.csv", "time,price\n2026-01-01 00:00,80 GBP/MWh\n2100-01-01 00:00,\n");
    let expected = "EUR is another currency than GBP: all prices and amounts of a cluster must be in one";
    submitter.lconf(&["set", "price", "gbp.csv"]).failed(expected);
}
