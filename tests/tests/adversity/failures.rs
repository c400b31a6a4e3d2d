//! Makes one failure at a time and ends it. Afterwards the master answers and all nodes are up.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use limo_requirements::SmallDisk;
use limo_tests::{Cluster, Dice, MASTER, Person, finish, until};

use crate::honest::Work;
use crate::probes::Calm;
use crate::site::{self, FRAIL_NODES, STEADY_NODE};

const HOUR_S: i64 = 3_600;

/// Offsets of wall clocks from true time, in seconds.
const JUMPS_S: [i64; 5] = [0, HOUR_S, -HOUR_S, 24 * HOUR_S, -24 * HOUR_S];

pub struct Failures<'a> {
    cluster: &'a mut Cluster,
    disk: &'a SmallDisk,
    enemy: &'a Person,
    calm: &'a Calm,
    counts: BTreeMap<&'static str, u32>,
    /// Peak memory of the masters so far, in bytes.
    peak: u64,
}

impl<'a> Failures<'a> {
    pub fn new(cluster: &'a mut Cluster, disk: &'a SmallDisk, enemy: &'a Person, calm: &'a Calm) -> Self {
        let mut failures = Self { cluster, disk, enemy, calm, counts: BTreeMap::new(), peak: 0 };
        failures.recovered();
        failures
    }

    /// Formats the number of failures by kind.
    pub fn summary(&self) -> String {
        let parts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        parts.join(", ")
    }

    pub fn peak_master_bytes(&self) -> u64 {
        self.peak.max(self.cluster.peak_master_bytes())
    }

    fn kill_master(&mut self) {
        self.peak = self.peak_master_bytes();
        self.cluster.kill_master();
    }

    fn count(&mut self, what: &'static str) {
        println!("failure: {what}");
        *self.counts.entry(what).or_default() += 1;
    }

    /// Makes one failure, ends it, and waits through a calm time.
    pub fn one(&mut self, dice: &mut Dice, work: &Work) {
        self.calm.change();
        let node = FRAIL_NODES[dice.below(FRAIL_NODES.len() as u64) as usize];
        let short = dice.up_to(Duration::from_secs(3));
        match dice.below(8) {
            0 => {
                self.count("master killed");
                self.kill_master();
                self.cluster.start_master();
            }
            1 => {
                self.count("master killed, an impostor in its place");
                self.kill_master();
                self.impostor(Duration::from_secs(1) + short, work);
                self.cluster.start_master();
            }
            2 => {
                self.count("master stopped");
                self.cluster.stop_master();
                thread::sleep(short);
                self.cluster.continue_master();
            }
            3 => {
                self.count("node killed");
                self.cluster.kill_node(node);
                thread::sleep(short);
                self.cluster.start_node(node);
            }
            4 => {
                self.count("node stopped for a moment");
                self.cluster.stop_node(node);
                thread::sleep(short);
                self.cluster.continue_node(node);
            }
            5 => {
                self.count("node stopped for longer than its lease");
                self.cluster.stop_node(node);
                thread::sleep(Duration::from_secs(25) + short);
                self.cluster.continue_node(node);
            }
            6 => {
                self.count("disk full");
                self.disk.fill();
                thread::sleep(short);
                if dice.below(2) == 0 {
                    self.kill_master();
                    self.cluster.start_master();
                }
                self.disk.make_room();
            }
            _ => {
                self.count("clock jumped");
                // Offsets are from the true time, so a jump may be twice as large.
                let jump = JUMPS_S[dice.below(JUMPS_S.len() as u64) as usize];
                let whose = [MASTER, STEADY_NODE, node][dice.below(3) as usize];
                self.cluster.clock(whose).set(jump);
            }
        }
        self.recovered();
        thread::sleep(Duration::from_secs(2) + dice.up_to(Duration::from_secs(4)));
    }

    /// Waits until all daemons work again. The calm time starts then.
    fn recovered(&mut self) {
        for name in [STEADY_NODE].iter().chain(&FRAIL_NODES) {
            self.cluster.await_node(name);
        }
        until("jobs are accepted", || {
            (self.cluster.submitter().lrun(&["-Q", "-w", STEADY_NODE, "true"]).code == Some(0)).then_some(())
        });
        self.calm.change();
    }

    /// Replaces the master by an impostor for some time. All messages to the impostor are faults.
    fn impostor(&self, time: Duration, work: &Work) {
        let mut command = self.enemy.command("limo-stranger", &["impostor", &self.enemy.submitter.address]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("executable");
        thread::sleep(time);
        // The impostor ends with its stdin.
        drop(child.stdin.take());
        let heard = finish(child).stdout;
        // A client of the impostor's own user trusts it.
        if heard.contains("SENT by another user") {
            work.fault(format!("an impostor was told something: {heard}"));
        }
    }

    /// Restores a backup that is some seconds old.
    pub fn restore(&mut self, work: &Work) {
        let file = self.disk.path().join("backup.tar");
        let path = file.display().to_string();
        self.cluster.submitter().lconf(&["backup", &path]).succeeded();
        thread::sleep(Duration::from_secs(3));
        self.replace(work, "state restored", |state| {
            fs::remove_dir_all(state).expect("the master is dead");
            DirBuilder::new().mode(0o700).create(state).expect("a directory");
            let unpacked =
                Command::new("tar").arg("-C").arg(state).arg("-xf").arg(&file).status().expect("tar is there");
            assert!(unpacked.success(), "the backup cannot be unpacked");
        });
    }

    /// Removes the master's state.
    pub fn wipe(&mut self, work: &Work) {
        self.replace(work, "state wiped", |state| fs::remove_dir_all(state).expect("the master is dead"));
    }

    fn replace(&mut self, work: &Work, what: &'static str, change: impl FnOnce(&Path)) {
        self.calm.change();
        self.count(what);
        self.kill_master();
        work.next_era();
        let state = self.cluster.state_dir().to_owned();
        change(&state);
        self.cluster.start_master();
        site::limit(self.cluster, self.enemy);
        self.recovered();
        thread::sleep(Duration::from_secs(8));
    }
}
