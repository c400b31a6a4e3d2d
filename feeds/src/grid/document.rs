//! Limits in files and HTTP bodies, as JSON or TOML: one limit, a list of them, or an object with the list `limits`.
//!
//! A limit is `{low_w, high_w, from, until, priority, emergency}`, all of them optional: watts, times in RFC 3339 with
//! their offset. `duration_s` may replace `until`; zero means no end. Limo writes `source` and `received_at`, and
//! ignores them when reading.

use jiff::Timestamp;
use limo_model::{Power, Span, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use thiserror::Error;

use super::limit::Limit;

/// Most limits: ten days of quarter hours. All are processed whenever one changes.
pub const LIMITS: usize = 1_000;

/// Most watts: no cluster draws a terawatt, and sums cannot overflow.
const MOST_WATTS: f64 = 1e12;

/// Most characters of a value in an error.
const SHOWN: usize = 80;

/// Error of a document.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum DocumentError {
    #[error("not JSON: {reason}")]
    Json { reason: String },
    #[error("not TOML: {reason}")]
    Toml { reason: String },
    #[error(
        "{found} is neither a limit nor a list of limits: write for example `{{\"high_w\": 500, \"until\": \"2026-10-26T18:00:00Z\"}}`"
    )]
    Form { found: &'static str },
    #[error("{count} limits: the limit is {LIMITS}")]
    Many { count: usize },
    #[error("{place}: {reason}")]
    Field { place: String, reason: String },
    #[error("{place}: {key} is {value} W: it must be 0 to 1000000000000 W")]
    Watts { place: String, key: &'static str, value: String },
    #[error("{place}: low_w is {low}, above high_w, which is {high}")]
    Crossed { place: String, low: Power, high: Power },
    #[error("{place}: {key} is `{value}`: write a time with its offset, for example `2026-10-26T18:00:00Z`")]
    Time { place: String, key: &'static str, value: String },
    #[error("{place}: duration_s is {value} s: it cannot be negative, nor end after the year 9999; 0 means no end")]
    Duration { place: String, value: i64 },
    #[error("{place}: until and duration_s exclude each other: give one of them")]
    TwoEnds { place: String },
    #[error("{place}: it ends at {until}, which is not after its begin at {from}")]
    EndsEarly { place: String, from: String, until: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLimit {
    low_w: Option<f64>,
    high_w: Option<f64>,
    from: Option<String>,
    until: Option<String>,
    duration_s: Option<i64>,
    #[serde(default)]
    priority: u32,
    #[serde(default)]
    emergency: bool,
    #[serde(rename = "source")]
    _source: Option<IgnoredAny>,
    #[serde(rename = "received_at")]
    _received_at: Option<IgnoredAny>,
}

/// Reads JSON received at `now`, when a limit without `from` begins.
///
/// # Errors
/// [`DocumentError`], naming the place and the value.
pub fn from_json(bytes: &[u8], now: Time) -> Result<Vec<Limit>, DocumentError> {
    let value = serde_json::from_slice(bytes).map_err(|error| DocumentError::Json { reason: error.to_string() })?;
    limits(value, now)
}

/// Reads TOML, where a list is `[[limits]]`.
///
/// # Errors
/// The same as for [`from_json`].
pub fn from_toml(bytes: &[u8], now: Time) -> Result<Vec<Limit>, DocumentError> {
    let refused = |reason: String| DocumentError::Toml { reason: reason.trim_end().replace('\n', "; ") };
    let text = std::str::from_utf8(bytes).map_err(|error| refused(error.to_string()))?;
    let table: toml::Table = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
    limits(as_json(toml::Value::Table(table)), now)
}

/// Converts times of TOML to texts.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => json!(number),
        toml::Value::Float(number) => json!(number),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Array(list) => Value::Array(list.into_iter().map(as_json).collect()),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, as_json(value))).collect(),
    }
}

