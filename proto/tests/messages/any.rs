//! Random messages of every kind.

mod request;

use std::num::NonZeroU32;

use limo_model::{
    Attempt, Band, Budget, Budgets, Checkpoint, CheckpointBy, CheckpointFailure, ClusterId, Containment, Curve, Energy,
    Factor, Incarnation, JobId, JobShare, JournalId, Lease, Mac, Memory, Meter, ModeSetting, NodeId, NodeSpec, Outcome,
    Part, Power, Preset, Price, Release, Rest, Slowdown, SlowdownKey, Span, Switch, Time, UnitId, UnitKind, UnitName,
    UnitSpec, Usage, Wait, Wake, Warning,
};
use limo_proto::{
    Array, AttemptReport, AttemptState, Change, Channel, ClientToMaster, DoExec, DryRunQuery, Files, Hold, Io,
    JobFilter, JobState, JobsQuery, Launch, List, LiveUsage, MasterToClient, MasterToNode, NewSlave, NodeQuery,
    NodeToMaster, Origin, Parallel, Query, Sample, Selection, Selector, SendExec, Share, StepOf, StreamId, Task, Text,
    WindowSize,
};
use proptest::{collection::vec, prelude::*};

pub use request::request;

pub fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..12).prop_map(|chars| chars.into_iter().collect())
}

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

pub fn power() -> impl Strategy<Value = Power> {
    any::<i64>().prop_map(Power::from_mw)
}

pub fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time::from_unix_ms)
}

pub fn ids() -> impl Strategy<Value = (JobId, Attempt)> {
    (any::<u64>(), any::<u32>()).prop_map(|(job, attempt)| (JobId(job), Attempt(attempt)))
}

pub fn stream() -> impl Strategy<Value = StreamId> {
    let channel = prop_oneof![Just(Channel::Stdin), Just(Channel::Stdout), Just(Channel::Stderr)];
    (any::<u64>(), channel, any::<u32>()).prop_map(|(job, channel, part)| StreamId { job: JobId(job), channel, part })
}

pub fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(Outcome::Exited),
        any::<i32>().prop_map(Outcome::Signaled),
        (any::<u8>(), text()).prop_map(|(code, reason)| Outcome::NotStarted { code, reason }),
        text().prop_map(|reason| Outcome::Lost { reason }),
        text().prop_map(|reason| Outcome::NodeFailed { reason }),
        text().prop_map(|reason| Outcome::NotPrepared { reason }),
        any::<u8>().prop_map(Outcome::ExitedAtLimit),
        any::<i32>().prop_map(Outcome::SignaledAtLimit),
        (any::<u8>(), any::<u64>())
            .prop_map(|(code, bytes)| Outcome::ExceededMemory { code, limit: Memory::from_bytes(bytes) }),
    ]
}

pub fn usage() -> impl Strategy<Value = Usage> {
    (any::<i64>(), any::<u64>(), proptest::option::of(any::<i64>())).prop_map(|(ms, rss, energy)| Usage {
        elapsed: Span::from_ms(ms),
        user_cpu: Span::from_ms(ms / 2),
        system_cpu: Span::ZERO,
        max_rss: Memory::from_bytes(rss),
        energy: energy.map(Energy::from_mj),
        confidence: 750,
    })
}

fn files() -> impl Strategy<Value = Files> {
    let file = || proptest::option::of(bytes());
    (file(), file(), file()).prop_map(|(stdin, stdout, stderr)| Files { stdin, stdout, stderr, append: false })
}

pub fn launch() -> impl Strategy<Value = Launch> {
    let variants = vec((text(), vec(bytes(), 1..3)), 0..2);
    (vec(bytes(), 1..4), variants, vec((bytes(), bytes()), 0..4), any::<u32>(), files()).prop_map(
        |(argv, variants, env, number, files)| Launch {
            cwd: argv[0].clone(),
            argv,
            variants,
            env,
            umask: number,
            uid: number,
            io: if number % 2 == 0 { Io::Attached } else { Io::Detached },
            array: (number % 3 == 0)
                .then(|| Array { tasks: "0-9:3%2".parse().expect("tasks"), entries: vec![vec![7]] }),
            files: Files { append: number % 3 == 0, ..files },
            origin: Origin { host: number.to_string(), directory: Vec::new() },
            carried: (number % 5 == 0).then(|| number.to_le_bytes().to_vec()),
            terminal: (number % 7 == 0).then_some(WindowSize { rows: 24, columns: 80 }),
            parallel: (number % 2 == 0).then_some(Parallel {
                label: true,
                reader: Some(number),
                ..Parallel::default()
            }),
            hold: [Hold::Nothing, Hold::Others, Hold::All][number as usize % 3],
        },
    )
}

