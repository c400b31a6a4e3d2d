//! Serde for configuration files: a quantity is written as text with its unit; a bare number is an error that shows the
//! correct form. Used as `#[serde(with = "limo_model::as_text")]`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// Writes the quantity as text.
///
/// # Errors
/// Only the errors of the serializer.
pub fn serialize<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Reads the quantity from text.
///
/// # Errors
/// If the value is not text, or `T` cannot be parsed from it.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: fmt::Display,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Text(PhantomData))
}

struct Text<T>(PhantomData<T>);

impl<T> Text<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    fn parse<E: de::Error>(text: &str) -> Result<T, E> {
        text.parse().map_err(|error: T::Err| E::custom(error))
    }
}

impl<T> Visitor<'_> for Text<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text with a unit, such as \"90 W\" or \"30min\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Self::parse(text)
    }

    // A bare number goes through the same parser, whose error names the units.
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        Self::parse(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Self::parse(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        Self::parse(&number.to_string())
    }
}

/// The same for an `Option`: an absent value stays absent. Used with `#[serde(default, with =
/// "limo_model::as_text::option")]`.
pub mod option {
    use super::{Deserializer, FromStr, Serializer, fmt};

    /// Writes the quantity as text.
    ///
    /// # Errors
    /// Only the errors of the serializer.
    pub fn serialize<T: fmt::Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the quantity from text, if there is any.
    ///
    /// # Errors
    /// Same as for [`super::deserialize`].
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: fmt::Display,
        D: Deserializer<'de>,
    {
        super::deserialize(deserializer).map(Some)
    }
}
