//! Jobs that write one line at their end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limo_tests::{Submitter, until};

use crate::notes::Notes;
use crate::pause;

/// Script with three arguments: the token of the job, its length in seconds, and `stubborn` if it does not end by TERM. A lock
/// shows if two attempts run at the same time. The line is the last thing that an attempt does.
const SCRIPT: &str = r#"
exec 9>>"lock.$1"; flock -n 9 || echo "$1" >> doubled
[ "$3" = stubborn ] && trap 'told=1' TERM
sleep "$2" 9>&-
[ "$told" ] && { sleep 1000 9>&-; sleep 1000 9>&-; }
trap - TERM
read up rest < /proc/uptime
exec printf '%s %s %s\n' "$1" "$LIMO_NODE" "$up" >> ends
"#;

/// Most jobs that have not ended.
const BACKLOG: usize = 14;

/// Pause of the submitter while there are enough jobs.
const PAUSE: Duration = Duration::from_millis(50);

pub struct Work {
    pub submitter: Submitter,
    over: AtomicBool,
    /// Accepted jobs by token.
    accepted: Mutex<BTreeMap<String, u64>>,
}

/// Ends the work when dropped, even by a panic.
pub struct Ending<'a>(&'a Work);

/// Node and time of an end, in seconds since boot.
type End = (String, f64);

impl Work {
    pub fn new(submitter: Submitter) -> Self {
        Self { submitter, over: AtomicBool::new(false), accepted: Mutex::default() }
    }

    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Submits jobs until the end.
    pub fn go_on(&self) {
        let mut number = 0_u64;
        while !self.over.load(Ordering::Relaxed) {
            if self.accepted.lock().expect("whole").len() >= BACKLOG + self.ends().len() {
                pause(PAUSE);
                continue;
            }
            number += 1;
            let token = format!("t{number}");
            let length = ["0.3", "0.8", "1.5", "2.5"][usize::try_from(number % 4).expect("small")];
            let manner = if number.is_multiple_of(3) { "stubborn" } else { "obedient" };
            let ran = self.submitter.lrun(&["--detach", "--requeue", "sh", "-c", SCRIPT, "sh", &token, length, manner]);
            // A client whose master was killed may not know if its job was accepted.
            if let (Some(0), Ok(job)) = (ran.code, ran.stdout.trim().parse()) {
                self.accepted.lock().expect("whole").insert(token, job);
            }
        }
    }

    /// Returns the lines of the jobs, by token.
    fn ends(&self) -> BTreeMap<String, Vec<End>> {
        let mut ends: BTreeMap<String, Vec<End>> = BTreeMap::new();
        for line in self.submitter.read("ends").lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [token, node, up] = fields[..] else { continue };
            ends.entry(token.to_owned()).or_default().push((node.to_owned(), up.parse().expect("a time")));
        }
        ends
    }

    /// Checks at the end that each accepted job has completed exactly once.
    pub fn check(&self, notes: &Notes) {
        until("all jobs are over", || self.submitter.jobs().is_empty().then_some(()));
        let (ends, accepted) = (self.ends(), self.accepted.lock().expect("whole"));
        let (tokens, jobs): (Vec<&String>, Vec<u64>) = accepted.iter().map(|(token, job)| (token, *job)).unzip();
        for (tokens, jobs) in tokens.chunks(200).zip(jobs.chunks(200)) {
            for (token, report) in tokens.iter().zip(self.submitter.show(jobs)) {
                assert!(report["state"] == "completed" && report["exit_code"] == 0, "{token}: {report:#}");
                assert!(ends.contains_key(*token), "{token} wrote no line: {report:#}");
            }
        }
        let mut cut = 0;
        for (token, lines) in &ends {
            // The last line is of the attempt that completed. An owner may stop an attempt after its line, and evict it.
            for (node, up) in &lines[..lines.len() - 1] {
                assert!(notes.may_cut(node, *up), "{token} completed more than once: {lines:?}");
                cut += 1;
            }
        }
        assert_eq!(self.submitter.read("doubled"), "", "these jobs ran twice at once");
        println!("{} jobs completed exactly once; {cut} attempts were cut off at their end", accepted.len());
        assert!(cut <= 1 + accepted.len() / 100, "{cut} attempts were cut off at their end");
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}
