//! Answers of the clients, each with the time span in which it was given.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_tests::Submitter;
use serde_json::Value;

use crate::timeline::While;

/// Tolerance in ms. The test's clock is read before and after the master's own. The journal has the time of an event,
/// and its effects come slightly later.
const SLACK_MS: i64 = 250;

/// Repeated questions. In addition, `lq explain` for a waiting job.
const QUESTIONS: [&[&str]; 7] = [
    &["lq", "--json"],
    &["lconf", "status", "--json"],
    &["lq", "nodes", "--json"],
    &["lconf", "user", "--json"],
    &["lq", "energy", "--json"],
    &["lq", "history", "-n", "20", "--json"],
    &["lconf", "history", "--json"],
];

/// An answer.
pub struct Look {
    pub of: While,
    /// The command line.
    pub question: String,
    /// Answer as printed. Thousands are kept until the end of the run.
    answer: String,
}

impl Look {
    pub fn answer(&self) -> Value {
        serde_json::from_str(&self.answer)
            .unwrap_or_else(|_| panic!("`{}` printed no JSON: {}", self.question, self.answer))
    }
}

pub struct Looks {
    person: Submitter,
    pause: Duration,
    over: AtomicBool,
    /// Counter of changes; odd while there is no master.
    changes: AtomicU64,
    taken: Mutex<Vec<Look>>,
}

/// Ends the questions when dropped, even by a panic.
pub struct Ending<'a>(&'a Looks);

impl Looks {
    /// Prepares a run of this length.
    pub fn new(person: Submitter, length: Duration) -> Self {
        let pause = (length / 400).clamp(Duration::from_millis(100), Duration::from_secs(2));
        let (over, changes, taken) = (AtomicBool::new(false), AtomicU64::new(0), Mutex::default());
        Self { person, pause, over, changes, taken }
    }

    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    /// Notes that the master is about to be killed, or answers again.
    pub fn change(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    pub fn go_on(&self) {
        while !self.over.load(Ordering::Relaxed) {
            self.all_once();
            thread::sleep(self.pause);
        }
    }

    /// Asks everything.
    pub fn all_once(&self) {
        for question in QUESTIONS {
            let Some(answer) = self.ask(question) else { continue };
            if question == QUESTIONS[0]
                && let Some(job) = a_waiting_one(&answer)
            {
                self.ask(&["lq", "explain", &job, "--json"]);
            }
        }
    }

    /// Asks a question; keeps and returns the answer if the master was present all the time.
    fn ask(&self, question: &[&str]) -> Option<String> {
        let before = self.changes.load(Ordering::SeqCst);
        if before % 2 == 1 {
            return None;
        }
        let from = now_ms() - SLACK_MS;
        let ran = self.person.run(question[0], &question[1..]);
        let of = While { from, to: now_ms() + SLACK_MS };
        // A job may be over when it is explained.
        if self.changes.load(Ordering::SeqCst) != before || (ran.code != Some(0) && question[1] == "explain") {
            return None;
        }
        let answer = ran.succeeded();
        let look = Look { of, question: question.join(" "), answer: answer.clone() };
        self.taken.lock().expect("whole").push(look);
        Some(answer)
    }

    /// Returns the answers so far, and forgets them.
    pub fn taken(&self) -> Vec<Look> {
        std::mem::take(&mut self.taken.lock().expect("whole"))
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// Returns the last waiting job of a listing.
fn a_waiting_one(listing: &str) -> Option<String> {
    let listing: Value = serde_json::from_str(listing).ok()?;
    let waits = |job: &&Value| job["state"] == "waiting";
    Some(listing["jobs"].as_array()?.iter().rev().find(waits)?["id"].to_string())
}

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("a time of this age")
}
