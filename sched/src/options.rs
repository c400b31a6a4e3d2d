//! Options of the policies: numbers that an operator can set in addition to the preset and the mode.

mod pool;

use std::str::FromStr;

use limo_model::{Confidence, IdleRule, Overrides, Parts, Preset, Price, RestartLimits, Span};
use serde::{Deserialize, Serialize};

pub use pool::{Knowledge, PoolOptions, PoolRank, Ties};

/// The price at which the mode turns if it is [`ModeSetting::Auto`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceRule {
    /// Low mode above this price.
    Threshold(Price),
    /// Low mode above this quantile of the known prices, in thousandths, weighted by time.
    QuantilePermille(u32),
}

/// Rule for the free nodes that a job gets: all processors in a row, or a job on neighbours (energy-budget-2017,
/// section II-A).
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
    /// Sleep after this time without a job; zero means the opportunistic shutdown of energy-budget-2017, section
    /// III-A.
    Idle(Span),
    /// Sleep after this time without a job, but only while a budget's period runs.
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
            _ => Err(format!("`{text}` is not a rule for rest: never, idle, idle:10min, idle-in-budget")),
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
    /// The end of the job itself. Other jobs may then run into debt. It serves only for comparison; operators cannot
    /// choose it.
    Job,
}

/// The margin with which predicted jobs count against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarginRule {
    /// Each job has the margin of its own prediction.
    #[default]
    Job,
    /// The jobs on nodes have the margin of their sum, which is smaller.
    Sum,
}

impl MarginRule {
    fn is_job(&self) -> bool {
        *self == Self::Job
    }
}

impl FromStr for MarginRule {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "job" => Ok(Self::Job),
            "sum" => Ok(Self::Sum),
            _ => Err(format!("`{text}` is not a margin: job, sum")),
        }
    }
}

/// The strongest measure against running jobs if the draw is above the upper limit. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preempt {
    Nothing,
    /// Lower caps.
    Caps,
    /// Suspend jobs that permit it.
    Suspend,
    /// Requeue jobs that permit it.
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
            _ => Err(format!("`{text}` is not a measure of preemption: nothing, caps, suspend, requeue")),
        }
    }
}

/// The factors that put nodes in order for the placements `ranked` and `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RankBy {
    /// Those of the job's application, if it has any.
    #[default]
    Application,
    /// Those for all applications, as in the heterogeneity paper.
    All,
}

impl FromStr for RankBy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "application" => Ok(Self::Application),
            "all" => Ok(Self::All),
            _ => Err(format!("`{text}` does not put nodes in order: application, all")),
        }
    }
}

/// Options of the placements that know the variation of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankOptions {
    pub by: RankBy,
    /// Number of nodes in the first window of the placement `window`, in thousandths of the nodes that the job requests.
    pub window_permille: u32,
    /// True if a job waits until a window of this length has enough free nodes, instead of taking a longer one.
    pub window_waits: bool,
}

impl RankOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { by: RankBy::Application, window_permille: 1_250, window_waits: false }
    }
}

/// The rule by which the order `rule` makes its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListBy {
    /// The least duration times largest share of a resource, for each unit of weight.
    #[default]
    Work,
    /// The largest weight, then the least duration times largest share (power-capping-2018, section 4.2).
    Weight,
}

impl FromStr for ListBy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "work" => Ok(Self::Work),
            "weight" => Ok(Self::Weight),
            _ => Err(format!("`{text}` does not put jobs in order: work, weight")),
        }
    }
}

/// Options of the orders `rule` and `program`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListOptions {
    pub by: ListBy,
    /// Number of jobs that one round of `program` may place in its search: the number of lists times their length.
    pub plan_steps: u32,
    /// Time between two rounds of a search; zero: it goes on only in rounds for other reasons.
    pub think_every: Span,
    /// Mean time between arrivals above which the order `by-arrivals` is `easy` (power-capping-2018, section 5.2.3).
    pub rare_gap: Span,
}

impl ListOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for ListOptions {
    fn default() -> Self {
        Self { by: ListBy::Work, plan_steps: 4_000, think_every: Span::from_secs(1), rare_gap: Span::from_secs(120) }
    }
}

