//! Checks that a generated year looks like that of the paper: totals, quiet weekends and breaks, weeks that repeat, jobs
//! that do not.

use std::fmt;

use super::calendar;
use super::numbers as n;
use crate::pool::session::Session;

/// Bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    Exactly(f64),
    Below(f64),
    Above(f64),
    Within(f64, f64),
}

/// A figure and its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Figure {
    name: &'static str,
    value: f64,
    bound: Bound,
}

impl Figure {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::Exactly(value) => self.value == value,
            Bound::Below(limit) => self.value < limit,
            Bound::Above(limit) => self.value > limit,
            Bound::Within(low, high) => (low..=high).contains(&self.value),
        }
    }
}

/// Figures of a generated year. Displayed as one line each.
#[derive(Debug, Clone, PartialEq)]
pub struct Validation {
    figures: Vec<Figure>,
}

impl Validation {
    /// Computes the figures from the sessions and the number of jobs of each day.
    pub(super) fn new(sessions: &[Session], jobs: &[u32], expected_jobs: u32) -> Self {
        let mut logins = vec![0.0; n::DAYS];
        for session in sessions {
            let day = (session.login - n::START * 1_000) / 86_400_000;
            if let Some(day) = usize::try_from(day).ok().and_then(|day| logins.get_mut(day)) {
                *day += 1.0;
            }
        }
        let jobs: Vec<f64> = jobs.iter().map(|count| f64::from(*count)).collect();
        let mean = |is_in: &dyn Fn(usize) -> bool| {
            let days: Vec<f64> = (0..n::DAYS).filter(|day| is_in(*day)).map(|day| logins[day]).collect();
            days.iter().sum::<f64>() / days.len() as f64
        };
        let weekend = mean(&|day| calendar::weekday(day) >= 5) / mean(&|day| calendar::weekday(day) < 5);
        let summer = mean(&calendar::is_summer) / mean(&|day| calendar::term(day).is_some());
        let minutes: i64 = sessions.iter().map(|session| session.logout - session.login).sum();
        let minutes = minutes as f64 / 60_000.0 / sessions.len() as f64;
        let figure = |name, value, bound| Figure { name, value, bound };
        let figures = vec![
            figure("sessions", sessions.len() as f64, Bound::Exactly(n::LOGINS as f64)),
            figure("jobs", jobs.iter().sum(), Bound::Exactly(f64::from(expected_jobs))),
            figure("logins on days of weekends / of weeks", weekend, Bound::Below(0.35)),
            figure("logins on days of summer / of terms", summer, Bound::Below(0.35)),
            figure(
                "autocorrelation of logins after 7 days in terms",
                repeats(&logins, calendar::term),
                Bound::Above(0.5),
            ),
            figure("autocorrelation of jobs after 7 days", repeats(&jobs, |_| Some(0)), Bound::Below(0.3)),
            figure("mean session in minutes", minutes, Bound::Within(40.0, 50.0)),
        ];
        Self { figures }
    }

    /// Returns true if all figures are within their bounds.
    pub fn is_met(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let bound = match figure.bound {
                Bound::Exactly(value) => format!("exactly {value}"),
                Bound::Below(limit) => format!("below {limit}"),
                Bound::Above(limit) => format!("above {limit}"),
                Bound::Within(low, high) => format!("{low} to {high}"),
            };
            let verdict = if figure.is_met() { "" } else { ": MISSED" };
            let value =
                if figure.value.fract() == 0.0 { figure.value.to_string() } else { format!("{:.3}", figure.value) };
            writeln!(f, "{}: {value} ({bound}){verdict}", figure.name)?;
        }
        Ok(())
    }
}

/// Returns the autocorrelation after 7 days, over the days that have a part, and pairs of days of the same part.
fn repeats(series: &[f64], part: impl Fn(usize) -> Option<usize>) -> f64 {
    let days: Vec<usize> = (0..series.len()).filter(|day| part(*day).is_some()).collect();
    let mean = days.iter().map(|day| series[*day]).sum::<f64>() / days.len() as f64;
    let variance = days.iter().map(|day| (series[*day] - mean).powi(2)).sum::<f64>() / days.len() as f64;
    let pairs: Vec<usize> = days.iter().copied().filter(|day| *day >= 7 && part(*day) == part(*day - 7)).collect();
    let product = |day: &usize| (series[*day] - mean) * (series[*day - 7] - mean);
    pairs.iter().map(product).sum::<f64>() / pairs.len() as f64 / variance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_of_series() {
        let weekly: Vec<f64> = (0..70).map(|day| f64::from(u8::from(day % 7 == 0))).collect();
        assert!((repeats(&weekly, |_| Some(0)) - 1.0).abs() < 1e-9);
        // Alternating over 14 days: the opposite after 7.
        let opposite: Vec<f64> = (0..140).map(|day| if day % 14 < 7 { 1.0 } else { -1.0 }).collect();
        assert!((repeats(&opposite, |_| Some(0)) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn missed_bounds_are_shown() {
        let figures = vec![
            Figure { name: "a", value: 2.0, bound: Bound::Exactly(2.0) },
            Figure { name: "b", value: 0.5, bound: Bound::Below(0.3) },
        ];
        let validation = Validation { figures };
        assert_eq!(validation.to_string(), "a: 2 (exactly 2)\nb: 0.500 (below 0.3): MISSED\n");
        assert!(!validation.is_met());
    }
}