pub fn spec() -> impl Strategy<Value = NodeSpec> {
    (text(), vec((text(), power(), any::<bool>(), any::<u32>()), 0..4), power()).prop_map(|(name, units, idle)| {
        let unit = |(name, nameplate, cpu, cores): (String, Power, bool, u32)| UnitSpec {
            hardware: name.clone(),
            name,
            kind: if cpu { UnitKind::Cpu } else { UnitKind::Accelerator },
            cores,
            nameplate,
            caps: cpu.then_some((nameplate, nameplate)),
        };
        let units: Vec<UnitSpec> = units.into_iter().map(unit).collect();
        let switch = Switch { span: Span::from_secs(30), draw: idle };
        let wake = Some(Wake::Wol { mac: Mac([2, 4, 6, 8, 10, 12]), broadcast: Some([10, 0, 0, 255].into()) });
        let rest = units.is_empty().then_some(Rest { draw: idle, down: switch, up: switch, wake });
        let (memory, rest) = (Memory::from_bytes(1), rest.map(|rest| rest.into()));
        NodeSpec { name, units, memory, idle, meter: Meter::Emulated, rest }
    })
}

pub fn from_node() -> impl Strategy<Value = NodeToMaster> {
    use NodeToMaster::Ended;

    let state = prop_oneof![
        Just(AttemptState::Held),
        Just(AttemptState::Running),
        (outcome(), usage()).prop_map(|(outcome, usage)| AttemptState::Ended { outcome, usage }),
    ];
    let report = (ids(), state, any::<u64>()).prop_map(|((job, attempt), state, stdin_offset)| AttemptReport {
        journal: JournalId { cluster: ClusterId([9; 16]), incarnation: Incarnation(stdin_offset) },
        job,
        attempt,
        state,
        stdin_offset,
        kept: limo_proto::Kept { stdin: stdin_offset, stdin_ended: true, stdout: 1, stderr: stdin_offset },
        is_evicted: stdin_offset % 2 == 1,
        checkpointed: (stdin_offset % 2 == 1)
            .then_some(limo_model::Kept { ran: Span::from_secs(60), ..Default::default() }),
    });
    prop_oneof![
        (spec(), text(), proptest::option::of(text())).prop_map(|(spec, instance, unfit)| {
            let (journal, containment) = (JournalId::default(), Containment::FULL);
            let (boot, owner) = (instance.clone(), unfit.as_ref().map(String::is_empty));
            let unfit = unfit.map(Into::into);
            NodeToMaster::NewSlave(Box::new(NewSlave { journal, spec, boot, instance, containment, unfit, owner }))
        }),
        vec(report, 0..3).prop_map(|attempts| NodeToMaster::Attempts(List::clipped(attempts))),
        any::<u32>().prop_map(|count| NodeToMaster::RegisterEnd { count }),
        ids().prop_map(|(job, attempt)| NodeToMaster::JobAck { job, attempt }),
        (ids(), text().prop_map(Into::into)).prop_map(|((job, attempt), reason)| NodeToMaster::JobRefused {
            job,
            attempt,
            reason
        }),
        ids().prop_map(|(job, attempt)| NodeToMaster::Started { job, attempt }),
        (ids(), outcome(), usage()).prop_map(|((job, attempt), outcome, usage)| Ended { job, attempt, outcome, usage }),
        power().prop_map(|draw| NodeToMaster::Reading(Sample::once(draw))),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| NodeToMaster::StreamAck { stream, offset }),
        (any::<u64>(), vec((any::<u16>(), text().prop_map(Text::from)), 0..3))
            .prop_map(|(generation, failed)| NodeToMaster::Capped { generation, failed: List::clipped(failed) }),
        (ids(), any::<bool>()).prop_map(|((job, attempt), paused)| NodeToMaster::Paused { job, attempt, paused }),
        (any::<u64>(), text()).prop_map(|(ticket, report)| NodeToMaster::Probed { ticket, report: report.into() }),
        (any::<u64>(), proptest::option::of(usage())).prop_map(|(ticket, usage)| {
            let used = usage.map(|usage| LiveUsage {
                user_cpu: usage.user_cpu,
                system_cpu: usage.system_cpu,
                memory: usage.max_rss,
                peak: usage.max_rss,
            });
            NodeToMaster::Measured { ticket, used }
        }),
        Just(NodeToMaster::FallingAsleep),
        text().prop_map(|reason| NodeToMaster::RebootFailed { reason: reason.into() }),
        text().prop_map(|reason| NodeToMaster::SleepFailed { reason: reason.into() }),
        ids().prop_map(|(job, attempt)| NodeToMaster::Preparing { job, attempt }),
        text().prop_map(|reason| NodeToMaster::Unfit { reason: reason.into() }),
        any::<bool>().prop_map(|is_there| NodeToMaster::Owner { is_there }),
        ids().prop_map(|(job, attempt)| NodeToMaster::Evicted { job, attempt }),
        (ids(), any::<i64>(), any::<i32>()).prop_map(|((job, attempt), ms, code)| NodeToMaster::Checkpointed {
            job,
            attempt,
            kept: limo_model::Kept {
                ran: Span::from_ms(ms),
                took: Span::from_secs(1),
                failed: (code > 0).then_some(CheckpointFailure::Exit(code)),
            },
        }),
    ]
}

