//! Shell of the node: passes events to it with the time, and performs its effects in order.
//!
//! Work that waits or takes long is done in tasks (`work`), which send an [`Event`] when they are done.

mod work;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_containment::Group;
use limo_model::{Attempt, CheckpointFailure, JobId, Kept, NodeSpec, Span};
use limo_node::{Effect, Input, LAUNCH_DEADLINE_S, LaunchOrder, Moment, Node, Parts, Recovery, Script};
use limo_power::{MeterError, Reading};
use limo_proto::{Frame, MasterToNode};
use limo_shepherd::{Answer, BootTime, Claim, CommandFailure, Handle, Launch, Order, PamSession, Plan, Step};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::caps::{Shared, is_capping};
use crate::groups::{Confinement, Groups, remove};
use crate::launch::{Explanation, LaunchError, Surroundings, carried_directory, explanation, prepare};
use crate::link::Outgoing;
use crate::probe::RunningDaemon;
use crate::scripts::ScriptRunner;
use crate::shepherds::{SESSION_PATIENCE, ShepherdId, Shepherds};
use crate::sleep::Sleeper;
use crate::spool::Spool;

type Device = Box<dyn limo_power::Meter>;

/// Event for the loop.
pub enum Event {
    /// Input of the node.
    Node(Input),
    Connected(Outgoing, limo_proto::Identity),
    Disconnected,
    FromMaster(Frame<MasterToNode>),
    /// Answer of the master to a ping that was sent at this time.
    Answered(Instant),
    /// Answer of a shepherd, with descriptors.
    Shepherd(ShepherdId, Answer, Vec<OwnedFd>),
    ShepherdLost(ShepherdId),
    /// A shepherd with a PAM session has had [`SESSION_PATIENCE`] for the launch with this handle, or for its end.
    SessionOverdue(ShepherdId, Option<Handle>),
    /// A prolog or epilog ended.
    ScriptEnded {
        script: Script,
        job: JobId,
        attempt: Attempt,
        result: Result<(), String>,
    },
    /// The meter was sampled at `at`, and answered.
    Metered {
        device: Device,
        at: Duration,
        reading: Result<Reading, MeterError>,
    },
}

/// Rights that every job gets or lacks.
pub struct Privileges {
    /// True if no program of a job may get more rights than its user.
    pub no_new_privs: bool,
    /// PAM service that opens a session for each job.
    pub pam: Option<String>,
}

/// Devices and processes that perform effects.
pub struct Tools {
    pub spool: Spool,
    /// Control groups of jobs.
    pub groups: Groups,
    /// Prologs and epilogs.
    pub scripts: ScriptRunner,
    pub privileges: Privileges,
    /// Meter of a real machine.
    pub meter: Option<Device>,
    /// Caps of a real machine.
    pub caps: Option<Shared>,
    /// Reports of the hardware.
    pub running: RunningDaemon,
    /// Commands for sleep; `None` if the machine never sleeps.
    pub sleeper: Option<Sleeper>,
    /// Command that restarts the machine, if there is one.
    pub reboot: Option<String>,
}

/// Node with its devices and connections.
pub struct Shell {
    node: Node,
    spec: NodeSpec,
    begin: Instant,
    tools: Tools,
    /// Connection to the master, as long as it can be used.
    link: Option<Outgoing>,
    /// True if the node knows that the master is slow.
    told_behind: bool,
    shepherds: Shepherds,
    /// Launches that no shepherd has answered.
    launching: BTreeMap<Handle, Explanation>,
    /// Sender for tasks that report back. Weak, so that the loop does not keep itself alive.
    events: mpsc::WeakSender<Event>,
    /// Result of the daemon, once it has ended.
    pub result: Option<Result<(), String>>,
}

