//! The course of worlds: their seeds and steps, and the shortest one that shows a failure.
//!
//! `LIMO_WORLDS` replaces the seeds of all tests: `1000..2000`.

use std::cell::RefCell;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use limo_proto::Data;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::panics::{self, Caught};
use super::*;

/// Numbers of the beginning and the end of a world, beside those of its steps.
pub const BEGINNING: usize = 1 << 20;
pub const END: usize = BEGINNING + 1;

/// Most runs of worlds to shorten a failing one.
const ATTEMPTS: usize = 400;

/// Random numbers of one step.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn of(seed: u64, step: usize) -> Self {
        let mut of_world = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self(Xoshiro256PlusPlus::seed_from_u64(of_world.next_u64() ^ step as u64))
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.0.next_u64() >> 33).expect("31 bits") % sides
    }
}

/// Digest of all messages of a world, in order.
#[derive(Debug, Clone, Default)]
pub struct Trace(DefaultHasher);

impl Trace {
    fn digest(&self) -> u64 {
        self.0.finish()
    }
}

thread_local! {
    /// The messages of a world, if they are recorded.
    static RECORD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

impl World {
    /// Returns a message as its receiver decodes it.
    pub fn across<M: Debug + Serialize + DeserializeOwned>(&mut self, message: M) -> M {
        RECORD.with_borrow_mut(|record| {
            let now = self.bench.now - Time::from_unix_ms(START);
            record.iter_mut().for_each(|record| record.push(format!("{now} {message:.400?}")));
        });
        match self.frame_across(Frame::Message(message)) {
            Frame::Message(message) => message,
            Frame::Data(_) => panic!("a message became data"),
        }
    }

    /// Returns data as its receiver decodes it.
    pub fn data_across(&mut self, data: Data) -> Data {
        match self.frame_across(Frame::<NodeToMaster>::Data(data)) {
            Frame::Data(data) => data,
            Frame::Message(_) => panic!("data became a message"),
        }
    }

    fn frame_across<M: Serialize + DeserializeOwned>(&mut self, frame: Frame<M>) -> Frame<M> {
        let body = frame.encode().expect("within the limit of a frame");
        self.trace.0.write(&body);
        Frame::decode(body).expect("a frame of this protocol")
    }
}

/// Returns the numbers of all steps of a world.
pub fn all_steps(kind: WorldKind) -> Vec<usize> {
    (0..if kind.busy { BUSY_STEPS } else { STEPS }).collect()
}

/// Returns fewer steps of a world that fails at the same place (delta debugging, Zeller and Hildebrandt 2002).
fn shortened(seed: u64, kind: WorldKind, caught: &Caught, errors: &Errors) -> Vec<usize> {
    let (mut steps, mut left) = (all_steps(kind), ATTEMPTS);
    let mut size = steps.len() / 2;
    while size > 0 {
        let before = steps.len();
        let mut at = 0;
        while at < steps.len() && left > 0 {
            left -= 1;
            let without = [&steps[..at], &steps[(at + size).min(steps.len())..]].concat();
            match panics::run(seed, kind, &without, errors) {
                Err(again) if again.place == caught.place => steps = without,
                _ => at += size,
            }
        }
        size = if steps.len() < before && left > 0 { size.min(steps.len()) } else { size / 2 };
    }
    steps
}

/// Returns the seeds of the environment.
fn asked_for() -> Option<Range<u64>> {
    let text = std::env::var("LIMO_WORLDS").ok()?;
    let (from, to) = text.split_once("..").expect("LIMO_WORLDS: two seeds, as in 1000..2000");
    Some(from.parse().expect("a seed")..to.parse().expect("a seed"))
}

/// Runs worlds with the first seeds. Checks that more than `jobs` jobs end, and that events happen as often as listed.
pub fn worlds(seeds: u64, kind: WorldKind, jobs: usize, events: &[(&str, u32)]) {
    let (errors, _guard) = Errors::listen();
    let (mut finished, mut seen) = (0, Seen::default());
    let asked_for = asked_for();
    for seed in asked_for.clone().unwrap_or(1..seeds + 1) {
        match panics::run(seed, kind, &all_steps(kind), &errors) {
            Ok(world) => {
                finished += world.accepted.len();
                seen.add(&world.seen);
            }
            Err(caught) => {
                let steps = shortened(seed, kind, &caught, &errors);
                RECORD.set(Some(Vec::new()));
                let _ = panics::run(seed, kind, &steps, &errors);
                RECORD.take().iter().flatten().for_each(|message| println!("{message}"));
                let Caught { place, message } = caught;
                panic!("seed {seed} of {kind:?}, at {place}: {message}\nas with these steps alone: {steps:?}");
            }
        }
    }
    println!("{kind:?}: {finished} jobs came to their ends");
    if asked_for.is_none() {
        assert!(finished > jobs, "the worlds are too quiet to mean anything: {finished} jobs");
        seen.check(events);
    }
}

#[test]
fn a_seed_gives_the_same_world_again() {
    let (errors, _guard) = Errors::listen();
    let mut digests = BTreeSet::new();
    for kind in WorldKind::busy() {
        for seed in 1..=5 {
            let [first, again] =
                [0, 1].map(|_| World::run(seed, kind, &all_steps(kind), errors.clone()).trace.digest());
            assert_eq!(first, again, "seed {seed} of {kind:?}");
            digests.insert(first);
        }
    }
    assert_eq!(digests.len(), 30, "different worlds have different messages");
}

#[test]
fn a_failing_world_is_shortened() {
    let (errors, _guard) = Errors::listen();
    limo_node::inject(Some(limo_node::Fault::AcknowledgedEarly));
    let kind = WorldKind { busy: true, ..WorldKind::default() };
    let caught = panics::run(1, kind, &all_steps(kind), &errors).err().expect("it fails");
    let steps = shortened(1, kind, &caught, &errors);
    let again = panics::run(1, kind, &steps, &errors).err().expect("it fails, too");
    limo_node::inject(None);
    assert_eq!(again.place, caught.place);
    // A submission, a connection, messages and commits.
    assert!(steps.len() < 60, "{steps:?}");
}
