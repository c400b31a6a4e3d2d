//! Results of earlier searches for power, so that the next search can start later. While the draw only grows, a
//! search that found no start before some time will not find one later. The same holds for jobs that need more power,
//! or need it longer.

use limo_model::{Power, Span, Time};

use super::power::Draw;

/// Number of kept results: the jobs of one plan usually belong to a few applications.
const MOST: usize = 64;

/// Power, duration and begin of a search, and the time before which it found no start.
#[derive(Debug, Clone, Copy)]
struct KnownPower {
    need: Power,
    span: Span,
    from: Time,
    before: Time,
}

impl KnownPower {
    /// Extends a result to another range of times, if nothing lies between.
    fn extend(&mut self, from: Time, before: Time) {
        if self.from <= from && from <= self.before {
            self.before = self.before.max(before);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Powered(Vec<KnownPower>);

impl Powered {
    /// Does the same as [`Draw::earliest`].
    pub fn earliest(&mut self, draw: &Draw, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        let less = |known: &&KnownPower| known.need <= need && known.span <= span && known.from <= from;
        let begin = self.0.iter().filter(less).fold(from, |begin, known| begin.max(known.before));
        if begin > latest {
            return None;
        }
        let found = draw.earliest(need, (begin, latest), span);
        // Times after `latest` were not searched.
        let before = found.unwrap_or(if latest == Time::MAX { latest } else { begin });
        match self.0.iter().position(|known| known.need == need && known.span == span) {
            Some(index) => self.0[index].extend(from, before),
            None if self.0.len() < MOST => self.0.push(KnownPower { need, span, from, before }),
            None => {}
        }
        found
    }

    /// Drops the results, because the draw fell.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
