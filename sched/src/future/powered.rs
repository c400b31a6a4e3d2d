//! What searches for power have found, so that the next one need not begin at the beginning. While the draw only grows,
//! what had no room before some time has none before it later, nor does what needs more or needs it for longer.

use limo_model::{Power, Span, Time};

use super::power::Draw;

/// So many are kept: those of one plan mostly are of a few applications.
const MOST: usize = 64;

/// What was needed, for how long, from when on it was asked, and that there is no start between then and another time.
#[derive(Debug, Clone, Copy)]
struct KnownPower {
    need: Power,
    span: Span,
    from: Time,
    before: Time,
}

impl KnownPower {
    /// The same is known of another time until another one, where nothing lies between.
    fn extend(&mut self, from: Time, before: Time) {
        if self.from <= from && from <= self.before {
            self.before = self.before.max(before);
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Powered(Vec<KnownPower>);

impl Powered {
    /// The same as [`Draw::earliest`].
    pub fn earliest(&mut self, draw: &Draw, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        let less = |known: &&KnownPower| known.need <= need && known.span <= span && known.from <= from;
        let begin = self.0.iter().filter(less).fold(from, |begin, known| begin.max(known.before));
        if begin > latest {
            return None;
        }
        let found = draw.earliest(need, (begin, latest), span);
        // Beyond `latest` nobody has looked.
        let before = found.unwrap_or(if latest == Time::MAX { latest } else { begin });
        match self.0.iter().position(|known| known.need == need && known.span == span) {
            Some(index) => self.0[index].extend(from, before),
            None if self.0.len() < MOST => self.0.push(KnownPower { need, span, from, before }),
            None => {}
        }
        found
    }

    /// Something was taken off the draw.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
