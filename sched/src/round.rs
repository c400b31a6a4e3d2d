//! What a round returns: commands, reasons for waiting, finished jobs, and when to ask again.

use std::fmt;

use limo_model::{
    Attempt, Condition, Dependency, Energy, Estimate, JobId, Money, NodeId, Outcome, Placement, Power, Price, Span,
    Time, Usage, UsedUp,
};
use serde::{Deserialize, Serialize};

use crate::became::Became;
use crate::check::Violation;
pub use crate::over_quota::OverQuota;

/// The result of one run of the policy over all that is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub now: Time,
    pub commands: Vec<Command>,
    /// Jobs whose reason for waiting is new or changed since the last round.
    pub waits: Vec<(JobId, Wait)>,
    /// Jobs that are over since the last round, with their accounts.
    pub finished: Vec<Finished>,
    /// Ask again at this time, even if nothing happens until then.
    pub wake_at: Option<Time>,
    /// What the checker found in the plan. Where it is not empty, nothing of the plan was put into commands.
    pub violations: Vec<Violation>,
}

/// What to do. Repeating a command changes nothing: each names the attempt that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    Start {
        job: JobId,
        attempt: Attempt,
        placement: Placement,
        estimate: Estimate,
    },
    /// End a running or starting attempt: TERM, grace, KILL.
    Stop {
        job: JobId,
        attempt: Attempt,
        why: StopReason,
    },
    /// Hold the units of a node at these caps, by unit; `None` lifts the cap. Of two, the higher generation holds.
    Cap {
        node: NodeId,
        generation: u64,
        caps: Vec<Option<Power>>,
    },
    /// Stop the processes of a running job until it is resumed.
    Suspend {
        job: JobId,
        attempt: Attempt,
    },
    Resume {
        job: JobId,
        attempt: Attempt,
    },
    /// Put free nodes to sleep: runs of neighbours, each the first and how many.
    Sleep {
        nodes: Vec<(NodeId, u32)>,
    },
    /// Wake nodes; the jobs assigned to them start when they are awake.
    Wake {
        nodes: Vec<(NodeId, u32)>,
    },
    /// A signal for the processes of a running job. The only command that is not told again.
    Signal {
        job: JobId,
        attempt: Attempt,
        signal: i32,
    },
    /// The job has used what its user allowed it, and goes on: that is to be told. Told once.
    UsedUp {
        job: JobId,
        attempt: Attempt,
        used_up: UsedUp,
    },
}

/// Why a running job is ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    Cancelled {
        by: String,
    },
    TimeLimit {
        limit: Span,
    },
    /// The upper limit leaves no room for it: it runs again from its beginning when there is room.
    Requeued {
        draw: Power,
        high: Power,
    },
    /// Somebody wants it to run again from its beginning.
    RequeuedBy {
        by: String,
    },
    /// It has used what its user allowed it.
    UsedUp {
        used_up: UsedUp,
    },
}

impl StopReason {
    /// Whether the job is ended only to run again.
    pub fn runs_again(&self) -> bool {
        matches!(self, Self::Requeued { .. } | Self::RequeuedBy { .. })
    }
}

/// Why a job that is not started waits, with the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// No node that could run it is up.
    NoNode,
    /// Every unit that could run it is taken, away or drained. `until` is when one is expected to be free.
    Resources { until: Option<Time> },
    /// The upper limit leaves too little. `until` is when it is expected to leave enough.
    Band { needs: Power, left: Power, until: Option<Time> },
    /// The energy that the budget has released by then does not cover the job and what is running. `until` is when it is
    /// expected to.
    Budget { needs: Energy, left: Energy, until: Option<Time> },
    /// On what is free now it would end later than on what becomes free by then.
    Sooner { until: Time },
    /// An earlier job must not be delayed by this one.
    Behind { job: JobId, until: Option<Time> },
    /// Low mode: the draw has reached the lower limit, and energy is dear.
    LowMode { draw: Power, low: Power, price: Option<Price> },
    /// It only serves to hold the lower limit, and that is held.
    Filler { draw: Power, low: Power },
    /// The jobs at hand would not last to hold the lower limit for `ahead`: spend them slowly.
    Sparing {
        draw: Power,
        low: Power,
        #[serde(default)]
        ahead: Span,
    },
    /// The job may wait, and energy will be cheaper: the mean prices of a run from now on and of one from `at` on.
    Price { now: Price, then: Price, at: Time },
    /// Further back in the queue than one round looks.
    Depth { depth: u32 },
    /// The last plan broke a rule of the checker and was not executed.
    PlanRejected,
    /// Until somebody releases it.
    Held { by: String },
    /// It was not to begin before.
    Begin { at: Time },
    /// Until that has become of the other job.
    Dependency { job: JobId, condition: Condition },
    /// Until this earlier job of the same user and name is over.
    Singleton { job: JobId },
    /// It might last into reservations of so many nodes that too few are left for it; this is the first of them.
    Reserved { node: String, reservation: String, from: Time, until: Time },
    /// Its own reservation begins then. Where there is no time it is no more, or has none left for the job, or for its user.
    Reservation { reservation: String, from: Option<Time> },
    /// Its user's quota has no room for it.
    Quota(OverQuota),
    /// Tasks of an array: as many run as may at a time.
    ArrayLimit { limit: u32 },
    /// It needs more power than the upper limit leaves at any time that is known.
    Never { needs: Power, most: Power },
}

