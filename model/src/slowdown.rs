//! Laws of the slowdown of a run by a cap: power-capping-2018, section 5.1.1 (factor) and section 4 (CPI).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::decimal::Decimal;
use crate::time::Span;
use crate::units::Power;

/// The duration D' of a run whose draw a cap lowers from P to M P, as a function of its duration D without a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slowdown {
    /// D' = max(1, F / M) D, with F in thousandths, 0 to 1000. At 1000 the duration is inversely proportional to the
    /// power.
    Factor(u32),
    /// D' = (1 - 1/CPI + 1/(CPI M)) D, with the cycles per instruction in thousandths. A CPI below 1 counts as 1.
    Cpi(u32),
}

/// The application and the type of hardware that a law is for; empty means any.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlowdownKey {
    /// Name of the application; see [`crate::application`].
    pub application: String,
    /// The type of the unit.
    pub hardware: String,
}

/// Highest CPI, in thousandths. A run with this CPI loses less than 1 % at a tenth of its power.
const CPI_LIMIT: u32 = 1_000_000;

/// Most runs from which a law is learned.
const RUNS: usize = 16;
/// Laws whose sums of squares differ by less are equally near: values have three digits.
const NEAR: f64 = 1e-5;

impl Slowdown {
    /// Returns the durations with and without a cap, as the terms of a ratio. `full` is the draw without a cap, and
    /// `cap` the lower draw with it. Neither is negative.
    pub fn durations(self, full: Power, cap: Power) -> (i128, i128) {
        let (full, cap) = (i128::from(full.mw()), i128::from(cap.mw()));
        match self {
            Self::Factor(permille) => {
                let kept = cap * 1_000;
                ((full * i128::from(permille)).max(kept), kept)
            }
            Self::Cpi(permille) => {
                let cpi = i128::from(permille.clamp(1_000, CPI_LIMIT));
                (full.max(cap) * 1_000 + (cpi - 1_000) * cap, cpi * cap)
            }
        }
    }

    /// Returns the law that is nearest to runs under caps, each with its draw and duration; `free` is a run without a cap.
    /// One run fits both laws, and F is preferred, which is also the law of the option. `None` if no cap lowered the
    /// draw. At most [`RUNS`] runs count.
    pub fn learned(free: (Power, Span), capped: impl IntoIterator<Item = (Power, Span)>) -> Option<Self> {
        let (full, without) = (free.0.mw() as f64, free.1.ms() as f64);
        let positive = |of: &(Power, Span)| of.0 > Power::ZERO && of.1 > Span::ZERO;
        let lowered = capped.into_iter().filter(|run| positive(&free) && positive(run) && run.0 < free.0);
        // The part of the power that is left, and that of the duration; no cap speeds a run up.
        let relative = |run: (Power, Span)| (run.0.mw() as f64 / full, (run.1.ms() as f64 / without).max(1.0));
        let runs: Vec<(f64, f64)> = lowered.take(RUNS).map(relative).collect();
        let permille = |part: f64| libm::round(part * 1e3) as u32;
        let factors = runs.iter().map(|(left, longer)| Self::Factor(permille((left * longer).min(1.0))));
        let cpi = |(left, longer): &(f64, f64)| {
            let stalled = (longer - 1.0) / (1.0 / left - 1.0);
            Self::Cpi(permille((1.0 / stalled.max(1e-3)).clamp(1.0, f64::from(CPI_LIMIT) / 1e3)))
        };
        let distance = |law: Self| {
            let expected = |left: f64| {
                let (longer, without) = law.durations(free.0, Power::from_mw(libm::round(left * full) as i64));
                longer as f64 / without as f64
            };
            let errors = runs.iter().map(|(left, longer)| libm::log(expected(*left) / longer));
            errors.map(|error| error * error).sum::<f64>()
        };
        let mut best: Option<(f64, Self)> = None;
        for law in factors.chain(runs.iter().map(cpi)) {
            let of = distance(law);
            if best.is_none_or(|(least, _)| of < least - NEAR) {
                best = Some((of, law));
            }
        }
        best.map(|(_, law)| law)
    }

    /// Returns the law, if its value is in range: F is 0 to 1, the CPI above 0 and at most 1000.
    ///
    /// # Errors
    /// The value and the range.
    pub fn checked(self) -> Result<Self, String> {
        match self {
            Self::Factor(permille) if permille > 1_000 => Err(format!("{self}: F must be 0 to 1")),
            Self::Cpi(permille) if permille == 0 || permille > CPI_LIMIT => {
                Err(format!("{self}: the CPI must be above 0 and at most {}", CPI_LIMIT / 1_000))
            }
            law => Ok(law),
        }
    }
}

impl SlowdownKey {
    /// Makes the key of an application on a type of hardware; empty means any.
    pub fn of(application: &str, hardware: &str) -> Self {
        Self { application: application.to_owned(), hardware: hardware.to_owned() }
    }
}

