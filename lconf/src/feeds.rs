//! State of the feeds of prices and carbon intensities, for the status.

use limo_client::Clock;
use limo_model::Time;
use limo_proto::{FeedKind, FeedReport, Status};
use serde::Serialize;

/// Feed as JSON.
#[derive(Serialize)]
pub struct FeedJson {
    name: String,
    /// Kind of values: `price` or `carbon`.
    of: &'static str,
    /// Currency of prices; `g` for carbon.
    currency: String,
    last_success_unix_ms: Option<i64>,
    last_error: Option<ErrorJson>,
    /// End of the known values. `null` if no current value is known; the largest 64-bit number if the value holds
    /// until further notice.
    known_until_unix_ms: Option<i64>,
}

#[derive(Serialize)]
struct ErrorJson {
    at_unix_ms: i64,
    reason: String,
}

impl From<&FeedReport> for FeedJson {
    fn from(report: &FeedReport) -> Self {
        let error = |(at, reason): &(Time, String)| ErrorJson { at_unix_ms: at.unix_ms(), reason: reason.clone() };
        Self {
            name: report.name.clone(),
            of: report.of.name(),
            currency: report.currency.clone(),
            last_success_unix_ms: report.last_success.map(Time::unix_ms),
            last_error: report.last_error.as_ref().map(error),
            known_until_unix_ms: report.known_until.map(Time::unix_ms),
        }
    }
}

/// Returns named lines: the user who set the prices, if any, and each feed.
pub fn facts(status: &Status, clock: &Clock) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(by) = status.prices_by.as_ref().filter(|_| !status.feeds.is_empty()) {
        facts.push(("price by", format!("{by}, not by a feed; `lconf set price feed` follows the feeds again")));
    }
    facts.extend(status.feeds.iter().map(|report| (title(report.of), in_words(report, clock))));
    facts
}

fn title(of: FeedKind) -> &'static str {
    match of {
        FeedKind::Price => "feed",
        FeedKind::Carbon => "carbon",
    }
}

/// Formats a feed, for example `awattar DE in EUR: answered 10:30, known until 2017-10-27 00:00`.
fn in_words(report: &FeedReport, clock: &Clock) -> String {
    let heard = report.last_success.map_or_else(|| "no answer yet".into(), |at| format!("answered {}", clock.show(at)));
    let known = match report.known_until {
        None => "no current value is known".into(),
        Some(Time::MAX) => "known until further notice".into(),
        Some(until) => format!("known until {}", clock.show(until)),
    };
    let error = report.last_error.as_ref();
    let error = error.map(|(at, reason)| format!("; failed {}: {reason}", clock.show(*at))).unwrap_or_default();
    let unit = match report.of {
        FeedKind::Price => format!("in {}", report.currency),
        FeedKind::Carbon => "in g/kWh".into(),
    };
    format!("{} {unit}: {heard}, {known}{error}", report.name)
}