/// How a job ended, for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    Ran {
        outcome: Outcome,
        stopped: Option<StopReason>,
    },
    /// Before it ran.
    Cancelled {
        by: String,
    },
    /// `--immediate`, and it could not start at once.
    Refused {
        wait: Wait,
    },
    /// Before it ran: what it depended on can never be, because of what became of that job.
    Unmet {
        dependency: Dependency,
        became: Became,
    },
}

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub job: JobId,
    pub end: JobEnd,
    pub submitted: Time,
    pub started: Option<Time>,
    pub ended: Time,
    pub placement: Placement,
    pub usage: Usage,
    pub account: Account,
    /// Whether it ran from its start to its end as it was started: never suspended, under the same cap all the time.
    pub steady: bool,
    /// Of an array: how its tasks ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskCounts>,
}

/// How tasks of an array ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskCounts {
    /// With exit code 0.
    pub completed: u32,
    /// In any other way, once they ran.
    pub failed: u32,
    /// Before they ran, each by itself. What of a cancelled array had not begun is not counted.
    pub cancelled: u32,
}

impl TaskCounts {
    pub fn all(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }
}

/// Energy above idle and what it cost, beside what it would have cost to start at submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    pub energy: Energy,
    /// Of the time in which a price was known; `None` if none was.
    pub cost: Option<Money>,
    pub start_now_cost: Option<Money>,
}

impl Account {
    /// Takes the account of another job to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.energy += other.energy;
        self.cost = Money::of_known(self.cost, other.cost);
        self.start_now_cost = Money::of_known(self.start_now_cost, other.start_now_cost);
    }
}

/// Shows a reason with times by a function, since only programs know about calendars.
pub struct ShownWait<'a, F: Fn(Time) -> String> {
    wait: &'a Wait,
    clock: F,
}

impl Wait {
    /// The same reason with its times later by `by`.
    pub fn moved(self, by: Span) -> Self {
        let later = |at: Option<Time>| at.map(|at| at.moved(by));
        match self {
            Self::Resources { until } => Self::Resources { until: later(until) },
            Self::Band { needs, left, until } => Self::Band { needs, left, until: later(until) },
            Self::Budget { needs, left, until } => Self::Budget { needs, left, until: later(until) },
            Self::Sooner { until } => Self::Sooner { until: until.moved(by) },
            Self::Behind { job, until } => Self::Behind { job, until: later(until) },
            Self::Price { now, then, at } => Self::Price { now, then, at: at.moved(by) },
            Self::Begin { at } => Self::Begin { at: at.moved(by) },
            Self::Reserved { node, reservation, from, until } => {
                Self::Reserved { node, reservation, from: from.moved(by), until: until.moved(by) }
            }
            Self::Reservation { reservation, from } => Self::Reservation { reservation, from: later(from) },
            Self::Quota(over) => Self::Quota(over.moved(by)),
            other @ (Self::NoNode
            | Self::LowMode { .. }
            | Self::Filler { .. }
            | Self::Sparing { .. }
            | Self::Depth { .. }
            | Self::PlanRejected
            | Self::Held { .. }
            | Self::Dependency { .. }
            | Self::Singleton { .. }
            | Self::ArrayLimit { .. }
            | Self::Never { .. }) => other,
        }
    }

    /// The reason as people read it; `clock` shows times.
    pub fn shown<F: Fn(Time) -> String>(&self, clock: F) -> ShownWait<'_, F> {
        ShownWait { wait: self, clock }
    }

    /// The word that comes first in the shown reason.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoNode => "no node",
            Self::Resources { .. } => "resources",
            Self::Band { .. } | Self::Never { .. } => "band",
            Self::Budget { .. } => "budget",
            Self::Sooner { .. } => "sooner",
            Self::Behind { .. } => "behind",
            Self::LowMode { .. } => "low mode",
            Self::Filler { .. } => "filler",
            Self::Sparing { .. } => "sparing",
            Self::Price { .. } => "price",
            Self::Depth { .. } => "depth",
            Self::PlanRejected => "plan rejected",
            Self::Held { .. } => "held",
            Self::Begin { .. } => "begin",
            Self::Dependency { .. } => "dependency",
            Self::Singleton { .. } => "singleton",
            Self::Reserved { .. } => "reserved",
            Self::Reservation { .. } => "reservation",
            Self::Quota(_) => "quota",
            Self::ArrayLimit { .. } => "array limit",
        }
    }
}

