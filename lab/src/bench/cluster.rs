//! A large cluster under load, around a real core: 10,000 nodes of 20 classes, 100,000 waiting jobs with 256 request
//! signatures, and an upper limit that lets about 70 % of the nodes compute. Time is simulated.
//!
//! Does not measure itself: [`Loaded::end`] and [`Loaded::arrive`] do one thing each, and [`super::rounds`] measures
//! them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;

use anyhow::{Context, Result};
use limo_model::{
    Attempt, Band, Beside, Cores, Curve, Factor, GroupSpec, Groups, JobId, Memory, Meter, NodeId, NodeSpec, Outcome,
    Overrides, OwnerRules, Part, Power, Preset, Request, Span, Time, UnitId, UnitKind, UnitSpec, Usage, VariationKey,
};
use limo_sched::{Command, Core, Event, Node, Options, Round};
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Cores of the nodes of each class.
const CORES: [u32; 20] = [4, 6, 8, 10, 12, 16, 18, 20, 22, 24, 28, 32, 36, 40, 48, 56, 64, 80, 96, 128];
/// Idle draw of a node without its cores. The next values are the idle draw of a core, and the extra draw of a busy
/// one. Classes vary around these values, which are typical of servers.
const BOARD_W: i64 = 40;
const CORE_IDLE_MW: i64 = 500;
const CORE_BUSY_MW: i64 = 4_000;
/// Requests of jobs: 8 sizes, 8 choices of hardware and 4 walltimes make 256 signatures.
const SIZES: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
const WALLTIMES_H: [i64; 4] = [1, 4, 12, 24];
/// Share of the draw of all cores above idle that the limit allows, in percent.
const LIMIT_PERCENT: i64 = 70;
/// Interval between submissions while the cluster fills.
const FILL_GAP: Span = Span::from_ms(1);

/// The size of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of nodes, a multiple of the number of classes.
    pub nodes: u32,
    pub waiting: usize,
    /// Number of nodes of each job.
    pub width: NonZeroU32,
    /// Parts in place of those of `powercap`. With a placement of their own, the units differ by up to a tenth.
    pub parts: Overrides,
    /// Number of waiting jobs that a round considers.
    pub depth: u32,
    /// True if owners of the nodes suspend jobs, which then may run again.
    pub has_owners: bool,
}

/// The duration of one event and its round.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    pub wall_ns: u64,
    /// CPU time of this thread, which excludes other processes on the machine.
    pub cpu_ns: u64,
    /// Number of jobs that were started.
    pub started: usize,
}

/// The full cluster.
pub struct Loaded {
    core: Core,
    now: Time,
    dice: SplitMix64,
    /// For draws and readings, so that the jobs are the same with and without them.
    draw_dice: SplitMix64,
    width: NonZeroU32,
    has_owners: bool,
    /// Running jobs, by their ends.
    ends: BinaryHeap<Reverse<(Time, JobId, Attempt)>>,
    /// Nodes of the running jobs, and what each job really draws on each of them without a cap.
    draws: BTreeMap<JobId, (Vec<NodeId>, Power)>,
}

fn hardware(class: usize) -> String {
    format!("cpu-{class:02}")
}

