//! Cost of a round with 1,000 nodes and 100,000 waiting jobs: the cluster is full, one job ends, a round follows.
//!
//! `cargo bench -p limo-sched --bench round [-- PRESET... MIX... NODES]`; a mix is one of `alike`, `different`,
//! `memory` (and different), `unlimited` and `limited`, NODES a number such as 10000. Prints the mean processor time of
//! the rounds with its target, the longest round, a digest of all rounds, if that equals the one in
//! `tests/golden/bench.txt`, and the memory of the process. Not a test: it never fails on a slow machine.

#![expect(clippy::disallowed_macros, reason = "a program that prints its figures")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use limo_model::{
    Attempt, Band, Cores, Curve, EstimateSource, JobId, Memory, Meter, NodeSpec, Outcome, Power, Preset, Profile,
    ProfileKey, Request, Span, Time, UnitKind, UnitSpec, Usage,
};
use limo_sched::{Command, Core, Event, Options, Round};
use nix::time::{ClockId, clock_gettime};

/// Default number of nodes.
const NODES: u32 = 1_000;
const JOBS: u64 = 100_000;
const ROUNDS: usize = 300;
/// Target for the cost of a round: a round follows each end of a job, and 200 rounds per second use one core.
const AIM: Duration = Duration::from_millis(5);

/// Initial value of the digest FNV-1a, with 64 bits.
const FNV: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x100_0000_01b3;

/// Random numbers that are equal on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Mix of the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jobs {
    Alike,
    Different,
    /// Different jobs that also request memory.
    Memory,
}

struct Cluster {
    core: Core,
    now: Time,
    attempts: BTreeMap<JobId, Attempt>,
    ends: BTreeSet<(Time, JobId)>,
    digest: u64,
}

impl Cluster {
    fn new(preset: Preset, high: Power, nodes: u32) -> Self {
        let now = Time::from_unix_ms(0);
        let mut core = Core::new(now, preset, Options::default());
        for index in 0..nodes {
            let hardware = ["xeon", "epyc"][index as usize % 2];
            let unit = UnitSpec {
                name: "cpu".into(),
                hardware: hardware.into(),
                kind: UnitKind::Cpu,
                cores: 16,
                nameplate: Power::from_watts(200),
                caps: Some((Power::from_watts(60), Power::from_watts(200))),
            };
            let memory = Memory::from_bytes(1 << 36);
            let (name, idle) = (format!("n{index}"), Power::from_watts(50));
            let spec = NodeSpec { name, units: vec![unit], memory, idle, meter: Meter::None, rest: None };
            core.apply(now, &Event::NodeUp { spec }).expect("a node");
        }
        for app in 0..10_i64 {
            for (hardware, watts) in [("xeon", 100), ("epyc", 120)] {
                let (power, duration) = (Power::from_watts(watts + app), Span::from_secs(3_600 + 60 * app));
                let (application, size) = (format!("app{app}"), String::new());
                let key =
                    ProfileKey { application, size, hardware: hardware.into(), cores: None, nodes: None, cap: None };
                let (energy, source) = (power * duration, EstimateSource::Learned);
                let profile = Some(Profile { duration, power, energy, spread_permille: 0, runs: 3, source });
                core.apply(now, &Event::ProfileSet { key, profile, by: "root".into() }).expect("a profile");
            }
        }
        let limits = Curve::constant(Band::new(Power::ZERO, high).expect("a band"));
        core.apply(now, &Event::LimitsSet { limits, by: "root".into() }).expect("limits");
        Self { core, now, attempts: BTreeMap::new(), ends: BTreeSet::new(), digest: FNV }
    }

    fn submit(&mut self, dice: &mut Dice, jobs: Jobs) {
        let alike = jobs == Jobs::Alike;
        let job = self.core.next_job();
        let cores = NonZeroU32::new(if alike { 16 } else { 1 << dice.below(5) }).expect("at least one");
        let limit = if alike { 7_200 } else { 60 + dice.below(20_000) };
        let gib = if jobs == Jobs::Memory { 1 << dice.below(6) } else { 0 };
        let request = Request {
            memory: Memory::from_bytes(gib << 30),
            user: "ada".into(),
            name: "job".into(),
            cores: Cores::Count(cores),
            time_limit: Some(Span::from_secs(i64::try_from(limit).expect("small"))),
            ..Request::one_core(format!("app{}", dice.below(if alike { 1 } else { 10 })))
        };
        self.core.submit(self.now, job, request).expect("a job");
    }

