//! Compares an index that was kept up to date with a new one. For debug builds and tests.

use super::{Blocked, Class, Classes, Index, Shapes};
use crate::state::State;
use crate::structure::Levels;

impl Index {
    /// Returns the first part in which this index differs from `found`, which was made from `state` now. Parts that
    /// are computed on demand are compared if both indexes contain them.
    pub fn differs(&self, found: &Self, state: &State) -> Option<&'static str> {
        let Self {
            names,
            classes,
            shapes,
            occupants,
            ends,
            limits,
            warnings,
            allowed,
            awaiting,
            to_stop,
            reopens,
            evictions,
            suspended,
            standing,
            measuring,
            capped,
            held,
            readings,
            unseen,
            hungry,
            untold,
            moldable,
            malleable,
            idle,
            active_draw,
            groups,
            sleeping,
            blocked,
            reserved,
            boundaries,
            payers,
            licences,
            pool,
            resting,
            // These are the results of a round or a plan for the next one.
            counted: _,
            cache: _,
            mode_until: _,
            rooms: _,
            barred: _,
            ranks: _,
        } = self;
        let parts = [
            ("names", *names == found.names),
            ("classes", classes.is_same(&found.classes)),
            ("shapes", shapes.is_same(&found.shapes, state)),
            ("occupants", occupants.is_same(&found.occupants)),
            ("ends", *ends == found.ends),
            ("limits", *limits == found.limits),
            ("warnings", *warnings == found.warnings),
            ("allowed", *allowed == found.allowed),
            ("awaiting", *awaiting == found.awaiting),
            ("to_stop", to_stop.iter().eq(found.to_stop.iter())),
            ("reopens", *reopens == found.reopens),
            ("evictions", *evictions == found.evictions),
            ("suspended", *suspended == found.suspended),
            ("standing", *standing == found.standing),
            ("measuring", *measuring == found.measuring),
            ("capped", *capped == found.capped),
            ("held", *held == found.held),
            ("readings", *readings == found.readings),
            ("unseen", *unseen == found.unseen),
            // Arrays without a task to make now are checked again after a change.
            ("hungry", hungry.is_subset(&found.hungry)),
            ("untold", untold.is_subset(&found.untold)),
            ("moldable", *moldable == found.moldable),
            ("malleable", *malleable == found.malleable),
            ("idle", *idle == found.idle),
            ("active_draw", *active_draw == found.active_draw),
            ("groups", *groups == found.groups),
            ("sleeping", *sleeping == found.sleeping),
            ("blocked", blocked.is_same(&found.blocked)),
            ("reserved", *reserved == found.reserved),
            ("boundaries", *boundaries == found.boundaries),
            ("payers", payers.as_ref().zip(found.payers.as_ref()).is_none_or(|(kept, found)| kept == found)),
            ("licences", *licences == found.licences),
            ("pool", *pool == found.pool),
            ("resting", *resting == found.resting),
        ];
        parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
    }
}

impl Classes {
    fn is_same(&self, found: &Self) -> bool {
        let same = |(kept, found): (&Class, &Class)| {
            (&kept.units, kept.memory, &kept.closed_to, &kept.nodes)
                == (&found.units, found.memory, &found.closed_to, &found.nodes)
                && kept.levels.iter().map(Levels::positions).eq(found.levels.iter().map(Levels::positions))
                && kept.asleep.iter().eq(found.asleep.iter())
                && kept.switching.iter().eq(found.switching.iter())
                && kept.stock.is_same(&found.stock)
                && kept.closed.iter().eq(found.closed.iter())
        };
        self.memory == found.memory
            && self.all().len() == found.all().len()
            && self.all().iter().zip(found.all()).all(same)
    }
}

impl Shapes {
    /// Returns true if the shapes are equal. They are numbered in the order of their first use, and unused ones stay.
    fn is_same(&self, found: &Self, state: &State) -> bool {
        let same = |(place, job): (u64, _)| {
            let Some(job) = state.jobs.get(job) else { return true };
            let shape = self.find(&job.request).zip(found.find(&job.request));
            shape.is_some_and(|(kept, found)| {
                kept.ways == found.ways
                    && kept.asks_each == found.asks_each
                    && kept.waiting.at(place) == found.waiting.at(place)
                    && kept.waiting.at(place).is_some()
            })
        };
        let waiting = |of: &Self| of.all().iter().map(|shape| shape.waiting.len()).sum::<usize>();
        waiting(self) == waiting(found) && state.queue.places().all(same)
    }
}

impl Blocked {
    /// Returns true if the conditions are equal, apart from begins that have come and delivered reasons, which leave no
    /// trace.
    fn is_same(&self, found: &Self) -> bool {
        let all_there = self.untold.iter().all(|id| found.untold.contains(id));
        let names = self.names.as_ref().zip(found.names.as_ref()).is_none_or(|(kept, found)| kept == found);
        self.begins.is_subset(&found.begins) && self.dependents == found.dependents && all_there && names
    }
}
