//! Carbon Intensity API of Great Britain: forecasts for 48 hours in half hours, without a key.
//!
//! `GET /intensity/{from}/fw48h` gives `{data: [{from, to, intensity: {forecast, actual, index}}]}`, times in UTC
//! without seconds. `GET /regional/intensity/{from}/fw48h/regionid/N` gives a region, with its intervals in
//! `/data/data` (assumed, from its documentation).

use serde::Deserialize;

use crate::config::ConfigError;
use crate::json::{End, JsonFeed, Layout};
use crate::price::json;
use crate::unit::Unit;

/// The public server.
pub const BASE: &str = "https://api.carbonintensity.org.uk";

/// Options of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Region, 1 to 17; all of Great Britain by default.
    #[serde(default)]
    region: Option<u8>,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address.
pub fn source(base: &str, options: &Options) -> Result<JsonFeed, ConfigError> {
    let (url, at) = match options.region {
        None => (format!("{base}/intensity/{{now}}/fw48h"), "/data"),
        Some(region) => (format!("{base}/regional/intensity/{{now}}/fw48h/regionid/{region}"), "/data/data"),
    };
    let layout = Layout::Rows {
        at: vec![at.into()],
        start: "/from".into(),
        end: End::At("/to".into()),
        value: "/intensity/forecast".into(),
        only: None,
    };
    let mut feed = json(&url, "Europe/London", "EUR/MWh", layout)?;
    feed.mapping.unit = Unit::grams();
    Ok(feed)
}
