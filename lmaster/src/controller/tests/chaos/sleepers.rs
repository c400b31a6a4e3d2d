//! The nodes of a world fall asleep without jobs, and are woken for them. Orders and answers are lost, wake commands fail, and
//! people switch nodes on.

use limo_model::{Rest, Switch, Wake};
use limo_sched::{RestRule, Sleep};

use super::*;
use crate::wake::WakeOrder;

/// Events that must happen in worlds with sleeping nodes, each with its least count: a third of the count when this was
/// written.
const EVENTS: [(&str, u32); 8] = [
    ("an order to sleep", 370),
    ("a node that sleeps", 350),
    ("a node that wakes at once", 12),
    ("a node that wakes", 200),
    ("a wake order that is lost", 35),
    ("a wake order that fails", 10),
    ("a node that a person switches on", 15),
    ("a node that is told to sleep and cut off", 20),
];

/// Time after which a node that was told to sleep ends its connection itself.
const FAREWELL: Span = Span::from_secs(2);

/// Sleep of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Slumber {
    #[default]
    Awake,
    /// It was told to sleep at this time, and does so once its connection has ended.
    Told(Time),
    Asleep,
}

/// Returns the description of the sleep of each node.
pub fn rest() -> Rest {
    let switch = |ms| Switch { span: Span::from_ms(ms), draw: Power::from_watts(5) };
    Rest { draw: Power::from_watts(1), down: switch(300), up: switch(300), wake: Some(Wake::Command) }
}

/// Lets nodes sleep soon.
pub fn may_sleep(settings: &mut Settings) {
    settings.options.rest = RestRule::Idle(Span::from_ms(500));
    settings.idle.sleep_timeout = Span::from_secs(2);
    settings.idle.sleep_again_after = Span::from_secs(10);
    settings.idle.wake_timeout = Span::from_secs(2);
}

impl World {
    /// Obeys an order to sleep.
    pub fn told_to_sleep(&mut self, index: usize) {
        self.seen.saw("an order to sleep");
        let host = &mut self.hosts[index];
        let has_jobs = !host.processes.is_empty() || !host.shepherds.is_empty();
        assert!(!has_jobs, "{} falls asleep with a job: {:?}", host.name, host.shepherds);
        host.slumber = Slumber::Told(self.bench.now);
    }

    /// Puts a machine to sleep that was told to, after its connection has ended.
    pub fn falls_asleep(&mut self, index: usize) {
        if !matches!(self.hosts[index].slumber, Slumber::Told(_)) {
            return;
        }
        // It reports no failure to sleep. Messages take longer here than the time after which nodes sleep, so the report
        // could cross the next order, and count as its answer.
        let wakes_at_once = self.rarely(8);
        self.hosts[index].slumber = if wakes_at_once { Slumber::Awake } else { Slumber::Asleep };
        self.seen.saw(if wakes_at_once { "a node that wakes at once" } else { "a node that sleeps" });
    }

    /// Obeys the master: ends the connections of nodes that fall asleep, and wakes others.
    pub fn sleepers(&mut self) {
        for peer in std::mem::take(&mut self.bench.parted) {
            if let Some(index) = self.hosts.iter().position(|host| host.link == Some(peer)) {
                self.hang_up(index);
            }
            self.bench.input(Input::Gone(peer));
        }
        for order in std::mem::take(&mut self.bench.woken) {
            let WakeOrder::Command { node, .. } = order else { panic!("{order:?}") };
            let index = self.hosts.iter().position(|host| host.name == node).expect("a node of this world");
            if self.rarely(4) {
                self.seen.saw("a wake order that is lost");
            } else if self.rarely(8) {
                self.seen.saw("a wake order that fails");
                let id = self.bench.controller.tx.core.node_named(&node).map(|node| node.id());
                id.into_iter().for_each(|id| self.bench.input(Input::WakeFailed(id, "no route".into())));
            } else {
                self.wake(index);
            }
        }
    }

    /// Wakes a machine that was suspended, or starts one that was off.
    fn wake(&mut self, index: usize) {
        if self.hosts[index].slumber != Slumber::Asleep {
            return;
        }
        self.seen.saw("a node that wakes");
        let host = &mut self.hosts[index];
        host.slumber = Slumber::Awake;
        if self.dice.roll(2) == 0 {
            self.hosts[index].boot += 1;
            self.begin_daemon(index);
        }
    }

    /// Switches on a node without an order.
    pub fn switch_on(&mut self, index: usize) {
        if self.dice.roll(8) == 0 && self.hosts[index].slumber == Slumber::Asleep {
            self.seen.saw("a node that a person switches on");
            self.wake(index);
        }
    }

    /// Lets time pass on a machine. Returns true if it is asleep.
    pub fn sleeps_on(&mut self, index: usize) -> bool {
        let host = &self.hosts[index];
        if let Slumber::Told(since) = host.slumber
            && self.bench.now - since >= FAREWELL
        {
            self.cut(index);
        }
        self.hosts[index].slumber == Slumber::Asleep
    }

    /// Switches on nodes that the master has given up or does not know, as a person does who has repaired them.
    pub fn switch_on_given_up(&mut self) {
        for index in 0..NODES {
            let node = self.bench.controller.tx.core.node_named(&self.hosts[index].name);
            // A drained node that does not wake keeps the reason of its drain.
            let is_given_up = |node: &limo_sched::Node| node.sleep() == Sleep::Awake && node.drained().is_some();
            if node.is_none_or(is_given_up) {
                self.wake(index);
            }
        }
    }

    /// Returns true if the node is asleep, and the master knows.
    pub fn is_known_asleep(&self, host: &Host) -> bool {
        let node = self.bench.controller.tx.core.node_named(&host.name);
        host.slumber == Slumber::Asleep && node.is_some_and(|node| node.sleep() == Sleep::Asleep)
    }
}

#[test]
fn wherever_nodes_sleep_and_wake_all_jobs_come_to_their_ends() {
    worlds(200, WorldKind { wide: true, busy: true, sleepy: true, ..WorldKind::default() }, 1_000, &EVENTS);
}
