//! Reasons for refusing an event or a request.

use limo_model::{
    AccountError, Attempt, Cores, GroupError, JobId, LicenceError, Memory, NodeId, OverQuota, PREDICTED_LIMIT,
    PRIORITY_LIMIT, Power, QosError, QueueError, STEPS_LIMIT, SessionSums, Span, SpecError, Time, UnitId, WIDTH_LIMIT,
    Widths,
};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    #[error("job {job} is not the next number {next}")]
    Number { job: JobId, next: JobId },
    #[error("there is no waiting or running job {job}")]
    NoSuchJob { job: JobId },
    #[error("job {job} is not in attempt {attempt}")]
    OldAttempt { job: JobId, attempt: Attempt },
    #[error("node number {} has no part of job {job} that could end", node.0)]
    NoPart { job: JobId, node: NodeId },
    #[error("job {job} is already running")]
    AlreadyRunning { job: JobId },
    #[error("the parts of the policy do not go together: {why}")]
    Senseless { why: String },
    #[error("the slowdown of {key} is not possible: {why}")]
    Slowdown { key: String, why: String },
    #[error("the slowdown of {key} cannot be set: the limit is {limit} laws")]
    TooManySlowdowns { key: String, limit: usize },
    #[error("there is no node number {}", node.0)]
    NoSuchNode { node: NodeId },
    #[error("the sessions of node {node}: {what} is {span}: it must be from 0s to {}", SessionSums::LONGEST)]
    Sessions { node: String, what: &'static str, span: Span },
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("node `{name}` changed its units while jobs were on it")]
    UnitsChanged { name: String },
    #[error("there is no node `{name}` (nodes: {known})")]
    UnknownNode { name: String, known: String },
    #[error("no node has the hardware {wanted} (hardware: {known})")]
    NoHardware { wanted: String, known: String },
    #[error(
        "the job asks for {}: the largest node it may use, `{node}`, offers {} and {offered_memory} of memory",
        asked(*cores, *memory),
        counted(*offered_cores)
    )]
    TooLarge { cores: Cores, memory: Memory, node: String, offered_cores: u32, offered_memory: Memory },
    #[error("a job that asks for a cap needs its nodes alone (--exclusive)")]
    SharedCap,
    #[error("a job that asks for a cap has one unit of each node: no packed tasks, and no --gres")]
    CapOfSeveral,
    #[error("no unit that the job may use can be held at {cap} (caps: {known})")]
    NoCap { cap: Power, known: String },
    #[error("the job asks for {nodes} nodes: {offered} could run a part of it")]
    TooWide { nodes: u32, offered: usize },
    #[error(
        "the range of nodes {widths} is not possible: it needs at least 1 and at most {WIDTH_LIMIT}, in this order"
    )]
    Widths { widths: Widths },
    #[error("a job with a range of nodes cannot have packed tasks")]
    PackedWidths,
    #[error("a malleable job needs a range of nodes, and has no accelerators and no cap")]
    Malleable,
    #[error("the job asks for {chunks} packed tasks: the nodes that it may use have room for {offered}")]
    TooManyChunks { chunks: u32, offered: usize },
    #[error("the nodes have owners who may evict jobs: a job that may not run again (--requeue) has none of them")]
    MayBeEvicted,
    #[error("the included and excluded nodes leave none")]
    NoneLeft,
    #[error("the {what} at {at} ms has already passed")]
    Passed { what: &'static str, at: i64 },
    #[error("a job that must start at once cannot be held, begin later or depend on others")]
    ImmediateWaits,
    #[error("the {what} at {at} ms is not after the begin at {begin} ms")]
    BeforeBegin { what: &'static str, at: i64, begin: i64 },
    #[error("job {job} does not wait: only a waiting job can be held")]
    NotWaiting { job: JobId },
    #[error("job {job} does not wait: only a waiting job is predicted")]
    NotPredictable { job: JobId },
    #[error("the job has {count} predictions: the limit is {PREDICTED_LIMIT}")]
    TooManyPredictions { count: usize },
    #[error("job {job} is not held")]
    NotHeld { job: JobId },
    #[error("job {job} waits: only a running job can be requeued")]
    NotRunning { job: JobId },
    #[error("job {job} must not run twice: it was submitted without --requeue")]
    MayNotRunAgain { job: JobId },
    #[error("job {job} is being ended already")]
    EndsAlready { job: JobId },
    #[error("there is a node `{name}` already")]
    KnownNode { name: String },
    #[error("node `{name}` is connected: only an unreachable node can be removed")]
    NodeIsUp { name: String },
    #[error("job {job} is on node `{name}`")]
    NodeHasJob { name: String, job: JobId },
    #[error("node `{name}` is reserved ({reservation})")]
    NodeIsReserved { name: String, reservation: String },
    #[error("there is no reservation `{name}` (reservations: {known})")]
    NoSuchReservation { name: String, known: String },
    #[error("the reservation `{reservation}` is not for {user}")]
    ReservedForOthers { reservation: String, user: String },
    #[error(
        "a job in the reservation `{reservation}` needs a time limit of at most {most}: it has to begin and to end in it"
    )]
    ReservationTooShort { reservation: String, most: Span },
    #[error("the reservation `{reservation}` has {left} left for the job, which is less than its time limit")]
    ReservationEnds { reservation: String, left: Span },
    #[error("the job asks for {nodes} nodes: {offered} of the reservation `{reservation}` could run a part of it")]
    ReservationTooSmall { reservation: String, nodes: u32, offered: usize },
    #[error("the job asks for {chunks} packed tasks: the reservation `{reservation}` has room for {offered}")]
    ReservationLacksRoom { reservation: String, chunks: u32, offered: usize },
    #[error("the reservation `{reservation}` would end before it begins, or has ended already")]
    ReservationOver { reservation: String },
    #[error("node `{node}` is reserved in that time already: {other}")]
    ReservedAlready { node: String, other: String },
    #[error("job {job} on node `{node}` may last into the reservation `{reservation}`")]
    LastsIntoReservation { job: JobId, node: String, reservation: String },
    #[error(transparent)]
    Queues(#[from] QueueError),
    #[error(transparent)]
    Groups(#[from] GroupError),
    #[error("there is no group `{name}` (groups: {known})")]
    NoSuchGroup { name: String, known: String },
    #[error("there is no queue `{name}` (queues: {known})")]
    NoSuchQueue { name: String, known: String },
    #[error("the job names no queue, and none is the default (queues: {known})")]
    NoDefaultQueue { known: String },
    #[error("the queue `{queue}` is not for {user}")]
    QueueForOthers { queue: String, user: String },
    #[error("the queue `{queue}` is not for {user}, who is in none of its groups: {groups}")]
    QueueForGroups { queue: String, user: String, groups: String },
    #[error("the queue `{queue}` is down: a job that must start at once cannot wait for it")]
    QueueIsDown { queue: String },
    #[error("the time limit of {limit} is longer than the queue `{queue}` allows: at most {most}")]
    QueueTooShort { queue: String, limit: Span, most: Span },
    #[error("the queue `{queue}` allows at most {most}: the job has no time limit")]
    QueueNeedsLimit { queue: String, most: Span },
    #[error("the job asks for {nodes} nodes: the queue `{queue}` allows at most {most}")]
    QueueTooNarrow { queue: String, nodes: u32, most: u32 },
    #[error("no known node is in the queue `{queue}` and among the nodes that the job may use")]
    NoneLeftInQueue { queue: String },
    #[error(transparent)]
    Licences(#[from] LicenceError),
    #[error("there is no licence `{name}` (licences: {known})")]
    NoSuchLicence { name: String, known: String },
    #[error("the job asks for {needs} of the licence `{name}`: the cluster has {total}")]
    TooFewLicences { name: String, needs: u32, total: u32 },
    #[error("the job must start at once, but its licences are in use: {wait}")]
    LicencesInUse { wait: String },
    #[error(transparent)]
    Accounts(#[from] AccountError),
    #[error("there is no account `{name}` (accounts: {known})")]
    NoSuchAccount { name: String, known: String },
    #[error("the account `{account}` is not for user {user}{}", instead(own))]
    AccountForOthers { account: String, user: String, own: Option<String> },
    #[error("user {user} has no account")]
    NoAccount { user: String },
    #[error(transparent)]
    Qos(#[from] QosError),
    #[error("there is no QOS `{name}` (QOS: {known})")]
    NoSuchQos { name: String, known: String },
    #[error("the QOS `{qos}` is not for user {user}")]
    QosForOthers { qos: String, user: String },
    #[error("the time limit of {limit} is longer than the QOS `{qos}` allows: at most {most}")]
    QosTooShort { qos: String, limit: Span, most: Span },
    #[error("the priority {priority} is not within -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}")]
    Priority { priority: i32 },
    #[error("user {user} may not submit jobs: an operator denies it")]
    Denied { user: String },
    #[error("{of} has {has} jobs that are not over, {more} more would be above the quota of {most}")]
    TooManySubmitted { of: String, has: u64, more: u32, most: u32 },
    #[error("the job could never run within the quota of {of}: {}", over.shown(None))]
    NeverInQuota { of: String, over: OverQuota },
    #[error("the quota of {of} leaves no room for the job now: {}", over.shown(None))]
    NotInQuota { of: String, over: OverQuota },
    #[error("the job cannot start at once: at least {depth} jobs are before it, and no more are considered")]
    TooFarBack { depth: u32 },
    #[error("the time limit of job {job} must be longer than {least}")]
    LimitTooShort { job: JobId, least: Span },
    #[error("job {job} needs a time limit, because it is warned before it")]
    LimitNeeded { job: JobId },
    #[error("job {job} does not wait: only a waiting job has a priority")]
    HasNoPriority { job: JobId },
    #[error(
        "the job asks for {wanted} accelerators{} on each node: the most of one type that a node offers it are {offered} ({of}), on `{node}`",
        typed(hardware)
    )]
    TooFewAccelerators { wanted: u32, hardware: String, node: String, offered: usize, of: String },
    #[error("node `{name}` is connected: only an unreachable node can be lost")]
    NodeIsConnected { name: String },
    #[error("{held} are held for node `{name}`, on which jobs may still run")]
    NodeHoldsDraw { name: String, held: limo_model::Power },
    #[error("job {job} does not run: only a running job can be suspended")]
    CannotBeSuspended { job: JobId },
    #[error("job {job} is already suspended by {by}")]
    SuspendedAlready { job: JobId, by: String },
    #[error(
        "job {job} cannot be suspended: its node `{node}` is reserved ({reservation}), and it might stay for too long"
    )]
    SuspendedIntoReservation { job: JobId, node: String, reservation: String },
    #[error("job {job} is not suspended")]
    NotSuspended { job: JobId },
    #[error("job {job} is suspended for the upper limit: it continues as soon as there is room")]
    SuspendedForLimit { job: JobId },
    #[error("job {job} has no allocation for steps: it does not run, or is being ended")]
    NoAllocation { job: JobId },
    #[error("the allocation of job {job} is {user}'s")]
    AllocationOfOther { job: JobId, user: String },
    #[error("{number} is not the next number {next} of a step of job {job}")]
    StepNumber { job: JobId, number: u32, next: u32 },
    #[error("job {job} has {STEPS_LIMIT} steps that are not over: the limit is reached")]
    TooManySteps { job: JobId },
    #[error("node `{node}` is not in the allocation of job {job}")]
    NotInAllocation { job: JobId, node: String },
    #[error(
        "the step asks for {nodes} nodes with {} each: the allocation of job {job} has {offered} such nodes",
        asked(*cores, *memory)
    )]
    StepTooLarge { job: JobId, nodes: u32, cores: Cores, memory: Memory, offered: usize },
    #[error("node {} has no unit {}", unit.node.0, unit.unit)]
    NoSuchUnit { unit: UnitId },
    #[error(
        "the factors {} for power and {} for duration are out of range: above 0.1 and below 10",
        f64::from(*power) / 1e6,
        f64::from(*duration) / 1e6
    )]
    Factor { power: u32, duration: u32 },
}

fn counted(cores: u32) -> String {
    if cores == 1 { "1 core".into() } else { format!("{cores} cores") }
}

/// Names the account that a user may use.
fn instead(own: &Option<String>) -> String {
    own.as_ref().map(|own| format!(": use `{own}`")).unwrap_or_default()
}

fn typed(hardware: &str) -> String {
    if hardware.is_empty() { " of one type".into() } else { format!(" of {hardware}") }
}

fn asked(cores: Cores, memory: Memory) -> String {
    let cores = match cores {
        Cores::All => "all cores".into(),
        Cores::Count(count) => counted(count.get()),
    };
    if memory == Memory::ZERO { cores } else { format!("{cores} and {memory} of memory") }
}

impl Refused {
    pub(crate) fn passed(what: &'static str, at: Time) -> Self {
        Self::Passed { what, at: at.unix_ms() }
    }
}
