//! Metrics in the classic text format of Prometheus. Each unit is a base unit, and no label has a name of a user or a
//! job, so the number of series is bounded by the nodes and their capped units.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_model::{Currency, Mode, Money, Power, Time};
use limo_proto::JobState;
use prometheus::core::Collector;
use prometheus::{Counter, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, TextEncoder};

use crate::controller::{DrawSource, Figures};

/// States of jobs that are not over.
const PRESENT: [JobState; 5] =
    [JobState::Waiting, JobState::Starting, JobState::Running, JobState::Suspended, JobState::Stopping];

/// States of jobs that are over.
const OVER: [JobState; 8] = [
    JobState::Completed,
    JobState::Failed,
    JobState::Cancelled,
    JobState::TimedOut,
    JobState::Lost,
    JobState::Refused,
    JobState::UsedUp,
    JobState::NodeFailed,
];

/// Durations of the master's work since it began.
#[derive(Debug, Clone)]
pub struct Timings {
    rounds: Histogram,
    commits: Histogram,
}

impl Timings {
    /// # Errors
    /// If the library does not accept their names.
    pub fn new() -> prometheus::Result<Self> {
        // From 10 us to 10 s, three in a decade.
        let buckets: Vec<f64> = (-5..=0).flat_map(|power| [1.0, 2.5, 5.0].map(|of| of * 10_f64.powi(power))).collect();
        let of = |name: &str, help: &str| Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.clone()));
        Ok(Self {
            rounds: of("limo_round_duration_seconds", "Time for an input with the round of the policy that follows")?,
            commits: of("limo_commit_duration_seconds", "Time from a batch of events to its safe place on the disk")?,
        })
    }

    pub fn round(&self, took: Duration) {
        self.rounds.observe(took.as_secs_f64());
    }

    pub fn commit(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }
}

/// Collects metrics into a registry of one answer.
struct Book {
    registry: Registry,
}

impl Book {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> prometheus::Result<C> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Adds a gauge with labels; no line without values.
    fn gauges<const N: usize>(
        &self,
        (name, help, labels): (&str, &str, [&str; N]),
        values: impl IntoIterator<Item = ([String; N], f64)>,
    ) -> prometheus::Result<()> {
        let all = self.add(GaugeVec::new(Opts::new(name, help), &labels)?)?;
        for (labels, value) in values {
            all.with_label_values(&labels).set(value);
        }
        Ok(())
    }

    fn count(&self, name: &str, help: &str, value: u64) -> prometheus::Result<()> {
        self.add(IntCounter::new(name, help)?)?.inc_by(value);
        Ok(())
    }

    /// Adds a counter of a sum that is not negative.
    fn sum(&self, name: &str, help: &str, value: f64) -> prometheus::Result<()> {
        self.add(Counter::new(name, help)?)?.inc_by(value.max(0.0));
        Ok(())
    }
}

fn watts(power: Power) -> f64 {
    power.mw() as f64 / 1e3
}

fn money(money: Money) -> f64 {
    money.micro() as f64 / 1e6
}

fn age(now: Time, at: Time) -> f64 {
    ((now - at).ms() as f64 / 1e3).max(0.0)
}

/// Returns all metrics.
///
/// # Errors
/// If the library refuses a name or a label.
pub fn text(figures: &Figures, (nodes, clients): (usize, usize), timings: &Timings) -> prometheus::Result<String> {
    let book = Book { registry: Registry::new() };
    book.add(timings.rounds.clone())?;
    book.add(timings.commits.clone())?;
    let version = [([env!("CARGO_PKG_VERSION").to_owned()], 1.0)];
    book.gauges(("limo_build_info", "1, with the version of the master", ["version"]), version)?;
    let roles = [("node", nodes), ("client", clients)].map(|(role, count)| ([role.to_owned()], count as f64));
    book.gauges(("limo_connections", "Connections to the master by role", ["role"]), roles)?;
    power(&book, figures)?;
    market(&book, figures)?;
    jobs(&book, figures)?;
    machines(&book, figures)?;
    TextEncoder::new().encode_to_string(&book.registry.gather())
}

fn power(book: &Book, figures: &Figures) -> prometheus::Result<()> {
    let status = &figures.status;
    let mut by_source: BTreeMap<DrawSource, Power> = DrawSource::ALL.map(|source| (source, Power::ZERO)).into();
    for node in &figures.nodes {
        *by_source.entry(node.source).or_default() += node.draw;
    }
    let draws = by_source.into_iter().map(|(source, draw)| ([source.name().to_owned()], watts(draw)));
    book.gauges(("limo_power_watts", "Believed draw of the nodes by the way in which it is known", ["how"]), draws)?;
    let (low, high) = (status.band.low(), status.band.high());
    let low = (!low.is_zero()).then_some(("low", low));
    let high = (!high.is_unlimited()).then_some(("high", high));
    let bounds = low.into_iter().chain(high).map(|(bound, power)| ([bound.to_owned()], watts(power)));
    book.gauges(("limo_power_limit_watts", "Limits of the draw that are in force", ["bound"]), bounds)?;
    let (inside, limited) = (figures.inside.ms() as f64 / 1e3, figures.limited.ms() as f64 / 1e3);
    book.sum("limo_in_band_seconds_total", "Time with limits and the believed draw inside", inside)?;
    book.sum("limo_out_of_band_seconds_total", "Time with limits and the believed draw outside", limited - inside)?;
    let joules = status.energy.mj() as f64 / 1e3;
    book.sum("limo_energy_joules_total", "Energy of all nodes since the journal began", joules)?;
    let account = status.account.as_ref();
    let parts =
        account.into_iter().flat_map(|of| [("released", of.released), ("spent", of.spent), ("reserved", of.reserved)]);
    let parts = parts.map(|(part, energy)| ([part.to_owned()], energy.mj() as f64 / 1e3));
    book.gauges(("limo_budget_joules", "Account of the present energy budget", ["part"]), parts)
}

