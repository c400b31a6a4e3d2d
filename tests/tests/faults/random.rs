//! One fault after another under load, drawn by a dice. After each, each node runs a job within a minute.
//!
//! `LIMO_FAULTS` is the number of faults, or their time such as `1h`; `LIMO_SEED` repeats the faults of a run.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use limo_model::Span;
use limo_tests::{Dice, finish, until};

use crate::fault::{Begun, Fault};
use crate::site::{Site, node_name};
use crate::work::Work;

/// Numbers of faults by default, with a file and with a database: 1 to 2 min on two cores.
const WITH_FILE: u64 = 100;
const WITH_DATABASE: u64 = 100;

/// Most faults at a time.
const AT_ONCE: u64 = 5;

/// Longest time until each node runs a job after the end of the last fault: the lease of a leader, the pauses of nodes
/// before they call again, and a slow machine.
const RECOVERY: Duration = Duration::from_secs(40);

/// Recovery that is printed.
const SLOW: Duration = Duration::from_secs(8);

/// Largest allowed peak memory of a master, in bytes.
const MASTER_BYTES: u64 = 256 << 20;

/// Submitters of the load.
const SUBMITTERS: u64 = 2;

/// Faults between two lines about the progress.
const PROGRESS: u64 = 50;

/// The end of a run.
enum Amount {
    Faults(u64),
    Time(Duration),
}

impl Amount {
    fn from_env(default: u64) -> Self {
        let Ok(text) = std::env::var("LIMO_FAULTS") else { return Self::Faults(default) };
        match (text.parse(), text.parse::<Span>()) {
            (Ok(count), _) => Self::Faults(count),
            (_, Ok(span)) => Self::Time(Duration::from_millis(u64::try_from(span.ms()).expect("a span above zero"))),
            _ => panic!("LIMO_FAULTS is a number or a span such as 1h, not `{text}`"),
        }
    }

    fn is_reached(&self, faults: u64, begin: Instant) -> bool {
        match self {
            Self::Faults(count) => faults >= *count,
            Self::Time(time) => begin.elapsed() >= *time,
        }
    }
}

/// The faults so far.
struct Run {
    dice: Dice,
    begin: Instant,
    faults: u64,
    counts: BTreeMap<String, u64>,
    slowest: Duration,
    /// Peak memory of the masters, in bytes.
    peak: u64,
}

impl Run {
    /// Makes some faults at the same time, and waits until the cluster works again.
    fn some(&mut self, site: &mut Site, work: &Work) {
        self.peak = self.peak.max(site.peak_bytes());
        let mut begun: Vec<Begun> = Vec::new();
        for _ in 0..=self.dice.below(AT_ONCE) {
            let (fault, time) = Fault::draw(site, &mut self.dice);
            if begun.iter().any(|other| other.fault.excludes(fault)) {
                continue;
            }
            if let Some(fault) = fault.begin(site, time) {
                self.faults += 1;
                let name = fault.fault.to_string();
                let kind = name.split(['(', ' ']).next().unwrap_or_default();
                *self.counts.entry(kind.to_owned()).or_default() += 1;
                begun.push(fault);
            }
        }
        let names: Vec<String> = begun.iter().map(|begun| format!("{} for {:?}", begun.fault, begun.time)).collect();
        begun.sort_by_key(|begun| begun.time);
        let (start, mut clients) = (Instant::now(), Vec::new());
        for fault in begun {
            thread::sleep(fault.time.saturating_sub(start.elapsed()));
            fault.end(site, &mut clients);
        }
        let recovered = catch_unwind(AssertUnwindSafe(|| recover(site)));
        let took = recovered.unwrap_or_else(|panic| {
            eprintln!("after fault {}: {}", self.faults, names.join(", "));
            resume_unwind(panic)
        });
        assert!(took < RECOVERY, "after fault {} nothing ran for {took:?}: {}", self.faults, names.join(", "));
        if took > SLOW {
            println!("after fault {} nothing ran for {took:.1?}: {}", self.faults, names.join(", "));
        }
        self.slowest = self.slowest.max(took);
        clients.into_iter().for_each(check_client);
        work.check_clients();
        assert!(self.peak < MASTER_BYTES, "a master had {} MiB in memory", self.peak >> 20);
    }
}

/// Waits until each node runs a job. Returns the time that this took.
fn recover(site: &mut Site) -> Duration {
    let begin = Instant::now();
    for node in 0..site.node_count() {
        let name = node_name(node);
        until(&format!("{name} runs a job"), || {
            site.restart_ended();
            (site.submitter.lrun(&["-Q", "-w", &name, "true"]).code == Some(0)).then_some(())
        });
    }
    begin.elapsed()
}

/// Checks a client that was stopped, and has gone on.
fn check_client(client: Child) {
    let ran = finish(client);
    let is_whole = ran.code == Some(0) && ran.stdout == "began\nover\n";
    assert!(is_whole || ran.code == Some(125) && ran.stdout.is_empty(), "a client that was stopped: {ran:?}");
}

fn run(mut site: Site, default: u64) {
    let amount = Amount::from_env(default);
    let work = Work::start(&site, SUBMITTERS);
    let dice = Dice::from_env("LIMO_SEED");
    let (counts, begin) = (BTreeMap::new(), Instant::now());
    let mut run = Run { dice, begin, faults: 0, counts, slowest: Duration::ZERO, peak: 0 };
    let mut told = 0;
    while !amount.is_reached(run.faults, begin) {
        run.some(&mut site, &work);
        if run.faults / PROGRESS > told {
            told = run.faults / PROGRESS;
            println!("{} faults, {} submissions, {:.0?}", run.faults, work.count(), run.begin.elapsed());
        }
    }
    let accepted = work.count();
    work.check(&site);
    let counts: Vec<String> = run.counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!(
        "{} faults in {:.0?} ({}); slowest recovery {:.1?}, largest master {} MiB, {accepted} submissions",
        run.faults,
        run.begin.elapsed(),
        counts.join(", "),
        run.slowest,
        run.peak >> 20
    );
}

#[test]
fn no_fault_loses_or_doubles_anything_with_a_file() {
    run(Site::on_file(2, 8), WITH_FILE);
}

#[test]
fn no_fault_loses_or_doubles_anything_with_a_database_and_a_standby() {
    if let Some(site) = Site::on_server(2, 8) {
        run(site, WITH_DATABASE);
    }
}
