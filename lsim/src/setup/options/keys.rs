//! The keys of `--set`.

use limo_model::{AdmissionRule, Confidence, OrderRule, Parts, PlacementRule, Span};
use limo_sched::{Options, PoolOptions, PriceRule};

use super::Key;
use super::read::{number, part, set, span, within};

const BACKFILL: fn(Parts) -> bool = |parts| parts.order == OrderRule::Easy;
const BUDGET: fn(Parts) -> bool = Parts::keeps_budget;
const PRICED: fn(Parts) -> bool = Parts::heeds_lower_limit;
const LIMO: fn(Parts) -> bool = Parts::steers;
/// Policies that keep the upper limit by caps of running jobs.
const CAPPED: fn(Parts) -> bool = |parts| parts.steers() || parts.divides();
/// Policies that expect a slowdown under caps without a profile.
const SLOWED: fn(Parts) -> bool = |parts| CAPPED(parts) || parts.takes_what_is_left();
const RANKED: fn(Parts) -> bool = |parts| matches!(parts.placement, PlacementRule::Ranked | PlacementRule::Window);
const WINDOW: fn(Parts) -> bool = |parts| parts.placement == PlacementRule::Window;
const POOL: fn(Parts) -> bool = |parts| parts.placement == PlacementRule::Pool;
/// Orders that search for a list of the jobs, and those that have one.
const SEARCHED: fn(Parts) -> bool = |parts| matches!(parts.order, OrderRule::Program | OrderRule::ByArrivals);
const LISTED: fn(Parts) -> bool =
    |parts| matches!(parts.order, OrderRule::Rule | OrderRule::Program | OrderRule::ByArrivals);
const ESTIMATED: fn(Parts) -> bool = |parts| parts.order != OrderRule::Strict;