fn limits(value: Value, now: Time) -> Result<Vec<Limit>, DocumentError> {
    let list = match value {
        Value::Array(list) => list,
        Value::Object(mut object) if object.contains_key("limits") => match object.remove("limits") {
            Some(Value::Array(list)) if object.is_empty() => list,
            Some(Value::Array(_)) => {
                let other = object.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                let reason = format!("there is `{}` besides `limits`", cut(&other));
                return Err(DocumentError::Field { place: "the document".into(), reason });
            }
            _ => return Err(DocumentError::Form { found: "`limits`" }),
        },
        Value::Object(object) => return Ok(vec![limit(Value::Object(object), now, "the limit")?]),
        Value::Null => return Err(DocumentError::Form { found: "null" }),
        Value::Bool(_) => return Err(DocumentError::Form { found: "true or false" }),
        Value::Number(_) => return Err(DocumentError::Form { found: "a number" }),
        Value::String(_) => return Err(DocumentError::Form { found: "a text" }),
    };
    if list.len() > LIMITS {
        return Err(DocumentError::Many { count: list.len() });
    }
    list.into_iter().zip(1..).map(|(value, number)| limit(value, now, &format!("limit {number}"))).collect()
}

fn limit(value: Value, now: Time, place: &str) -> Result<Limit, DocumentError> {
    let place = place.to_owned();
    let raw = RawLimit::deserialize(value)
        .map_err(|error| DocumentError::Field { place: place.clone(), reason: cut(&error.to_string()) })?;
    let power = |key, watts: Option<f64>, none| match watts {
        Some(watts) => power(watts).ok_or_else(|| DocumentError::Watts {
            place: place.clone(),
            key,
            value: cut(&watts.to_string()),
        }),
        None => Ok(none),
    };
    let time =
        |key, text: &str| time(text).ok_or_else(|| DocumentError::Time { place: place.clone(), key, value: cut(text) });
    let (low, high) = (power("low_w", raw.low_w, Power::ZERO)?, power("high_w", raw.high_w, Power::MAX)?);
    if low > high {
        return Err(DocumentError::Crossed { place, low, high });
    }
    let from = raw.from.as_deref().map_or(Ok(now), |text| time("from", text))?;
    let until = match (raw.until.as_deref(), raw.duration_s) {
        (Some(_), Some(_)) => return Err(DocumentError::TwoEnds { place }),
        (Some(text), None) => Some(time("until", text)?),
        (None, Some(0) | None) => None,
        (None, Some(value)) => {
            let until = from + Span::from_ms(value.saturating_mul(1_000));
            let is_date = value > 0 && Timestamp::from_millisecond(until.unix_ms()).is_ok();
            if !is_date {
                return Err(DocumentError::Duration { place, value });
            }
            Some(until)
        }
    };
    if let Some(until) = until.filter(|until| *until <= from) {
        return Err(DocumentError::EndsEarly { place, from: shown(from), until: shown(until) });
    }
    Ok(Limit { low, high, from, until, priority: raw.priority, emergency: raw.emergency, received_at: now })
}

/// Converts watts from outside, rounded to milliwatts; `None` if no cluster could draw them.
pub(super) fn power(watts: f64) -> Option<Power> {
    // In this range, the product fits into an i64 as a whole number of milliwatts.
    (0.0..=MOST_WATTS).contains(&watts).then(|| Power::from_mw((watts * 1e3).round() as i64))
}

fn time(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().map(|at| Time::from_unix_ms(at.as_millisecond()))
}

