//! energy-charts.info (Fraunhofer ISE): day-ahead prices of European bidding zones, without a key.
//!
//! `GET /price?bzn=DE-LU&start=..&end=..` gives `{license_info, unix_seconds[], price[], unit, deprecated}` in EUR/MWh, with
//! `unit` written as `EUR / MWh`. Prices, and the arrays themselves, may be `null`; 404 is "no data". `start` and `end` take
//! RFC 3339; an interval ends where the next one begins.

use serde::Deserialize;

use super::json;
use crate::config::ConfigError;
use crate::json::{JsonFeed, Layout, UnitText};
use crate::moment::TimeFormat;
use crate::template::escaped;

/// The public server.
pub const BASE: &str = "https://api.energy-charts.info";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// A bidding zone as energy-charts names it: `DE-LU`, `FR`, `DK1`.
    zone: String,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let url = format!("{base}/price?bzn={}&start={{start}}&end={{end}}", escaped(&options.zone));
    let layout = Layout::Columns { start: "/unix_seconds".into(), value: "/price".into() };
    let mut feed = json(&url, "Europe/Berlin", "EUR/MWh", layout)?;
    feed.mapping.times = TimeFormat::UnixS;
    feed.mapping.checked = Some(("/unit".into(), UnitText::Unit));
    Ok(feed)
}
