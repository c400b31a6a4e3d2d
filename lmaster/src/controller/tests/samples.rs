//! Messages of nodes and clients.

use limo_model::{
    Containment, Groups, JournalId, Licences, Memory, Meter, NodeSpec, Outcome, Power, Queues, Request, Span, UnitKind,
    UnitSpec, Usage,
};
use limo_proto::{AttemptState, Data, Kept};

use super::*;

pub fn slave(name: &str, boot: &str, attempts: Vec<AttemptReport>) -> Registration {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 1,
        nameplate: Power::from_watts(60),
        caps: Some((Power::from_watts(20), Power::from_watts(60))),
    };
    let spec = NodeSpec {
        name: name.into(),
        units: vec![unit],
        memory: Memory::from_bytes(1 << 30),
        idle: Power::from_watts(10),
        meter: Meter::Emulated,
        rest: None,
    };
    let slave = NewSlave {
        journal: Default::default(),
        spec,
        instance: format!("instance of {name}"),
        boot: boot.into(),
        containment: Containment::FULL,
        unfit: None,
        owner: None,
    };
    Registration { slave, attempts }
}

/// Returns a report of an attempt in this state, without kept data.
pub fn attempt_report(job: JobId, attempt: Attempt, state: AttemptState) -> AttemptReport {
    AttemptReport {
        journal: JournalId::default(),
        job,
        attempt,
        state,
        stdin_offset: 0,
        kept: Kept::default(),
        is_evicted: false,
        checkpointed: None,
    }
}

pub fn exec(key: u8) -> ClientToMaster {
    exec_with(key, |_| ())
}

/// Returns the same submission, sent again.
pub fn exec_again(key: u8) -> ClientToMaster {
    exec_with(key, |exec| exec.again = true)
}

/// Returns a submission whose key is `key` repeated sixteen times.
pub fn exec_with(key: u8, change: impl FnOnce(&mut SendExec)) -> ClientToMaster {
    let request = Request { user: "somebody else".into(), name: "cg".into(), ..Request::one_core("cg") };
    let launch = Launch {
        argv: vec![b"cg".to_vec(), b"a b".to_vec()],
        variants: Vec::new(),
        cwd: b"/".to_vec(),
        env: Vec::new(),
        umask: 0o022,
        uid: 4711,
        io: Io::Attached,
        ..Launch::default()
    };
    let mut exec = SendExec { key: [key; 16], request, launch, again: false };
    change(&mut exec);
    ClientToMaster::SendExec(Box::new(exec))
}

pub fn ended(job: JobId, attempt: Attempt, code: u8) -> NodeToMaster {
    let energy = Some(limo_model::Energy::from_joules(600));
    let usage = Usage { elapsed: Span::from_secs(10), energy, ..Usage::default() };
    NodeToMaster::Ended { job, attempt, outcome: Outcome::Exited(code), usage }
}

/// Returns the output of a future that is ready at once.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

/// Returns the first word of each message, for comparisons.
pub fn words<M: std::fmt::Debug>(messages: &[M]) -> Vec<String> {
    let word = |message: &M| {
        let text = format!("{message:?}");
        text.split([' ', '(']).next().unwrap_or_default().to_owned()
    };
    messages.iter().map(word).collect()
}

pub fn refusal(message: Option<&MasterToClient>) -> &str {
    match message {
        Some(MasterToClient::Refused { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

/// Returns true if a change was made, with or without a warning.
pub fn is_done(message: &MasterToClient) -> bool {
    matches!(message, MasterToClient::Answer(answer) if matches!(**answer, Answer::Done | Answer::Warned(_)))
}

pub fn settings() -> Settings {
    Settings {
        ack_timeout: Span::from_secs(2),
        kill_grace: Span::from_secs(30),
        orphan_grace: Span::from_secs(60),
        node_lease: Span::from_secs(60),
        snapshot_every: 10_000,
        readings_every: Span::from_secs(1),
        meters: Vec::new(),
        kept: ReadingsKept { resolution: Span::from_secs(60), keep: Span::from_secs(86_400) },
        limits: Limits::default(),
        options: Options { suspect_for: Span::from_secs(30), ..Options::default() },
        initial: Initial { preset: Preset::Fifo, band: Band::UNLIMITED, mode: ModeSetting::Auto },
        idle: idle(),
        has_feeds: true,
        hides_commands: false,
        queues: Queues::default(),
        groups: Groups::default(),
        licences: Licences::default(),
        accounts: limo_model::Accounts::default(),
        qos: limo_model::QosClasses::default(),
        submit_hook: None,
        notify: None,
    }
}

pub fn idle() -> IdleSettings {
    IdleSettings {
        sleep_timeout: Span::from_secs(60),
        sleep_again_after: Span::from_secs(600),
        wake_timeout: Span::from_secs(300),
        wake_tries: 3,
        wake_command: Some("wake-node".into()),
        wol_port: 9,
    }
}

/// Returns a moment at which the wall clock is ahead by `ahead`.
pub fn moment(at: Time, ahead: Span) -> Now {
    Now { wall: Wall::from_unix_ms((at + ahead).unix_ms()), ..Now::simulated(at) }
}

impl Bench {
    /// Completes the running commit.
    pub fn commit(&mut self) {
        let batch = self.committing.pop_front().expect("a commit under way");
        self.disk.write(batch);
        self.input(Input::Committed(Ok(None)));
    }

    /// Fails the running commit.
    pub fn fail(&mut self) {
        self.committing.pop_front().expect("a commit under way");
        let why =
            limo_journal::Unwritable { blocked: limo_journal::Blocked::Full, detail: "no space left on device".into() };
        self.input(Input::Committed(Err(why.into())));
    }

    /// Starts a job on `node`.
    pub fn running(&mut self, client: PeerId, node: PeerId, key: u8) -> (JobId, Attempt) {
        let job = self.submit(client, key);
        let attempt = Attempt(1);
        self.report(node, NodeToMaster::JobAck { job, attempt });
        self.report(node, NodeToMaster::Started { job, attempt });
        // The start is on disk.
        self.pass(Span::from_ms(5));
        self.orders(node);
        (job, attempt)
    }
}

/// Takes the messages to a peer.
pub fn messages<M>(frames: &mut Vec<(PeerId, Frame<M>)>, to: PeerId) -> Vec<M> {
    let own = frames.extract_if(.., |(peer, frame)| *peer == to && matches!(frame, Frame::Message(_)));
    let message = |(_, frame)| if let Frame::Message(message) = frame { Some(message) } else { None };
    own.filter_map(message).collect()
}

/// Takes the data to all peers.
pub fn data<M>(frames: &mut Vec<(PeerId, Frame<M>)>) -> Vec<(PeerId, Data)> {
    let data = |(peer, frame)| if let Frame::Data(data) = frame { Some((peer, data)) } else { None };
    frames.extract_if(.., |(_, frame)| matches!(frame, Frame::Data(_))).filter_map(data).collect()
}
