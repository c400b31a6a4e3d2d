//! Feeds of a configuration file: `[[feed.price]]` and `[feed.carbon]`. Reads only the token files and certificate
//! authorities that they name.

mod custom;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use limo_model::{Price, Span};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::{Table, Value};

use crate::carbon::{electricity_maps, uk};
use crate::file::{self, FileError};
use crate::price::{awattar, elprisenligenu, energinet, energy_charts, entsoe, nordpool, octopus, tibber};
use crate::slot::{Intensity, Quantity};
use crate::source::CurveSource;
use crate::unit::Unit;

/// Longer than any token.
const TOKEN_LIMIT: usize = 4096;

/// Most bytes of authorities: four times the bundle of all public certificate authorities.
pub const AUTHORITIES_LIMIT: usize = 1 << 20;

/// Default interval: day-ahead prices change once a day.
const EVERY: Span = Span::from_secs(3600);

/// Shortest interval, so that a server has time to answer.
const SHORTEST: Span = Span::from_secs(1);

/// Default age at which values expire. The last quarter of tomorrow is published 35 hours before it ends, so that known
/// values do not expire.
const STALE_AFTER: Span = Span::from_secs(2 * 86_400);

/// Table `[feed]`, as written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeedTables {
    price: Vec<Table>,
    carbon: Option<Table>,
}

/// Error of a table. Every message names the table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ConfigError {
    #[error("{place}: {source}")]
    In { place: String, source: Box<ConfigError> },
    #[error("{reason}")]
    Table { reason: String },
    #[error("{key}: {reason}")]
    Value { key: &'static str, reason: String },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not a token: it must be one line of visible characters", path.display())]
    Token { path: PathBuf },
}

/// Treatment of times without a known value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback<V> {
    /// No value: jobs run without waiting for one.
    #[default]
    RunNow,
    /// Value of the same time on the previous day, or on the latest day before with a known value.
    LastDay,
    /// The given value, without an end.
    Fixed(V),
}

/// Feed as configured.
#[derive(Clone)]
pub struct Feed<V> {
    /// Name from the configuration, else the source with its zone. Unique.
    pub name: String,
    /// True if it publishes prices of the next day once a day.
    pub day_ahead: bool,
    /// Source, which also parses its answers.
    pub source: Arc<dyn CurveSource<V>>,
    /// Time between successful requests; positive.
    pub every: Span,
    /// Age from which values no longer count.
    pub stale_after: Span,
    /// Values while nothing is known.
    pub fallback: Fallback<V>,
    /// Certificates in PEM that are trusted besides those of the machine.
    pub authorities: Option<Vec<u8>>,
}

/// All feeds of a master.
#[derive(Clone, Default)]
pub struct Feeds {
    /// The first feed that knows a price counts.
    pub prices: Vec<Feed<Price>>,
    /// Feed of carbon intensities.
    pub carbon: Option<Feed<Intensity>>,
    /// Weight of a tonne of carbon dioxide, in thousandths of the currency; 0 without a feed.
    pub weight_milli_per_t: i64,
    /// Currency of all prices.
    pub currency: String,
}

impl Feeds {
    /// Returns true if there are no feeds.
    pub fn is_empty(&self) -> bool {
        self.prices.is_empty() && self.carbon.is_none()
    }
}

/// Path of a file with a secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Token(pub(crate) PathBuf);

impl Token {
    /// Returns the only line of the file.
    ///
    /// # Errors
    /// If it cannot be read, or is not one line of visible characters. The content is not shown.
    pub(crate) fn read(&self) -> Result<String, ConfigError> {
        let (text, _) = file::read(&self.0, TOKEN_LIMIT)?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then_some(text).ok_or_else(|| ConfigError::Token { path: self.0.clone() })
    }
}

