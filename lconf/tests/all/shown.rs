//! Output of `lconf` about the settings, the cluster and its nodes.

use limo_fake::{answer, node, status};
use limo_model::{Band, IdleRule, Mode, ModeSetting, Parts, PlacementRule, Power, Preset, Span, Time};
use limo_proto::{
    Answer, FeedKind, FeedReport, ForeignReport, GridLimit, GridReport, GridState, GroupDraw, MasterToClient,
    MeterReport, NodeDetail, NodeQuery, NodesQuery, Query, Status, StatusQuery,
};
use serde_json::{Value, json};

use crate::{answered, ask, printed};

async fn shown(args: &[&str], status: Status) -> String {
    let (output, asked) = answered(args, answer(Answer::Status(Box::new(status)))).await;
    assert_eq!(asked, [ask(Query::Status(StatusQuery))]);
    output
}

async fn parsed(args: &[&str], status: Status) -> Value {
    let output = shown(args, status).await;
    let text = output.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    serde_json::from_str(text.unwrap_or_else(|| panic!("{output}"))).expect("JSON")
}

#[tokio::test]
async fn the_settings() {
    let expected = "\
        policy   limo\n\
        mode     auto, now high\n\
        limits   40.0 W to 60.0 W; from 2017-10-26 12:00 20.0 W to 90.0 W\n\
        budgets  none\n\
        price    80 EUR/MWh; from 2017-10-26 12:00 -20 EUR/MWh\n";
    assert_eq!(shown(&["show"], status()).await, printed(expected));
    let bare = Status {
        band: Band::UNLIMITED,
        next_band: None,
        price: None,
        next_price: None,
        mode: Mode::Low,
        mode_setting: ModeSetting::Low,
        ..status()
    };
    let expected = "policy   limo\nmode     low\nlimits   no limits\nbudgets  none\nprice    unknown\n";
    assert_eq!(shown(&["show"], bare).await, printed(expected));
}

#[tokio::test]
async fn a_band_that_the_policy_ignores() {
    let output = shown(&["status"], Status { policy: Preset::Easy, parts: Preset::Easy.parts(), ..status() }).await;
    let band = "band       40.0 W [##########..........] 60.0 W, inside; the policy easy ignores it\n";
    assert!(output.contains(band), "{output}");
}

/// The parts in force count, and those that are not the preset's are named.
#[tokio::test]
async fn a_policy_with_parts_of_its_own() {
    let parts = Parts { placement: PlacementRule::LeastEnergy, idle: IdleRule::PowerOff, ..Preset::Energybud.parts() };
    let status = Status { policy: Preset::Energybud, parts, ..status() };
    let output = shown(&["status"], status.clone()).await;
    let lines = "policy     energybud with placement=least-energy idle=power-off\n\
                 parts      order=easy admission=ledger placement=least-energy caps=untouched idle=power-off\n\
                 promises   never spends more than the budget of a period\n";
    assert!(output.contains(lines), "{output}");
    let output = shown(&["show"], status.clone()).await;
    assert!(output.contains("policy   energybud with placement=least-energy idle=power-off\n"), "{output}");
    let found = parsed(&["status", "--json"], status).await;
    assert_eq!(found["parts_replaced"], json!(["placement", "idle"]));
    assert_eq!(found["parts"]["placement"], "least-energy");
    assert_eq!(found["policy"], "energybud");
}

#[tokio::test]
async fn a_policy_without_the_budget_that_it_keeps() {
    let output = shown(&["status"], Status { policy: Preset::Energybud, ..status() }).await;
    assert!(output.contains("budget     none, but the policy energybud needs one\n"), "{output}");
}

#[tokio::test]
async fn costs_that_are_not_known() {
    let unknown = || Status { cost: None, jobs_cost: None, jobs_start_now_cost: None, ..status() };
    let output = shown(&["status"], unknown()).await;
    let expected = "energy     0.100 kWh emulated\ncost       -\njobs cost  - (started at once: -)\n";
    assert!(output.contains(expected), "{output}");
    let found = parsed(&["status", "--json"], unknown()).await;
    for key in ["cost", "jobs_cost", "jobs_start_now_cost"] {
        assert_eq!(found[key], Value::Null, "{key}");
    }
}