impl fmt::Display for SlowdownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |name: &str, any: &'static str| if name.is_empty() { any.to_owned() } else { name.to_owned() };
        write!(f, "{} on {}", any(&self.application, "any application"), any(&self.hardware, "any hardware"))
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, permille) = match self {
            Self::Factor(permille) => ("F", permille),
            Self::Cpi(permille) => ("CPI", permille),
        };
        let digits = format!("{}.{:03}", permille / 1_000, permille % 1_000);
        write!(f, "{name}={}", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for Slowdown {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a law of slowdown: write for example `F=0.75` or `CPI=2.5`");
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let law = if name.eq_ignore_ascii_case("f") {
            Self::Factor
        } else if name.eq_ignore_ascii_case("cpi") {
            Self::Cpi
        } else {
            return Err(wrong());
        };
        let number = Decimal::read(value.as_bytes()).map_err(|error| format!("`{text}`: {error}"))?;
        let permille = number.exact(3).and_then(|permille| u32::try_from(permille).ok());
        let permille =
            permille.ok_or_else(|| format!("`{text}`: the value must be positive, with at most 3 decimal places"))?;
        law(permille).checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the duration at half of the power, in thousandths of that without a cap.
    fn at_half(law: &str, permille: i128) {
        let law: Slowdown = law.parse().expect("a law");
        let (longer, free) = law.durations(Power::from_watts(40), Power::from_watts(20));
        assert_eq!(longer * 1_000 / free, permille, "{law}");
    }

    /// Returns the law learned from runs at these parts of a draw of 100 W, each with its duration; 1000 s without a cap.
    fn learned(runs: &[(i64, i64)]) -> Option<String> {
        let runs = runs.iter().map(|(watts, secs)| (Power::from_watts(*watts), Span::from_secs(*secs)));
        let free = (Power::from_watts(100), Span::from_secs(1_000));
        Slowdown::learned(free, runs).map(|law| law.to_string())
    }

    #[test]
    fn laws_are_learned_from_runs_under_caps() {
        // F / M: 1.5 at half of the power is F = 0.75, and so is 1.25 at 60 %.
        assert_eq!(learned(&[(50, 1_500)]).as_deref(), Some("F=0.75"));
        assert_eq!(learned(&[(50, 1_500), (60, 1_250)]).as_deref(), Some("F=0.75"));
        // CPI = 2 makes 1/2 + 1/(2 M): 1.5 at half of the power, 1.125 at 80 %, 3 at a fifth.
        assert_eq!(learned(&[(50, 1_500), (80, 1_125), (20, 3_000)]).as_deref(), Some("CPI=2"));
        // A cap that costs no time, or gains some: F / M is at most 1 there.
        assert_eq!(learned(&[(50, 990)]).as_deref(), Some("F=0.5"));
        // More than in proportion to the power: the law with the largest slowdown.
        assert_eq!(learned(&[(50, 3_000)]).as_deref(), Some("F=1"));
    }

    #[test]
    fn caps_without_effect_and_broken_runs_teach_no_law() {
        for runs in [&[][..], &[(100, 1_000)], &[(120, 900)], &[(0, 1_000)], &[(50, 0)], &[(-5, -5)]] {
            assert_eq!(learned(runs), None, "{runs:?}");
        }
        let most = (Power::from_mw(i64::MAX), Span::from_ms(i64::MAX));
        let least = (Power::from_mw(1), Span::from_ms(1));
        assert_eq!(Slowdown::learned((most.0, least.1), [(least.0, most.1)]), Some(Slowdown::Factor(1_000)));
    }

    #[test]
    fn laws_follow_the_paper() {
        at_half("F=1", 2_000);
        at_half("F=0.75", 1_500);
        at_half("F=0.25", 1_000);
        // 1 - 1/CPI + 2/CPI = 1 + 1/CPI.
        at_half("CPI=1", 2_000);
        at_half("CPI=0.5", 2_000);
        at_half("CPI=2", 1_500);
        at_half("CPI=5", 1_200);
    }

    #[test]
    fn laws_are_read_as_they_are_shown() {
        for text in ["F=0", "F=0.75", "F=1", "CPI=0.8", "CPI=2.125", "CPI=10", "CPI=1000"] {
            assert_eq!(text.parse::<Slowdown>().map(|law| law.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("cpi=2".parse(), Ok(Slowdown::Cpi(2_000)));
        let refused = |text: &str| text.parse::<Slowdown>().expect_err("refused");
        assert_eq!(refused("F=1.001"), "F=1.001: F must be 0 to 1");
        assert_eq!(refused("CPI=0"), "CPI=0: the CPI must be above 0 and at most 1000");
        assert_eq!(refused("CPI=1001"), "CPI=1001: the CPI must be above 0 and at most 1000");
        assert_eq!(refused("F=x"), "`F=x`: it is not a number");
        assert_eq!(refused("F=0.0001"), "`F=0.0001`: the value must be positive, with at most 3 decimal places");
        assert_eq!(refused("F=-1"), "`F=-1`: the value must be positive, with at most 3 decimal places");
        assert_eq!(refused("0.5"), "`0.5` is not a law of slowdown: write for example `F=0.75` or `CPI=2.5`");
        assert_eq!(SlowdownKey::of("", "xeon").to_string(), "any application on xeon");
    }
}
