//! Kills the master and the nodes, and starts them again.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_tests::{Cluster, Dice, Process, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::desk::processes_on;
use crate::notes::Notes;
use crate::{DESKS, pause};

/// Longest time between two failures.
const CALM: Duration = Duration::from_secs(4);

/// Longest time without a master. A visit that ends with an eviction is shorter.
const WITHOUT_MASTER: Duration = Duration::from_secs(3);

const WITHOUT_NODE: Duration = Duration::from_millis(500);

pub struct Failures<'a> {
    cluster: &'a mut Cluster,
    notes: &'a Notes,
    counts: BTreeMap<&'static str, u32>,
}

impl<'a> Failures<'a> {
    pub fn new(cluster: &'a mut Cluster, notes: &'a Notes) -> Self {
        Self { cluster, notes, counts: BTreeMap::new() }
    }

    /// Formats the number of failures by kind.
    pub fn summary(&self) -> String {
        let parts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} x {what}")).collect();
        parts.join(", ")
    }

    /// Makes one failure and ends it.
    pub fn one(&mut self, dice: &mut Dice) {
        pause(dice.up_to(CALM));
        let node = DESKS[usize::try_from(dice.below(DESKS.len() as u64)).expect("small")];
        let choice = dice.below(8);
        let what = match choice {
            0..4 => "master killed",
            4..6 => "daemon of a node killed",
            6 => "master and the daemon of a node killed",
            _ => "node lost with its jobs",
        };
        *self.counts.entry(what).or_default() += 1;
        let (master, daemon) = (choice < 4 || choice == 6, choice >= 4);
        if master {
            self.cluster.kill_master();
        }
        if daemon {
            self.notes.disturbed(node);
            let registered = self.registered(node);
            match choice {
                7 => self.lose(node),
                _ => self.cluster.kill_node(node),
            }
            pause(dice.up_to(WITHOUT_NODE));
            self.cluster.start_node(node);
            if master {
                self.cluster.start_master();
            }
            until("the node registers", || (self.registered(node) > registered).then_some(()));
            self.notes.disturbed(node);
        } else {
            pause(dice.up_to(WITHOUT_MASTER));
            self.cluster.start_master();
        }
    }

    fn registered(&self, node: &str) -> usize {
        self.cluster.node_log(node).matches("registered with the master").count()
    }

    /// Ends everything on a node at once, as a loss of power does.
    fn lose(&mut self, node: &str) {
        let submitter = self.cluster.submitter().clone();
        let jobs = processes_on(node, &submitter);
        for process in jobs {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGSTOP);
        }
        self.cluster.kill_node(node);
        self.cluster.kill_shepherds(node);
        until("no process of a job is left", || {
            let left = processes_on(node, &submitter);
            left.iter().for_each(Process::kill);
            left.is_empty().then_some(())
        });
    }
}
