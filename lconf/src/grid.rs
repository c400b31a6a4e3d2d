//! Formats the sources of grid limits for `lconf status`.

use limo_client::{Clock, band_in_words};
use limo_proto::GridReport;
use serde::Serialize;

use crate::show::BandJson;

/// Source as JSON.
#[derive(Serialize)]
pub struct GridJson {
    name: String,
    /// State: `ok`, `stale` or `failsafe`.
    state: &'static str,
    heard_unix_ms: Option<i64>,
    fault: Option<String>,
    /// Limit in force from this source.
    limit: Option<LimitJson>,
}

#[derive(Serialize)]
struct LimitJson {
    #[serde(flatten)]
    band: BandJson,
    /// End of the limit; `null` means until further notice.
    until_unix_ms: Option<i64>,
    emergency: bool,
}

impl From<&GridReport> for GridJson {
    fn from(report: &GridReport) -> Self {
        Self {
            name: report.name.clone(),
            state: report.state.name(),
            heard_unix_ms: report.heard.map(|at| at.unix_ms()),
            fault: report.fault.clone(),
            limit: report.limit.map(|limit| LimitJson {
                band: limit.band.into(),
                until_unix_ms: limit.until.map(|at| at.unix_ms()),
                emergency: limit.emergency,
            }),
        }
    }
}

/// Formats a source, for example `dso: ok, at most 500.0 W until 18:00`.
pub fn in_words(report: &GridReport, clock: &Clock) -> String {
    let mut text = format!("{}: {}", report.name, report.state.name());
    match report.limit {
        Some(limit) => {
            text += if limit.emergency { ", emergency, " } else { ", " };
            text += &band_in_words(limit.band);
            if let Some(until) = limit.until {
                text += &format!(" until {}", clock.show(until));
            }
        }
        None => text += ", no limit",
    }
    if let Some(fault) = &report.fault {
        text += &format!(" ({fault})");
    }
    text
}
