//! Variation of nodes: equal hardware differs in draw and speed from one unit to the next (heterogeneity paper, Table 1).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::id::UnitId;
use crate::profile::Estimate;
use crate::time::Span;
use crate::units::Power;

/// The key of a factor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariationKey {
    /// Name of the application; empty for all applications. See [`crate::application`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub application: String,
    /// The unit.
    pub unit: UnitId,
    /// Cap of the unit; `None` if it has no cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Power>,
}

/// A key with names, for people and files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnitName {
    /// As in [`VariationKey`].
    pub application: String,
    /// Name of the node.
    pub node: String,
    /// Name of the unit on the node.
    pub unit: String,
    /// As in [`VariationKey`].
    pub cap: Option<Power>,
}

/// Ratio of a unit's draw and duration to the typical ones of its hardware, which the profiles have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Draw above idle, in millionths of the typical one.
    pub power: u32,
    /// Duration, in millionths of the typical one.
    pub duration: u32,
    /// Number of runs; 0 if an operator set it.
    #[serde(default)]
    pub runs: u32,
}

/// One, in millionths.
pub const MILLION: u32 = 1_000_000;

/// The factors of units.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(VariationKey, Factor)>", into = "Vec<(VariationKey, Factor)>")]
pub struct Variation {
    applications: BTreeMap<String, UnitFactors>,
}

/// The factors of one application, by cap and unit.
type UnitFactors = BTreeMap<(Option<Power>, UnitId), Factor>;

/// The factors that hold for one application.
#[derive(Debug, Clone, Copy)]
pub struct FactorsOf<'a> {
    own: Option<&'a UnitFactors>,
    of_all: Option<&'a UnitFactors>,
}

impl Factor {
    /// The factor of a unit without differences.
    pub const TYPICAL: Self = Self { power: MILLION, duration: MILLION, runs: 0 };
    /// Both factors are above this one, in millionths: a tenth.
    pub const ABOVE: u32 = MILLION / 10;
    /// Both factors are below this one, in millionths: ten.
    pub const BELOW: u32 = 10 * MILLION;

    /// Returns true if both factors are between [`Self::ABOVE`] and [`Self::BELOW`].
    pub fn is_valid(self) -> bool {
        [self.power, self.duration].into_iter().all(|factor| Self::ABOVE < factor && factor < Self::BELOW)
    }

    /// Returns the energy in millionths of the typical one.
    pub fn energy(self) -> u64 {
        u64::from(self.power) * u64::from(self.duration) / u64::from(MILLION)
    }

    /// Returns a draw on the unit, from the typical draw.
    pub fn of_power(self, typical: Power) -> Power {
        typical.scaled(i64::from(self.power), i64::from(MILLION))
    }

    /// Returns a duration on the unit, from the typical duration.
    pub fn of_span(self, typical: Span) -> Span {
        typical.scaled(i64::from(self.duration), i64::from(MILLION))
    }

    /// Returns the estimate for the unit, from the typical estimate.
    pub fn of_estimate(self, typical: Estimate) -> Estimate {
        let energy = typical.energy.scaled(i64::from(self.power), i64::from(MILLION));
        Estimate {
            duration: self.of_span(typical.duration),
            power: self.of_power(typical.power),
            energy: energy.scaled(i64::from(self.duration), i64::from(MILLION)),
            ..typical
        }
    }

    /// Returns the factor under a cap that slows the unit down: all units draw the cap, and one that would draw more runs
    /// that much longer.
    fn under_unmeasured_cap(self) -> Self {
        let duration = self.energy().clamp(u64::from(Self::ABOVE) + 1, u64::from(Self::BELOW) - 1);
        Self { power: MILLION, duration: u32::try_from(duration).unwrap_or(Self::BELOW - 1), ..self }
    }
}

impl Variation {
    /// Returns true if there are no factors.
    pub fn is_empty(&self) -> bool {
        self.applications.is_empty()
    }

    /// Number of factors.
    pub fn len(&self) -> usize {
        self.applications.values().map(BTreeMap::len).sum()
    }

    /// Sets or, with `None`, removes a factor.
    pub fn set(&mut self, key: &VariationKey, factor: Option<Factor>) {
        match factor {
            Some(factor) => {
                let factors = self.applications.entry(key.application.clone()).or_default();
                factors.insert((key.cap, key.unit), factor);
            }
            None => {
                if let Some(factors) = self.applications.get_mut(&key.application) {
                    factors.remove(&(key.cap, key.unit));
                    if factors.is_empty() {
                        self.applications.remove(&key.application);
                    }
                }
            }
        }
    }

    /// Removes all factors for which `keeps` returns false.
    pub fn retain(&mut self, mut keeps: impl FnMut(UnitId) -> bool) {
        self.applications.values_mut().for_each(|factors| factors.retain(|(_, unit), _| keeps(*unit)));
        self.applications.retain(|_, factors| !factors.is_empty());
    }