pub fn to_node() -> impl Strategy<Value = MasterToNode> {
    let part = (any::<u32>(), any::<u16>(), proptest::option::of(power())).prop_map(|(node, unit, cap)| Part {
        unit: UnitId { node: NodeId(node), unit },
        count: 1,
        cores: node,
        memory: Memory::from_bytes(5),
        cap,
    });
    prop_oneof![
        Just(MasterToNode::Registered),
        Just(MasterToNode::Sleep),
        Just(MasterToNode::Reboot),
        text().prop_map(|reason| MasterToNode::Refused { reason: reason.into() }),
        (ids(), text(), vec(part, 0..3), launch()).prop_map(|((job, attempt), name, placement, launch)| {
            let (application, size, user) = (name.clone(), name.clone(), name.clone());
            let (time_limit, restarts) = (Some(Span::from_ms(i64::from(attempt.0))), attempt.0);
            let (lowest, highest) = (1, attempt.0);
            let task =
                Some(Task { array: job, number: 7, count: 3, lowest, highest, entry: launch.argv.first().cloned() });
            let share = (attempt.0 % 2 == 0).then(|| Share {
                nodes: vec![user.clone()],
                index: 0,
                tasks: vec![restarts],
                grace: Span::from_secs(3),
            });
            let exec = DoExec {
                journal: JournalId::default(),
                job,
                attempt,
                name,
                application,
                size,
                user,
                placement,
                launch,
                time_limit,
                warning: Some(Warning { signal: 10, before: Span::from_ms(i64::from(restarts)) }),
                kill_grace: Span::from_ms(i64::from(restarts)),
                restarts,
                task,
                share,
                lease: (restarts % 2 == 1)
                    .then_some(Lease { span: Span::from_secs(60), grace: Span::from_ms(i64::from(restarts)) }),
                checkpoint: (restarts % 2 == 1)
                    .then_some(Checkpoint { by: CheckpointBy::Signal(12), every: Span::from_secs(60) }),
                step: (restarts % 3 == 1).then_some(StepOf { job, attempt, number: restarts }),
            };
            MasterToNode::DoExec(Box::new(exec))
        }),
        (ids(), power()).prop_map(|((job, attempt), expected)| MasterToNode::Go { job, attempt, expected }),
        ids().prop_map(|(job, attempt)| MasterToNode::Drop { job, attempt }),
        ids().prop_map(|(job, attempt)| MasterToNode::Stop { job, attempt, grace: Span::from_secs(30) }),
        ids().prop_map(|(job, attempt)| MasterToNode::Evict { job, attempt, grace: Span::from_secs(30) }),
        (ids(), any::<i32>()).prop_map(|((job, attempt), signal)| MasterToNode::Signal { job, attempt, signal }),
        ids().prop_map(|(job, attempt)| MasterToNode::EndedAck { job, attempt }),
        (ids(), any::<u64>()).prop_map(|((job, _), offset)| MasterToNode::ReadFrom { job, stdout: offset, stderr: 1 }),
        ids().prop_map(|(job, _)| MasterToNode::Discard { job }),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| MasterToNode::StreamAck { stream, offset }),
        (any::<u64>(), vec(proptest::option::of(power()), 0..3))
            .prop_map(|(generation, caps)| MasterToNode::Caps { generation, caps }),
        ids().prop_map(|(job, attempt)| MasterToNode::Suspend { job, attempt }),
        ids().prop_map(|(job, attempt)| MasterToNode::Resume { job, attempt }),
        any::<u64>().prop_map(|ticket| MasterToNode::Probe { ticket }),
        (ids(), any::<u64>()).prop_map(|((job, attempt), ticket)| MasterToNode::Measure { ticket, job, attempt }),
        (ids(), any::<u16>()).prop_map(|((job, attempt), rows)| {
            MasterToNode::Resize { job, attempt, size: WindowSize { rows, columns: 80 } }
        }),
        (ids(), any::<i64>())
            .prop_map(|((job, attempt), limit)| { MasterToNode::Extend { job, attempt, limit: Span::from_ms(limit) } }),
        (ids(), proptest::option::of(any::<i64>())).prop_map(|((job, attempt), limit)| {
            MasterToNode::TimeLimit { job, attempt, limit: limit.map(Span::from_ms) }
        }),
        proptest::option::of(any::<i64>())
            .prop_map(|evict_after| MasterToNode::Owners { evict_after: evict_after.map(Span::from_ms) }),
    ]
}

