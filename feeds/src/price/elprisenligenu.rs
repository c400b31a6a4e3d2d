//! elprisenligenu.dk, and its sister elprisetjustnu.se: day-ahead prices of Danish (Swedish) areas, without a key, for one
//! local day a request.
//!
//! `GET /api/v1/prices/YYYY/MM-DD_DK1.json` gives `[{DKK_per_kWh, EUR_per_kWh, EXR, time_start, time_end}]`, without
//! tax. The path is assumed, from the pages of the service; 404 means "not published yet". The sister has
//! `SEK_per_kWh` in its place.

use serde::Deserialize;

use super::json;
use crate::config::ConfigError;
use crate::json::{End, JsonFeed, Layout};
use crate::template::escaped;

/// The public server.
pub const BASE: &str = "https://www.elprisenligenu.dk";

/// Options of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// `DK1` or `DK2`; `SE1` to `SE4` for the sister.
    zone: String,
    /// `DKK` or `EUR`; `SEK` for the sister.
    #[serde(default = "dkk")]
    currency: String,
}

pub(super) fn dkk() -> String {
    "DKK".into()
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, or the currency is invalid.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let Options { zone, currency } = options;
    let url = format!("{base}/api/v1/prices/{{year}}/{{month}}-{{day}}_{}.json", escaped(&zone));
    let layout = Layout::Rows {
        at: vec![String::new()],
        start: "/time_start".into(),
        end: End::At("/time_end".into()),
        value: format!("/{currency}_per_kWh"),
        only: None,
    };
    json(&url, "Europe/Copenhagen", &format!("{currency}/kWh"), layout)
}
