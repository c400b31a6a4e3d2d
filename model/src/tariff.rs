//! Cost of the energy of a group of nodes, compared with the prices of the cluster: its place, its contract and its
//! electricity may differ (htc-sim-2015, section III-H).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::currency::Currency;
use crate::decimal;
use crate::number::{UnitError, divide_rounded, parse, parse_amount, saturate};
use crate::units::Price;

/// Largest values, in the units of [`Tariff`].
const MOST: Tariff = Tariff {
    pue: CostRatio(10_000),
    price_factor: CostRatio(100_000),
    carbon: CarbonIntensity(10_000_000),
    charge: CarbonCharge(100_000_000),
};

/// A ratio in thousandths, written as a number: `1.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CostRatio(u32);

impl CostRatio {
    /// One.
    pub const ONE: Self = Self(1_000);

    /// Makes a ratio of thousandths.
    pub const fn from_permille(permille: u32) -> Self {
        Self(permille)
    }

    /// Returns it in thousandths.
    pub const fn permille(self) -> u32 {
        self.0
    }
}

impl FromStr for CostRatio {
    type Err = CostRatioError;

    fn from_str(text: &str) -> Result<Self, CostRatioError> {
        let permille = decimal::parse(text.trim(), 3).and_then(|permille| u32::try_from(permille).ok());
        permille.map(Self).ok_or_else(|| CostRatioError { value: text.to_owned() })
    }
}

/// Text that is not a ratio.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{value}` is not a ratio: write a number, such as 1.5")]
pub struct CostRatioError {
    value: String,
}

impl fmt::Display for CostRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Carbon dioxide from the generation of energy, in mg/kWh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CarbonIntensity(i64);

impl CarbonIntensity {
    /// Returns it in mg/kWh.
    pub const fn mg_per_kwh(self) -> i64 {
        self.0
    }
}

impl FromStr for CarbonIntensity {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &[("g/kWh", 1_000), ("kg/MWh", 1_000)], "300 g/kWh").map(Self)
    }
}

impl fmt::Display for CarbonIntensity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} g/kWh", self.0 as f64 / 1e3)
    }
}

/// Charge for emitted carbon dioxide, in thousandths of the [`Currency`] per tonne.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CarbonCharge(i64);

impl CarbonCharge {
    /// Returns it in thousandths of the currency per tonne.
    pub const fn milli_per_t(self) -> i64 {
        self.0
    }
}

impl FromStr for CarbonCharge {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_amount(text, &[("EUR/t", 1_000)], "16 EUR/t").map(Self)
    }
}

impl fmt::Display for CarbonCharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/t", self.0 as f64 / 1e3, Currency::agreed())
    }
}

/// Differences between the cost of a group's energy and that of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tariff {
    /// Power usage effectiveness: the energy of the facility for each unit of energy of its nodes.
    pub pue: CostRatio,
    /// Price of the group for each unit of the price of the cluster.
    pub price_factor: CostRatio,
    /// Carbon intensity of its electricity.
    pub carbon: CarbonIntensity,
    /// Charge for this carbon, which the price of the cluster does not contain.
    pub charge: CarbonCharge,
}

impl Default for Tariff {
    fn default() -> Self {
        Self { pue: CostRatio::ONE, price_factor: CostRatio::ONE, carbon: CarbonIntensity(0), charge: CarbonCharge(0) }
    }
}

/// Value of a tariff that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} is {value}: it must be from {least} to {most}")]
pub struct TariffError {
    key: &'static str,
    value: String,
    least: String,
    most: String,
}

impl Tariff {
    /// Returns the tariff of these keys of a configuration; absent ones have no effect.
    pub fn of_keys(
        (pue, price_factor): (Option<CostRatio>, Option<CostRatio>),
        (carbon, charge): (Option<CarbonIntensity>, Option<CarbonCharge>),
    ) -> Self {
        Self {
            pue: pue.unwrap_or(CostRatio::ONE),
            price_factor: price_factor.unwrap_or(CostRatio::ONE),
            carbon: carbon.unwrap_or_default(),
            charge: charge.unwrap_or_default(),
        }
    }

