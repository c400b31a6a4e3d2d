//! Record of a history or an event log: the attributes of [`Attribute`], as literals. Expressions are not evaluated.

use std::borrow::Cow;

use limo_model::decimal::Decimal;

use super::attribute::{Attribute, COUNT, Kind};

/// Most bytes of a text that is kept.
const TEXT_LIMIT: usize = 4096;

/// Value as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    /// Number, rounded, and true if it is written without decimal places.
    Number {
        value: i64,
        whole: bool,
    },
    Text(Cow<'a, [u8]>),
    /// Expression, truth value, or anything else.
    Other,
}

impl<'a> Literal<'a> {
    /// Reads a value in the syntax of `condor_history -long`, in which a backslash escapes nothing but a quote, and not
    /// the last one: `"C:\dir\"` is whole.
    pub fn of_long(text: &'a [u8]) -> Self {
        let is_padded = text.last() == Some(&b' ');
        let text = text.trim_ascii();
        match text {
            // With a space behind it, the last quote is escaped like any other.
            [b'"', .., b'\\', b'"'] if is_padded => Self::Other,
            [b'"', inner @ .., b'"'] => quoted(inner).map_or(Self::Other, Self::Text),
            [b'-' | b'.' | b'0'..=b'9', ..] => Self::number(text),
            _ => Self::Other,
        }
    }

    /// Reads a number.
    pub fn number(text: &[u8]) -> Self {
        let whole = !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        // ClassAds read `010` as octal.
        if whole && digits.len() > 1 && digits[0] == b'0' {
            return Self::Other;
        }
        let value = Decimal::read(text).and_then(|number| number.rounded(0));
        value.map_or(Self::Other, |value| Self::Number { value, whole })
    }
}

/// Returns what stands between two quotes, or `None` if the text ends before the second one.
fn quoted(inner: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !inner.contains(&b'"') {
        return Some(Cow::Borrowed(inner));
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(b'"')) => {
                text.push(b'"');
                bytes.next();
            }
            (b'"', _) => return None,
            _ => text.push(byte),
        }
    }
    Some(Cow::Owned(text))
}

/// Value of an attribute of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Slot {
    #[default]
    Missing,
    /// Another kind of value, or a text that is too long.
    Mistyped,
    Number(i64),
    /// Range in the texts of the record.
    Text(usize, usize),
}

/// Record with its place in its file. It is filled again for each record, so that reading allocates nothing.
#[derive(Debug, Default)]
pub struct PoolRecord {
    slots: [Slot; COUNT],
    texts: Vec<u8>,
    /// Line on which it begins, from 1.
    pub(super) line: u64,
}

impl PoolRecord {
    /// Removes all values.
    pub(super) fn begin(&mut self, line: u64) {
        self.slots = [Slot::Missing; COUNT];
        self.texts.clear();
        self.line = line;
    }

    /// Sets the value of an attribute. The last one of a record counts, as in HTCondor.
    pub(super) fn set(&mut self, attribute: Attribute, literal: &Literal<'_>) {
        let slot = match (attribute.kind(), literal) {
            (Kind::Whole | Kind::Time, Literal::Number { value, whole: true })
            | (Kind::Number, Literal::Number { value, .. }) => Slot::Number(*value),
            (Kind::Text | Kind::Time, Literal::Text(text)) if text.len() <= TEXT_LIMIT => {
                let from = self.texts.len();
                self.texts.extend_from_slice(text);
                Slot::Text(from, self.texts.len())
            }
            _ => Slot::Mistyped,
        };
        self.slots[attribute as usize] = slot;
    }

    pub(super) fn slot(&self, attribute: Attribute) -> Slot {
        self.slots[attribute as usize]
    }

    /// Replaces the text of a time by its seconds, or marks it as mistyped.
    pub(super) fn set_time(&mut self, attribute: Attribute, seconds: Option<i64>) {
        self.slots[attribute as usize] = seconds.map_or(Slot::Mistyped, Slot::Number);
    }

    /// Returns a number.
    pub fn number(&self, attribute: Attribute) -> Option<i64> {
        if let Slot::Number(value) = self.slot(attribute) { Some(value) } else { None }
    }

    /// Returns a text.
    pub fn text(&self, attribute: Attribute) -> Option<&[u8]> {
        if let Slot::Text(from, until) = self.slot(attribute) { self.texts.get(from..until) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_the_long_form() {
        let check =
            |text: &str, expected: Literal<'_>| assert_eq!(Literal::of_long(text.as_bytes()), expected, "{text}");
        let number = |value, whole| Literal::Number { value, whole };
        let text = |value: &str| Literal::Text(value.as_bytes().to_vec().into());
        check(" 12 ", number(12, true));
        check("-1", number(-1, true));
        check("1.5", number(2, false));
        check("-1.5E+01", number(-15, false));
        check("9223372036854775807", number(i64::MAX, true));
        check("9223372036854775808", Literal::Other);
        check("010", Literal::Other);
        check("0", number(0, true));
        check("0.25", number(0, false));
        check("12K", Literal::Other);
        check("+1", Literal::Other);
        check("1 + 1", Literal::Other);
        check("true", Literal::Other);
        check("UNDEFINED", Literal::Other);
        check("", Literal::Other);
        check("\"\"", text(""));
        check("\"a b\"", text("a b"));
        check(r#""a\"b""#, text("a\"b"));
        check(r#""a\b""#, text(r"a\b"));
        check(r#""a\""#, text(r"a\"));
        check(r#""a\" "#, Literal::Other);
        check(r#""a\"\""#, text("a\"\\"));
        check(r#""a"b""#, Literal::Other);
        check(r#""a" + "b""#, Literal::Other);
        check("\"", Literal::Other);
    }

    #[test]
    fn values_have_the_kind_of_their_attribute() {
        let mut record = PoolRecord::default();
        record.begin(1);
        record.set(Attribute::QDate, &Literal::Number { value: 5, whole: false });
        record.set(Attribute::BytesSent, &Literal::Number { value: 5, whole: false });
        record.set(Attribute::Owner, &Literal::Text(b"ann".to_vec().into()));
        record.set(Attribute::Cmd, &Literal::Text(vec![b'x'; TEXT_LIMIT + 1].into()));
        assert_eq!(record.slot(Attribute::QDate), Slot::Mistyped);
        assert_eq!(record.number(Attribute::BytesSent), Some(5));
        assert_eq!(record.text(Attribute::Owner), Some(b"ann".as_slice()));
        assert_eq!(record.slot(Attribute::Cmd), Slot::Mistyped);
        assert_eq!(record.slot(Attribute::ProcId), Slot::Missing);
        record.set(Attribute::Owner, &Literal::Number { value: 5, whole: true });
        assert_eq!(record.slot(Attribute::Owner), Slot::Mistyped);
        record.begin(2);
        assert_eq!(record.slot(Attribute::BytesSent), Slot::Missing);
    }
}
