//! The parameters of the policies, in the section `[policy]` of the settings.

use anyhow::{Result, anyhow, bail, ensure};
use clap::Args;
use limo_model::{
    AdmissionRule, CapRule, Confidence, IdleRule, LimitOrNone, OrderRule, Overrides, PlacementRule, Preset, Price,
    RestartLimits, Span, as_text,
};
use limo_sched::{
    Allocation, Knowledge, ListBy, ListOptions, MarginRule, Options, PoolOptions, PoolRank, Preempt, PriceRule, RankBy,
    RankOptions, RestRule, Ties,
};
use serde::Deserialize;

use super::{not_negative, permille, positive};

/// The parameters of the policies: `[policy]`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PolicyLayer {
    /// Jobs that may pass one that cannot start, instead of the preset's rule: strict, easy or conservative
    #[arg(id = "policy_order", long = "policy-order", value_name = "RULE", env = "LIMO_POLICY_ORDER")]
    order: Option<OrderRule>,
    /// Limits that a start must keep, instead of the preset's rule: resources, equations, band, rate, ledger,
    /// ledger-reduced or relaxed
    #[arg(id = "policy_admission", long = "policy-admission", value_name = "RULE", env = "LIMO_POLICY_ADMISSION")]
    admission: Option<AdmissionRule>,
    /// Choice of the nodes for a job, instead of the preset's rule: first-fit, by-price, least-room, least-energy, ranked,
    /// window, assignment or pool
    #[arg(id = "policy_placement", long = "policy-placement", value_name = "RULE", env = "LIMO_POLICY_PLACEMENT")]
    placement: Option<PlacementRule>,
    /// Caps of jobs, instead of the preset's rule: untouched, from-profile, moved, even, equal-speed, at-start, fixed-share
    /// or ellsworth
    #[arg(id = "policy_caps", long = "policy-caps", value_name = "RULE", env = "LIMO_POLICY_CAPS")]
    caps: Option<CapRule>,
    /// Treatment of idle nodes, instead of the preset's rule and of --rest: stay-on or power-off
    #[arg(id = "policy_idle", long = "policy-idle", value_name = "RULE", env = "LIMO_POLICY_IDLE")]
    idle: Option<IdleRule>,
    /// Use low mode above this price, instead of above a quantile
    #[arg(long, value_name = "PRICE", env = "LIMO_PRICE_THRESHOLD", allow_hyphen_values = true)]
    #[serde(with = "as_text::option")]
    price_threshold: Option<Price>,
    /// Use low mode above this quantile of the known prices, in thousandths [default: 500]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_PRICE_QUANTILE_PERMILLE")]
    price_quantile_permille: Option<u32>,
    /// Distance of the price from the turning point at which the mode changes [default: 2 EUR/MWh]
    #[arg(long, value_name = "PRICE", env = "LIMO_PRICE_HYSTERESIS")]
    #[serde(with = "as_text::option")]
    price_hysteresis: Option<Price>,
    /// Reserve below the upper limit, in thousandths of it [default: 10]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_RESERVE_PERMILLE")]
    reserve_permille: Option<u32>,
    /// Time before the expected end of a running job at which another job starts to keep the draw above the lower
    /// limit [default: 1s]
    #[arg(long, value_name = "SPAN", env = "LIMO_LEAD")]
    #[serde(with = "as_text::option")]
    lead: Option<Span>,
    /// Longest wait of a job for a better price [default: 1d]
    #[arg(long, value_name = "SPAN", env = "LIMO_MAX_DELAY")]
    #[serde(with = "as_text::option")]
    max_delay: Option<Span>,
    /// Assumed duration of a job without a better estimate [default: 1h]
    #[arg(long, value_name = "SPAN", env = "LIMO_DEFAULT_DURATION")]
    #[serde(with = "as_text::option")]
    default_duration: Option<Span>,
    /// Number of waiting jobs that a round considers [default: 512]
    #[arg(long, value_name = "COUNT", env = "LIMO_DEPTH")]
    depth: Option<u32>,
    /// Age at which a reading no longer counts [default: 10s]
    #[arg(long, value_name = "SPAN", env = "LIMO_STALE_AFTER")]
    #[serde(with = "as_text::option")]
    stale_after: Option<Span>,
    /// Time for which a node that did not acknowledge a job gets no other job [default: 30s]
    #[arg(long, value_name = "SPAN", env = "LIMO_SUSPECT_FOR")]
    #[serde(with = "as_text::option")]
    suspect_for: Option<Span>,
    /// Allowed nodes for a multi-node job: any, or contiguous ones [default: any]
    #[arg(long, value_name = "WHICH", env = "LIMO_ALLOCATION")]
    allocation: Option<Allocation>,
    /// Sleep of idle nodes: never, idle:SPAN after the last job, or idle-in-budget:SPAN [default: never]
    #[arg(long, value_name = "RULE", env = "LIMO_REST")]
    #[serde(with = "as_text::option")]
    rest: Option<RestRule>,
    /// Interval at which the account of a budget is corrected by the energy used, and the queue is considered again
    /// [default: 10min]
    #[arg(long, value_name = "SPAN", env = "LIMO_MONITOR_EVERY")]
    #[serde(with = "as_text::option")]
    monitor_every: Option<Span>,
    /// Wait of the first job after which energybud reserves the energy that it will need [default: 7d]
    #[arg(long, value_name = "SPAN", env = "LIMO_HOLD_AFTER")]
    #[serde(with = "as_text::option")]
    hold_after: Option<Span>,
    /// Strongest restriction of running jobs if the draw is above the upper limit: nothing, caps, suspend or requeue
    /// [default: requeue]
    #[arg(long, value_name = "HOW", env = "LIMO_PREEMPT")]
    preempt: Option<Preempt>,
    /// Time before a known fall of the limit at which running jobs are restricted [default: 1s]
    #[arg(long, value_name = "SPAN", env = "LIMO_STEER_LEAD")]
    #[serde(with = "as_text::option")]
    steer_lead: Option<Span>,
    /// Value of an hour of delay, for each MWh, to a job that waits for a better price [default: 1 EUR/MWh]
    #[arg(long, value_name = "PRICE", env = "LIMO_WAITING_WEIGHT")]
    #[serde(with = "as_text::option")]
    waiting_weight: Option<Price>,
    /// Value of each MWh that raises the draw towards the lower limit [default: 100 EUR/MWh]
    #[arg(long, value_name = "PRICE", env = "LIMO_BAND_WEIGHT")]
    #[serde(with = "as_text::option")]
    band_weight: Option<Price>,
    /// Spare jobs that are too short to keep the draw above the lower limit for this long; 0s spares none [default:
    /// 1h]
    #[arg(long, value_name = "SPAN", env = "LIMO_SPARING")]
    #[serde(with = "as_text::option")]
    sparing: Option<Span>,
    /// Slowdown of a job by a cap without a profile, in thousandths; 1000 means in proportion to the power [default:
    /// 750]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_CAP_FACTOR_PERMILLE")]
    cap_factor_permille: Option<u32>,
    /// Confidence that a job stays below the draw that counts against the limits, if it is predicted, in thousandths
    /// [default: 900]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_CONFIDENCE_PERMILLE")]
    confidence_permille: Option<u32>,
    /// Margins of predicted jobs against the limits: job for one each, sum for that of the sum of all jobs on nodes [default:
    /// job]
    #[arg(long, value_name = "RULE", env = "LIMO_MARGIN")]
    margin: Option<MarginRule>,
    /// Additional reserve when running jobs get power back, in thousandths of the upper limit [default: 20]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_STEER_MARGIN_PERMILLE")]
    steer_margin_permille: Option<u32>,
    /// Shortest time of a suspension or a lowered cap [default: 5s]
    #[arg(long, value_name = "SPAN", env = "LIMO_LEAST_OFF")]
    #[serde(with = "as_text::option")]
    least_off: Option<Span>,
    /// Shortest expected run at which a suspended job resumes [default: 30s]
    #[arg(long, value_name = "SPAN", env = "LIMO_LEAST_ON")]
    #[serde(with = "as_text::option")]
    least_on: Option<Span>,
    /// Factors that put nodes in order for the placements ranked and window: those of the job's application, or those
    /// for all [default: application]
    #[arg(long, value_name = "WHICH", env = "LIMO_RANK_BY")]
    rank_by: Option<RankBy>,
    /// Number of nodes in the first window of the placement window, in thousandths of those that a job requests
    /// [default: 1250]
    #[arg(long, value_name = "PERMILLE", env = "LIMO_WINDOW_PERMILLE")]
    window_permille: Option<u32>,
    /// Let a job wait for a window of this length, instead of taking a longer one [default: false]
    #[arg(long, value_name = "BOOL", env = "LIMO_WINDOW_WAITS")]
    window_waits: Option<bool>,
    /// Order of the free nodes under the placement pool: S1, S2, S3a, S3b, S4, S5a, S5b, S6 or learned [default: S1]
    #[arg(long, value_name = "RANK", env = "LIMO_POOL_RANK")]
    pool_rank: Option<PoolRank>,
    /// Sessions of owners that count for the ranks S3 and S5: those of the past, or of a trace [default: past]
    #[arg(long, value_name = "WHICH", env = "LIMO_POOL_KNOWLEDGE")]
    pool_knowledge: Option<Knowledge>,
    /// Time before a start in which the rank S6 counts sessions, 5min to 4h [default: 30min]
    #[arg(long, value_name = "SPAN", env = "LIMO_POOL_WINDOW")]
    #[serde(with = "as_text::option")]
    pool_window: Option<Span>,
    /// Choice between nodes of equal rank: random or first [default: random]
    #[arg(long, value_name = "RULE", env = "LIMO_POOL_TIES")]
    pool_ties: Option<Ties>,
    /// Seed of this choice [default: 0]
    #[arg(long, value_name = "NUMBER", env = "LIMO_POOL_SEED")]
    pool_seed: Option<u32>,
    /// Restarts of a job after evictions before it is given up, or none [default: 10]
    #[arg(long, value_name = "COUNT", env = "LIMO_MAX_RESTARTS")]
    #[serde(with = "as_text::option")]
    max_restarts: Option<LimitOrNone<u32>>,
    /// Restarts of a job after evictions by owners before it is given up, or none [default: none]
    #[arg(long, value_name = "COUNT", env = "LIMO_MAX_OWNER_RESTARTS")]
    #[serde(with = "as_text::option")]
    max_owner_restarts: Option<LimitOrNone<u32>>,
    /// Restarts of a job after evictions by reboots before it is given up, or none [default: none]
    #[arg(long, value_name = "COUNT", env = "LIMO_MAX_REBOOT_RESTARTS")]
    #[serde(with = "as_text::option")]
    max_reboot_restarts: Option<LimitOrNone<u32>>,
    /// Running time of an evicted attempt after which its job is given up, or none [default: none]
    #[arg(long, value_name = "SPAN", env = "LIMO_MAX_EVICTED_RUN")]
    #[serde(with = "as_text::option")]
    max_evicted_run: Option<LimitOrNone<Span>>,
    /// Order of the jobs under the order rule: by work for each unit of weight, or by weight and then by work [default:
    /// work]
    #[arg(long, value_name = "RULE", env = "LIMO_LIST_BY")]
    list_by: Option<ListBy>,
    /// Number of jobs that the search of a round places under the order program: lists times their length [default:
    /// 4000]
    #[arg(long, value_name = "JOBS", env = "LIMO_PLAN_STEPS")]
    plan_steps: Option<u32>,
    /// Time after which a search goes on that still finds better lists; 0s: only at events [default: 1s]
    #[arg(long, value_name = "SPAN", env = "LIMO_THINK_EVERY")]
    #[serde(with = "as_text::option")]
    think_every: Option<Span>,
    /// Multiple of the upper limit below which the estimated draw stays under the admission relaxed [default: 3]
    #[arg(long, value_name = "FACTOR", env = "LIMO_RELAXED_FACTOR")]
    relaxed_factor: Option<u32>,
    /// Mean time between arrivals above which the order by-arrivals is easy [default: 2min]
    #[arg(long, value_name = "SPAN", env = "LIMO_RARE_GAP")]
    #[serde(with = "as_text::option")]
    rare_gap: Option<Span>,
}

