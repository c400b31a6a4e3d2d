//! The language of the stories: clusters, nodes, profiles and jobs as lines of words. Events are in [`happen`].

mod accounts;
mod happen;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::sync::Arc;

use limo_model::{
    Allowance, Arrange, Band, Budget, Budgets, Condition, Conditions, Cores, Curve, Dependency, EstimateSource, Factor,
    JobId, Memory, Meter, Mode, NodeId, NodeRange, NodeSpec, Power, Preset, Price, Profile, ProfileKey, Request, Rest,
    Restart, Span, Switch, Tasks, Time, UnitId, UnitKind, UnitSpec, VariationKey, Warning, WhenUsed, Widths,
};
use limo_sched::{Event, Options, PriceRule, RestRule};

use crate::world::World;

/// Reads and runs one story.
pub struct Story {
    pub world: World,
    names: BTreeMap<String, JobId>,
    hardware: Vec<String>,
    budgets: Vec<Budget>,
    pub out: String,
    mode: Option<Mode>,
    shows_mode: bool,
}

fn fields<'a>(words: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    words.iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect()
}

fn parse<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("cannot read `{text}`"))
}

/// Reads `HH:MM` or `HH:MM:SS`.
pub fn clock(text: &str) -> Time {
    let parts: Vec<i64> = text.split(':').map(parse).collect();
    let seconds = parts[0] * 3600 + parts[1] * 60 + parts.get(2).copied().unwrap_or(0);
    Time::from_unix_ms(seconds * 1000)
}

fn shown(at: Time) -> String {
    let (seconds, ms) = (at.unix_ms() / 1000, at.unix_ms() % 1000);
    let mut text = format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if seconds % 60 != 0 || ms != 0 {
        let _ = write!(text, ":{:02}", seconds % 60);
    }
    if ms != 0 {
        let _ = write!(text, ".{ms:03}");
    }
    text
}

fn watts(text: &str) -> Power {
    if text == "none" { Power::MAX } else { parse(text) }
}

/// Reads `off`, `idle:10min` or `in-budget:0s`.
fn rest_rule(text: &str) -> RestRule {
    match text.split_once(':') {
        Some(("idle", after)) => RestRule::Idle(parse(after)),
        Some(("in-budget", after)) => RestRule::IdleInBudget(parse(after)),
        _ => RestRule::Never,
    }
}

fn rest(draw: &str, given: &BTreeMap<&str, &str>) -> Rest {
    let way = |key: &str| {
        let (span, draw) = given[key].split_once('@').expect("time@draw");
        Switch { span: parse(span), draw: watts(draw) }
    };
    Rest { draw: watts(draw), down: way("down"), up: way("up"), wake: None }
}

/// Reads `00:00=80 01:00=20 EUR/MWh [until=02:00]`.
fn prices(words: &[&str]) -> Curve<Price> {
    let steps = words.iter().filter_map(|word| word.split_once('=')).filter(|(at, _)| at.contains(':'));
    let steps = steps.map(|(at, eur)| (clock(at), parse(&format!("{eur} EUR/MWh")))).collect();
    Curve::new(steps, fields(words).get("until").map(|at| clock(at))).expect("a curve")
}

/// Reads `[may-use=0.01kWh] [may-cost=0.01EUR] [only-warn]`.
fn allowance(given: &BTreeMap<&str, &str>) -> Option<Allowance> {
    let (energy, cost) = (given.get("may-use").map(|text| parse(text)), given.get("may-cost").map(|text| parse(text)));
    let when_used = if given.contains_key("only-warn") { WhenUsed::Warn } else { WhenUsed::Stop };
    (energy.is_some() || cost.is_some()).then_some(Allowance { energy, cost, when_used })
}

/// Reads `10@2min`.
fn warning((signal, before): (&str, &str)) -> Warning {
    Warning { signal: parse(signal), before: parse(before) }
}

impl Story {
    pub fn new() -> Self {
        let options = Options { reserve_permille: 0, ..Options::default() };
        Self {
            world: World::new(Preset::Limo, options),
            names: BTreeMap::new(),
            hardware: Vec::new(),
            budgets: Vec::new(),
            out: String::new(),
            mode: None,
            shows_mode: false,
        }
    }

    pub(super) fn apply(&mut self, event: Event) {
        if let Err(refused) = self.world.apply(event) {
            self.say(&format!("refused {refused}"));
        }
    }

    pub(super) fn say(&mut self, text: &str) {
        let _ = writeln!(self.out, "{} {text}", shown(self.world.now));
    }

