//! Reports of feeds, kept over restarts: one text in the journal. An unreadable text counts as missing, because the
//! feeds report again.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the text's format.
const FORM: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptFeeds {
    form: u32,
    /// Feeds by [`key`].
    feeds: BTreeMap<String, Value>,
}

/// Returns the key of a feed. Slots of another currency belong to another feed.
pub fn key(kind: &str, name: &str, currency: &str) -> String {
    format!("{kind} {name} in {currency}")
}

/// Returns the reports of the feeds, by [`key`]; empty if `text` cannot be read.
pub fn read(text: &str) -> BTreeMap<String, Value> {
    parse(text).unwrap_or_else(|error| {
        tracing::warn!(error = format!("{error:#}"), "the earlier values of the feeds are no longer known");
        BTreeMap::new()
    })
}

fn parse(text: &str) -> Result<BTreeMap<String, Value>> {
    let stored: KeptFeeds = serde_json::from_str(text).context("the text in the journal is damaged")?;
    ensure!(stored.form == FORM, "its form is {}: this program reads form {FORM}", stored.form);
    Ok(stored.feeds)
}

/// Returns the text for [`read`].
///
/// # Errors
/// If it cannot be written as JSON.
pub fn write(feeds: BTreeMap<String, Value>) -> serde_json::Result<String> {
    serde_json::to_string(&KeptFeeds { form: FORM, feeds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_values_are_read_and_damaged_ones_dropped() {
        let feeds = BTreeMap::from([(key("price", "awattar DE", "EUR"), serde_json::json!([1]))]);
        assert_eq!(read(&write(feeds.clone()).expect("written")), feeds);
        for wrong in ["{\"form\":1,\"fee", "{\"form\":2,\"feeds\":{}}", "[]", "\u{0}"] {
            assert_eq!(read(wrong), BTreeMap::new(), "{wrong}");
        }
    }
}