impl PolicyLayer {
    /// Takes values that this layer does not set from the layer below.
    pub(super) fn over(self, under: Self) -> Self {
        // A price rule replaces the other kind of price rule of the layer below.
        let ruled = self.price_threshold.is_some() || self.price_quantile_permille.is_some();
        let under =
            if ruled { PolicyLayer { price_threshold: None, price_quantile_permille: None, ..under } } else { under };
        Self {
            order: self.order.or(under.order),
            admission: self.admission.or(under.admission),
            placement: self.placement.or(under.placement),
            caps: self.caps.or(under.caps),
            idle: self.idle.or(under.idle),
            price_threshold: self.price_threshold.or(under.price_threshold),
            price_quantile_permille: self.price_quantile_permille.or(under.price_quantile_permille),
            price_hysteresis: self.price_hysteresis.or(under.price_hysteresis),
            reserve_permille: self.reserve_permille.or(under.reserve_permille),
            lead: self.lead.or(under.lead),
            max_delay: self.max_delay.or(under.max_delay),
            default_duration: self.default_duration.or(under.default_duration),
            depth: self.depth.or(under.depth),
            stale_after: self.stale_after.or(under.stale_after),
            suspect_for: self.suspect_for.or(under.suspect_for),
            allocation: self.allocation.or(under.allocation),
            rest: self.rest.or(under.rest),
            monitor_every: self.monitor_every.or(under.monitor_every),
            hold_after: self.hold_after.or(under.hold_after),
            preempt: self.preempt.or(under.preempt),
            steer_lead: self.steer_lead.or(under.steer_lead),
            waiting_weight: self.waiting_weight.or(under.waiting_weight),
            band_weight: self.band_weight.or(under.band_weight),
            sparing: self.sparing.or(under.sparing),
            cap_factor_permille: self.cap_factor_permille.or(under.cap_factor_permille),
            confidence_permille: self.confidence_permille.or(under.confidence_permille),
            margin: self.margin.or(under.margin),
            steer_margin_permille: self.steer_margin_permille.or(under.steer_margin_permille),
            least_off: self.least_off.or(under.least_off),
            least_on: self.least_on.or(under.least_on),
            rank_by: self.rank_by.or(under.rank_by),
            window_permille: self.window_permille.or(under.window_permille),
            window_waits: self.window_waits.or(under.window_waits),
            pool_rank: self.pool_rank.or(under.pool_rank),
            pool_knowledge: self.pool_knowledge.or(under.pool_knowledge),
            pool_window: self.pool_window.or(under.pool_window),
            pool_ties: self.pool_ties.or(under.pool_ties),
            pool_seed: self.pool_seed.or(under.pool_seed),
            max_restarts: self.max_restarts.or(under.max_restarts),
            max_owner_restarts: self.max_owner_restarts.or(under.max_owner_restarts),
            max_reboot_restarts: self.max_reboot_restarts.or(under.max_reboot_restarts),
            max_evicted_run: self.max_evicted_run.or(under.max_evicted_run),
            list_by: self.list_by.or(under.list_by),
            plan_steps: self.plan_steps.or(under.plan_steps),
            think_every: self.think_every.or(under.think_every),
            relaxed_factor: self.relaxed_factor.or(under.relaxed_factor),
            rare_gap: self.rare_gap.or(under.rare_gap),
        }
    }

