//! Differences between the nodes of a group, drawn from distributions or listed: draws of package and memory, and durations.

use std::str::FromStr;

use limo_model::{Factor, NodeId, Power, UnitId, Variation, VariationKey, decimal, ratio};
use serde::Deserialize;

use super::{Platform, PlatformError};
use crate::generate::Dice;

/// A quality from 0 to 1 with a symmetric triangular distribution: the mean of two uniform numbers.
#[derive(Debug, Clone, Copy)]
pub struct Quality([f64; 2]);

impl Quality {
    /// Draws a quality from uniform numbers of [0, 1).
    pub fn draw(mut unit: impl FnMut() -> f64) -> Self {
        Self([unit(), unit()])
    }

    /// Draws another quality with this correlation, 0 to 1: each of the two numbers is kept with that probability.
    #[must_use]
    pub fn like(self, mut unit: impl FnMut() -> f64, correlation: f64) -> Self {
        Self(self.0.map(|kept| if unit() < correlation { kept } else { unit() }))
    }

    /// Returns the value in a range.
    pub fn within(self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * (self.0[0] + self.0[1]) / 2.0
    }
}

/// Values of the nodes of a group: in mW, or factors in millionths. All are positive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeValues {
    /// One value for each node.
    Listed(Vec<i64>),
    /// Symmetric triangular distribution over this range.
    Triangular(i64, i64),
    /// Uniform distribution over this range.
    Uniform(i64, i64),
}

/// Differences between the nodes of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupVariation {
    /// Draw of the package (PKG) of each node, in mW.
    pub pkg: Option<NodeValues>,
    /// Draw of its memory (DRAM), in mW, independent of it.
    pub dram: Option<NodeValues>,
    /// Duration of runs, in millionths of the typical one.
    pub duration: Option<NodeValues>,
    /// Seed of the distributions.
    pub seed: u64,
}

impl NodeValues {
    /// Returns the typical value: the mean of the list, or the middle of the range.
    fn typical(&self) -> f64 {
        match self {
            Self::Listed(values) => values.iter().map(|value| *value as f64).sum::<f64>() / values.len().max(1) as f64,
            Self::Triangular(low, high) | Self::Uniform(low, high) => (*low as f64 + *high as f64) / 2.0,
        }
    }

    /// Returns the value of the node at `index`.
    fn of(&self, index: usize, dice: &mut Dice) -> f64 {
        match self {
            Self::Listed(values) => values.get(index).copied().unwrap_or_default() as f64,
            Self::Triangular(low, high) => Quality::draw(|| dice.unit()).within((*low as f64, *high as f64)),
            Self::Uniform(low, high) => dice.between(*low as f64, *high as f64),
        }
    }

    fn check(&self, key: &'static str, count: u32) -> Result<(), PlatformError> {
        match self {
            Self::Listed(values) if values.len() != count as usize => {
                Err(PlatformError::Values { key, values: values.len(), count })
            }
            _ => Ok(()),
        }
    }
}

impl GroupVariation {
    pub(super) fn check(&self, count: u32) -> Result<(), PlatformError> {
        let all =
            [("variation.pkg", &self.pkg), ("variation.dram", &self.dram), ("variation.duration", &self.duration)];
        all.into_iter().try_for_each(|(key, values)| values.as_ref().map_or(Ok(()), |values| values.check(key, count)))
    }

    /// Returns the factors of the nodes in their order, in millionths: of the draw, and of the duration.
    fn factors(&self, count: u32) -> impl Iterator<Item = (Option<u32>, Option<u32>)> + '_ {
        let [mut pkg, mut dram, mut duration] = [0, 1, 2].map(|purpose| Dice::of_purpose(self.seed, purpose));
        let typical: f64 = [&self.pkg, &self.dram].into_iter().flatten().map(NodeValues::typical).sum();
        (0..count as usize).map(move |index| {
            let of =
                |values: &Option<NodeValues>, dice: &mut Dice| values.as_ref().map(|values| values.of(index, dice));
            let draws = [of(&self.pkg, &mut pkg), of(&self.dram, &mut dram)];
            let draw = draws.into_iter().flatten().reduce(|one, other| one + other);
            // Thousands keep the fractions of a mW.
            let power = draw.map_or(Some(Factor::TYPICAL.power), |draw| {
                ratio((draw * 1e3).round() as i64, (typical * 1e3).round() as i64)
            });
            let duration = of(&self.duration, &mut duration);
            let duration =
                duration.map_or(Some(Factor::TYPICAL.duration), |factor| u32::try_from(factor.round() as i64).ok());
            (power, duration)
        })
    }
}

impl Platform {
    /// Returns the factors of all nodes, which hold for the first unit of each. Nodes of groups without a variation have
    /// none.
    pub fn variation(&self) -> Variation {
        let (mut all, mut first) = (Variation::default(), 0);
        for group in &self.groups {
            let factors = group.variation.iter().flat_map(|variation| variation.factors(group.count));
            for (node, (power, duration)) in (first..).zip(factors) {
                let key = VariationKey {
                    application: String::new(),
                    unit: UnitId { node: NodeId(node), unit: 0 },
                    cap: None,
                };
                if let (Some(power), Some(duration)) = (power, duration) {
                    all.set(&key, Some(Factor { power, duration, runs: 0 }));
                }
            }
            first += group.count;
        }
        all
    }
}

/// The table `variation` of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariationText {
    pkg: Option<ValuesText>,
    dram: Option<ValuesText>,
    duration: Option<ValuesText>,
    #[serde(default)]
    seed: u64,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a distribution, or a list of values in brackets")]
enum ValuesText {
    Drawn(String),
    Listed(Vec<String>),
}

