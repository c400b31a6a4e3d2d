//! Texts and lists of a bounded size, so that no peer controls how much another one decodes, keeps or passes on.
//!
//! Decoding refuses larger values, and allocates no more than the bound first. A program's own values are either
//! clipped ([`Text`], [`List::clipped`], [`clip`]) or refused ([`List::try_from`]). Human-readable formats (reports in
//! the journal) are clipped when read, because old ones were written without bounds.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use limo_model::{Outcome, REASON_LIMIT};
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A value above its bound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum BoundError {
    #[error("a text of {size} bytes: the limit is {limit}")]
    Text { size: usize, limit: usize },
    #[error("{size} bytes: the limit is {limit}")]
    Bytes { size: usize, limit: usize },
    #[error("a list of {size} or more entries: the limit is {limit}")]
    List { size: usize, limit: usize },
}

/// UTF-8 of at most `N` bytes. Longer text is clipped when a `Text` is made of it, and ends with an ellipsis.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>(String);

impl<const N: usize> Text<N> {
    /// Clips the text if it is too long.
    pub fn new(text: impl Into<String>) -> Self {
        Self(limo_model::clip(text.into(), N))
    }

    /// Converts bytes that need not be UTF-8; the bound holds for the converted text.
    pub fn from_lossy(bytes: &[u8]) -> Self {
        Self(limo_model::clip_lossy(bytes, N))
    }

    /// Returns the text, at most `N` bytes.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const N: usize> Deref for Text<N> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const N: usize> From<String> for Text<N> {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<const N: usize> From<Text<N>> for String {
    fn from(text: Text<N>) -> Self {
        text.0
    }
}

impl<const N: usize> PartialEq<str> for Text<N> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<const N: usize> PartialEq<&str> for Text<N> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<const N: usize> Serialize for Text<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Text<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::<D, N>(deserializer).map(Self)
    }
}

/// List of at most `N` entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct List<T, const N: usize>(Vec<T>);

impl<T, const N: usize> List<T, N> {
    /// Keeps the first `N` entries.
    pub fn clipped(mut entries: Vec<T>) -> Self {
        entries.truncate(N);
        Self(entries)
    }

    /// Returns the entries, at most `N`.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const N: usize> TryFrom<Vec<T>> for List<T, N> {
    type Error = BoundError;
    fn try_from(entries: Vec<T>) -> Result<Self, BoundError> {
        match entries.len() {
            size if size > N => Err(BoundError::List { size, limit: N }),
            _ => Ok(Self(entries)),
        }
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> IntoIterator for List<T, N> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: Serialize, const N: usize> Serialize for List<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned, const N: usize> Deserialize<'de> for List<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        list::<D, T, N>(deserializer).map(Self)
    }
}

/// For `deserialize_with`: a text of at most `N` bytes.
///
/// # Errors
/// If it is longer; human-readable formats clip it instead.
pub(crate) fn text<'de, D: Deserializer<'de>, const N: usize>(deserializer: D) -> Result<String, D::Error> {
    let clips = deserializer.is_human_readable();
    let text = String::deserialize(deserializer)?;
    match text.len() {
        size if size > N && !clips => Err(D::Error::custom(BoundError::Text { size, limit: N })),
        _ => Ok(limo_model::clip(text, N)),
    }
}

/// For `deserialize_with`: a list of at most `N` entries.
///
/// # Errors
/// If there are more.
pub(crate) fn list<'de, D, T, const N: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(Entries::<T, N>(PhantomData))
}

/// For `deserialize_with`: at most `N` texts of at most `LENGTH` bytes each.
///
/// # Errors
/// If the list or one of the texts is longer.
pub(crate) fn texts<'de, D, const LENGTH: usize, const N: usize>(deserializer: D) -> Result<Vec<String>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = list::<D, Text<LENGTH>, N>(deserializer)?;
    Ok(texts.into_iter().map(Text::into_string).collect())
}

struct Entries<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Entries<T, N> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {N} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let too_many = |size| A::Error::custom(BoundError::List { size, limit: N });
        // The claimed length is not trusted: memory is allocated as entries arrive.
        if let Some(size) = sequence.size_hint().filter(|size| *size > N) {
            return Err(too_many(size));
        }
        let mut entries = Vec::new();
        while let Some(entry) = sequence.next_element()? {
            if entries.len() == N {
                return Err(too_many(N + 1));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// For `serialize_with`: a text that is sent clipped to `N` bytes.
pub(crate) fn clip<S: Serializer, const N: usize>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if text.len() <= N {
        return serializer.serialize_str(text);
    }
    serializer.serialize_str(&limo_model::clip_lossy(text.as_bytes(), N))
}

/// The same for an optional text.
pub(crate) fn clip_some<S: Serializer, const N: usize>(
    text: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => serializer.serialize_some(&Text::<N>::from_lossy(text.as_bytes())),
        None => serializer.serialize_none(),
    }
}

/// For `with`: an outcome with a reason of at most [`REASON_LIMIT`] bytes. It is sent clipped.
pub(crate) mod outcome {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
        match outcome.reason() {
            Some(reason) if reason.len() > REASON_LIMIT => outcome.clone().clipped().serialize(serializer),
            _ => outcome.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        let outcome = Outcome::deserialize(deserializer)?;
        match outcome.reason().map_or(0, str::len) {
            size if size > REASON_LIMIT => Err(D::Error::custom(BoundError::Text { size, limit: REASON_LIMIT })),
            _ => Ok(outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{decode, encode_into};

    fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_into(value, &mut bytes).expect("small");
        bytes
    }

    fn refused<T: DeserializeOwned + fmt::Debug>(bytes: &[u8]) -> String {
        decode::<T>(bytes).expect_err("above the bound").to_string()
    }

    #[test]
    fn at_the_bound_it_comes_back_and_above_it_is_refused() {
        let (text, longer) = ("x".repeat(8), "x".repeat(9));
        assert_eq!(decode::<Text<8>>(&encoded(&text)).expect("at the bound"), text.as_str());
        assert_eq!(
            refused::<Text<8>>(&encoded(&longer)),
            "the message is malformed: a text of 9 bytes: the limit is 8"
        );
        let list = encoded(&vec![1_u64; 9]);
        let expected = "the message is malformed: a list of 9 or more entries: the limit is 8";
        assert_eq!(refused::<List<u64, 8>>(&list), expected);
        assert_eq!(decode::<List<u64, 9>>(&list).expect("at the bound").len(), 9);
        assert!(refused::<List<Text<8>, 8>>(&encoded(&vec![longer])).contains("a text of 9 bytes"));
    }

    #[test]
    fn outgoing_values_are_clipped_or_refused() {
        assert_eq!(Text::<8>::from("x".repeat(9)), "xxxxx…");
        assert_eq!(Text::<8>::from_lossy(&[0xff; 100]).len(), 6, "one and the ellipsis");
        assert_eq!(List::<u8, 2>::clipped(vec![1, 2, 3]).into_vec(), [1, 2]);
        let refused = List::<u8, 2>::try_from(vec![1, 2, 3]).expect_err("three").to_string();
        assert_eq!(refused, "a list of 3 or more entries: the limit is 2");
    }
}
