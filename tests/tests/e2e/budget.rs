//! An energy budget on a live, emulated cluster. `easy` overruns it, and `energybud` keeps it with the same jobs. If
//! the master is killed within the period, the next master continues its account.

use limo_journal::{Entry, History, HistoryEntry};
use limo_model::{Budget, Power, Preset, Time};
use limo_sched::{Command, Core, Event, Options};
use limo_tests::{Cluster, Setup, Submitter, until};
use serde_json::Value;

const WORKLOAD: &str = env!("CARGO_BIN_EXE_limo-workload");

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/small.toml");

/// Two machines whose CPUs can be capped.
const THRIFTY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/thrifty.toml");

/// Profiles of the jobs on them, with slightly more power than the jobs need.
const PROFILES: &str = "application,size,hardware,cap,duration,power,energy,spread,runs\n\
                        burn,,thrifty,,500 ms,25 W,12.5 J,0 %,9\n\
                        burn,,thrifty,12 W,750 ms,12.5 W,9.4 J,0 %,9\n";

/// Enough jobs: four at a time do not finish within the period.
const JOBS: usize = 40;

fn cluster(options: &[&str]) -> Cluster {
    Setup::default()
        .master(&["--readings-every", "20ms"])
        .master(options)
        .node("n1", &["--hardware", HARDWARE, "--reading-interval", "100ms"])
        .start()
}

fn status(submitter: &Submitter) -> Value {
    serde_json::from_str(&submitter.lconf(&["status", "--json"]).succeeded()).expect("JSON")
}

/// Returns the energy of the budget's period as the master believed it, in J, by replaying its journal to the end of
/// the period.
fn used(cluster: &Cluster) -> (Budget, f64) {
    let history = History::open(cluster.state_dir()).expect("a journal");
    let entries: Vec<HistoryEntry> = history.collect::<Result<_, _>>().expect("readable");
    let set = entries.iter().find_map(|entry| match &entry.entry {
        Entry::Event(Event::BudgetsSet { budgets, .. }) => budgets.iter().next().copied(),
        _ => None,
    });
    let budget = set.expect("a budget was set");
    let mut core = Core::new(entries[0].at, Preset::Limo, Options::default());
    let at = |core: &Core, time: Time| {
        let mut bill = core.sums().bill;
        bill.add(core.sums().drawn(), core.sums().since, time, None);
        bill.energy()
    };
    let (mut begin, mut end) = (None, None);
    for HistoryEntry { at: now, entry, .. } in &entries {
        if *now >= budget.from {
            begin.get_or_insert_with(|| at(&core, budget.from));
        }
        if *now >= budget.until {
            end.get_or_insert_with(|| at(&core, budget.until));
        }
        match entry {
            Entry::Event(event) => core.apply(*now, event).expect("it was applied before"),
            Entry::Round(_) => drop(core.round(*now)),
        }
    }
    let used = end.expect("the period is over") - begin.expect("the period began");
    (budget, used.joules())
}

/// Runs the jobs under `policy` with 75 J for 5 s, 50 J of which are the idle draw. Returns the energy used, and true
/// if a job has waited for the budget.
fn spent_under(policy: &str) -> (f64, bool) {
    let mut cluster = cluster(&["--initial-policy", policy, "--monitor-every", "500ms"]);
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["node", "drain", "n1", "--reason", "a test"]).succeeded();
    let submit = |number: usize| {
        // Each job has its own size class, so that no profile of the others replaces the over-estimate.
        let size = format!("s{number}");
        submitter.detach(&["--time", "1s", "--app", "burn", "--size", &size, WORKLOAD, "burn"])
    };
    let jobs: Vec<u64> = (0..JOBS).map(submit).collect();
    submitter.lconf(&["set", "budget", "75J", "--until", "now+5s"]).succeeded();
    submitter.lconf(&["node", "resume", "n1"]).succeeded();
    let mut waited = false;
    until("the period is over", || {
        waited |= submitter.jobs().iter().any(|job| job["wait_kind"] == "budget");
        status(&submitter)["budget"].is_null().then_some(())
    });
    for job in &jobs {
        assert_eq!(submitter.wait(*job), Some(0), "after the period nothing holds a job back");
    }
    assert_eq!(cluster.terminate_master().code(), Some(0));
    let (budget, used) = used(&cluster);
    println!("{policy}: {used} J of {} used", budget.energy);
    (used, waited)
}

/// Returns the caps at which jobs started before `until`; `None` is full speed.
fn caps_before(cluster: &Cluster, until: Time) -> Vec<Option<Power>> {
    let history = History::open(cluster.state_dir()).expect("a journal");
    let mut caps = Vec::new();
    for HistoryEntry { at, entry, .. } in history.map(|entry| entry.expect("readable")) {
        let Entry::Round(round) = entry else { continue };
        caps.extend(round.commands.iter().filter(|_| at < until).filter_map(|command| match command {
            Command::Start { placement, .. } => Some(placement[0].cap),
            _ => None,
        }));
    }
    caps
}