    /// Returns the factor of exactly this key.
    pub fn get(&self, key: &VariationKey) -> Option<Factor> {
        self.applications.get(&key.application)?.get(&(key.cap, key.unit)).copied()
    }

    /// Returns all factors, in the order of applications, caps and units.
    pub fn iter(&self) -> impl Iterator<Item = (VariationKey, Factor)> {
        self.applications.iter().flat_map(|(application, factors)| {
            let key =
                |(cap, unit): (Option<Power>, UnitId)| VariationKey { application: application.clone(), unit, cap };
            factors.iter().map(move |(of, factor)| (key(*of), *factor))
        })
    }

    /// Returns the names of the applications with factors of their own.
    pub fn applications(&self) -> impl Iterator<Item = &str> {
        self.applications.keys().map(String::as_str).filter(|name| !name.is_empty())
    }

    /// Returns the factors for an application.
    pub fn of(&self, application: &str) -> FactorsOf<'_> {
        let own = self.applications.get(application).filter(|_| !application.is_empty());
        FactorsOf { own, of_all: self.applications.get("") }
    }

    /// Returns a unit's factor for an unknown application without a cap: the one for all applications, else the mean over
    /// the applications with a factor (rank of the heterogeneity paper, section 3).
    pub fn blind(&self, unit: UnitId) -> Factor {
        let of = |factors: &UnitFactors| factors.get(&(None, unit)).copied();
        if let Some(factor) = self.applications.get("").and_then(of) {
            return factor;
        }
        let (mut power, mut duration, mut count) = (0, 0, 0);
        for factor in self.applications.values().filter_map(of) {
            power += u64::from(factor.power);
            duration += u64::from(factor.duration);
            count += 1;
        }
        // The mean of 32-bit numbers has 32 bits.
        let mean = |sum: u64| u32::try_from((sum + count / 2) / count.max(1)).unwrap_or(MILLION);
        match count {
            0 => Factor::TYPICAL,
            _ => Factor { power: mean(power), duration: mean(duration), runs: 0 },
        }
    }
}

impl FactorsOf<'_> {
    /// Returns the factor of a unit at a cap: the one for the application at that cap, else without a cap; else the same
    /// for all applications. An unmeasured cap is assumed to limit the draw. The duration then changes with the energy.
    pub fn factor(&self, unit: UnitId, cap: Option<Power>) -> Factor {
        self.known(unit, cap).unwrap_or(Factor::TYPICAL)
    }

    /// Returns the same; `None` if the unit has no factor.
    pub fn known(&self, unit: UnitId, cap: Option<Power>) -> Option<Factor> {
        [self.own, self.of_all].into_iter().flatten().find_map(|factors| {
            let free = || factors.get(&(None, unit)).copied();
            match cap {
                None => free(),
                Some(_) => factors.get(&(cap, unit)).copied().or_else(|| free().map(Factor::under_unmeasured_cap)),
            }
        })
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [power, duration] = [self.power, self.duration].map(|factor| decimal::text(factor.into(), 6));
        write!(f, "this unit: power x {power}, duration x {duration}")?;
        match self.runs {
            0 => Ok(()),
            1 => f.write_str(", from 1 run"),
            runs => write!(f, ", from {runs} runs"),
        }
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let application = if self.application.is_empty() { "every application" } else { &self.application };
        write!(f, "{application} on {}/{}", self.node, self.unit)?;
        match self.cap {
            Some(cap) => write!(f, " at {cap}"),
            None => Ok(()),
        }
    }
}

impl From<Vec<(VariationKey, Factor)>> for Variation {
    fn from(rows: Vec<(VariationKey, Factor)>) -> Self {
        let mut variation = Self::default();
        rows.iter().for_each(|(key, factor)| variation.set(key, Some(*factor)));
        variation
    }
}

impl From<Variation> for Vec<(VariationKey, Factor)> {
    fn from(variation: Variation) -> Self {
        variation.iter().collect()
    }
}

impl Factor {
    /// Weight of the typical value: after this number of runs a learned factor is halfway to their mean.
    const PRIOR_RUNS: i64 = 4;

    /// Returns the factor after another run with this draw and duration, in millionths of the typical ones. The mean of
    /// the n runs counts as n/(n+4), the typical value as the rest. A factor that an operator set is not changed.
    pub fn after_run(known: Option<Self>, power: u32, duration: u32) -> Self {
        if let Some(set) = known.filter(|known| known.runs == 0) {
            return set;
        }
        let before = known.unwrap_or(Self::TYPICAL);
        let runs = i64::from(before.runs);
        let learned = |known: u32, found: u32| {
            // The sum over the runs of the difference from one follows from the shrunk mean.
            let difference = i64::from(known) - i64::from(MILLION);
            let sum = difference * (runs + Self::PRIOR_RUNS) + i64::from(found) - i64::from(MILLION);
            let shrunk = i64::from(MILLION) + sum / (runs + 1 + Self::PRIOR_RUNS);
            let (above, below) = (i64::from(Self::ABOVE), i64::from(Self::BELOW));
            u32::try_from(shrunk.clamp(above + 1, below - 1)).unwrap_or(MILLION)
        };
        Self {
            power: learned(before.power, power),
            duration: learned(before.duration, duration),
            runs: before.runs.saturating_add(1),
        }
    }
}