impl FeedTables {
    /// Makes the feeds of the tables.
    ///
    /// # Errors
    /// [`ConfigError`], naming the table and the key.
    pub fn build(&self) -> Result<Feeds, ConfigError> {
        let mut feeds = Feeds::default();
        for (number, table) in (1..).zip(&self.price) {
            let place = format!("feed.price, number {number}");
            let feed = feed(table.clone(), price).map_err(|error| error.at(&place))?;
            feeds.prices.push(feed);
        }
        let names: Vec<&String> = feeds.prices.iter().map(|feed| &feed.name).collect();
        if let Some((index, name)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            let reason = format!("two feeds have the name `{name}`: rename one, for example `name = \"second\"`");
            let error = ConfigError::Value { key: "name", reason };
            return Err(error.at(&format!("feed.price, number {}", index + 1)));
        }
        if let Some((_, others)) = feeds.prices.split_last()
            && let Some(index) = others.iter().position(|feed| feed.fallback != Fallback::RunNow)
        {
            let reason = "only the last feed of prices can have a fallback: the others fall back to the next";
            let error = ConfigError::Value { key: "fallback", reason: reason.into() };
            return Err(error.at(&format!("feed.price, number {}", index + 1)));
        }
        if let Some(table) = &self.carbon {
            let mut table = table.clone();
            let weight = weight(&mut table).and_then(|weight| Ok((weight, feed(table, carbon)?)));
            let ((weight, currency), feed) = weight.map_err(|error| error.at("feed.carbon"))?;
            feeds.weight_milli_per_t = weight;
            feeds.carbon = Some(feed);
            feeds.currency = currency;
        }
        let mut named = feeds.prices.iter().map(|feed| feed.source.currency().to_owned());
        let first = (!feeds.currency.is_empty()).then(|| feeds.currency.clone()).or_else(|| named.next());
        feeds.currency = first.unwrap_or_default();
        if let Some(other) =
            feeds.prices.iter().map(|feed| feed.source.currency()).find(|other| **other != feeds.currency)
        {
            let reason = format!("the feeds are in {} and in {other}: all must have the same currency", feeds.currency);
            return Err(ConfigError::Value { key: "feed", reason });
        }
        Ok(feeds)
    }
}

impl ConfigError {
    fn at(self, place: &str) -> Self {
        Self::In { place: place.to_owned(), source: Box::new(self) }
    }
}

/// Makes a source from its name, its base and the rest of the table.
type Built<V> = Result<Arc<dyn CurveSource<V>>, ConfigError>;

/// Makes a feed: reads the common keys; the source reads the rest of the table.
fn feed<V: Quantity>(
    mut table: Table,
    build: fn(&str, Option<String>, Table) -> Built<V>,
) -> Result<Feed<V>, ConfigError>
where
    Fallback<V>: FromStr<Err = String> + Default,
{
    let source = text(&mut table, "source")?.ok_or_else(|| ConfigError::Value {
        key: "source",
        reason: "it is missing: name the source of the values".into(),
    })?;
    let every = span(&mut table, "every", EVERY)?;
    let stale_after = span(&mut table, "stale_after", STALE_AFTER)?;
    let said = text(&mut table, "fallback")?;
    let fallback = said.as_ref().map(|text| text.parse()).transpose();
    let fallback = fallback.map_err(|reason| ConfigError::Value { key: "fallback", reason })?.unwrap_or_default();
    let authorities = text(&mut table, "authorities")?.map(|path| file::read(Path::new(&path), AUTHORITIES_LIMIT));
    let authorities = authorities.transpose()?.map(|(pem, _)| pem);
    let base = text(&mut table, "base")?.map(|base| base.trim_end_matches('/').to_owned());
    let zone = table.get("zone").and_then(Value::as_str).map(|zone| format!(" {zone}")).unwrap_or_default();
    let name = text(&mut table, "name")?.unwrap_or_else(|| format!("{source}{zone}"));
    let day_ahead = !["json", "csv", "uk", "electricity-maps"].contains(&source.as_str());
    let source = build(&source, base, table)?;
    if let Some(currency) = said.as_deref().and_then(currency_of).filter(|currency| currency != source.currency()) {
        let reason = format!("it is in {currency}, but the feed is in {}", source.currency());
        return Err(ConfigError::Value { key: "fallback", reason });
    }
    if let Some(authorities) = &authorities {
        let fetcher = crate::fetch::Fetcher::new(crate::fetch::TIMEOUT, Some(authorities));
        fetcher.map_err(|error| ConfigError::Value { key: "authorities", reason: error.to_string() })?;
    }
    Ok(Feed { name, day_ahead, source, every, stale_after, fallback, authorities })
}

fn text(table: &mut Table, key: &'static str) -> Result<Option<String>, ConfigError> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(ConfigError::Value { key, reason: format!("it is `{other}` instead of a text") }),
    }
}

fn span(table: &mut Table, key: &'static str, default: Span) -> Result<Span, ConfigError> {
    let text = match table.remove(key) {
        None => return Ok(default),
        Some(Value::String(text)) => text,
        // The parser's error for a bare number names the units.
        Some(other) => other.to_string(),
    };
    let span: Span =
        text.parse().map_err(|error: limo_model::UnitError| ConfigError::Value { key, reason: error.to_string() })?;
    if span >= SHORTEST {
        Ok(span)
    } else {
        Err(ConfigError::Value { key, reason: format!("it is {span}: it must be at least {SHORTEST}") })
    }
}

