//! The node: one place where every event arrives and everything that the daemon knows is kept.
//!
//! Split by where events come from: `master` (what it asks), `process` (what runs), `stream` (stdio), `stop` (ends),
//! `suspend` (jobs that stand still), `lease` (jobs that end without the master), `meter` (watts), `energy` (of jobs),
//! `caps` (limits of watts), `emulated` (hardware that is not there), `probe` (what the machine has).

mod caps;
mod emulated;
mod energy;
mod foreign;
mod lease;
mod master;
mod meter;
mod probe;
mod process;
mod stop;
mod stream;
mod suspend;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use limo_model::{Attempt as Number, JobId, JournalId, NodeSpec, Span, Time};
use limo_power::Machine;
use limo_proto::{Frame, MasterToNode, NodeToMaster, StreamId};
use limo_shepherd::processes::{Mark, sweep};
use limo_shepherd::{BootTime, Identity, Order};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::attempt::{Attempt, Attempts, Recovered, State, lost, recovered};
use crate::io::JobIo;
use crate::launch::{LaunchError, carried_directory};
use crate::link::Outgoing;
use crate::probe::Running;
use crate::shepherd::Shepherd;
use crate::spool::{End, Intent, Spool};
use crate::users::Users;
use caps::Caps;
pub use caps::Done;
use emulated::Emulation;
use lease::Leased;
use meter::Meter;
pub use meter::{Answer, Rhythm};
use stop::Closing;

/// How long processes that a killed daemon left behind get to be gone.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// One thing that happened.
pub enum Input {
    Connected(Outgoing, limo_proto::Identity),
    Disconnected,
    FromMaster(Frame<MasterToNode>),
    /// The master answered a ping that was sent then.
    Answered(Instant),
    Shepherd(limo_shepherd::Answer),
    /// `lshepherd` ended, which it does not do by itself.
    ShepherdLost,
    /// A look-up of a job's user ended.
    UserFound {
        uid: u32,
        result: Result<Identity, LaunchError>,
    },
    /// The look-up of the job's user takes too long.
    UserLate {
        job: JobId,
        attempt: Number,
    },
    /// A pass over all processes of the job, which stopped or continued them, is over.
    Reached {
        job: JobId,
    },
    /// Nothing of the job is left.
    Swept {
        job: JobId,
    },
    /// A pipe gave these bytes; none is its end.
    Output {
        stream: StreamId,
        bytes: Bytes,
    },
    /// The job took so many bytes of stdin; the end counts as one.
    StdinTaken {
        job: JobId,
        count: u64,
    },
    /// The time that [`Node::deadline`] named has come.
    Deadline,
    /// The meter was read.
    Metered(Answer),
    /// Caps were set or put back.
    Capped(Done),
    /// What the machine has was looked at.
    Probed(String),
    Reconfigured(Rhythm),
    Terminate,
}

/// What a node is made of.
pub struct Parts {
    pub spec: NodeSpec,
    /// Set on emulated hardware.
    pub machine: Option<Machine>,
    /// What measures a real machine.
    pub meter: Option<Box<dyn limo_power::Meter>>,
    /// What caps a real machine; `None` where nothing may be capped.
    pub caps: Option<crate::caps::Shared>,
    /// How long caps hold without a master.
    pub cap_lease: Span,
    pub spool: Spool,
    pub shepherd: Shepherd,
    pub boot: String,
    /// Of the meter.
    pub rhythm: Rhythm,
    /// For whoever asks what the machine has.
    pub running: Running,
}

