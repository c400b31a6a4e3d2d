//! A random run, with properties that hold after every step and at its end.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Band, Curve, Energy, JobId, ModeSetting, NodeId, Part, Power, Preset, Quotas, Span, Time, UnitId};
use limo_sched::{Allocation, Event, Job, Options, Phase, Round, Sleep};
use proptest::prelude::*;

use super::with::{with_accounts, with_groups, with_licences, with_packs, with_queues, with_ranges};
use super::{Step, budgets, config, predictions, reservation, with_pauses, with_variation};
use crate::world::World;

/// Returns the world after these steps. Checks the properties after each of them.
pub fn run_of(world: World, steps: &[Step]) -> World {
    Run::of(world, steps).world
}

/// Checks all properties of a cluster with a policy's options and the draws of applications.
pub fn keeps_the_rules(
    preset: Preset,
    options: impl Strategy<Value = Options>,
    step: impl Strategy<Value = Step>,
    cluster: impl Fn(Preset, Options, [i64; 6]) -> World,
) {
    keeps_in(config(), (preset, options), step, cluster);
}

/// Checks the properties in this number of cases.
pub fn keeps_in(
    config: ProptestConfig,
    (preset, options): (Preset, impl Strategy<Value = Options>),
    step: impl Strategy<Value = Step>,
    cluster: impl Fn(Preset, Options, [i64; 6]) -> World,
) {
    let draws = proptest::array::uniform6(0..60_i64);
    let step = with_ranges(with_accounts(with_licences(with_queues(with_packs(with_pauses(with_variation(step)))))));
    let steps = proptest::collection::vec(with_groups(step), 1..25);
    proptest!(config, |(options in options, draws in draws, steps in steps)| {
        let mut run = Run::of(cluster(preset, options, draws), &steps);
        run.heal();
        run.check_energy();
        run.check_replay(preset, options);
        run.check_forgetful(preset, options);
    });
}

mod accounts;
mod again;
mod asks;
mod groups;
mod licences;
mod nodes;
mod owners;
mod pauses;
mod queues;
mod reasons;
mod settings;

pub use accounts::Limits;

struct Run {
    world: World,
    /// The believed draw integrated by hand, in mW x ms.
    work: i128,
}

impl Run {
    fn of(world: World, steps: &[Step]) -> Self {
        let mut run = Self { world, work: 0 };
        run.queues([(0, false); 2]).expect("two queues");
        run.licences([3; 2]).expect("two licences");
        for step in steps {
            run.happen(step);
            run.round();
        }
        run
    }

    fn pass(&mut self, to: Time) {
        while let Some(at) = self.world.next().filter(|at| *at <= to) {
            self.go(at);
            self.round();
        }
        self.go(to);
    }

    fn go(&mut self, to: Time) {
        let span = (to - self.world.now).max(Span::ZERO);
        self.work += i128::from(self.world.core.sums().drawn().mw()) * i128::from(span.ms());
        self.world.advance(to);
    }

    fn round(&mut self) {
        // Reactions of nodes are events; after them, no command is left.
        while !self.one_round().commands.is_empty() {}
        let again = self.one_round();
        assert!(again.commands.is_empty(), "a second round starts something: {again:?}");
        assert_eq!((again.waits, again.finished), (vec![], vec![]), "a second round has more to say");
        self.check_nodes();
        self.check_upper_limit();
        self.check_conditions();
        self.check_order();
        self.check_reasons();
        self.check_pauses();
        self.check_owners();
        self.check_queues();
    }

    fn one_round(&mut self) -> Round {
        let before = self.shared();
        let round = self.world.round();
        assert_eq!(round.violations, [], "the checker found something");
        self.check_starts(&round);
        self.check_groups(&round);
        self.check_licences(&round);
        self.check_shared(&before);
        round
    }