/// Parses the rest of a table, for the source.
fn options<T: DeserializeOwned>(table: Table) -> Result<T, ConfigError> {
    Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError::Table { reason: error.message().to_owned() })
}

fn unknown(known: &str, source: &str) -> ConfigError {
    ConfigError::Value { key: "source", reason: format!("`{source}` is unknown (known: {known})") }
}

fn price(name: &str, base: Option<String>, table: Table) -> Built<Price> {
    let base = |default: &str| base.clone().unwrap_or_else(|| default.to_owned());
    Ok(match name {
        "energy-charts" => Arc::new(energy_charts::source(&base(energy_charts::BASE), options(table)?)?),
        "awattar" => {
            let options: awattar::Options = options(table)?;
            Arc::new(awattar::source(&base(options.base()))?)
        }
        "entsoe" => Arc::new(entsoe::source(&base(entsoe::BASE), options(table)?)?),
        "nordpool" => Arc::new(nordpool::source(&base(nordpool::BASE), options(table)?)?),
        "elprisenligenu" => Arc::new(elprisenligenu::source(&base(elprisenligenu::BASE), options(table)?)?),
        "energinet" => Arc::new(energinet::source(&base(energinet::BASE), options(table)?)?),
        "octopus" => Arc::new(octopus::source(&base(octopus::BASE), options(table)?)?),
        "tibber" => Arc::new(tibber::source(&base(tibber::BASE), options(table)?)?),
        "json" => Arc::new(custom::json(base(""), options(table)?, None)?),
        "csv" => Arc::new(custom::csv(base(""), options(table)?, None)?),
        other => {
            let known =
                "energy-charts, awattar, entsoe, nordpool, elprisenligenu, energinet, octopus, tibber, json and csv";
            return Err(unknown(known, other));
        }
    })
}

fn carbon(name: &str, base: Option<String>, table: Table) -> Built<Intensity> {
    let base = |default: &str| base.clone().unwrap_or_else(|| default.to_owned());
    Ok(match name {
        "electricity-maps" => Arc::new(electricity_maps::source(&base(electricity_maps::BASE), options(table)?)?),
        "uk" => Arc::new(uk::source(&base(uk::BASE), &options(table)?)?),
        "json" => Arc::new(custom::json(base(""), options(table)?, Some(Unit::grams()))?),
        "csv" => Arc::new(custom::csv(base(""), options(table)?, Some(Unit::grams()))?),
        other => return Err(unknown("electricity-maps, uk, json and csv", other)),
    })
}

/// Parses `80 EUR/t` as thousandths and a currency.
fn weight(table: &mut Table) -> Result<(i64, String), ConfigError> {
    let text = text(table, "weight")?;
    let error = |reason: String| ConfigError::Value { key: "weight", reason };
    let text = text.ok_or_else(|| error("it is missing: give the weight of a tonne, for example `80 EUR/t`".into()))?;
    let parsed = text.strip_suffix("/t").and_then(|rest| {
        let (number, currency) = rest.trim().rsplit_once(' ')?;
        // Thousandths of any currency.
        let unit: Unit = format!("{currency}/MWh").parse().ok()?;
        Some((unit.thousandths(number).filter(|weight| *weight >= 0)?, currency.to_owned()))
    });
    parsed.ok_or_else(|| error(format!("`{text}` is not a price of a tonne: write for example `80 EUR/t`")))
}

impl FromStr for Fallback<Price> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        fallback(text, "80 EUR/MWh", |unit| unit.parse().ok())
    }
}

impl FromStr for Fallback<Intensity> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        fallback(text, "400 g/kWh", |unit| Unit::grams().is_called(unit).then(Unit::grams))
    }
}

/// Returns the currency of a fixed price.
fn currency_of(fallback: &str) -> Option<String> {
    let unit: Unit = fallback[fallback.find(|c: char| c.is_alphabetic())?..].parse().ok()?;
    Some(unit.currency().to_owned())
}

fn fallback<V: Quantity>(text: &str, example: &str, unit: fn(&str) -> Option<Unit>) -> Result<Fallback<V>, String> {
    let fixed = || {
        let (number, name) = text.trim().split_at(text.trim().find(|c: char| c.is_alphabetic())?);
        V::from_thousandths(unit(name)?.thousandths(number.trim())?)
    };
    match text {
        "run-now" => Ok(Fallback::RunNow),
        "last-day" => Ok(Fallback::LastDay),
        _ => fixed().map(Fallback::Fixed).ok_or_else(|| {
            format!("`{text}` is not a fallback: write run-now, last-day, or a value such as `{example}`")
        }),
    }
}

#[cfg(test)]
mod tests;
