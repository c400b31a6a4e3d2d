//! Arbiter of limits: combines the limits of all sources with the operator's band into one curve. Pure: times are
//! passed in.
//!
//! The rule, at any instant:
//! 1. Of the limits that are neither obligatory nor an emergency, the one whose source has the lowest number holds.
//!    Within a source the limit with the lowest number holds; among equals the one with the lower upper limit.
//! 2. It narrows the operator's band. It replaces that band only if its source may widen and has a lower number than
//!    the operator.
//! 3. All limits of obligatory sources and all emergencies narrow the result, regardless of their numbers.
//! 4. During an emergency no lower limit applies. A lower limit above the upper one is reduced to it.
//!
//! The curve assumes that every source continues as it is: the end of failsafe is foreseen, the loss of a source is
//! not.

use std::collections::BTreeSet;

use limo_model::{Band, Curve, Power, Span, Time};
use serde::{Deserialize, Serialize};

use super::limit::{Limit, Source, Word};
use super::standing::{Mode, Standing};

/// Sources with their states.
#[derive(Debug, Clone)]
pub struct Arbiter {
    sources: Vec<(Source, Standing)>,
    operator_priority: u32,
}

/// State that outlasts the process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Identified by name.
    pub sources: Vec<KeptSource>,
}

/// Last message of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptSource {
    /// Name in the configuration.
    pub name: String,
    /// Last limits of the source.
    pub limits: Vec<Limit>,
    /// Time at which the failsafe limit came into force, if it is in force.
    pub failsafe_since: Option<Time>,
}

/// State of a source, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Name in the configuration.
    pub name: String,
    /// State of the connection.
    pub mode: Mode,
    /// Time of the last message in this process.
    pub heard: Option<Time>,
    /// Reason why the last attempt failed, if it did.
    pub fault: Option<String>,
    /// The limit that counts now: the strictest upper limit for an obligatory source or an emergency, else the one with
    /// the lowest number.
    pub limit: Option<Limit>,
}

/// Limit with its source.
#[derive(Debug, Clone, Copy)]
struct Claim<'a> {
    source: &'a Source,
    limit: Limit,
}

impl Claim<'_> {
    fn binds(&self) -> bool {
        self.source.obligatory || self.limit.emergency
    }

    fn rank(&self) -> (u32, u32, Power, Power) {
        (self.source.priority, self.limit.priority, self.limit.high, self.limit.low)
    }
}

impl Arbiter {
    /// Makes an arbiter with the state of an earlier process; drops the state of removed sources.
    pub fn new(sources: Vec<Source>, operator_priority: u32, kept: Kept, now: Time) -> Self {
        let mut kept = kept.sources;
        let standing = |source: Source| {
            let found = kept.iter().position(|kept| kept.name == source.name).map(|index| kept.swap_remove(index));
            let standing = match found {
                Some(kept) => Standing::kept(&source, kept.limits, kept.failsafe_since, now),
                None => Standing::new(&source, now),
            };
            (source, standing)
        };
        Self { sources: sources.into_iter().map(standing).collect(), operator_priority }
    }

    /// Returns true if there is no source.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Takes a message of the source with this index.
    pub fn hear(&mut self, now: Time, source: usize, word: Word) {
        if let Some((source, standing)) = self.sources.get_mut(source) {
            standing.hear(source, now, word);
        }
    }

    /// Handles everything that is due at `now`.
    pub fn advance(&mut self, now: Time) {
        for (source, standing) in &mut self.sources {
            standing.advance(source, now);
        }
    }

    /// Returns when the curve may change without a message.
    pub fn deadline(&self) -> Option<Time> {
        self.sources.iter().filter_map(|(source, standing)| standing.deadline(source)).min()
    }

    /// Shifts recorded times, because the wall clock was set forward by `by`.
    pub fn clock_jumped(&mut self, by: Span) {
        self.sources.iter_mut().for_each(|(_, standing)| standing.clock_jumped(by));
    }

    /// Returns the state for the next process.
    pub fn kept(&self) -> Kept {
        let keep = |(source, standing): &(Source, Standing)| KeptSource {
            name: source.name.clone(),
            limits: standing.limits.clone(),
            failsafe_since: match standing.mode {
                Mode::Failsafe { since, .. } => Some(since),
                Mode::Ok | Mode::Stale => None,
            },
        };
        Kept { sources: self.sources.iter().map(keep).collect() }
    }

