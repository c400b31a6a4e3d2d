//! The journal of a live cluster, replayed through the scheduling core, gives the same rounds byte for byte.

use std::collections::BTreeSet;
use std::fs;

use limo_journal::{Entry, History, HistoryEntry};
use limo_model::Preset;
use limo_sched::{Core, Event, Options};
use limo_tests::{Cluster, Setup, Submitter, until};

const WORKLOAD: &str = env!("CARGO_BIN_EXE_limo-workload");
const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../power/examples/limo-2018.toml");

/// Runs some jobs of one application in the background; returns their durations.
fn submit(submitter: &Submitter, application: &str, times: &[&str]) -> Vec<u64> {
    let one = |time: &&str| {
        let gpu = format!("quadro-p2000={WORKLOAD} {application} --duration 100ms");
        let command = [WORKLOAD, application, "--duration", time];
        submitter.detach(&[&["--app", application, "--variant", &gpu][..], &command[..]].concat())
    };
    times.iter().map(one).collect()
}

fn finish_all(submitter: &Submitter, jobs: &[u64]) {
    jobs.iter().for_each(|job| assert_eq!(submitter.wait(*job), Some(0)));
}

/// Number of jobs that wait while the order `program` searches: too many for the best list at once.
const SEARCHED: usize = 12;

/// Kills the master while it searches for the order of waiting jobs, which takes many seconds.
fn kill_in_a_search(cluster: &mut Cluster, submitter: &Submitter) {
    let set = |arguments: &[&str]| submitter.lconf(arguments).succeeded();
    set(&["set", "policy", "easy", "order=program", "admission=rate"]);
    let job = |minutes: usize, options: &[&str]| {
        submitter.detach(&[&["-t", &format!("{minutes}min")], options, &["sleep", "1000"]].concat())
    };
    let mut jobs: Vec<u64> = ["xeon1", "xeon2"].map(|node| job(60, &["--exclusive", "-w", node])).to_vec();
    jobs.iter().for_each(|job| until("it runs", || (submitter.state(*job) == "running").then_some(())));
    jobs.extend((1..=SEARCHED).map(|number| job(1 + number * 5 % 13, &["-c", &(1 + number % 3).to_string()])));
    cluster.kill_master();
    cluster.start_master();
    // The search goes on when the nodes are back, with one more job.
    ["xeon1", "xeon2"].iter().for_each(|node| cluster.await_node(node));
    jobs.push(job(1, &[]));
    set(&["set", "policy", "limo"]);
    jobs.iter().for_each(|job| drop(submitter.lq(&["cancel", &job.to_string()]).succeeded()));
    jobs.iter().for_each(|job| {
        submitter.wait(*job);
    });
}

/// Makes every kind of event that a cluster can have, in a few seconds.
fn live(cluster: &mut Cluster) {
    let submitter = cluster.submitter().clone();
    let set = |arguments: &[&str]| submitter.lconf(arguments).succeeded();
    for (hardware, power, duration) in [("xeon-e3-1275v5", "31W", "300ms"), ("quadro-p2000", "54W", "100ms")] {
        set(&["profile", "set", "cg", hardware, "--power", power, "--duration", duration]);
    }
    fs::write(submitter.path("prices.csv"), "time,price\n2026-01-01 00:00,80 EUR/MWh\n2100-01-01 00:00,-20 EUR/MWh\n")
        .expect("written");
    set(&["set", "price", "prices.csv"]);
    set(&["set", "limits", "50W", "95W"]);
    finish_all(&submitter, &submit(&submitter, "cg", &["200ms", "400ms", "100ms", "300ms"]));
    set(&["set", "mode", "high"]);
    set(&["set", "policy", "limo-prototype"]);
    finish_all(&submitter, &submit(&submitter, "ep", &["200ms", "100ms", "100ms"]));
    set(&["set", "budget", "1kWh", "--until", "now+1h"]);
    set(&["set", "policy", "energybud"]);
    finish_all(&submitter, &submit(&submitter, "ep", &["200ms", "100ms", "200ms"]));
    set(&["set", "policy", "fifo"]);
    set(&["node", "drain", "xeon1", "--reason", "a test"]);
    let waiting = submit(&submitter, "ft", &["100ms"; 6]);
    submitter.lq(&["cancel", &waiting[5].to_string()]);
    set(&["node", "resume", "xeon1"]);
    cluster.kill_master();
    cluster.start_master();
    set(&["set", "limits", "none", "none"]);
    set(&["set", "policy", "limo"]);
    finish_all(&submitter, &waiting[..5]);
    kill_in_a_search(cluster, &submitter);
    let job = |options: &[&str]| submitter.detach(&[options, &[WORKLOAD, "cg", "--duration", "100ms"]].concat());
    let held = job(&["-H", "--begin", "now+1s"]);
    let after = job(&["-d", &format!("afterok:{held},singleton")]);
    submitter.lq(&["release", &held.to_string()]).succeeded();
    finish_all(&submitter, &[held, after]);
    let again = submitter.detach(&["--requeue", WORKLOAD, "cg", "--duration", "1000s"]);
    let never = job(&["-d", &format!("afterok:{again}")]);
    until("it runs", || (submitter.state(again) == "running").then_some(()));
    submitter.lq(&["requeue", &again.to_string()]).succeeded();
    submitter.lq(&["hold", &never.to_string()]).succeeded();
    submitter.lq(&["cancel", &again.to_string()]).succeeded();
    assert_eq!(submitter.wait(never), Some(125));
    cluster.kill_node("xeon2");
    cluster.start_node("xeon2");
    finish_all(&submitter, &submit(&submitter, "cg", &["100ms"; 3]));
    let energy = || submitter.lconf(&["status", "--json"]).succeeded().contains("\"emulated\":true");
    until("readings are in", || energy().then_some(()));
    assert_eq!(cluster.terminate_master().code(), Some(0));
}

