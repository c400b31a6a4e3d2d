//! Errors of `lconf`, after which the master has received no message.

use limo_fake::answer;
use limo_model::Preset;
use limo_proto::{Answer, MasterToClient};

use crate::{answered, failed};

async fn check(args: &[&str], stderr: &str) {
    let (output, asked) = answered(args, answer(Answer::Done)).await;
    assert_eq!((output, asked), (failed(stderr), vec![]), "{args:?}");
}

const HELP: &str = "lconf: hint: try `lconf --help`\n";

#[tokio::test]
async fn wrong_values_are_refused_with_the_accepted_form() {
    let no_unit = "`39` has no unit: write for example `90 W` (units: W, kW, MW, mW)";
    check(&["set", "limits", "39", "60"], &format!("lconf: error: invalid value '39' for '[LOW]': {no_unit}\n{HELP}"))
        .await;
    check(&["set", "limits", "90W", "60W"], "lconf: error: the lower limit 90.0 W is above the upper limit 60.0 W\n")
        .await;
    let text = "lconf: error: the following required arguments were not provided: <HIGH>\n";
    check(&["set", "limits", "39W"], &format!("{text}{HELP}")).await;
    let text = "lconf: error: invalid value 'fast' for '<MODE>': `fast` is not a mode: high, low, auto\n";
    check(&["set", "mode", "fast"], &format!("{text}{HELP}")).await;
    let names = Preset::ALL.map(Preset::name).join(", ");
    let text = format!("lconf: error: invalid value 'best' for '<NAME>': `best` is not a policy: {names}\n");
    check(&["set", "policy", "best"], &format!("{text}{HELP}")).await;
    let text = "lconf: error: invalid value 'rest=idle' for '[PART=RULE]...': `rest` is not a part of a policy: order, \
                admission, placement, caps, idle\n";
    check(&["set", "policy", "easy", "rest=idle"], &format!("{text}{HELP}")).await;
    let text = "lconf: error: invalid value '-1W' for '--power <POWER>': `-1W` must not be negative\n";
    let args = ["profile", "set", "cg", "xeon", "--duration", "1s", "--power=-1W"];
    check(&args, &format!("{text}{HELP}")).await;
    let text = "lconf: error: --json works only with show, status, node list, node show, profile list, variation show, predictor show, reservation list, account list, qos list, queue list, group list, readings, history, undo, user, quota and fairshare\n";
    check(&["set", "mode", "low", "--json"], text).await;
}

#[tokio::test]
async fn unreadable_price_files_name_line_and_column() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("prices.csv");
    let file = file.to_str().expect("text");
    let error = "No such file or directory (os error 2)";
    check(&["set", "price", file], &format!("lconf: error: cannot read {file}: {error}\n")).await;
    std::fs::write(file, "time,price\n2026-10-26 00:00,80 EUR/MWh\n2026-10-26 01:00,cheap\n").expect("written");
    let error = "line 3, column 2 (price): `cheap` has no number: write for example `80 EUR/MWh`";
    check(&["set", "price", file], &format!("lconf: error: {file}: {error}\n")).await;
    std::fs::write(file, "time,low,high\n2026-10-26 00:00,90 W,60 W\n").expect("written");
    let error = "line 2, column 2 (low): the lower limit 90.0 W is above the upper limit 60.0 W";
    check(&["set", "limits", "--curve", file], &format!("lconf: error: {file}: {error}\n")).await;
}

#[tokio::test]
async fn the_masters_refusal() {
    let refused =
        MasterToClient::Refused { reason: "there is no node n9".into(), hint: Some("lconf node list".into()) };
    let (output, _) = answered(&["node", "drain", "n9", "--reason", "x"], refused).await;
    assert_eq!(output, failed("lconf: error: there is no node n9\nlconf: hint: lconf node list\n"));
}
