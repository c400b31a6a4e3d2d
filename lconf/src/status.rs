//! `lconf status`: prints the state of the cluster.

use limo_client::{
    Clock, Failure, Master, answer, answer_json, band_in_words, exit, gauge, marked, mode_in_words, or_dash, plain,
    price_in_words,
};
use limo_model::{Currency, Energy, Money, Time};
use limo_proto::{ForeignReport, GroupDraw, LicenceReport, MeterReport, Status, UnreachableReport};
use serde::Serialize;

use crate::budget::{self, AccountJson};
use crate::feeds::{self, FeedJson};
use crate::grid::{self, GridJson};
use crate::show::{self, BandJson, SettingsJson};

#[derive(Serialize)]
struct StatusJson {
    #[serde(flatten)]
    settings: SettingsJson,
    now_unix_ms: i64,
    /// Account of the running budget; `null` if no period runs.
    budget: Option<AccountJson>,
    draw_w: f64,
    /// Part of `draw_w` that is idle draw.
    idle_w: f64,
    /// True if any of the watts are modelled by emulated hardware.
    emulated: bool,
    waiting: u64,
    running: u64,
    nodes_up: u32,
    nodes_asleep: u32,
    /// Part of `energy_j` that nodes used while asleep, falling asleep or waking.
    asleep_energy_j: f64,
    switching_energy_j: f64,
    nodes: u32,
    energy_j: f64,
    /// Cost; this value and the next two are `null` if no price was ever known.
    currency: Currency,
    cost: Option<f64>,
    jobs_cost: Option<f64>,
    jobs_start_now_cost: Option<f64>,
    /// Share of the time within the band, 0 to 1; `null` before limits were set.
    in_band_share: Option<f64>,
    rejected_plans: u64,
    trouble: Option<String>,
    /// Operator who set the prices; `null` if the feeds set them, or there are none.
    prices_by: Option<String>,
    feeds: Vec<FeedJson>,
    /// The operator's own band, if the grid's limits replace it.
    own_band: Option<BandJson>,
    grid: Vec<GridJson>,
    /// Meters at the master.
    meters: Vec<MeterJson>,
    /// Unreachable nodes with jobs, or with watts held for jobs that ended.
    unreachable: Vec<UnreachableJson>,
    /// Part of `draw_w` held for lost nodes.
    held_w: f64,
    /// Nodes that had jobs of other journals, which they have ended.
    foreign: Vec<ForeignJson>,
    /// Groups with a limit.
    groups: Vec<GroupDrawJson>,
    licences: Vec<LicenceJson>,
}

#[derive(Serialize)]
struct GroupDrawJson {
    name: String,
    draw_w: f64,
    limit_w: f64,
}

#[derive(Serialize)]
struct LicenceJson {
    name: String,
    total: u32,
    /// Licences of jobs that run or may start.
    held: u32,
    holders: u32,
    /// Jobs that wait for some.
    waiting: u32,
}

#[derive(Serialize)]
struct ForeignJson {
    node: String,
    at_unix_ms: i64,
    jobs: u32,
}

#[derive(Serialize)]
struct UnreachableJson {
    node: String,
    since_unix_ms: Option<i64>,
    lost: bool,
    jobs: u32,
    held_w: f64,
}

#[derive(Serialize)]
struct MeterJson {
    source: String,
    /// Names of the measured nodes; `null` means all nodes.
    serves: Option<Vec<String>>,
    draw_w: Option<f64>,
    /// Reason why there is no reading.
    failing: Option<String>,
}

/// Prints the status.
///
/// # Errors
/// If the master cannot be asked.
pub async fn run(json: bool, master: &Master) -> Result<u8, Failure> {
    let status = master.status().await?;
    if json {
        answer_json(&as_json(&status))?;
    } else {
        answer(&as_text(&status, &Clock::system()))?;
    }
    Ok(exit::DONE)
}

