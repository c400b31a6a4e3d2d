//! The waiting jobs and what is free over time, as a problem of [`crate::solve::plan`]: resources are pooled over the
//! nodes, and the draw is one of them (power-capping-2018, section 3.1).

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{AdmissionRule, Digest, JobId, NodeId, Power, Request, Time};

use crate::facts::{Known, units_wanted};
use crate::future::{Asker, asks_each, bytes};
use crate::index::Way;
use crate::policy::order::conservative::asker;
use crate::solve::plan::{Amounts, Entry, ListRule, PlanProblem, RESOURCES, Supply};
use crate::state::Job;
use crate::view::View;

/// Places of memory and draw among the resources; those before them are pools of units.
const MEMORY: usize = RESOURCES - 2;
const POWER: usize = RESOURCES - 1;
/// Numbers of ends of running jobs: the next ones count exactly, the others as at most so many steps.
const NEXT_ENDS: usize = 32;
const STEPS: usize = 96;
/// Power without a limit, in mW. Sums with the draw of all nodes do not overflow.
const UNLIMITED: i64 = i64::MAX / 8;

/// Most changes of the limits that count.
const LIMIT_CHANGES: usize = 256;

/// The waiting jobs that could run on the nodes that take jobs now, under the known limits, in the order of the queue. The
/// others take nothing from these.
pub(super) struct WaitingJobs<'a> {
    pub jobs: Vec<(JobId, Asker<'a>)>,
    /// Has the jobs in the same order. Time 0 is now.
    pub problem: PlanProblem,
    /// A digest of everything in the problem but the time.
    pub digest: u64,
}

impl<'a> WaitingJobs<'a> {
    pub fn of(view: &View<'a>) -> Self {
        let nodes = PresentNodes::of(view);
        let asked = |(id, job): (JobId, &'a Job)| asker(view, job).map(|asker| (id, asker));
        let all: Vec<_> = view.queue().filter_map(asked).filter(|(_, asker)| nodes.suffice(view, *asker)).collect();
        let pools = Pools::of(&all);
        let mut digest = Digest::default();
        let supply = pools.supply(view, &nodes, &mut digest);
        // At a cap a job may need less power.
        let most = supply.most()[POWER];
        let may_be_capped = view.parts().starts_capped();
        let (mut jobs, mut entries) = (Vec::new(), Vec::new());
        for (id, asker) in all {
            let mut entry = pools.entry(view, asker);
            if may_be_capped {
                entry.needs[POWER] = entry.needs[POWER].min(most);
            }
            if supply.suffices(&entry) {
                add(&mut digest, id.0);
                jobs.push((id, asker));
                entries.push(entry);
            }
        }
        Self { jobs, problem: PlanProblem::beside(supply, entries), digest: digest.value() }
    }

    /// Returns a list of jobs by their indexes: those of `listed` that still wait.
    pub fn indexes(&self, listed: &[JobId]) -> Vec<u32> {
        let known: BTreeMap<JobId, u32> = self.jobs.iter().map(|(id, _)| *id).zip(0..).collect();
        listed.iter().filter_map(|id| known.get(id).copied()).collect()
    }

    /// Returns false only if a job cannot start now, because too few units or too little memory are free in all.
    pub fn may_fit(&self, job: u32) -> bool {
        self.problem.is_free_now(job, &(0..POWER))
    }

    /// Returns a list with all jobs: those of `listed` that still wait, and new ones where the rule puts them.
    pub fn completed(&self, listed: &[JobId]) -> Vec<u32> {
        let mut list = self.indexes(listed);
        let by_rule = self.problem.listed(ListRule::Work);
        let mut ranks = vec![0; by_rule.len()];
        by_rule.iter().zip(0..).for_each(|(job, rank)| ranks[*job as usize] = rank);
        let known: BTreeSet<u32> = list.iter().copied().collect();
        for job in by_rule.iter().filter(|job| !known.contains(job)) {
            let after = list.iter().position(|other| ranks[*other as usize] > ranks[*job as usize]);
            list.insert(after.unwrap_or(list.len()), *job);
        }
        list
    }

    /// Returns a list by the numbers of its jobs.
    pub fn numbers(&self, list: &[u32]) -> Vec<JobId> {
        list.iter().filter_map(|job| self.jobs.get(*job as usize)).map(|(id, _)| *id).collect()
    }
}

fn add(digest: &mut Digest, value: u64) {
    *digest = digest.with(&value.to_le_bytes());
}

/// The nodes that take jobs now.
struct PresentNodes {
    takes_jobs: Vec<bool>,
    by_class: Vec<u64>,
}

impl PresentNodes {
    fn of(view: &View<'_>) -> Self {
        let (now, classes) = (view.now(), &view.index().classes);
        let takes_jobs: Vec<bool> = view.nodes().iter().map(|node| node.is_available(now)).collect();
        let mut by_class = vec![0; classes.len()];
        for node in view.nodes().iter().filter(|node| node.is_available(now)) {
            if let Some((class, _)) = classes.place_of(node.id) {
                by_class[class] += 1;
            }
        }
        Self { takes_jobs, by_class }
    }