impl VariationText {
    pub(super) fn variation(self) -> Result<GroupVariation, PlatformError> {
        let power = |text: &str| Power::from_str(text).ok().map(Power::mw);
        let factor = |text: &str| i64::try_from(decimal::parse(text, 6)?).ok().filter(|factor| is_factor(*factor));
        let read = |key, text: Option<ValuesText>, value: &dyn Fn(&str) -> Option<i64>| {
            text.map(|text| text.values(key, value)).transpose()
        };
        Ok(GroupVariation {
            pkg: read("variation.pkg", self.pkg, &power)?,
            dram: read("variation.dram", self.dram, &power)?,
            duration: read("variation.duration", self.duration, &factor)?,
            seed: self.seed,
        })
    }
}

fn is_factor(millionths: i64) -> bool {
    (i64::from(Factor::ABOVE) + 1..i64::from(Factor::BELOW)).contains(&millionths)
}

impl ValuesText {
    fn values(self, key: &'static str, value: &dyn Fn(&str) -> Option<i64>) -> Result<NodeValues, PlatformError> {
        let positive = |text: &str| {
            let refused = || PlatformError::Variation { key, value: limo_model::clip(text.to_owned(), 64) };
            value(text.trim()).filter(|value| *value > 0).ok_or_else(refused)
        };
        let text = match &self {
            Self::Listed(values) => {
                return Ok(NodeValues::Listed(values.iter().map(|text| positive(text)).collect::<Result<_, _>>()?));
            }
            Self::Drawn(text) => text,
        };
        let refused = || PlatformError::Variation { key, value: limo_model::clip(text.clone(), 64) };
        let (name, range) = text.split_once(' ').ok_or_else(refused)?;
        let (low, high) = range.split_once("..").ok_or_else(refused)?;
        let (low, high) = (positive(low)?, positive(high)?);
        match name {
            _ if low > high => Err(refused()),
            "triangular" => Ok(NodeValues::Triangular(low, high)),
            "uniform" => Ok(NodeValues::Uniform(low, high)),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(variation: &str) -> Result<Platform, String> {
        let nodes = "[[nodes]]\nname = \"n\"\ncount = 3\nidle = \"10 W\"\nbusy = \"50 W\"\n";
        let other = "[[nodes]]\nname = \"other\"\nidle = \"10 W\"\nbusy = \"50 W\"\n";
        Platform::parse("p.toml", &format!("{other}{nodes}variation = {variation}\n"))
            .map_err(|error| error.to_string())
    }

    fn factors(platform: &Platform) -> Vec<(u32, u32, u32)> {
        let all = platform.variation();
        all.iter().map(|(key, factor)| (key.unit.node.0, factor.power, factor.duration)).collect()
    }

    #[test]
    fn listed_values_are_factors_of_their_mean() {
        let text =
            r#"{ pkg = ["90 W", "80 W", "100 W"], dram = ["10 W", "30 W", "20 W"], duration = ["1", "1.5", "0.5"] }"#;
        let platform = platform(text).expect("a platform");
        // 100, 110 and 120 W are 10/11, 1 and 12/11 of the mean, rounded down.
        let expected = [(1, 909_090, 1_000_000), (2, 1_000_000, 1_500_000), (3, 1_090_909, 500_000)];
        assert_eq!(factors(&platform), expected);
    }

    #[test]
    fn distributions_stay_in_their_range_and_follow_their_seed() {
        let drawn = |seed| {
            let text = format!(r#"{{ pkg = "triangular 107 W..124 W", dram = "uniform 30 W..40 W", seed = {seed} }}"#);
            let mut platform = platform(&text).expect("a platform");
            platform.groups[1].count = 5_000;
            factors(&platform)
        };
        let all = drawn(1);
        // 137 to 164 W around 150.5 W.
        let (low, high) = (910_299, 1_089_701);
        assert!(all.iter().all(|(_, power, duration)| (low..=high).contains(power) && *duration == 1_000_000));
        let mean = all.iter().map(|(_, power, _)| f64::from(*power)).sum::<f64>() / all.len() as f64;
        assert!((mean - 1e6).abs() < 2e3, "{mean}");
        // Variances of (17 W)^2 / 24 and (10 W)^2 / 12: a deviation of 4.51 W, 3 % of 150.5 W.
        let variance =
            all.iter().map(|(_, power, _)| (f64::from(*power) - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!((variance.sqrt() / 1e6 - 0.029_97).abs() < 0.001, "{variance}");
        assert_eq!(all, drawn(1));
        assert_ne!(all, drawn(2));
    }

    #[test]
    fn wrong_values_are_refused() {
        let refused = |text: &str| platform(text).expect_err("refused");
        let hint =
            "write for example \"triangular 107 W..124 W\", \"uniform 0.9..1.1\", or a list with a value for each node";
        let check = |text: &str, key: &str, value: &str| {
            assert_eq!(
                refused(text),
                format!("p.toml:5: `{key}` has `{value}`, which is no positive value or range: {hint}")
            );
        };
        check(r#"{ pkg = "normal 107 W..124 W" }"#, "variation.pkg", "normal 107 W..124 W");
        check(r#"{ pkg = "triangular 124 W..107 W" }"#, "variation.pkg", "triangular 124 W..107 W");
        check(r#"{ dram = "uniform 1..2 W" }"#, "variation.dram", "1");
        check(r#"{ duration = "uniform 0.5..20" }"#, "variation.duration", "20");
        assert_eq!(refused(r#"{ pkg = ["1 W"] }"#), "p.toml:5: `variation.pkg` lists 1 values for 3 nodes");
    }
}
