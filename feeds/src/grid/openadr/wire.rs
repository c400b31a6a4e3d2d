//! The parts of an event of OpenADR 3.1 that count; others are ignored.

use jiff::{Span as Duration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// Event of a program.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: String,
    /// Time of the last change.
    pub modification_date_time: Timestamp,
    /// A lower number is a higher priority.
    pub priority: Option<i64>,
    /// The intervals are repeated until it is over.
    pub duration: Option<Duration>,
    pub payload_descriptors: Option<Vec<Descriptor>>,
    /// Period of the first interval, and length of the others.
    pub interval_period: Option<Period>,
    pub intervals: Option<Vec<Interval>>,
}

/// Meaning of a type of payload.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    pub payload_type: String,
    pub units: Option<String>,
}

/// Begin and length.
#[derive(Deserialize)]
pub struct Period {
    /// A time in year 1 means "now".
    pub start: Timestamp,
    /// `P9999Y` means without end.
    pub duration: Option<Duration>,
}

/// Values for a period.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interval {
    pub id: i32,
    /// The event's by default.
    pub interval_period: Option<Period>,
    pub payloads: Vec<Payload>,
}

/// Values of one type.
#[derive(Deserialize)]
pub struct Payload {
    #[serde(rename = "type")]
    pub kind: String,
    pub values: Vec<Value>,
}
