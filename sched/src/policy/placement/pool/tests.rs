//! The index against a sort of all nodes, and the chances of equal nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use limo_model::{
    Beside, Cores, Curve, GroupSpec, Groups, Memory, Meter, NodeId, NodeSessions, NodeSpec, Outcome, OwnerRules,
    PlacementRule, Power, Preset, Request, Rest, SessionSums, Span, Switch, Time, UnitKind, UnitSpec, Usage, nodes,
};
use proptest::prelude::*;

use super::{best, start};
use crate::options::{Knowledge, Options, PoolOptions, PoolRank, Ties};
use crate::state::{Phase, Sleep};
use crate::{Core, Event};

const NODES: u32 = 12;

fn at(minute: i64) -> Time {
    Time::from_unix_ms(minute * 60_000)
}

fn watts(watts: u32) -> Power {
    Power::from_watts(watts.into())
}

/// Returns the group of a node. Each of the three groups has three nodes; the others have no group.
fn group(node: u32) -> Option<u32> {
    Some(node / 3).filter(|group| *group < 3)
}

/// Makes nodes of two types with one and two cores and different idle draws. Every other node can sleep. The
/// second group is open from minute 60 on, the third is open always, and the first has no owners who evict.
fn core(pool: PoolOptions) -> Core {
    let mut options = Options { pool, ..Options::default() };
    options.parts.placement = Some(PlacementRule::Pool);
    let mut core = Core::new(at(0), Preset::Fifo, options);
    for index in 0..NODES {
        let cores = 1 + index % 2;
        let unit = UnitSpec {
            name: "cpu".into(),
            hardware: "cpu".into(),
            kind: UnitKind::Cpu,
            cores,
            nameplate: watts(20 * cores),
            caps: None,
        };
        let switch = Switch { span: Span::from_secs(10), draw: watts(5) };
        let rest = Arc::new(Rest { draw: watts(1), down: switch, up: switch, wake: None });
        let spec = NodeSpec {
            name: format!("n{index}"),
            units: vec![unit],
            memory: Memory::from_bytes(1),
            idle: watts(10 + index % 3),
            meter: Meter::None,
            rest: Some(rest).filter(|_| index / 2 % 2 == 0),
        };
        core.apply(at(0), &Event::NodeUp { spec }).expect("a node");
    }
    let of_group = |number: u32| {
        let nodes = (0..NODES).filter(|node| group(*node) == Some(number)).map(|node| format!("n{node}")).collect();
        let jobs = if number == 0 { Beside::Run } else { Beside::Suspend };
        let (start_after, evict_after) = (Span::from_secs(60), Span::from_secs(600));
        let open = Curve::new(vec![(at(0), false), (at(60), true)], None).expect("a curve");
        let spec = GroupSpec {
            nodes,
            owners: Some(OwnerRules { jobs, start_after, evict_after }),
            open: Some(open).filter(|_| number == 1),
            ..GroupSpec::default()
        };
        (format!("g{number}"), spec)
    };
    let groups = Groups::new((0..3).map(of_group).collect()).expect("groups");
    core.apply(at(0), &Event::GroupsSet { groups, by: "root".into() }).expect("groups");
    core
}

fn request(cores: u32, nodes: u32) -> Request {
    let count = |number| NonZeroU32::new(number).expect("at least one");
    Request { cores: Cores::Count(count(cores)), nodes: count(nodes), may_requeue: true, ..Request::one_core("a") }
}

/// The sessions as they were, each with its node.
#[derive(Default)]
struct History {
    ended: Vec<(u32, Time, Time)>,
    here: BTreeMap<u32, Time>,
    /// Rewards in milliseconds, each with its group and the hour of the week.
    rewards: Vec<(Option<u32>, i64, i64)>,
}

impl History {
    fn of_node(&self, node: u32) -> Vec<(Time, Time)> {
        self.ended.iter().filter(|(of, ..)| *of == node).map(|(_, from, until)| (*from, *until)).collect()
    }

