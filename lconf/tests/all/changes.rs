//! Each change reaches the master as typed, and prints only warnings.

use std::io::Write;

use limo_fake::answer;
use limo_model::{
    Band, Curve, IdleRule, ModeSetting, PartRule, PlacementRule, Power, Preset, Price, SlowdownKey, Time,
};
use limo_proto::{Answer, Change};

use crate::{answered, change, printed};

async fn check(args: &[&str], expected: Change) {
    let (output, asked) = answered(args, answer(Answer::Done)).await;
    assert_eq!((output, asked), (printed(""), vec![change(expected)]), "{args:?}");
}

fn band(low: i64, high: i64) -> Band {
    Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band")
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().expect("text")
}

#[tokio::test]
async fn limits() {
    check(&["set", "limits", "39W", "60 W"], Change::Limits(Curve::constant(band(39, 60)))).await;
    let unlimited = Change::Limits(Curve::constant(Band::UNLIMITED));
    check(&["set", "limits", "none", "none"], unlimited).await;
    let curve = file("time,low,high\n2099-10-26T00:00:00Z,39 W,60 W\n2099-10-26 01:00,20 W,90 W\n2099-10-26 02:00,,\n");
    let at = |hour: i64| Time::from_unix_ms(4_096_656_000_000 + hour * 3_600_000);
    let expected = Curve::new(vec![(at(0), band(39, 60)), (at(1), band(20, 90))], Some(at(2))).expect("a curve");
    check(&["set", "limits", "--curve", path(&curve)], Change::Limits(expected)).await;
}

#[tokio::test]
async fn mode_policy_price_and_exploration() {
    check(&["set", "mode", "low"], Change::Mode(ModeSetting::Low)).await;
    check(&["set", "policy", "limo-prototype"], Change::Policy { preset: Preset::LimoPrototype, parts: Vec::new() })
        .await;
    let parts = vec![PartRule::Placement(PlacementRule::LeastEnergy), PartRule::Idle(IdleRule::PowerOff)];
    let args = ["set", "policy", "easy", "placement=least-energy", "idle=power-off"];
    check(&args, Change::Policy { preset: Preset::Easy, parts }).await;
    check(&["set", "price", "none"], Change::Prices(None)).await;
    check(&["set", "price", "feed"], Change::FollowFeeds).await;
    check(&["set", "explore", "2.5%"], Change::Explore("2.5%".parse().expect("a share"))).await;
    let law = |law: Option<&str>, application: &str, hardware: &str| {
        let law = law.map(|law| law.parse().expect("a law"));
        Change::Slowdown { key: SlowdownKey::of(application, hardware), law }
    };
    check(&["set", "slowdown", "CPI=2.5", "--app", "cg", "--hardware", "xeon"], law(Some("CPI=2.5"), "cg", "xeon"))
        .await;
    check(&["set", "slowdown", "none", "--hardware", "xeon"], law(None, "", "xeon")).await;
    let prices = file("time,price_eur_per_mwh\n2099-10-26 00:00,80\n2099-10-26 01:00,-83.04\n");
    let at = |hour: i64| Time::from_unix_ms(4_096_656_000_000 + hour * 3_600_000);
    let price = Price::from_milli_per_mwh;
    let expected = Curve::new(vec![(at(0), price(80_000)), (at(1), price(-83_040))], Some(at(2))).expect("a curve");
    check(&["set", "price", path(&prices)], Change::Prices(Some(expected))).await;
}

#[tokio::test]
async fn nodes() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let drain = |nodes: &[&str], reason: &str| Change::Drain { nodes: names(nodes), reason: reason.into() };
    check(&["node", "drain", "n1", "--reason", "new fan"], drain(&["n1"], "new fan")).await;
    check(&["drain", "n[1-2,7]", "-r", "disks"], drain(&["n1", "n2", "n7"], "disks")).await;
    let stop = Change::StopNodes { nodes: names(&["n1", "n2"]), reason: "fire".into() };
    check(&["node", "stop", "n[1-2]", "-r", "fire"], stop).await;
    check(&["node", "resume", "n1"], Change::Resume { nodes: names(&["n1"]) }).await;
    check(&["resume", "n1,n3"], Change::Resume { nodes: names(&["n1", "n3"]) }).await;
}

async fn warned(args: &[&str], answered_with: Answer, warning: &str) {
    let (output, asked) = answered(args, answer(answered_with)).await;
    assert_eq!((output, asked.len()), (format!("{}lconf: warning: {warning}\n", printed("")), 1), "{args:?}");
}

#[tokio::test]
async fn warnings_are_not_failures() {
    let of_master = "the policy easy ignores the upper limit 60.0 W: limo does not";
    warned(&["set", "limits", "none", "60W"], Answer::Warned(vec![of_master.to_owned()]), of_master).await;
    // These are two hourly prices; the last one holds as long as the one before.
    let prices = file("time,price\n2020-01-01 00:00,80 EUR/MWh\n2020-01-01 01:00,70 EUR/MWh\n");
    let ended = "the prices ended at 2020-01-01 02:00:00: none are in force";
    warned(&["set", "price", path(&prices)], Answer::Done, ended).await;
    let limits = file("time,low,high\n2020-01-01 00:00,39 W,60 W\n2020-01-02 00:00,,\n");
    let ended = "the limits ended at 2020-01-02 00:00:00: none are in force";
    warned(&["set", "limits", "--curve", path(&limits)], Answer::Done, ended).await;
}

#[tokio::test]
async fn unknown_names_of_users_cause_a_warning() {
    let unknown = "this machine does not know a user `nosuchuser`";
    warned(&["quota", "nosuchuser", "jobs=2"], Answer::Done, unknown).await;
    warned(&["user", "deny", "nosuchuser"], Answer::Done, unknown).await;
    warned(&["fairshare", "nosuchuser", "5"], Answer::Done, unknown).await;
    let reservation = ["reservation", "add", "r", "--nodes", "n1", "--duration", "1h", "--users", "nosuchuser"];
    warned(&reservation, Answer::Done, unknown).await;
    // No warning comes about a user that exists, or one that is allowed again.
    for args in [&["quota", "root", "jobs=2"][..], &["user", "deny", "root"], &["user", "allow", "nosuchuser"]] {
        let (output, _) = answered(args, answer(Answer::Done)).await;
        assert_eq!(output, printed(""), "{args:?}");
    }
}
