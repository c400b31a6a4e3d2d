//! Honest work: detached jobs that may be requeued, attached jobs with compared output, and jobs with a time limit.
//! Each writes lines to a ledger with the time since boot, which does not jump.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use limo_tests::{Person, Ran, finish};

use crate::site::STEADY_NODE;

/// Script with two arguments: the token of the job and its length in seconds. A lock shows if two attempts run at the
/// same time. The process starts before its first line; the kernel reports its start in hundredths of a second.
const DETACHED: &str = r#"
token=$1; length=$2; read stat < /proc/$$/stat; set -- $stat; born=${22}; set -- "$token" "$length"
echo "born $1 ${born%??}.${born#"${born%??}"}" >> ledger
exec 9>>"lock.$1"; flock -n 9 || echo "doubled $1 0" >> ledger
read up rest < /proc/uptime; echo "begin $1 $up" >> ledger
echo "$1"; sleep "$2"
read up rest < /proc/uptime; echo "end $1 $up" >> ledger
"#;

/// Script with one argument: the token.
const ATTACHED: &str = r#"
i=0
while [ $i -lt 60 ]; do i=$((i+1)); echo "$1 $i"; echo "$1 e$i" >&2; sleep 0.05; done
exit 5
"#;

/// Script with one argument, the token; runs until its time limit.
const LIMITED: &str = r#"
while :; do read up rest < /proc/uptime; echo "tick $1 $up" >> ticks; sleep 0.1; done
"#;

/// Time limit of a limited job.
pub const LIMIT: Duration = Duration::from_secs(3);

/// Tolerated overrun: the node ends the job even without the master, but there are pauses between ticks.
pub const LIMIT_SLACK: Duration = Duration::from_secs(3);

/// Most detached jobs at a time.
const BACKLOG: usize = 10;

/// A detached job that was accepted.
#[derive(Debug, Clone)]
pub struct Accepted {
    pub token: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of the job. After a replacement of the master's state, another job may have it.
    pub number: u64,
    /// Number of the master's state in which the job was accepted.
    pub era: u64,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub what: String,
    /// Seconds since boot.
    pub up: f64,
}

pub struct Work {
    pub person: Person,
    over: AtomicBool,
    /// Number of wipes and restores so far.
    era: AtomicU64,
    tokens: AtomicU64,
    accepted: Mutex<Vec<Accepted>>,
    faults: Mutex<Vec<String>>,
    counts: Mutex<Counts>,
}

/// Numbers of checked jobs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Jobs whose energy was compared with the draw over their own times.
    pub measured: u64,
    /// Charged energy in joules. The next value is the drawn energy.
    pub charged_j: f64,
    pub drawn_j: f64,
    /// Attached jobs whose whole output was compared.
    pub attached: u64,
    /// Jobs that their time limit ended, and not too early.
    pub limited: u64,
}

/// Ends the work when dropped, even by a panic.
pub struct Ending<'a>(&'a Work);

impl Work {
    pub fn new(person: Person) -> Self {
        Self {
            person,
            over: AtomicBool::new(false),
            era: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            accepted: Mutex::default(),
            faults: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub fn ending(&self) -> Ending<'_> {
        Ending(self)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn era(&self) -> u64 {
        self.era.load(Ordering::SeqCst)
    }

    /// Starts a new era, before another state replaces the master's.
    pub fn next_era(&self) {
        self.era.fetch_add(1, Ordering::SeqCst);
    }

    pub fn fault(&self, text: String) {
        eprintln!("FAULT: {text}");
        self.faults.lock().expect("whole").push(text);
    }

    pub fn faults(&self) -> Vec<String> {
        self.faults.lock().expect("whole").clone()
    }

    pub fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().expect("whole").clone()
    }

    pub fn counts(&self) -> Counts {
        *self.counts.lock().expect("whole")
    }

    /// Notes a comparison of a job's energies, in joules.
    pub fn measured(&self, charged: f64, drawn: f64) {
        let mut counts = self.counts.lock().expect("whole");
        counts.measured += 1;
        counts.charged_j += charged;
        counts.drawn_j += drawn;
    }

    pub fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        scope.spawn(|| self.go_on(Self::detached));
        scope.spawn(|| self.go_on(Self::attached));
        scope.spawn(|| self.go_on(Self::limited));
    }

