//! `lconf readings` as a table, CSV and JSON.

use limo_fake::answer;
use limo_model::{Drawn, Energy, Power, Span, Time};
use limo_proto::{Answer, ClientToMaster, MasterToClient, Query, ReadingsQuery};
use serde_json::{Value, json};

use crate::{answered, failed, printed};

/// 2017-10-26 11:00:00 UTC.
const ELEVEN: i64 = 1_509_015_600_000;

fn readings() -> MasterToClient {
    let drawn = Drawn {
        at: Time::from_unix_ms(ELEVEN),
        mean: Power::from_mw(41_500),
        low: Power::from_watts(40),
        high: Power::from_watts(43),
        energy: Energy::from_joules(2_490),
        seen: Span::from_secs(60),
        looks: 59,
    };
    let later = Drawn { at: Time::from_unix_ms(ELEVEN + 60_000), seen: Span::from_secs(30), ..drawn };
    answer(Answer::Readings { emulated: true, intervals: vec![drawn, later] })
}

const RANGE: [&str; 4] = ["--from", "2017-10-26 11:00", "--until", "2017-10-26 12:00"];

#[tokio::test]
async fn a_table_of_a_node() {
    let (output, asked) = answered(&[&["readings", "n1"], &RANGE[..]].concat(), readings()).await;
    let query = Query::Readings(ReadingsQuery {
        node: Some("n1".into()),
        from: Time::from_unix_ms(ELEVEN),
        until: Time::from_unix_ms(ELEVEN + 3_600_000),
    });
    assert_eq!(asked, [ClientToMaster::Ask(Box::new(query))]);
    let expected = "\
        TIME                 MEAN    LOW     HIGH    ENERGY    SEEN  LOOKS\n\
        2017-10-26 11:00:00  41.5 W  40.0 W  43.0 W  2490.0 J  1min     59\n\
        2017-10-26 11:01:00  41.5 W  40.0 W  43.0 W  2490.0 J   30s     59\n\
        \n\
        energy  4980.0 J emulated\n";
    assert_eq!(output, printed(expected));
}

#[tokio::test]
async fn csv_and_json_of_the_cluster() {
    let (output, asked) = answered(&[&["readings", "--csv"], &RANGE[..]].concat(), readings()).await;
    assert!(
        matches!(&asked[0], ClientToMaster::Ask(query) if matches!(**query, Query::Readings(ReadingsQuery { node: None, .. })))
    );
    let expected = "\
        time,mean_w,low_w,high_w,energy_j,seen_s,looks,emulated\n\
        2017-10-26T11:00:00Z,41.5,40,43,2490,60,59,true\n\
        2017-10-26T11:01:00Z,41.5,40,43,2490,30,59,true\n";
    assert_eq!(output, printed(expected));
    let (output, _) = answered(&[&["readings", "--json"], &RANGE[..]].concat(), readings()).await;
    let text = output.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let found: Value = serde_json::from_str(text.unwrap_or_else(|| panic!("{output}"))).expect("JSON");
    let reading = |at: i64, seen: f64| {
        json!({"at_unix_ms": at, "mean_w": 41.5, "low_w": 40.0, "high_w": 43.0, "energy_j": 2490.0, "seen_s": seen,
            "looks": 59})
    };
    let readings = [reading(ELEVEN, 60.0), reading(ELEVEN + 60_000, 30.0)];
    let expected = json!({"schema": 1, "node": null, "emulated": true, "energy_j": 4980.0, "readings": readings});
    assert_eq!(found, expected);
}

#[tokio::test]
async fn impossible_times_are_refused() {
    let check = async |args: &[&str], expected: &str| {
        let (output, asked) = answered(&[&["readings"], args].concat(), readings()).await;
        assert_eq!((output, asked.len()), (failed(expected), 0));
    };
    check(
        &["--from", "noon"],
        "lconf: error: --from: `noon` is not a time: write `18:00`, `2026-10-26 18:00`, `2026-10-26T18:00:00Z` or \
         `now-2h`\n",
    )
    .await;
    check(
        &["--from", "2017-10-26 12:00", "--until", "2017-10-26 11:00"],
        "lconf: error: the time range ends at 2017-10-26 11:00, which is not after its begin at 2017-10-26 12:00\n",
    )
    .await;
}
