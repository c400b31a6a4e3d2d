//! Sources of prices: one file each. Most are data for [`crate::json`].
//!
//! The file of a source lists the assumptions about its format. None of this was run against the real servers.

pub mod awattar;
pub mod elprisenligenu;
pub mod energinet;
pub mod energy_charts;
pub mod entsoe;
pub mod nordpool;
pub mod octopus;
pub mod tibber;

use jiff::tz::TimeZone;

use crate::config::ConfigError;
use crate::json::{JsonFeed, Layout, Mapping, Nulls};
use crate::moment::TimeFormat;
use crate::template::Template;
use crate::unit::Unit;

/// Makes a GET of JSON without secrets; times in RFC 3339.
pub(crate) fn json(url: &str, zone: &str, unit: &str, layout: Layout) -> Result<JsonFeed, ConfigError> {
    let mapping = Mapping {
        layout,
        times: TimeFormat::Rfc3339,
        zone: zone_named(zone)?,
        unit: unit.parse::<Unit>().map_err(|error| ConfigError::Value { key: "unit", reason: error.to_string() })?,
        scale_millionths: 1_000_000,
        nulls: Nulls::Skip,
        checked: None,
        refusal: None,
        next: None,
    };
    let url = Template::new(url).map_err(|error| ConfigError::Value { key: "url", reason: error.to_string() })?;
    Ok(JsonFeed { url, headers: Vec::new(), post: None, secrets: Vec::new(), tolerates: &[], mapping })
}

/// Finds a time zone by its name.
pub(crate) fn zone_named(name: &str) -> Result<TimeZone, ConfigError> {
    let reason = |error: jiff::Error| format!("{error}: write for example `Europe/Berlin`");
    TimeZone::get(name).map_err(|error| ConfigError::Value { key: "timezone", reason: reason(error) })
}