    fn go_on(&self, one: fn(&Self)) {
        while !self.is_over() {
            one(self);
        }
    }

    fn token(&self, kind: &str) -> String {
        format!("{kind}{}", self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the output of detached jobs, by token.
    pub fn ledger(&self) -> BTreeMap<String, Vec<Entry>> {
        self.entries("ledger")
    }

    /// Returns the output of jobs with a time limit, by token.
    pub fn ticks(&self) -> BTreeMap<String, Vec<Entry>> {
        self.entries("ticks")
    }

    fn entries(&self, file: &str) -> BTreeMap<String, Vec<Entry>> {
        let mut entries: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for line in self.person.submitter.read(file).lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [what, token, up] = fields[..] else { continue };
            let entry = Entry { what: what.to_owned(), up: up.parse().expect("a time") };
            entries.entry(token.to_owned()).or_default().push(entry);
        }
        entries
    }

    fn under_way(&self) -> usize {
        let (ledger, era) = (self.ledger(), self.era());
        let has_ended = |token: &str| ledger.get(token).is_some_and(|entries| entries.iter().any(|e| e.what == "end"));
        self.accepted().iter().filter(|job| job.era == era && !has_ended(&job.token)).count()
    }

    fn detached(&self) {
        if self.under_way() >= BACKLOG {
            return crate::probes::pause();
        }
        let (token, era) = (self.token("d"), self.era());
        let seconds = [2, 4, 7][self.accepted().len() % 3];
        let length = seconds.to_string();
        let output = format!("out.{token}");
        let ran = self.person.run(
            "lrun",
            &[
                "--detach",
                "--requeue",
                "--app",
                "steady",
                "-t",
                "2min",
                "-o",
                &output,
                "sh",
                "-c",
                DETACHED,
                "honest",
                &token,
                &length,
            ],
        );
        match ran.code {
            Some(0) if era == self.era() => {
                let number = ran.stdout.trim_end().parse().unwrap_or_else(|_| panic!("no number: {ran:?}"));
                self.accepted.lock().expect("whole").push(Accepted { token, seconds: f64::from(seconds), number, era });
            }
            _ => self.unanswered(&ran, era),
        }
    }

    /// Checks the error of a client that could not submit its job.
    fn unanswered(&self, ran: &Ran, era: u64) {
        if era == self.era() && ran.code != Some(125) {
            self.fault(format!("a client failed: {ran:?}"));
        }
        crate::probes::pause();
    }

    fn attached(&self) {
        let (token, era) = (self.token("a"), self.era());
        let ran =
            self.person.run("lrun", &["-Q", "-w", STEADY_NODE, "-t", "2min", "sh", "-c", ATTACHED, "honest", &token]);
        if ran.code != Some(5) {
            return self.unanswered(&ran, era);
        }
        let lines = |prefix: &str| (1..=60).map(|number| format!("{token} {prefix}{number}\n")).collect::<String>();
        if (&ran.stdout, &ran.stderr) != (&lines(""), &lines("e")) {
            self.fault(format!("an attached job has not its own output: {ran:?}"));
        }
        self.counts.lock().expect("whole").attached += 1;
    }

    fn limited(&self) {
        let (token, era) = (self.token("l"), self.era());
        let begin = Instant::now();
        let limit = format!("{}s", LIMIT.as_secs());
        let child = self
            .person
            .command("lrun", &["-Q", "-w", STEADY_NODE, "-t", &limit, "sh", "-c", LIMITED, "honest", &token]);
        let mut child = child;
        let ran = finish(child.spawn().expect("executable"));
        if ran.code != Some(143) {
            return self.unanswered(&ran, era);
        }
        if begin.elapsed() < LIMIT {
            self.fault(format!("{token} was ended by a limit of {LIMIT:?} after {:?}", begin.elapsed()));
        }
        self.counts.lock().expect("whole").limited += 1;
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}
