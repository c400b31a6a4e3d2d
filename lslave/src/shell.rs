//! Shell of the node: passes events to it with the time, and performs its effects in order.
//!
//! Work that waits or takes long is done in tasks (`work`), which send an [`Event`] when they are done.

mod work;

use std::collections::{BTreeMap, VecDeque};
use std::io::PipeWriter;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limo_model::{JobId, NodeSpec};
use limo_node::{Connected, Effect, Input, LAUNCH_DEADLINE_S, LaunchOrder, Moment, Node, Parts};
use limo_power::{MeterError, Reading};
use limo_proto::{Frame, MasterToNode};
use limo_shepherd::processes::children;
use limo_shepherd::{Answer, BootTime, Handle, Order, Step};
use nix::sys::signal::{Signal, kill};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::caps::Shared;
use crate::io::JobPipes;
use crate::launch::{LaunchError, Ours, Surroundings, carried_directory, prepare};
use crate::link::Outgoing;
use crate::probe::RunningDaemon;
use crate::shepherd::Shepherd;
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
    Shepherd(Answer),
    ShepherdLost,
    /// The meter was sampled at `at`, and answered.
    Metered {
        device: Device,
        at: Duration,
        reading: Result<Reading, MeterError>,
    },
}

/// Devices and processes that perform effects.
pub struct Tools {
    pub spool: Spool,
    pub shepherd: Shepherd,
    /// Meter of a real machine.
    pub meter: Option<Device>,
    /// Caps of a real machine.
    pub caps: Option<Shared>,
    /// Reports of the hardware.
    pub running: RunningDaemon,
    /// Commands for sleep; `None` if the machine never sleeps.
    pub sleeper: Option<Sleeper>,
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
    /// Launches that `lshepherd` has not answered.
    launching: BTreeMap<Handle, (JobId, Ours)>,
    pipes: BTreeMap<JobId, JobPipes>,
    /// On emulated hardware: jobs whose work is not done.
    work: BTreeMap<JobId, PipeWriter>,
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
    /// Recovers the records of an earlier daemon, and kills its remaining processes.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub fn open(parts: Parts, mut tools: Tools, events: &mpsc::Sender<Event>) -> anyhow::Result<Self> {
        let found = tools.spool.recover()?;
        let spec = parts.spec.clone();
        let node = Node::new(parts, Moment { since: Duration::ZERO, boot: BootTime::now() });
        let mut shell = Self {
            node,
            spec,
            begin: Instant::now(),
            tools,
            link: None,
            told_behind: false,
            launching: BTreeMap::new(),
            pipes: BTreeMap::new(),
            work: BTreeMap::new(),
            events: events.downgrade(),
            result: None,
        };
        shell.feed(Input::Recovered(found));
        Ok(shell)
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
            Event::Shepherd(answer) => match self.answered(answer) {
                Some(input) => input,
                None => return,
            },
            Event::ShepherdLost => {
                self.launching.clear();
                Input::ShepherdLost
            }
            Event::Metered { device, at, reading } => {
                self.tools.meter = Some(device);
                Input::Metered { at, reading }
            }
        };
        self.feed(input);
    }

    /// Translates an answer of `lshepherd` into an input.
    fn answered(&mut self, answer: Answer) -> Option<Input> {
        Some(match answer {
            Answer::Hello { pid } => {
                debug!(pid, "lshepherd is ready");
                Input::ShepherdReady
            }
            Answer::Trouble { text } => {
                warn!("lshepherd: {text}");
                return None;
            }
            Answer::Started { handle, leader } => {
                let connected = self.connect(handle);
                Input::Started { handle, leader, connected }
            }
            Answer::NotStarted { handle, step, errno, reason } => {
                let (_, ours) = self.launching.remove(&handle)?;
                let error = ours.explanation.of((Step::of(step), errno), reason, LAUNCH_DEADLINE_S);
                Input::NotStarted { handle, code: error.code(), reason: error.to_string() }
            }
            Answer::Stopping { handle, why } => Input::Stopping { handle, why },
            Answer::Exited { handle, ended } => Input::Exited { handle, ended },
            Answer::Emptied { handle, left } => Input::Emptied { handle, left },
        })
    }

    /// Connects the pipes of a running job.
    fn connect(&mut self, handle: Handle) -> Connected {
        let Some((job, ours)) = self.launching.remove(&handle) else { return Connected::default() };
        if let Some(work) = ours.work {
            self.work.insert(job, work);
        }
        let (Some(pipes), Some(events)) = (ours.pipes, self.events.upgrade()) else { return Connected::default() };
        let pipes = JobPipes::connect(job, pipes, &events);
        let connected = pipes.connected();
        self.pipes.insert(job, pipes);
        connected
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

    /// Performs one effect; returns an input that follows from it at once.
    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Send(message) => self.put(Frame::Message(message)),
            Effect::SendData(data) => self.put(Frame::Data(data)),
            Effect::HangUp => self.link = None,
            Effect::Record { ticket, record } => {
                let result = self.tools.spool.keep(&record).map_err(|error| error.to_string());
                return Some(Input::Recorded { ticket, result });
            }
            Effect::LookUp { uid } => self.look_up(uid),
            Effect::Launch(order) => return self.launch(*order),
            Effect::Order(order) => self.tools.shepherd.order(&order),
            Effect::KillOrphans => kill_children(),
            Effect::RestartShepherd => return self.restart_shepherd(),
            Effect::Sweep { job, mark, patience } => self.sweep(job, mark, patience),
            Effect::RemoveCarried { cookie, uid } => {
                let directory = carried_directory(&cookie).into_os_string().into_encoded_bytes();
                self.tools.shepherd.order(&Order::RemoveCarried { directory, uid });
            }
            Effect::Reach { job, mark, leader, stop } => self.reach(job, (mark, leader), stop),
            Effect::Stdin { job, bytes } => drop(self.pipes.get(&job).map(|pipes| pipes.write(bytes))),
            Effect::Read { stream, most } => {
                let _ = self.pipes.get(&stream.job).map(|pipes| pipes.read(stream.channel, most));
            }
            Effect::Resize { job, size } => {
                if let Some(Err(error)) = self.pipes.get(&job).map(|pipes| pipes.resize(size)) {
                    warn!(%job, %error, "the job's terminal keeps its size");
                }
            }
            Effect::EndStreams { job } => drop(self.pipes.get_mut(&job).map(JobPipes::job_over)),
            Effect::DropStreams { job } => drop(self.pipes.remove(&job)),
            Effect::EndWork { job } => drop(self.work.remove(&job)),
            Effect::ReadMeter => self.read_meter(),
            Effect::SetCaps { generation, caps } => self.set_caps(generation, caps),
            Effect::PutCapsBack => self.put_caps_back(),
            Effect::Probe { shown } => self.probe(shown),
            Effect::Sleep => drop(self.tools.sleeper.as_ref().map(Sleeper::want)),
            Effect::Exit(result) => self.result = Some(result),
        }
        None
    }

    fn put(&self, frame: Frame<limo_proto::NodeToMaster>) {
        if let Some(link) = &self.link {
            link.put(frame);
        }
    }

    /// Orders a launch.
    fn launch(&mut self, order: LaunchOrder) -> Option<Input> {
        let LaunchOrder { launch, exec, cookie, identity, emulated_work } = order;
        let around = Surroundings { spec: &self.spec, cookie: &cookie, identity, emulated_work, now_s: now_s() };
        let ordered = prepare(&exec, around).and_then(|prepared| {
            let ordered = self.tools.shepherd.launch(&launch, &prepared.plan, prepared.descriptors);
            ordered.map_err(|error| LaunchError::Launcher(error.to_string()))?;
            Ok(prepared.ours)
        });
        match ordered {
            Ok(ours) => {
                self.launching.insert(launch.handle, (exec.job, ours));
                None
            }
            Err(error) => {
                Some(Input::NotStarted { handle: launch.handle, code: error.code(), reason: error.to_string() })
            }
        }
    }

    fn restart_shepherd(&mut self) -> Option<Input> {
        let events = self.events.upgrade()?;
        match Shepherd::start(self.tools.spool.lock(), &events) {
            Ok(shepherd) => {
                self.tools.shepherd = shepherd;
                None
            }
            Err(error) => Some(Input::ShepherdFailed(error.to_string())),
        }
    }
}

/// Kills the children that this process inherited from an ended `lshepherd`.
fn kill_children() {
    for child in children().unwrap_or_default() {
        let _ = kill(child, Signal::SIGKILL);
    }
}
