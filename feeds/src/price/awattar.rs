//! aWATTar: day-ahead prices of Germany and Austria, without a key.
//!
//! `GET /v1/marketdata?start=MS&end=MS` gives `{object, data: [{start_timestamp, end_timestamp, marketprice, unit}]}` with
//! times in milliseconds and `unit` `Eur/MWh`.

use serde::Deserialize;

use super::json;
use crate::config::ConfigError;
use crate::json::{End, JsonFeed, Layout, UnitText};
use crate::moment::TimeFormat;

/// The public server for Germany.
pub const BASE: &str = "https://api.awattar.de";
/// The public server for Austria.
pub const BASE_AT: &str = "https://api.awattar.at";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    zone: Zone,
}

/// Country of the prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Zone {
    /// Germany with Luxembourg, one zone of the market.
    #[serde(rename = "DE")]
    Germany,
    /// Austria, a separate zone.
    #[serde(rename = "AT")]
    Austria,
}

impl Options {
    /// Returns the server of the country.
    pub fn base(&self) -> &'static str {
        match self.zone {
            Zone::Germany => BASE,
            Zone::Austria => BASE_AT,
        }
    }
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address.
pub fn source(base: &str) -> Result<JsonFeed, ConfigError> {
    let layout = Layout::Rows {
        at: vec!["/data".into()],
        start: "/start_timestamp".into(),
        end: End::At("/end_timestamp".into()),
        value: "/marketprice".into(),
        only: None,
    };
    let mut feed =
        json(&format!("{base}/v1/marketdata?start={{start_ms}}&end={{end_ms}}"), "Europe/Vienna", "EUR/MWh", layout)?;
    feed.mapping.times = TimeFormat::UnixMs;
    feed.mapping.checked = Some(("/unit".into(), UnitText::Unit));
    Ok(feed)
}