    /// Returns true if energy costs the same as elsewhere in the cluster.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the cost of a unit of the nodes' energy while the cluster has this price. 1 g/kWh is 1 kg/MWh.
    pub fn price(&self, price: Price) -> Price {
        if self.is_usual() {
            return price;
        }
        let priced = i128::from(price.milli_per_mwh()) * i128::from(self.price_factor.0) * 1_000;
        let charged = i128::from(self.carbon.0) * i128::from(self.charge.0);
        // The factors are bounded, so the product is far below the end of i128.
        let all = (priced + charged) * i128::from(self.pue.0);
        Price::from_milli_per_mwh(saturate(divide_rounded(all, 1_000_000_000)))
    }

    /// Checks the limits of all values.
    ///
    /// # Errors
    /// [`TariffError`], naming the first one beyond its limits.
    pub fn check(&self) -> Result<(), TariffError> {
        let check = |key, value: &dyn fmt::Display, least: String, most: &dyn fmt::Display, good| {
            let error = || TariffError { key, value: value.to_string(), least, most: most.to_string() };
            if good { Ok(()) } else { Err(error()) }
        };
        let Self { pue, price_factor, carbon, charge } = self;
        check("pue", pue, "1".into(), &MOST.pue, (CostRatio::ONE..=MOST.pue).contains(pue))?;
        check("price_factor", price_factor, "0".into(), &MOST.price_factor, *price_factor <= MOST.price_factor)?;
        check("carbon", carbon, "0".into(), &MOST.carbon, (CarbonIntensity(0)..=MOST.carbon).contains(carbon))?;
        check("carbon_charge", charge, "0".into(), &MOST.charge, (CarbonCharge(0)..=MOST.charge).contains(charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tariff(pue: &str, price_factor: &str, carbon: &str, charge: &str) -> Tariff {
        let (pue, price_factor) = (pue.parse().expect("a ratio"), price_factor.parse().expect("a ratio"));
        let (carbon, charge) = (carbon.parse().expect("a carbon intensity"), charge.parse().expect("a charge"));
        Tariff { pue, price_factor, carbon, charge }
    }

    #[test]
    fn a_group_pays_its_price_and_its_carbon_for_the_energy_of_its_room() {
        let price = |text: &str| text.parse::<Price>().expect("a price");
        // 80 x 1.25 + 0.3 t/MWh x 80 EUR/t = 124 EUR/MWh of the facility, whose energy is 1.5 times that of the nodes.
        let dear = tariff("1.5", "1.25", "300 g/kWh", "80 EUR/t");
        assert_eq!(dear.check(), Ok(()));
        assert_eq!(dear.price(price("80 EUR/MWh")), price("186 EUR/MWh"));
        assert_eq!(dear.price(price("-40 EUR/MWh")), price("-39 EUR/MWh"));
        assert_eq!(tariff("1", "0", "0 g/kWh", "16 EUR/t").price(price("80 EUR/MWh")), Price::ZERO);
        assert!(Tariff::default().is_usual() && !dear.is_usual());
        assert_eq!(Tariff::default().price(Price::MAX), Price::MAX);
        let most = tariff("10", "100", "10000 g/kWh", "100000 EUR/t");
        assert_eq!((most.check(), most.price(Price::MAX)), (Ok(()), Price::MAX), "it does not wrap");
    }

    #[test]
    fn values_beyond_their_limits_are_refused() {
        let check = |tariff: Tariff, expected: &str| {
            assert_eq!(tariff.check().expect_err("refused").to_string(), expected);
        };
        check(tariff("0.999", "1", "0 g/kWh", "0 EUR/t"), "pue is 0.999: it must be from 1 to 10");
        check(tariff("10.1", "1", "0 g/kWh", "0 EUR/t"), "pue is 10.1: it must be from 1 to 10");
        check(tariff("1", "100.5", "0 g/kWh", "0 EUR/t"), "price_factor is 100.5: it must be from 0 to 100");
        check(tariff("1", "1", "-1 g/kWh", "0 EUR/t"), "carbon is -1 g/kWh: it must be from 0 to 10000 g/kWh");
        check(tariff("1", "1", "0 g/kWh", "-2 EUR/t"), "carbon_charge is -2 EUR/t: it must be from 0 to 100000 EUR/t");
        for text in ["", "x", "-1", "1.5x", "5000000"] {
            let error = text.parse::<CostRatio>().expect_err(text).to_string();
            assert_eq!(error, format!("`{text}` is not a ratio: write a number, such as 1.5"));
        }
    }
}
