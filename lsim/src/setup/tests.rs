//! Setups from a file, and the start of a workload.

use limo_model::Time;

use super::*;

/// Uses the names of the command line in a file.
#[test]
fn a_setup_in_toml() {
    let text = "trace = \"a.swf\"\npolicy = \"energybud\"\nset = [\"rest=idle\", \"depth=7\"]\nnodes = 4\n\
        budget = \"80%\"\nfrom = \"2d\"\nuntil = \"5d\"\nrelease = \"by-price\"\nwindow = \"0s..7d\"\n\
        users = [1, 2]\nfirst = 10\nload = 1.2\nstart = \"2017-10-26T00:00:00Z\"\n";
    let setup: Setup = toml::from_str(text).expect("a setup");
    let listed: Vec<String> = setup.listed().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = "rest=idle depth=7 budget=80% from=2d until=5d release=by-price start=2017-10-26T00:00:00Z \
        window=0s..7d users=1,2 first=10 load=1.2";
    assert_eq!(listed.join(" "), expected);
    assert_eq!((setup.policy, setup.nodes), (Some(Preset::Energybud), Some(4)));
}

#[test]
fn refusals_in_toml() {
    let refused = |text: &str| toml::from_str::<Setup>(text).expect_err("refused").message().to_owned();
    assert_eq!(
        refused("polcy = \"easy\""),
        "unknown field `polcy`, expected one of `trace`, `policy`, `part`, `set`, `nodes`, `platform`, `sessions`, `start-after`, `evict-after`, `reboots`, `checkpoint-every`, `checkpoint-cost`, `bandwidth`, `budget`, `from`, `until`, `budgets`, `release`, `prices`, `limits`, `measure`, `unwarned`, `groups`, `profiles`, `variation`, `believed-variation`, `predict`, `suspendable`, `requeueable`, `fillers`, `explorable`, `explore`, `queues`, `hot-start`, `mispredict`, `start`, `window`, `users`, `first`, `load`"
    );
    assert_eq!(refused("from = 2"), "`2` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)");
    let setup = Setup { policy: Some(Preset::Easy), ..Setup::default() };
    assert_eq!(setup.load().expect_err("refused").to_string(), "no trace: name one with --trace");
}

/// Checks that without a date the workload starts in 1970, and that a window moves its start.
#[test]
fn the_start_of_a_workload() {
    let start = |setup: Setup, of: Option<i64>| {
        let workload = Workload { start: of.map(Time::from_unix_ms), ..Workload::default() };
        setup.part(workload).start.map(Time::unix_ms)
    };
    let window = Some("1s..2s".parse().expect("a window"));
    let date = Some("1970-01-01T00:01:00Z".parse().expect("a date"));
    assert_eq!(start(Setup::default(), None), None);
    assert_eq!(start(Setup { window, ..Setup::default() }, Some(5_000)), Some(6_000));
    assert_eq!(start(Setup { window, start: date, ..Setup::default() }, Some(5_000)), Some(61_000));
}