    fn obey(&mut self, round: &Round, dice: &mut Dice) {
        assert_eq!(round.violations, []);
        let text = serde_json::to_vec(round).expect("a round");
        self.digest = text.iter().fold(self.digest, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
        for command in &round.commands {
            if let Command::Start { job, attempt, estimate, .. } = command {
                self.core.apply(self.now, &Event::Started { job: *job, attempt: *attempt }).expect("assigned");
                self.attempts.insert(*job, *attempt);
                let takes = estimate.duration.scaled(100 + i64::try_from(dice.below(900)).expect("small"), 1_000);
                self.ends.insert((self.now + takes, *job));
            }
        }
    }

    /// Ends the next job; returns the duration of the round that follows.
    fn step(&mut self, dice: &mut Dice) -> (Duration, usize) {
        let (at, job) = self.ends.pop_first().expect("jobs run");
        self.now = at;
        let attempt = self.attempts.remove(&job).expect("it runs");
        let ended = Event::Ended { job, attempt, outcome: Outcome::Exited(0), usage: Usage::default() };
        self.core.apply(at, &ended).expect("it runs");
        let begin = on_processor();
        let round = self.core.round(at);
        let took = on_processor() - begin;
        self.obey(&round, dice);
        (took, round.commands.len())
    }
}

fn measure(preset: Preset, mix: Jobs, high: Power, nodes: u32) {
    let mut dice = Dice(7);
    let mut cluster = Cluster::new(preset, high, nodes);
    for _ in 0..JOBS {
        cluster.submit(&mut dice, mix);
    }
    let begin = on_processor();
    loop {
        let round = cluster.core.round(cluster.now);
        cluster.obey(&round, &mut dice);
        if round.commands.is_empty() {
            break;
        }
    }
    let filled = on_processor() - begin;
    let rounds: Vec<(Duration, usize)> = (0..ROUNDS).map(|_| cluster.step(&mut dice)).collect();
    let mean = rounds.iter().map(|(took, _)| *took).sum::<Duration>() / u32::try_from(ROUNDS).expect("few");
    let longest = rounds.iter().map(|(took, _)| *took).max().unwrap_or_default();
    let started: usize = rounds.iter().map(|(_, commands)| commands).sum();
    let (active, waiting) = (cluster.core.active(), cluster.core.waiting());
    let (jobs, limit) = words(mix, high);
    let digest = format!("{preset} {jobs} {limit} {nodes} {:016x}", cluster.digest);
    println!(
        "{preset:<15} {jobs:<9} {limit:<9} mean {mean:>10.1?}  (aim {AIM:?}: {})  longest {longest:>10.1?}  first {filled:>10.1?}  started {started}  digest {:016x} ({})  {active} run  {waiting} wait  {} MiB",
        if mean < AIM { "reached" } else { "MISSED" },
        cluster.digest,
        golden(&digest),
        resident() >> 20,
    );
}

fn words(jobs: Jobs, high: Power) -> (&'static str, &'static str) {
    let jobs = match jobs {
        Jobs::Alike => "alike",
        Jobs::Different => "different",
        Jobs::Memory => "memory",
    };
    (jobs, if high.is_unlimited() { "unlimited" } else { "limited" })
}

/// Compares a digest with the known one for the same preset, mix and number of nodes.
fn golden(digest: &str) -> &'static str {
    let known = include_str!("../tests/golden/bench.txt");
    let of = |line: &str| line.rsplit_once(' ').map(|(of, _)| of.to_owned());
    match known.lines().find(|line| of(line) == of(digest)) {
        None => "not known",
        Some(line) if line == digest => "as known",
        Some(_) => "OTHER THAN KNOWN",
    }
}

/// Returns the processor time of this thread, which other processes do not affect.
fn on_processor() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}

/// Returns the resident memory in bytes; 0 if it is unknown.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

fn main() {
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_named = |word: &str| named.iter().any(|name| name == word);
    // Applies all words of a group if none of them is given.
    let among = |words: &[&str], word: &str| is_named(word) || !words.iter().any(|word| is_named(word));
    let nodes = named.iter().find_map(|word| word.parse().ok()).unwrap_or(NODES);
    let presets = Preset::ALL.map(Preset::name);
    for preset in Preset::ALL.into_iter().filter(|preset| among(&presets, preset.name())) {
        for mix in [Jobs::Alike, Jobs::Different, Jobs::Memory] {
            for high in [Power::MAX, Power::from_watts(130 * i64::from(nodes))] {
                let (jobs, limit) = words(mix, high);
                if among(&["alike", "different", "memory"], jobs) && among(&["unlimited", "limited"], limit) {
                    measure(preset, mix, high, nodes);
                }
            }
        }
    }
}