const MANY: NonZeroU32 = NonZeroU32::MAX;

/// Returns budgets for successive periods.
pub fn budgets() -> impl Strategy<Value = Budgets> {
    let release = prop_oneof![Just(Release::Even), Just(Release::ByPrice)];
    vec((0..i64::MAX, release), 0..5).prop_map(|periods| {
        let period = |(from, (energy, release)): (i64, (i64, Release))| {
            let (from, until) = (Time::from_unix_ms(from), Time::from_unix_ms(from + 1));
            Budget { from, until, energy: Energy::from_mj(energy), release }
        };
        Budgets::new((-2..).zip(periods).map(period).collect()).expect("ascending")
    })
}

fn factor_name() -> impl Strategy<Value = UnitName> {
    let cap = proptest::option::of(power());
    (text(), text(), text(), cap).prop_map(|(application, node, unit, cap)| UnitName { application, node, unit, cap })
}

fn factor() -> impl Strategy<Value = Factor> {
    let any = (any::<u32>(), any::<u32>(), any::<u32>());
    any.prop_map(|(power, duration, runs)| Factor { power, duration, runs })
}

pub fn change() -> impl Strategy<Value = Change> {
    let steps = vec((1..1000_i64, any::<i64>()), 1..5).prop_map(|steps| {
        let mut at = 0;
        let step = |(gap, price): (i64, i64)| {
            at += gap;
            (Time::from_unix_ms(at), Price::from_milli_per_mwh(price))
        };
        Curve::new(steps.into_iter().map(step).collect(), None).expect("ascending")
    });
    prop_oneof![
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::Cancel),
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::Hold),
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::Release),
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::Requeue),
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::SuspendJobs),
        vec(any::<u64>().prop_map(JobId), 0..4).prop_map(Change::ResumeJobs),
        (vec(any::<u64>().prop_map(JobId), 0..4), proptest::option::of(any::<i64>()))
            .prop_map(|(jobs, ms)| Change::TimeLimit { jobs, limit: ms.map(Span::from_ms) }),
        proptest::option::of(steps).prop_map(Change::Prices),
        Just(Change::Limits(Curve::constant(Band::UNLIMITED))),
        (budgets(), proptest::option::of(budgets())).prop_map(|(budgets, seen)| Change::Budgets { budgets, seen }),
        proptest::sample::select(vec![Change::TrainPredictor, crate::limit(), Change::Mode(ModeSetting::Auto)]),
        vec((factor_name(), proptest::option::of(factor())), 0..4).prop_map(Change::SetVariation),
        (text(), any::<bool>()).prop_map(|(queue, is_down)| Change::QueueState { queue, is_down }),
        (0..=1000_u16).prop_map(|share| Change::Explore(JobShare::try_from(share).expect("a share"))),
        (text(), text(), proptest::option::of(any::<u32>())).prop_map(|(application, hardware, cpi)| {
            Change::Slowdown { key: SlowdownKey { application, hardware }, law: cpi.map(Slowdown::Cpi) }
        }),
        (0..=5_usize).prop_map(|count| {
            let parts = Preset::Limo.parts().rules().into_iter().take(count).collect();
            Change::Policy { preset: Preset::LimoPrototype, parts }
        }),
        (vec(text(), 0..4), text()).prop_map(|(nodes, reason)| Change::Drain { nodes, reason }),
        (vec(text(), 0..4), text()).prop_map(|(nodes, reason)| Change::StopNodes { nodes, reason }),
        vec(text(), 0..4).prop_map(|nodes| Change::Resume { nodes }),
        (text(), any::<u64>(), proptest::option::of(any::<i32>())).prop_map(|(user, job, signal)| {
            let filter = JobFilter { users: vec![user], states: vec![JobState::Running], ..JobFilter::default() };
            let which = vec![Selector::All, Selector::Last, Selector::Range(JobId(job), JobId(job))];
            Change::CancelSelected { selection: Selection { which, filter }, signal }
        }),
    ]
}