fn as_json(status: &Status) -> StatusJson {
    StatusJson {
        settings: status.into(),
        now_unix_ms: status.now.unix_ms(),
        budget: AccountJson::of(status),
        draw_w: status.draw.watts(),
        idle_w: status.idle.watts(),
        emulated: status.emulated,
        waiting: status.waiting,
        running: status.running,
        nodes_up: status.nodes_up,
        nodes_asleep: status.nodes_asleep,
        asleep_energy_j: status.asleep_energy.joules(),
        switching_energy_j: status.switching_energy.joules(),
        nodes: status.nodes,
        energy_j: status.energy.joules(),
        currency: Currency::agreed(),
        cost: status.cost.map(Money::whole),
        jobs_cost: status.jobs_cost.map(Money::whole),
        jobs_start_now_cost: status.jobs_start_now_cost.map(Money::whole),
        in_band_share: status.in_band_permille.map(|share| f64::from(share) / 1e3),
        rejected_plans: status.rejected_plans,
        trouble: status.trouble.clone(),
        prices_by: status.prices_by.clone(),
        feeds: status.feeds.iter().map(FeedJson::from).collect(),
        own_band: status.own_band.map(BandJson::from),
        grid: status.grid.iter().map(GridJson::from).collect(),
        meters: status.meters.iter().map(meter_as_json).collect(),
        unreachable: status.unreachable.iter().map(unreachable_as_json).collect(),
        held_w: status.held.watts(),
        foreign: status.foreign.iter().map(foreign_as_json).collect(),
        groups: status.groups.iter().map(group_as_json).collect(),
        licences: status.licences.iter().map(licence_as_json).collect(),
    }
}

fn group_as_json(group: &GroupDraw) -> GroupDrawJson {
    GroupDrawJson { name: group.name.clone(), draw_w: group.draw.watts(), limit_w: group.limit.watts() }
}

fn licence_as_json(licence: &LicenceReport) -> LicenceJson {
    let LicenceReport { name, total, held, holders, waiting } = licence.clone();
    LicenceJson { name, total, held, holders, waiting }
}

/// Formats a licence, for example `matlab: 3 of 4 held by 2 jobs, 1 job waits`.
fn licence_in_words(licence: &LicenceReport) -> String {
    let LicenceReport { name, total, held, holders, waiting } = licence;
    let by = match holders {
        0 => String::new(),
        1 => " by 1 job".to_owned(),
        _ => format!(" by {holders} jobs"),
    };
    let wait = match waiting {
        0 => String::new(),
        1 => ", 1 job waits".to_owned(),
        _ => format!(", {waiting} jobs wait"),
    };
    format!("{name}: {held} of {total} held{by}{wait}")
}

fn foreign_as_json(found: &ForeignReport) -> ForeignJson {
    ForeignJson { node: found.node.clone(), at_unix_ms: found.at.unix_ms(), jobs: found.jobs }
}

/// Formats a warning, for example `n1 had 2 jobs of another journal at 14:00, which were ended: submit them again if
/// still wanted`.
fn foreign_in_words(found: &ForeignReport, clock: &Clock) -> String {
    let (jobs, were, them) = if found.jobs == 1 { ("job", "was", "it") } else { ("jobs", "were", "them") };
    format!(
        "{} had {} {jobs} of another journal at {}, which {were} ended: submit {them} again if still wanted",
        found.node,
        found.jobs,
        clock.show(found.at)
    )
}

fn meter_as_json(meter: &MeterReport) -> MeterJson {
    let MeterReport { source, serves, draw, failing } = meter.clone();
    MeterJson { source, serves, draw_w: draw.map(|draw| draw.watts()), failing }
}

fn unreachable_as_json(node: &UnreachableReport) -> UnreachableJson {
    UnreachableJson {
        node: node.name.clone(),
        since_unix_ms: node.since.map(Time::unix_ms),
        lost: node.lost,
        jobs: node.jobs,
        held_w: node.held.watts(),
    }
}

/// Formats a warning, for example `n1 unreachable since 14:00: 2 jobs, 48.5 W held; if the node is dead, type: lconf
/// node lost n1`.
fn unreachable_in_words(node: &UnreachableReport, clock: &Clock) -> String {
    let since = node.since.map_or_else(String::new, |since| format!(" since {}", clock.show(since)));
    let state = match (node.lost, node.since) {
        (true, _) => format!("lost, unreachable{since}"),
        (false, None) => "connected again".to_owned(),
        (false, Some(_)) => format!("unreachable{since}"),
    };
    let jobs = if node.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", node.jobs) };
    let remedy = if node.since.is_some() {
        format!("; if the node is dead, type: lconf node lost {}", node.name)
    } else {
        String::new()
    };
    format!("{} {state}: {jobs}, {} held{remedy}", node.name, node.held)
}

