//! Options of the policies: numbers that an operator can set in addition to the preset and the mode.

use std::str::FromStr;

use limo_model::{IdleRule, Overrides, Parts, Preset, Price, Span};
use serde::{Deserialize, Serialize};

/// The price at which the mode turns if it is [`ModeSetting::Auto`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceRule {
    /// Low mode above this price.
    Threshold(Price),
    /// Low mode above this quantile, in thousandths, of the prices that are known, weighted by time.
    QuantilePermille(u32),
}

/// Which free nodes a job gets (energy-budget-2017, section II-A: all processors in a row, a job on neighbours).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allocation {
    #[default]
    Any,
    Contiguous,
}

impl FromStr for Allocation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Self::Any),
            "contiguous" => Ok(Self::Contiguous),
            _ => Err(format!("`{text}` is not an allocation: any, contiguous")),
        }
    }
}

/// The rule for free nodes that can sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestRule {
    #[default]
    Never,
    /// After this time without a job; zero is the opportunistic shutdown of energy-budget-2017, section III-A.
    Idle(Span),
    /// The same, but only while a budget's period runs.
    IdleInBudget(Span),
}

impl FromStr for RestRule {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (rule, delay) = text.split_once(':').map_or((text, None), |(rule, delay)| (rule, Some(delay)));
        let span = |delay: &str| delay.parse::<Span>().map_err(|error| error.to_string());
        let after = delay.map_or(Ok(Span::ZERO), span)?;
        if after < Span::ZERO {
            return Err(format!("`{text}`: nodes cannot sleep {after} after their last job, for example `idle:10min`"));
        }
        match rule {
            "never" if delay.is_none() => Ok(Self::Never),
            "idle" => Ok(Self::Idle(after)),
            "idle-in-budget" => Ok(Self::IdleInBudget(after)),
            _ => Err(format!("`{text}` is no rule for rest: never, idle, idle:10min, idle-in-budget")),
        }
    }
}

/// The horizon of the test of a start for debts (energy-budget-2017, IV-B, rule 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Horizon {
    /// The end of the last known load.
    #[default]
    Cluster,
    /// The end of the job itself. Other jobs may be left in debt: for comparison only, operators cannot choose it.
    Job,
}

/// The strongest measure against running jobs if the draw is above the upper limit. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    Nothing,
    /// Lower caps.
    Caps,
    /// Suspend jobs that may be.
    Suspend,
    /// Requeue jobs that may be.
    #[default]
    Requeue,
}

impl FromStr for Preempt {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nothing" => Ok(Self::Nothing),
            "caps" => Ok(Self::Caps),
            "suspend" => Ok(Self::Suspend),
            "requeue" => Ok(Self::Requeue),
            _ => Err(format!("`{text}` is not how far jobs are preempted: nothing, caps, suspend, requeue")),
        }
    }
}

/// Numbers of the policies. An operator can leave all of them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Parts that replace those of the preset.
    #[serde(skip_serializing_if = "Overrides::is_empty")]
    pub parts: Overrides,
    pub price_rule: PriceRule,
    /// The price must pass the turning point by this much before the mode turns again. So a fluctuating price does not
    /// turn the mode back and forth.
    pub price_hysteresis: Price,
    /// Kept free below the upper limit, in thousandths of it: room for noise and for profiles that are a little wrong.
    pub reserve_permille: u32,
    /// A lower limit is held ahead: a job starts this long before a running one is expected to let the draw fall below it.
    pub lead: Span,
    /// After waiting this long a job no longer waits for a better price.
    pub max_delay: Span,
    /// Assumed duration of a job without a profile or a time limit.
    pub default_duration: Span,
    /// Waiting jobs that one round considers, from the head of the queue: bounds the cost of a round.
    pub depth: u32,
    /// A reading older than this no longer counts; the node's draw is estimated again.
    pub stale_after: Span,
    /// Time for which a node that did not acknowledge an assignment gets no other.
    pub suspect_for: Span,
    /// Which free nodes a job gets, with the policies that put jobs on several nodes.
    pub allocation: Allocation,
    pub rest: RestRule,
    /// Interval between the monitoring stages of energy-budget-2017, section IV-C.1. At each stage of a budget's period
    /// the consumption is read, and the queue is considered again.
    pub monitor_every: Span,
    /// Waiting time of the first job from which on `energybud` keeps later jobs from the energy that it needs. Until
    /// then they pass it; so no job starves. (Algorithm 2 of energy-budget-2017 reserves at once.)
    pub hold_after: Span,
    pub horizon: Horizon,
    pub preempt: Preempt,
    /// Time before a known fall of the limit at which running jobs are restricted: a round, plus the delay of a cap.
    pub steer_lead: Span,
    /// Worth of an hour until its end, for each MWh of a job that waits for a better price.
    pub waiting_weight: Price,
    /// Worth of each MWh that raises the draw from below the lower limit towards it.
    pub band_weight: Price,
    /// The jobs at hand must last to hold the lower limit for so long, or are spared; zero spares none.
    pub sparing: Span,
    /// F of power-capping-2018, section 5.1.1, in thousandths, 1 to 1000: the slowdown of a job by a cap without a
    /// profile. At 1000 the duration grows as the power falls.
    pub cap_factor_permille: u32,
    /// Running jobs get power back only where this much of the upper limit stays free beyond the reserve, in thousandths.
    pub steer_margin_permille: u32,
    /// A job that was suspended stays so at least this long, and a cap that was lowered is not raised before.
    pub least_off: Span,
    /// A resumed job must find room for at least this long.
    pub least_on: Span,
}

impl Options {
    /// The parts in force under a preset. In journals older than the part `idle` only `rest` tells of idle nodes, and counts
    /// where nodes are chosen by least room.
    pub fn parts_of(&self, preset: Preset) -> Parts {
        let parts = self.parts.over(preset.parts());
        let rests = self.rest != RestRule::Never && self.parts.idle.is_none() && parts.starts_one_by_one();
        if rests { Parts { idle: IdleRule::PowerOff, ..parts } } else { parts }
    }

    /// When idle nodes sleep if a policy lets them: at once unless told.
    pub fn rest_rule(&self) -> RestRule {
        if self.rest == RestRule::Never && self.parts.idle == Some(IdleRule::PowerOff) {
            return RestRule::Idle(Span::ZERO);
        }
        self.rest
    }

    /// Lets idle nodes sleep by a rule, under each preset.
    pub fn rest_by(&mut self, rest: RestRule) {
        self.rest = rest;
        if rest != RestRule::Never {
            self.parts.idle = Some(IdleRule::PowerOff);
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parts: Overrides::default(),
            price_rule: PriceRule::QuantilePermille(500),
            price_hysteresis: Price::from_milli_per_mwh(2_000),
            reserve_permille: 10,
            lead: Span::from_secs(1),
            max_delay: Span::from_secs(24 * 3600),
            default_duration: Span::from_secs(3600),
            depth: 512,
            stale_after: Span::from_secs(10),
            suspect_for: Span::from_secs(30),
            allocation: Allocation::Any,
            rest: RestRule::Never,
            monitor_every: Span::from_secs(600),
            hold_after: Span::from_secs(7 * 24 * 3600),
            horizon: Horizon::default(),
            preempt: Preempt::Requeue,
            steer_lead: Span::from_secs(1),
            waiting_weight: Price::from_milli_per_mwh(1_000),
            band_weight: Price::from_milli_per_mwh(100_000),
            sparing: Span::from_secs(3600),
            cap_factor_permille: 750,
            steer_margin_permille: 20,
            least_off: Span::from_secs(5),
            least_on: Span::from_secs(30),
        }
    }
}