#[tokio::test]
async fn curves_that_end_and_that_have_ended() {
    let noon = Time::from_unix_ms(1_509_019_200_000);
    let ending = Status { next_price: Some((noon, None)), next_band: Some((noon, Band::UNLIMITED)), ..status() };
    let output = shown(&["show"], ending).await;
    assert!(output.contains("limits   40.0 W to 60.0 W; from 2017-10-26 12:00 no limits\n"), "{output}");
    assert!(output.contains("price    80 EUR/MWh; from 2017-10-26 12:00 unknown\n"), "{output}");
    let ended = || Status {
        band: Band::UNLIMITED,
        next_band: None,
        limits_ended: Some(noon),
        price: None,
        next_price: None,
        prices_ended: Some(noon),
        ..status()
    };
    let output = shown(&["status"], ended()).await;
    assert!(output.contains("band       no limits; the limits that were set ended at 2017-10-26 12:00\n"), "{output}");
    assert!(output.contains("price      unknown; the prices ended at 2017-10-26 12:00\n"), "{output}");
    let output = shown(&["show"], ended()).await;
    assert!(output.contains("limits   no limits; the limits that were set ended at 2017-10-26 12:00\n"), "{output}");
    let found = parsed(&["status", "--json"], ended()).await;
    let keys = ["limits_ended_unix_ms", "prices_ended_unix_ms"].map(|key| found[key].as_i64());
    assert_eq!(keys, [Some(1_509_019_200_000); 2]);
    assert_eq!((&found["next_price"], &found["price_per_mwh"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn the_cluster_now() {
    let expected = "\
        draw       50.0 W emulated (15.0 W of it idle)\n\
        band       40.0 W [##########..........] 60.0 W, inside\n\
        then       20.0 W to 90.0 W from 2017-10-26 12:00\n\
        in band    97.5 % of the time\n\
        policy     limo\n\
        parts      order=conservative admission=band placement=by-price caps=moved idle=stay-on\n\
        promises   starts nothing that takes the draw above the upper limit\n\
        mode       auto, now high\n\
        price      80 EUR/MWh; from 2017-10-26 12:00 -20 EUR/MWh\n\
        jobs       2 running, 3 waiting\n\
        nodes      3 of 4 up\n\
        energy     0.100 kWh emulated\n\
        cost       0.008 EUR\n\
        jobs cost  0.005 EUR (started at once: 0.008 EUR)\n";
    assert_eq!(shown(&["status"], status()).await, printed(expected));
    let trouble = Some("the journal's disk is full".to_owned());
    let troubled = Status { trouble, rejected_plans: 2, draw: Power::from_watts(75), ..status() };
    let output = shown(&["status"], troubled).await;
    for line in [
        "TROUBLE    new jobs are refused: the journal's disk is full\n",
        "band       40.0 W [####################] 60.0 W, above by 15.0 W emulated\n",
        "rejected   2 plans broke a rule and were not executed\n",
    ] {
        assert!(output.contains(line), "{output}");
    }
}

#[tokio::test]
async fn jobs_of_other_journals() {
    let found = |node: &str, jobs| ForeignReport { node: node.into(), at: Time::from_unix_ms(1_509_026_400_000), jobs };
    let status = || Status { foreign: vec![found("n1", 1), found("n2", 3)], ..status() };
    let output = shown(&["status"], status()).await;
    for line in [
        "FOREIGN    n1 had 1 job of another journal at 2017-10-26 14:00, which was ended: submit it again if still wanted\n",
        "FOREIGN    n2 had 3 jobs of another journal at 2017-10-26 14:00, which were ended: submit them again if still wanted\n",
    ] {
        assert!(output.contains(line), "{output}");
    }
    let found = parsed(&["status", "--json"], status()).await;
    assert_eq!(found["foreign"][0], json!({"node": "n1", "at_unix_ms": 1_509_026_400_000_i64, "jobs": 1}));
}

#[tokio::test]
async fn groups_with_limits() {
    let rack = GroupDraw { name: "rack".into(), draw: Power::from_mw(48_500), limit: Power::from_watts(90) };
    let status = || Status { groups: vec![rack.clone()], ..status() };
    let output = shown(&["status"], status()).await;
    assert!(output.contains("group      rack: 48.5 W emulated of 90.0 W\n"), "{output}");
    let found = parsed(&["status", "--json"], status()).await;
    assert_eq!(found["groups"], json!([{"name": "rack", "draw_w": 48.5, "limit_w": 90.0}]));
}

#[tokio::test]
async fn meters_at_the_master() {
    let meter = |serves: Option<&str>, draw, failing: Option<&str>| MeterReport {
        source: "shelly:http://plug1".into(),
        serves: serves.map(|node| vec![node.to_owned(), "n9".to_owned()]),
        draw,
        failing: failing.map(str::to_owned),
    };
    let meters = vec![
        meter(Some("n1"), Some(Power::from_mw(41_500)), None),
        meter(None, None, Some("no route to host")),
        meter(None, None, None),
    ];
    let output = shown(&["status"], Status { meters: meters.clone(), ..status() }).await;
    for line in [
        "meter      shelly:http://plug1 of n1, n9: 41.5 W\n",
        "meter      shelly:http://plug1 of all nodes: FAILS, the draw of its nodes is estimated: no route to host\n",
        "meter      shelly:http://plug1 of all nodes: no recent reading\n",
    ] {
        assert!(output.contains(line), "{output}");
    }
    let found = parsed(&["status", "--json"], Status { meters, ..status() }).await;
    let first = json!({"source": "shelly:http://plug1", "serves": ["n1", "n9"], "draw_w": 41.5, "failing": null});
    assert_eq!((&found["meters"][0], &found["meters"][1]["serves"]), (&first, &Value::Null));
    assert_eq!(found["meters"][1]["failing"], "no route to host");
}

#[tokio::test]
async fn as_json() {
    let settings = json!({
        "schema": 1, "policy": "limo", "mode_setting": "auto", "mode": "high", "band_low_w": 40.0, "band_high_w": 60.0,
        "next_band": {"at_unix_ms": 1_509_019_200_000_i64, "band_low_w": 20.0, "band_high_w": 90.0},
        "budgets": [], "currency": "EUR", "price_per_mwh": 80.0,
        "next_price": {"at_unix_ms": 1_509_019_200_000_i64, "price_per_mwh": -20.0},
        "limits_ended_unix_ms": null, "prices_ended_unix_ms": null, "explore_percent": 0.0,
        "parts": {"order": "conservative", "admission": "band", "placement": "by-price", "caps": "moved", "idle": "stay-on"},
        "parts_replaced": [], "promises": ["starts nothing that takes the draw above the upper limit"],
    });
    assert_eq!(parsed(&["show", "--json"], status()).await, settings);
    let mut expected = settings;
    let now = json!({
        "budget": null, "now_unix_ms": 1_509_015_600_000_i64, "draw_w": 50.0, "idle_w": 15.0, "emulated": true, "waiting": 3, "running": 2,
        "nodes_up": 3, "nodes_asleep": 0, "asleep_energy_j": 0.0, "switching_energy_j": 0.0, "nodes": 4, "energy_j": 360_000.0, "currency": "EUR", "cost": 0.008, "jobs_cost": 0.005,
        "jobs_start_now_cost": 0.0075, "in_band_share": 0.975, "rejected_plans": 0, "trouble": null, "prices_by": null,
        "feeds": [], "own_band": null, "grid": [], "meters": [], "unreachable": [], "held_w": 0.0, "foreign": [], "groups": [], "licences": [],
    });
    let (Value::Object(all), Value::Object(now)) = (&mut expected, now) else { unreachable!("two objects") };
    all.extend(now);
    assert_eq!(parsed(&["status", "--json"], status()).await, expected);
    let unlimited = Status { band: Band::UNLIMITED, ..status() };
    assert_eq!(parsed(&["show", "--json"], unlimited).await["band_high_w"], Value::Null);
}

#[tokio::test]
async fn feeds() {
    let eleven = status().now;
    let later = |hours: i64| eleven + Span::from_secs(hours * 3600);
    let good = FeedReport {
        name: "awattar DE".into(),
        of: FeedKind::Price,
        currency: "EUR".into(),
        last_success: Some(eleven),
        last_error: None,
        known_until: Some(later(13)),
    };
    let bad = FeedReport {
        name: "uk".into(),
        of: FeedKind::Carbon,
        currency: "g".into(),
        last_success: None,
        last_error: Some((eleven, "https://h/: status 500".into())),
        known_until: None,
    };
    let open =
        FeedReport { known_until: Some(Time::MAX), name: "octopus C".into(), currency: "GBP".into(), ..good.clone() };
    let status = Status { prices_by: Some("ada".into()), feeds: vec![good, open, bad], ..status() };
    let output = shown(&["status"], status.clone()).await;
    let lines = "\
        price by   ada, not by a feed; `lconf set price feed` follows the feeds again\n\
        feed       awattar DE in EUR: answered 2017-10-26 11:00, known until 2017-10-27 00:00\n\
        feed       octopus C in GBP: answered 2017-10-26 11:00, known until further notice\n\
        carbon     uk in g/kWh: no answer yet, no current value is known; failed 2017-10-26 11:00: https://h/: status 500\n";
    assert!(output.contains(lines), "{output}");
    let parsed = parsed(&["status", "--json"], status).await;
    assert_eq!(parsed["prices_by"], "ada");
    let expected = json!({
        "name": "uk", "of": "carbon", "currency": "g", "last_success_unix_ms": null, "known_until_unix_ms": null,
        "last_error": {"at_unix_ms": 1_509_015_600_000_i64, "reason": "https://h/: status 500"},
    });
    assert_eq!(parsed["feeds"][2], expected);
    assert_eq!(parsed["feeds"][0]["known_until_unix_ms"], 1_509_062_400_000_i64);
}

#[tokio::test]
async fn nodes() {
    let nodes = || answer(Answer::Nodes(vec![node("n1")]));
    let (output, asked) = answered(&["node", "list"], nodes()).await;
    assert!(output.contains("\nn1    up     -      48.5 W emulated  15.0 W"), "{output}");
    assert_eq!(asked, [ask(Query::Nodes(NodesQuery))]);
    let (output, _) = answered(&["node", "list", "--json"], nodes()).await;
    assert!(output.contains("{\"schema\":1,\"nodes\":[{\"name\":\"n1\",\"state\":\"up\","), "{output}");
}

#[tokio::test]
async fn sources_of_external_limits_are_shown() {
    let band = |low, high| Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band");
    let at_noon = status().next_band.expect("a next band").0;
    let source = |name: &str, state, limit| GridReport { name: name.into(), state, heard: None, fault: None, limit };
    let limit = |until, emergency| Some(GridLimit { band: band(0, 60), until, emergency });
    let grid = vec![
        source("dso", GridState::Ok, limit(Some(at_noon), false)),
        source("alarm", GridState::Failsafe, limit(None, true)),
        GridReport { fault: Some("status 500".into()), ..source("file", GridState::Stale, None) },
    ];
    let status = Status { own_band: Some(band(40, 90)), grid, ..status() };
    let text = shown(&["status"], status.clone()).await;
    let expected = "\
        own band   40.0 W to 90.0 W; the grid has changed it\n\
        grid       dso: ok, at most 60.0 W until 2017-10-26 12:00\n\
        grid       alarm: failsafe, emergency, at most 60.0 W\n\
        grid       file: stale, no limit (status 500)\n";
    assert!(text.contains(expected), "{text}");
    let shown = parsed(&["status", "--json"], status).await;
    assert_eq!(shown["own_band"], json!({"band_low_w": 40.0, "band_high_w": 90.0}));
    let expected =
        json!({"band_low_w": null, "band_high_w": 60.0, "until_unix_ms": at_noon.unix_ms(), "emergency": false});
    assert_eq!(shown["grid"][0]["limit"], expected);
    assert_eq!((&shown["grid"][2]["state"], &shown["grid"][2]["fault"]), (&json!("stale"), &json!("status 500")));
}

fn detail(probe: Result<&str, &str>) -> MasterToClient {
    let probe = probe.map(str::to_owned).map_err(str::to_owned);
    answer(Answer::Node(Box::new(NodeDetail { report: node("n1"), probe })))
}

#[tokio::test]
async fn one_node() {
    let report = "processor   xeon, 8 cores\nmeter       in use: \u{1b}[2J41.5 W\n";
    let (output, asked) = answered(&["node", "show", "n1"], detail(Ok(report))).await;
    assert_eq!(asked, [ask(Query::Node(NodeQuery("n1".into())))]);
    assert!(output.contains("\nn1    up     -      48.5 W emulated  15.0 W"), "{output}");
    let end = "\n\
        cpu         can be capped from 8.0 W to 60.0 W; not capped\n\
        gpu         cannot be capped\n\n\
        processor   xeon, 8 cores\n\
        meter       in use: \\u{1b}[2J41.5 W\n\
        --- stderr\n";
    assert!(output.ends_with(end), "{output}");
    let (output, _) = answered(&["node", "show", "n1"], detail(Err("the node is unreachable"))).await;
    assert!(
        output.ends_with("\n\nthe node cannot report its hardware: the node is unreachable\n--- stderr\n"),
        "{output}"
    );
}

#[tokio::test]
async fn one_node_as_json() {
    let shown = async |probe| {
        let (output, _) = answered(&["node", "show", "n1", "--json"], detail(probe)).await;
        let text = output.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
        serde_json::from_str::<Value>(text.unwrap_or_else(|| panic!("{output}"))).expect("JSON")
    };
    let found = shown(Ok("a line\n")).await;
    assert_eq!((&found["schema"], &found["node"]["name"]), (&json!(1), &json!("n1")));
    assert_eq!((&found["probe"], &found["probe_error"]), (&json!("a line\n"), &Value::Null));
    let found = shown(Err("the node is unreachable")).await;
    assert_eq!((&found["probe"], &found["probe_error"]), (&Value::Null, &json!("the node is unreachable")));
}
