//! Events: everything that can happen to a cluster. An event makes no decision. The journal contains exactly these
//! events.

use std::collections::BTreeSet;

use limo_model::{
    Accounts, Attempt, Band, Budgets, CheckpointFailure, Curve, Energy, Eviction, Factor, Fairshare, Groups, JobId,
    JobShare, Lease, Licences, ModeSetting, NodeId, NodeSessions, NodeSpec, Outcome, Power, Predicted, Preset, Price,
    Profile, ProfileKey, QosClasses, Queues, Quotas, Reboot, Request, Reservation, Slowdown, SlowdownKey, Span, Tasks,
    Time, Usage, VariationKey,
};
use serde::{Deserialize, Serialize};

use crate::options::Options;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A user submitted a job. `job` must be [`crate::Core::next_job`].
    Submitted {
        job: JobId,
        request: Box<Request>,
    },
    /// A person cancels the job: a waiting one ends, a running one is stopped.
    CancelRequested {
        job: JobId,
        by: String,
    },
    /// The assignment was withdrawn before its node was allowed to start it: the job waits again, at its previous
    /// place.
    TakenBack {
        job: JobId,
        attempt: Attempt,
        reason: String,
        /// True if its node is at fault: it then gets no jobs for a while, even after a new registration.
        suspect: bool,
        /// The node at fault in a multi-node job; `None` blames all nodes of the job.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blame: Option<NodeId>,
    },
    /// The node started the command.
    Started {
        job: JobId,
        attempt: Attempt,
    },
    /// The attempt has ended, and the job never runs again.
    Ended {
        job: JobId,
        attempt: Attempt,
        outcome: Outcome,
        usage: Usage,
    },
    /// A node registered, for the first time or again.
    NodeUp {
        spec: NodeSpec,
    },
    /// The connection to a node broke. Its jobs continue; it gets no new ones.
    NodeAway {
        node: NodeId,
    },
    /// An operator wants no new jobs on a node, or the node or the master found a fault.
    NodeDrained {
        node: NodeId,
        reason: String,
        by: String,
    },
    NodeResumed {
        node: NodeId,
        by: String,
    },
    /// Measured draws. A reading shows every job whose start its node reported before it.
    Readings {
        draws: Vec<(NodeId, Power)>,
    },
    /// The node holds the caps of this generation, except for the units in `failed`, by index, whose cap cannot be
    /// set. Those units have no cap until the node registers again. Readings include the caps from now on.
    Capped {
        node: NodeId,
        generation: u64,
        failed: Vec<u16>,
    },
    /// The processes of the job are suspended or continue, as ordered. Later readings include that.
    Paused {
        job: JobId,
        attempt: Attempt,
        paused: bool,
    },
    /// Nodes went to sleep as ordered, as runs of adjacent nodes: the first and their number.
    Asleep {
        nodes: Vec<(NodeId, u32)>,
    },
    /// Nodes are awake again and can run jobs.
    Awake {
        nodes: Vec<(NodeId, u32)>,
    },
    /// A reading of the site's meter: consumption of the whole cluster since the last such event. It is a monitoring
    /// stage of energy-budget-2017, section IV-C.1.
    Metered {
        energy: Energy,
    },
    BudgetsSet {
        budgets: Budgets,
        by: String,
    },
    LimitsSet {
        limits: Curve<Band>,
        by: String,
    },
    /// Sets the prices; `None` removes them.
    PricesSet {
        prices: Option<Curve<Price>>,
        by: String,
    },
    ModeSet {
        mode: ModeSetting,
        by: String,
    },
    PolicySet {
        preset: Preset,
        options: Options,
        by: String,
    },
    /// A profile was learned, imported, set or, with `None`, deleted. `by` is an operator or a component of the master.
    ProfileSet {
        key: ProfileKey,
        profile: Option<Profile>,
        by: String,
    },
    /// A user submitted an array. `job` is its own number and must be [`crate::Core::next_job`]; its tasks have the
    /// next numbers, in the order of `tasks`, and share one request.
    ArraySubmitted {
        job: JobId,
        tasks: Tasks,
        request: Box<Request>,
    },
    /// Limits of the grid replace the operator's own limits, which are kept. [`Event::LimitsSet`] ends the limits of
    /// the grid.
    GridLimited {
        limits: Curve<Band>,
    },
    /// A person holds a waiting job. A hold by the job's user does not replace one by an operator.
    Held {
        job: JobId,
        by: String,
    },
    Released {
        job: JobId,
        by: String,
    },
    /// A person requeues a running job that allows it: it ends, and runs again from its beginning.
    RequeueRequested {
        job: JobId,
        by: String,
    },
    /// One node's part of a multi-node job has ended, and at least one other has not. The last part gives
    /// [`Event::Ended`].
    PartEnded {
        job: JobId,
        attempt: Attempt,
        node: NodeId,
        outcome: Outcome,
        usage: Usage,
    },
    /// A node is added before it registers: unreachable, with the given description.
    NodeAdded {
        spec: NodeSpec,
        by: String,
    },
    /// An unreachable node without jobs is removed. Its number is not used again.
    NodeRemoved {
        node: NodeId,
        by: String,
    },
    /// Nodes are reserved for some users for a time. `None` removes the reservation; a new one replaces one of the
    /// same name.
    ReservationSet {
        name: String,
        reservation: Option<Box<Reservation>>,
        by: String,
    },
    /// Sets all quotas.
    QuotasSet {
        quotas: Quotas,
        by: String,
    },
    /// New weights of waiting time and past use in priorities.
    FairshareSet {
        fairshare: Fairshare,
        by: String,
    },
    /// Sets the users whose submissions are refused.
    UsersDenied {
        denied: BTreeSet<String>,
        by: String,
    },
    /// A waiting job gets another priority; an array also changes its waiting tasks.
    PrioritySet {
        job: JobId,
        priority: i32,
        by: String,
    },
    /// Sets the relation of cluster time to wall time and to a kernel's clock, because the wall clock has jumped or the
    /// master runs under another kernel. See [`crate::Clock`].
    ClockOffset {
        offset: Span,
        boot: String,
        since: Time,
    },
    /// Job numbers below `next` were used in an earlier incarnation of the journal, and are not used again.
    NumbersRaised {
        next: JobId,
    },
    /// The lease that requeueable jobs get when they are assigned from now on.
    LeaseSet {
        lease: Lease,
        by: String,
    },
    /// A node has been unreachable for its lease, or an operator declares it dead. The ends of its attempts follow as
    /// separate events; from then on their draw is held (see [`crate::Node::held`]).
    NodeLost {
        node: NodeId,
        by: String,
    },
    /// The held draw of a node is released, except for the attempts in `kept`. The node reported its running jobs, a
    /// meter showed that the draw has ended, or an operator declared the node dead.
    DrawReleased {
        node: NodeId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<(JobId, Attempt)>,
        by: String,
    },
    /// A node failed to sleep as ordered: it is awake, and gets no such order before `until`.
    SleepFailed {
        node: NodeId,
        until: Time,
        reason: String,
    },
    /// A person suspends a running job, without a time limit.
    SuspendRequested {
        job: JobId,
        by: String,
    },
    /// A person resumes a job that a person suspended. The upper limit may keep it suspended.
    ResumeRequested {
        job: JobId,
        by: String,
    },
    /// Sets the share of the jobs that allow it that explore caps.
    ExploreSet {
        share: JobShare,
        by: String,
    },
    /// Factors of units were learned, imported, set or, with `None`, removed. `by` is an operator or a component of the
    /// master.
    VariationSet {
        factors: Vec<(VariationKey, Option<Factor>)>,
        by: String,
    },
    /// Sets the law of the slowdown by caps without a profile; `None` removes it.
    SlowdownSet {
        key: SlowdownKey,
        law: Option<Slowdown>,
        by: String,
    },
    /// Sets all queues.
    QueuesSet {
        queues: Queues,
        by: String,
    },
    /// A new model predicts a waiting job. An empty list removes its predictions.
    Predicted {
        job: JobId,
        predicted: Vec<Predicted>,
    },
    /// Sets all groups of nodes.
    GroupsSet {
        groups: Groups,
        by: String,
    },
    /// The owner of a node is there.
    OwnerCame {
        node: NodeId,
    },
    /// The last owner of a node has left.
    OwnerLeft {
        node: NodeId,
    },
    /// A node of an attempt ends it without an order.
    Evicted {
        job: JobId,
        attempt: Attempt,
        node: NodeId,
        why: Eviction,
    },
    /// A checkpoint of an attempt is complete: the first `ran` of its running time need not be repeated. It took `took`. If
    /// a later one failed, contains the reason.
    Checkpointed {
        job: JobId,
        attempt: Attempt,
        ran: Span,
        took: Span,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<CheckpointFailure>,
    },
    /// The sessions of the owners at some nodes, past and future, are known in total, for ranks by the whole of a trace.
    /// They replace what was known before.
    SessionsKnown {
        nodes: Vec<NodeSessions>,
    },
    /// A job that is not over gets another time limit; `None` removes it. An array also changes its waiting tasks.
    TimeLimitSet {
        job: JobId,
        limit: Option<Span>,
        by: String,
    },
    /// Progress of the daily reboot of a node. `None`: it has rebooted, or no longer needs to.
    Rebooting {
        node: NodeId,
        reboot: Option<Reboot>,
    },
    /// Sets all licences.
    LicencesSet {
        licences: Licences,
        by: String,
    },
    /// Sets all accounts.
    AccountsSet {
        accounts: Accounts,
        by: String,
    },
    /// Sets all QOS.
    QosSet {
        qos: QosClasses,
        by: String,
    },
}
