//! Node: the state machine of `lslave`, without I/O. [`Node::step`] takes an input and returns effects. Its shells are
//! `lslave` and the random worlds in the tests of `lmaster`.
//!
//! The node reads no clock, starts no task or process, and uses no file or socket. If a message to the master depends
//! on a record, it is sent after the record is durable.
//!
//! The modules are split by the source of inputs: `master` (orders), `process` (starts and ends of jobs), `stream`
//! (stdio), `stop` (requested ends), `suspend` (stopped jobs), `lease` (ends without the master), `meter` (watts),
//! `scripts` (prolog and epilog), `steps` (commands in the allocation of a job), `owners` (people at the machine),
//! `energy` (of jobs), `caps` (limits of watts), `emulated` (modelled hardware), `probe` (the hardware of the machine).

mod attempt;
mod caps;
mod checkpoints;
mod cookies;
mod emulated;
mod energy;
mod exchange;
mod faults;
mod foreign;
mod held;
mod io;
mod lease;
mod master;
mod meter;
mod owners;
mod probe;
mod process;
mod records;
mod recover;
mod scripts;
mod steps;
mod stop;
mod stream;
mod survivor;
mod suspend;
mod users;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limo_model::{Attempt as Number, Containment, JobId, JournalId, NodeSpec, Span, Time};
use limo_proto::{Frame, NodeToMaster};
use limo_shepherd::{BootTime, Handle, Order};
use tracing::info;

use attempt::{Attempts, State};
use caps::Caps;
use cookies::Cookies;
pub use exchange::{Connected, Effect, FailedCaps, Input, JobsAtExit, LaunchOrder, Moment, Parts, Ticket};
pub use faults::Fault;
#[cfg(feature = "faults")]
pub use faults::inject;
use foreign::Link;
use held::Holding;
use io::JobIo;
use lease::Leased;
use meter::Meter;
pub use meter::Rhythm;
pub use owners::OwnerRecord;
use owners::Owners;
pub use probe::line;
pub use process::LAUNCH_DEADLINE_S;
pub use records::{End, Found, Intent, Record};
use recover::Leftover;
pub use scripts::{Script, ScriptOrder, Scripts, Subject};
use stop::Closing;
pub use survivor::{HeldOutput, HeldStreams, Recovery, Resumed, Survivor};
use users::Users;
pub use users::{Account, UserRules};
use writing::Writing;

/// One node, for the life of its daemon.
pub struct Node {
    spec: NodeSpec,
    instance: String,
    boot: String,
    containment: Containment,
    meter: Option<Meter>,
    caps: Caps,
    /// Tickets of the requests that wait for the hardware report.
    probing: Option<Vec<u64>>,
    users: Users,
    scripts: Scripts,
    owners: Owners,
    cookies: Cookies,
    attempts: Attempts,
    /// Records that are being written.
    writing: BTreeMap<Ticket, Writing>,
    /// Jobs of an earlier daemon whose processes are being killed, each with a file to remove.
    clearing: BTreeMap<JobId, Option<Leftover>>,
    next_ticket: Ticket,
    next_handle: Handle,
    /// Attempts that shepherds hold.
    holding: BTreeMap<JobId, Holding>,
    /// Ended attempts that the master has acknowledged, but whose output is not delivered yet. They are reported again,
    /// because another master does not know of the output.
    lingering: BTreeMap<JobId, attempt::Attempt>,
    /// Jobs whose processes have ended, but not those of all of their steps.
    awaiting_steps: BTreeSet<JobId>,
    /// Jobs whose processes are being stopped or continued. True if another pass must follow.
    reaching: BTreeMap<JobId, bool>,
    /// Streams of attached jobs, from the assignment until the output is delivered.
    streams: BTreeMap<JobId, JobIo>,
    /// Journal of the last master.
    journal: Option<JournalId>,
    link: Option<Link>,
    /// True if the master reads slowly.
    is_behind: bool,
    /// Time of sending the newest message to which the master answered while the node was registered.
    confirmed: Option<BootTime>,
    /// Leases of running requeueable jobs.
    leases: BTreeMap<JobId, Leased>,
    /// True while there is a connection, even a closing one.
    connected: bool,
    closing: Option<Closing>,
    /// True if the machine sleeps once the connection has ended.
    sleepy: bool,
    /// True from the order to restart the machine until that has failed.
    reboots: bool,
    /// Reason why the machine did not sleep; kept until the master knows it.
    unslept: Option<String>,
    /// True if any master has accepted this node.
    welcomed: bool,
    refused: Option<String>,
    /// Reason why jobs can no longer be launched.
    failed: Option<String>,
    /// True if the daemon was told to end.
    exited: bool,
    /// Time of the current step.
    now: Moment,
    effects: Vec<Effect>,
}

