//! Random faults: the master is killed or stopped, commits fail, connections break, daemons and shepherds of nodes are killed. Nodes reboot,
//! refuse, keep silent, repeat messages and lose records. Meanwhile users submit jobs and arrays and act on them at any
//! moment. In all cases no accepted job is lost, and none runs twice unless its user allowed it. A job is reported lost
//! only if its node was rebooted or its shepherd killed; it survives a killed daemon. In the end nothing is left of finished jobs. The nodes are the
//! real ones (`limo-node`), each with a simulated disk and simulated processes.

mod callers;
mod course;
mod ends;
mod faults;
mod host;
mod master;
mod nodes;
mod operators;
mod oracles;
mod owners;
mod panics;
mod people;
mod pipes;
mod power;
mod seen;
mod shepherds;
mod sleepers;
mod talkers;

use std::collections::BTreeSet;

use limo_proto::{Change, Heartbeat};

use super::errors::Errors;
use super::*;
use crate::controller::presence::BEAT;
use callers::Callers;
use course::{Dice, Trace, worlds};
use host::{Host, Machine};
use seen::{BUSY, Seen};
use sleepers::Slumber;
use talkers::Talker;

const STEPS: usize = 400;
/// Number of steps if nodes are slow and jobs wait for one another.
const BUSY_STEPS: usize = 600;
const NODES: usize = 3;
const LEASE: Span = Span::from_secs(2);

/// Errors that a controller or a node may log in these worlds. Any other error is a fault.
const EXPECTED: [&str; 13] = [
    "prolog failed: the node gets no more jobs",
    "epilog failed: the node gets no more jobs",
    "node drained; when it is repaired",
    "a node had a job of another journal",
    "a job of another journal than the master's is ended",
    "the journal cannot be written: new jobs are refused",
    "job lost",
    "lshepherd was killed; its job is lost",
    "a node's part of a job is lost",
    "a node runs an attempt that is over: it is ended",
    "node lost: its jobs end as node_failed",
    "job ended: its node failed",
    "part of a job ended: its node failed",
];

/// Properties of a world.
#[derive(Debug, Clone, Copy, Default)]
struct WorldKind {
    /// True if jobs run on several nodes.
    wide: bool,
    /// True if users do more than submit jobs, and nodes do more than run them.
    busy: bool,
    /// True if the first node has an owner, who comes and leaves.
    owners: bool,
    /// True if nodes sleep while they have no jobs.
    sleepy: bool,
    /// True if clients are attached to half of the jobs.
    attached: bool,
    /// True if nodes have meters, and the upper limit is divided among them by caps.
    capped: bool,
}

impl WorldKind {
    /// Returns each kind with busy users. The last two have attached clients, and caps.
    fn busy() -> [Self; 6] {
        let busy = Self { busy: true, ..Self::default() };
        let wide = Self { wide: true, ..busy };
        [
            busy,
            wide,
            Self { owners: true, ..busy },
            Self { sleepy: true, ..wide },
            Self { attached: true, ..wide },
            Self { capped: true, ..busy },
        ]
    }
}

struct World {
    bench: Bench,
    hosts: Vec<Host>,
    dice: Dice,
    trace: Trace,
    wide: bool,
    busy: bool,
    owners: bool,
    sleepy: bool,
    attached: bool,
    capped: bool,
    /// True if a node ever confirmed caps without reason.
    caps_are_unknown: bool,
    preset: Preset,
    stormy: bool,
    /// True if nodes reboot in the world. The next value is true once one has.
    reboots: bool,
    rebooted: bool,
    /// Dead connections that the master has not noticed, with its heartbeats.
    dead: Vec<(PeerId, Heartbeat)>,
    callers: Callers,
    /// True if a machine vanishes at the end. The next value is its node once it has.
    vanishes: bool,
    vanished: Option<usize>,
    /// Attempts that nodes were told to drop, by node.
    dropped: BTreeSet<(usize, JobId, Attempt)>,
    /// The commit of the master before this one, if it has not arrived.
    late: Option<Batch>,
    /// True if there are no more faults.
    healed: bool,
    /// Connection of a submitter. The next ones are of the same user at another terminal, and of an operator.
    client: PeerId,
    steering: PeerId,
    root: PeerId,
    next_key: u8,
    /// Submissions, accepted or not.
    plans: BTreeMap<u8, SendExec>,
    accepted: BTreeSet<JobId>,
    /// Clients that are attached to their jobs, by submission.
    talkers: BTreeMap<u8, Talker>,
    /// Nodes of each job that was sent to one, in order.
    homes: BTreeMap<JobId, Vec<String>>,
    /// Bytes that the commands of attached jobs wrote to stdout and stderr, by job and node.
    wrote: BTreeMap<(JobId, usize), [u64; 2]>,
    /// Jobs and arrays that may have been cancelled, and jobs that may have been requeued.
    unwanted: BTreeSet<JobId>,
    again: BTreeSet<JobId>,
    /// Jobs and arrays whose time limits may have been changed.
    limited: BTreeSet<JobId>,
    /// Number of starts of each job, by attempt and node.
    starts: BTreeMap<JobId, BTreeMap<(Attempt, String), u32>>,
    /// Reported ends of attempts.
    told: BTreeMap<(JobId, Attempt), Vec<Outcome>>,
    /// Ends of the processes of attempts.
    exits: BTreeMap<(JobId, Attempt, String), Outcome>,
    /// Jobs whose shepherds were killed.
    cut_down: BTreeSet<JobId>,
    /// True if the wall clock was ever set back.
    went_back: bool,
    /// True if a node was ever unreachable for its lease.
    lost: bool,
    /// Jobs with an attempt that ended because its node was unreachable or its shepherd was killed.
    failed: BTreeSet<JobId>,
    /// Jobs with a part that failed.
    spoiled: BTreeSet<JobId>,
    errors: Errors,
    seen: Seen,
}