    /// Checks that resources are used once, that no job is on sleeping resources, and that the draws of the nodes add
    /// up.
    fn check_nodes(&self) {
        let core = &self.world.core;
        let (mut cores, mut memory): (BTreeMap<UnitId, u32>, BTreeMap<NodeId, u64>) = Default::default();
        let mut alone = Vec::new();
        for (_, job) in core.jobs() {
            for part in job.assignment().into_iter().flat_map(|assignment| &assignment.placement) {
                for unit in part.units() {
                    match job.request.exclusive {
                        true => alone.push(unit.node),
                        false => *cores.entry(unit).or_default() += part.cores,
                    }
                    *memory.entry(unit.node).or_default() += part.memory.bytes();
                    let sleep = core.node(unit.node).expect("a node").sleep();
                    let runs = matches!(job.phase, Phase::Running(..));
                    assert!(sleep == Sleep::Awake || (sleep == Sleep::Waking && !runs), "a job on a node that sleeps");
                }
            }
        }
        let mut draw = Power::ZERO;
        // A job on several units of a node counts once.
        alone.dedup();
        for node in alone {
            for (id, unit) in core.node(node).expect("a node").units() {
                assert_eq!(
                    cores.insert(id, unit.cores),
                    None,
                    "somebody is beside a job that is to be alone: {node:?}"
                );
            }
        }
        for node in core.nodes() {
            for (id, unit) in node.units() {
                let taken = cores.get(&id).copied().unwrap_or(0);
                assert!(taken <= unit.cores, "{taken} of {} cores", unit.cores);
                assert_eq!(core.cores_used(id), taken);
            }
            let taken = memory.get(&node.id()).copied().unwrap_or(0);
            assert!(taken <= node.spec().memory.bytes(), "{taken} of {}", node.spec().memory);
            assert_eq!(core.memory_used(node.id()).bytes(), taken);
            draw += core.node_draw(node.id());
        }
        assert_eq!(core.sums().drawn(), draw, "the whole is the sum of its nodes");
    }

    /// Checks that no running job could still give power while the believed draw is above the upper limit.
    fn check_upper_limit(&self) {
        let core = &self.world.core;
        let settings = core.settings();
        let high = settings.limits.band(self.world.now).high();
        let stopped = |job: &Job| job.assignment().is_some_and(|assignment| assignment.stop.is_some());
        let leaving: Power =
            core.jobs().filter(|(_, job)| stopped(job)).map(|(_, job)| job.assignment().expect("it is").draw).sum();
        let parts = settings.parts();
        if !(parts.steers() || parts.divides()) || core.sums().draw - leaving <= high {
            return;
        }
        for (id, job) in core.jobs().filter(|(_, job)| !stopped(job) && matches!(job.phase, Phase::Running(..))) {
            let assignment = job.assignment().expect("it runs");
            let is_connected = |node| core.node(node).is_some_and(|node| node.is_connected());
            if !assignment.placement.iter().flat_map(Part::nodes).all(is_connected) {
                continue;
            }
            // A suspended job on a reserved node would stay beyond its expected end.
            let is_reserved = |name: &String| core.reservations().values().any(|of| of.nodes.contains(name));
            let name = |part: &Part| core.node(part.unit.node).expect("a node").spec().name.clone();
            let stays = assignment.placement.iter().map(name).any(|name| is_reserved(&name));
            let gives = parts.steers() && (job.request.may_suspend && !stays || job.request.may_requeue);
            assert!(!gives || assignment.draw.is_zero(), "job {id} could give way: {job:?}");
            // The units of a job on several units keep the cap of its start.
            if self.shares_with_wide(&assignment.placement) {
                continue;
            }
            let part = assignment.placement[0];
            let node = core.node(part.unit.node).expect("a node");
            let unit = &node.spec().units[usize::from(part.unit.unit)];
            // A unit that did not confirm a cap in time counts as one that obeys none.
            if parts.divides() && node.cap_range(part.unit.unit).is_none() {
                continue;
            }
            // Readings here are random: a unit may seem to disobey its cap.
            if unit.caps.is_some_and(|(low, _)| node.cap(part.unit.unit) == Some(low)) {
                continue;
            }
            let floor = unit.caps.map(|(low, _)| low.scaled(part.cores.into(), unit.cores.into()));
            // Caps are divided with a precision of a thousandth of the draw.
            let most = floor.unwrap_or(Power::MAX).max(assignment.estimate.power.scaled(1, 1_000));
            assert!(assignment.draw <= most + Power::from_mw(1), "job {id} draws more than {most}: {job:?}");
        }
    }

    /// Returns true if one of the units belongs to a job on several units.
    fn shares_with_wide(&self, placement: &[Part]) -> bool {
        let units = |placement: &[Part]| placement.iter().flat_map(Part::units).collect::<BTreeSet<UnitId>>();
        let own = units(placement);
        let others = self.world.core.jobs().filter_map(|(_, job)| job.assignment()).map(|of| units(&of.placement));
        others.filter(|units| units.len() > 1).any(|units| !units.is_disjoint(&own))
    }