/// Returns the ratio of two amounts in millionths, limited to valid factors; `None` if the second is not positive.
pub fn ratio(found: i64, typical: i64) -> Option<u32> {
    if typical <= 0 || found < 0 {
        return None;
    }
    let ratio = i128::from(found) * i128::from(MILLION) / i128::from(typical);
    u32::try_from(ratio.clamp(i128::from(Factor::ABOVE) + 1, i128::from(Factor::BELOW) - 1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Energy, NodeId};

    fn unit(node: u32) -> UnitId {
        UnitId { node: NodeId(node), unit: 0 }
    }

    fn key(application: &str, node: u32, cap: Option<i64>) -> VariationKey {
        VariationKey { application: application.to_owned(), unit: unit(node), cap: cap.map(Power::from_mw) }
    }

    fn factor(power: u32, duration: u32) -> Factor {
        Factor { power: power * 1_000, duration: duration * 1_000, runs: 0 }
    }

    #[test]
    fn an_application_has_its_own_factor_else_that_for_all() {
        let mut variation = Variation::default();
        variation.set(&key("", 1, None), Some(factor(1_100, 1_000)));
        variation.set(&key("cg", 1, None), Some(factor(900, 1_050)));
        variation.set(&key("cg", 1, Some(40_000)), Some(factor(1_000, 1_200)));
        assert_eq!(variation.of("cg").factor(unit(1), None), factor(900, 1_050));
        assert_eq!(variation.of("ep").factor(unit(1), None), factor(1_100, 1_000));
        assert_eq!(variation.of("cg").factor(unit(1), Some(Power::from_mw(40_000))), factor(1_000, 1_200));
        // Without a measurement at the cap: 0.9 x 1.05 = 0.945 of the duration at the full cap.
        assert_eq!(variation.of("cg").factor(unit(1), Some(Power::from_mw(30_000))), factor(1_000, 945));
        assert_eq!(variation.of("cg").factor(unit(2), None), Factor::TYPICAL);
        variation.set(&key("", 1, None), None);
        assert_eq!(variation.of("ep").factor(unit(1), None), Factor::TYPICAL);
    }

    #[test]
    fn the_blind_factor_is_the_mean_over_applications() {
        let mut variation = Variation::default();
        variation.set(&key("hpcg", 3, None), Some(factor(1_100, 1_000)));
        variation.set(&key("stream", 3, None), Some(factor(1_000, 1_200)));
        assert_eq!(variation.blind(unit(3)), factor(1_050, 1_100));
        variation.set(&key("", 3, None), Some(factor(990, 990)));
        assert_eq!(variation.blind(unit(3)), factor(990, 990));
        assert_eq!(variation.blind(unit(4)), Factor::TYPICAL);
    }

    #[test]
    fn a_learned_factor_moves_towards_the_mean_of_the_runs() {
        // Runs at 1.10 and 1.20 of the typical draw: 1/5 of 0.10, then 2/6 of 0.15.
        let first = Factor::after_run(None, 1_100_000, 1_000_000);
        assert_eq!(first, Factor { power: 1_020_000, duration: 1_000_000, runs: 1 });
        let second = Factor::after_run(Some(first), 1_200_000, 1_000_000);
        assert_eq!(second, Factor { power: 1_050_000, duration: 1_000_000, runs: 2 });
        let set = factor(1_300, 1_000);
        assert_eq!(Factor::after_run(Some(set), 900_000, 900_000), set, "an operator's factor stays");
    }

    #[test]
    fn a_factor_changes_an_estimate() {
        let typical = Estimate {
            duration: Span::from_secs(100),
            power: Power::from_mw(50_000),
            energy: Energy::from_mj(5_000_000),
            source: crate::EstimateSource::Learned,
            runs: 7,
        };
        let found = factor(1_100, 1_200).of_estimate(typical);
        assert_eq!((found.duration, found.power), (Span::from_secs(120), Power::from_mw(55_000)));
        assert_eq!(found.energy, Energy::from_mj(6_600_000));
        assert!(Factor::TYPICAL.is_valid() && !factor(100, 1_000).is_valid() && !factor(1_000, 10_000).is_valid());
    }

    #[test]
    fn a_table_is_stored_as_a_list() {
        let mut variation = Variation::default();
        variation.set(&key("cg", 1, Some(5)), Some(factor(900, 1_050)));
        variation.set(&key("", 0, None), Some(factor(1_100, 1_000)));
        let text = serde_json::to_string(&variation).expect("JSON");
        assert_eq!(serde_json::from_str::<Variation>(&text).expect("a table"), variation);
        assert_eq!(variation.len(), 2);
    }
}