/// 190 J for 5 s, 100 J of which are the idle draw of two nodes: 18 W for jobs. One at full speed draws 24 W.
#[test]
fn energybud_with_caps_from_profiles_keeps_its_budget_and_starts_jobs_at_caps() {
    let mut cluster = Setup::default()
        .master(&["--readings-every", "20ms", "--monitor-every", "500ms"])
        .node("n1", &["--hardware", THRIFTY, "--reading-interval", "100ms"])
        .node("n2", &["--hardware", THRIFTY, "--reading-interval", "100ms"])
        .start();
    let submitter = cluster.submitter().clone();
    std::fs::write(submitter.path("profiles.csv"), PROFILES).expect("written");
    submitter.lconf(&["profile", "import", "profiles.csv"]).succeeded();
    submitter.lconf(&["set", "policy", "energybud", "caps=from-profile"]).succeeded();
    let shown = status(&submitter);
    assert_eq!((&shown["policy"], &shown["parts"]["caps"]), (&"energybud".into(), &"from-profile".into()));
    submitter.lconf(&["drain", "n1,n2", "--reason", "a test"]).succeeded();
    let submit = |number: usize| {
        // Each has its own size class, so that what is learned of the others does not replace the imported profiles.
        let size = format!("s{number}");
        submitter.detach(&["--time", "2s", "--app", "burn", "--size", &size, WORKLOAD, "burn"])
    };
    let jobs: Vec<u64> = (0..JOBS).map(submit).collect();
    submitter.lconf(&["set", "budget", "190J", "--until", "now+5s"]).succeeded();
    submitter.lconf(&["resume", "n1,n2"]).succeeded();
    let (mut waited, mut most) = (false, 0.0_f64);
    until("the period is over", || {
        waited |= submitter.jobs().iter().any(|job| job["wait_kind"] == "budget");
        let over = status(&submitter)["budget"].is_null();
        for node in ["n1", "n2"].into_iter().filter(|_| !over) {
            let node = cluster.node_report(node)?;
            if node["units"][0]["cap_w"].as_f64() == Some(12.0) {
                most = most.max(node["draw_w"].as_f64()?);
            }
        }
        over.then_some(())
    });
    for job in &jobs {
        assert_eq!(submitter.wait(*job), Some(0), "after the period nothing holds a job back");
    }
    assert_eq!(cluster.terminate_master().code(), Some(0));
    let (budget, used) = used(&cluster);
    let caps = caps_before(&cluster, budget.until);
    println!("{used} J of {} used, at most {most} W on a capped node, caps {caps:?}", budget.energy);
    assert!(used <= 190.0 && waited, "{used} J used, a job waited: {waited}");
    assert!((15.0..24.0).contains(&most), "10 W at rest and 12 W for a job, not {most} W");
    let capped = caps.iter().filter(|cap| **cap == Some(Power::from_watts(12))).count();
    assert!(capped >= 3, "{caps:?}");
}

#[test]
fn easy_overruns_a_budget_that_energybud_keeps() {
    let (easy, waited) = spent_under("easy");
    assert!(easy > 75.0 && !waited, "easy used {easy} J, a job waited: {waited}");
    let (energybud, waited) = spent_under("energybud");
    assert!(energybud <= 75.0 && waited, "energybud used {energybud} J, a job waited: {waited}");
    // The policy does not keep the budget by idling: three jobs are 9 J above the idle draw.
    assert!(energybud > 59.0, "energybud used {energybud} J");
}

#[test]
fn a_killed_master_continues_its_account() {
    let mut cluster = cluster(&["--initial-policy", "energybud", "--snapshot-every", "20"]);
    let submitter = cluster.submitter().clone();
    // The budget is 1 kW for an hour: a hundred times the draw of the node, so that released and spent energy cannot
    // be confused.
    submitter.lconf(&["set", "budget", "1kWh", "--until", "now+1h"]).succeeded();
    let account = || {
        let account = status(&submitter)["budget"].take();
        let joules = |key: &str| account[key].as_f64().unwrap_or_else(|| panic!("no {key} in {account}"));
        assert_eq!(joules("energy_j"), 3_600_000.0);
        (joules("released_j"), joules("spent_j"))
    };
    let job = submitter.detach(&["--time", "1min", "--app", "burn", WORKLOAD, "burn", "--duration", "2s"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    let before = until("10 J are spent", || Some(account()).filter(|(_, spent)| *spent >= 10.0));
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    // About 30 J are spent in advance, while a second releases 1,000 J.
    let after = until("a second is released", || Some(account()).filter(|(released, _)| *released >= 1000.0));
    println!("released and spent in J: before {before:?}, after {after:?}");
    assert!(after.0 > before.0, "what is released goes on: {before:?} {after:?}");
    // Every snapshot comes with a stage, which may lower an over-estimate: by 4 W of 20 W while the job runs.
    assert!(after.1 > before.1 / 2.0, "what is spent goes on: {before:?} {after:?}");
    assert!(after.1 < after.0 / 10.0, "it is not opened anew, with all that is released as spent: {after:?}");
    assert_eq!(submitter.wait(job), Some(0));
}
