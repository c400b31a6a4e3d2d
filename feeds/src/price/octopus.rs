//! Octopus Energy: unit rates of a British tariff, without a key.
//!
//! `GET /v1/products/P/electricity-tariffs/E-1R-P-R/standard-unit-rates/?period_from=..&period_to=..` gives `{count,
//! next, previous, results: [{value_exc_vat, value_inc_vat, valid_from, valid_to, payment_method}]}` in pence/kWh,
//! newest first and in pages. `valid_to` may be `null`: until further notice. If a tariff has two rates by payment
//! method, the one for direct debit counts.

use serde::Deserialize;

use super::json;
use crate::config::ConfigError;
use crate::json::{End, JsonFeed, Layout};
use crate::template::escaped;

/// The public server.
pub const BASE: &str = "https://api.octopus.energy";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Product, such as `AGILE-24-10-01`.
    product: String,
    /// Grid supply point: `A` to `P`.
    zone: String,
    /// Includes value added tax.
    #[serde(default)]
    with_tax: bool,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let (product, region) = (escaped(&options.product), escaped(&options.zone));
    let url = format!(
        "{base}/v1/products/{product}/electricity-tariffs/E-1R-{product}-{region}/standard-unit-rates/\
         ?period_from={{start}}&period_to={{end}}&page_size=1500"
    );
    let layout = Layout::Rows {
        at: vec!["/results".into()],
        start: "/valid_from".into(),
        end: End::At("/valid_to".into()),
        value: if options.with_tax { "/value_inc_vat" } else { "/value_exc_vat" }.into(),
        only: Some(("/payment_method".into(), "DIRECT_DEBIT".into())),
    };
    let mut feed = json(&url, "Europe/London", "pence/kWh", layout)?;
    feed.mapping.next = Some("/next".into());
    Ok(feed)
}
