//! Runs every story in `scenarios/`: what happens stands above the line `---`, what follows from it below.
//! With `UPDATE_SCENARIOS=1` the lower part is written anew, to be read and checked by hand.

mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use limo_model::{
    Band, Cores, Curve, EstimateSource, JobId, Memory, Meter, NodeId, NodeSpec, Power, Price, Profile, ProfileKey,
    Request, Span, Time, UnitKind, UnitSpec,
};
use limo_sched::{Command, Event, JobEnd, Mode, Options, PriceRule, Round};
use world::World;

/// Reads and runs one story.
struct Story {
    world: World,
    names: BTreeMap<String, JobId>,
    hardware: Vec<String>,
    out: String,
    mode: Option<Mode>,
    shows_mode: bool,
}

fn fields<'a>(words: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    words.iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect()
}

fn parse<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("cannot read `{text}`"))
}

/// `HH:MM` or `HH:MM:SS`.
fn clock(text: &str) -> Time {
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

/// `00:00=80 01:00=20 EUR/MWh [until=02:00]`
fn prices(words: &[&str]) -> Curve<Price> {
    let steps = words.iter().filter_map(|word| word.split_once('=')).filter(|(at, _)| at.contains(':'));
    let steps = steps.map(|(at, eur)| (clock(at), parse(&format!("{eur} EUR/MWh")))).collect();
    Curve::new(steps, fields(words).get("until").map(|at| clock(at))).expect("a curve")
}

impl Story {
    fn apply(&mut self, event: Event) {
        if let Err(refused) = self.world.apply(event) {
            self.say(&format!("refused {refused}"));
        }
    }

    fn say(&mut self, text: &str) {
        let _ = writeln!(self.out, "{} {text}", shown(self.world.now));
    }

    /// `n0 n2-n4`
    fn runs(&self, runs: impl IntoIterator<Item = (NodeId, u32)>) -> String {
        let name = |node: u32| self.world.core.node(NodeId(node)).expect("a node").spec().name.clone();
        let run = |(first, count): (NodeId, u32)| match count {
            1 => name(first.0),
            _ => format!("{}-{}", name(first.0), name(first.0 + count - 1)),
        };
        runs.into_iter().map(run).collect::<Vec<_>>().join(" ")
    }

    fn name_of(&self, job: JobId) -> String {
        let name = self.names.iter().find(|(_, id)| **id == job).map(|(name, _)| name.clone());
        name.unwrap_or_else(|| job.to_string())
    }

    fn set_up(&mut self, words: &[&str]) {
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
                _ => panic!("unknown option {key}"),
            }
        }
        self.apply(Event::PolicySet { preset, options, by: "root".into() });
    }

    /// `idle=10W [cores=4] [hardware=cpu] [memory=1G] [gpu=HARDWARE] [caps=8W-60W]`
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
        self.hardware.extend(units.iter().map(|unit| unit.hardware.clone()));
        let memory: Memory = parse(&value("memory", "1G"));
        let spec = NodeSpec {
            name: name.into(),
            units,
            memory,
            idle: watts(&value("idle", "0W")),
            meter: Meter::None,
            rest: None,
        };
        self.apply(Event::NodeUp { spec });
    }

    fn profile(&mut self, app: &str, hardware: &str, given: &BTreeMap<&str, &str>) {
        let (power, duration): (Power, Span) = (watts(given["draw"]), parse(given["time"]));
        let key = ProfileKey {
            application: app.into(),
            size: String::new(),
            hardware: hardware.into(),
            cap: given.get("cap").map(|text| watts(text)),
        };
        let profile = Profile {
            duration,
            power,
            energy: power * duration,
            spread_permille: 0,
            runs: 1,
            source: EstimateSource::Imported,
        };
        self.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() });
    }

    fn submit(&mut self, name: &str, words: &[&str]) {
        let given = fields(words);
        let list = |key: &str| given.get(key).map(|text| text.split(',').map(str::to_owned).collect::<Vec<_>>());
        let application = given.get("app").copied().unwrap_or(name).to_owned();
        if given.contains_key("draw") {
            let mut hardware = self.hardware.clone();
            hardware.dedup();
            hardware.iter().for_each(|hardware| self.profile(&application, hardware, &given));
        }
        let job = self.world.core.next_job();
        let request = Request {
            user: "user".into(),
            name: name.into(),
            application,
            size: String::new(),
            nodes: given.get("nodes").map_or(std::num::NonZeroU32::MIN, |text| parse(text)),
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
        };
        let submitted = self.world.apply(Event::Submitted { job, request });
        match submitted {
            Ok(()) => {
                self.names.insert(name.to_owned(), job);
                self.world.takes.extend(given.get("takes").map(|text| (job, parse(text))));
            }
            Err(refused) => self.say(&format!("refused {name} {refused}")),
        }
    }

    fn happen(&mut self, words: &[&str]) {
        let by = || "root".to_owned();
        let node = |story: &Self, name: &str| story.world.core.node_named(name).map(|node| node.id()).expect("a node");
        match words {
            ["submit", name, rest @ ..] => self.submit(name, rest),
            ["cancel", name] => self.apply(Event::CancelRequested { job: self.names[*name], by: by() }),
            ["limits", low, high] => {
                let limits = Curve::constant(Band::new(watts(low), watts(high)).expect("a band"));
                self.apply(Event::LimitsSet { limits, by: by() });
            }
            ["forecast", rest @ ..] => self.forecast(rest),
            ["price", rest @ ..] => self.apply(Event::PricesSet { prices: Some(prices(rest)), by: by() }),
            ["mode", mode] => self.apply(Event::ModeSet { mode: parse(mode), by: by() }),
            ["drain", name] => {
                self.apply(Event::NodeDrained { node: node(self, name), reason: "test".into(), by: by() });
            }
            ["resume", name] => self.apply(Event::NodeResumed { node: node(self, name), by: by() }),
            ["away", name] => self.apply(Event::NodeAway { node: node(self, name) }),
            ["up", name] => {
                let spec = self.world.core.node_named(name).expect("a node").spec().clone();
                self.apply(Event::NodeUp { spec });
            }
            ["reading", name, draw] => {
                self.apply(Event::Readings { draws: vec![(node(self, name), watts(draw))] });
            }
            ["silent", name] => drop(self.world.silent.insert(node(self, name))),
            ["takes-back", name] => {
                let job = self.names[*name];
                let attempt = self.world.core.job(job).and_then(|job| job.assignment()).expect("assigned").attempt;
                self.apply(Event::TakenBack { job, attempt, reason: "test".into(), suspect: true });
            }
            _ => panic!("unknown line: {words:?}"),
        }
    }

    /// `00:00=39W..60W 00:10=60W..90W [until=01:00]`
    fn forecast(&mut self, words: &[&str]) {
        let steps = words.iter().filter_map(|word| word.split_once('=')).filter(|(at, _)| at.contains(':'));
        let band = |text: &str| {
            let (low, high) = text.split_once("..").expect("low..high");
            Band::new(watts(low), watts(high)).expect("a band")
        };
        let steps = steps.map(|(at, text)| (clock(at), band(text))).collect();
        let limits = Curve::new(steps, fields(words).get("until").map(|at| clock(at))).expect("a curve");
        self.apply(Event::LimitsSet { limits, by: "root".into() });
    }

    fn tell(&mut self, round: &Round) {
        let mode = self.world.core.settings().mode;
        if self.shows_mode && self.mode != Some(mode) {
            self.mode = Some(mode);
            self.say(&format!("mode {mode}"));
        }
        for command in &round.commands {
            let text = match command {
                Command::Start { job, placement, .. } => {
                    let part = placement[0];
                    let node = self.world.core.node(part.unit.node).expect("a node").spec();
                    let unit = if part.unit.unit == 0 { String::new() } else { format!("/{}", node.units[1].name) };
                    let cap = part.cap.map_or(String::new(), |cap| format!(" cap {cap}"));
                    let nodes = self.runs(placement.iter().map(|part| (part.unit.node, part.count)));
                    format!("start {} {nodes}{unit}{cap}", self.name_of(*job))
                }
                Command::Sleep { nodes } => format!("sleep {}", self.runs(nodes.iter().copied())),
                Command::Wake { nodes } => format!("wake {}", self.runs(nodes.iter().copied())),
                Command::Stop { job, why, .. } => format!("stop {} {why}", self.name_of(*job)),
            };
            self.say(&text);
        }
        for (job, wait) in &round.waits {
            self.say(&format!("wait {} {}", self.name_of(*job), wait.shown(shown)));
        }
        for finished in &round.finished {
            let name = self.name_of(finished.job);
            match &finished.end {
                JobEnd::Cancelled { by } => self.say(&format!("cancelled {name} by {by}")),
                JobEnd::Refused { wait } => self.say(&format!("refuse {name} {}", wait.shown(shown))),
                JobEnd::Ran { .. } => {}
            }
        }
        assert_eq!(round.violations, [], "the checker found something");
    }

    fn step(&mut self, to: Time) {
        for job in self.world.advance(to) {
            let name = self.name_of(job);
            self.say(&format!("end {name}"));
        }
    }

    fn settle(&mut self) {
        let round = self.world.round();
        self.tell(&round);
        if round.commands.iter().any(|command| matches!(command, Command::Stop { .. })) {
            // Stopped jobs have ended at once, which is an event.
            self.settle();
        }
    }
}