    /// Returns the rank of a node, the least first.
    fn rank(&self, rank: PoolRank, (node, cores): (u32, u32), now: Time) -> (i64, i64) {
        let ended: Vec<_> = (0..NODES).filter(|of| group(*of) == group(node)).flat_map(|of| self.of_node(of)).collect();
        let total: i64 = ended.iter().map(|(from, until)| (*until - *from).ms()).sum();
        match rank {
            PoolRank::S1 => (0, 0),
            PoolRank::Learned => {
                let own = self.rewards.iter().filter(|(of, hour, _)| (*of, *hour) == (group(node), hour_of_week(now)));
                let value = own.fold(0_i64, |value, (.., reward)| value + (reward - value).div_euclid(8));
                (-value, 0)
            }
            PoolRank::S2 => {
                let (all, idle) = (1 + i64::from(node % 2), 10 + i64::from(node % 3));
                (idle + 20 * i64::from(cores), idle + 20 * all)
            }
            PoolRank::S3a => {
                // Nodes without a group have owners who come, but no time from which on they have them.
                let mut free = group(node).map(|_| at(0));
                let (mut sum, mut gaps) = (0, 0);
                let begins = self.of_node(node).into_iter().map(|(from, until)| (from, Some(until)));
                for (from, until) in begins.chain(self.here.get(&node).map(|from| (*from, None))) {
                    let gap = free.map_or(0, |free| (from - free).ms());
                    (sum, gaps) = (sum + gap, gaps + i64::from(gap > 0));
                    free = until;
                }
                (if gaps == 0 { i64::MIN } else { -(sum / gaps) }, 0)
            }
            PoolRank::S3b => (self.of_node(node).len() as i64, 0),
            PoolRank::S4 => (i64::from(group(node).is_some_and(|group| group != 1 || now >= at(60))), 0),
            PoolRank::S5a => (total, 0),
            PoolRank::S5b => (total / (ended.len() as i64).max(1), 0),
            PoolRank::S6 => {
                let begins = self.ended.iter().map(|(of, from, _)| (*of, *from));
                let begins = begins.chain(self.here.iter().map(|(of, from)| (*of, *from)));
                let counts = |from: Time| now - Span::from_secs(1_800) <= from && from < now;
                (begins.filter(|(of, from)| group(*of) == group(node) && counts(*from)).count() as i64, 0)
            }
        }
    }
}

/// Returns the hour of the week. The tests begin on a Thursday, and last less than a day.
fn hour_of_week(now: Time) -> i64 {
    3 * 24 + now.unix_ms() / 3_600_000
}

/// Lets all jobs start, and their nodes wake.
fn run(core: &mut Core, now: Time) {
    core.round(now);
    let starting: Vec<_> = core.jobs().filter(|(_, job)| matches!(job.phase, Phase::Starting(_))).collect();
    let starting: Vec<_> = starting.iter().filter_map(|(id, job)| Some((*id, job.assignment()?.clone()))).collect();
    for (job, assignment) in starting {
        let woken =
            nodes(&assignment.placement).filter(|id| core.node(*id).is_some_and(|of| of.sleep == Sleep::Waking));
        let woken: Vec<_> = woken.map(|node| (node, 1)).collect();
        core.apply(now, &Event::Awake { nodes: woken }).expect("known nodes");
        core.apply(now, &Event::Started { job, attempt: assignment.attempt }).expect("it starts");
    }
}

/// One step: its kind, a node, and the minutes before it.
fn happen(core: &mut Core, history: &mut History, (kind, node, now): (u8, u32, Time)) {
    let id = NodeId(node);
    let jobs: Vec<_> = core.jobs().filter_map(|(job, of)| Some((job, of.assignment()?.clone()))).collect();
    let on_node = jobs.iter().find(|(_, of)| nodes(&of.placement).any(|node| node == id));
    let event = match kind {
        0 | 1 => {
            history.here.entry(node).or_insert(now);
            Event::OwnerCame { node: id }
        }
        2 | 3 => {
            history.ended.extend(history.here.remove(&node).map(|from| (node, from, now)));
            Event::OwnerLeft { node: id }
        }
        4 if on_node.is_none() && node / 2 % 2 == 0 => Event::Asleep { nodes: vec![(id, 1)] },
        5 => Event::NodeDrained { node: id, reason: String::new(), by: "root".into() },
        6 => Event::NodeResumed { node: id, by: "root".into() },
        7 => match on_node {
            Some((job, of)) => {
                let (running, worked) =
                    core.job(*job).and_then(|of| Some((of.running()?, of.worked(now)))).expect("it runs");
                let is_evicted = matches!(of.stop, Some((limo_model::StopReason::Evicted { .. }, _)));
                // Nothing is kept of an evicted attempt.
                let reward = if is_evicted { -worked.ms() } else { worked.ms() }.clamp(-3_600_000, 3_600_000);
                let groups: BTreeSet<_> = nodes(&of.placement).map(|node| group(node.0)).collect();
                let hour = hour_of_week(running.started);
                history.rewards.extend(groups.into_iter().filter(|_| reward != 0).map(|of| (of, hour, reward)));
                let (outcome, usage) = (Outcome::Exited(0), Usage::default());
                Event::Ended { job: *job, attempt: of.attempt, outcome, usage }
            }
            None => return,
        },
        _ => {
            let request = Box::new(request(1 + node % 2, 1 + node % 3));
            Event::Submitted { job: core.next_job(), request }
        }
    };
    core.apply(now, &event).expect("it is possible");
    run(core, now);
}

