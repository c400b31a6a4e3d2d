//! `lconf set`: makes one change, on disk and in force on return. Prints only warnings.

use std::path::Path;

use limo_client::{Clock, Failure, Master, band_of, exit, read_limits, read_prices, warn};
use limo_model::{Band, Curve, SlowdownKey};
use limo_proto::Change;

use crate::args::{Law, Limit, Setting, SlowdownSet};
use crate::{PROGRAM, budget};

/// Makes the change.
///
/// # Errors
/// If the limits cross, a file cannot be read, or the master refuses.
pub async fn run(setting: Setting, master: &Master) -> Result<u8, Failure> {
    let change = match setting {
        Setting::Limits { low, high, curve } => Change::Limits(limits(low, high, curve.as_deref())?),
        Setting::Budget(set) => budget::change(set, master).await?,
        Setting::Budgets { file, release } => budget::from_file(&file, release)?,
        Setting::Mode { mode } => Change::Mode(mode),
        Setting::Explore { share } => Change::Explore(share),
        Setting::Slowdown(SlowdownSet { law: Law(law), app, hardware }) => {
            let (application, hardware) = (app.unwrap_or_default(), hardware.unwrap_or_default());
            Change::Slowdown { key: SlowdownKey { application, hardware }, law }
        }
        Setting::Policy { policy, parts } => Change::Policy { preset: policy, parts },
        Setting::Price { file } if file.as_os_str() == "none" => Change::Prices(None),
        Setting::Price { file } if file.as_os_str() == "feed" => Change::FollowFeeds,
        Setting::Price { file } => Change::Prices(Some(read_prices(&file, &Clock::system()).map_err(Failure::new)?)),
    };
    let ended = ended(&change, &Clock::system());
    let warnings = master.change_warned(change).await?;
    ended.iter().chain(&warnings).for_each(|warning| warn(PROGRAM, warning));
    Ok(exit::DONE)
}

/// Warns of a curve that has already ended.
fn ended(change: &Change, clock: &Clock) -> Option<String> {
    let (name, until) = match change {
        Change::Limits(limits) => ("limits", limits.ended(clock.now())),
        Change::Prices(Some(prices)) => ("prices", prices.ended(clock.now())),
        _ => return None,
    };
    until.map(|at| format!("the {name} ended at {}: none are in force", clock.show_full(at)))
}

fn limits(low: Option<Limit>, high: Option<Limit>, curve: Option<&Path>) -> Result<Curve<Band>, Failure> {
    match curve {
        Some(file) => read_limits(file, &Clock::system()).map_err(Failure::new),
        None => {
            let limit = |limit: Option<Limit>| limit.and_then(|limit| limit.0);
            band_of(limit(low), limit(high)).map(Curve::constant).map_err(Failure::new)
        }
    }
}