/// Formats a time in RFC 3339, or in milliseconds if it is outside the range of dates.
fn shown(at: Time) -> String {
    Timestamp::from_millisecond(at.unix_ms()).map_or_else(|_| format!("{} ms", at.unix_ms()), |at| at.to_string())
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Writes the limits of `source` for [`from_json`].
pub fn to_json(source: &str, limits: &[Limit]) -> Value {
    let limit = |limit: &Limit| {
        json!({
            "low_w": (!limit.low.is_zero()).then(|| limit.low.watts()),
            "high_w": (!limit.high.is_unlimited()).then(|| limit.high.watts()),
            "from": shown(limit.from),
            "until": limit.until.map(shown),
            "priority": limit.priority,
            "emergency": limit.emergency,
            "source": source,
            "received_at": shown(limit.received_at),
        })
    };
    json!({ "limits": limits.iter().map(limit).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix_ms(1_000_000);

    fn one(text: &str) -> Limit {
        let limits = from_json(text.as_bytes(), NOW).expect("a limit");
        assert_eq!(limits.len(), 1);
        limits[0]
    }

    fn refused(text: &str, expected: &str) {
        let error = from_json(text.as_bytes(), NOW).expect_err("refused").to_string();
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    #[test]
    fn limits_in_json() {
        let all = Limit {
            low: Power::ZERO,
            high: Power::MAX,
            from: NOW,
            until: None,
            priority: 0,
            emergency: false,
            received_at: NOW,
        };
        assert_eq!(one("{}"), all);
        assert_eq!(one(r#"[{"high_w": 500.25, "duration_s": 0}]"#), Limit { high: Power::from_mw(500_250), ..all });
        // `date -d` gives 1793030400 s for 2026-10-26T18:00:00+02:00, which is 16:00 UTC.
        let text = r#"{"limits":[{"low_w":10,"high_w":20,"from":"2026-10-26T18:00:00+02:00","duration_s":60,"priority":3,
            "emergency":true,"source":"x","received_at":null}]}"#;
        let from = Time::from_unix_ms(1_793_030_400_000);
        let (low, high) = (Power::from_watts(10), Power::from_watts(20));
        let until = Some(Time::from_unix_ms(1_793_030_460_000));
        assert_eq!(one(text), Limit { low, high, from, until, priority: 3, emergency: true, ..all });
        assert_eq!(from_json(b"[]", NOW), Ok(Vec::new()));
    }

    #[test]
    fn limits_in_toml() {
        let text = "[[limits]]\nhigh_w = 500\nuntil = 2026-10-26T18:00:00Z\n[[limits]]\nhigh_w = 2.5\n";
        let limits = from_toml(text.as_bytes(), NOW).expect("limits");
        let until = Some(Time::from_unix_ms(1_793_037_600_000));
        assert_eq!(limits.iter().map(|limit| limit.until).collect::<Vec<_>>(), [until, None]);
        assert_eq!(limits[1].high, Power::from_mw(2_500));
        let error = from_toml(b"high_w = \n", NOW).expect_err("refused").to_string();
        assert!(error.starts_with("not TOML: ") && !error.contains('\n'), "{error}");
        assert!(from_toml(b"high_w = 1\n\xff", NOW).is_err());
    }

    #[test]
    fn a_shown_document_can_be_read() {
        let limit = one(r#"{"low_w":10,"high_w":20.5,"until":"2026-10-26T18:00:00Z","priority":3}"#);
        assert_eq!(from_json(to_json("dso", &[limit]).to_string().as_bytes(), NOW), Ok(vec![limit]));
    }

    #[test]
    fn refusals() {
        refused("{\"high_w\":", "not JSON: EOF while parsing a value at line 1 column 10");
        refused("7", "a number is neither a limit nor a list of limits");
        refused(r#"{"limits":7}"#, "`limits` is neither a limit");
        refused(r#"{"limits":[],"else":1}"#, "there is `else` besides `limits`");
        refused(r#"[{},{"high":5}]"#, "limit 2: unknown field `high`");
        refused(r#"{"high_w":"5"}"#, "the limit: invalid type: string \"5\"");
        refused(r#"{"high_w":-1}"#, "the limit: high_w is -1 W: it must be 0 to 1000000000000 W");
        refused(r#"{"low_w":1e13}"#, "low_w is 10000000000000 W");
        refused(r#"{"low_w":9,"high_w":5}"#, "low_w is 9.0 W, above high_w, which is 5.0 W");
        refused(r#"{"until":"18:00"}"#, "until is `18:00`: write a time with its offset");
        refused(r#"{"from":"2026-10-26T18:00:00"}"#, "from is `2026-10-26T18:00:00`");
        refused(r#"{"duration_s":-5}"#, "duration_s is -5 s");
        refused(
            r#"{"duration_s":9429496729600}"#,
            "duration_s is 9429496729600 s: it cannot be negative, nor end after",
        );
        refused(r#"{"until":"2026-10-26T18:00:00Z","duration_s":5}"#, "exclude each other");
        refused(
            r#"{"until":"1970-01-01T00:00:01Z"}"#,
            "it ends at 1970-01-01T00:00:01Z, which is not after its begin at 1970-",
        );
        refused(r#"{"priority":-1}"#, "the limit: invalid value");
        refused(&format!("[{}]", vec!["{}"; LIMITS + 1].join(",")), "1001 limits: the limit is 1000");
    }
}
