//! Units of feeds, and exact numbers in them: `pence/kWh`, `EUR / MWh`, `g/kWh`. No floating point is used.

use std::fmt;
use std::str::FromStr;

use limo_model::decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::slot::Quantity;

/// Feeds' names for hundredths of a currency, with the currency.
const HUNDREDTHS: [(&str, &str); 5] = [("ct", "EUR"), ("pence", "GBP"), ("p", "GBP"), ("øre", "DKK"), ("öre", "SEK")];

/// Unit of price, such as `EUR/MWh`, or `g/kWh`. The currency is a label: there is no exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    name: String,
    currency: String,
    /// Thousandths of the currency per MWh in one of this unit.
    factor: i64,
}

/// Error of a text that is not a unit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{text}` is not a unit of price: write for example `EUR/MWh`, `DKK/kWh`, `ct/kWh` or `pence/kWh`")]
pub struct UnitTextError {
    text: String,
}

impl Unit {
    /// Returns the name, such as `EUR/MWh`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the currency of prices; `g` for a carbon intensity.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// Returns grams of carbon dioxide per kWh, which is kg/MWh.
    pub fn grams() -> Self {
        Self { name: "g/kWh".into(), currency: "g".into(), factor: 1_000 }
    }

    /// Returns true if `text` is a feed's spelling of this unit: in any case, with or without spaces.
    pub fn is_called(&self, text: &str) -> bool {
        squeezed(text) == squeezed(&self.name)
    }

    /// Converts `number` of this unit to thousandths of the currency per MWh, or of g/kWh, rounded half away from zero.
    /// `None` if it is not a decimal number, or does not fit.
    pub fn thousandths(&self, number: &str) -> Option<i64> {
        Decimal::read(number.trim().as_bytes()).ok()?.times(self.factor)
    }
}

/// Converts `number` of `unit`, times `scale` in millionths, rounded half away from zero.
pub(crate) fn quantity<V: Quantity>(unit: &Unit, scale: i64, number: &str) -> Option<V> {
    let thousandths = i128::from(unit.thousandths(number)?) * i128::from(scale);
    let half = if thousandths < 0 { -500_000 } else { 500_000 };
    V::from_thousandths(i64::try_from((thousandths + half) / 1_000_000).ok()?)
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

impl FromStr for Unit {
    type Err = UnitTextError;

    fn from_str(text: &str) -> Result<Self, UnitTextError> {
        let error = || UnitTextError { text: text.to_owned() };
        let (money, energy) = text.split_once('/').ok_or_else(error)?;
        let (money, energy) = (money.trim(), energy.trim());
        let hundredth = HUNDREDTHS.iter().find(|(name, _)| *name == money).map(|(_, currency)| *currency);
        let is_code = money.len() == 3 && money.bytes().all(|b| b.is_ascii_uppercase());
        let currency = hundredth.or(is_code.then_some(money)).ok_or_else(error)?;
        let factor = match (hundredth, energy) {
            (None, "MWh") => 1_000,
            (None, "kWh") => 1_000_000,
            (Some(_), "kWh") => 10_000,
            _ => return Err(error()),
        };
        Ok(Self { name: format!("{money}/{energy}"), currency: currency.to_owned(), factor })
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_units() {
        let check = |unit: &str, number: &str, expected: Option<i64>| {
            assert_eq!(unit.parse::<Unit>().expect("a unit").thousandths(number), expected, "{number} {unit}");
        };
        check("EUR/MWh", "80.25", Some(80_250));
        check("EUR/MWh", "-500", Some(-500_000));
        check("EUR/MWh", "0.0005", Some(1));
        check("DKK/kWh", "0.81234", Some(812_340));
        // 23.4 pence/kWh are 234 GBP/MWh.
        check("pence/kWh", "23.4", Some(234_000));
        check("ct/kWh", "-1.5", Some(-15_000));
        for wrong in ["", "1e3", "NaN", "1,5", "--1", "1.2.3", "99999999999999999999"] {
            check("EUR/MWh", wrong, None);
        }
        assert_eq!(Unit::grams().thousandths("263"), Some(263_000));
    }

    #[test]
    fn names() {
        let check = |text: &str, currency: &str| {
            assert_eq!(
                text.parse::<Unit>().map(|unit| unit.currency).ok(),
                (!currency.is_empty()).then(|| currency.to_owned()),
                "{text}"
            );
        };
        check("EUR / MWh", "EUR");
        check("p/kWh", "GBP");
        check("øre/kWh", "DKK");
        for wrong in ["EUR", "euro/MWh", "EUR/GWh", "pence/MWh", "/", ""] {
            check(wrong, "");
        }
        assert!("EUR/MWh".parse::<Unit>().expect("a unit").is_called("Eur / MWh"));
        assert!(!"EUR/MWh".parse::<Unit>().expect("a unit").is_called("EUR/kWh"));
    }
}
