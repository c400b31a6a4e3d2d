//! Random events of a cluster. The properties are in [`run`].

pub mod run;
mod with;

use std::num::NonZeroU32;

pub use run::Limits;
use with::quota;
pub use with::with_cores;

use crate::world::World;
use limo_model::{
    Arrange, Budget, Budgets, Cores, Energy, EstimateSource, LicenceCount, Memory, ModeSetting, Power, Predicted,
    Profile, ProfileKey, Release, Request, Reservation, Span, Time, Warning, Widths,
};
use limo_sched::{Allocation, Core, Event, RestRule};
use proptest::prelude::*;
use proptest::test_runner::Config;

pub const HARDWARE: [&str; 3] = ["slow", "fast", "accelerator"];

/// An event. Numbers of nodes are taken modulo their count.
#[derive(Debug, Clone)]
pub enum Step {
    Submit(Ask),
    Cancel(u8),
    Pass(i64),
    Away(u8),
    /// The node was unreachable for longer than its lease.
    Lose(u8),
    /// The draw held for the node is released.
    Confirm(u8),
    /// The node registers again, awake, perhaps with this number of additional cores.
    Up(u8, u32),
    Drain(u8),
    Resume(u8),
    Limits(i64, i64, i64),
    Prices(Vec<i64>),
    Mode(ModeSetting),
    Reading(u8, i64),
    Silence(u8),
    TakeBack,
    /// Nodes keep their confirmations, or send them at once again.
    Slow(bool),
    /// A node sends one of the confirmations that it kept.
    SendKept(u8),
    Hold(u8),
    Release(u8),
    Requeue(u8),
    /// A node has factors for power and duration in thousandths, for one application or all, or none any more.
    Vary(u8, Option<u8>, Option<(u32, u32)>),
    /// A person suspends a job, or resumes it.
    Suspend(u8),
    Continue(u8),
    Budgets(Vec<Period>),
    Metered(i64),
    Rest(RestRule),
    Allocation(Allocation),
    /// One of two reservations: first node and number of nodes, delay and duration, and true if it admits jobs.
    Reserve(u8, (u8, u8), (i64, i64), bool),
    Unreserve(u8),
    Priority(u8, i32),
    /// Quota of one user or of all: jobs, cores, watt-hours in a day, unfinished jobs.
    Quota(u8, [Option<u32>; 4]),
    /// Weights of age and of use, the half-life in seconds, true if cores count, and the share of one of the users.
    Fairshare((u32, u32), i64, bool, u32),
    /// Two queues: the nodes of each as bits, with 0 for all, and true for one that is down.
    Queues([(u8, bool); 2]),
    /// Two kinds of licences, and their numbers.
    Licences([u32; 2]),
    /// Three accounts, two of them below the first, and their limits.
    Accounts([Limits; 3]),
    /// Two QOS, and their limits for each user.
    Qos([Limits; 2]),
    /// Two groups: the nodes of each as bits, with 0 for no group, and the limit in watts. A node of both is in the first.
    /// Some limits come with rules for owners.
    Groups([(u8, i64); 2]),
    /// The owner of a node comes, or leaves.
    Owner(u8, bool),
    /// The reboot of a node proceeds.
    Reboot(u8, u8),
}

/// A period some time after the previous one, with a release of `above` watts above the idle draw of the cluster.
#[derive(Debug, Clone)]
pub struct Period {
    pub gap: i64,
    pub length: i64,
    pub above: i64,
    pub release: Release,
}

/// The parts of a request that vary.
#[derive(Debug, Clone)]
pub struct Ask {
    pub app: u8,
    pub nodes: u32,
    pub cores: u32,
    pub memory: u64,
    pub immediate: bool,
    pub limit: Option<i64>,
    pub deadline: Option<i64>,
    pub start_by: Option<i64>,
    pub variant: bool,
    /// Permission: none, suspend, requeue, both, or both as a filler.
    pub gives: u8,
    /// Named nodes, and true if only these are allowed.
    pub named: (u8, bool),
    pub takes: i64,
    /// True if the job must be alone on its nodes.
    pub exclusive: bool,
    /// Accelerators of each node; 0 for none.
    pub accelerators: u32,
    /// True if the job takes cores next to its accelerators.
    pub with_cores: bool,
    /// True if several chunks of the job may share a node.
    pub packed: bool,
    /// Kind of condition before the start, usually none, and its number.
    pub conditions: (u8, u8),
    /// One of two requested reservations, usually none.
    pub reservation: Option<u8>,
    /// Number of nodes that it may have in addition, if it is moldable.
    pub more_nodes: u32,
    /// One of the two queues.
    pub queue: Option<u8>,
    /// Numbers of two kinds of licences.
    pub licences: [u32; 2],
    /// One of three accounts.
    pub account: Option<u8>,
    /// One of two QOS.
    pub qos: Option<u8>,
    pub priority: i32,
    /// Number of tasks, and the largest number at a time if not 0; usually not an array.
    pub tasks: Option<(NonZeroU32, u32)>,
}

