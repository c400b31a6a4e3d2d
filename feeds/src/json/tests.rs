//! Shapes of JSON, their faults, and the lengths of intervals without an end.

use super::*;
use limo_model::Price;

fn mapping(layout: Layout) -> Mapping {
    Mapping {
        layout,
        times: TimeFormat::UnixS,
        zone: TimeZone::UTC,
        unit: "EUR/MWh".parse().expect("a unit"),
        scale_millionths: 1_000_000,
        nulls: Nulls::Skip,
        checked: None,
        refusal: None,
        next: None,
    }
}

fn columns() -> Mapping {
    mapping(Layout::Columns { start: "/t".into(), value: "/v".into() })
}

fn rows(end: End) -> Mapping {
    mapping(Layout::Rows {
        at: vec!["/a".into(), "/b".into()],
        start: "/s".into(),
        end,
        value: "/v".into(),
        only: None,
    })
}

fn read(mapping: &Mapping, body: &str) -> Result<Vec<(i64, i64, i64)>, String> {
    let page = mapping.parse::<Price>(body.as_bytes()).map_err(|error| error.to_string())?;
    let minutes = |time: Time| time.unix_ms() / 60_000;
    Ok(page.slots.iter().map(|slot| (minutes(slot.from), minutes(slot.until), slot.value.milli_per_mwh())).collect())
}

fn refused(mapping: &Mapping, body: &str, expected: &str) {
    assert_eq!(read(mapping, body), Err(expected.to_owned()), "{body}");
}

