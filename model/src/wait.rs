//! Reasons why jobs wait, and their texts.

use std::fmt;

use crate::{Condition, Energy, JobId, OverQuota, Power, Price, Span, Time};
use serde::{Deserialize, Serialize};

/// The reason why a job waits, with numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Wait {
    /// Every node that could run it is unreachable.
    NoNode,
    /// Every unit that could run it is taken, unreachable or drained. `until` is the expected time of a free one.
    Resources { until: Option<Time> },
    /// The upper limit leaves too little power. `until` is the expected time of enough power.
    Band { needs: Power, left: Power, until: Option<Time> },
    /// The energy that the budget will have released does not cover the job and the running jobs. `until` is the
    /// expected time of enough energy.
    Budget { needs: Energy, left: Energy, until: Option<Time> },
    /// The job would end later on the free units than on those that become free by `until`.
    Sooner { until: Time },
    /// An earlier job must not be delayed by this one.
    Behind { job: JobId, until: Option<Time> },
    /// Low mode: the draw has reached the lower limit, and energy is expensive.
    LowMode { draw: Power, low: Power, price: Option<Price> },
    /// The job only keeps the draw above the lower limit, which other jobs already do.
    Filler { draw: Power, low: Power },
    /// The waiting jobs are too few to keep the draw above the lower limit for `ahead`, so they are started slowly.
    Sparing {
        draw: Power,
        low: Power,
        #[serde(default)]
        ahead: Span,
    },
    /// The job may wait, and energy will be cheaper. The prices are means over a run from now and over a run from `at`.
    Price { now: Price, then: Price, at: Time },
    /// The job's place in the queue is beyond the depth of a round.
    Depth { depth: u32 },
    /// The last plan broke a rule of the checker and was not executed.
    PlanRejected,
    /// The job is held until its release.
    Held { by: String },
    /// The job's begin time is in the future.
    Begin { at: Time },
    /// The other job does not meet the condition yet.
    Dependency { job: JobId, condition: Condition },
    /// An earlier job of the same user and name is not over.
    Singleton { job: JobId },
    /// Reservations leave too few nodes for the duration of the job; this is the first of them.
    Reserved { node: String, reservation: String, from: Time, until: Time },
    /// The job's own reservation begins then. `None` if the reservation no longer exists, is too short for the job,
    /// or excludes its user.
    Reservation { reservation: String, from: Option<Time> },
    /// The user's quota does not allow the job yet.
    Quota(OverQuota),
    /// The array has as many running tasks as its limit allows.
    ArrayLimit { limit: u32 },
    /// The job needs more power than the upper limit ever allows.
    Never { needs: Power, most: Power },
    /// The job's queue is down, or is no longer configured.
    Queue { queue: String, is_known: bool },
    /// The limit of a group of nodes leaves too little power there.
    Group { group: String, draw: Power, limit: Power, needs: Power },
    /// Owners use the nodes that could run the job; this is one of them, in use since then. `until` is the time at which
    /// jobs may start on a node whose owner has left.
    Owner { node: String, since: Time, until: Option<Time> },
    /// The step waits for resources of its job, which other steps have, or for the job itself: it is suspended, or has
    /// not begun on all of its nodes.
    Step { job: JobId },
    /// Other jobs have the licences that the job needs; these are some of them. Fewer than `total` are held if a job
    /// before this one waits for them. `total` is `None` if the licence is no longer configured.
    Licence { licence: String, needs: u32, held: u32, total: Option<u32>, by: Vec<JobId> },
    /// A limit of the job's account, or of one above it, does not allow the job yet.
    Account { account: String, over: OverQuota },
    /// A limit of the job's QOS for each user does not allow the job yet.
    Qos { qos: String, over: OverQuota },
}

/// Shows a reason. A function formats times, because only programs know calendars.
pub struct ShownWait<'a, F: Fn(Time) -> String> {
    wait: &'a Wait,
    clock: F,
}

