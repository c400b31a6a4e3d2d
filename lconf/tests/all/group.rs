//! `lconf group`.

use limo_fake::answer;
use limo_model::{Beside, Power, Span};
use limo_proto::{Answer, Change, GroupReport, OwnersReport};

use crate::{answered, change, printed};

#[tokio::test]
async fn the_limit_of_a_group_is_set() {
    let (output, asked) = answered(&["group", "limit", "rack-2", "4.5kW"], answer(Answer::Done)).await;
    let expected = change(Change::GroupLimit { group: "rack-2".into(), limit: Power::from_watts(4_500) });
    assert_eq!((output, asked), (printed(""), vec![expected]));
}

#[tokio::test]
async fn groups_are_listed_with_their_draws_and_limits() {
    let group = GroupReport {
        name: "rack-2".into(),
        draw: Power::from_mw(4_200_000),
        limit: Power::from_watts(4_000),
        configured: Power::from_watts(4_500),
        nodes: "n[1-8]".into(),
        known: 7,
        owners: Some(OwnersReport {
            jobs: Beside::Suspend,
            start_after: Span::from_secs(900),
            evict_after: Span::from_secs(90),
        }),
        sleep_after: Some("30min".into()),
        wake: false,
        reboot: Some("03:00-05:00".into()),
        reboot_deferred: true,
    };
    let found = || answer(Answer::Groups(vec![group.clone()]));
    let stdout = |output: String| {
        let (_, rest) = output.split_once("--- stdout\n").expect("a snapshot");
        rest.split_once("--- stderr").expect("a snapshot").0.to_owned()
    };
    let (output, _) = answered(&["group", "list"], found()).await;
    let words = stdout(output).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let table = "GROUP DRAW LIMIT CONFIGURED OWNERS RULES KNOWN NODELIST rack-2 4200.0 W 4000.0 W 4500.0 W \
                 suspend, evict after 1min30s, start after 15min sleep after 30min, woken by no job, \
                 reboot 03:00-05:00 when jobs have ended 7 n[1-8]";
    assert_eq!(words.join(" "), table);
    let (output, _) = answered(&["--json", "group", "list"], found()).await;
    let json: serde_json::Value = serde_json::from_str(&stdout(output)).expect("JSON");
    let expected = serde_json::json!({
        "name": "rack-2", "draw_w": 4200.0, "limit_w": 4000.0, "configured_w": 4500.0, "nodes": "n[1-8]", "nodes_known": 7,
        "owners": { "jobs": "suspend", "start_after_s": 900.0, "evict_after_s": 90.0 },
        "sleep_after": "30min", "wake": false, "reboot": { "window": "03:00-05:00", "defer": "until-end" }
    });
    assert_eq!(json["groups"][0], expected);
}