/// Returns true if nodes reboot in a world, where the leases of nodes are short.
fn reboots(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

impl World {
    fn new(seed: u64, WorldKind { wide, busy, owners, sleepy, attached, capped }: WorldKind, errors: Errors) -> Self {
        let bench = Bench::new();
        let preset = match (wide, busy, seed % 3) {
            // Jobs start one by one, so that nodes may sleep.
            _ if sleepy || capped => Preset::Easy,
            (false, false, _) | (false, true, 0) => Preset::Fifo,
            (false, true, 1) => Preset::Limo,
            (false, true, _) if !owners && seed.is_multiple_of(2) => Preset::Energybud,
            (true, true, 1) => Preset::Conservative,
            _ => Preset::Easy,
        };
        let mut world = Self {
            hosts: (0..NODES)
                .map(|index| {
                    let machine = Machine {
                        has_owner: owners && index == 0,
                        may_sleep: sleepy,
                        has_meter: capped,
                        cap_lease: power::cap_lease(seed),
                    };
                    Host::new(index, machine, bench.now)
                })
                .collect(),
            bench,
            dice: Dice::of(seed, course::BEGINNING),
            trace: Trace::default(),
            wide,
            busy,
            owners,
            sleepy,
            attached,
            capped,
            caps_are_unknown: false,
            preset,
            stormy: seed.is_multiple_of(5),
            reboots: reboots(seed),
            rebooted: false,
            dead: Vec::new(),
            callers: Callers::default(),
            // Jobs over all nodes could not run any more.
            vanishes: busy && !wide && !owners && seed % 3 == 1,
            vanished: None,
            dropped: BTreeSet::new(),
            late: None,
            healed: false,
            client: PeerId(0),
            steering: PeerId(0),
            root: PeerId(0),
            next_key: 1,
            plans: BTreeMap::new(),
            accepted: BTreeSet::new(),
            talkers: BTreeMap::new(),
            homes: BTreeMap::new(),
            wrote: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            again: BTreeSet::new(),
            limited: BTreeSet::new(),
            starts: BTreeMap::new(),
            told: BTreeMap::new(),
            exits: BTreeMap::new(),
            cut_down: BTreeSet::new(),
            went_back: false,
            lost: false,
            failed: BTreeSet::new(),
            spoiled: BTreeSet::new(),
            errors,
            seen: Seen::default(),
        };
        world.configure();
        world.arrive();
        world.set_policy();
        if capped {
            world.operator(Change::Limits(limo_model::Curve::constant(power::narrow())));
        }
        world.slow_down();
        if busy && seed.is_multiple_of(4) {
            world.hosts[0].keep_foreign(2);
        }
        (0..NODES).for_each(|node| world.begin_daemon(node));
        world
    }

    /// Runs a whole world, from its beginning to its end, with some of its steps. The random numbers of a step do not depend
    /// on the earlier ones.
    fn run(seed: u64, kind: WorldKind, steps: &[usize], errors: Errors) -> Self {
        let mut world = Self::new(seed, kind, errors);
        for step in steps {
            world.dice = Dice::of(seed, *step);
            world.step();
        }
        world.dice = Dice::of(seed, course::END);
        world.heal();
        world.check();
        world
    }

    /// Connects people to the master.
    fn arrive(&mut self) {
        (self.client, self.steering) = (self.bench.client(7), self.bench.client(7));
        self.root = self.bench.client(0);
    }

    /// Returns true with a probability of one in `times`, in a world that is busy and not healed.
    fn rarely(&mut self, times: usize) -> bool {
        self.busy && !self.healed && self.dice.roll(times) == 0
    }

    /// Returns true if a due fault happens: in most worlds with busy users only few do, so that jobs make progress.
    fn strikes(&mut self) -> bool {
        !self.busy || self.stormy || self.dice.roll(5) == 0
    }

    fn step(&mut self) {
        let node = self.dice.roll(NODES);
        match self.dice.roll(100) {
            0..6 => self.submit(),
            6..12 => self.connect(node),
            12..18 if !self.busy => self.connect(node),
            12..38 => self.deliver(node),
            38..56 => self.hear(node),
            56..60 => self.finish_one(node),
            60..64 if !self.busy => self.finish_one(node),
            64..73 => self.bench.answer_one(),
            73..83 => self.commit(),
            83..85 if self.strikes() && !self.bench.committing.is_empty() => {
                self.seen.saw("failed commit");
                self.bench.fail();
            }
            85..86 if self.strikes() => self.kill(),
            86..88 if self.dice.roll(4) == 0 => self.notice(),
            86..88 if self.strikes() => self.cut(node),
            88..89 if self.dice.roll(2) == 0 => self.threaten(node),
            88..89 if self.reboots && self.strikes() => self.reboot(self.with_jobs(node)),
            89..90 if self.busy => self.babble(node),
            90..92 if self.owners => self.come_or_leave(),
            90..92 if self.sleepy => self.switch_on(node),
            90..97 if self.busy => self.meddle(),
            97..98 if self.rarely(4) => self.set_clock(),
            98..99 if self.rarely(4) => self.stop(),
            99..100 if self.rarely(2) => self.crowd(),
            _ => {
                let pauses: &[i64] = if self.busy { &[10, 10, 10, 10, 300, 300, 2_500] } else { &[10, 300, 2_500] };
                if self.capped && self.rarely(20) {
                    return self.wait_long();
                }
                let pause = pauses[self.dice.roll(pauses.len())];
                self.pass(Span::from_ms(pause));
            }
        }
        if self.attached {
            (0..2).for_each(|_| self.talk());
        }
        self.look();
    }

    fn pass(&mut self, span: Span) {
        let mut left = span;
        while left > Span::ZERO {
            let piece = left.min(BEAT);
            self.elapse(piece, true);
            self.look();
            left = left - piece;
        }
    }

    /// Lets time pass, then the master takes a step.
    fn elapse(&mut self, span: Span, master_runs: bool) {
        // Deadlines that wait for a commit do not fire, because the disk is slow.
        self.bench.now = self.bench.now + span;
        self.clients_are_away();
        // Nodes count from their last answer, which is earlier than the master's time, so they come first.
        (0..NODES).for_each(|node| self.time_passes(node, span, master_runs));
        if master_runs {
            self.miss_signs_of_life();
        }
        self.bench.input(Input::Timer);
    }

    /// Returns the first node of a kind, from `node` on.
    fn first(&self, node: usize, which: fn(&Host) -> bool) -> Option<usize> {
        (0..NODES).map(|place| (node + place) % NODES).find(|node| which(&self.hosts[*node]))
    }

    /// Returns the first node with jobs. Most nodes have none, and a fault there shows little.
    fn with_jobs(&self, node: usize) -> usize {
        self.first(node, Host::has_jobs).unwrap_or(node)
    }

    /// Kills the daemon of a node, now or during its next action, or one of its shepherds.
    fn threaten(&mut self, node: usize) {
        if !self.strikes() || self.hosts[node].slumber == Slumber::Asleep {
            return;
        }
        // Few nodes have a suspended job.
        let node = self.first(node, Host::has_suspended_jobs).unwrap_or_else(|| self.with_jobs(node));
        match self.dice.roll(3) {
            0 => self.kill_daemon(node),
            1 => {
                let and_daemon = self.dice.roll(2) == 0;
                self.kill_shepherd(node, and_daemon);
            }
            _ => self.hosts[node].doomed = Some(self.dice.roll(4)),
        }
    }
}

#[test]
fn no_job_is_lost_and_none_runs_twice() {
    worlds(200, WorldKind::default(), 700, &[]);
}

/// Checks that a job gets all of its nodes or none of them.
#[test]
fn no_job_over_several_nodes_is_lost_and_none_runs_twice() {
    worlds(200, WorldKind { wide: true, ..WorldKind::default() }, 600, &[]);
}

#[test]
fn whatever_is_done_to_jobs_and_arrays_all_come_to_their_ends() {
    let more = [("a failed prolog", 4), ("capped", 12), ("suspended", 1), ("a lease ended", 5)];
    worlds(800, WorldKind { busy: true, ..WorldKind::default() }, 2_000, &[&BUSY[..], &more].concat());
}

#[test]
fn whatever_is_done_to_jobs_over_several_nodes_all_come_to_their_ends() {
    worlds(500, WorldKind { wide: true, busy: true, ..WorldKind::default() }, 2_000, &BUSY);
}