pub struct Node {
    spec: NodeSpec,
    meter: Option<Meter>,
    caps: Caps,
    emulation: Emulation,
    running: Running,
    /// Who waits for what the machine has, while it is looked at.
    probing: Option<Vec<u64>>,
    spool: Spool,
    shepherd: Shepherd,
    /// Whether it has answered since it was started.
    shepherd_ready: bool,
    users: Users,
    boot: String,
    attempts: Attempts,
    /// Jobs whose processes are being stopped or continued, and whether that must be done once more.
    reaching: BTreeMap<JobId, bool>,
    /// Of attached jobs, from the assignment until the output is delivered.
    streams: BTreeMap<JobId, JobIo>,
    /// Of the master that was greeted last.
    journal: Option<JournalId>,
    link: Option<Link>,
    /// When the newest message was sent that the master answered while the node was registered.
    confirmed: Option<BootTime>,
    /// Of requeueable jobs that run.
    leases: BTreeMap<JobId, Leased>,
    /// Whether there is a connection, even one on which nothing is sent any more.
    connected: bool,
    /// For tasks that report back. Weak, so that the loop does not keep itself alive.
    inputs: mpsc::WeakSender<Input>,
    begin: Instant,
    closing: Option<Closing>,
    /// Whether the master ever took this node.
    welcomed: bool,
    refused: Option<String>,
    /// Why no job can be launched any more.
    failed: Option<String>,
}

struct Link {
    outgoing: Outgoing,
    /// When the registration was sent.
    since: Instant,
    registered: bool,
    /// When the node says who it is at the latest; `None` once it has.
    introduce_by: Option<Instant>,
}

/// Nothing where it is negative.
pub fn duration(span: Span) -> Duration {
    Duration::from_millis(u64::try_from(span.ms()).unwrap_or(0))
}