/// Formats a meter, for example `shelly:http://plug1 of n1, n2: 50.0 W`.
fn meter_in_words(meter: &MeterReport) -> String {
    let serves = meter.serves.as_ref().map_or_else(|| "all nodes".to_owned(), |nodes| nodes.join(", "));
    let shown = match (&meter.failing, meter.draw) {
        (Some(reason), _) => format!("FAILS, the draw of its nodes is estimated: {reason}"),
        (None, Some(draw)) => draw.to_string(),
        (None, None) => "no recent reading".to_owned(),
    };
    format!("{} of {serves}: {shown}", meter.source)
}

fn as_text(status: &Status, clock: &Clock) -> String {
    let watts = |power| marked(power, status.emulated);
    let mut text = String::new();
    let mut fact = |name: &str, value: String| text += &format!("{name:<10} {}\n", plain(&value));
    if let Some(trouble) = &status.trouble {
        fact("TROUBLE", format!("new jobs are refused: {trouble}"));
    }
    fact("draw", format!("{} ({} of it idle)", watts(status.draw), status.idle));
    let mut band = gauge(status.draw, status.band, status.emulated);
    if !status.band.high().is_unlimited() && status.parts.ignores_upper_limit() {
        band += &format!("; the policy {} ignores it", status.policy);
    }
    if let Some(at) = status.limits_ended {
        band += &format!("; the limits that were set ended at {}", clock.show(at));
    }
    fact("band", band);
    if let Some((at, band)) = status.next_band {
        fact("then", format!("{} from {}", band_in_words(band), clock.show(at)));
    }
    if let Some(own) = status.own_band {
        fact("own band", format!("{}; the grid has changed it", band_in_words(own)));
    }
    for source in &status.grid {
        fact("grid", grid::in_words(source, clock));
    }
    for group in &status.groups {
        fact("group", format!("{}: {} of {}", group.name, watts(group.draw), group.limit));
    }
    for licence in &status.licences {
        fact("licence", licence_in_words(licence));
    }
    if let Some(share) = status.in_band_permille {
        fact("in band", format!("{}.{} % of the time", share / 10, share % 10));
    }
    for (name, value) in budget::facts(status, clock) {
        fact(name, value);
    }
    let parts = status.parts;
    fact("policy", show::policy(status));
    fact("parts", show::in_words(&parts.rules()));
    if !parts.promises().is_empty() {
        fact("promises", parts.promises().join("; "));
    }
    fact("mode", mode_in_words(status));
    fact("price", price_in_words(status, clock));
    for (name, value) in feeds::facts(status, clock) {
        fact(name, value);
    }
    fact("jobs", format!("{} running, {} waiting", status.running, status.waiting));
    let asleep = if status.nodes_asleep > 0 { format!(", {} asleep", status.nodes_asleep) } else { String::new() };
    fact("nodes", format!("{} of {} up{asleep}", status.nodes_up, status.nodes));
    for node in &status.unreachable {
        fact("MISSING", unreachable_in_words(node, clock));
    }
    for found in &status.foreign {
        fact("FOREIGN", foreign_in_words(found, clock));
    }
    for meter in &status.meters {
        fact("meter", meter_in_words(meter));
    }
    fact("energy", marked(status.energy, status.emulated));
    let (asleep, switching) = (status.asleep_energy, status.switching_energy);
    if asleep + switching > Energy::ZERO {
        fact("of it", format!("{asleep} asleep, {switching} falling asleep or waking"));
    }
    fact("cost", or_dash(status.cost));
    let at_once = or_dash(status.jobs_start_now_cost);
    fact("jobs cost", format!("{} (started at once: {at_once})", or_dash(status.jobs_cost)));
    if status.rejected_plans > 0 {
        fact("rejected", format!("{} plans broke a rule and were not executed", status.rejected_plans));
    }
    text
}