    /// Writes `n0 n2-n4`.
    pub(super) fn runs(&self, runs: impl IntoIterator<Item = (NodeId, u32)>) -> String {
        let name = |node: u32| self.world.core.node(NodeId(node)).expect("a node").spec().name.clone();
        let run = |(first, count): (NodeId, u32)| match count {
            1 => name(first.0),
            _ => format!("{}-{}", name(first.0), name(first.0 + count - 1)),
        };
        runs.into_iter().map(run).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn name_of(&self, job: JobId) -> String {
        let name = self.names.iter().find(|(_, id)| **id == job).map(|(name, _)| name.clone());
        name.unwrap_or_else(|| job.to_string())
    }

    pub fn set_up(&mut self, words: &[&str]) {
        match words {
            ["policy", name, ..] => {
                let options = self.world.core.settings().options;
                self.apply(Event::PolicySet { preset: parse(name), options, by: "root".into() });
            }
            ["option", rest @ ..] => self.options(rest),
            ["cluster", rest @ ..] => {
                let at = rest.iter().position(|word| *word == "price").unwrap_or(rest.len());
                let band = fields(&rest[..at]);
                if !band.is_empty() {
                    let low = band.get("low").map_or(Power::ZERO, |text| watts(text));
                    let high = band.get("high").map_or(Power::MAX, |text| watts(text));
                    let limits = Curve::constant(Band::new(low, high).expect("a band"));
                    self.apply(Event::LimitsSet { limits, by: "root".into() });
                }
                if at < rest.len() {
                    self.apply(Event::PricesSet { prices: Some(prices(&rest[at + 1..])), by: "root".into() });
                }
            }
            ["nodes", count, rest @ ..] => {
                for index in 0..parse::<u32>(count) {
                    self.node(&format!("n{index}"), rest);
                }
            }
            ["node", name, rest @ ..] => self.node(name, rest),
            ["profile", app, hardware, rest @ ..] => self.profile(app, hardware, &fields(rest)),
            ["variation", app, node, rest @ ..] => self.variation(app, node, &fields(rest)),
            ["budget", energy, rest @ ..] => self.budget(energy, &fields(rest)),
            ["show", "mode"] => self.shows_mode = true,
            _ => panic!("unknown line: {words:?}"),
        }
    }

    fn options(&mut self, words: &[&str]) {
        let settings = self.world.core.settings();
        let (preset, mut options) = (settings.preset, settings.options);
        for (key, value) in fields(words) {
            match key {
                "reserve" => options.reserve_permille = parse(value),
                "lead" => options.lead = parse(value),
                "max-delay" => options.max_delay = parse(value),
                "depth" => options.depth = parse(value),
                "threshold" => options.price_rule = PriceRule::Threshold(parse(&format!("{value} EUR/MWh"))),
                "steer-lead" => options.steer_lead = parse(value),
                "preempt" => options.preempt = parse(value),
                "sparing" => options.sparing = parse(value),
                "least-off" => options.least_off = parse(value),
                "least-on" => options.least_on = parse(value),
                "cap-factor" => options.cap_factor_permille = parse(value),
                "margin" => options.steer_margin_permille = parse(value),
                "hold-after" => options.hold_after = parse(value),
                "monitor" => options.monitor_every = parse(value),
                "allocation" => options.allocation = parse(value),
                "order" => options.parts.order = Some(parse(value)),
                "admission" => options.parts.admission = Some(parse(value)),
                "placement" => options.parts.placement = Some(parse(value)),
                "caps" => options.parts.caps = Some(parse(value)),
                "idle" => options.parts.idle = Some(parse(value)),
                "rest" => options.rest = rest_rule(value),
                "pool-knowledge" => options.pool.knowledge = parse(value),
                "pool-rank" => options.pool.rank = parse(value),
                "pool-seed" => options.pool.seed = parse(value),
                "pool-ties" => options.pool.ties = parse(value),
                "pool-window" => options.pool.window = parse(value),
                "max-restarts" => options.restarts.restarts = Some(parse(value)),
                "max-reboot-restarts" => options.restarts.by_reboot = Some(parse(value)),
                "max-evicted-run" => options.restarts.last_run = Some(parse(value)),
                "rank-by" => options.ranks.by = parse(value),
                "list-by" => options.lists.by = parse(value),
                "plan-steps" => options.lists.plan_steps = parse(value),
                "relaxed-factor" => options.relaxed_factor = parse(value),
                "rare-gap" => options.lists.rare_gap = parse(value),
                "think-every" => options.lists.think_every = parse(value),
                "window-permille" => options.ranks.window_permille = parse(value),
                "window-waits" => options.ranks.window_waits = parse(value),
                _ => panic!("unknown option {key}"),
            }
        }
        self.apply(Event::PolicySet { preset, options, by: "root".into() });
    }

    /// Adds a period: `2.4kWh from=00:00 until=04:00 [release=by-price]`.
    pub(super) fn budget(&mut self, energy: &str, given: &BTreeMap<&str, &str>) {
        let release = given.get("release").map(|text| parse(text)).unwrap_or_default();
        let (from, until) = (clock(given["from"]), clock(given["until"]));
        self.budgets.push(Budget { from, until, energy: parse(energy), release });
        let budgets = Budgets::new(self.budgets.clone()).expect("periods one after the other");
        self.apply(Event::BudgetsSet { budgets, by: "root".into() });
    }

    /// Adds a node: `idle=10W [cores=4] [hardware=cpu] [memory=1G] [gpu=HARDWARE] [gpus=HARDWARE,HARDWARE]
    /// [caps=8W-60W] [asleep=5W down=6s@101W up=2min@125W]`.
    fn node(&mut self, name: &str, words: &[&str]) {
        let given = fields(words);
        let value = |key: &str, default: &'static str| given.get(key).copied().unwrap_or(default).to_owned();
        let caps = given.get("caps").and_then(|text| text.split_once('-')).map(|(low, high)| (watts(low), watts(high)));
        let unit = |name: &str, hardware: &str, kind, cores| UnitSpec {
            name: name.into(),
            hardware: hardware.into(),
            kind,
            cores,
            nameplate: Power::from_watts(100),
            caps: caps.filter(|_| kind == UnitKind::Cpu),
        };
        let mut units = vec![unit("cpu", &value("hardware", "cpu"), UnitKind::Cpu, parse(&value("cores", "1")))];
        if let Some(hardware) = given.get("gpu") {
            units.push(unit("gpu", hardware, UnitKind::Accelerator, 1));
        }
        for (index, hardware) in given.get("gpus").iter().flat_map(|text| text.split(',')).enumerate() {
            units.push(unit(&format!("gpu{index}"), hardware, UnitKind::Accelerator, 1));
        }
        self.hardware.extend(units.iter().map(|unit| unit.hardware.clone()));
        let memory: Memory = parse(&value("memory", "1G"));
        let spec = NodeSpec {
            name: name.into(),
            units,
            memory,
            idle: watts(&value("idle", "0W")),
            meter: Meter::None,
            rest: given.get("asleep").map(|draw| Arc::new(rest(draw, &given))),
        };
        self.apply(Event::NodeUp { spec });
    }

    fn profile(&mut self, app: &str, hardware: &str, given: &BTreeMap<&str, &str>) {
        let (power, duration): (Power, Span) =
            (watts(given["draw"]), parse(given.get("time").or(given.get("limit")).expect("a time or a limit")));
        let key = ProfileKey {
            application: app.into(),
            size: String::new(),
            hardware: hardware.into(),
            cores: given.get("cores").map(|text| parse(text)),
            nodes: given.get("width").map(|text| parse(text)),
            cap: given.get("cap").map(|text| watts(text)),
        };
        let profile = Profile {
            duration,
            power,
            energy: power * duration,
            spread_permille: 0,
            runs: given.get("runs").map_or(1, |text| parse(text)),
            source: if given.contains_key("runs") { EstimateSource::Learned } else { EstimateSource::Imported },
        };
        self.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() });
    }

    /// Sets the factors of the first unit of a node: `variation APPLICATION|all NODE power=1.1 time=0.9 [cap=40W]`.
    fn variation(&mut self, app: &str, node: &str, given: &BTreeMap<&str, &str>) {
        let node = self.world.core.node_named(node).expect("a node").id();
        let millionths = |key: &str| {
            let value = given.get(key).map_or(Some(1_000_000), |text| limo_model::decimal::parse(text, 6));
            value.and_then(|value| u32::try_from(value).ok()).expect("a factor")
        };
        let application = if app == "all" { String::new() } else { app.to_owned() };
        let key =
            VariationKey { application, unit: UnitId { node, unit: 0 }, cap: given.get("cap").map(|text| watts(text)) };
        let factor = Factor { power: millionths("power"), duration: millionths("time"), runs: 0 };
        self.apply(Event::VariationSet { factors: vec![(key, Some(factor))], by: "root".into() });
    }

    /// Reads `[hold] [begin=01:00] [depends=afterok:a:b,after:c] [singleton]`.
    fn conditions(&self, given: &BTreeMap<&str, &str>) -> Option<Box<Conditions>> {
        let on = |text: &&str| {
            let (word, jobs) = text.split_once(':').expect("a condition and jobs");
            let condition = Condition::ALL.into_iter().find(|condition| condition.name() == word).expect("a condition");
            let on = |name| Dependency { condition, job: self.names[name] };
            jobs.split(':').map(on).collect::<Vec<_>>()
        };
        let conditions = Conditions {
            hold: given.contains_key("hold"),
            begin: given.get("begin").map(|text| clock(text)),
            dependencies: given
                .get("depends")
                .iter()
                .flat_map(|text| text.split(','))
                .flat_map(|on_| on(&on_))
                .collect(),
            singleton: given.contains_key("singleton"),
        };
        (conditions != Conditions::default()).then(|| Box::new(conditions))
    }

    pub(super) fn submit(&mut self, name: &str, words: &[&str]) {
        let given = fields(words);
        let list = |key: &str| given.get(key).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
        let application = given.get("app").copied().unwrap_or(name).to_owned();
        if given.contains_key("draw") {
            let mut hardware = self.hardware.clone();
            hardware.dedup();
            hardware.iter().for_each(|hardware| self.profile(&application, hardware, &given));
        }
        let job = self.world.core.next_job();
        let range: Option<NodeRange> = given.get("chunks").or(given.get("nodes")).map(|text| parse(text));
        let mut request = Request {
            user: given.get("user").copied().unwrap_or("user").to_owned(),
            name: given.get("named").copied().unwrap_or(name).to_owned(),
            nodes: range.map_or(NonZeroU32::MIN, |range| range.least),
            cores: given.get("cores").map_or(Cores::All, |text| parse(text)),
            memory: given.get("memory").map_or(Memory::ZERO, |text| parse(text)),
            time_limit: given.get("limit").map(|text| parse(text)),
            immediate: given.contains_key("immediate"),
            deadline: given.get("deadline").map(|text| clock(text)),
            start_by: given.get("start-by").map(|text| clock(text)),
            include: list("on").unwrap_or_default(),
            exclude: list("not-on").unwrap_or_default(),
            hardware: list("hardware").unwrap_or_default(),
            variants: list("variants").unwrap_or_default(),
            may_suspend: given.contains_key("may-suspend"),
            may_requeue: given.contains_key("may-requeue"),
            filler: given.contains_key("filler"),
            conditions: self.conditions(&given),
            warning: given.get("warn").and_then(|text| text.split_once('@')).map(warning),
            allowance: allowance(&given),
            spread: None,
            reservation: given.get("reservation").map(|text| (*text).to_owned()),
            priority: given.get("priority").map_or(0, |text| parse(text)),
            exclusive: given.contains_key("exclusive"),
            accelerators: given.get("gpus").map(|text| parse(text)),
            with_cores: given.contains_key("cores"),
            arrange: if given.contains_key("pack") { Arrange::Pack } else { Arrange::Spread },
            cap: given.get("cap").map(|text| watts(text)),
            explore: given.contains_key("explore"),
            queue: given.get("queue").map(|text| (*text).to_owned()),
            account: given.get("account").map(|text| (*text).to_owned()),
            qos: given.get("qos").map(|text| (*text).to_owned()),
            licences: given.get("licences").map_or(Vec::new(), |text| limo_model::parse_licences(text).expect(text)),
            restart: Restart { most: given.get("restarts").map(|text| parse(text)), ..Restart::default() },
            malleable: given.contains_key("malleable"),
            widths: range.and_then(|NodeRange { least, most }| {
                (least < most).then_some(Widths { least, most, tasks_per_node: None })
            }),
            ..Request::one_core(application)
        };
        let groups = given.get("groups").into_iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
        let user = request.user.clone();
        if let Err(refused) = self.world.core.resolve(&mut request, &user, &groups) {
            return self.say(&format!("refused {name} {refused}"));
        }
        let tasks: Option<Tasks> = given.get("tasks").map(|text| parse(text));
        let submitted = self.world.apply(match tasks.clone() {
            None => Event::Submitted { job, request: Box::new(request) },
            Some(tasks) => Event::ArraySubmitted { job, tasks, request: Box::new(request) },
        });
        match submitted {
            Ok(()) => {
                self.names.insert(name.to_owned(), job);
                for place in 0..tasks.as_ref().map_or(0, Tasks::count) {
                    let number = tasks.as_ref().and_then(|tasks| tasks.number(place)).expect("a task");
                    self.names.insert(format!("{name}_{number}"), limo_sched::Array::job_at(job, place));
                }
                self.world.takes.extend(given.get("takes").map(|text| (job, parse(text))));
                self.world.fails.extend(given.get("fails").map(|_| job));
            }
            Err(refused) => self.say(&format!("refused {name} {refused}")),
        }
    }
}