/// Returns a priority, usually none; few values, so that some are equal.
fn priority() -> impl Strategy<Value = i32> {
    prop_oneof![2 => Just(0), 1 => -2..=2]
}

/// Returns a request for at most `most` nodes.
fn ask(most: u32) -> impl Strategy<Value = Ask> {
    let maybe = |most: i64| proptest::option::weighted(0.2, 1..most);
    let limit = proptest::option::weighted(if most > 1 { 0.8 } else { 0.2 }, 1..400_i64);
    let named = if most > 1 { prop_oneof![3 => Just(0), 1 => 0..=3_u8].boxed() } else { Just(0).boxed() };
    let size = (1..=most, 0..4_u32, 0..3_u64, (named, any::<bool>()));
    let times = (limit, maybe(3000), maybe(3000), 1..600_i64);
    let reservation = proptest::option::weighted(0.15, 0..2_u8);
    let after = (prop_oneof![2 => Just(0), 1 => 1..8_u8], any::<u8>());
    let more = (any::<bool>(), 0..5_u8, after, reservation, priority());
    let accelerators = prop_oneof![8 => Just(0), 2 => 1..=2_u32];
    let tasks = proptest::option::weighted(0.2, (1..6_u32, 0..3_u32));
    let more = (more, (proptest::bool::weighted(0.1), accelerators, tasks));
    (0..3_u8, size, times, proptest::bool::weighted(0.1), more).prop_map(
        |(app, (nodes, cores, memory, named), (limit, deadline, start_by, takes), immediate, more)| Ask {
            app,
            nodes,
            cores,
            memory,
            immediate,
            limit,
            deadline,
            start_by,
            variant: more.0.0,
            gives: more.0.1,
            named,
            takes,
            conditions: more.0.2,
            reservation: more.0.3,
            queue: None,
            licences: [0; 2],
            account: None,
            qos: None,
            priority: more.0.4,
            exclusive: more.1.0,
            accelerators: more.1.1,
            with_cores: false,
            packed: false,
            more_nodes: 0,
            tasks: more.1.2.and_then(|(count, limit)| Some((NonZeroU32::new(count)?, limit))),
        },
    )
}

/// Users of the jobs.
pub const USERS: [&str; 2] = ["ada", "user"];

/// Returns a step for every policy.
pub fn narrow_step() -> impl Strategy<Value = Step> {
    let node = 0..8_u8;
    prop_oneof![
        4 => ask(1).prop_map(Step::Submit),
        3 => ask(4).prop_map(Step::Submit),
        5 => (0..600_i64).prop_map(Step::Pass),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => node.clone().prop_map(Step::Away),
        1 => node.clone().prop_map(Step::Lose),
        1 => node.clone().prop_map(Step::Confirm),
        2 => node.clone().prop_map(|node| Step::Up(node, 0)),
        1 => node.clone().prop_map(Step::Drain),
        1 => node.clone().prop_map(Step::Resume),
        1 => (0..80_i64, 0..300_i64, 60..600_i64).prop_map(|(low, above, until)| Step::Limits(low, above, until)),
        1 => proptest::collection::vec(-90..90_i64, 1..5).prop_map(Step::Prices),
        1 => prop_oneof![Just(ModeSetting::Auto), Just(ModeSetting::High), Just(ModeSetting::Low)].prop_map(Step::Mode),
        1 => (node.clone(), 0..200_i64).prop_map(|(node, draw)| Step::Reading(node, draw)),
        1 => node.prop_map(Step::Silence),
        1 => Just(Step::TakeBack),
        2 => any::<u8>().prop_map(Step::Hold),
        2 => any::<u8>().prop_map(Step::Release),
        1 => any::<u8>().prop_map(Step::Requeue),
        2 => (0..2_u8, (0..8_u8, 1..4_u8), (0..900_i64, 1..1200_i64), any::<bool>())
            .prop_map(|(which, nodes, when, users)| Step::Reserve(which, nodes, when, users)),
        1 => (0..2_u8).prop_map(Step::Unreserve),
        1 => (any::<u8>(), priority()).prop_map(|(job, priority)| Step::Priority(job, priority)),
        1 => ((0..4_u32, 0..4_u32), 1..2_000_i64, any::<bool>(), 0..3_u32)
            .prop_map(|(weights, half, cores, share)| Step::Fairshare(weights, half, cores, share)),
        1 => (0..3_u8, quota()).prop_map(|(user, quota)| Step::Quota(user, quota)),
    ]
}

