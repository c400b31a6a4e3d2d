//! Tibber: prices of a customer's home, by GraphQL, with a token.
//!
//! `POST /v1-beta/gql` gives `{data: {viewer: {homes: [{currentSubscription: {priceInfo: {today: [{startsAt, total,
//! energy, currency}], tomorrow: [..]}}}]}}}` per kWh; `total` is with tax, `energy` without. `tomorrow` is empty until
//! it is published. Errors are in `errors`, also with status 400. There is no yesterday.

use serde::Deserialize;

use super::json;
use crate::config::{ConfigError, Token};
use crate::json::{End, JsonFeed, Layout, UnitText};

/// The public server.
pub const BASE: &str = "https://api.tibber.com";

const QUERY: &str = "{ viewer { homes { currentSubscription { priceInfo(resolution: QUARTER_HOURLY) { \
                     today { startsAt total energy currency } tomorrow { startsAt total energy currency } } } } } }";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    token_file: Token,
    /// Index of the home, from 0.
    #[serde(default)]
    home: u8,
    /// `NOK`, `SEK`, `EUR`.
    currency: String,
    /// Includes value added tax and fees.
    #[serde(default)]
    with_tax: bool,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, the currency is invalid, or the token cannot be read.
pub fn source(base: &str, options: Options) -> Result<JsonFeed, ConfigError> {
    let info = format!("/data/viewer/homes/{}/currentSubscription/priceInfo", options.home);
    let layout = Layout::Rows {
        at: vec![format!("{info}/today"), format!("{info}/tomorrow")],
        start: "/startsAt".into(),
        end: End::Next,
        value: if options.with_tax { "/total" } else { "/energy" }.into(),
        only: None,
    };
    let token = options.token_file.read()?;
    let mut feed = json(&format!("{base}/v1-beta/gql"), "Europe/Berlin", &format!("{}/kWh", options.currency), layout)?;
    feed.headers = vec![("authorization".into(), format!("Bearer {token}"))];
    feed.post = Some(serde_json::json!({ "query": QUERY }).to_string());
    feed.secrets = vec![token];
    feed.tolerates = &[400];
    feed.mapping.checked = Some(("/currency".into(), UnitText::Currency));
    feed.mapping.refusal = Some("/errors/0/message".into());
    Ok(feed)
}
