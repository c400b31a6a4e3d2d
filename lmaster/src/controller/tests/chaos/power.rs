//! The power of the machines of a world: their draws, which the master must know, their caps and their meters.

use limo_node::Input as Happened;
use limo_power::Reading;

use super::host::{Host, node_moment};
use super::shepherds::Process;
use super::*;

/// Events that must happen in worlds with caps, each with its least count.
const EVENTS: [(&str, u32); 2] = [("capped", 12), ("a limit that is held by caps", 12)];

/// Draw of a machine without jobs.
const IDLE: Power = Power::from_watts(10);

/// Most by which rounded means differ from the draw.
const ROUNDING: Power = Power::from_mw(100);

/// Returns the lease of caps: longer than the lease of a node and the time until the master notices a dead connection, as
/// docs/power.md requires.
pub fn cap_lease(seed: u64) -> Span {
    Span::from_secs(if reboots(seed) { 20 } else { 80 })
}

/// Draw of a job at the lowest cap of its unit.
const LOWEST: Power = Power::from_watts(20);

/// Returns an upper limit that one job exceeds without a cap, and that two jobs keep at the lowest caps.
pub fn narrow() -> Band {
    Band::new(Power::ZERO, Power::from_watts(80)).expect("a band")
}

/// Returns the draw of a command without a cap: the nameplate of its unit, which the master expects, or less on a machine
/// with a meter.
fn wants(process: &Process, machine: Machine) -> Power {
    let (job, _) = process.key;
    Power::from_watts(if machine.has_meter && job.0.is_multiple_of(3) { 35 } else { 60 })
}

/// The readings of a node. The first one after a start, or after caps have risen, shows only a part of the new draw, so a
/// draw must be known if it lasts for two of them.
#[derive(Debug, Default)]
pub struct Shown {
    /// Least draw of the commands since the last but one recorded reading, since the connection, and since each later
    /// reading.
    least: VecDeque<Power>,
    /// True if the master has recorded a reading.
    is_known: bool,
    /// Number of readings that have reached the master since it last recorded them.
    heard: usize,
}

impl Shown {
    pub fn connected(&mut self, draw: Power) {
        self.least.truncate(usize::from(self.is_known));
        self.least.push_back(draw);
    }

    pub fn sent(&mut self, draw: Power) {
        self.least.push_back(draw);
    }

    pub fn heard(&mut self) {
        self.heard += 1;
    }

    /// Handles the end of the connection: the master forgets readings that it has not recorded.
    pub fn disconnected(&mut self) {
        self.heard = 0;
    }

    fn recorded(&mut self) {
        for _ in 0..std::mem::take(&mut self.heard) {
            if std::mem::replace(&mut self.is_known, true) {
                self.least.pop_front();
            }
        }
    }
}

impl Host {
    /// Returns the part of the draw of its commands that the master must know.
    fn known_draw(&mut self) -> Power {
        let draw = self.draw_of_jobs();
        let Shown { least, is_known, .. } = &mut self.shown;
        least.iter_mut().for_each(|least| *least = draw.min(*least));
        let known = least.front().filter(|_| *is_known);
        known.copied().unwrap_or(draw)
    }

    /// Returns the draw of its commands. A stopped one draws nothing.
    pub fn draw_of_jobs(&self) -> Power {
        let run = self.processes.values().filter(|process| !process.is_frozen);
        run.map(|process| wants(process, self.machine).min(self.cap.unwrap_or(Power::MAX))).sum()
    }

    fn wants(&self) -> Power {
        self.processes.values().map(|process| wants(process, self.machine)).sum()
    }
}

impl World {
    /// Lets so much time pass that leases of caps end. The disk of the master works.
    pub fn wait_long(&mut self) {
        for _ in 0..50 {
            self.pass(Span::from_ms(500));
            self.commit();
        }
    }