    /// Returns a report for each source, in the order of the configuration.
    pub fn reports(&self, now: Time) -> Vec<Report> {
        let report = |(source, standing): &(Source, Standing)| {
            let claims = standing.counting(source).filter(|limit| limit.covers(now));
            let claims = claims.map(|limit| Claim { source, limit });
            let strictest = |claim: &Claim| (!claim.binds(), claim.binds().then_some(claim.limit.high), claim.rank());
            Report {
                name: source.name.clone(),
                mode: standing.mode,
                heard: standing.heard,
                fault: standing.fault.clone(),
                limit: claims.min_by_key(strictest).map(|claim| claim.limit),
            }
        };
        self.sources.iter().map(report).collect()
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        let of = |(source, standing)| Standing::counting(standing, source).map(move |limit| Claim { source, limit });
        self.sources.iter().map(|(source, standing)| (source, standing)).flat_map(of).collect()
    }

    /// Returns the band at `at`, if the operator's is `operator` then.
    pub fn band_at(&self, at: Time, operator: Band) -> Band {
        let claims = self.claims();
        self.decide(operator, claims.iter().filter(|claim| claim.limit.covers(at)))
    }

    fn decide<'a>(&self, operator: Band, claims: impl Iterator<Item = &'a Claim<'a>> + Clone) -> Band {
        let chosen = claims.clone().filter(|claim| !claim.binds()).min_by_key(|claim| claim.rank());
        let (mut low, mut high) = (operator.low(), operator.high());
        if let Some(Claim { source, limit }) = chosen {
            if source.may_widen && source.priority < self.operator_priority {
                (low, high) = (limit.low, limit.high);
            } else {
                (low, high) = (low.max(limit.low), high.min(limit.high));
            }
        }
        let mut emergency = false;
        for Claim { limit, .. } in claims.filter(|claim| claim.binds()) {
            (low, high) = (low.max(limit.low), high.min(limit.high));
            emergency |= limit.emergency;
        }
        let low = if emergency { Power::ZERO } else { low.min(high) };
        // Neither negative nor crossed: both come from bands, and `low` is at most `high`.
        Band::new(low, high).unwrap_or(operator)
    }

    /// Returns the band from `now` on, for the operator's `operator`. Its first step is at `now`.
    pub fn curve(&self, now: Time, operator: &Curve<Band>) -> Curve<Band> {
        let claims = self.claims();
        let starts = |claim: &Claim| claim.limit.from.max(now);
        let mut starting: Vec<usize> = (0..claims.len()).collect();
        starting.sort_by_key(|index| starts(&claims[*index]));
        let mut instants: BTreeSet<Time> = operator.changes(now).map(|(at, _)| at).collect();
        instants.insert(now);
        for claim in &claims {
            instants.extend([Some(claim.limit.from), claim.limit.until].into_iter().flatten().filter(|at| *at > now));
        }
        let (mut active, mut next) = (Vec::new(), 0);
        let mut steps: Vec<(Time, Band)> = Vec::new();
        for at in instants {
            while let Some(index) = starting.get(next).filter(|index| starts(&claims[**index]) <= at) {
                active.push(&claims[*index]);
                next += 1;
            }
            active.retain(|claim| claim.limit.covers(at));
            let band = self.decide(operator.band(at), active.iter().copied());
            if steps.last().is_none_or(|(_, before)| *before != band) {
                steps.push((at, band));
            }
        }
        // The curve ends when the operator's does, unless a source sets a limit from then on.
        let until = operator.until().filter(|until| *until > now && steps.last() == Some(&(*until, Band::UNLIMITED)));
        steps.truncate(steps.len() - usize::from(until.is_some()));
        // There is a step at `now`, the steps ascend, and the end is after the last of them.
        Curve::new(steps, until).unwrap_or_else(|_| operator.clone())
    }
}

/// Returns true if two curves are equal from `now` on.
pub fn same_from(now: Time, one: &Curve<Band>, other: &Curve<Band>) -> bool {
    let future = |curve: &Curve<Band>| {
        let mut steps = vec![(now, curve.band(now))];
        for (at, band) in curve.bands(now) {
            if steps.last().is_none_or(|(_, before)| *before != band) {
                steps.push((at, band));
            }
        }
        (steps, curve.until().filter(|until| *until > now))
    };
    future(one) == future(other)
}

#[cfg(test)]
mod tests;