/// Converts a span; zero if negative.
pub fn duration(span: Span) -> Duration {
    Duration::from_millis(u64::try_from(span.ms()).unwrap_or(0))
}

impl Node {
    /// Makes a node without attempts. The first input is [`Input::Recovered`].
    pub fn new(parts: Parts, now: Moment) -> Self {
        let Parts {
            spec,
            machine,
            has_meter,
            may_cap,
            cap_lease,
            own_uid,
            user_rules,
            scripts,
            has_owner,
            seed,
            instance,
            boot,
            rhythm,
            containment,
        } = parts;
        let meter = Meter::new(machine, has_meter, spec.idle, (now.since, rhythm));
        Self {
            spec,
            instance,
            boot,
            containment,
            meter,
            caps: Caps::new(may_cap, duration(cap_lease)),
            probing: None,
            users: Users::new(own_uid, user_rules),
            scripts,
            owners: Owners::new(has_owner),
            cookies: Cookies::new(seed),
            attempts: Attempts::default(),
            writing: BTreeMap::new(),
            clearing: BTreeMap::new(),
            next_ticket: Ticket(1),
            next_handle: Handle(1),
            holding: BTreeMap::new(),
            lingering: BTreeMap::new(),
            awaiting_steps: BTreeSet::new(),
            reaching: BTreeMap::new(),
            streams: BTreeMap::new(),
            journal: None,
            link: None,
            is_behind: false,
            confirmed: None,
            leases: BTreeMap::new(),
            connected: false,
            closing: None,
            sleepy: false,
            reboots: false,
            unslept: None,
            welcomed: false,
            refused: None,
            failed: None,
            exited: false,
            now,
            effects: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Takes one input and returns the effects in order. `now` must not go back.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        self.now = now;
        self.take(input);
        self.introduce();
        self.close_when_done();
        self.exit_when_finished();
        std::mem::take(&mut self.effects)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Recovered(recovery) => self.recover(recovery),
            Input::Connected(identity) => self.connected(identity),
            Input::Disconnected => self.disconnected(),
            Input::Behind(is_behind) => {
                self.is_behind = is_behind;
                self.tell_checkpoints();
            }
            Input::FromMaster(Frame::Message(message)) => self.asked(message),
            Input::FromMaster(Frame::Data(data)) => self.stdin_arrived(data),
            Input::Answered { sent } => self.master_answered(sent),
            Input::Recorded { ticket, result } => self.recorded(ticket, result),
            Input::UserFound { uid, result } => self.user_found(uid, result),
            Input::ScriptEnded { script, job, attempt, result } => self.script_ended(script, (job, attempt), result),
            Input::ShepherdLost { handle } => self.shepherd_lost(handle),
            Input::ShepherdFailed(reason) => self.failed = Some(reason),
            Input::Started { handle, leader, connected, freezes } => self.started(handle, leader, connected, freezes),
            Input::NotStarted { handle, code, reason } => self.launch_failed(handle, code, reason),
            Input::Stopping { handle, why } => self.timer_stops(handle, why),
            Input::Exited { handle, ended } => self.exited(handle, &ended),
            Input::Checkpointed { handle, kept } => self.checkpointed(handle, kept),
            Input::Emptied { handle, left } => self.emptied(handle, left),
            Input::Reached { job } => self.reached(job),
            Input::Swept { job, left } => self.swept_away(job, left),
            Input::Output { stream, bytes } => self.output_read(stream, bytes),
            Input::StdinTaken { job, count } => self.stdin_taken(job, count),
            Input::Metered { at, reading } => self.metered(at, reading),
            Input::Capped { generation, failed } => self.capped(generation, failed),
            Input::CapsPutBack { complete } => self.caps_put_back(complete),
            Input::Owner { is_there } => self.owner_seen(is_there),
            Input::Probed(report) => self.probed(report),
            Input::Measured { ticket, used } => self.send(NodeToMaster::Measured { ticket, used }),
            Input::Reconfigured(rhythm) => self.reconfigured(rhythm),
            Input::Deadline => self.deadline_passed(),
            Input::Terminate(jobs) => self.terminate(jobs),
            Input::RebootFailed(reason) => self.reboot_failed(reason),
            Input::SleepFailed(reason) => self.unslept = Some(reason),
        }
    }