    fn has(&self, node: NodeId) -> bool {
        self.takes_jobs.get(node.0 as usize).is_some_and(|takes| *takes)
    }

    /// Returns true if these nodes would suffice for a job if they were empty.
    fn suffice(&self, view: &View<'_>, Asker { job, shape }: Asker<'_>) -> bool {
        let request: &Request = &job.request;
        let wanted = u64::from(request.nodes.get());
        let mut found = 0_u64;
        for way in &shape.ways {
            let nodes = if asks_each(view, shape) {
                let nodes = view.index().classes.class(way.class).nodes.iter();
                let nodes = nodes.filter(|id| self.has(**id)).filter_map(|id| view.node(*id));
                nodes.filter(|node| view.may_use(request, node)).take(request.nodes.get() as usize).count() as u64
            } else {
                self.by_class[way.class]
            };
            found += nodes.saturating_mul(if request.is_packed() { way.most.into() } else { 1 });
        }
        found >= wanted
    }
}

/// Units by their pools: all that one job could use are in one pool.
struct Pools {
    /// By class and unit.
    of: Vec<Vec<Option<usize>>>,
}

impl Pools {
    fn of(jobs: &[(JobId, Asker<'_>)]) -> Self {
        let mut shapes = BTreeSet::new();
        let mut joined = Joined::default();
        for (_, asker) in jobs {
            if !shapes.insert(asker.shape.number) {
                continue;
            }
            let ways = asker.shape.ways.iter();
            joined.join(ways.clone().map(|way| (way.class, way.unit)));
            joined.join(ways.filter_map(|way| way.host.map(|host| (way.class, host.unit))));
        }
        let mut numbers = BTreeMap::new();
        let mut of: Vec<Vec<Option<usize>>> = Vec::new();
        for (unit, index) in &joined.units {
            let count = numbers.len();
            let number = *numbers.entry(joined.root(*index)).or_insert(count);
            // Pools without a place of their own share the last one.
            let (class, unit) = (unit.0, usize::from(unit.1));
            of.resize_with(of.len().max(class + 1), Vec::new);
            let pools = &mut of[class];
            pools.resize(pools.len().max(unit + 1), None);
            pools[unit] = Some(number.min(MEMORY - 1));
        }
        Self { of }
    }

    fn pool(&self, class: usize, unit: u16) -> Option<usize> {
        *self.of.get(class)?.get(usize::from(unit))?
    }

    /// Returns what is free from now on: the nodes that take jobs without the running jobs, until these end.
    fn supply(&self, view: &View<'_>, nodes: &PresentNodes, digest: &mut Digest) -> Supply {
        let (now, classes) = (view.now(), &view.index().classes);
        let mut free = Amounts::default();
        for node in view.nodes().iter().filter(|node| nodes.has(node.id)) {
            let Some((class, _)) = classes.place_of(node.id) else { continue };
            for (unit, spec) in (0..).zip(&node.spec.units) {
                if let Some(pool) = self.pool(class, unit) {
                    free[pool] += i64::from(spec.cores);
                }
            }
            free[MEMORY] = free[MEMORY].saturating_add(bytes(node.spec.memory));
        }
        free.iter().for_each(|amount| add(digest, *amount as u64));
        let (limits, draw) = limits(view);
        limits.first().into_iter().for_each(|(_, high)| free[POWER] = high.saturating_sub(draw.mw()));
        limits.iter().for_each(|(_, high)| add(digest, *high as u64));
        let mut changes = Vec::new();
        for (id, job) in view.active() {
            let taken = self.taken(view, job, nodes);
            let Some(end) = job.expected_end(now) else { continue };
            add(digest, id.0);
            // Its draw is in that of the cluster.
            free.iter_mut().zip(&taken).take(POWER).for_each(|(free, taken)| *free -= taken);
            changes.push(((end - now).ms(), taken));
        }
        join_late_ends(&mut changes);
        changes.extend(limits.windows(2).map(|pair| {
            let mut change = Amounts::default();
            change[POWER] = pair[1].1 - pair[0].1;
            (pair[1].0, change)
        }));
        Supply::with_changes(free, changes)
    }

    /// Returns what a job has on nodes that take jobs.
    fn taken(&self, view: &View<'_>, job: &Job, nodes: &PresentNodes) -> Amounts {
        let classes = &view.index().classes;
        let mut taken = Amounts::default();
        let Some(assignment) = job.assignment() else { return taken };
        for part in &assignment.placement {
            for unit in part.units() {
                let place = classes.place_of(unit.node).filter(|_| nodes.has(unit.node));
                let Some((class, _)) = place else { continue };
                if let Some(pool) = self.pool(class, unit.unit) {
                    let all = || classes.class(class).units.get(usize::from(unit.unit)).map_or(0, |spec| spec.cores);
                    taken[pool] += i64::from(if assignment.alone { all() } else { part.cores });
                }
                taken[MEMORY] = taken[MEMORY].saturating_add(bytes(part.memory));
            }
        }
        taken[POWER] = assignment.draw.mw();
        taken
    }

    /// Returns a waiting job: the least that it needs on any class.
    fn entry(&self, view: &View<'_>, Asker { job, shape }: Asker<'_>) -> Entry {
        let request: &Request = &job.request;
        let need = shape.need(Known::of(view.state()), &view.index().classes, request);
        let nodes = i64::from(request.nodes.get());
        let units = i64::try_from(units_wanted(request)).unwrap_or(i64::MAX);
        let mut needs = Amounts::default();
        let mut take = |amounts: &mut dyn Iterator<Item = (usize, u16, i64)>| {
            let least = amounts.min_by_key(|(.., amount)| *amount);
            if let Some((class, unit, amount)) = least
                && let Some(pool) = self.pool(class, unit)
            {
                needs[pool] += amount.saturating_mul(nodes);
            }
        };
        // Chunks of a packed job may share a node that no other job shares.
        let has_units = request.exclusive && !request.is_packed();
        let cores = |way: &Way| i64::from(if has_units { way.cores } else { way.takes });
        take(&mut shape.ways.iter().map(|way| (way.class, way.unit, cores(way).saturating_mul(units))));
        let host = |way: &Way| way.host.map(|host| (way.class, host.unit, i64::from(host.cores)));
        take(&mut shape.ways.iter().filter_map(host));
        needs[MEMORY] = bytes(request.memory).saturating_mul(nodes);
        needs[POWER] = if view.parts().heeds_upper_limit() { need.power.max(0) } else { 0 };
        // Equation 2 of power-capping-2018.
        let weight = view.settings().queues.weight(request.queue.as_deref());
        Entry { weight, ms: need.span, needs, is_held: false }
    }
}

/// Joins ends that are not among the next ones, each with some later ones, so that a schedule has few steps. Resources
/// are never free too early.
fn join_late_ends(ends: &mut [(i64, Amounts)]) {
    let mut times: Vec<i64> = ends.iter().map(|(at, _)| *at).collect();
    times.sort_unstable();
    let late = times.get(NEXT_ENDS..).unwrap_or_default();
    let each = late.len().div_ceil(STEPS).max(1);
    let steps: Vec<i64> = late.chunks(each).filter_map(|some| some.last().copied()).collect();
    let first = late.first().copied().unwrap_or(i64::MAX);
    for (at, _) in ends.iter_mut().filter(|(at, _)| *at >= first) {
        *at = steps.get(steps.partition_point(|step| step < at)).copied().unwrap_or(*at);
    }
}

/// Returns the upper limits from now on, in ms from now and mW, and the draw that counts against them; none if the
/// admission does not count power.
fn limits(view: &View<'_>) -> (Vec<(i64, i64)>, Power) {
    let draw = match view.parts().admission {
        AdmissionRule::Resources => return (vec![(0, UNLIMITED)], Power::ZERO),
        AdmissionRule::Band => view.draw(),
        _ => view.estimated_draw(),
    };
    let (now, is_rate) = (view.now(), view.parts().admission == AdmissionRule::Rate);
    let budgets = if is_rate { view.settings().budgets.from_then_on(now) } else { &[] };
    let mut times: Vec<Time> = view.limits().bands(now).map(|(at, _)| at).take(LIMIT_CHANGES).collect();
    for budget in budgets {
        times.extend([budget.from, budget.until]);
        times.extend(view.release_of(budget).into_iter().map(|(at, _)| at));
    }
    times.retain(|at| *at > now);
    times.sort_unstable();
    times.dedup();
    let high = |at: Time| {
        let rate = if is_rate { view.rate_at(at) } else { None };
        let high = view.settings().ceiling(view.limits().band(at)).min(rate.unwrap_or(Power::MAX));
        if high.is_unlimited() { UNLIMITED } else { high.mw() }
    };
    let all = std::iter::once(now).chain(times.into_iter().take(LIMIT_CHANGES));
    (all.map(|at| ((at - now).ms(), high(at))).collect(), draw)
}

/// Units with those that they share a pool with.
#[derive(Default)]
struct Joined {
    units: BTreeMap<(usize, u16), usize>,
    parents: Vec<usize>,
}

impl Joined {
    fn index(&mut self, unit: (usize, u16)) -> usize {
        let next = self.parents.len();
        let index = *self.units.entry(unit).or_insert(next);
        if index == next {
            self.parents.push(next);
        }
        index
    }

    fn root(&self, mut index: usize) -> usize {
        while self.parents[index] != index {
            index = self.parents[index];
        }
        index
    }

    fn join(&mut self, units: impl Iterator<Item = (usize, u16)>) {
        let mut first = None;
        for unit in units {
            let index = self.index(unit);
            let root = self.root(index);
            let first = *first.get_or_insert(root);
            let of_first = self.root(first);
            self.parents[root] = of_first;
        }
    }
}