impl Node {
    /// Takes up what an earlier daemon left, and kills what still runs of it.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn open(parts: Parts, inputs: &mpsc::Sender<Input>) -> anyhow::Result<Self> {
        let Parts { spec, machine, meter, caps, cap_lease, spool, shepherd, boot, rhythm, running } = parts;
        let now = Instant::now();
        let meter = Meter::new(machine, meter, spec.idle, (now, rhythm));
        let mut node = Self {
            spec,
            meter,
            caps: Caps::new(caps, duration(cap_lease)),
            emulation: Emulation::default(),
            running,
            probing: None,
            spool,
            shepherd,
            shepherd_ready: false,
            users: Users::default(),
            boot,
            attempts: Attempts::default(),
            reaching: BTreeMap::new(),
            streams: BTreeMap::new(),
            journal: None,
            link: None,
            confirmed: None,
            leases: BTreeMap::new(),
            connected: false,
            inputs: inputs.downgrade(),
            begin: now,
            closing: None,
            welcomed: false,
            refused: None,
            failed: None,
        };
        node.recover()?;
        Ok(node)
    }

    fn recover(&mut self) -> anyhow::Result<()> {
        for ((job, number), found) in self.spool.recover()? {
            let cookie = found.intent.as_ref().map(|intent| intent.cookie.clone()).unwrap_or_default();
            let journal = found.intent.as_ref().map(|intent| intent.exec.journal).unwrap_or_default();
            let state = match recovered(&found, &self.boot) {
                Recovered::Ended(end) => State::Ended(end),
                Recovered::Lost { reason } => {
                    if let Some(intent) = &found.intent {
                        self.clear_away(intent);
                    }
                    warn!(%job, attempt = %number, reason, "the job is lost");
                    let end = lost(reason);
                    self.record_end(job, number, &end);
                    State::Ended(end)
                }
                Recovered::Held => match found.intent {
                    Some(intent) => {
                        self.expect_streams(&intent.exec);
                        State::Held(Box::new(intent.exec))
                    }
                    // Without a readable intent it would be lost.
                    None => continue,
                },
            };
            info!(%job, attempt = %number, "the job is known from before");
            self.attempts.known.insert(job, Attempt { journal, number, cookie, state });
        }
        Ok(())
    }

    /// Kills and removes what a killed daemon left of a job. Usually its `lshepherd` has done so.
    fn clear_away(&self, intent: &Intent) {
        let (cookie, uid) = (intent.cookie.clone(), intent.exec.launch.uid);
        let directory = carried_directory(&cookie).into_os_string().into_encoded_bytes();
        let (over, swept) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Nobody may wait any more.
            let _ = over.send(sweep(&Mark { cookie, uid }, LEFTOVERS));
        });
        // A process of the job can hold the thread for as long as it likes.
        if swept.recv_timeout(2 * LEFTOVERS) != Ok(0) {
            warn!(job = %intent.exec.job, "processes of a lost job cannot be killed");
        }
        if intent.exec.launch.carried.is_some() {
            self.shepherd.order(&Order::RemoveCarried { directory, uid });
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Connected(outgoing, identity) => self.connected(outgoing, identity),
            Input::Disconnected => {
                self.link = None;
                self.connected = false;
                self.probing.iter_mut().for_each(Vec::clear);
                self.caps.disconnected(Instant::now());
            }
            Input::FromMaster(Frame::Message(message)) => self.asked(message),
            Input::FromMaster(Frame::Data(data)) => self.stdin_arrived(data),
            Input::Answered(sent) => self.master_answered(sent),
            Input::Shepherd(answer) => self.answered(answer),
            Input::ShepherdLost => self.shepherd_lost(),
            Input::UserFound { uid, result } => self.user_found(uid, result),
            Input::UserLate { job, attempt } => self.user_late(job, attempt),
            Input::Reached { job } => self.reached(job),
            Input::Swept { job } => self.swept(job),
            Input::Output { stream, bytes } => self.output_read(stream, bytes),
            Input::StdinTaken { job, count } => self.stdin_taken(job, count),
            Input::Metered(answer) => self.metered(answer),
            Input::Capped(done) => self.capped(done),
            Input::Probed(report) => self.probed(report),
            Input::Deadline => self.deadline_passed(Instant::now()),
            Input::Reconfigured(rhythm) => {
                info!(reading_interval = ?rhythm.readings, meter_interval = ?rhythm.looks, "settings re-read");
                if let Some(meter) = &mut self.meter {
                    meter.set_rhythm(Instant::now(), rhythm);
                }
            }
            Input::Terminate => self.terminate(),
        }
        self.introduce();
        self.close_when_done();
    }

    /// When to come back with [`Input::Deadline`].
    pub fn deadline(&self) -> Option<Instant> {
        let reading = self.meter.as_ref().and_then(|meter| meter.due(self.is_registered()));
        let closing = self.closing.as_ref().and_then(|closing| closing.until);
        let (caps, introduction) = (self.caps.due(), self.introduction_due());
        let endings = self.endings_due();
        reading.into_iter().chain(self.work_due()).chain(endings).chain(closing).chain(caps).chain(introduction).min()
    }

    fn deadline_passed(&mut self, now: Instant) {
        self.end_work();
        self.tell_endings();
        self.read_meter(now);
        self.end_lease(now);
    }

    /// The master took the node: says again what may not have reached it.
    fn registered(&mut self) {
        let Some(link) = &mut self.link else { return };
        link.registered = true;
        let since = link.since;
        self.master_answered(since);
        self.caps.registered();
        self.welcomed = true;
        info!(node = self.spec.name, "registered with the master");
        self.forget_foreign();
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
        }
        for job in self.streams.keys().copied().collect::<Vec<_>>() {
            self.send_output(job);
        }
        self.send_reading();
    }

    fn is_registered(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.registered)
    }

    /// The way to the master, where it has taken the node. What cannot be sent now is said again after registering.
    fn outgoing(&self) -> Option<&Outgoing> {
        self.link.as_ref().filter(|link| link.registered).map(|link| &link.outgoing)
    }

    fn send(&self, message: NodeToMaster) {
        if let Some(outgoing) = self.outgoing() {
            outgoing.send(message);
        }
    }

    fn send_end(&self, job: JobId, attempt: Number, end: End) {
        if self.is_foreign(job) {
            // The next registration says it: the master has another job of this number.
            return;
        }
        self.send(NodeToMaster::Ended { job, attempt, outcome: end.outcome, usage: end.usage });
    }

    /// For the model, which only needs differences: milliseconds since the daemon began, by a clock that is never set.
    fn now(&self) -> Time {
        Time::from_unix_ms(i64::try_from(self.begin.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn record_end(&self, job: JobId, attempt: Number, end: &End) {
        if let Err(error) = self.spool.end(job, attempt, end) {
            // It is still told; only a daemon killed before that reaches the master would report it lost.
            warn!(%job, %attempt, %error, "the end of the job is not recorded");
        }
    }
}