/// Adds persons who suspend and resume jobs, and nodes that confirm orders late and in any order. The golden worlds have
/// no such steps.
pub fn with_pauses(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => step,
        2 => any::<u8>().prop_map(Step::Suspend),
        1 => any::<u8>().prop_map(Step::Continue),
        1 => any::<bool>().prop_map(Step::Slow),
        2 => any::<u8>().prop_map(Step::SendKept),
    ]
}

/// Adds factors of nodes. The golden worlds have none.
pub fn with_variation(step: impl Strategy<Value = Step>) -> impl Strategy<Value = Step> {
    let factors = proptest::option::weighted(0.8, (500..2_000_u32, 500..2_000_u32));
    let vary = (0..8_u8, proptest::option::of(0..3_u8), factors);
    prop_oneof![
        14 => step,
        2 => vary.prop_map(|(node, application, factors)| Step::Vary(node, application, factors)),
    ]
}

/// Returns a step for policies that let nodes sleep and keep budgets.
pub fn wide_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => ask(4).prop_map(Step::Submit),
        14 => narrow_step(),
        2 => proptest::collection::vec(period(), 0..4).prop_map(Step::Budgets),
        2 => (0..80_000_i64).prop_map(Step::Metered),
        2 => rest_rule().prop_map(Step::Rest),
        1 => allocation().prop_map(Step::Allocation),
        1 => (0..8_u8, 0..3_u32).prop_map(|(node, more)| Step::Up(node, more)),
    ]
}

pub fn period() -> impl Strategy<Value = Period> {
    let gap = prop_oneof![Just(0), 0..800_i64];
    let release = prop_oneof![Just(Release::Even), Just(Release::ByPrice)];
    (gap, 1..1_500_i64, 0..200_i64, release).prop_map(|(gap, length, above, release)| Period {
        gap,
        length,
        above,
        release,
    })
}

pub fn allocation() -> impl Strategy<Value = Allocation> {
    prop_oneof![Just(Allocation::Any), Just(Allocation::Contiguous)]
}

pub fn rest_rule() -> impl Strategy<Value = RestRule> {
    let delay = prop_oneof![Just(0), 0..200_i64].prop_map(Span::from_secs);
    (0..3_u8, delay).prop_map(|(rule, delay)| match rule {
        0 => RestRule::Never,
        1 => RestRule::Idle(delay),
        _ => RestRule::IdleInBudget(delay),
    })
}

/// Returns a time: immediately, after some rounds, or never within a case.
pub fn hold_after() -> impl Strategy<Value = Span> {
    prop_oneof![Just(0), 0..600_i64, Just(7 * 86_400)].prop_map(Span::from_secs)
}

/// Makes budgets from `now` on, for a cluster with the idle draw `idle`.
pub fn budgets(now: Time, idle: Power, periods: &[Period]) -> Budgets {
    let mut from = now;
    let budget = |period: &Period| {
        from = from + Span::from_secs(period.gap);
        let span = Span::from_secs(period.length);
        let energy: Energy = (idle + Power::from_watts(period.above)) * span;
        let budget = Budget { from, until: from + span, energy, release: period.release };
        from = budget.until;
        budget
    };
    Budgets::new(periods.iter().map(budget).collect()).expect("ascending")
}

/// Adds profiles of two of the three applications on all hardware, each with a draw in watts and perhaps a cap.
pub fn learn(world: &mut World, draws: [i64; 6], cap: impl Fn(usize) -> Option<Power>) {
    for (index, draw) in draws.into_iter().enumerate() {
        let (power, duration) = (Power::from_watts(draw), Span::from_secs(30 + 1000 / (draw + 1)));
        let (application, hardware) = (format!("app{}", index % 2), HARDWARE[index / 2].into());
        let key = ProfileKey { application, size: String::new(), hardware, cores: None, nodes: None, cap: cap(index) };
        let (energy, source) = (power * duration, EstimateSource::Learned);
        let profile = Profile { duration, power, energy, spread_permille: 0, runs: 3, source };
        world.apply(Event::ProfileSet { key, profile: Some(profile), by: "root".into() }).expect("a profile");
    }
}

