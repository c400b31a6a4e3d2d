//! Watts, joules, prices and money as fixed-point integers. Only physically meaningful operators exist.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::currency::Currency;
use crate::number::{Suffix, UnitError, divide_rounded, parse, parse_amount, saturate};
use crate::time::Span;

/// Declares one quantity: an `i64` in `base` units with addition, comparison and parsing. Additions saturate: an
/// overflowing sum of draws must not become negative.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $from:ident, $to:ident, $parse:ident, $units:expr, $example:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(i64);

        impl $name {
            /// Zero of the unit.
            pub const ZERO: Self = Self(0);
            /// The largest value; stands for no limit.
            pub const MAX: Self = Self(i64::MAX);
            const UNITS: &'static [Suffix] = $units;

            #[doc = concat!("From the base unit of [`", stringify!($name), "`].")]
            pub const fn $from(value: i64) -> Self {
                Self(value)
            }

            #[doc = concat!("In the base unit of [`", stringify!($name), "`].")]
            pub const fn $to(self) -> i64 {
                self.0
            }

            /// Returns true for zero.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }

            /// Returns the larger of `self` and zero.
            pub fn at_least_zero(self) -> Self {
                Self(self.0.max(0))
            }

            /// Returns `self * numerator / denominator`, rounded half away from zero. A zero denominator counts as one.
            pub fn scaled(self, numerator: i64, denominator: i64) -> Self {
                if numerator == denominator {
                    return self;
                }
                let denominator = i128::from(denominator.max(1));
                Self(saturate(divide_rounded(i128::from(self.0) * i128::from(numerator), denominator)))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(self.0.saturating_neg())
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                // The largest value stands for no limit.
                let value = Some($parse(text, Self::UNITS, $example)?).filter(|value| *value < i64::MAX);
                value.map(Self).ok_or_else(|| UnitError::OutOfRange { value: text.trim().to_owned() })
            }
        }
    };
}

quantity!(
    /// Electric power in milliwatts. Range about 9.2 petawatts either way.
    Power, from_mw, mw, parse, &[("W", 1_000), ("kW", 1_000_000), ("MW", 1_000_000_000), ("mW", 1)], "90 W"
);
quantity!(
    /// Energy in millijoules. Range about 2.5 TWh either way.
    Energy, from_mj, mj, parse,
    &[("J", 1_000), ("kJ", 1_000_000), ("Wh", 3_600_000), ("kWh", 3_600_000_000), ("MWh", 3_600_000_000_000), ("mJ", 1)],
    "1.5 kWh"
);
quantity!(
    /// Price of energy in thousandths of the [`Currency`] per MWh; may be negative.
    Price, from_milli_per_mwh, milli_per_mwh, parse_amount,
    &[("EUR/MWh", 1_000), ("EUR/kWh", 1_000_000), ("ct/kWh", 10_000)], "80 EUR/MWh"
);
quantity!(
    /// Money in millionths of the [`Currency`]; may be negative (earned).
    Money, from_micro, micro, parse_amount, &[("EUR", 1_000_000), ("ct", 10_000)], "0.40 EUR"
);

impl Power {
    /// Makes a power of whole watts, for literals in code and tests.
    pub const fn from_watts(watts: i64) -> Self {
        Self(watts * 1_000)
    }

    /// Returns watts as a number for output (`draw_w`).
    pub fn watts(self) -> f64 {
        as_float(self.0) / 1e3
    }

    /// Returns true if this stands for "no limit".
    pub fn is_unlimited(self) -> bool {
        self == Self::MAX
    }
}

impl Energy {
    /// Makes an energy of whole joules, for literals in code and tests.
    pub const fn from_joules(joules: i64) -> Self {
        Self(joules * 1_000)
    }

    /// Returns joules as a number for output (`energy_j`).
    pub fn joules(self) -> f64 {
        as_float(self.0) / 1e3
    }

    /// Returns the mean power over `span`, rounded; zero for an empty span.
    pub fn over(self, span: Span) -> Power {
        if span.ms() <= 0 {
            return Power::ZERO;
        }
        Power(saturate(divide_rounded(i128::from(self.0) * 1_000, i128::from(span.ms()))))
    }
}

impl Price {
    /// Returns whole currency per MWh as a number for output (`price_per_mwh`).
    pub fn per_mwh(self) -> f64 {
        as_float(self.0) / 1e3
    }
}

impl Money {
    /// Returns the sum of two costs, or the known one of them; `None` if both are unknown.
    pub fn of_known(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        }
    }

    /// Returns whole currency as a number for output (`cost`).
    pub fn whole(self) -> f64 {
        as_float(self.0) / 1e6
    }
}

/// Computes `Power * Span`. mW x ms are 1e-6 J, so a thousandth of the product is in millijoules; rounded once.
impl Mul<Span> for Power {
    type Output = Energy;
    fn mul(self, span: Span) -> Energy {
        Energy(saturate(divide_rounded(i128::from(self.0) * i128::from(span.ms()), 1_000)))
    }
}

/// Computes `Energy * Price`. 1 MWh is 3.6e12 mJ, and a price unit is 1000 micro-units per MWh; rounded once.
impl Mul<Price> for Energy {
    type Output = Money;
    fn mul(self, price: Price) -> Money {
        let worth = (i128::from(self.0) * i128::from(price.0)).saturating_mul(1_000);
        // The clamp leaves space for the rounding; no real amount is near the end of i128.
        Money(saturate(divide_rounded(worth.clamp(i128::MIN / 2, i128::MAX / 2), 3_600_000_000_000)))
    }
}

