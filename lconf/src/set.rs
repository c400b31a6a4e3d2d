//! `lconf set`: one change, on disk and in force when the command returns. Says nothing.

use std::path::Path;

use limo_client::{Clock, Failure, Master, band_of, exit, read_limits, read_prices};
use limo_model::{Band, Curve};
use limo_proto::Change;

use crate::args::{Limit, Setting};
use crate::budget;

/// # Errors
/// Where the limits cross, a file cannot be read, or the master refuses.
pub async fn run(setting: Setting, master: &Master) -> Result<u8, Failure> {
    let change = match setting {
        Setting::Limits { low, high, curve } => Change::Limits(limits(low, high, curve.as_deref())?),
        Setting::Budget(set) => budget::change(set, master).await?,
        Setting::Budgets { file, release } => budget::from_file(&file, release)?,
        Setting::Mode { mode } => Change::Mode(mode),
        Setting::Policy { policy } => Change::Policy(policy),
        Setting::Price { file } if file.as_os_str() == "none" => Change::Prices(None),
        Setting::Price { file } if file.as_os_str() == "feed" => Change::FollowFeeds,
        Setting::Price { file } => Change::Prices(Some(read_prices(&file, &Clock::system()).map_err(Failure::new)?)),
    };
    master.change(change).await?;
    Ok(exit::DONE)
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