    fn node(&self, number: u8) -> NodeId {
        NodeId(u32::from(number) % u32::try_from(self.world.core.nodes().len()).expect("few"))
    }

    fn job(&self, number: u8) -> Option<JobId> {
        let jobs: Vec<JobId> = self.world.core.jobs().map(|(id, _)| id).collect();
        jobs.get(usize::from(number) % jobs.len().max(1)).copied()
    }

    /// Returns any job: sometimes a task that is not a job yet, or a finished job.
    fn anybody(&self, number: u8) -> Option<JobId> {
        let any = JobId(u64::from(number) % self.world.core.next_job().0);
        if number.is_multiple_of(4) { Some(any) } else { self.job(number) }
    }

    fn happen(&mut self, step: &Step) {
        let by = || "root".to_owned();
        let now = self.world.now;
        // The core decides if an event is possible now.
        let _ = match step {
            Step::Submit(ask) => {
                let submitted = self.submit(ask);
                if submitted.is_ok() {
                    self.check_asked();
                }
                submitted
            }
            Step::Cancel(index) => {
                let Some(job) = self.anybody(*index) else { return };
                self.world.apply(Event::CancelRequested { job, by: by() })
            }
            Step::Hold(index) => {
                let Some(job) = self.job(*index) else { return };
                self.world.apply(Event::Held { job, by: by() })
            }
            Step::Requeue(index) => {
                let Some(job) = self.job(*index) else { return };
                self.world.apply(Event::RequeueRequested { job, by: by() })
            }
            Step::Vary(node, application, factors) => self.vary(*node, *application, *factors),
            Step::Suspend(index) => self.suspend(*index),
            Step::Continue(index) => self.resume(*index),
            Step::Release(index) => {
                let Some(job) = self.job(*index) else { return };
                self.world.apply(Event::Released { job, by: by() })
            }
            Step::Priority(index, priority) => {
                let Some(job) = self.job(*index) else { return };
                let cores = if index.is_multiple_of(3) { None } else { Some(u32::from(*index) % 4) };
                let predicted = cores.map_or_else(Vec::new, |cores| predictions(cores, i64::from(*priority)));
                let _ = self.world.apply(Event::Predicted { job, predicted });
                let limit = (priority % 3 != 0).then(|| Span::from_secs(i64::from(priority.abs()) + 1));
                let _ = self.world.apply(Event::TimeLimitSet { job, limit, by: by() });
                self.world.apply(Event::PrioritySet { job, priority: *priority, by: by() })
            }
            Step::Fairshare(weights, half_life, cores, share) => self.fairshare(*weights, *half_life, (*cores, *share)),
            Step::Queues(queues) => self.queues(*queues),
            Step::Licences(counts) => self.licences(*counts),
            Step::Accounts(limits) => self.accounts(*limits),
            Step::Qos(limits) => self.qos(*limits),
            Step::Groups(groups) => self.groups(*groups),
            Step::Reboot(node, step) => self.reboot(*node, *step),
            Step::Owner(node, comes) => self.owner(*node, *comes),
            Step::Quota(user, quota) => self.quota(usize::from(*user), *quota),
            Step::Pass(secs) => {
                self.pass(now + Span::from_secs(*secs));
                Ok(())
            }
            Step::Away(index) => self.world.apply(Event::NodeAway { node: self.node(*index) }),
            Step::Lose(index) => self.lose(self.node(*index)),
            Step::Confirm(index) => {
                let event = Event::DrawReleased { node: self.node(*index), kept: Vec::new(), by: by() };
                self.world.apply(event)
            }
            Step::Up(index, more) => self.up(self.node(*index), *more),
            Step::Drain(index) => {
                self.world.apply(Event::NodeDrained { node: self.node(*index), reason: "test".into(), by: by() })
            }
            Step::Resume(index) => self.world.apply(Event::NodeResumed { node: self.node(*index), by: by() }),
            Step::Limits(low, above, until) => self.limits(*low, *above, *until),
            Step::Prices(eur) => self.prices(eur),
            Step::Mode(mode) => self.world.apply(Event::ModeSet { mode: *mode, by: by() }),
            Step::Reading(index, draw) => {
                self.world.apply(Event::Readings { draws: vec![(self.node(*index), Power::from_watts(*draw))] })
            }
            Step::Silence(index) => {
                self.world.silent.insert(self.node(*index));
                Ok(())
            }
            Step::TakeBack => {
                self.take_back();
                Ok(())
            }
            Step::Slow(is_slow) => {
                self.world.is_slow = *is_slow;
                Ok(())
            }
            Step::SendKept(place) => {
                self.world.send_kept(usize::from(*place));
                Ok(())
            }
            Step::Budgets(periods) => {
                let budgets = budgets(now, self.world.core.idle(), periods);
                self.world.apply(Event::BudgetsSet { budgets, by: by() })
            }
            Step::Metered(joules) => self.world.apply(Event::Metered { energy: Energy::from_joules(*joules) }),
            Step::Reserve(which, nodes, when, users) => {
                let reservation = Some(Box::new(reservation(&self.world.core, now, (*nodes, *when, *users))));
                self.world.apply(Event::ReservationSet { name: format!("r{which}"), reservation, by: by() })
            }
            Step::Unreserve(which) => {
                self.world.apply(Event::ReservationSet { name: format!("r{which}"), reservation: None, by: by() })
            }
            Step::Rest(rest) => self.choose(|options| options.rest = *rest),
            Step::Allocation(allocation) => self.choose(|options| options.allocation = *allocation),
        };
    }

