//! The candidates for jobs, found once for all jobs with the same request, and the obstacles to them. Decides nothing.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::rc::Rc;

use limo_model::{Chunk, Power, Request, Span};

use super::{Offer, Pools, offers};
use crate::future::{Future, Respect};
use crate::view::View;

/// All candidates for a job.
#[derive(Debug)]
pub(in crate::policy) struct Ways {
    offers: Vec<Offer>,
    /// The obstacle to a start now, if no other job is started.
    pub against: OnceCell<Against>,
}

/// The obstacle to a start now, apart from planned jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Against {
    Room,
    Band {
        needs: Power,
        left: Power,
    },
    /// The obstacle is jobs before this one.
    Others,
}

impl Deref for Ways {
    type Target = [Offer];

    fn deref(&self) -> &[Offer] {
        &self.offers
    }
}

/// Everything except the time limit on which candidates depend: jobs with equal keys have the same candidates.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WaysKey<'a> {
    chunk: Chunk,
    nodes: NonZeroU32,
    is_packed: bool,
    exclusive: bool,
    cap: Option<Power>,
    application: &'a str,
    size: &'a str,
    hardware: &'a [String],
    variants: &'a [String],
    queue: Option<&'a str>,
    /// Set if some nodes may be denied to the job.
    named: Option<Named<'a>>,
}

/// Everything that determines the nodes that a job may have: included and excluded nodes, its reservation, and its
/// user.
type Named<'a> = (&'a [String], &'a [String], Option<&'a str>, &'a str);

/// Candidates by time limit.
#[derive(Debug, Default)]
struct ByLimit {
    /// Candidates of all jobs with at least that limit: by the profiles, a job ends before it on any unit.
    longer: Option<(Span, Rc<Ways>)>,
    exactly: BTreeMap<Option<Span>, Rc<Ways>>,
}

/// The candidates found so far for the jobs of a plan.
#[derive(Debug, Default)]
pub(in crate::policy) struct AllWays<'a>(RefCell<BTreeMap<WaysKey<'a>, ByLimit>>);

impl<'a> AllWays<'a> {
    /// Returns all candidates for the job on the nodes of `pools`, which must be the same as in the last call for it.
    pub fn of(&self, view: &View<'_>, pools: &Pools<'a>, request: &'a Request, caps: bool) -> Rc<Ways> {
        let is_named = view.may_be_denied(request);
        let asked = WaysKey {
            chunk: request.chunk(),
            nodes: request.nodes,
            is_packed: request.is_packed(),
            exclusive: request.exclusive,
            cap: request.cap,
            application: &request.application,
            size: &request.size,
            hardware: &request.hardware,
            variants: &request.variants,
            queue: request.queue.as_deref(),
            named: is_named.then(|| {
                (&request.include[..], &request.exclude[..], request.reservation.as_deref(), &request.user[..])
            }),
        };
        let mut all = self.0.borrow_mut();
        let known = all.entry(asked).or_default();
        if let Some((longest, ways)) = &known.longer
            && request.time_limit.is_some_and(|limit| limit >= *longest)
        {
            return ways.clone();
        }
        if let Some(ways) = known.exactly.get(&request.time_limit) {
            return ways.clone();
        }
        let ways = Rc::new(Ways { offers: offers(view, pools, request, caps), against: OnceCell::new() });
        known.exactly.insert(request.time_limit, ways.clone());
        // The allowed nodes depend on the limit if some are reserved. Other candidates depend on it only if it
        // shortens runs.
        let is_plain = !is_named && request.nodes.get() == 1;
        let longest = ways.iter().map(|offer| offer.estimate.duration).max();
        if let Some((longest, limit)) = longest.zip(request.time_limit)
            && is_plain
            && limit > longest
        {
            known.longer = Some((longest, ways.clone()));
        }
        ways
    }

    /// Drops candidates after a placement; `others` is true if the kinds of units changed. Candidates of a job on one
    /// unit of any node stay valid otherwise.
    pub fn forget(&mut self, others: bool) {
        let one = NonZeroU32::MIN;
        let is_plain = |asked: &WaysKey<'_>| {
            let Chunk { accelerators, with_cores, .. } = asked.chunk;
            asked.nodes == one && accelerators.is_none_or(|count| count == one && !with_cores)
        };
        self.0.get_mut().retain(|asked, _| !others && is_plain(asked) && asked.named.is_none());
    }
}

/// The largest free resources of any node now, by class and unit.
pub(in crate::policy) struct Room(BTreeMap<(usize, u16), i64>);

impl Room {
    pub fn of(pools: &Pools<'_>, future: &Future<'_>) -> Self {
        let mut free = BTreeMap::new();
        for (kind, nodes) in &pools.kinds {
            let here = nodes.iter().filter_map(|node| future.free_now(*node, kind.unit)).max();
            let most: &mut i64 = free.entry((kind.class, kind.unit)).or_default();
            *most = here.map_or(*most, |here| here.max(*most));
        }
        Self(free)
    }
}