    /// Sets the cap of a unit, which may fail.
    pub fn sets_caps(&mut self, index: usize, generation: u64, caps: &[Option<Power>]) -> Vec<Happened> {
        // A node whose caps fail gets no more jobs if caps divide the limit.
        let fails = self.rarely(if self.capped { 60 } else { 4 });
        let failed = if fails { vec![(0, "no such file".into())] } else { Vec::new() };
        let host = &mut self.hosts[index];
        (host.capped, host.is_told_caps) = (Some(generation), host.link.is_some());
        host.cap = caps.first().copied().flatten().filter(|_| failed.is_empty());
        self.soon(index, vec![Happened::Capped { generation, failed }])
    }

    /// Lifts the caps of a machine, whose jobs keep them until the lease ends.
    pub fn puts_caps_back(&mut self, index: usize) -> Vec<Happened> {
        let now = self.bench.now;
        let host = &mut self.hosts[index];
        let is_over = host.silent_since.is_some_and(|since| now - since.max(host.began) >= host.machine.cap_lease);
        assert!(is_over || host.processes.is_empty(), "the caps of {} are lifted while a job runs", host.name);
        (host.capped, host.cap) = (None, None);
        self.soon(index, vec![Happened::CapsPutBack { complete: true }])
    }

    /// Reads the meter of a machine.
    pub fn reads_meter(&self, index: usize) -> Vec<Happened> {
        let draw = IDLE + self.hosts[index].draw_of_jobs();
        vec![Happened::Metered { at: node_moment(self.bench.now).since, reading: Ok(Reading::Draw(draw)) }]
    }

    /// Checks that the believed draw, with that of orders that may not have been followed yet, covers the draw of all
    /// commands.
    pub fn the_draw_is_covered(&mut self) {
        // The master records the readings of all nodes at once.
        if self.bench.controller.tx.metering.due().is_none() {
            self.hosts.iter_mut().for_each(|host| host.shown.recorded());
        }
        // This also follows the draws, so it comes first.
        let draw: Power = self.hosts.iter_mut().map(Host::known_draw).sum();
        if self.caps_are_unknown {
            return;
        }
        let core = &self.bench.controller.tx.core;
        let view = core.view(self.bench.now);
        // A reading contains the jobs, so only the idle draw of a node with a meter is not theirs. The draw that is kept for
        // an owner covers a job that goes on when the owner leaves.
        let without_jobs = |node: &limo_sched::Node| match self.capped {
            true => node.spec().idle,
            false => (core.draw_with(node.id(), &[]) - node.held_draw()).min(node.spec().idle),
        };
        let believed = view.draw() + view.unconfirmed() - core.nodes().iter().map(without_jobs).sum::<Power>();
        assert!(draw <= believed + ROUNDING, "the jobs draw {draw}, and {believed} is believed");
    }

    /// Checks that the upper limit is held as far as the lowest caps allow it, once all nodes are there and have followed
    /// their orders, and no job is being ended.
    pub fn the_limit_is_held(&mut self) {
        let core = &self.bench.controller.tx.core;
        let view = core.view(self.bench.now);
        let obeys = |node: &limo_sched::Node| {
            node.is_connected() && !node.has_unconfirmed_caps() && node.cap_range(0).is_some()
        };
        let goes_on = |job: &limo_sched::Job| job.assignment().is_none_or(|assignment| assignment.stop.is_none());
        let is_settled = view.parts().divides()
            && self.bench.committing.is_empty()
            && view.unconfirmed().is_zero()
            && core.known_nodes().all(obeys)
            && core.jobs().all(|(_, job)| goes_on(job));
        if !is_settled {
            return;
        }
        let idle: Power = core.known_nodes().map(|_| IDLE).sum();
        let lowest: Power = core.jobs().filter(|(_, job)| job.assignment().is_some()).map(|_| LOWEST).sum();
        let (high, draw) = (view.band().high(), core.sums().drawn());
        assert!(draw <= high.max(idle + lowest), "{draw} is believed, above the limit of {high}");
        let wanted: Power = self.hosts.iter().map(Host::wants).sum();
        if draw <= high && idle + wanted > high {
            self.seen.saw("a limit that is held by caps");
        }
    }
}

#[test]
fn whatever_happens_the_draw_is_covered_and_limits_are_held_by_caps() {
    worlds(300, WorldKind { busy: true, capped: true, ..WorldKind::default() }, 500, &EVENTS);
}
