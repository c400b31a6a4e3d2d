//! Curve for the scheduler from all feeds: known values, then the fallback, with the weight of carbon added.
//!
//! A curve has no gaps. It ends (`until`) at the first gap after now; a past gap is filled with the value before it.
//! With a weight of carbon, the effective price is `price + intensity x weight`, and the curve ends where the first of
//! both does. While no intensity is known for now, only the price counts.

use limo_model::{Curve, Price, Span, Time};

use crate::series::{Series, Stretch, gaps};
use crate::slot::{Intensity, Quantity};

/// Length of the past in the curve, for billing. It begins at the start of a day, so that it seldom changes.
const PAST: Span = Span::from_secs(86_400);

/// Reach of a fallback: a day from the next full hour on. A fixed one has no end.
const AHEAD: Span = Span::from_secs(86_400);

const HOUR_MS: i64 = 3_600_000;

/// Values of all feeds.
#[derive(Debug, Clone)]
pub struct Outlook {
    /// Price series by precedence: the first that knows a time counts.
    pub prices: Vec<Series<Price>>,
    /// Carbon intensities, if there is a feed.
    pub carbon: Option<Series<Intensity>>,
    /// Weight in thousandths of the currency per tonne.
    pub weight_milli_per_t: i64,
}

impl Outlook {
    /// Returns the curve at `now`, or `None` if no price is known for now and there is no fallback.
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

    /// Returns when the curve may change by itself.
    pub fn next_change(&self, now: Time) -> Option<Time> {
        let prices = self.prices.iter().filter_map(|series| series.next_change(now));
        let carbon = self.carbon.iter().filter_map(|series| series.next_change(now));
        // The fallback is extended every hour.
        let hour = Time::from_unix_ms((now.unix_ms().div_euclid(HOUR_MS) + 1) * HOUR_MS);
        prices.chain(carbon).chain([hour]).min()
    }

    /// Returns the carbon intensity at `now`, if it is known or has a fallback.
    pub fn intensity(&self, now: Time) -> Option<Intensity> {
        let all = self.carbon(now)?;
        all.into_iter().find(|stretch| stretch.from <= now && now < stretch.until).map(|stretch| stretch.value)
    }

    /// Returns the known intensities; `None` if none is known for now. With later values only, the present would look
    /// cheaper than the future.
    fn carbon(&self, now: Time) -> Option<Vec<Stretch<Intensity>>> {
        let series = self.carbon.as_ref()?;
        let (from, until) = range(now);
        let mut carbon = series.known(now, from, Time::MAX);
        fill(&mut carbon, series, now, until);
        carbon.iter().any(|stretch| stretch.from <= now && now < stretch.until).then_some(carbon)
    }

    /// Converts an intensity to a price, rounded half away from zero. g/kWh are kg/MWh, so thousandths of g/kWh are
    /// millionths of t/MWh.
    fn weighed(&self, intensity: Intensity) -> Price {
        Price::from_milli_per_mwh(intensity.mg_per_kwh()).scaled(self.weight_milli_per_t, 1_000_000)
    }

    fn priced(&self, stretch: Stretch<Intensity>) -> Stretch<Price> {
        let Stretch { from, until, value } = stretch;
        Stretch { from, until, value: self.weighed(value) }
    }
}

/// Returns the least time that a curve at `now` covers.
fn range(now: Time) -> (Time, Time) {
    let day = PAST.ms();
    let midnight = Time::from_unix_ms(now.unix_ms().div_euclid(day) * day);
    let hour = Time::from_unix_ms((now.unix_ms().div_euclid(HOUR_MS) + 1) * HOUR_MS);
    (midnight - PAST, hour + AHEAD)
}

/// Fills the gaps from now on with the fallback.
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

/// Returns the intervals in which both values are known.
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

/// Makes the steps up to the first gap after now.
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