pub fn from_client() -> impl Strategy<Value = ClientToMaster> {
    prop_oneof![
        (any::<[u8; 16]>(), request(), launch(), any::<bool>()).prop_map(|(key, request, launch, again)| {
            ClientToMaster::SendExec(Box::new(SendExec { key, request, launch, again }))
        }),
        (ids(), any::<[u8; 16]>(), any::<u64>()).prop_map(|((job, _), key, offset)| ClientToMaster::Attach {
            job,
            key,
            stdout: offset,
            stderr: 3,
            more: vec![(offset, 7)],
        }),
        (ids(), any::<i32>()).prop_map(|((job, _), signal)| ClientToMaster::Signal { job, signal }),
        (stream(), any::<u64>()).prop_map(|(stream, offset)| ClientToMaster::StreamAck { stream, offset }),
        change().prop_map(|change| ClientToMaster::ChangeConf(Box::new(change))),
        request().prop_map(|request| ClientToMaster::Ask(Box::new(Query::DryRun(DryRunQuery(Box::new(request)))))),
        (text(), any::<u32>()).prop_map(|(name, ended)| {
            let filter = JobFilter { names: vec![name], ..JobFilter::default() };
            ClientToMaster::Ask(Box::new(Query::Jobs(JobsQuery { filter, from: JobId(u64::from(ended)), ended })))
        }),
        text().prop_map(|node| ClientToMaster::Ask(Box::new(Query::Node(NodeQuery(node))))),
        (ids(), any::<u16>())
            .prop_map(|((job, _), columns)| ClientToMaster::Resize { job, size: WindowSize { rows: 24, columns } }),
    ]
}

pub fn to_client() -> impl Strategy<Value = MasterToClient> {
    prop_oneof![
        any::<u64>().prop_map(|job| MasterToClient::Accepted { job: JobId(job) }),
        (text(), proptest::option::of(text())).prop_map(|(reason, hint)| MasterToClient::Refused { reason, hint }),
        (any::<u64>(), power(), power(), proptest::option::of(time())).prop_map(|(job, needs, left, until)| {
            MasterToClient::Waiting { job: JobId(job), wait: Wait::Band { needs, left, until } }
        }),
        (any::<u64>(), text()).prop_map(|(job, node)| MasterToClient::Running {
            job: JobId(job),
            unit: node.clone(),
            node
        }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(job, stdin_offset)| MasterToClient::Attached { job: JobId(job), stdin_offset }),
    ]
}
