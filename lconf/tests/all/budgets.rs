//! Budgets: set for one period among others, set from a file, and shown with their use.

use std::io::Write;

use limo_fake::{FakeMaster, answer, status, status_with_budget};
use limo_model::{Budget, Budgets, Energy, Preset, Release, Time};
use limo_proto::{Answer, BudgetAccount, Change, ClientToMaster, Query, Status, StatusQuery};
use serde_json::{Value, json};

use crate::{answered, ask, change, failed, lconf, printed, snapshot};

/// Returns 2100-01-01 00:00 UTC plus `hours`.
fn at(hours: i64) -> Time {
    Time::from_unix_ms(4_102_444_800_000 + hours * 3_600_000)
}

fn period(from: i64, until: i64, kwh: i64, release: Release) -> Budget {
    Budget { from: at(from), until: at(until), energy: Energy::from_joules(kwh * 3_600_000), release }
}

fn budgets(periods: &[Budget]) -> Budgets {
    Budgets::new(periods.to_vec()).expect("ascending")
}

/// Runs `lconf` against a master with these budgets; returns the output and the messages to the master.
async fn with(present: &[Budget], args: &[&str]) -> (String, Vec<ClientToMaster>) {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let now = Status { budgets: budgets(present), ..status() };
    let asked = master.answering(move |message| match message {
        ClientToMaster::Ask(_) => answer(Answer::Status(Box::new(now.clone()))),
        _ => answer(Answer::Done),
    });
    let output = snapshot(lconf(&address, args)).await;
    let asked = asked.lock().expect("no panic").clone();
    (output, asked)
}

#[tokio::test]
async fn a_period_is_added_to_the_others() {
    let other = period(24, 48, 10, Release::Even);
    let args =
        ["set", "budget", "12kWh", "--from", "2100-01-01", "--until", "2100-01-02 00:00", "--release", "by-price"];
    let (output, asked) = with(&[other], &args).await;
    let expected = budgets(&[period(0, 24, 12, Release::ByPrice), other]);
    let expected = Change::Budgets { budgets: expected, seen: Some(budgets(&[other])) };
    assert_eq!((output, asked), (printed(""), vec![ask(Query::Status(StatusQuery)), change(expected)]));
}

#[tokio::test]
async fn an_overlap_is_named_unless_it_is_replaced() {
    let (before, other, after) =
        (period(0, 24, 9, Release::Even), period(24, 48, 10, Release::ByPrice), period(48, 72, 11, Release::Even));
    let args = ["set", "budget", "12kWh", "--from", "2100-01-02 12:00", "--until", "2100-01-03"];
    let (output, asked) = with(&[before, other, after], &args).await;
    let error = "lconf: error: the period overlaps a budget of 10.000 kWh from 2100-01-02 00:00 until 2100-01-03 00:00, \
                 released by price\nlconf: hint: add --replace to replace the periods that it overlaps\n";
    assert_eq!((output, asked), (failed(error), vec![ask(Query::Status(StatusQuery))]));
    let (output, asked) = with(&[before, other, after], &[&args[..], &["--replace"]].concat()).await;
    let expected = budgets(&[before, period(36, 48, 12, Release::Even), after]);
    let expected = Change::Budgets { budgets: expected, seen: Some(budgets(&[before, other, after])) };
    assert_eq!((output, asked), (printed(""), vec![ask(Query::Status(StatusQuery)), change(expected)]));
}

#[tokio::test]
async fn none_and_a_file_replace_all_periods() {
    let none = Change::Budgets { budgets: Budgets::default(), seen: None };
    let (output, asked) = with(&[], &["set", "budget", "none"]).await;
    assert_eq!((output, asked), (printed(""), vec![change(none)]));
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let text = "time,budget,release\n2100-01-01 00:00,12 kWh,\n2100-01-02 00:00,none,\n2100-01-03 00:00,10 kWh,even\n\
                2100-01-04 00:00,,\n";
    file.write_all(text.as_bytes()).expect("written");
    let path = file.path().to_str().expect("text");
    let (output, asked) = with(&[], &["set", "budgets", path, "--release", "by-price"]).await;
    let expected = budgets(&[period(0, 24, 12, Release::ByPrice), period(48, 72, 10, Release::Even)]);
    let expected = Change::Budgets { budgets: expected, seen: None };
    assert_eq!((output, asked), (printed(""), vec![change(expected)]));
}