/// Returns all nodes on which a job could start, in order.
fn sorted(core: &Core, history: &History, rank: PoolRank, (cores, now): (u32, Time)) -> Vec<u32> {
    let free = |node: u32| {
        let placements = core.jobs().filter_map(|(_, job)| Some(job.assignment()?.placement.clone()));
        let on_node = placements.flatten().filter(|part| part.nodes().any(|of| of.0 == node));
        1 + node % 2 - on_node.map(|part| part.cores).sum::<u32>()
    };
    let mut found = Vec::new();
    for of in core.nodes() {
        let (node, evicts) = (of.id().0, group(of.id().0).is_some_and(|group| group > 0));
        let closed = evicts && (of.owner().suspends_since().is_some() || of.owner().opens_at(now).is_some());
        let takes = of.sleep == Sleep::Awake || of.sleep == Sleep::Asleep;
        if of.drained().is_none() && !closed && takes && free(node) >= cores {
            let own = history.rank(rank, (node, cores), now);
            let asleep = of.sleep == Sleep::Asleep;
            // Types in the order of their first nodes.
            let kind = (0..NODES)
                .position(|other| other % 2 == node % 2 && evicts == group(other).is_some_and(|group| group > 0));
            // Nodes that the rank does not tell apart stand in the order of their numbers.
            let group = group(node).filter(|_| rank.is_by_group());
            let idle = if rank == PoolRank::S2 { node % 3 } else { 0 };
            found.push((own, asleep, kind, group, idle, node));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(.., node)| node).collect()
}

proptest! {
    /// The order of the index is that of a sort of all nodes by what happened to them, for each rank.
    #[test]
    fn the_index_is_a_sort_of_all_nodes(
        rank in proptest::sample::select(PoolRank::NAMES.map(|(_, rank)| rank).to_vec()),
        steps in proptest::collection::vec((0..10_u8, 0..NODES, 0..8_i64), 0..60),
        cores in 1..3_u32,
    ) {
        let mut core = core(PoolOptions { rank, ties: Ties::First, ..PoolOptions::default() });
        let (mut history, mut minute) = (History::default(), 0);
        for (kind, node, minutes) in steps {
            minute += minutes;
            happen(&mut core, &mut history, (kind, node, at(minute)));
        }
        let job = core.next_job();
        core.apply(at(minute), &Event::Submitted { job, request: Box::new(request(cores, NODES / cores)) }).expect("a job");
        let view = core.view(at(minute));
        let of = view.job(job).expect("it waits");
        let shape = view.index().shapes.find(&of.request).expect("its shape");
        let node = |(way, position): (usize, u32)| view.index().classes.class(shape.ways[way].class).nodes[position as usize].0;
        let found: Vec<u32> = best(&view, shape, (job, of)).into_iter().map(node).collect();
        prop_assert_eq!(found, sorted(&core, &history, rank, (cores, at(minute))));
    }
}

/// Sessions that are known in advance count in place of those that were there; later ones replace them.
#[test]
fn sessions_that_are_known_replace_others() {
    let pool =
        PoolOptions { rank: PoolRank::S3b, knowledge: Knowledge::Trace, ties: Ties::First, ..PoolOptions::default() };
    let first = |sessions: &[(u32, u32)]| {
        let mut core = core(pool);
        let sums = |(node, sessions): &(u32, u32)| NodeSessions {
            node: NodeId(*node),
            sums: SessionSums { sessions: *sessions, ..SessionSums::default() },
        };
        for known in [&[(0, 0), (1, 0)], sessions] {
            core.apply(at(0), &Event::SessionsKnown { nodes: known.iter().map(sums).collect() }).expect("known nodes");
        }
        core.apply(at(0), &Event::Submitted { job: core.next_job(), request: Box::new(request(1, 1)) }).expect("a job");
        core.round(at(0));
        core.jobs().find_map(|(_, job)| Some(job.assignment()?.placement[0].unit.node.0)).expect("it starts")
    };
    let all_but = |best: u32| (0..NODES).map(|node| (node, u32::from(node != best))).collect::<Vec<_>>();
    assert_eq!(first(&all_but(5)), 5);
    // Nodes that are not named have no sessions.
    assert_eq!(first(&all_but(7).into_iter().filter(|(node, _)| *node != 7).collect::<Vec<_>>()), 7);
}

/// Each of some equal nodes gets nearly the same number of jobs; another seed and another attempt choose others.
#[test]
fn equal_nodes_have_equal_chances() {
    for nodes in [2_u64, 3, 7, 35, 64] {
        let chosen = |seed, attempt| {
            (1..=1_000 * nodes).map(move |job| {
                ((u128::from(start(seed, limo_model::JobId(job), attempt)) * u128::from(nodes)) >> 64) as u64
            })
        };
        let mut counts = vec![0_i64; nodes as usize];
        chosen(0, 0).for_each(|node| counts[node as usize] += 1);
        // Five standard deviations of a count with mean 1,000.
        assert!(counts.iter().all(|count| (count - 1_000).abs() < 160), "{nodes} nodes: {counts:?}");
        // Consecutive jobs are independent: each pair is as frequent as the others.
        let pairs: BTreeSet<_> = chosen(0, 0).zip(chosen(0, 0).skip(1)).collect();
        assert!(pairs.len() as u64 > nodes * nodes * 6 / 10, "{nodes} nodes: {} pairs", pairs.len());
        assert!(chosen(0, 0).ne(chosen(1, 0)) && chosen(0, 0).ne(chosen(0, 1)));
    }
}
