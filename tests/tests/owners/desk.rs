//! The owner of one machine, who comes, presses keys and leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use limo_tests::{Dice, LIMIT, MARK, Process, Submitter, processes};
use nix::sys::stat::Mode;

use crate::notes::{Notes, Visit};
use crate::work::Work;
use crate::{AWAY_AFTER, EVICT_AFTER, GRACE, pause};

/// Time between two keys.
const KEYS: Duration = Duration::from_millis(100);

/// Pause between two samples of processes.
const PAUSE: Duration = Duration::from_millis(2);

/// Longest absence after the machine has noticed that its owner left.
const ABSENCE: Duration = Duration::from_millis(1_500);

/// Time after an eviction is due in which the test waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The input device is a pipe.
pub struct Desk {
    pub name: &'static str,
    keyboard: File,
    dice: Dice,
}

/// Returns true if the process is stopped or has ended.
fn stands_still(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
}

/// Returns the processes of jobs on a node.
pub fn processes_on(name: &str, submitter: &Submitter) -> Vec<Process> {
    let all = processes(MARK, &submitter.mark).into_iter();
    all.filter(|one| one.variable("LIMO_ATTEMPT").is_some() && one.variable("LIMO_NODE") == Some(name)).collect()
}

impl Desk {
    /// Makes the device in `directory`.
    pub fn new(name: &'static str, directory: &Path, seed: u64) -> Self {
        let input = directory.join(name).join("input");
        fs::create_dir_all(&input).expect("made");
        let device = input.join("event0");
        nix::unistd::mkfifo(&device, Mode::S_IRWXU).expect("a pipe");
        let keyboard = OpenOptions::new().read(true).write(true).open(device).expect("the pipe");
        Self { name, keyboard, dice: Dice::new(seed) }
    }

    /// Comes and leaves until no arrival is left.
    pub fn visits(&mut self, left: &AtomicU64, work: &Work, notes: &Notes) {
        let take = |left: u64| left.checked_sub(1);
        while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            pause(2 * AWAY_AFTER + self.dice.up_to(ABSENCE));
            let visit = self.visit(&work.submitter, notes);
            notes.visited(visit);
        }
    }

    pub fn press(&mut self) {
        self.keyboard.write_all(&[0; 24]).expect("an event");
    }

    /// Returns the attempts on the machine, each with true if all of its processes stand still.
    fn attempts(&self, submitter: &Submitter) -> BTreeMap<String, bool> {
        let mut attempts = BTreeMap::new();
        for process in processes_on(self.name, submitter) {
            let attempt = process.variable("LIMO_ATTEMPT").unwrap_or_default().to_owned();
            *attempts.entry(attempt).or_insert(true) &= stands_still(process.pid);
        }
        attempts
    }

    fn visit(&mut self, submitter: &Submitter, notes: &Notes) -> Visit {
        // Half of the owners leave before an eviction is due.
        let short = (self.dice.below(2) == 0).then(|| self.dice.up_to((EVICT_AFTER - AWAY_AFTER) / 2));
        let before = processes_on(self.name, submitter);
        // Attempts that an earlier visit suspended, and that have not continued yet, are not of this one.
        let runs = |process: &&Process| !stands_still(process.pid);
        let running: BTreeSet<String> =
            before.iter().filter(runs).filter_map(|one| Some(one.variable("LIMO_ATTEMPT")?.to_owned())).collect();
        let disturbances = notes.disturbances(self.name);
        let came = Instant::now();
        notes.came(self.name);
        self.press();
        // A search through all processes takes longer than a sample of the known ones.
        let mut pressed = came;
        let mut still = loop {
            self.press_again(&mut pressed);
            if before.iter().all(|process| stands_still(process.pid)) {
                let attempts = self.attempts(submitter);
                if attempts.values().all(|still| *still) {
                    break attempts;
                }
            }
            assert!(came.elapsed() < LIMIT, "jobs run on {} beside the owner", self.name);
            pause(PAUSE);
        };
        let stopped = (!running.is_empty()).then(|| came.elapsed());
        let mut visit = Visit { node: self.name, stopped, ..Visit::default() };
        still.retain(|attempt, _| running.contains(attempt));
        let mut moved = BTreeSet::new();
        let until = short.unwrap_or(EVICT_AFTER + GRACE + PATIENCE);
        while came.elapsed() < until && !still.is_empty() {
            self.press_again(&mut pressed);
            let now = self.attempts(submitter);
            let at = came.elapsed();
            still.retain(|attempt, _| {
                if now.get(attempt) != Some(&true) && moved.insert(attempt.clone()) {
                    visit.evicted.push(at);
                }
                let is_here = now.contains_key(attempt);
                if !is_here {
                    visit.gone.push(at);
                }
                is_here
            });
            pause(5 * PAUSE);
        }
        visit.kept = short.is_none() && !still.is_empty();
        // A daemon that was killed meanwhile could not watch its owner.
        visit.is_disturbed = notes.disturbances(self.name) != disturbances;
        visit
    }

    fn press_again(&mut self, pressed: &mut Instant) {
        if pressed.elapsed() >= KEYS {
            *pressed = Instant::now();
            self.press();
        }
    }
}
