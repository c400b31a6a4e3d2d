//! Nord Pool's data portal: day-ahead prices of its areas, without a key, for one delivery day a request.
//!
//! `GET /api/DayAheadPrices?market=DayAhead&date=YYYY-MM-DD&deliveryArea=A&currency=C` gives `{multiAreaEntries:
//! [{deliveryStart, deliveryEnd, entryPerArea: {A: number}}], currency}`. Delivery days are Central European ones. Until they
//! are published the body is empty (with status 204, or 200).

use serde::Deserialize;

use super::json;
use crate::config::ConfigError;
use crate::json::{End, JsonFeed, Layout, UnitText};
use crate::template::escaped;

/// The public server.
pub const BASE: &str = "https://dataportal-api.nordpoolgroup.com";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// A delivery area: `SE3`, `NO1`, `FI`, `GER`.
    zone: String,
    #[serde(default = "eur")]
    currency: String,
}

pub(super) fn eur() -> String {
    "EUR".into()
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, or the currency is invalid.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let (area, currency) = (escaped(&options.zone), &options.currency);
    let url = format!(
        "{base}/api/DayAheadPrices?market=DayAhead&date={{date}}&deliveryArea={area}&currency={}",
        escaped(currency)
    );
    let layout = Layout::Rows {
        at: vec!["/multiAreaEntries".into()],
        start: "/deliveryStart".into(),
        end: End::At("/deliveryEnd".into()),
        value: format!("/entryPerArea/{}", pointer_part(&options.zone)),
        only: None,
    };
    let mut feed = json(&url, "Europe/Brussels", &format!("{currency}/MWh"), layout)?;
    feed.mapping.checked = Some(("/currency".into(), UnitText::Currency));
    Ok(feed)
}

/// Escapes a name for a JSON pointer (RFC 6901, section 3).
fn pointer_part(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