fn run(text: &str) -> String {
    let world = World::new(limo_sched::Preset::Limo, Options { reserve_permille: 0, ..Options::default() });
    let mut story = Story {
        world,
        names: BTreeMap::new(),
        hardware: Vec::new(),
        out: String::new(),
        mode: None,
        shows_mode: false,
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("")).filter(|line| !line.trim().is_empty());
    let mut happenings: Vec<(Time, Vec<&str>)> = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0].split_once(':') {
            Some((hour, _)) if hour.chars().all(|c| c.is_ascii_digit()) => {
                happenings.push((clock(words[0]), words[1..].to_vec()));
            }
            _ => story.set_up(&words),
        }
    }
    let mut happenings = happenings.into_iter().peekable();
    let mut rounds = 0;
    loop {
        let told = happenings.peek().map(|(at, _)| *at);
        let Some(at) = [told, story.world.next()].into_iter().flatten().min() else { break };
        story.step(at);
        while let Some((_, words)) = happenings.next_if(|(when, _)| *when <= at) {
            story.happen(&words);
        }
        story.settle();
        rounds += 1;
        assert!(rounds < 10_000, "the story does not end:\n{}", story.out);
    }
    let sums = story.world.core.sums();
    let (energy, cost, start_now) = (sums.bill.energy(), sums.jobs_cost, sums.jobs_start_now_cost);
    let _ = writeln!(story.out, "total energy={energy} cost={cost} start-now={start_now}");
    story.out
}

fn check(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a scenario");
    let (told, expected) = text.split_once("---\n").expect("a line `---`");
    assert!(told.starts_with("# "), "{}: a scenario opens with its guarantee", path.display());
    let got = run(told);
    if std::env::var_os("UPDATE_SCENARIOS").is_some() {
        std::fs::write(path, format!("{told}---\n{got}")).expect("written");
        return;
    }
    assert_eq!(got, expected, "{}", path.display());
}

#[test]
fn every_story_ends_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files.iter().for_each(|path| check(path));
    assert!(files.len() >= 20, "only {} scenarios", files.len());
}
