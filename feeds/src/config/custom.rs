//! Sources that an operator describes: JSON and CSV of any shape.

use std::collections::BTreeMap;
use std::path::PathBuf;

use limo_model::{Span, as_text};
use serde::Deserialize;

use super::{ConfigError, Token};
use crate::csv::{CsvFeed, Place};
use crate::json::{End, JsonFeed, Layout, Mapping, Nulls};
use crate::moment::TimeFormat;
use crate::price::zone_named;
use crate::template::{Template, escaped};
use crate::unit::Unit;

/// Either `rows = "/data"` or `rows = ["/today", "/tomorrow"]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Only {
    at: String,
    is: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonOptions {
    url: String,
    /// Without rows, `start` and `value` lead to arrays.
    rows: Option<OneOrMore>,
    start: String,
    end: Option<String>,
    #[serde(default, with = "as_text::option")]
    length: Option<Span>,
    value: String,
    only: Option<Only>,
    next: Option<String>,
    #[serde(default = "rfc3339")]
    times: TimeFormat,
    #[serde(default = "utc")]
    timezone: String,
    unit: Option<Unit>,
    scale: Option<String>,
    #[serde(default)]
    nulls: Nulls,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    post: Option<String>,
    token_file: Option<Token>,
    token_header: Option<String>,
    token_prefix: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CsvOptions {
    file: Option<PathBuf>,
    url: Option<String>,
    #[serde(default = "time")]
    start: String,
    end: Option<String>,
    value: Option<String>,
    #[serde(default = "comma")]
    delimiter: char,
    #[serde(default)]
    decimal_comma: bool,
    #[serde(default = "rfc3339")]
    times: TimeFormat,
    #[serde(default = "utc")]
    timezone: String,
    unit: Option<Unit>,
    scale: Option<String>,
}

fn rfc3339() -> TimeFormat {
    TimeFormat::Rfc3339
}

fn utc() -> String {
    "UTC".into()
}

fn time() -> String {
    "time".into()
}

fn comma() -> char {
    ','
}

fn refused(key: &'static str, reason: &str) -> ConfigError {
    ConfigError::Value { key, reason: reason.into() }
}

/// Parses `1.19` as millionths.
fn scale(text: Option<&String>) -> Result<i64, ConfigError> {
    let Some(text) = text else { return Ok(1_000_000) };
    // A thousandth of a price per kWh is a millionth of a price per MWh.
    let millionths = "EUR/kWh".parse::<Unit>().ok().and_then(|unit| unit.thousandths(text));
    millionths.filter(|scale| *scale > 0).ok_or_else(|| ConfigError::Value {
        key: "scale",
        reason: format!("`{text}` is not a number above zero: write for example \"1.19\""),
    })
}

/// Returns the unit, which is fixed for carbon and required for prices.
fn unit(said: Option<Unit>, given: Option<Unit>) -> Result<Unit, ConfigError> {
    match (said, given) {
        (Some(_), Some(_)) => Err(refused("unit", "carbon is always in g/kWh: remove it")),
        (None, None) => Err(refused("unit", "it is missing: write for example `EUR/MWh`")),
        (Some(unit), None) | (None, Some(unit)) => Ok(unit),
    }
}

fn template(url: &str, secret: Option<&str>) -> Result<Template, ConfigError> {
    let hidden = |text: String| match secret {
        Some(secret) => text.replace(&escaped(secret), "***").replace(secret, "***"),
        None => text,
    };
    Template::new(url).map_err(|error| ConfigError::Value { key: "url", reason: hidden(error.to_string()) })
}

fn no_base(base: &str) -> Result<(), ConfigError> {
    if base.is_empty() { Ok(()) } else { Err(refused("base", "this source takes a full `url` or a `file` instead")) }
}

pub(super) fn json(base: String, options: JsonOptions, given: Option<Unit>) -> Result<JsonFeed, ConfigError> {
    no_base(&base)?;
    let token = options.token_file.as_ref().map(Token::read).transpose()?;
    let mut headers: Vec<(String, String)> = options.headers.clone().into_iter().collect();
    let in_url = options.url.contains("{token}");
    let url = match &token {
        Some(token) => options.url.replace("{token}", &escaped(token)),
        None if in_url || options.token_header.is_some() || options.token_prefix.is_some() => {
            return Err(refused("token_file", "it is missing: another key refers to a token"));
        }
        None => options.url.clone(),
    };
    if let (Some(token), false) = (&token, in_url) {
        let prefix = options.token_prefix.as_deref().unwrap_or("Bearer ");
        let name = options.token_header.as_deref().unwrap_or("authorization");
        headers.push((name.to_owned(), format!("{prefix}{token}")));
    }
    let url = template(&url, token.as_deref())?;
    let mapping = Mapping {
        layout: layout(&options)?,
        times: options.times,
        zone: zone_named(&options.timezone)?,
        unit: unit(options.unit, given)?,
        scale_millionths: scale(options.scale.as_ref())?,
        nulls: options.nulls,
        checked: None,
        refusal: None,
        next: options.next,
    };
    let secrets = token.into_iter().flat_map(|token| [escaped(&token), token]).collect();
    Ok(JsonFeed { url, headers, post: options.post, secrets, tolerates: &[], mapping })
}

fn layout(options: &JsonOptions) -> Result<Layout, ConfigError> {
    let (start, value) = (options.start.clone(), options.value.clone());
    let pointers = [Some(&start), Some(&value), options.end.as_ref(), options.next.as_ref()];
    if let Some(wrong) = pointers.into_iter().flatten().find(|at| !at.is_empty() && !at.starts_with('/')) {
        return Err(ConfigError::Table {
            reason: format!("`{wrong}` is not a JSON pointer: write for example `/data`"),
        });
    }
    let Some(rows) = &options.rows else {
        if options.end.is_some() || options.length.is_some() || options.only.is_some() {
            return Err(refused("rows", "it is missing: `end`, `length` and `only` need it"));
        }
        return Ok(Layout::Columns { start, value });
    };
    let end = match (&options.end, options.length) {
        (Some(_), Some(_)) => return Err(refused("length", "`end` and `length` exclude each other")),
        (Some(at), None) => End::At(at.clone()),
        (None, Some(length)) if length > Span::ZERO => End::After(length),
        (None, Some(_)) => return Err(refused("length", "it must be above zero")),
        (None, None) => End::Next,
    };
    let at = match rows {
        OneOrMore::One(at) => vec![at.clone()],
        OneOrMore::More(at) => at.clone(),
    };
    let only = options.only.clone().map(|only| (only.at, only.is));
    Ok(Layout::Rows { at, start, end, value, only })
}

pub(super) fn csv(base: String, options: CsvOptions, given: Option<Unit>) -> Result<CsvFeed, ConfigError> {
    no_base(&base)?;
    let place = match (options.file, &options.url) {
        (Some(file), None) => Place::File(file),
        (None, Some(url)) => Place::Url(template(url, None)?),
        _ => return Err(refused("file", "give either `file` or `url`")),
    };
    let delimiter = u8::try_from(options.delimiter).ok().filter(u8::is_ascii);
    let of_carbon = given.is_some();
    // The title in a file for `lconf set price` names its unit.
    let given =
        given.or_else(|| (options.value.is_none() && options.unit.is_none()).then(|| "EUR/MWh".parse().ok())?);
    let title = if of_carbon { "carbon_g_per_kwh" } else { "price_eur_per_mwh" };
    Ok(CsvFeed {
        place,
        start: options.start,
        end: options.end,
        value: options.value.unwrap_or_else(|| title.to_owned()),
        delimiter: delimiter.ok_or_else(|| refused("delimiter", "it must be one ASCII character"))?,
        decimal_comma: options.decimal_comma,
        times: options.times,
        zone: zone_named(&options.timezone)?,
        unit: unit(options.unit, given)?,
        scale_millionths: scale(options.scale.as_ref())?,
    })
}
