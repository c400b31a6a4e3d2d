//! `lconf show`: prints the settings in force.

use limo_client::json::SCHEMA;
use limo_client::{
    Clock, Failure, Master, answer, answer_json, band_in_words, exit, limits_to_come, mode_in_words, price_in_words,
};
use limo_model::{Band, Currency, NamedPart, PartRule, Time};
use limo_proto::Status;
use serde::Serialize;

use crate::budget::{self, BudgetJson};

/// Settings as JSON, also part of the status.
#[derive(Serialize)]
pub struct SettingsJson {
    schema: u32,
    policy: String,
    /// Parts in force, with their rules.
    parts: PartsJson,
    /// Kinds of the parts that are not those of the preset.
    parts_replaced: Vec<&'static str>,
    /// Promises of the parts, in words.
    promises: Vec<&'static str>,
    /// Setting of the mode: `high`, `low` or `auto`.
    mode_setting: String,
    /// Mode in force: `high` or `low`.
    mode: String,
    #[serde(flatten)]
    band: BandJson,
    next_band: Option<NextBandJson>,
    /// End of the limits, if they have ended.
    limits_ended_unix_ms: Option<i64>,
    /// The running period and the future ones.
    budgets: Vec<BudgetJson>,
    currency: Currency,
    price_per_mwh: Option<f64>,
    next_price: Option<NextPriceJson>,
    /// End of the prices, if they have ended.
    prices_ended_unix_ms: Option<i64>,
    /// Share of the jobs that allow it that explore caps.
    explore_percent: f64,
}

#[derive(Serialize)]
struct PartsJson {
    order: &'static str,
    admission: &'static str,
    placement: &'static str,
    caps: &'static str,
    idle: &'static str,
}

/// Band; `null` means no limit.
#[derive(Serialize)]
pub struct BandJson {
    band_low_w: Option<f64>,
    band_high_w: Option<f64>,
}

#[derive(Serialize)]
struct NextBandJson {
    at_unix_ms: i64,
    #[serde(flatten)]
    band: BandJson,
}

#[derive(Serialize)]
struct NextPriceJson {
    at_unix_ms: i64,
    /// Price; `null` at the end of the prices.
    price_per_mwh: Option<f64>,
}

impl From<Band> for BandJson {
    fn from(band: Band) -> Self {
        Self {
            band_low_w: (!band.low().is_zero()).then(|| band.low().watts()),
            band_high_w: (!band.high().is_unlimited()).then(|| band.high().watts()),
        }
    }
}

impl From<&Status> for SettingsJson {
    fn from(status: &Status) -> Self {
        let at_unix_ms = Time::unix_ms;
        Self {
            schema: SCHEMA,
            policy: status.policy.to_string(),
            parts: PartsJson {
                order: status.parts.order.name(),
                admission: status.parts.admission.name(),
                placement: status.parts.placement.name(),
                caps: status.parts.caps.name(),
                idle: status.parts.idle.name(),
            },
            parts_replaced: status.parts.other_than(status.policy).into_iter().map(PartRule::kind).collect(),
            promises: status.parts.promises(),
            mode_setting: status.mode_setting.to_string(),
            mode: status.mode.to_string(),
            band: status.band.into(),
            next_band: status
                .next_band
                .map(|(at, band)| NextBandJson { at_unix_ms: at_unix_ms(at), band: band.into() }),
            limits_ended_unix_ms: status.limits_ended.map(at_unix_ms),
            budgets: status.budgets.iter().map(BudgetJson::from).collect(),
            currency: Currency::agreed(),
            price_per_mwh: status.price.map(|price| price.per_mwh()),
            next_price: status.next_price.map(|(at, price)| NextPriceJson {
                at_unix_ms: at_unix_ms(at),
                price_per_mwh: price.map(|price| price.per_mwh()),
            }),
            prices_ended_unix_ms: status.prices_ended.map(at_unix_ms),
            explore_percent: status.explore.percent(),
        }
    }
}

/// Prints the settings.
///
/// # Errors
/// If the master cannot be asked.
pub async fn run(json: bool, master: &Master) -> Result<u8, Failure> {
    let status = master.status().await?;
    if json {
        answer_json(&SettingsJson::from(&status))?;
    } else {
        answer(&settings(&status, &Clock::system()))?;
    }
    Ok(exit::DONE)
}

/// Formats the policy, for example `easy with placement=least-energy`.
pub fn policy(status: &Status) -> String {
    match &status.parts.other_than(status.policy)[..] {
        [] => status.policy.to_string(),
        others => format!("{} with {}", status.policy, in_words(others)),
    }
}

/// Formats parts, for example `caps=untouched idle=power-off`.
pub fn in_words(parts: &[PartRule]) -> String {
    parts.iter().map(PartRule::to_string).collect::<Vec<_>>().join(" ")
}

fn settings(status: &Status, clock: &Clock) -> String {
    let limits = band_in_words(status.band) + &limits_to_come(status, clock);
    let mut text = format!("policy   {}\nmode     {}\nlimits   {limits}\n", policy(status), mode_in_words(status));
    for line in budget::settings(status, clock) {
        text += &format!("budgets  {line}\n");
    }
    text += &format!("price    {}\n", price_in_words(status, clock));
    if !status.explore.is_none() {
        text += &format!("explore  {} of the jobs that allow it\n", status.explore);
    }
    text
}
