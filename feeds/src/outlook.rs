//! The curve that the scheduler sees, of all feeds together: what is known, then what the fallback says, and the weight of
//! carbon on top.
//!
//! A curve has no holes. It ends (`until`) where the first hole after now begins; a hole that is over is filled by the value
//! before it. Where carbon is weighed, the effective price is `price + intensity x weight`, and the curve ends where the first
//! of both does; while no intensity is known now, the price alone counts.

use limo_model::{Curve, Price, Span, Time};

use crate::series::{Series, Stretch, gaps};
use crate::slot::{Intensity, Quantity};

/// What is over is part of the curve for so long: jobs are billed by it. From a full day on, so that it seldom changes.
const PAST: Span = Span::from_secs(86_400);

/// How far a fallback goes: a day, from the next full hour on. A fixed one goes on for ever.
const AHEAD: Span = Span::from_secs(86_400);

const HOUR_MS: i64 = 3_600_000;

/// All that was told.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// The first that knows a time counts.
    pub prices: Vec<Series<Price>>,
    /// How clean energy is, if there is a feed of it.
    pub carbon: Option<Series<Intensity>>,
    /// In thousandths of the currency per tonne.
    pub weight_milli_per_t: i64,
}

impl Outlook {
    /// The curve at `now`, or `None` where no price is known now and no fallback says one.
    pub fn curve(&self, now: Time) -> Option<Curve<Price>> {
        let (from, until) = range(now);
        let mut prices: Vec<Stretch<Price>> = Vec::new();
        for series in &self.prices {
            let missing = gaps(&prices, from, Time::MAX);
            prices.extend(missing.into_iter().flat_map(|(from, until)| series.known(now, from, until)));
            prices.sort_by_key(|stretch| stretch.from);
        }
        if let Some(last) = self.prices.last() {
            fill(&mut prices, last, now, until);
        }
        let carbon = self.carbon(now);
        let stretches = match (self.prices.is_empty(), carbon) {
            (false, None) => prices,
            (false, Some(carbon)) => crossed(&prices, &carbon, |price, intensity| price + self.weighed(intensity)),
            (true, carbon) => carbon.unwrap_or_default().into_iter().map(|stretch| self.priced(stretch)).collect(),
        };
        as_curve(&stretches, now)
    }

    /// The next time at which the curve may change by itself.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let prices = self.prices.iter().filter_map(|series| series.next_change(now));
        let carbon = self.carbon.iter().filter_map(|series| series.next_change(now));
        // A fallback goes on hour by hour.
        let hour = Time::from_unix_ms((now.unix_ms().div_euclid(HOUR_MS) + 1) * HOUR_MS);
        prices.chain(carbon).chain([hour]).min()
    }

    /// What is known of carbon; `None` where that is nothing now, so that the future does not look better than the present
    /// only because nothing is known of it.
    fn carbon(&self, now: Time) -> Option<Vec<Stretch<Intensity>>> {
        let series = self.carbon.as_ref()?;
        let (from, until) = range(now);
        let mut carbon = series.known(now, from, Time::MAX);
        fill(&mut carbon, series, now, until);
        carbon.iter().any(|stretch| stretch.from <= now && now < stretch.until).then_some(carbon)
    }

    /// g/kWh are kg/MWh, so thousandths of g/kWh are millionths of t/MWh; times thousandths per t, rounded half away
    /// from zero.
    fn weighed(&self, intensity: Intensity) -> Price {
        Price::from_milli_per_mwh(intensity.mg_per_kwh()).scaled(self.weight_milli_per_t, 1_000_000)
    }

    fn priced(&self, stretch: Stretch<Intensity>) -> Stretch<Price> {
        let Stretch { from, until, value } = stretch;
        Stretch { from, until, value: self.weighed(value) }
    }
}

/// What a curve at `now` covers at least.
fn range(now: Time) -> (Time, Time) {
    let day = PAST.ms();
    let midnight = Time::from_unix_ms(now.unix_ms().div_euclid(day) * day);
    let hour = Time::from_unix_ms((now.unix_ms().div_euclid(HOUR_MS) + 1) * HOUR_MS);
    (midnight - PAST, hour + AHEAD)
}

/// Puts the fallback into what is missing from now on.
fn fill<V: Quantity>(known: &mut Vec<Stretch<V>>, series: &Series<V>, now: Time, until: Time) {
    let ahead: Vec<Stretch<V>> = known.iter().copied().filter(|stretch| stretch.until > now).collect();
    let end = ahead.last().map_or(until, |last| last.until.max(until));
    for (from, until) in gaps(&ahead, now, end) {
        known.extend(series.fallback(now, from, until));
    }
    if let Some(value) = series.for_ever() {
        known.extend((end < Time::MAX).then_some(Stretch { from: end, until: Time::MAX, value }));
    }
    known.sort_by_key(|stretch| stretch.from);
}

/// Where both are known.
fn crossed(
    prices: &[Stretch<Price>],
    carbon: &[Stretch<Intensity>],
    join: impl Fn(Price, Intensity) -> Price,
) -> Vec<Stretch<Price>> {
    let mut crossed = Vec::new();
    for price in prices {
        let first = carbon.partition_point(|other| other.until <= price.from);
        for other in carbon[first..].iter().take_while(|other| other.from < price.until) {
            let (from, until) = (price.from.max(other.from), price.until.min(other.until));
            crossed.push(Stretch { from, until, value: join(price.value, other.value) });
        }
    }
    crossed
}

/// Steps, where the value changes, up to the first hole that is not over.
fn as_curve(stretches: &[Stretch<Price>], now: Time) -> Option<Curve<Price>> {
    if !stretches.iter().any(|stretch| stretch.from <= now && now < stretch.until) {
        return None;
    }
    let mut steps: Vec<(Time, Price)> = Vec::new();
    let mut until: Option<Time> = None;
    for stretch in stretches {
        if until.is_some_and(|until| until < stretch.from && now < stretch.from) {
            break;
        }
        if steps.last().is_none_or(|(_, value)| *value != stretch.value) {
            steps.push((stretch.from, stretch.value));
        }
        until = Some(stretch.until);
    }
    let until = until?;
    // The steps ascend, since stretches do not overlap, and the last one begins before its end.
    Curve::new(steps, (until < Time::MAX).then_some(until)).ok()
}

#[cfg(test)]
mod tests;