fn market(book: &Book, figures: &Figures) -> prometheus::Result<()> {
    let status = &figures.status;
    let price = status.price.map(|price| ([Currency::agreed().to_string()], price.milli_per_mwh() as f64 / 1e3));
    book.gauges(("limo_price_per_mwh", "Price of electricity in force", ["currency"]), price)?;
    let intensity = figures.intensity.map(|intensity| ([], intensity.mg_per_kwh() as f64 / 1e3));
    book.gauges(("limo_carbon_g_per_kwh", "Carbon intensity of the electricity", []), intensity)?;
    let of = |cost: Option<Money>| cost.map(|cost| ([Currency::agreed().to_string()], money(cost)));
    // Gauges: costs fall while prices are negative.
    let all = "Cost of all energy since the journal began, while a price was known";
    book.gauges(("limo_cost", all, ["currency"]), of(status.cost))?;
    book.gauges(("limo_jobs_cost", "Cost of finished jobs", ["currency"]), of(status.jobs_cost))?;
    let at_once = "Cost of finished jobs if each had started at once";
    book.gauges(("limo_jobs_start_now_cost", at_once, ["currency"]), of(status.jobs_start_now_cost))?;
    let modes = [Mode::Low, Mode::High];
    let modes = modes.map(|mode| ([mode.to_string()], f64::from(u8::from(mode == status.mode))));
    book.gauges(("limo_mode", "1 for the mode in force", ["mode"]), modes)?;
    let feeds = status
        .feeds
        .iter()
        .filter_map(|feed| Some(([feed.name.clone(), feed.of.name().to_owned()], age(status.now, feed.last_success?))));
    book.gauges(("limo_feed_age_seconds", "Time since the last report of a feed", ["feed", "of"]), feeds)?;
    let meters = status.meters.iter().map(|meter| ([meter.source.clone()], f64::from(u8::from(meter.draw.is_some()))));
    book.gauges(("limo_meter_up", "1 if a meter of several nodes shows a fresh value", ["meter"]), meters)
}

fn jobs(book: &Book, figures: &Figures) -> prometheus::Result<()> {
    let of = |all: &BTreeMap<JobState, u64>, state: JobState| all.get(&state).copied().unwrap_or(0);
    let present = PRESENT.map(|state| ([state.name().to_owned()], of(&figures.jobs, state) as f64));
    book.gauges(("limo_jobs", "Jobs that are not over by state", ["state"]), present)?;
    let waiting = figures.waiting.iter().map(|(kind, count)| ([kind.replace(' ', "_")], *count as f64));
    book.gauges(("limo_jobs_waiting", "Waiting jobs by the kind of their reason", ["reason"]), waiting)?;
    let opts = Opts::new("limo_jobs_ended_total", "Jobs that have ended since the master began, by state");
    let ended = book.add(IntCounterVec::new(opts, &["state"])?)?;
    OVER.iter().for_each(|state| ended.with_label_values(&[state.name()]).inc_by(of(&figures.ended, *state)));
    book.count("limo_plan_violations_total", "Plans that the checker refused", figures.status.rejected_plans)
}

fn machines(book: &Book, figures: &Figures) -> prometheus::Result<()> {
    let (mut states, mut cores) = (BTreeMap::<&str, f64>::new(), (0_u64, 0_u64));
    for node in &figures.nodes {
        *states.entry(node.state.name()).or_default() += 1.0;
        cores = (cores.0 + u64::from(node.cores), cores.1 + u64::from(node.cores_used));
    }
    let states = states.into_iter().map(|(state, count)| ([state.to_owned()], count));
    book.gauges(("limo_nodes", "Nodes by state", ["state"]), states)?;
    let cores = [("used", cores.1), ("idle", cores.0.saturating_sub(cores.1))];
    let cores = cores.map(|(state, count)| ([state.to_owned()], count as f64));
    book.gauges(("limo_cores", "Cores of all units by use", ["state"]), cores)?;
    let of_node = |value: fn(&crate::controller::NodeFigures) -> f64| {
        figures.nodes.iter().map(move |node| ([node.name.clone()], value(node)))
    };
    let draws = ("limo_node_power_watts", "Believed draw of the node", ["node"]);
    book.gauges(draws, of_node(|node| watts(node.draw)))?;
    let used = ("limo_node_cores_used", "Cores of the node that jobs have", ["node"]);
    book.gauges(used, of_node(|node| f64::from(node.cores_used)))?;
    let caps = figures
        .nodes
        .iter()
        .flat_map(|node| node.caps.iter().map(|(unit, cap)| ([node.name.clone(), unit.clone()], watts(*cap))));
    book.gauges(("limo_node_cap_watts", "Cap of a unit, if it has one", ["node", "unit"]), caps)
}