    pub(super) fn resolve(self) -> Result<Options> {
        let default = Options::default();
        let price_rule = match (self.price_threshold, self.price_quantile_permille) {
            (Some(_), Some(_)) => {
                bail!("price_threshold and price_quantile_permille exclude each other: give one of them")
            }
            (Some(threshold), None) => PriceRule::Threshold(threshold),
            (None, Some(quantile)) => PriceRule::QuantilePermille(permille("price_quantile_permille", quantile)?),
            (None, None) => default.price_rule,
        };
        let price_hysteresis = self.price_hysteresis.unwrap_or(default.price_hysteresis);
        ensure!(price_hysteresis >= Price::ZERO, "price_hysteresis is {price_hysteresis}: it cannot be negative");
        let depth = self.depth.unwrap_or(default.depth);
        ensure!(depth > 0, "depth is 0: a round must consider 1 job or more");
        let factor = permille("cap_factor_permille", self.cap_factor_permille.unwrap_or(default.cap_factor_permille))?;
        ensure!(factor > 0, "cap_factor_permille is 0: it must be 1 to 1000 thousandths");
        let window_permille = self.window_permille.unwrap_or(default.ranks.window_permille);
        ensure!(
            (1_000..=100_000).contains(&window_permille),
            "window_permille is {window_permille}: it must be 1000 to 100000 thousandths"
        );
        let pool_window = self.pool_window.unwrap_or(default.pool.window);
        let (least, most) = PoolOptions::WINDOWS.into_inner();
        ensure!((least..=most).contains(&pool_window), "pool_window is {pool_window}: it must be {least} to {most}");
        let plan_steps = self.plan_steps.unwrap_or(default.lists.plan_steps);
        ensure!(plan_steps > 0, "plan_steps is 0: a search must place 1 job or more");
        let relaxed_factor = self.relaxed_factor.unwrap_or(default.relaxed_factor);
        ensure!(
            (1..=Options::RELAXED_MOST).contains(&relaxed_factor),
            "relaxed_factor is {relaxed_factor}: it must be 1 to {}",
            Options::RELAXED_MOST
        );
        let mut options = Options {
            price_rule,
            price_hysteresis,
            reserve_permille: permille("reserve_permille", self.reserve_permille.unwrap_or(default.reserve_permille))?,
            lead: not_negative("lead", self.lead, default.lead)?,
            max_delay: not_negative("max_delay", self.max_delay, default.max_delay)?,
            default_duration: positive("default_duration", self.default_duration, default.default_duration)?,
            depth,
            stale_after: positive("stale_after", self.stale_after, default.stale_after)?,
            suspect_for: not_negative("suspect_for", self.suspect_for, default.suspect_for)?,
            allocation: self.allocation.unwrap_or(default.allocation),
            monitor_every: positive("monitor_every", self.monitor_every, default.monitor_every)?,
            hold_after: not_negative("hold_after", self.hold_after, default.hold_after)?,
            preempt: self.preempt.unwrap_or(default.preempt),
            steer_lead: not_negative("steer_lead", self.steer_lead, default.steer_lead)?,
            waiting_weight: weight("waiting_weight", self.waiting_weight, default.waiting_weight)?,
            band_weight: weight("band_weight", self.band_weight, default.band_weight)?,
            sparing: not_negative("sparing", self.sparing, default.sparing)?,
            cap_factor_permille: factor,
            confidence: self.confidence_permille.map_or(Ok(default.confidence), confidence)?,
            margin: self.margin.unwrap_or(default.margin),
            steer_margin_permille: permille(
                "steer_margin_permille",
                self.steer_margin_permille.unwrap_or(default.steer_margin_permille),
            )?,
            least_off: not_negative("least_off", self.least_off, default.least_off)?,
            least_on: not_negative("least_on", self.least_on, default.least_on)?,
            ranks: RankOptions {
                by: self.rank_by.unwrap_or(default.ranks.by),
                window_permille,
                window_waits: self.window_waits.unwrap_or(default.ranks.window_waits),
            },
            lists: ListOptions {
                by: self.list_by.unwrap_or(default.lists.by),
                plan_steps,
                think_every: not_negative("think_every", self.think_every, default.lists.think_every)?,
                rare_gap: not_negative("rare_gap", self.rare_gap, default.lists.rare_gap)?,
            },
            pool: PoolOptions {
                rank: self.pool_rank.unwrap_or(default.pool.rank),
                knowledge: self.pool_knowledge.unwrap_or(default.pool.knowledge),
                window: pool_window,
                ties: self.pool_ties.unwrap_or(default.pool.ties),
                seed: self.pool_seed.unwrap_or(default.pool.seed),
            },
            restarts: RestartLimits {
                restarts: self.max_restarts.map_or(default.restarts.restarts, |limit| limit.0),
                by_owner: self.max_owner_restarts.and_then(|limit| limit.0),
                by_reboot: self.max_reboot_restarts.and_then(|limit| limit.0),
                last_run: self.max_evicted_run.and_then(|limit| limit.0),
            },
            relaxed_factor,
            ..default
        };
        options.rest_by(self.rest.unwrap_or_default());
        options.parts = self.parts()?.on(options.parts);
        Ok(options)
    }

    /// Returns the parts that replace those of every preset.
    fn parts(&self) -> Result<Overrides> {
        let Self { order, admission, placement, caps, idle, .. } = *self;
        let parts = Overrides { order, admission, placement, caps, idle };
        let each = || Preset::ALL.into_iter().map(|preset| parts.over(preset.parts()).senseless());
        if each().all(|why| why.is_some()) {
            let why = each().flatten().next().unwrap_or_default();
            bail!("the parts in [policy] go together with no policy; with {}: {why}", Preset::ALL[0]);
        }
        Ok(parts)
    }
}

fn confidence(permille: u32) -> Result<Confidence> {
    Confidence::new(permille).map_err(|error| anyhow!("confidence_permille: {error}"))
}

fn weight(key: &str, value: Option<Price>, default: Price) -> Result<Price> {
    let value = value.unwrap_or(default);
    ensure!(value >= Price::ZERO, "{key} is {value}: it cannot be negative");
    Ok(value)
}
