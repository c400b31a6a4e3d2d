//! A node without a machine, a job for it, and an earlier daemon of the node.

use std::time::Duration;

use limo_model::{
    Attempt, Containment, Epoch, JobId, JournalId, Memory, Meter, NodeId, NodeSpec, Part, Power, Span, UnitId,
    UnitKind, UnitSpec,
};
use limo_node::{
    Effect, Found, HeldStreams, Input, Intent, Moment, Node, OwnerRecord, Parts, Record, Recovery, Resumed, Rhythm,
    Scripts, Survivor, Ticket, UserRules,
};
use limo_proto::{DoExec, Frame, Identity, Io, Launch, MasterToNode, NodeToMaster};
use limo_shepherd::Handle;

pub const JOB: JobId = JobId(7);
pub const ATTEMPT: Attempt = Attempt(1);
pub const BOOT: &str = "boot";

pub fn spec() -> NodeSpec {
    let unit = UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 4,
        nameplate: Power::from_watts(60),
        caps: None,
    };
    NodeSpec {
        name: "n0".into(),
        units: vec![unit],
        memory: Memory::from_bytes(1 << 30),
        idle: Power::ZERO,
        meter: Meter::None,
        rest: None,
    }
}

pub fn exec() -> DoExec {
    let unit = UnitId { node: NodeId(0), unit: 0 };
    DoExec {
        journal: JournalId::default(),
        job: JOB,
        attempt: ATTEMPT,
        name: "true".into(),
        application: "true".into(),
        size: String::new(),
        user: "root".into(),
        placement: vec![Part { unit, count: 1, cores: 1, memory: Memory::from_bytes(0), cap: None }],
        launch: Launch { argv: vec![b"true".to_vec()], cwd: b"/".to_vec(), io: Io::Detached, ..Launch::default() },
        time_limit: None,
        warning: None,
        checkpoint: None,
        step: None,
        kill_grace: Span::from_secs(30),
        restarts: 0,
        task: None,
        share: None,
        lease: None,
    }
}

/// Node with its messages and effects since the last check.
pub struct Bench {
    pub node: Node,
    /// Time of the steps.
    pub now: Moment,
    told: Vec<NodeToMaster>,
    pub effects: Vec<Effect>,
}

impl Bench {
    pub fn with(found: Option<Found>) -> Self {
        Self::recovered(found, None)
    }

    pub fn recovered(found: Option<Found>, survivor: Option<Survivor>) -> Self {
        Self::beside_owner(found, survivor, OwnerRecord::default())
    }

    pub fn beside_owner(found: Option<Found>, survivor: Option<Survivor>, owner: OwnerRecord) -> Self {
        let second = Duration::from_secs(1);
        let parts = Parts {
            spec: spec(),
            machine: None,
            has_meter: false,
            may_cap: false,
            cap_lease: Span::from_secs(60),
            own_uid: Some(0),
            user_rules: UserRules { root_jobs: true, min_uid: 0 },
            scripts: Scripts::default(),
            has_owner: true,
            seed: [1; 32],
            instance: "instance".into(),
            boot: BOOT.into(),
            rhythm: Rhythm { looks: second, readings: second },
            containment: Containment::default(),
        };
        let node = Node::new(parts, Moment::default());
        let mut bench = Self { node, now: Moment::default(), told: Vec::new(), effects: Vec::new() };
        let key = (JOB, ATTEMPT);
        let found = found.map(|found| (key, found)).into_iter().collect();
        let survivors = survivor.map(|survivor| (key, survivor)).into_iter().collect();
        bench.input(Input::Recovered(Recovery { found, survivors, owner, ..Recovery::default() }));
        bench.connect();
        bench
    }

    /// Returns a registered node.
    pub fn registered() -> Self {
        let mut bench = Self::with(None);
        bench.master(MasterToNode::Registered);
        bench.told.clear();
        bench
    }

    /// Opens a connection to the master.
    pub fn connect(&mut self) {
        self.input(Input::Connected(Identity { epoch: Epoch(1), ..Identity::default() }));
    }

    pub fn input(&mut self, input: Input) {
        for effect in self.node.step(self.now, input) {
            match effect {
                Effect::Send(message) => self.told.push(message),
                other => self.effects.push(other),
            }
        }
    }

    pub fn master(&mut self, message: MasterToNode) {
        self.input(Input::FromMaster(Frame::Message(message)));
    }

    /// Returns the record to be written, and its ticket.
    pub fn record(&mut self) -> (Ticket, Record) {
        let effects = std::mem::take(&mut self.effects);
        let mut records = effects.into_iter().filter_map(|effect| match effect {
            Effect::Record { ticket, record } => Some((ticket, record)),
            _ => None,
        });
        let record = records.next().expect("a record");
        assert!(records.next().is_none(), "one record");
        record
    }

    pub fn durable(&mut self) {
        let (ticket, _) = self.record();
        self.input(Input::Recorded { ticket, result: Ok(()) });
    }

    pub fn told(&mut self) -> Vec<NodeToMaster> {
        std::mem::take(&mut self.told)
    }

    pub fn launched(&mut self) -> Handle {
        let launch = self.effects.extract_if(.., |effect| matches!(effect, Effect::Launch(_))).next();
        let Some(Effect::Launch(order)) = launch else { panic!("no launch: {:?}", self.effects) };
        order.launch.handle
    }
}

pub fn intent(io: Io) -> Intent {
    let exec = DoExec { launch: Launch { io, ..exec().launch }, ..exec() };
    Intent { exec, cookie: "cookie".into(), boot: BOOT.into() }
}

pub fn released(io: Io) -> Found {
    Found { intent: Some(intent(io)), released: Some(Power::from_watts(3)), ..Found::default() }
}

pub fn survivor(cookie: &str, streams: Option<HeldStreams>) -> Survivor {
    Survivor { handle: Handle(9), cookie: cookie.into(), resumed: Resumed::default(), streams }
}

/// Returns the reported states of attempts.
pub fn registered(bench: &mut Bench) -> Vec<limo_proto::AttemptReport> {
    let all = bench.told().into_iter().filter_map(|message| match message {
        NodeToMaster::Attempts(attempts) => Some(attempts.into_iter()),
        _ => None,
    });
    all.flatten().collect()
}