/// Replays the entries; returns the number of rounds and of those in the search, or the first round that differs.
fn replay<'a>(entries: impl Iterator<Item = &'a HistoryEntry>) -> Result<(usize, usize), String> {
    let mut entries = entries.peekable();
    let first = entries.peek().expect("a cluster has lived").at;
    // This is the initial state of every new master. Its policy and options are the first events.
    let mut core = Core::new(first, Preset::Limo, Options::default());
    let (mut rounds, mut searches) = (0, 0);
    for HistoryEntry { seq, at, entry } in entries {
        match entry {
            Entry::Event(event) => core.apply(*at, event).map_err(|refused| format!("entry {seq}: {refused}"))?,
            Entry::Round(recorded) => {
                let bytes = |round| serde_json::to_vec(round).expect("a round");
                let round = core.round(*at);
                if bytes(&round) != bytes(recorded) {
                    return Err(format!("entry {seq}: recorded {recorded:?}, now {round:?}"));
                }
                rounds += 1;
                searches += usize::from(core.state().search().is_some_and(|found| found.jobs >= SEARCHED));
            }
        }
    }
    Ok((rounds, searches))
}

fn name(event: &Event) -> String {
    let text = format!("{event:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

#[test]
fn a_live_journal_gives_the_same_rounds_again() {
    let mut cluster = Setup::default()
        .master(&["--reserve-permille", "20", "--snapshot-every", "30", "--monitor-every", "100ms"])
        .node("xeon1", &["--hardware", HARDWARE, "--reading-interval", "50ms"])
        .node("xeon2", &["--hardware", HARDWARE, "--reading-interval", "50ms"])
        .start();
    live(&mut cluster);
    let history = History::open(cluster.state_dir()).expect("a journal");
    let entries: Vec<HistoryEntry> = history.collect::<Result<_, _>>().expect("readable");
    let (rounds, searches) = replay(entries.iter()).unwrap_or_else(|difference| panic!("{difference}"));
    assert!(searches > 1, "{searches} searches before and after the kill");
    let events = entries.iter().filter_map(|entry| match &entry.entry {
        Entry::Event(event) => Some(name(event)),
        Entry::Round(_) => None,
    });
    let kinds: BTreeSet<String> = events.collect();
    println!("{} entries, {rounds} rounds, {searches} in the search, kinds of events: {kinds:?}", entries.len());
    for kind in ["Submitted", "Started", "Ended", "CancelRequested", "NodeUp", "NodeAway", "NodeDrained", "Readings"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    for kind in ["LimitsSet", "PricesSet", "ModeSet", "PolicySet", "ProfileSet", "NodeResumed", "BudgetsSet", "Metered"]
    {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    for kind in ["Held", "Released", "RequeueRequested"] {
        assert!(kinds.contains(kind), "no {kind} in {kinds:?}");
    }
    // The check works: without one of the essential events the rounds differ.
    for kind in ["Submitted", "Ended"] {
        let is_one = |entry: &HistoryEntry| matches!(&entry.entry, Entry::Event(event) if name(event) == kind);
        let last = entries.iter().rposition(is_one).expect("it is there");
        let others = entries.iter().enumerate().filter(|(index, _)| *index != last).map(|(_, entry)| entry);
        assert!(replay(others).is_err(), "the last {kind} is not missed");
    }
}