    fn disconnected(&mut self) {
        self.link = None;
        self.connected = false;
        self.sleepy = false;
        self.is_behind = false;
        self.probing.iter_mut().for_each(Vec::clear);
        self.caps.disconnected(self.now.since);
    }

    fn reconfigured(&mut self, rhythm: Rhythm) {
        info!(reading_interval = ?rhythm.readings, meter_interval = ?rhythm.looks, "settings re-read");
        if let Some(meter) = &mut self.meter {
            meter.set_rhythm(self.now.since, rhythm);
        }
    }

    /// Returns when [`Input::Deadline`] is due, as time since the daemon began.
    pub fn deadline(&self) -> Option<Duration> {
        let reading = self.meter.as_ref().and_then(|meter| meter.due(self.is_registered()));
        let closing = self.closing.as_ref().and_then(|closing| closing.until);
        let work = self.work_due();
        let (endings, users) = (self.endings_due(), self.users_due());
        let (introduction, eviction) = (self.introduction_due(), self.eviction_due());
        let due = [reading, work, endings, closing, self.caps.due(), introduction, users, eviction];
        due.into_iter().flatten().min()
    }

    fn deadline_passed(&mut self) {
        self.end_work();
        self.tell_endings();
        self.read_meter();
        self.end_cap_lease();
        self.users_late();
        self.evict_overdue();
    }

    /// Handles the registration: sends everything again that may not have reached the master.
    fn registered(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.registered = true;
        let since = link.since;
        self.master_answered(since);
        self.caps.registered();
        self.welcomed = true;
        info!(node = self.spec.name, "registered with the master");
        if let Some(reason) = self.unslept.take() {
            self.send(NodeToMaster::SleepFailed { reason: reason.into() });
        }
        self.forget_foreign();
        self.tell_owner();
        self.tell_evicted();
        self.tell_checkpoints();
        let ended = self.attempts.known.iter().filter_map(|(&job, attempt)| match &attempt.state {
            State::Ended(end) => Some((job, attempt.number, end.clone())),
            _ => None,
        });
        let ended: Vec<_> = ended.collect();
        for (job, number, end) in ended {
            self.send_end(job, number, end);
        }
        for io in self.streams.values_mut() {
            io.rewind();
            io.send(&mut self.effects);
        }
        self.send_reading();
    }

    fn is_registered(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.registered)
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Sends `lshepherd` an order other than a launch.
    fn order(&mut self, order: Order) {
        self.effects.push(Effect::Order(order));
    }

    /// Sends a message if the master has accepted the node. Otherwise it is repeated after registering.
    fn send(&mut self, message: NodeToMaster) {
        if self.is_registered() {
            self.effects.push(Effect::Send(message));
        }
    }

    fn send_end(&mut self, job: JobId, attempt: Number, end: End) {
        if self.is_foreign(job) {
            // The next registration reports it, because the number stands for another job of the master.
            return;
        }
        self.send(NodeToMaster::Ended { job, attempt, outcome: end.outcome, usage: end.usage });
    }

    /// Returns milliseconds since the daemon began. The model needs only differences.
    fn model_time(&self) -> Time {
        Time::from_unix_ms(i64::try_from(self.now.since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Ends the daemon, once.
    fn exit_when_finished(&mut self) {
        if self.exited || !self.is_finished() {
            return;
        }
        self.exited = true;
        let result = match (&self.failed, &self.refused) {
            (Some(reason), _) => Err(reason.clone()),
            (None, Some(reason)) => Err(format!("the master refuses this node: {reason}")),
            (None, None) => Ok(()),
        };
        self.effects.push(Effect::Exit(result));
    }
}