impl Wait {
    /// Returns the same reason with its times moved later by `by`.
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
            Self::Account { account, over } => Self::Account { account, over: over.moved(by) },
            Self::Qos { qos, over } => Self::Qos { qos, over: over.moved(by) },
            Self::Owner { node, since, until } => Self::Owner { node, since: since.moved(by), until: later(until) },
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
            | Self::Never { .. }
            | Self::Queue { .. }
            | Self::Group { .. }
            | Self::Step { .. }
            | Self::Licence { .. }) => other,
        }
    }

    /// Formats the reason for readers; `clock` formats times.
    pub fn shown<F: Fn(Time) -> String>(&self, clock: F) -> ShownWait<'_, F> {
        ShownWait { wait: self, clock }
    }

    /// Returns the first word of the shown reason.
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
            Self::Queue { .. } => "queue",
            Self::Group { .. } => "group",
            Self::Owner { .. } => "owner",
            Self::Step { .. } => "step",
            Self::Licence { .. } => "licence",
            Self::Account { .. } => "account",
            Self::Qos { .. } => "qos",
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
            Wait::LowMode { low, price: None, .. } if low.is_zero() => {
                f.write_str("nothing starts in the low mode without a lower limit")
            }
            Wait::LowMode { draw, low, price } => {
                write!(f, "the draw {draw} has reached the lower limit {low}")?;
                price.map_or(Ok(()), |price| write!(f, ", energy costs {price}"))
            }
            Wait::Filler { low, .. } if low.is_zero() => f.write_str("no lower limit is set"),
            Wait::Filler { draw, low } => write!(f, "the draw {draw} holds the lower limit {low} without it"),
            Wait::Sparing { draw, low, ahead } => {
                write!(f, "the draw {draw} has reached the lower limit {low}, and the jobs at hand would not last ")?;
                write!(f, "to hold it for {ahead}")
            }
            Wait::Price { now, then, at } if then < now => write!(f, "{now} -> {then} at {}", (self.clock)(*at)),
            // Another price is not the only difference, because the lower limit also counts.
            Wait::Price { at, .. } => write!(f, "a start at {} costs less in total", (self.clock)(*at)),
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
            // A held task that has begun keeps its place.
            Wait::ArrayLimit { limit: 1 } => f.write_str("one of its tasks may run at a time, and has its turn"),
            Wait::ArrayLimit { limit } => {
                write!(f, "{limit} of its tasks may run at a time, and as many have their turn")
            }
            Wait::Never { needs, most } => write!(f, "never: needs {needs}, and the limits leave at most {most}"),
            Wait::Group { group, draw, limit, needs } => {
                write!(f, "{group} draws {draw} of its limit of {limit}; the job needs {needs}")
            }
            Wait::Owner { node, since, until: None } => write!(f, "{node} in use since {}", (self.clock)(*since)),
            Wait::Owner { node, until: Some(until), .. } => {
                write!(f, "{node} was in use; jobs may start there from {}", (self.clock)(*until))
            }
            Wait::Step { job } => write!(f, "job {job} has no room for it now"),
            Wait::Licence { licence, total: None, .. } => write!(f, "{licence} is no longer configured"),
            Wait::Licence { licence, needs, held, total: Some(total), by } => {
                write!(f, "needs {needs} of {licence}, {held} of {total} are held")?;
                by_jobs(f, (*needs, *held, *total), by)
            }
            Wait::Account { account, over: OverQuota::Turn { job } } => {
                write!(f, "{account}: job {job} of the account is before it")
            }
            Wait::Account { account: of, over } | Wait::Qos { qos: of, over } => {
                write!(f, "{of}: {}", over.shown(over.until().map(&self.clock)))
            }
            Wait::Queue { queue, is_known: true } => write!(f, "{queue} is down"),
            Wait::Queue { queue, is_known: false } => write!(f, "{queue} is no longer configured"),
        }
    }
}

/// Names jobs that hold the licences, or the job that waits for them before this one.
fn by_jobs(f: &mut fmt::Formatter<'_>, (needs, held, total): (u32, u32, u32), by: &[JobId]) -> fmt::Result {
    let Some((first, others)) = by.split_first() else { return Ok(()) };
    if held.saturating_add(needs) <= total {
        return write!(f, ", job {first} waits for them before it");
    }
    write!(f, " by {} {first}", if others.is_empty() { "job" } else { "jobs" })?;
    others.iter().try_for_each(|job| write!(f, ", {job}"))
}
