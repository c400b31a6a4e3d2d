//! The state of the cluster at one moment, without anything about a single job: every user may see it.

use std::collections::BTreeMap;

use limo_model::{Band, Currency, Money, Power, Time};
use limo_proto::{BudgetAccount, FeedReport, GroupDraw};
use serde::Serialize;

use crate::controller::{DrawSource, Figures};

/// Figures of the cluster. Unknown values are `null`.
#[derive(Debug, Serialize)]
pub struct OverviewJson {
    schema: u32,
    now_unix_ms: i64,
    policy: String,
    mode: String,
    /// Believed draw of all nodes.
    draw_w: f64,
    idle_w: f64,
    /// Parts of the draw by the way in which they are known.
    measured_w: f64,
    estimated_w: f64,
    emulated_w: f64,
    /// Limits in force; `null` without one.
    band_low_w: Option<f64>,
    band_high_w: Option<f64>,
    /// Next change of the limits.
    next_band_unix_ms: Option<i64>,
    next_band_low_w: Option<f64>,
    next_band_high_w: Option<f64>,
    /// Share of the time with limits in which the believed draw was inside, 0 to 1.
    in_band_share: Option<f64>,
    currency: Currency,
    price_per_mwh: Option<f64>,
    next_price_unix_ms: Option<i64>,
    next_price_per_mwh: Option<f64>,
    /// Cost of all energy since the journal began, while a price was known.
    cost: Option<f64>,
    energy_j: f64,
    /// Cost of finished jobs, and their cost if each had started at once.
    jobs_cost: Option<f64>,
    jobs_start_now_cost: Option<f64>,
    budget: Option<AccountJson>,
    /// Waiting jobs, where each task of an array counts.
    waiting: u64,
    /// Jobs on nodes.
    running: u64,
    /// Jobs that are not over by state; tasks of arrays that wait are not jobs yet.
    jobs: BTreeMap<&'static str, u64>,
    /// Waiting jobs by the kind of their reason.
    waiting_by_reason: BTreeMap<String, u64>,
    /// Nodes by state.
    nodes: BTreeMap<&'static str, u64>,
    cores: u64,
    cores_used: u64,
    groups: Vec<GroupDrawJson>,
    feeds: Vec<FeedAgeJson>,
    /// Reason why new jobs are refused, if they are.
    trouble: Option<String>,
}

/// Account of the running budget.
#[derive(Debug, Serialize)]
pub struct AccountJson {
    begin_unix_ms: i64,
    end_unix_ms: i64,
    energy_j: f64,
    released_j: f64,
    spent_j: f64,
    reserved_j: f64,
}

/// A group of nodes whose draw is limited.
#[derive(Debug, Serialize)]
pub struct GroupDrawJson {
    name: String,
    draw_w: f64,
    limit_w: f64,
}

/// A feed of prices or carbon intensities.
#[derive(Debug, Serialize)]
pub struct FeedAgeJson {
    name: String,
    of: &'static str,
    last_success_unix_ms: Option<i64>,
}

/// Returns the lower limit in watts, if there is one.
pub fn low(band: Band) -> Option<f64> {
    (!band.low().is_zero()).then(|| band.low().watts())
}

/// Returns the upper limit in watts, if there is one.
pub fn high(band: Band) -> Option<f64> {
    (!band.high().is_unlimited()).then(|| band.high().watts())
}

fn account(account: &BudgetAccount) -> AccountJson {
    AccountJson {
        begin_unix_ms: account.budget.from.unix_ms(),
        end_unix_ms: account.budget.until.unix_ms(),
        energy_j: account.budget.energy.joules(),
        released_j: account.released.joules(),
        spent_j: account.spent.joules(),
        reserved_j: account.reserved.joules(),
    }
}

impl OverviewJson {
    pub fn new(figures: &Figures) -> Self {
        let status = &figures.status;
        let drawn = |source: DrawSource| {
            let nodes = figures.nodes.iter().filter(|node| node.source == source);
            nodes.map(|node| node.draw).fold(Power::ZERO, |sum, draw| sum + draw).watts()
        };
        let mut nodes = BTreeMap::new();
        for node in &figures.nodes {
            *nodes.entry(node.state.name()).or_default() += 1;
        }
        let next_band = status.next_band;
        Self {
            schema: limo_json::SCHEMA,
            now_unix_ms: status.now.unix_ms(),
            policy: status.policy.to_string(),
            mode: status.mode.to_string(),
            draw_w: status.draw.watts(),
            idle_w: status.idle.watts(),
            measured_w: drawn(DrawSource::Measured),
            estimated_w: drawn(DrawSource::Estimated),
            emulated_w: drawn(DrawSource::Emulated),
            band_low_w: low(status.band),
            band_high_w: high(status.band),
            next_band_unix_ms: next_band.map(|(at, _)| at.unix_ms()),
            next_band_low_w: next_band.and_then(|(_, band)| low(band)),
            next_band_high_w: next_band.and_then(|(_, band)| high(band)),
            in_band_share: status.in_band_permille.map(|permille| f64::from(permille) / 1e3),
            currency: Currency::agreed(),
            price_per_mwh: status.price.map(|price| price.per_mwh()),
            next_price_unix_ms: status.next_price.map(|(at, _)| at.unix_ms()),
            next_price_per_mwh: status.next_price.and_then(|(_, price)| price).map(|price| price.per_mwh()),
            cost: status.cost.map(Money::whole),
            energy_j: status.energy.joules(),
            jobs_cost: status.jobs_cost.map(Money::whole),
            jobs_start_now_cost: status.jobs_start_now_cost.map(Money::whole),
            budget: status.account.as_ref().map(account),
            waiting: status.waiting,
            running: status.running,
            jobs: figures.jobs.iter().map(|(state, count)| (state.name(), *count)).collect(),
            waiting_by_reason: figures.waiting.iter().map(|(kind, count)| (kind.replace(' ', "_"), *count)).collect(),
            nodes,
            cores: figures.nodes.iter().map(|node| u64::from(node.cores)).sum(),
            cores_used: figures.nodes.iter().map(|node| u64::from(node.cores_used)).sum(),
            groups: status.groups.iter().map(group).collect(),
            feeds: status.feeds.iter().map(feed).collect(),
            trouble: status.trouble.clone(),
        }
    }
}

fn group(GroupDraw { name, draw, limit }: &GroupDraw) -> GroupDrawJson {
    GroupDrawJson { name: name.clone(), draw_w: draw.watts(), limit_w: limit.watts() }
}

fn feed(feed: &FeedReport) -> FeedAgeJson {
    let last_success_unix_ms = feed.last_success.map(Time::unix_ms);
    FeedAgeJson { name: feed.name.clone(), of: feed.of.name(), last_success_unix_ms }
}