/// This is for output only: 53 bits are enough for any displayed figure.
fn as_float(value: i64) -> f64 {
    value as f64
}

/// Prints `value / scale` with `digits` decimals, rounded half away from zero, without floating point.
fn fixed(f: &mut fmt::Formatter<'_>, value: i64, scale: i64, digits: u32) -> fmt::Result {
    let step = i128::from(scale) / 10_i128.pow(digits);
    let rounded = divide_rounded(i128::from(value), step.max(1));
    let (sign, rounded) = if rounded < 0 { ("-", -rounded) } else { ("", rounded) };
    let unit = 10_i128.pow(digits);
    if digits == 0 {
        return write!(f, "{sign}{rounded}");
    }
    write!(f, "{sign}{}.{:0width$}", rounded / unit, rounded % unit, width = digits as usize)
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value that would be rounded to the next unit is shown in that unit.
        match self.0.unsigned_abs() {
            _ if self.is_unlimited() => f.write_str("unlimited"),
            0..9_999_950 => fixed(f, self.0, 1_000, 1).and_then(|()| f.write_str(" W")),
            9_999_950..9_999_995_000 => fixed(f, self.0, 1_000_000, 2).and_then(|()| f.write_str(" kW")),
            _ => fixed(f, self.0, 1_000_000_000, 3).and_then(|()| f.write_str(" MW")),
        }
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.unsigned_abs() {
            0..35_999_950 => fixed(f, self.0, 1_000, 1).and_then(|()| f.write_str(" J")),
            35_999_950..359_999_998_200_000 => fixed(f, self.0, 3_600_000_000, 3).and_then(|()| f.write_str(" kWh")),
            _ => fixed(f, self.0, 3_600_000_000_000, 3).and_then(|()| f.write_str(" MWh")),
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0 % 1_000 == 0 { 0 } else { 2 };
        fixed(f, self.0, 1_000, digits)?;
        write!(f, " {}/MWh", Currency::agreed())
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fixed(f, self.0, 1_000_000, 3)?;
        write!(f, " {}", Currency::agreed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shown: impl fmt::Display, expected: &str) {
        assert_eq!(shown.to_string(), expected);
    }

    #[test]
    fn physics() {
        // 300 W for 30 min is 0.15 kWh, which costs 1.2 ct at 80 EUR/MWh (the example in the design).
        let energy = Power::from_watts(300) * Span::from_ms(30 * 60 * 1000);
        assert_eq!(energy, "0.15 kWh".parse().expect("an energy"));
        check(energy * "80 EUR/MWh".parse::<Price>().expect("a price"), "0.012 EUR");
        check(energy * "-80 EUR/MWh".parse::<Price>().expect("a price"), "-0.012 EUR");
        assert_eq!(energy.over(Span::from_ms(30 * 60 * 1000)), Power::from_watts(300));
    }

    #[test]
    fn rounded_once_half_away_from_zero() {
        assert_eq!(Power::from_mw(1) * Span::from_ms(500), Energy::from_mj(1));
        assert_eq!(Power::from_mw(1) * Span::from_ms(499), Energy::from_mj(0));
        assert_eq!(Power::from_mw(-1) * Span::from_ms(500), Energy::from_mj(-1));
    }

    #[test]
    fn the_ends_of_the_range_do_not_wrap() {
        assert_eq!(Energy::MAX * Price::MAX, Money::MAX);
        assert_eq!(-Energy::MAX * Price::MAX, -Money::MAX - Money::from_micro(1));
        assert_eq!(Power::MAX * Span::MAX, Energy::MAX);
    }

    #[test]
    fn a_sum_is_of_the_costs_that_are_known() {
        let (one, two) = (Some(Money::from_micro(1)), Some(Money::from_micro(2)));
        assert_eq!(Money::of_known(one, two), Some(Money::from_micro(3)));
        assert_eq!((Money::of_known(one, None), Money::of_known(None, one)), (one, one));
        assert_eq!(Money::of_known(None, None), None);
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Power::MAX + Power::from_watts(1), Power::MAX);
        assert_eq!([Power::MAX, Power::MAX].into_iter().sum::<Power>(), Power::MAX);
    }

    #[test]
    fn shown_as_people_write_it() {
        check(Power::from_mw(41_500), "41.5 W");
        check(Power::from_mw(-50), "-0.1 W");
        check(Power::from_watts(12_340), "12.34 kW");
        check(Power::from_mw(9_999_949), "9999.9 W");
        check(Power::from_mw(9_999_950), "10.00 kW");
        check(Power::from_mw(9_999_994_999), "9999.99 kW");
        check(Power::from_mw(9_999_995_000), "10.000 MW");
        check(Energy::from_mj(35_999_949), "35999.9 J");
        check(Energy::from_mj(35_999_950), "0.010 kWh");
        check(Energy::from_mj(359_999_998_199_999), "99999.999 kWh");
        check(Energy::from_mj(359_999_998_200_000), "100.000 MWh");
        assert!("9223372036854775807 mW".parse::<Power>().is_err(), "it stands for no limit");
        check(Power::MAX, "unlimited");
        check("0.3 kWh".parse::<Energy>().expect("an energy"), "0.300 kWh");
        check("80 EUR/MWh".parse::<Price>().expect("a price"), "80 EUR/MWh");
        check("-83.04 EUR/MWh".parse::<Price>().expect("a price"), "-83.04 EUR/MWh");
    }
}
