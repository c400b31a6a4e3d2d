//! Energi Data Service (Energinet): day-ahead prices of Denmark and its neighbours, without a key.
//!
//! `GET /dataset/DayAheadPrices?start=..&end=..&filter={"PriceArea":["DK1"]}` gives `{records: [{TimeUTC, TimeDK, PriceArea,
//! DayAheadPriceEUR, DayAheadPriceDKK}]}`, prices per MWh and `TimeUTC` without a `Z`. Assumed: `start` and `end` are Danish
//! local times, `limit=0` gives all, and a record ends where the next one begins.

use jiff::tz::TimeZone;
use serde::Deserialize;

use super::{elprisenligenu::dkk, json};
use crate::config::ConfigError;
use crate::error::FeedError;
use crate::fetch::Request;
use crate::json::{End, JsonFeed, Layout};
use crate::moment::{TimeFormat, Window};
use crate::source::{CurveSource, Page};
use crate::template::escaped;
use limo_model::Price;

/// The public server.
pub const BASE: &str = "https://api.energidataservice.dk";

/// Options of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// `DK1`, `DK2`, or a neighbour such as `DE`.
    zone: String,
    /// `DKK` or `EUR`.
    #[serde(default = "dkk")]
    currency: String,
}

/// The source: JSON with times in UTC, and requests in local time.
pub struct Energinet {
    feed: JsonFeed,
    zone: TimeZone,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, or the currency is invalid.
pub fn source(base: &str, options: Options) -> Result<Energinet, ConfigError> {
    let Options { zone, currency } = options;
    let filter = escaped(&format!("{{\"PriceArea\":[\"{}\"]}}", zone.replace(['"', '\\'], "")));
    let url = format!(
        "{base}/dataset/DayAheadPrices?start={{start_local}}&end={{end_local}}&filter={filter}&sort=TimeUTC&limit=0"
    );
    let layout = Layout::Rows {
        at: vec!["/records".into()],
        start: "/TimeUTC".into(),
        end: End::Next,
        value: format!("/DayAheadPrice{currency}"),
        only: Some(("/PriceArea".into(), zone)),
    };
    let mut feed = json(&url, "UTC", &format!("{currency}/MWh"), layout)?;
    feed.mapping.times = TimeFormat::Local;
    Ok(Energinet { feed, zone: super::zone_named("Europe/Copenhagen")? })
}

impl CurveSource<Price> for Energinet {
    fn currency(&self) -> &str {
        self.feed.mapping.unit.currency()
    }

    fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn requests(&self, window: &Window) -> Vec<Request> {
        let urls = self.feed.url.expand(window, &self.zone);
        urls.into_iter().map(|url| Request::get(url).accepting(&["application/json"])).collect()
    }

    fn parse(&self, body: &[u8]) -> Result<Page<Price>, FeedError> {
        self.feed.mapping.parse(body)
    }
}
