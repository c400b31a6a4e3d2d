//! What searches for power have found, so that the next one need not begin at the beginning. While the draw only grows,
//! what had no room before some time has none before it later, nor does what needs more or needs it for longer.

use std::collections::BTreeMap;

use limo_model::{Power, Span, Time};

use super::draw::Draw;

/// So many are kept: those of one plan mostly are of a few applications.
const MOST: usize = 64;

/// By what was needed and for how long: from when on it was asked, and that there is no start before then.
#[derive(Debug, Clone, Default)]
pub(super) struct Powered(BTreeMap<(Power, Span), (Time, Time)>);

impl Powered {
    /// The same as [`Draw::earliest`].
    pub fn earliest(&mut self, draw: &Draw, need: Power, (from, latest): (Time, Time), span: Span) -> Option<Time> {
        let key = (need, span);
        let known = self.0.get(&key).copied().filter(|(asked, _)| *asked <= from);
        let begin = known.map_or_else(|| self.begin(need, from, span), |(_, before)| before.max(from));
        if begin > latest {
            return None;
        }
        let found = draw.earliest(need, (begin, latest), span);
        // Beyond `latest` nobody has looked.
        let before = found.unwrap_or_else(|| if latest == Time::MAX { latest } else { begin });
        match self.0.get_mut(&key) {
            // Between the two nobody has looked, where there is anything.
            Some((asked, known)) if *asked <= from && from <= *known => *known = before.max(*known),
            Some(_) => {}
            None => {
                if self.0.len() < MOST {
                    self.0.insert(key, (from, before));
                }
            }
        }
        found
    }

    /// Before when there is no start for what needs less, or needs it for a shorter time.
    fn begin(&self, need: Power, from: Time, span: Span) -> Time {
        let less = self.0.range(..=(need, span));
        let less = less.filter(|((_, shorter), (asked, _))| *shorter <= span && *asked <= from);
        less.map(|(_, (_, before))| *before).fold(from, Time::max)
    }

    /// Something was taken off the draw.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}