    /// Repairs everything, then expects every job to end. Budgets stay: their periods end.
    fn heal(&mut self) {
        self.world.silent.clear();
        self.world.is_slow = false;
        while !self.world.kept.is_empty() {
            self.world.send_kept(0);
            self.round();
        }
        while self.take_back() {}
        let held = self.world.core.jobs().filter(|(_, job)| job.held.is_some()).map(|(id, _)| id);
        for job in held.collect::<Vec<_>>() {
            self.world.apply(Event::Released { job, by: "root".into() }).expect("it is held");
        }
        self.resume_all();
        for name in self.world.core.reservations().keys().cloned().collect::<Vec<_>>() {
            let none = Event::ReservationSet { name, reservation: None, by: "root".into() };
            self.world.apply(none).expect("it is there");
        }
        // Their time has passed, or the reservation was removed.
        let waits = |job: &Job| job.request.reservation.is_some() && matches!(job.phase, Phase::Waiting(_));
        let late = self.world.core.jobs().filter(|(_, job)| waits(job)).map(|(id, _)| id);
        for job in late.collect::<Vec<_>>() {
            // A job may end together with another one on which it depends.
            let _ = self.world.apply(Event::CancelRequested { job, by: "root".into() });
        }
        for index in 0..u8::try_from(self.world.core.nodes().len()).expect("few") {
            self.happen(&Step::Confirm(index));
            self.happen(&Step::Up(index, 0));
            self.happen(&Step::Resume(index));
            self.happen(&Step::Reboot(index, 0));
        }
        // Fillers wait for a lower limit, and no other limit is set.
        let limits = Curve::constant(Band::new(Power::from_watts(100_000), Power::MAX).expect("a band"));
        self.world.apply(Event::LimitsSet { limits, by: "root".into() }).expect("limits");
        self.world.apply(Event::ModeSet { mode: ModeSetting::Auto, by: "root".into() }).expect("a mode");
        self.world.apply(Event::PricesSet { prices: None, by: "root".into() }).expect("no prices");
        // The equal nodes may have no row that is long enough for every job.
        self.choose(|options| options.allocation = Allocation::Any).expect("an option");
        self.world.apply(Event::QuotasSet { quotas: Quotas::default(), by: "root".into() }).expect("no quotas");
        self.queues([(0, false); 2]).expect("two queues");
        self.licences([3; 2]).expect("two licences");
        self.accounts([[None; 2]; 3]).expect("three accounts");
        self.qos([[None; 2]; 2]).expect("two QOS");
        self.groups([(0, 0); 2]).expect("no groups");
        self.round();
        self.pass(self.world.now + Span::from_secs(100_000));
        self.round();
        let left: Vec<_> = self.world.core.jobs().collect();
        assert!(left.is_empty(), "these wait for ever: {left:?}");
    }

    fn check_energy(&self) {
        let energy = self.world.core.sums().bill.energy();
        assert_eq!(i128::from(energy.mj()), self.work.div_euclid(1000), "energy is the integral of the draw");
    }
}
