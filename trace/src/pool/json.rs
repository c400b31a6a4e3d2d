//! Records of `condor_history -json` and `-jsonl`, and of event logs in JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::ATTRIBUTE_LIMIT;
use super::attribute::Attribute;
use super::record::{Literal, PoolRecord};

/// Reads one object.
///
/// # Errors
/// The reason, if it is not one.
pub(super) fn read(object: &[u8], record: &mut PoolRecord) -> Result<(), String> {
    let mut json = serde_json::Deserializer::from_slice(object);
    json.deserialize_map(Ad(record)).map_err(|error| error.to_string())
}

struct Ad<'r>(&'r mut PoolRecord);

impl<'de> Visitor<'de> for Ad<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut attributes = 0;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            attributes += 1;
            if attributes > ATTRIBUTE_LIMIT {
                return Err(A::Error::custom(format!("it has more than {ATTRIBUTE_LIMIT} attributes")));
            }
            match Attribute::of(name.as_bytes()) {
                Some(attribute) => map.next_value_seed(Value { record: self.0, attribute })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Place for the value of an attribute.
struct Value<'r> {
    record: &'r mut PoolRecord,
    attribute: Attribute,
}

impl Value<'_> {
    fn number<E>(self, value: Option<i64>, whole: bool) -> Result<(), E> {
        self.put(&value.map_or(Literal::Other, |value| Literal::Number { value, whole }))
    }

    fn put<E>(self, literal: &Literal<'_>) -> Result<(), E> {
        self.record.set(self.attribute, literal);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.number(Some(value), true)
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.number(i64::try_from(value).ok(), true)
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // Beyond 2^62 no time and no number of bytes is meant.
        let is_in_range = value.abs() < (1_u64 << 62) as f64;
        self.number(is_in_range.then_some(value.round() as i64), false)
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        // HTCondor writes expressions as `/Expr(...)/`.
        let is_expression = value.starts_with("/Expr(") && value.ends_with(")/");
        self.put(&if is_expression { Literal::Other } else { Literal::Text(value.as_bytes().into()) })
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.put(&Literal::Other)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.put(&Literal::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.put(&Literal::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.put(&Literal::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Slot;
    use super::*;

    #[test]
    fn values() {
        let mut record = PoolRecord::default();
        record.begin(1);
        let text = r#"{"qdate": 5, "ClusterId": 1.0, "BytesSent": 2.5, "Owner": "a\"b", "Cmd": "\/Expr(1)\/",
            "JobStatus": null, "ProcId": [1, {}], "GlobalJobId": {"a": 1}, "Requirements": true}"#;
        assert_eq!(read(text.as_bytes(), &mut record), Ok(()));
        assert_eq!(record.number(Attribute::QDate), Some(5));
        assert_eq!(record.number(Attribute::BytesSent), Some(3));
        assert_eq!(record.text(Attribute::Owner), Some(b"a\"b".as_slice()));
        for wrong in
            [Attribute::ClusterId, Attribute::Cmd, Attribute::JobStatus, Attribute::ProcId, Attribute::GlobalJobId]
        {
            assert_eq!(record.slot(wrong), Slot::Mistyped, "{wrong:?}");
        }
    }

    #[test]
    fn wrong_objects_are_refused() {
        let mut record = PoolRecord::default();
        let error = read(b"{\"a\" 1}", &mut record).expect_err("no colon");
        assert!(error.contains("column 6"), "{error}");
        // Nested lists do not use up the stack.
        for name in ["a", "Owner"] {
            let deep = format!("{{\"{name}\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
            assert_eq!(read(deep.as_bytes(), &mut record), Ok(()));
        }
        let many: String = (0..=ATTRIBUTE_LIMIT).map(|number| format!("\"a{number}\":1,")).collect();
        let error = read(format!("{{{many}\"z\":1}}").as_bytes(), &mut record).expect_err("many");
        assert!(error.contains("it has more than 10000 attributes"), "{error}");
    }
}
