//! Electricity Maps: forecasts and the latest carbon intensity of zones all over the world, with a token.
//!
//! `GET /v3/carbon-intensity/forecast?zone=DE` gives `{zone, forecast: [{carbonIntensity, datetime}], updatedAt}`,
//! `../latest` gives `{zone, carbonIntensity, datetime, ..}`, both in g/kWh (life cycle), with the token in the header
//! `auth-token`. A value holds for an hour, or until the next one; the latest holds for an hour.

use limo_model::Span;
use serde::Deserialize;

use crate::config::{ConfigError, Token};
use crate::json::{End, JsonFeed, Layout};
use crate::price::json;
use crate::template::escaped;
use crate::unit::Unit;

/// The public server.
pub const BASE: &str = "https://api.electricitymaps.com";

/// Options of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    zone: String,
    token_file: Token,
    /// The latest value only, for tokens that may not see forecasts.
    #[serde(default)]
    latest: bool,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, or the token cannot be read.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let token = options.token_file.read()?;
    let (what, at, end) = match options.latest {
        true => ("latest", "", End::After(Span::from_secs(3600))),
        false => ("forecast", "/forecast", End::Next),
    };
    let layout = Layout::Rows {
        at: vec![at.into()],
        start: "/datetime".into(),
        end,
        value: "/carbonIntensity".into(),
        only: None,
    };
    let url = format!("{base}/v3/carbon-intensity/{what}?zone={}", escaped(&options.zone));
    let mut feed = json(&url, "UTC", "EUR/MWh", layout)?;
    feed.mapping.unit = Unit::grams();
    feed.headers = vec![("auth-token".into(), token.clone())];
    feed.secrets = vec![token];
    Ok(feed)
}