/// Numbers of the policies. All have defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Parts that replace those of every preset: the configuration's.
    #[serde(skip_serializing_if = "Overrides::is_empty")]
    pub parts: Overrides,
    /// Parts that an operator chose together with the preset. They replace also those of the configuration.
    #[serde(skip_serializing_if = "Overrides::is_empty")]
    pub chosen: Overrides,
    pub price_rule: PriceRule,
    /// The price must pass the turning point by this amount before the mode changes again. So the mode does not
    /// change with every fluctuation of the price.
    pub price_hysteresis: Price,
    /// Power kept free below the upper limit, in thousandths of the limit, for noise and for slightly wrong profiles.
    pub reserve_permille: u32,
    /// Time by which a lower limit is held ahead. A job starts this long before the end of a running one, if this end
    /// would take the draw below the limit.
    pub lead: Span,
    /// Waiting time after which a job no longer waits for a better price.
    pub max_delay: Span,
    /// Assumed duration of a job without a profile or a time limit.
    pub default_duration: Span,
    /// Waiting jobs that one round considers, from the head of the queue; limits the cost of a round.
    pub depth: u32,
    /// Age at which a reading expires; the node's draw is then estimated again.
    pub stale_after: Span,
    /// Time for which a node that did not acknowledge an assignment gets no other.
    pub suspect_for: Span,
    /// Rule for the free nodes that a job gets, under policies that place jobs on several nodes.
    pub allocation: Allocation,
    pub rest: RestRule,
    /// Interval between the monitoring stages of energy-budget-2017, section IV-C.1. At each stage of a budget's period
    /// the consumption is read, and the queue is considered again.
    pub monitor_every: Span,
    /// Waiting time of the first job after which `energybud` reserves the energy for it. Before that, later jobs may
    /// use this energy. The bound prevents starvation. (Algorithm 2 of energy-budget-2017 reserves at once.) Under the
    /// orders `rule` and `program`: waiting time of any job after which no other passes it.
    pub hold_after: Span,
    pub horizon: Horizon,
    pub preempt: Preempt,
    /// Time before a known fall of the limit at which running jobs are restricted: a round, plus the delay of a cap.
    pub steer_lead: Span,
    /// Cost of one more hour until the end of a job that waits for a better price, per MWh of the job.
    pub waiting_weight: Price,
    /// Value of each MWh that raises the draw towards the lower limit, from below it.
    pub band_weight: Price,
    /// Time for which the available jobs must be able to hold the lower limit; otherwise they are spared. Zero
    /// switches sparing off.
    pub sparing: Span,
    /// F of power-capping-2018, section 5.1.1, in thousandths, 1 to 1000: the slowdown of a job by a cap without a
    /// profile. At 1000 the duration is inversely proportional to the power.
    pub cap_factor_permille: u32,
    /// Part of the upper limit, in thousandths, that must stay free beyond the reserve when running jobs get power
    /// back.
    pub steer_margin_permille: u32,
    /// Shortest time of a suspension, and between lowering and raising a cap.
    pub least_off: Span,
    /// Shortest time for which the limits must leave power for a resumed job.
    pub least_on: Span,
    /// Confidence that a job stays below the draw that counts against the limits, if a prediction gives it.
    #[serde(skip_serializing_if = "Confidence::is_ninety")]
    pub confidence: Confidence,
    /// Margins of predicted jobs: one for each job, or that of the sum of the jobs on nodes.
    #[serde(skip_serializing_if = "MarginRule::is_job")]
    pub margin: MarginRule,
    #[serde(skip_serializing_if = "RankOptions::is_default")]
    pub ranks: RankOptions,
    #[serde(skip_serializing_if = "ListOptions::is_default")]
    pub lists: ListOptions,
    #[serde(skip_serializing_if = "PoolOptions::is_default")]
    pub pool: PoolOptions,
    #[serde(skip_serializing_if = "RestartLimits::is_default")]
    pub restarts: RestartLimits,
    /// The multiple of the upper limit to which the admission `relaxed` lets the estimated draw rise
    /// (power-capping-2018, section 5.2.2), 1 to [`Options::RELAXED_MOST`].
    #[serde(skip_serializing_if = "is_usual_factor")]
    pub relaxed_factor: u32,
}

fn is_usual_factor(factor: &u32) -> bool {
    *factor == Options::default().relaxed_factor
}

impl Options {
    /// Largest value of `relaxed_factor`.
    pub const RELAXED_MOST: u32 = 1_000;

    /// Returns the parts in force under a preset. In journals older than the part `idle`, only `rest` describes idle
    /// nodes. It then applies if placements take the nodes with the fewest free cores.
    pub fn parts_of(&self, preset: Preset) -> Parts {
        let overrides = self.overrides();
        let parts = overrides.over(preset.parts());
        let rests = self.rest != RestRule::Never && overrides.idle.is_none() && parts.starts_one_by_one();
        if rests { Parts { idle: IdleRule::PowerOff, ..parts } } else { parts }
    }

    /// Returns the parts that replace those of the preset, whoever set them.
    pub fn overrides(&self) -> Overrides {
        self.chosen.on(self.parts)
    }

    /// Returns the rule for idle nodes under policies that let them sleep; the default is to sleep at once.
    pub fn rest_rule(&self) -> RestRule {
        if self.rest == RestRule::Never && self.overrides().idle == Some(IdleRule::PowerOff) {
            return RestRule::Idle(Span::ZERO);
        }
        self.rest
    }

    /// Sets a rule by which idle nodes sleep, under each preset.
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
            chosen: Overrides::default(),
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
            confidence: Confidence::NINETY,
            margin: MarginRule::Job,
            ranks: RankOptions::default(),
            lists: ListOptions::default(),
            pool: PoolOptions::default(),
            restarts: RestartLimits::default(),
            relaxed_factor: 3,
        }
    }
}