/// CPU time of this thread so far.
fn thread_ns() -> Result<u64> {
    let time = ClockId::CLOCK_THREAD_CPUTIME_ID.now().context("the CPU time of the thread")?;
    Ok(u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}

/// Returns node `index` of a class. Draws of the nodes in a class differ by a few percent. Caps may take nine tenths of the
/// draw.
fn node(class: usize, index: u32, has_caps: bool) -> NodeSpec {
    let cores = CORES[class];
    let variation = 900 + 10 * class as i64;
    let of_cores = |mw: i64| Power::from_mw(i64::from(cores) * mw).scaled(variation, 1_000);
    let unit = UnitSpec {
        name: "cpu".to_owned(),
        hardware: hardware(class),
        kind: UnitKind::Cpu,
        cores,
        nameplate: of_cores(CORE_BUSY_MW),
        caps: has_caps.then(|| (of_cores(CORE_BUSY_MW / 10), of_cores(CORE_BUSY_MW))),
    };
    NodeSpec {
        name: format!("c{class:02}n{index:04}"),
        units: vec![unit],
        memory: Memory::ZERO,
        idle: Power::from_watts(BOARD_W) + of_cores(CORE_IDLE_MW),
        meter: if has_caps { Meter::Powercap } else { Meter::None },
        rest: None,
    }
}

/// Returns constraint number `choice`: any hardware, one of the seven largest types, or several of them.
fn constraint(choice: usize) -> Vec<String> {
    match choice {
        0 => Vec::new(),
        1 => (10..15).map(hardware).collect(),
        2 => (15..20).map(hardware).collect(),
        3 => (5..20).step_by(3).map(hardware).collect(),
        _ => vec![hardware(choice + 10), hardware(choice + 12)],
    }
}

fn request(dice: &mut SplitMix64, nodes: NonZeroU32) -> Request {
    let signature = dice.next_u64() as usize % (SIZES.len() * 8 * WALLTIMES_H.len());
    let (size, rest) = (signature % SIZES.len(), signature / SIZES.len());
    Request {
        nodes,
        cores: Cores::Count(NonZeroU32::new(SIZES[size]).unwrap_or(NonZeroU32::MIN)),
        time_limit: Some(Span::from_secs(WALLTIMES_H[rest / 8] * 3_600)),
        hardware: constraint(rest % 8),
        ..Request::one_core("")
    }
}

impl Loaded {
    /// Registers the nodes, and submits jobs until enough wait.
    ///
    /// # Errors
    /// If the core refuses an event, which would be a fault of this file.
    pub fn new(size: Size) -> Result<Self> {
        let now = Time::from_unix_ms(0);
        let options = Options { chosen: size.parts, depth: size.depth, ..Options::default() };
        let core = Core::new(now, Preset::Powercap, options);
        let (dice, draw_dice) = (SplitMix64::seed_from_u64(1), SplitMix64::seed_from_u64(2));
        let (ends, draws) = (BinaryHeap::new(), BTreeMap::new());
        let Size { width, has_owners, .. } = size;
        let mut loaded = Self { core, now, dice, draw_dice, width, has_owners, ends, draws };
        let (mut idle, mut full) = (Power::ZERO, Power::ZERO);
        let of_class = size.nodes / CORES.len() as u32;
        for class in 0..CORES.len() {
            for index in 0..of_class {
                let spec = node(class, index, size.parts.caps.is_some());
                idle += spec.idle;
                full += spec.units[0].nameplate;
                loaded.apply(&Event::NodeUp { spec })?;
            }
        }
        let band = Band::new(Power::ZERO, idle + full.scaled(LIMIT_PERCENT, 100)).context("the limit of the draw")?;
        loaded.apply(&Event::LimitsSet { limits: Curve::constant(band), by: "lab".to_owned() })?;
        if size.parts.placement.is_some() {
            let factors = (0..size.nodes).map(|node| loaded.factor(NodeId(node))).collect();
            loaded.apply(&Event::VariationSet { factors, by: "lab".to_owned() })?;
        }
        if size.has_owners {
            loaded.own_all()?;
        }
        while loaded.waiting() < size.waiting {
            loaded.arrive(FILL_GAP)?;
        }
        Ok(loaded)
    }

    /// Gives all nodes owners who suspend jobs, and after whom others may start at once.
    fn own_all(&mut self) -> Result<()> {
        let (start_after, evict_after) = (Span::ZERO, Span::from_secs(600));
        let owners = Some(OwnerRules { jobs: Beside::Suspend, start_after, evict_after });
        let nodes = self.core.nodes().iter().map(|node| node.spec().name.clone()).collect();
        let group = GroupSpec { nodes, owners, ..GroupSpec::default() };
        let groups = Groups::new([("owned".to_owned(), group)].into())?;
        self.apply(&Event::GroupsSet { groups, by: "lab".to_owned() })
    }

    /// Changes the owners of `count` random nodes `gap` after the last event: those who are there leave, and others come. Measures
    /// the changes and their round, without the reaction of the nodes.
    ///
    /// # Errors
    /// The same as for [`Loaded::new`].
    pub fn change_owners(&mut self, count: usize, gap: Span) -> Result<Took> {
        self.now = self.now + gap;
        let nodes = self.core.nodes().len() as u64;
        let changes = (0..count).map(|_| NodeId((self.draw_dice.next_u64() % nodes) as u32)).collect::<Vec<_>>();
        let (took, (applied, round)) = self.measured(|core, now| {
            let mut change = |node: &NodeId| {
                let is_there = core.node(*node).is_some_and(|node| node.owner().suspends_since().is_some());
                let node = *node;
                core.apply(now, &if is_there { Event::OwnerLeft { node } } else { Event::OwnerCame { node } })
            };
            let applied = changes.iter().try_for_each(&mut change);
            (applied, core.round(now))
        })?;
        applied.with_context(|| format!("at {} ms", self.now.unix_ms()))?;
        Ok(Took { started: self.obey(round)?, ..took })
    }

    /// Returns a random factor for all applications on a node.
    fn factor(&mut self, node: NodeId) -> (VariationKey, Option<Factor>) {
        let mut around_one = || 900_000 + (self.dice.next_u64() % 200_000) as u32;
        let factor = Factor { power: around_one(), duration: around_one(), runs: 0 };
        let key = VariationKey { application: String::new(), unit: UnitId { node, unit: 0 }, cap: None };
        (key, Some(factor))
    }

    fn request(&mut self) -> Request {
        Request { may_requeue: self.has_owners, ..request(&mut self.dice, self.width) }
    }

    pub fn waiting(&self) -> usize {
        self.core.waiting()
    }

    pub fn running(&self) -> usize {
        self.core.active()
    }

    pub fn rejected(&self) -> u64 {
        self.core.sums().rejected_plans
    }

    /// Returns the believed draw and the upper limit.
    pub fn draw(&self) -> (Power, Power) {
        (self.core.sums().draw, self.core.settings().limits.band(self.now).high())
    }

    fn apply(&mut self, event: &Event) -> Result<()> {
        self.core.apply(self.now, event).with_context(|| format!("at {} ms", self.now.unix_ms()))
    }

    /// Submits one more job, `gap` after the last event.
    ///
    /// # Errors
    /// The same as for [`Loaded::new`].
    pub fn arrive(&mut self, gap: Span) -> Result<Took> {
        // Jobs end on time, even between measurements.
        let until = self.now + gap;
        while self.ends.peek().is_some_and(|Reverse((at, _, _))| *at <= until) {
            self.end()?;
        }
        self.now = self.now.max(until);
        let event = Event::Submitted { job: self.core.next_job(), request: Box::new(self.request()) };
        self.timed(&event)
    }

    /// Submits `jobs` jobs at once, and starts those that fit while nothing limits the draw.
    ///
    /// # Errors
    /// The same as for [`Loaded::new`].
    pub fn fill(&mut self, jobs: usize) -> Result<()> {
        let limits = |limits| Event::LimitsSet { limits, by: "lab".to_owned() };
        let later = self.core.settings().limits.clone();
        self.apply(&limits(Curve::constant(Band::UNLIMITED)))?;
        for _ in 0..jobs {
            let request = Box::new(self.request());
            self.apply(&Event::Submitted { job: self.core.next_job(), request })?;
        }
        let round = self.core.round(self.now);
        self.obey(round)?;
        self.apply(&limits(later))
    }

    /// Reads the meters of all nodes `gap` after the last event, and runs a round. Measures both one after the other.
    /// Returns also the number of nodes that are told other caps.
    ///
    /// # Errors
    /// The same as for [`Loaded::new`].
    pub fn step(&mut self, gap: Span) -> Result<([Took; 2], usize)> {
        self.now = self.now + gap;
        let readings = self.readings();
        let (read, applied) = self.measured(|core, now| core.apply(now, &readings))?;
        applied.with_context(|| format!("at {} ms", self.now.unix_ms()))?;
        let (took, round) = self.measured(|core, now| core.round(now))?;
        let caps = round.commands.iter().filter(|command| matches!(command, Command::Cap { .. })).count();
        let started = self.obey(round)?;
        Ok(([read, Took { started, ..took }], caps))
    }

    /// Returns readings that vary by 1 %.
    fn readings(&mut self) -> Event {
        let mut draws = vec![Power::ZERO; self.core.nodes().len()];
        for (nodes, draw) in self.draws.values() {
            nodes.iter().for_each(|node| draws[node.0 as usize] += *draw);
        }
        let nodes = self.core.nodes().iter().zip(&draws);
        let reading = |(node, draw): (&Node, &Power)| {
            let permille = 990 + (self.draw_dice.next_u64() % 21) as i64;
            let drawn = draw.scaled(permille, 1_000).min(node.cap(0).unwrap_or(Power::MAX));
            (node.id(), node.spec().idle + drawn)
        };
        Event::Readings { draws: nodes.map(reading).collect() }
    }

    /// Returns the number of nodes with a cap.
    pub fn capped(&self) -> usize {
        self.core.nodes().iter().filter(|node| node.cap(0).is_some()).count()
    }

    /// Ends the next job.
    ///
    /// # Errors
    /// The same as for [`Loaded::new`], and if no job runs.
    pub fn end(&mut self) -> Result<Took> {
        let Reverse((at, job, attempt)) = self.ends.pop().context("no job runs that could end")?;
        self.now = self.now.max(at);
        self.draws.remove(&job);
        let event = Event::Ended { job, attempt, outcome: Outcome::Exited(0), usage: Usage::default() };
        self.timed(&event)
    }

    /// Records an event and runs a round. Measures both, without the reaction of the nodes.
    fn timed(&mut self, event: &Event) -> Result<Took> {
        let (took, (applied, round)) = self.measured(|core, now| (core.apply(now, event), core.round(now)))?;
        applied.with_context(|| format!("at {} ms", self.now.unix_ms()))?;
        Ok(Took { started: self.obey(round)?, ..took })
    }

    /// Measures an action of the core, which starts no jobs yet.
    fn measured<T>(&mut self, act: impl FnOnce(&mut Core, Time) -> T) -> Result<(Took, T)> {
        let cpu = thread_ns()?;
        let begun = std::time::Instant::now();
        let done = act(&mut self.core, self.now);
        let wall_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cpu_ns = thread_ns()?.saturating_sub(cpu);
        Ok((Took { wall_ns, cpu_ns, started: 0 }, done))
    }

    /// Starts jobs and sets caps as ordered; a job runs for 30 to 100 % of its walltime.
    fn obey(&mut self, round: Round) -> Result<usize> {
        let mut started = 0;
        for command in round.commands {
            if let Command::Cap { node, generation, .. } = command {
                self.apply(&Event::Capped { node, generation, failed: Vec::new() })?;
            }
            if let Command::Suspend { job, attempt } | Command::Resume { job, attempt } = command {
                let paused = matches!(command, Command::Suspend { .. });
                self.apply(&Event::Paused { job, attempt, paused })?;
            }
            let Command::Start { job, attempt, estimate, placement, .. } = command else { continue };
            started += 1;
            // The jobs draw 75 to 100 % of what is expected.
            let drawn = estimate.power.scaled(750 + (self.draw_dice.next_u64() % 250) as i64, 1_000);
            let nodes: Vec<NodeId> = placement.iter().flat_map(Part::units).map(|unit| unit.node).collect();
            let each = drawn.scaled(1, nodes.len().max(1) as i64);
            self.draws.insert(job, (nodes, each));
            self.apply(&Event::Started { job, attempt })?;
            let permille = 300 + self.dice.next_u64() % 700;
            let end = self.now + estimate.duration.scaled(permille as i64, 1_000);
            self.ends.push(Reverse((end, job, attempt)));
        }
        Ok(started)
    }
}
