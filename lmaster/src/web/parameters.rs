//! Reads the query of a request. Each name occurs once, except for filters, whose values are lists.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::http::Uri;
use limo_model::Time;

use super::ApiError;

/// Longest query in bytes.
const LENGTH_LIMIT: usize = 4_096;

/// The parameters of a request that are not taken yet.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// # Errors
    /// If the query is longer than [`LENGTH_LIMIT`].
    pub fn of(uri: &Uri) -> Result<Self, ApiError> {
        let query = uri.query().unwrap_or_default();
        if query.len() > LENGTH_LIMIT {
            return Err(ApiError::bad(format!("the query has {} bytes: the limit is {LENGTH_LIMIT}", query.len())));
        }
        Ok(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }

    /// Takes the values of a filter: repeated, or separated by commas.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        let (taken, rest) = std::mem::take(&mut self.0).into_iter().partition(|(key, _)| key == name);
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        let words = taken.iter().flat_map(|(_, value)| value.split(',')).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    }

    /// Takes a single value.
    ///
    /// # Errors
    /// If it occurs twice.
    pub fn one(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(at) = self.0.iter().position(|(key, _)| key == name) else { return Ok(None) };
        let (_, value) = self.0.swap_remove(at);
        match self.0.iter().any(|(key, _)| key == name) {
            true => Err(ApiError::bad(format!("`{name}` is given twice"))),
            false => Ok(Some(value)),
        }
    }

    /// Takes a number.
    ///
    /// # Errors
    /// If it is not within the range, or occurs twice.
    pub fn number<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, ApiError>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let number = text.parse::<T>().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.map(Some).ok_or_else(|| ApiError::bad(format!("{name}={text}: it must be {least} to {most}")))
    }

    /// Takes a time in Unix milliseconds.
    ///
    /// # Errors
    /// If it is not one, or occurs twice.
    pub fn time(&mut self, name: &str) -> Result<Option<Time>, ApiError> {
        // Up to the year 9999.
        Ok(self.number(name, 0..=253_402_300_799_000)?.map(Time::from_unix_ms))
    }

    /// Takes a word of a list.
    ///
    /// # Errors
    /// If it is not in the list, or occurs twice.
    pub fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let known = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.map(Some).ok_or_else(|| ApiError::bad(format!("{name}={text}: it must be one of {}", known())))
    }

    /// Checks that all parameters were taken.
    ///
    /// # Errors
    /// If one is left, which has an unknown name.
    pub fn end(self) -> Result<(), ApiError> {
        match self.0.first() {
            Some((name, _)) => Err(ApiError::bad(format!("there is no parameter `{name}` here"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(query: &str) -> Result<Parameters, ApiError> {
        let uri = format!("/api/v1/jobs?{query}").parse().expect("a URI");
        Parameters::of(&uri)
    }

    fn reason<T: std::fmt::Debug>(result: Result<T, ApiError>) -> String {
        format!("{:?}", result.expect_err("refused"))
    }

    #[test]
    fn values_are_taken_by_name_and_the_rest_is_refused() {
        let mut query = parameters("user=ada,bob&limit=20&user=eve&from=1000&other=1").expect("short");
        assert_eq!(query.list("user"), ["ada", "bob", "eve"]);
        assert_eq!(query.number("limit", 1..=200).expect("a number"), Some(20));
        assert_eq!(query.time("from").expect("a time"), Some(Time::from_unix_ms(1_000)));
        assert_eq!(query.one("until").expect("none"), None);
        assert!(reason(query.end()).contains("there is no parameter `other` here"));
    }

    #[test]
    fn wrong_values_are_refused_with_their_limits() {
        let check = |query: &str, expected: &str| {
            let mut query = parameters(query).expect("short");
            let number = query.number("limit", 1..=200).map(drop);
            let word = query.word("order", &[("asc", false), ("desc", true)]).map(drop);
            let found = reason(number.and(word));
            assert!(found.contains(expected), "{found}");
        };
        check("limit=0", "limit=0: it must be 1 to 200");
        check("limit=x", "limit=x: it must be 1 to 200");
        check("limit=1&limit=2", "`limit` is given twice");
        check("order=up", "order=up: it must be one of asc, desc");
        let long = "a".repeat(LENGTH_LIMIT + 1);
        assert!(reason(parameters(&long)).contains("the query has 4097 bytes: the limit is 4096"));
    }
}