/// Returns this machine's time; 0 if the clock was never set.
fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Shell {
    /// Recovers the records of an earlier daemon, and continues with its shepherds.
    ///
    /// # Errors
    /// If the records cannot be read, or no shepherd can be started.
    pub fn open(
        parts: Parts,
        mut tools: Tools,
        shepherds: &Path,
        events: &mpsc::Sender<Event>,
    ) -> anyhow::Result<Self> {
        let capped = tools.caps.as_ref().is_some_and(is_capping);
        let mut recovery =
            Recovery { found: tools.spool.recover()?, owner: tools.spool.owner(), capped, ..Recovery::default() };
        let shepherds = Shepherds::open(shepherds, &mut recovery, events)?;
        let held = |claim: Claim| recovery.survivors.contains_key(&(JobId(claim.job), Attempt(claim.attempt)));
        tools.groups.clear(held);
        for ((job, attempt), survivor) in &recovery.survivors {
            tools.groups.keep(survivor.handle, Claim { job: job.0, attempt: attempt.0 });
        }
        let explained = recovery.survivors.iter().filter_map(|(key, survivor)| {
            let intent = recovery.found.get(key)?.intent.as_ref()?;
            Some((survivor.handle, explanation(&intent.exec, &parts.spec)))
        });
        let launching = explained.collect();
        let spec = parts.spec.clone();
        let node = Node::new(parts, Moment { since: Duration::ZERO, boot: BootTime::now() });
        let mut shell = Self {
            node,
            spec,
            begin: Instant::now(),
            tools,
            link: None,
            told_behind: false,
            shepherds,
            launching,
            events: events.downgrade(),
            result: None,
        };
        shell.feed(Input::Recovered(recovery));
        Ok(shell)
    }

    /// Cleans up at the end of the daemon.
    pub fn leave(&self) {
        self.tools.groups.leave();
    }

    /// Returns true if jobs go on after the daemon.
    pub fn has_jobs(&self) -> bool {
        self.node.has_jobs()
    }

    pub fn name(&self) -> &str {
        self.node.name()
    }

    /// Returns when [`Input::Deadline`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.node.deadline().map(|since| self.begin + since)
    }

    /// Handles an event.
    pub fn take(&mut self, event: Event) {
        let input = match event {
            Event::Node(input) => input,
            Event::Connected(link, identity) => {
                self.link = Some(link);
                self.told_behind = false;
                Input::Connected(identity)
            }
            Event::Disconnected => {
                self.link = None;
                self.told_behind = false;
                Input::Disconnected
            }
            Event::FromMaster(frame) => Input::FromMaster(frame),
            Event::Answered(at) => Input::Answered { sent: at.saturating_duration_since(self.begin) },
            Event::Shepherd(id, answer, descriptors) => return self.answered(id, answer, descriptors),
            Event::ShepherdLost(id) => {
                let inputs = self.shepherds.lost(id);
                return self.feed_all(inputs);
            }
            Event::SessionOverdue(id, handle) => return self.session_overdue(id, handle),
            Event::ScriptEnded { script, job, attempt, result } => {
                self.tools.scripts.interrupt(job, attempt);
                Input::ScriptEnded { script, job, attempt, result }
            }
            Event::Metered { device, at, reading } => {
                self.tools.meter = Some(device);
                Input::Metered { at, reading }
            }
        };
        self.feed(input);
    }

    /// Handles an answer of a shepherd.
    fn answered(&mut self, id: ShepherdId, answer: Answer, descriptors: Vec<OwnedFd>) {
        if Shepherds::handle_of(&answer).is_some_and(|handle| !self.shepherds.is_of(id, handle)) {
            return debug!(?answer, "an answer about a job that is gone");
        }
        let input = match answer {
            Answer::Hello { .. } => {
                let inputs = self.shepherds.is_ready(id, Some(descriptors));
                return self.feed_all(inputs);
            }
            Answer::Ready => {
                let inputs = self.shepherds.is_ready(id, None);
                return self.feed_all(inputs);
            }
            Answer::Moved { handle } => {
                let inputs = self.shepherds.moved(handle);
                return self.feed_all(inputs);
            }
            Answer::Trouble { text } => return warn!("lshepherd: {text}"),
            Answer::Started { handle, leader, freezes } => {
                self.launching.remove(&handle);
                if let Some(claim) = self.shepherds.claim(handle) {
                    self.tools.groups.keep_running(handle, claim, leader);
                }
                Input::Started { handle, leader, connected: self.shepherds.connected(handle), freezes }
            }
            Answer::NotStarted { handle, step, errno, reason } => {
                let Some(explanation) = self.launching.remove(&handle) else { return };
                let error = explanation.of((Step::of(step), errno), reason, LAUNCH_DEADLINE_S);
                Input::NotStarted { handle, code: error.code(), reason: error.to_string() }
            }
            Answer::Stopping { handle, why } => Input::Stopping { handle, why },
            Answer::Exited { handle, ended } => Input::Exited { handle, ended },
            Answer::Checkpointed { handle, ran, took, failed } => {
                let span = |ms| Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX));
                let kept = Kept { ran: span(ran), took: span(took), failed: failed.map(failure) };
                Input::Checkpointed { handle, kept }
            }
            Answer::Emptied { handle, left } => Input::Emptied { handle, left },
        };
        self.feed(input);
    }

    /// Kills a shepherd if a module of PAM still blocks it; a launch that waits for the session has failed.
    fn session_overdue(&mut self, id: ShepherdId, handle: Option<Handle>) {
        let Some(handle) = handle else { return self.shepherds.kill(id) };
        if !self.launching.contains_key(&handle) {
            return;
        }
        self.shepherds.kill(id);
        let service = self.tools.privileges.pam.as_deref().unwrap_or_default();
        let patience = SESSION_PATIENCE.as_secs();
        let error = LaunchError::Session(format!("PAM service `{service}` opened no session within {patience} s"));
        self.feed(Input::NotStarted { handle, code: error.code(), reason: error.to_string() });
    }

    fn feed_all(&mut self, inputs: Vec<Input>) {
        inputs.into_iter().for_each(|input| self.feed(input));
    }

    /// Passes an input to the node and performs the effects, and those of inputs that follow at once.
    pub fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::new();
        let is_behind = self.link.as_ref().is_some_and(Outgoing::is_behind);
        if std::mem::replace(&mut self.told_behind, is_behind) != is_behind {
            inputs.push_back(Input::Behind(is_behind));
        }
        inputs.push_back(input);
        while let Some(input) = inputs.pop_front() {
            let now = Moment { since: self.begin.elapsed(), boot: BootTime::now() };
            for effect in self.node.step(now, input) {
                inputs.extend(self.perform(effect));
            }
        }
    }

    /// Performs one effect; returns the inputs that follow from it at once.
    fn perform(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::Send(message) => self.put(Frame::Message(message)),
            Effect::SendData(data) => self.put(Frame::Data(data)),
            Effect::HangUp => self.link = None,
            Effect::Record { ticket, record } => {
                let result = self.tools.spool.keep(&record).map_err(|error| error.to_string());
                return vec![Input::Recorded { ticket, result }];
            }
            Effect::KeepOwner(record) => {
                if let Err(error) = self.tools.spool.keep_owner(&record) {
                    warn!(%error, "the next daemon will not know which jobs the owner has suspended");
                }
            }
            Effect::LookUp { uid } => self.look_up(uid),
            Effect::RunScript(order) => self.tools.scripts.run(*order, self.events.clone()),
            Effect::EndProlog { job, attempt } => self.tools.scripts.interrupt(job, attempt),
            Effect::Launch(order) => return self.launch(*order),
            Effect::Order(order) => self.shepherds.order(order),
            Effect::Release { job, attempt, handle } => {
                let claim = Claim { job: job.0, attempt: attempt.0 };
                if handle.and_then(|handle| self.launching.remove(&handle)).is_some() {
                    // No shepherd has taken the launch, so none removes its group.
                    self.tools.groups.of(claim).map(|group| remove(&group, claim, Duration::ZERO));
                }
                return self.shepherds.release(claim, handle);
            }
            Effect::KillOrphans => self.shepherds.kill_orphans(),
            Effect::Sweep { job, attempt, mark, patience } => self.sweep((job, attempt), mark, patience),
            Effect::RemoveCarried { cookie, uid } => {
                let directory = carried_directory(&cookie).into_os_string().into_encoded_bytes();
                self.shepherds.order(Order::RemoveCarried { directory, uid });
            }
            Effect::Reach { job, mark, leader, stop } => self.reach(job, (mark, leader), stop),
            Effect::Stdin { job, bytes } => self.shepherds.write(job, &bytes),
            Effect::Read { stream, most } => return self.shepherds.read(stream, most).into_iter().collect(),
            Effect::Acknowledged { stream, offset } => self.shepherds.acknowledge(stream, offset),
            Effect::Resize { job, size } => self.shepherds.resize(job, size),
            Effect::DropStreams { job } => return self.shepherds.drop_streams(job),
            Effect::EndWork { job } => self.shepherds.end_work(job),
            Effect::ReadMeter => self.read_meter(),
            Effect::SetCaps { generation, caps } => self.set_caps(generation, caps),
            Effect::PutCapsBack => self.put_caps_back(),
            Effect::Probe { shown } => self.probe(shown),
            Effect::Measure { ticket, job, attempt } => self.measure(ticket, Claim { job: job.0, attempt: attempt.0 }),
            Effect::Sleep => drop(self.tools.sleeper.as_ref().map(Sleeper::want)),
            Effect::Reboot => self.reboot(),
            Effect::Exit(result) => self.result = Some(result),
        }
        Vec::new()
    }

    fn put(&self, frame: Frame<limo_proto::NodeToMaster>) {
        if let Some(link) = &self.link {
            link.put(frame);
        }
    }

    /// Orders a launch.
    fn launch(&mut self, order: LaunchOrder) -> Vec<Input> {
        let LaunchOrder { launch, exec, cookie, identity, emulated_work } = order;
        let around = Surroundings { spec: &self.spec, cookie: &cookie, identity, emulated_work, now_s: now_s() };
        let ordered = prepare(&exec, around).and_then(|prepared| {
            let launch = Launch { kept: prepared.kept, ..launch };
            let in_use = |handle| self.launching.contains_key(&handle) || self.shepherds.claim(handle).is_some();
            let made = self.tools.groups.make(&exec, launch.handle, &self.spec, in_use);
            let Confinement { group, cores } = made.map_err(LaunchError::Group)?;
            let directories = group.as_ref().map(Group::directories).unwrap_or_default();
            let Privileges { no_new_privs, pam } = &self.tools.privileges;
            let session = pam.clone().map(|service| PamSession { service, user: exec.user.clone() });
            let plan = Plan { group: directories, no_new_privs: *no_new_privs, session, cores, ..prepared.plan };
            let ordered = self.shepherds.launch(&launch, &plan, prepared.descriptors);
            if ordered.is_err() {
                group.map(|group| group.close());
            }
            Ok((ordered.map_err(|error| LaunchError::Launcher(error.to_string()))?, prepared.explanation))
        });
        match ordered {
            Ok((inputs, explanation)) => {
                self.launching.insert(launch.handle, explanation);
                inputs
            }
            Err(error) => {
                vec![Input::NotStarted { handle: launch.handle, code: error.code(), reason: error.to_string() }]
            }
        }
    }
}

/// Returns the reason for which a command made no checkpoint.
fn failure(CommandFailure { status, is_late }: CommandFailure) -> CheckpointFailure {
    let status = ExitStatus::from_raw(status);
    match (is_late, status.code()) {
        (true, _) => CheckpointFailure::TooLong,
        (false, Some(code)) => CheckpointFailure::Exit(code),
        (false, None) => CheckpointFailure::Signal(status.signal().unwrap_or(0)),
    }
}
