//! Addresses with placeholders in braces: `{start}`, `{date}` and so on. A placeholder for a day makes one address for
//! each local day.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use limo_model::{Span, Time};
use thiserror::Error;

use crate::moment::{Window, timestamp};

/// Half an hour: the shortest slot of the feed that is asked for times from now on.
const SLOT: Span = Span::from_secs(1800);

/// Placeholders, for the error.
const PLACES: &str = "{start}, {end}, {start_s}, {end_s}, {start_ms}, {end_ms}, {start_local}, {end_local}, {start_compact}, \
                      {end_compact}, {now}, {date}, {year}, {month}, {day}";

/// Address that is complete except for the requested time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// Error of a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum TemplateError {
    #[error("the address `{text}` has the unknown placeholder `{{{place}}}` (known: {PLACES})")]
    Unknown { text: String, place: String },
    #[error("the address `{text}` has a brace that is not closed")]
    Open { text: String },
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateError`] if a brace contains something else than a placeholder.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let template = Self { text: text.to_owned() };
        let epoch = Time::from_unix_ms(0);
        let window = Window { from: epoch, until: epoch, now: epoch };
        template.fill(&window, Date::ZERO, &TimeZone::UTC).map(|_| template)
    }

    /// Returns the addresses for all of `window`.
    pub fn expand(&self, window: &Window, zone: &TimeZone) -> Vec<String> {
        let by_day = ["{date}", "{year}", "{month}", "{day}"].iter().any(|place| self.text.contains(place));
        let days = if by_day { window.days(zone) } else { vec![Date::ZERO] };
        // A parsed template can always be expanded.
        days.into_iter().filter_map(|day| self.fill(window, day, zone).ok()).collect()
    }

    fn fill(&self, window: &Window, day: Date, zone: &TimeZone) -> Result<String, TemplateError> {
        let mut filled = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let Some((place, after)) = after.split_once('}') else {
                return Err(TemplateError::Open { text: self.text.clone() });
            };
            let value = value(place, window, day, zone)
                .ok_or_else(|| TemplateError::Unknown { text: self.text.clone(), place: place.to_owned() })?;
            filled += before;
            filled += &value;
            rest = after;
        }
        Ok(filled + rest)
    }
}

/// Escapes `text` as a part of an address: everything except letters, digits and `-._~`.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn value(place: &str, window: &Window, day: Date, zone: &TimeZone) -> Option<String> {
    let (name, time) = match place.split_once('_').unwrap_or((place, "")) {
        ("start", name) => (name, window.from),
        ("end", name) => (name, window.until),
        ("now", "") => {
            ("minutes", Time::from_unix_ms(window.now.unix_ms() - window.now.unix_ms().rem_euclid(SLOT.ms())))
        }
        ("date", "") => return Some(day.strftime("%Y-%m-%d").to_string()),
        ("year", "") => return Some(day.strftime("%Y").to_string()),
        ("month", "") => return Some(day.strftime("%m").to_string()),
        ("day", "") => return Some(day.strftime("%d").to_string()),
        _ => return None,
    };
    let at = timestamp(time);
    Some(match name {
        "" => at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "minutes" => at.strftime("%Y-%m-%dT%H:%MZ").to_string(),
        "s" => time.unix_ms().div_euclid(1000).to_string(),
        "ms" => time.unix_ms().to_string(),
        "compact" => at.strftime("%Y%m%d%H%M").to_string(),
        "local" => zone.to_datetime(at).strftime("%Y-%m-%dT%H:%M").to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let zone = TimeZone::get("Europe/Berlin").expect("known");
        // 2025-10-26 22:12 UTC; the window begins at 2025-10-25 00:00 in Berlin.
        let window = Window::around(Time::from_unix_ms(1_761_516_720_000), &zone);
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(Template::new(text).expect("good").expand(&window, &zone), expected, "{text}");
        };
        check("http://h/p?a={start}&b={end}", &["http://h/p?a=2025-10-24T22:00:00Z&b=2025-10-27T23:00:00Z"]);
        check("{start_ms}-{end_s}", &["1761343200000-1761606000"]);
        check("{start_compact}", &["202510242200"]);
        check("{start_local}", &["2025-10-25T00:00"]);
        check("{now}", &["2025-10-26T22:00Z"]);
        check("/{year}/{month}-{day}", &["/2025/10-25", "/2025/10-26", "/2025/10-27"]);
        check("{date}", &["2025-10-25", "2025-10-26", "2025-10-27"]);
        for wrong in ["{when}", "{start", "{start_x}", "{date_s}", "{minutes}"] {
            assert!(Template::new(wrong).is_err(), "{wrong}");
        }
        assert_eq!(escaped("DK 1/{x}ä"), "DK%201%2F%7Bx%7D%C3%A4");
    }
}
