//! Messages of a node wait for the records on which they depend. Its registration waits for the processes of an
//! earlier daemon.

use std::time::Duration;

use limo_model::{
    Attempt, Epoch, JobId, JournalId, Memory, Meter, NodeId, NodeSpec, Outcome, Part, Power, Span, UnitId, UnitKind,
    UnitSpec,
};
use limo_node::{Connected, Effect, Found, Input, Intent, Moment, Node, Parts, Record, Rhythm, Ticket};
use limo_proto::{DoExec, Frame, Identity, Io, Launch, MasterToNode, NodeToMaster};
use limo_shepherd::{Ended, Handle, Why};

const JOB: JobId = JobId(7);
const ATTEMPT: Attempt = Attempt(1);
const BOOT: &str = "boot";

fn spec() -> NodeSpec {
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

fn exec() -> DoExec {
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
        kill_grace: Span::from_secs(30),
        restarts: 0,
        task: None,
        share: None,
        lease: None,
    }
}

/// Node with its messages and effects since the last check.
struct Bench {
    node: Node,
    told: Vec<NodeToMaster>,
    effects: Vec<Effect>,
}

impl Bench {
    fn with(found: Option<Found>) -> Self {
        let second = Duration::from_secs(1);
        let parts = Parts {
            spec: spec(),
            machine: None,
            has_meter: false,
            may_cap: false,
            cap_lease: Span::from_secs(60),
            own_uid: Some(0),
            seed: [1; 32],
            instance: "instance".into(),
            boot: BOOT.into(),
            rhythm: Rhythm { looks: second, readings: second },
        };
        let node = Node::new(parts, Moment::default());
        let mut bench = Self { node, told: Vec::new(), effects: Vec::new() };
        bench.input(Input::Recovered(found.map(|found| ((JOB, ATTEMPT), found)).into_iter().collect()));
        bench.input(Input::Connected(Identity { journal: JournalId::default(), epoch: Epoch(1) }));
        bench
    }

    /// Returns a registered node.
    fn registered() -> Self {
        let mut bench = Self::with(None);
        bench.master(MasterToNode::Registered);
        bench.told.clear();
        bench
    }

    fn input(&mut self, input: Input) {
        for effect in self.node.step(Moment::default(), input) {
            match effect {
                Effect::Send(message) => self.told.push(message),
                other => self.effects.push(other),
            }
        }
    }

    fn master(&mut self, message: MasterToNode) {
        self.input(Input::FromMaster(Frame::Message(message)));
    }

    /// Returns the record to be written, and its ticket.
    fn record(&mut self) -> (Ticket, Record) {
        let effects = std::mem::take(&mut self.effects);
        let mut records = effects.into_iter().filter_map(|effect| match effect {
            Effect::Record { ticket, record } => Some((ticket, record)),
            _ => None,
        });
        let record = records.next().expect("a record");
        assert!(records.next().is_none(), "one record");
        record
    }

    fn durable(&mut self) {
        let (ticket, _) = self.record();
        self.input(Input::Recorded { ticket, result: Ok(()) });
    }

    fn told(&mut self) -> Vec<NodeToMaster> {
        std::mem::take(&mut self.told)
    }

    fn launched(&mut self) -> Handle {
        let launch = self.effects.extract_if(.., |effect| matches!(effect, Effect::Launch(_))).next();
        let Some(Effect::Launch(order)) = launch else { panic!("no launch: {:?}", self.effects) };
        order.launch.handle
    }
}

#[test]
fn an_acknowledgement_waits_for_the_intent() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    // A repeated request still waits for the record.
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    assert_eq!(bench.told(), []);
    let (ticket, record) = bench.record();
    let Record::Intent(intent) = record else { panic!("{record:?}") };
    assert_eq!((intent.exec, intent.boot.as_str(), intent.cookie.len()), (exec(), BOOT, 32));
    bench.input(Input::Recorded { ticket, result: Ok(()) });
    assert_eq!(bench.told(), [NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT }]);
}

#[test]
fn an_intent_that_cannot_be_recorded_is_refused_and_may_come_again() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    let (ticket, _) = bench.record();
    bench.input(Input::Recorded { ticket, result: Err("no space left on device".into()) });
    let reason = "no space left on device".into();
    assert_eq!(bench.told(), [NodeToMaster::JobRefused { job: JOB, attempt: ATTEMPT, reason }]);
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    assert_eq!(bench.told(), [NodeToMaster::JobAck { job: JOB, attempt: ATTEMPT }]);
}

#[test]
fn a_launch_waits_for_the_record_of_the_start_and_the_end_for_its_own() {
    let mut bench = Bench::registered();
    bench.master(MasterToNode::DoExec(Box::new(exec())));
    bench.durable();
    bench.told();
    bench.master(MasterToNode::Go { job: JOB, attempt: ATTEMPT, expected: Power::ZERO });
    assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Launch(_))), "{:?}", bench.effects);
    bench.durable();
    let handle = bench.launched();
    bench.input(Input::Started { handle, leader: 1, connected: Connected::default() });
    assert_eq!(bench.told(), [NodeToMaster::Started { job: JOB, attempt: ATTEMPT }]);
    let why = Why::OfItself;
    let ended = Ended { status: 3 << 8, elapsed: 5, user_cpu: 0, system_cpu: 0, max_rss: 0, why };
    bench.input(Input::Exited { handle, ended });
    bench.input(Input::Emptied { handle, left: 0 });
    assert_eq!(bench.told(), []);
    bench.durable();
    let told = bench.told();
    let [NodeToMaster::Ended { job: JOB, attempt: ATTEMPT, outcome: Outcome::Exited(3), .. }] = told.as_slice() else {
        panic!("{told:?}");
    };
}

#[test]
fn a_registration_waits_until_nothing_of_an_earlier_daemon_runs() {
    let intent = Intent { exec: exec(), cookie: "cookie".into(), boot: BOOT.into() };
    let mut bench = Bench::with(Some(Found { intent: Some(intent), going: true, end: None }));
    assert_eq!(bench.told(), []);
    let swept = |effect: &Effect| matches!(effect, Effect::Sweep { mark, .. } if mark.cookie == "cookie");
    assert!(bench.effects.iter().any(swept), "{:?}", bench.effects);
    bench.input(Input::Swept { job: JOB, left: 0 });
    assert_eq!(bench.told(), [], "its end is not recorded");
    bench.durable();
    let told = bench.told();
    let [NodeToMaster::NewSlave(_), NodeToMaster::Attempts(attempts), NodeToMaster::RegisterEnd { count: 1 }] =
        told.as_slice()
    else {
        panic!("{told:?}");
    };
    let lost = |report: &limo_proto::AttemptReport| {
        matches!(&report.state, limo_proto::AttemptState::Ended { outcome: Outcome::Lost { .. }, .. })
    };
    assert!(attempts.iter().all(lost), "{attempts:?}");
}
