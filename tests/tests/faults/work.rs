//! Work whose effects are counted. Detached jobs, arrays and multi-node jobs append their numbers to files; attached jobs
//! have compared output and exit codes; a stream passes through `lrun cat` from the beginning to the end.
//!
//! The last node is frail if there are several: a test may lose its jobs. Streams and attached jobs run on the first one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use limo_tests::{Dice, Ledger, Load, Ran, Submitter, Torrent, job_processes, until};
use serde_json::Value;

use crate::site::{Site, node_name};

/// Number of jobs after which a submitter waits for its last one.
const ROUND: u64 = 6;

/// Tasks of an array.
const TASKS: u64 = 3;

/// Lines of an attached job.
const LINES: u32 = 30;

/// Most accepted jobs in one question.
const ASKED: usize = 200;

/// A kind of detached job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Plain,
    /// Ends with exit code 7.
    Failing,
    Array,
    /// One task on each of two nodes.
    MultiNode,
    /// May run again after a loss.
    Requeued,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Plain, Self::Failing, Self::Array, Self::MultiNode, Self::Requeued];

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["sh", "-c", "echo $LIMO_JOB_ID >> ledger; sleep 0.02"],
            Self::Failing => &["sh", "-c", "sleep 0.05; echo $LIMO_JOB_ID >> ledger; exit 7"],
            Self::Array => &["-a", "1-3", "-o", "/dev/null", "sh", "-c", "echo $LIMO_JOB_ID >> ledger"],
            Self::MultiNode => &["-N", "2", "sh", "-c", "echo $LIMO_JOB_ID >> ledger-$LIMO_PROCID"],
            Self::Requeued => &["--requeue", "sh", "-c", "echo $LIMO_JOB_ID >> requeued; sleep 0.1"],
        }
    }

    fn exit_code(self) -> i32 {
        if self == Self::Failing { 7 } else { 0 }
    }

    /// Returns the files to which a job of this kind appends its number.
    fn ledgers(self) -> &'static [&'static str] {
        match self {
            Self::Plain | Self::Failing | Self::Array => &["ledger"],
            Self::MultiNode => &["ledger-0", "ledger-1"],
            Self::Requeued => &["requeued"],
        }
    }
}

/// State that the threads share.
#[derive(Default)]
struct Shared {
    load: Load,
    kinds: Mutex<BTreeMap<u64, Kind>>,
    attached: AtomicU64,
    /// Errors that a client may not have.
    wrong: Mutex<Vec<String>>,
}

pub struct Work {
    shared: Arc<Shared>,
    submitter: Submitter,
    torrent: Torrent,
    threads: Vec<JoinHandle<()>>,
    /// Name of the node that may lose its jobs.
    frail: Option<String>,
}

impl Work {
    /// Starts a stream, a thread with attached jobs, and this number of submitters.
    pub fn start(site: &Site, submitters: u64) -> Self {
        let submitter = site.submitter.clone();
        let nodes = site.node_count();
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::MultiNode || nodes > 1).collect();
        if nodes > 1 {
            // The default policy does not place jobs on several nodes.
            submitter.lconf(&["set", "policy", "easy"]).succeeded();
        }
        let torrent = Torrent::start(&submitter, &["-w", "n1"]);
        let shared = Arc::<Shared>::default();
        let mut threads = Vec::new();
        for number in 0..submitters {
            let (shared, submitter, kinds) = (Arc::clone(&shared), submitter.clone(), kinds.clone());
            threads.push(thread::spawn(move || submit(&shared, &submitter, (&kinds, number))));
        }
        let (own, user) = (Arc::clone(&shared), submitter.clone());
        threads.push(thread::spawn(move || attach(&own, &user)));
        let frail = (nodes > 1).then(|| node_name(nodes - 1));
        Self { shared, submitter, torrent, threads, frail }
    }

    /// Returns the number of accepted submissions.
    pub fn count(&self) -> usize {
        self.shared.load.count()
    }

    /// Waits until `more` further jobs are accepted; returns the time that this took.
    pub fn await_more(&self, more: usize) -> Duration {
        let (begin, before) = (Instant::now(), self.count());
        until("further jobs are accepted", || (self.count() >= before + more).then_some(()));
        begin.elapsed()
    }

    /// Fails if a client had a wrong answer.
    pub fn check_clients(&self) {
        let wrong = self.shared.wrong.lock().expect("no panic");
        assert!(wrong.is_empty(), "wrong answers: {wrong:?}");
    }

    /// Ends the work, waits for all jobs, and checks that each accepted one has one end, that none ran twice, and that
    /// nothing is left of any.
    pub fn check(self, site: &Site) {
        drop(self.shared.load.ending());
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        self.torrent.check();
        let submitter = &self.submitter;
        until("all jobs are over", || {
            let ran = submitter.lq(&["--json"]);
            let report: Value = serde_json::from_str(&ran.stdout).ok()?;
            report["jobs"].as_array()?.is_empty().then_some(())
        });
        let kinds = std::mem::take(&mut *self.shared.kinds.lock().expect("no panic"));
        let lost = check_ends(submitter, &kinds, self.frail.as_deref());
        let wrong = std::mem::take(&mut *self.shared.wrong.lock().expect("no panic"));
        assert!(wrong.is_empty(), "wrong answers: {wrong:?}");
        assert_eq!(job_processes(&submitter.mark), [], "nothing of any job lives");
        site.check_nothing_left();
        let attached = self.shared.attached.load(Ordering::Relaxed);
        println!(
            "{} submissions accepted, {lost} of their jobs lost with their node, {attached} attached jobs whole",
            kinds.len()
        );
    }
}

