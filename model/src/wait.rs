//! Why jobs wait, and how that is said.

use std::fmt;

use crate::{Condition, Energy, JobId, OverQuota, Power, Price, Span, Time};
use serde::{Deserialize, Serialize};

/// Why a job that is not started waits, with the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the variants say what their fields are")]
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
            Wait::LowMode { low, price: None, .. } if low.is_zero() => {
                f.write_str("nothing starts in the low mode without a lower limit")
            }
            Wait::LowMode { draw, low, price } => {
                write!(f, "the draw {draw} has reached the lower limit {low}")?;
                price.map_or(Ok(()), |price| write!(f, ", energy costs {price}"))
            }
            Wait::Filler { low, .. } if low.is_zero() => f.write_str("no lower limit is to be held with it"),
            Wait::Filler { draw, low } => write!(f, "the draw {draw} holds the lower limit {low} without it"),
            Wait::Sparing { draw, low, ahead } => {
                write!(f, "the draw {draw} has reached the lower limit {low}, and the jobs at hand would not last ")?;
                write!(f, "to hold it for {ahead}")
            }
            Wait::Price { now, then, at } if then < now => write!(f, "{now} -> {then} at {}", (self.clock)(*at)),
            // The price is not all: the lower limit is worth something, too.
            Wait::Price { at, .. } => write!(f, "all in all a start at {} costs less", (self.clock)(*at)),
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
            // A task that was begun and is held keeps its turn.
            Wait::ArrayLimit { limit: 1 } => f.write_str("one of its tasks may run at a time, and has its turn"),
            Wait::ArrayLimit { limit } => {
                write!(f, "{limit} of its tasks may run at a time, and as many have their turn")
            }
            Wait::Never { needs, most } => write!(f, "never: needs {needs}, and the limits leave at most {most}"),
        }
    }
}
