//! Answers of the API that no client prints: pages of lists, curves, and all nodes in short.

use limo_json::{ChangeJson, ExplanationJson, JobJson, NodeJson};
use limo_model::{Currency, Power, Time};
use limo_proto::{PlanReport, PlannedJob};
use serde::Serialize;

use super::draw::BucketJson;
use super::overview::{high, low};
use crate::controller::Figures;

/// A page of jobs.
#[derive(Debug, Serialize)]
pub struct JobsPageJson {
    pub schema: u32,
    pub jobs: Vec<JobJson>,
    /// Continues the list; `null` at its end.
    pub cursor: Option<String>,
}

/// A job, with the reason why it waits.
#[derive(Debug, Serialize)]
pub struct JobDetailJson {
    pub schema: u32,
    pub job: JobJson,
    /// Present while the job waits.
    pub explanation: Option<ExplanationJson>,
}

/// A page of nodes.
#[derive(Debug, Serialize)]
pub struct NodesPageJson {
    pub schema: u32,
    pub nodes: Vec<NodeJson>,
    pub cursor: Option<String>,
}

/// A page of changes, newest first.
#[derive(Debug, Serialize)]
pub struct ChangesPageJson {
    pub schema: u32,
    pub changes: Vec<ChangeJson>,
    pub cursor: Option<String>,
}

/// Draw of the cluster over time.
#[derive(Debug, Serialize)]
pub struct DrawJson {
    pub schema: u32,
    /// True if any of the watts are modelled by emulated hardware.
    pub emulated: bool,
    pub bucket_s: f64,
    /// Buckets in order of time; those without a known draw are left out.
    pub draw: Vec<BucketJson>,
}

/// All nodes in short: each list has one value for each node.
#[derive(Debug, Serialize)]
pub struct MapJson {
    schema: u32,
    now_unix_ms: i64,
    names: Vec<String>,
    states: Vec<&'static str>,
    draw_w: Vec<f64>,
    /// The way in which the draw is known.
    how: Vec<&'static str>,
    /// Sum of the caps in force; `null` without one.
    cap_w: Vec<Option<f64>>,
    cores: Vec<u32>,
    cores_used: Vec<u32>,
}

impl MapJson {
    pub fn new(figures: &Figures) -> Self {
        let nodes = &figures.nodes;
        let cap = |caps: &[(String, Power)]| match caps {
            [] => None,
            caps => Some(caps.iter().map(|(_, cap)| cap.watts()).sum()),
        };
        Self {
            schema: limo_json::SCHEMA,
            now_unix_ms: figures.status.now.unix_ms(),
            names: nodes.iter().map(|node| node.name.clone()).collect(),
            states: nodes.iter().map(|node| node.state.name()).collect(),
            draw_w: nodes.iter().map(|node| node.draw.watts()).collect(),
            how: nodes.iter().map(|node| node.source.name()).collect(),
            cap_w: nodes.iter().map(|node| cap(&node.caps)).collect(),
            cores: nodes.iter().map(|node| node.cores).collect(),
            cores_used: nodes.iter().map(|node| node.cores_used).collect(),
        }
    }
}

/// Limits, prices and planned starts.
#[derive(Debug, Serialize)]
pub struct PlanJson {
    schema: u32,
    now_unix_ms: i64,
    currency: Currency,
    /// Each holds until the next; empty without any.
    limits: Vec<LimitJson>,
    prices: Vec<PriceJson>,
    /// Starts that the policy plans now.
    planned: Vec<PlannedJson>,
    planned_left_out: u32,
}

#[derive(Debug, Serialize)]
struct LimitJson {
    at_unix_ms: i64,
    low_w: Option<f64>,
    high_w: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PriceJson {
    at_unix_ms: i64,
    price_per_mwh: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PlannedJson {
    id: u64,
    user: String,
    name: String,
    start_unix_ms: i64,
    time_limit_s: Option<f64>,
    /// Nodes such as `n[1-3]`, or their number.
    place: String,
}

impl PlanJson {
    pub fn new(report: PlanReport, now: Time) -> Self {
        let planned = |PlannedJob { job, user, name, at, time_limit, place }: PlannedJob| PlannedJson {
            id: job.0,
            user,
            name,
            start_unix_ms: at.unix_ms(),
            time_limit_s: time_limit.map(limo_model::Span::secs),
            place,
        };
        let limit =
            |(at, band): (Time, _)| LimitJson { at_unix_ms: at.unix_ms(), low_w: low(band), high_w: high(band) };
        let price = |(at, price): (Time, Option<limo_model::Price>)| PriceJson {
            at_unix_ms: at.unix_ms(),
            price_per_mwh: price.map(limo_model::Price::per_mwh),
        };
        Self {
            schema: limo_json::SCHEMA,
            now_unix_ms: now.unix_ms(),
            currency: Currency::agreed(),
            limits: report.limits.into_iter().map(limit).collect(),
            prices: report.prices.into_iter().map(price).collect(),
            planned: report.starts.into_iter().map(planned).collect(),
            planned_left_out: report.more,
        }
    }
}