#[test]
fn two_arrays() {
    let hours = r#"{"t":[0,3600,7200],"v":[1,-2.5,0.0815]}"#;
    assert_eq!(read(&columns(), hours), Ok(vec![(0, 60, 1000), (60, 120, -2500), (120, 180, 82)]));
    refused(&columns(), r#"{"t":[0,3600],"v":[1]}"#, "/v is `1 values for 2 times`; expected one value for each time");
    refused(&columns(), r#"{"t":[0,3600]}"#, "/v is missing; expected an array");
    refused(&columns(), r#"{"t":null,"v":null}"#, "nothing is published: the answer has no values");
    refused(&columns(), r#"{"t":[0,"x"],"v":[1,2]}"#, "/t/1 is `x`; expected a time in seconds since 1970");
    refused(&columns(), r#"{"t":[0,60],"v":[1,true]}"#, "/v/1 is `true`; expected a number of EUR/MWh");
    refused(&columns(), r#"{"t":[0],"v":[1]}"#, "the slot from 1970-01-01T00:00:00Z has no end and no neighbour");
    assert!(read(&columns(), "<html>").expect_err("refused").starts_with("the answer is not JSON: expected value"));
}

#[test]
fn null_is_a_gap_and_not_zero() {
    let body = r#"{"t":[0,3600,7200],"v":[1,null,3]}"#;
    assert_eq!(read(&columns(), body), Ok(vec![(0, 60, 1000), (120, 180, 3000)]));
    let strict = Mapping { nulls: Nulls::Refuse, ..columns() };
    refused(&strict, body, "/v/1 is `null`; expected a number of EUR/MWh");
    refused(&columns(), r#"{"t":[0,3600],"v":[null,null]}"#, "nothing is published: the answer has no values");
}

#[test]
fn lengths_follow_from_distances() {
    let check = |minutes: &[i64], expected: &[i64]| {
        let times: Vec<i64> = minutes.iter().map(|minute| minute * 60).collect();
        let body = format!("{{\"t\":{times:?},\"v\":{:?}}}", vec![1; times.len()]);
        let lengths: Vec<i64> =
            read(&columns(), &body).expect("good").iter().map(|(from, until, _)| until - from).collect();
        assert_eq!(lengths, expected, "{minutes:?}");
    };
    check(&[0, 15, 30, 45], &[15, 15, 15, 15]);
    check(&[0, 30, 60], &[30, 30, 30]);
    // Hours change to quarters of an hour, and back.
    check(&[0, 60, 120, 135, 150], &[60, 60, 15, 15, 15]);
    check(&[0, 15, 30, 90, 150], &[15, 15, 60, 60, 60]);
    // There are gaps of one quarter and of many hours, and a gap at the end.
    check(&[0, 15, 45, 60], &[15, 15, 15, 15]);
    check(&[0, 60, 600, 660], &[60, 60, 60, 60]);
    check(&[0, 60, 600], &[60, 60, 60]);
    check(&[0, 600], &[60, 60]);
}

#[test]
fn lists_of_rows() {
    let until = rows(End::At("/e".into()));
    let body = r#"{"a":[{"s":0,"e":3600,"v":"1.5"}],"b":[{"s":3600,"e":null,"v":2}]}"#;
    let read_all = read(&until, body).expect("good");
    assert_eq!(read_all[0], (0, 60, 1500));
    assert_eq!(read_all[1].1, Time::MAX.unix_ms() / 60_000);
    assert_eq!(
        read(&rows(End::After(Span::from_secs(900))), r#"{"a":[{"s":0,"v":1}],"b":null}"#),
        Ok(vec![(0, 15, 1000)])
    );
    refused(&until, r#"{"a":null}"#, "/a is `null`; expected an array");
    refused(&until, r#"{"a":7}"#, "/a is `7`; expected an array");
    assert_eq!(read(&until, r#"{"a":{"s":0,"e":60,"v":1}}"#), Ok(vec![(0, 1, 1000)]));
    refused(&until, r#"{"a":[{"s":0,"v":1}]}"#, "/a/0/e is missing; expected a time in seconds since 1970");
    refused(&until, r#"{"a":[]}"#, "nothing is published: the answer has no values");
    refused(&until, "[]", "/a is missing; expected an array");
}

#[test]
fn rows_of_another_kind_are_left_out() {
    let mut mapping = rows(End::After(Span::from_secs(3600)));
    let Layout::Rows { only, .. } = &mut mapping.layout else { unreachable!("rows") };
    *only = Some(("/k".into(), "good".into()));
    let body = r#"{"a":[{"s":0,"v":1,"k":"good"},{"s":0,"v":9,"k":"bad"},{"s":3600,"v":2,"k":null},{"s":7200,"v":3}]}"#;
    assert_eq!(read(&mapping, body), Ok(vec![(0, 60, 1000), (60, 120, 2000), (120, 180, 3000)]));
}

#[test]
fn units_and_refusals_in_the_answer_are_checked() {
    let named = Mapping { checked: Some(("/u".into(), UnitText::Unit)), ..columns() };
    let body = |unit: &str| format!(r#"{{"t":[0,60],"v":[1,2],"u":"{unit}"}}"#);
    assert!(read(&named, &body("EUR / MWh")).is_ok());
    refused(&named, &body("EUR/kWh"), "/u is `EUR/kWh`; expected `EUR/MWh`");
    let money = Mapping { checked: Some(("/u".into(), UnitText::Currency)), ..columns() };
    assert!(read(&money, &body("EUR")).is_ok());
    refused(&money, &body("SEK"), "/u is `SEK`; expected `EUR`");
    let refusing = Mapping { refusal: Some("/errors/0/message".into()), ..columns() };
    refused(&refusing, r#"{"errors":[{"message":"no such home"}]}"#, "the server refuses: `no such home`");
}

#[test]
fn scaling_is_exact_and_rounds_once() {
    // The first value includes 19 % of tax on 80.25; the second is half a thousandth and rounds away from zero.
    let taxed = Mapping { scale_millionths: 1_190_000, ..columns() };
    assert_eq!(read(&taxed, r#"{"t":[0,3600],"v":[80.25,-0.05]}"#), Ok(vec![(0, 60, 95_498), (60, 120, -60)]));
    refused(&columns(), r#"{"t":[0,60],"v":[1,1e300]}"#, "/v/1 is `1e+300`; expected a number of EUR/MWh");
}