pub const KEYS: [Key; 40] = [
    Key {
        name: "admission",
        values: "resources | equations | band | rate | ledger | ledger-reduced | relaxed",
        default: "none",
        meaning: "limits that a start must keep, in place of the policy's own rule",
        is_part: true,
        counts: |_| true,
        read: |options, value| part(&mut options.parts.admission, value),
    },
    Key {
        name: "allocation",
        values: "any | contiguous",
        default: "any",
        meaning: "free nodes that a job gets: any, or neighbours only",
        is_part: false,
        counts: BACKFILL,
        read: |options, value| set(&mut options.allocation, value),
    },
    Key {
        name: "band-weight",
        values: "a price, such as 100EUR/MWh",
        default: "100EUR/MWh",
        meaning: "value of each MWh that raises a draw below the lower limit",
        is_part: false,
        counts: LIMO,
        read: |options, value| set(&mut options.band_weight, value),
    },
    Key {
        name: "cap-factor-permille",
        values: "1 to 1000",
        default: "750",
        meaning: "expected slowdown under a cap without a profile; at 1000 in proportion to the power",
        is_part: false,
        counts: SLOWED,
        read: |options, value| number(&mut options.cap_factor_permille, value, 1, 1_000),
    },
    Key {
        name: "caps",
        values: "untouched | from-profile | moved | even | equal-speed | at-start | fixed-share | ellsworth",
        default: "none",
        meaning: "caps of jobs, in place of the policy's own rule",
        is_part: true,
        counts: |_| true,
        read: |options, value| part(&mut options.parts.caps, value),
    },
    Key {
        name: "confidence-permille",
        values: "500 to 999",
        default: "900",
        meaning: "confidence of the draw that a predicted job has against the limits",
        is_part: false,
        counts: |parts| parts.admission != AdmissionRule::Resources,
        read: |options, value| {
            let mut permille = 0;
            number(&mut permille, value, 500, 999)?;
            options.confidence = Confidence::new(permille).map_err(|error| error.to_string())?;
            Ok(())
        },
    },
    Key {
        name: "default-duration",
        values: "a span, such as 1h",
        default: "1h",
        meaning: "expected running time of a job without a requested time",
        is_part: false,
        counts: ESTIMATED,
        read: |options, value| span(&mut options.default_duration, value, Span::from_ms(1)),
    },
    Key {
        name: "depth",
        values: "jobs, 1 or more",
        default: "512",
        meaning: "number of waiting jobs that a round considers",
        is_part: false,
        counts: ESTIMATED,
        read: |options, value| number(&mut options.depth, value, 1, u32::MAX),
    },
    Key {
        name: "hold-after",
        values: "a span, such as 7d; 0s: at once",
        default: "7d",
        meaning: "waiting time after which later jobs may not use the energy of the first one, or pass under `rule` or `program`",
        is_part: false,
        counts: |parts| parts.admission == AdmissionRule::Ledger || LISTED(parts),
        read: |options, value| span(&mut options.hold_after, value, Span::ZERO),
    },
    Key {
        name: "idle",
        values: "stay-on | power-off",
        default: "none",
        meaning: "if idle nodes sleep, in place of the policy's own rule",
        is_part: true,
        counts: |_| true,
        read: |options, value| part(&mut options.parts.idle, value),
    },
    Key {
        name: "lead",
        values: "a span, such as 1s",
        default: "1s",
        meaning: "time before a job's end from which the lower limit is secured",
        is_part: false,
        counts: LIMO,
        read: |options, value| span(&mut options.lead, value, Span::ZERO),
    },
    Key {
        name: "least-off",
        values: "a span, such as 5s",
        default: "5s",
        meaning: "least time that a job stays suspended and a cap stays lowered",
        is_part: false,
        counts: CAPPED,
        read: |options, value| span(&mut options.least_off, value, Span::ZERO),
    },
    Key {
        name: "least-on",
        values: "a span, such as 30s",
        default: "30s",
        meaning: "time for which the limits must leave power for a job before it is resumed",
        is_part: false,
        counts: LIMO,
        read: |options, value| span(&mut options.least_on, value, Span::ZERO),
    },
    Key {
        name: "list-by",
        values: "work | weight",
        default: "work",
        meaning: "order of the jobs: by work for each unit of weight, or by weight and then by work",
        is_part: false,
        counts: |parts| parts.order == OrderRule::Rule,
        read: |options, value| set(&mut options.lists.by, value),
    },
    Key {
        name: "max-delay",
        values: "a span, such as 1d",
        default: "1d",
        meaning: "longest wait for a better price",
        is_part: false,
        counts: LIMO,
        read: |options, value| span(&mut options.max_delay, value, Span::ZERO),
    },
    Key {
        name: "monitor-every",
        values: "a span, such as 10min",
        default: "10min",
        meaning: "interval of meter readings during a budget's period",
        is_part: false,
        counts: BUDGET,
        read: |options, value| span(&mut options.monitor_every, value, Span::from_ms(1)),
    },
    Key {
        name: "order",
        values: "strict | easy | conservative | rule | program",
        default: "none",
        meaning: "jobs that may pass one that cannot start, in place of the policy's own rule",
        is_part: true,
        counts: |_| true,
        read: |options, value| part(&mut options.parts.order, value),
    },
    Key {
        name: "placement",
        values: "first-fit | by-price | least-room | least-energy | ranked | window | assignment",
        default: "none",
        meaning: "nodes that a job gets, in place of the policy's own rule",
        is_part: true,
        counts: |_| true,
        read: |options, value| part(&mut options.parts.placement, value),
    },
    Key {
        name: "plan-steps",
        values: "jobs, 1 or more",
        default: "4000",
        meaning: "number of jobs that a round's search places: lists times their length",
        is_part: false,
        counts: SEARCHED,
        read: |options, value| number(&mut options.lists.plan_steps, value, 1, u32::MAX),
    },
    Key {
        name: "pool-knowledge",
        values: "past | trace",
        default: "past",
        meaning: "sessions of owners that count for the ranks S3 and S5: those so far, or all of the trace",
        is_part: false,
        counts: POOL,
        read: |options, value| set(&mut options.pool.knowledge, value),
    },
    Key {
        name: "pool-rank",
        values: "S1 | S2 | S3a | S3b | S4 | S5a | S5b | S6",
        default: "S1",
        meaning: "order of the free nodes under the placement `pool`",
        is_part: false,
        counts: POOL,
        read: |options, value| set(&mut options.pool.rank, value),
    },
    Key {
        name: "pool-seed",
        values: "a whole number, 0 to 4294967295",
        default: "0",
        meaning: "seed of the choice between nodes of equal rank",
        is_part: false,
        counts: POOL,
        read: |options, value| number(&mut options.pool.seed, value, 0, u32::MAX),
    },
    Key {
        name: "pool-ties",
        values: "random | first",
        default: "random",
        meaning: "choice between nodes of equal rank",
        is_part: false,
        counts: POOL,
        read: |options, value| set(&mut options.pool.ties, value),
    },
    Key {
        name: "pool-window",
        values: "a span from 5min to 4h",
        default: "30min",
        meaning: "time before a start in which the rank S6 counts sessions",
        is_part: false,
        counts: POOL,
        read: |options, value| within(&mut options.pool.window, value, PoolOptions::WINDOWS),
    },
    Key {
        name: "preempt",
        values: "nothing | caps | suspend | requeue",
        default: "requeue",
        meaning: "measures against running jobs above the upper limit; each includes those before it",
        is_part: false,
        counts: LIMO,
        read: |options, value| set(&mut options.preempt, value),
    },
    Key {
        name: "price-hysteresis",
        values: "a price, such as 2EUR/MWh",
        default: "2EUR/MWh",
        meaning: "amount by which the price must pass the threshold before the mode changes back",
        is_part: false,
        counts: PRICED,
        read: |options, value| set(&mut options.price_hysteresis, value),
    },
    Key {
        name: "price-quantile-permille",
        values: "0 to 1000",
        default: "500",
        meaning: "the mode is low above this quantile of the known prices",
        is_part: false,
        counts: PRICED,
        read: |options, value| {
            let mut quantile = 0;
            number(&mut quantile, value, 0, 1_000)?;
            options.price_rule = PriceRule::QuantilePermille(quantile);
            Ok(())
        },
    },
    Key {
        name: "price-threshold",
        values: "a price, such as 40EUR/MWh",
        default: "none",
        meaning: "the mode is low above this price, in place of a quantile",
        is_part: false,
        counts: PRICED,
        read: |options, value| {
            let price = value.parse().map_err(|error: limo_model::UnitError| error.to_string())?;
            options.price_rule = PriceRule::Threshold(price);
            Ok(())
        },
    },
    Key {
        name: "rank-by",
        values: "application | all",
        default: "application",
        meaning: "factors that put nodes in order: those of the job's application, or those for all applications",
        is_part: false,
        counts: RANKED,
        read: |options, value| set(&mut options.ranks.by, value),
    },
    Key {
        name: "rare-gap",
        values: "a span, such as 2min",
        default: "2min",
        meaning: "mean time between arrivals above which the order is `easy`",
        is_part: false,
        counts: |parts| parts.order == OrderRule::ByArrivals,
        read: |options, value| span(&mut options.lists.rare_gap, value, Span::ZERO),
    },
    Key {
        name: "relaxed-factor",
        values: "1 to 1000",
        default: "3",
        meaning: "multiple of the upper limit below which the estimated draw stays",
        is_part: false,
        counts: |parts| parts.admission == AdmissionRule::Relaxed,
        read: |options, value| number(&mut options.relaxed_factor, value, 1, Options::RELAXED_MOST),
    },
    Key {
        name: "reserve-permille",
        values: "0 to 1000",
        default: "10",
        meaning: "share of the upper limit that is kept free",
        is_part: false,
        counts: CAPPED,
        read: |options, value| number(&mut options.reserve_permille, value, 0, 1_000),
    },
    Key {
        name: "rest",
        values: "never | idle | idle:SPAN | idle-in-budget | idle-in-budget:SPAN",
        default: "never",
        meaning: "idle=power-off, and when: at once or after a time, always or only in budget periods",
        is_part: false,
        counts: |_| true,
        read: |options, value| {
            options.rest_by(value.parse()?);
            Ok(())
        },
    },
    Key {
        name: "sparing",
        values: "a span, such as 1h; 0s spares none",
        default: "1h",
        meaning: "jobs that end within this time are not used to hold the lower limit",
        is_part: false,
        counts: LIMO,
        read: |options, value| span(&mut options.sparing, value, Span::ZERO),
    },
    Key {
        name: "steer-lead",
        values: "a span, such as 1s",
        default: "1s",
        meaning: "time before a limit falls from which running jobs give way",
        is_part: false,
        counts: CAPPED,
        read: |options, value| span(&mut options.steer_lead, value, Span::ZERO),
    },
    Key {
        name: "steer-margin-permille",
        values: "0 to 1000",
        default: "20",
        meaning: "share of the upper limit that must stay free when running jobs get power back",
        is_part: false,
        counts: LIMO,
        read: |options, value| number(&mut options.steer_margin_permille, value, 0, 1_000),
    },
    Key {
        name: "think-every",
        values: "a span, such as 1s; 0s: only at events",
        default: "1s",
        meaning: "time after which a search goes on that still finds better lists",
        is_part: false,
        counts: SEARCHED,
        read: |options, value| span(&mut options.lists.think_every, value, Span::ZERO),
    },
    Key {
        name: "waiting-weight",
        values: "a price, such as 1EUR/MWh",
        default: "1EUR/MWh",
        meaning: "value of an hour's earlier end, for each MWh of a job that waits for a better price",
        is_part: false,
        counts: LIMO,
        read: |options, value| set(&mut options.waiting_weight, value),
    },
    Key {
        name: "window-permille",
        values: "1000 to 100000",
        default: "1250",
        meaning: "length of the first window, in thousandths of the nodes that a job requests",
        is_part: false,
        counts: WINDOW,
        read: |options, value| number(&mut options.ranks.window_permille, value, 1_000, 100_000),
    },
    Key {
        name: "window-waits",
        values: "true | false",
        default: "false",
        meaning: "a job waits for a window of this length, in place of taking a longer one",
        is_part: false,
        counts: WINDOW,
        read: |options, value| set(&mut options.ranks.window_waits, value),
    },
];