/// Checks the reports and the ledgers. Returns the number of jobs that were lost with the frail node.
fn check_ends(submitter: &Submitter, kinds: &BTreeMap<u64, Kind>, frail: Option<&str>) -> usize {
    let files: BTreeSet<&str> = Kind::ALL.iter().flat_map(|kind| kind.ledgers()).copied().collect();
    let ledgers: BTreeMap<&str, Ledger> = files.into_iter().map(|file| (file, Ledger::read(submitter, file))).collect();
    for (file, ledger) in ledgers.iter().filter(|(file, _)| **file != "requeued") {
        assert_eq!(ledger.twice(), Vec::<u64>::new(), "jobs that ran twice, by {file}");
    }
    // The tasks of an array have the numbers after its own.
    let jobs = kinds.iter().flat_map(|(&first, &kind)| match kind {
        Kind::Array => (first + 1..=first + TASKS).map(|task| (task, kind)).collect(),
        _ => vec![(first, kind)],
    });
    let jobs: Vec<(u64, Kind)> = jobs.collect();
    let mut lost = 0;
    for some in jobs.chunks(ASKED) {
        let numbers: Vec<u64> = some.iter().map(|(job, _)| *job).collect();
        for ((id, kind), job) in some.iter().zip(submitter.show(&numbers)) {
            assert_eq!(job["id"], *id, "{job}");
            let has_run = kind.ledgers().iter().all(|file| ledgers[file].has(*id));
            let nodes = job["nodes"].as_array().into_iter().flatten();
            if matches!(job["state"].as_str(), Some("lost" | "node_failed")) {
                assert!(nodes.clone().any(|node| node.as_str() == frail), "a job of a steady node is lost: {job}");
                lost += 1;
                continue;
            }
            let state = if kind.exit_code() == 0 { "completed" } else { "failed" };
            assert!(job["state"] == state && job["exit_code"] == kind.exit_code(), "{kind:?}: {job}");
            assert!(has_run, "a completed job did not run: {job}");
        }
    }
    lost
}

fn submit(shared: &Shared, submitter: &Submitter, (kinds, number): (&[Kind], u64)) {
    let mut dice = Dice::new(number);
    while !shared.load.is_over() {
        let mut last = None;
        for _ in 0..ROUND {
            let kind = kinds[usize::try_from(dice.below(kinds.len() as u64)).expect("small")];
            let ran = submitter.lrun(&[&["--detach"], kind.arguments()].concat());
            if ran.code == Some(0) {
                let job = ran.stdout.trim_end().parse().unwrap_or_else(|_| panic!("no number: {ran:?}"));
                shared.load.accept(job);
                shared.kinds.lock().expect("no panic").insert(job, kind);
                last = Some((job, kind));
            } else {
                away(shared, &ran);
            }
        }
        // The number of jobs under way is limited.
        if let Some((job, kind)) = last {
            let ran = submitter.lq(&["wait", &job.to_string()]);
            if ran.code != Some(kind.exit_code()) {
                away(shared, &ran);
            }
        }
    }
}

/// Checks the error of a client that got no answer, or whose job was lost with its node.
fn away(shared: &Shared, ran: &Ran) {
    if ran.code != Some(125) || !ran.stdout.is_empty() {
        shared.wrong.lock().expect("no panic").push(format!("{ran:?}"));
    }
}

/// Runs attached jobs one after the other, and compares their output.
fn attach(shared: &Shared, submitter: &Submitter) {
    let script = format!(
        "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo $i; echo e$i >&2; sleep 0.02; done; echo over >> attached; exit 5"
    );
    let lines = |prefix: &str| (1..=LINES).map(|line| format!("{prefix}{line}\n")).collect::<String>();
    let (output, errors) = (lines(""), lines("e"));
    while !shared.load.is_over() {
        let ran = submitter.lrun(&["-Q", "-w", "n1", "sh", "-c", &script]);
        if ran.code == Some(5) {
            if (&ran.stdout, &ran.stderr) != (&output, &errors) {
                shared.wrong.lock().expect("no panic").push(format!("{ran:?}"));
            }
            shared.attached.fetch_add(1, Ordering::Relaxed);
        } else {
            away(shared, &ran);
        }
    }
}