/// Uses `PROPTEST_CASES` cases, by default 500.
pub fn config() -> Config {
    cases(500)
}

/// Uses the number of cases in the environment, by default `usual`.
pub fn cases(usual: u32) -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    Config { cases, failure_persistence: None, ..Config::default() }
}

/// Makes a reservation: first node and number of nodes, delay and duration, and true if it admits jobs.
pub fn reservation(
    core: &Core,
    now: Time,
    ((first, count), (gap, length), users): ((u8, u8), (i64, i64), bool),
) -> Reservation {
    let nodes = core.nodes();
    let name = |index: usize| nodes[(usize::from(first) + index) % nodes.len()].spec().name.clone();
    let from = now + Span::from_secs(gap);
    Reservation {
        nodes: (0..usize::from(count).min(nodes.len())).map(name).collect(),
        from,
        until: from + Span::from_secs(length),
        users: if users { vec!["user".into()] } else { Vec::new() },
        reason: String::new(),
    }
}

/// Makes predictions for each type of hardware, with draws that depend on `seed`.
pub fn predictions(cores: u32, seed: i64) -> Vec<Predicted> {
    let on = |(number, hardware): (i64, &&str)| {
        let watts = |more: i64| Power::from_watts((seed.abs() + 7 * number) % 20 + more);
        let (hardware, deviation, duration) = ((*hardware).into(), Power::from_watts(2), Span::from_secs(60));
        let cores = cores.max(1);
        Predicted { hardware, cores, model: 1, mean: watts(1), deviation, high: watts(4), duration }
    };
    (0..).zip(&HARDWARE).map(on).collect()
}

fn licences(counts: [u32; 2]) -> Vec<LicenceCount> {
    let count = |(which, count)| Some(LicenceCount { name: format!("l{which}"), count: NonZeroU32::new(count)? });
    counts.into_iter().enumerate().filter_map(count).collect()
}

pub fn request(now: Time, ask: &Ask) -> Request {
    let later = |secs: Option<i64>| secs.map(|secs| now + Span::from_secs(secs));
    let (mask, only) = ask.named;
    // Every other job that is alone on one unit of its nodes; in some clusters no unit obeys.
    let has_cap = ask.exclusive && ask.accelerators == 0 && !ask.packed && ask.takes % 2 == 0;
    let named: Vec<String> = (0..2).filter(|bit| mask >> bit & 1 == 1).map(|bit| format!("n{}", 2 * bit)).collect();
    let [least, most] = [ask.nodes, ask.nodes + ask.more_nodes].map(|nodes| NonZeroU32::new(nodes).expect("a node"));
    let (include, exclude) = if only { (named, Vec::new()) } else { (Vec::new(), named) };
    Request {
        user: USERS[usize::from(ask.takes % 2 == 0)].into(),
        name: "job".into(),
        nodes: least,
        malleable: ask.more_nodes > 1 && ask.accelerators == 0 && !has_cap,
        widths: (ask.more_nodes > 0).then_some(Widths { least, most, tasks_per_node: None }),
        cores: std::num::NonZeroU32::new(ask.cores).map_or(Cores::All, Cores::Count),
        memory: Memory::from_bytes(ask.memory),
        time_limit: ask.limit.map(Span::from_secs),
        immediate: ask.immediate,
        deadline: later(ask.deadline),
        start_by: later(ask.start_by),
        include,
        exclude,
        may_suspend: matches!(ask.gives, 1 | 3 | 4),
        may_requeue: ask.gives >= 2,
        filler: ask.gives == 4,
        priority: ask.priority,
        exclusive: ask.exclusive,
        cap: has_cap.then(|| Power::from_watts(25)),
        explore: ask.takes % 2 == 1,
        accelerators: std::num::NonZeroU32::new(ask.accelerators),
        with_cores: ask.with_cores,
        arrange: if ask.packed { Arrange::Pack } else { Arrange::Spread },
        warning: (ask.takes % 3 == 0).then_some(Warning { signal: 10, before: Span::from_secs(40) }),
        reservation: ask.reservation.map(|which| format!("r{which}")),
        queue: ask.queue.map(|which| format!("q{which}")),
        licences: licences(ask.licences),
        account: ask.account.map(|which| format!("a{which}")),
        qos: ask.qos.map(|which| format!("c{which}")),
        predicted: if ask.takes % 4 == 1 { predictions(ask.cores, ask.nodes.into()) } else { Vec::new() },
        variants: if ask.variant { vec![HARDWARE[2].into()] } else { Vec::new() },
        ..Request::one_core(format!("app{}", ask.app))
    }
}