#[tokio::test]
async fn wrong_periods_are_refused() {
    let check = async |args: &[&str], expected: &str| {
        let (output, asked) = with(&[], &[&["set"][..], args].concat()).await;
        assert_eq!((output, asked), (failed(expected), vec![]), "{args:?}");
    };
    let help = "lconf: hint: try `lconf --help`\n";
    let no_unit = "`40` has no unit: write for example `1.5 kWh` (units: J, kJ, Wh, kWh, MWh, mJ)";
    check(&["budget", "40"], &format!("lconf: error: invalid value '40' for '<ENERGY|none>': {no_unit}\n{help}")).await;
    let text = "lconf: error: invalid value 'cheap' for '--release <HOW>': `cheap` is not a way to release a budget (known: \
                even, by-price)\n";
    check(&["budget", "1kWh", "--release", "cheap"], &format!("{text}{help}")).await;
    check(&["budget", "1kWh"], "lconf: error: a budget needs an end\nlconf: hint: add for example `--until now+1d`\n")
        .await;
    check(
        &["budget", "none", "--replace"],
        "lconf: error: `none` ends all budgets and cannot be combined with --until or --replace\n",
    )
    .await;
    let args = ["budget", "1kWh", "--from", "2100-01-02", "--until", "2100-01-01"];
    let error = "the period ends at 2100-01-01 00:00, which is not after its begin at 2100-01-02 00:00";
    check(&args, &format!("lconf: error: {error}\n")).await;
    let args = ["budget", "1kWh", "--from", "2000-01-01", "--until", "2000-01-02"];
    check(&args, "lconf: error: the period ended in the past, at 2000-01-02 00:00\n").await;
}

#[tokio::test]
async fn budgets_are_shown_with_their_use() {
    let show = async |args: &[&str], status: Status| answered(args, answer(Answer::Status(Box::new(status)))).await.0;
    let output = show(&["status"], status_with_budget()).await;
    // The rest of the budget is 11.25 kWh in 22 hours.
    let expected = "\
        budget     12.000 kWh from 2017-10-26 09:00 until 2017-10-27 09:00\n\
        spent      0.750 kWh emulated of 1.000 kWh released; 0.100 kWh reserved for the first job\n\
        left       11.250 kWh until 2017-10-27 09:00, on average 511.4 W\n\
        to come    10.000 kWh from 2017-10-27 09:00 until 2017-10-28 09:00, released by price\n\
        policy     energybud\n";
    assert!(output.contains(expected), "{output}");
    let account = status_with_budget().account.map(|account| BudgetAccount {
        spent: account.budget.energy + Energy::from_joules(3_600_000),
        reserved: Energy::ZERO,
        ..account
    });
    let overspent = Status { account, policy: Preset::Easy, ..status_with_budget() };
    let output = show(&["status"], overspent).await;
    let expected = "\
        budget     12.000 kWh from 2017-10-26 09:00 until 2017-10-27 09:00; the policy easy does not keep it\n\
        spent      13.000 kWh emulated of 1.000 kWh released, 12.000 kWh too much\n\
        left       nothing until 2017-10-27 09:00: overspent by 1.000 kWh\n";
    assert!(output.contains(expected), "{output}");
    let output = show(&["show"], status_with_budget()).await;
    let expected = "\
        budgets  12.000 kWh from 2017-10-26 09:00 until 2017-10-27 09:00\n\
        budgets  10.000 kWh from 2017-10-27 09:00 until 2017-10-28 09:00, released by price\n";
    assert!(output.contains(expected), "{output}");
    let many = (0..9).map(|hour| period(hour, hour + 1, 1, Release::Even)).collect::<Vec<_>>();
    let output = show(&["show"], Status { budgets: budgets(&many), ..status() }).await;
    assert!(output.contains("budgets  and 6 more periods\n"), "{output}");
}

#[tokio::test]
async fn as_json() {
    let output = answered(&["status", "--json"], answer(Answer::Status(Box::new(status_with_budget())))).await.0;
    let text = output.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let value: Value = serde_json::from_str(text.unwrap_or_else(|| panic!("{output}"))).expect("JSON");
    let nine = 1_509_008_400_000_i64;
    let day = 86_400_000_i64;
    let account = json!({
        "from_unix_ms": nine, "until_unix_ms": nine + day, "energy_j": 43_200_000.0, "release": "even",
        "released_j": 3_600_000.0, "spent_j": 2_700_000.0, "reserved_j": 360_000.0, "left_j": 40_500_000.0, "kept": true,
    });
    let periods = json!([
        {"from_unix_ms": nine, "until_unix_ms": nine + day, "energy_j": 43_200_000.0, "release": "even"},
        {"from_unix_ms": nine + day, "until_unix_ms": nine + 2 * day, "energy_j": 36_000_000.0, "release": "by-price"},
    ]);
    assert_eq!((&value["budget"], &value["budgets"]), (&account, &periods));
}