impl Offer {
    /// Returns true if a job might start by this candidate now. A false result is certain, for any number of planned
    /// jobs.
    pub fn may_begin(&self, future: &Future<'_>, room: &Room, respect: Respect) -> bool {
        let has_room = self.sources.iter().any(|source| {
            let most = room.0.get(&(source.kind.class, source.kind.unit));
            // A job on several units may get other units of the type.
            !source.is_single || most.is_some_and(|most| i64::from(source.taken) <= *most)
        });
        has_room && (respect == Respect::Resources || future.has_power_now(self.estimate.power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::{Core, Event};
    use limo_model::{
        Cores, EstimateSource, Memory, Meter, NodeId, NodeSpec, Part, Preset, Profile, ProfileKey, Time, UnitId,
        UnitKind, UnitSpec,
    };
    use proptest::prelude::*;

    const NOW: Time = Time::from_unix_ms(1_000);

    /// Makes nodes with alternating types of hardware. Runs of one of two applications are known, also under a cap.
    fn core() -> Core {
        let mut core = Core::new(NOW, Preset::Limo, Options::default());
        let caps = Some((Power::from_watts(5), Power::from_watts(60)));
        for index in 0..6 {
            let unit = UnitSpec {
                name: "cpu".into(),
                hardware: ["slow", "fast"][index % 2].into(),
                kind: UnitKind::Cpu,
                cores: 4,
                nameplate: Power::from_watts(30),
                caps,
            };
            let (memory, idle) = (Memory::from_bytes(2), Power::ZERO);
            let spec =
                NodeSpec { name: format!("n{index}"), units: vec![unit], memory, idle, meter: Meter::None, rest: None };
            core.apply(NOW, &Event::NodeUp { spec }).expect("a node");
        }
        for (hardware, cap, secs) in
            [("slow", None, 200), ("fast", None, 100), ("fast", Some(Power::from_watts(8)), 150)]
        {
            let key = ProfileKey {
                application: "a".into(),
                size: String::new(),
                hardware: hardware.into(),
                cores: None,
                nodes: None,
                cap,
            };
            let (power, duration, source) = (Power::from_watts(10), Span::from_secs(secs), EstimateSource::Learned);
            let energy = power * duration;
            let profile = Some(Profile { duration, power, energy, spread_permille: 0, runs: 3, source });
            core.apply(NOW, &Event::ProfileSet { key, profile, by: "root".into() }).expect("a profile");
        }
        core
    }

    fn request() -> impl Strategy<Value = Request> {
        let limit = prop_oneof![Just(None), (90..260_i64).prop_map(Some), Just(Some(100)), Just(Some(200))];
        let named = prop_oneof![4 => Just(""), 1 => Just("n1")];
        let many = prop_oneof![3 => Just(1_u32), 1 => 2..=4_u32];
        (any::<bool>(), 1..=4_u32, limit, named, (many, any::<bool>(), 0..4_u64)).prop_map(
            |(known, cores, limit, named, (nodes, exclusive, memory))| Request {
                cores: Cores::Count(NonZeroU32::new(cores).expect("at least one")),
                nodes: NonZeroU32::new(nodes).expect("at least one"),
                time_limit: limit.map(Span::from_secs),
                exclude: [named].iter().filter(|name| !name.is_empty()).map(|name| (*name).to_owned()).collect(),
                exclusive: exclusive && cores == 1,
                memory: Memory::from_bytes(memory),
                ..Request::one_core(if known { "a" } else { "b" }.to_owned())
            },
        )
    }

    proptest! {
        /// Stored candidates equal newly computed ones, also after placements.
        #[test]
        fn ways_that_are_known_are_the_ways_that_there_are(
            requests in proptest::collection::vec(request(), 1..60),
            puts in proptest::collection::vec((0..60_usize, 0..6_u32, any::<bool>()), 0..8),
        ) {
            let core = core();
            let view = core.view(NOW);
            let mut pools = Pools::of(&view, |_| true);
            let mut all = AllWays::default();
            for (index, request) in requests.iter().enumerate() {
                for (_, node, capped) in puts.iter().filter(|(at, ..)| *at == index) {
                    let (unit, memory) = (UnitId { node: NodeId(*node), unit: 0 }, Memory::ZERO);
                    let cap = capped.then(|| Power::from_watts(8));
                    let others = pools.take(&view, &[Part { unit, count: 1, cores: 1, memory, cap }]);
                    all.forget(others);
                }
                let known = all.of(&view, &pools, request, true);
                prop_assert_eq!(format!("{:?}", known.offers), format!("{:?}", offers(&view, &pools, request, true)));
            }
        }
    }
}