impl<F: Fn(Time) -> String> ShownWait<'_, F> {
    fn until(&self, f: &mut fmt::Formatter<'_>, word: &str, until: Option<Time>) -> fmt::Result {
        until.map_or(Ok(()), |until| write!(f, " {word} {}", (self.clock)(until)))
    }
}

impl<F: Fn(Time) -> String> fmt::Display for ShownWait<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.wait.kind())?;
        match self.wait {
            Wait::NoNode => f.write_str("no node that could run it is up"),
            Wait::Resources { until } => {
                f.write_str("every unit that can run it is taken")?;
                self.until(f, "until about", *until)
            }
            Wait::Band { needs, left, until } => {
                write!(f, "needs {needs}, {left} left")?;
                self.until(f, "until about", *until)
            }
            Wait::Budget { needs, left, until } => {
                write!(f, "needs {needs} above what is released, {left} left")?;
                self.until(f, "until about", *until)
            }
            Wait::Sooner { until } => {
                write!(
                    f,
                    "it would end later on what is free now than on what is free at about {}",
                    (self.clock)(*until)
                )
            }
            Wait::Behind { job, until } => {
                write!(f, "starting now would delay job {job}")?;
                self.until(f, "which is expected to start at", *until)
            }
            Wait::LowMode { low, price: Some(price), .. } if low.is_zero() => write!(f, "energy costs {price}"),
            Wait::LowMode { draw, low, price } => {
                write!(f, "the draw {draw} has reached the lower limit {low}")?;
                price.map_or(Ok(()), |price| write!(f, ", energy costs {price}"))
            }
            Wait::Filler { draw, low } => write!(f, "the draw {draw} holds the lower limit {low} without it"),
            Wait::Sparing { draw, low, ahead } => {
                write!(f, "the draw {draw} has reached the lower limit {low}, and the jobs at hand would not last ")?;
                write!(f, "to hold it for {ahead}")
            }
            Wait::Price { now, then, at } => write!(f, "{now} -> {then} at {}", (self.clock)(*at)),
            Wait::Depth { depth } => write!(f, "more than {depth} jobs are before it"),
            Wait::PlanRejected => f.write_str("the last plan broke a rule and was not executed"),
            Wait::Held { by } => write!(f, "by {by}, until it is released"),
            Wait::Begin { at } => write!(f, "not before {}", (self.clock)(*at)),
            Wait::Dependency { job, condition } => {
                let must = match condition {
                    Condition::After => "has not begun",
                    Condition::AfterAny => "is not over",
                    Condition::AfterOk => "has not ended well",
                    Condition::AfterNotOk => "has not failed",
                };
                write!(f, "job {job} {must} ({condition}:{job})")
            }
            Wait::Singleton { job } => write!(f, "job {job} of the same name is not over"),
            Wait::Reserved { node, reservation, from, until } => {
                let (from, until) = ((self.clock)(*from), (self.clock)(*until));
                write!(f, "node {node} is reserved ({reservation}) from {from} until {until}")
            }
            Wait::Reservation { reservation, from: Some(from) } => {
                write!(f, "{reservation} begins at {}", (self.clock)(*from))
            }
            Wait::Reservation { reservation, from: None } => write!(f, "the job can no longer run in {reservation}"),
            Wait::Quota(over) => f.write_str(&over.shown(over.until().map(&self.clock))),
            Wait::ArrayLimit { limit: 1 } => f.write_str("one of its tasks may run at a time"),
            Wait::ArrayLimit { limit } => write!(f, "{limit} of its tasks may run at a time, and as many do"),
            Wait::Never { needs, most } => write!(f, "never: needs {needs}, and the limits leave at most {most}"),
        }
    }
}

/// For people who read journals.
impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::TimeLimit { limit } => write!(f, "time limit of {limit} reached"),
            Self::Requeued { draw, high } => write!(f, "requeued: the draw {draw} is above the upper limit {high}"),
            Self::RequeuedBy { by } => write!(f, "requeued by {by}"),
            Self::UsedUp { used_up } => used_up.fmt(f),
        }
    }
}
