//! Converts the events of an OpenADR 3.1 program into limits. Pure: "now" in an event means the time of the event's
//! last change.
//!
//! - `IMPORT_CAPACITY_LIMIT`: an upper limit, in the unit of its payload descriptor (`KW` or `W`), `KW` without one.
//! - `ALERT_GRID_EMERGENCY`: an emergency with the operator's upper limit for it.
//! - Payloads of other types are ignored.
//! - The priority of an event is that of its limits; without one it comes last. Lower numbers win.
//! - `randomizeStart` is ignored: a limit begins at its first instant, which is never too late. It is meant to scatter
//!   many small devices.
//! - `duration` of an event repeats its intervals until it is over; intervals without a duration never end.
//! - Targets are ignored: the server selects the events for a VEN.

use limo_model::{Power, Span, Time};
use serde_json::Value;
use thiserror::Error;

use super::wire::{Event, Interval, Period};
use crate::grid::document::{LIMITS, power};
use crate::grid::limit::Limit;

/// Priority of an event without one.
const LAST: u32 = u32::MAX;

/// From this many years on a duration means "without end": OpenADR writes `P9999Y`.
const ENDLESS_YEARS: i64 = 900;

/// A start before year 2 means "now" (OpenADR writes 0001-01-01).
const YEAR_2_MS: i64 = -62_104_060_800_000;

/// Mean year and mean month, in seconds: events about power do not need exact ones.
const YEAR_S: i64 = 31_556_952;
const MONTH_S: i64 = YEAR_S / 12;

/// Type of a payload with an upper limit.
const LIMIT: &str = "IMPORT_CAPACITY_LIMIT";

/// Type of a payload of an emergency.
const ALERT: &str = "ALERT_GRID_EMERGENCY";

/// Reason why an event is invalid. The others still count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum EventError {
    #[error("event {event}: neither interval {interval} nor the event has a period")]
    NoPeriod { event: String, interval: i32 },
    #[error("event {event}: interval {interval}: IMPORT_CAPACITY_LIMIT has the value {found} instead of a number")]
    NoNumber { event: String, interval: i32, found: String },
    #[error("event {event}: IMPORT_CAPACITY_LIMIT is in `{unit}`: it must be in KW or W")]
    Unit { event: String, unit: String },
    #[error("event {event}: interval {interval}: a limit of {value} W: it must be 0 to 1000000000000 W")]
    Watts { event: String, interval: i32, value: String },
    #[error("event {event}: `{duration}` is not a duration")]
    Duration { event: String, duration: String },
    #[error("more than {LIMITS} intervals: the limit is {LIMITS}")]
    Many,
}

/// Contents of a program's events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Limits of all valid intervals.
    pub limits: Vec<Limit>,
    /// Errors of the other intervals.
    pub faults: Vec<EventError>,
}

/// Event with the data to interpret it.
struct ReceivedEvent<'a> {
    event: &'a Event,
    /// Time that "now" means in the event.
    modified: Time,
    emergency: Power,
    received_at: Time,
}

/// Interval of an event, with its times.
struct TimedInterval<'a> {
    interval: &'a Interval,
    from: Time,
    until: Option<Time>,
}

/// Reads events that were received at `now`; `emergency` is the upper limit during an alert.
pub fn read(events: &[Event], emergency: Power, now: Time) -> Reading {
    let mut reading = Reading::default();
    for event in events {
        let modified = Time::from_unix_ms(event.modification_date_time.as_millisecond());
        let named = ReceivedEvent { event, modified, emergency, received_at: now };
        let before = reading.limits.len();
        if let Err(fault) = named.add(&mut reading.limits) {
            // An event counts completely or not at all.
            reading.limits.truncate(before);
            reading.faults.push(fault);
        }
    }
    reading
}

impl ReceivedEvent<'_> {
    fn add(&self, limits: &mut Vec<Limit>) -> Result<(), EventError> {
        let priority = self.event.priority.and_then(|number| u32::try_from(number).ok());
        let priority = priority.unwrap_or(LAST);
        for piece in self.pieces()? {
            for payload in &piece.interval.payloads {
                match payload.kind.as_str() {
                    LIMIT => {
                        let high = self.watts(&payload.values, piece.interval.id)?;
                        limits.push(self.limit(&piece, high, priority, false));
                    }
                    ALERT => limits.push(self.limit(&piece, self.emergency, priority, true)),
                    _ => {}
                }
            }
            if limits.len() > LIMITS {
                return Err(EventError::Many);
            }
        }
        Ok(())
    }

    fn limit(&self, piece: &TimedInterval<'_>, high: Power, priority: u32, emergency: bool) -> Limit {
        let (from, until, received_at) = (piece.from, piece.until, self.received_at);
        Limit { low: Power::ZERO, high, from, until, priority, emergency, received_at }
    }

    fn number(&self, interval: i32, values: &[Value]) -> Result<f64, EventError> {
        let found = if let [value] = values { value.as_f64() } else { None };
        found.ok_or_else(|| {
            let found = Value::Array(values.to_vec()).to_string().chars().take(80).collect();
            EventError::NoNumber { event: self.event.id.clone(), interval, found }
        })
    }

    fn watts(&self, values: &[Value], interval: i32) -> Result<Power, EventError> {
        let value = self.number(interval, values)?;
        let mut descriptors = self.event.payload_descriptors.iter().flatten();
        let own = descriptors.find(|descriptor| descriptor.payload_type == LIMIT);
        let watts = match own.and_then(|descriptor| descriptor.units.as_deref()) {
            // Default unit of OpenADR for power.
            None | Some("KW") => value * 1e3,
            Some("W") => value,
            Some(other) => return Err(EventError::Unit { event: self.event.id.clone(), unit: other.to_owned() }),
        };
        power(watts).ok_or_else(|| EventError::Watts {
            event: self.event.id.clone(),
            interval,
            value: watts.to_string(),
        })
    }

    /// Returns all intervals of the event in order, repeated if its duration is longer.
    fn pieces(&self) -> Result<Vec<TimedInterval<'_>>, EventError> {
        let intervals = self.event.intervals.as_deref().unwrap_or_default();
        let Some(first) = intervals.first() else { return Ok(Vec::new()) };
        let begin = [first.interval_period.as_ref(), self.event.interval_period.as_ref()];
        let Some(begin) = begin.into_iter().flatten().next().map(|period| self.start(period)) else {
            return Err(EventError::NoPeriod { event: self.event.id.clone(), interval: first.id });
        };
        let end = match &self.event.duration {
            Some(duration) => self.span(duration)?.map(|span| begin + span),
            None => Some(begin),
        };
        let (mut pieces, mut at) = (Vec::new(), Some(begin));
        loop {
            let round = at;
            for interval in intervals {
                let Some(piece) = self.piece(interval, at)? else { return Ok(pieces) };
                at = piece.until;
                pieces.push(piece);
                if pieces.len() > LIMITS {
                    return Err(EventError::Many);
                }
            }
            // Intervals with their own starts are not repeated, nor are those without an end.
            let own = intervals.iter().any(|interval| interval.interval_period.is_some());
            match (at, end) {
                (Some(now), Some(end)) if !own && now < end && at != round => {}
                _ => break,
            }
        }
        if self.event.duration.is_some() {
            let over = |until: Option<Time>| until.into_iter().chain(end).min();
            pieces.retain(|piece| end.is_none_or(|end| piece.from < end));
            pieces.iter_mut().for_each(|piece| piece.until = over(piece.until));
        }
        Ok(pieces)
    }

    /// Returns the times of an interval; `None` if the previous interval has no end.
    fn piece<'a>(&'a self, interval: &'a Interval, at: Option<Time>) -> Result<Option<TimedInterval<'a>>, EventError> {
        let own = interval.interval_period.as_ref();
        let Some(period) = own.or(self.event.interval_period.as_ref()) else {
            return Err(EventError::NoPeriod { event: self.event.id.clone(), interval: interval.id });
        };
        let Some(from) = own.map(|own| self.start(own)).or(at) else { return Ok(None) };
        let span = period.duration.as_ref().map(|duration| self.span(duration)).transpose()?.flatten();
        // As in EEBUS, a duration of zero means no end.
        let until = span.filter(|span| *span > Span::ZERO).map(|span| from + span);
        Ok(Some(TimedInterval { interval, from, until }))
    }

    fn start(&self, period: &Period) -> Time {
        let start = period.start.as_millisecond();
        if start < YEAR_2_MS { self.modified } else { Time::from_unix_ms(start) }
    }

    /// Returns the length; `None` without an end.
    fn span(&self, duration: &jiff::Span) -> Result<Option<Span>, EventError> {
        if duration.is_negative() {
            return Err(EventError::Duration { event: self.event.id.clone(), duration: duration.to_string() });
        }
        let days = i64::from(duration.get_weeks()) * 7 + i64::from(duration.get_days());
        let dates = i64::from(duration.get_years()) * YEAR_S + i64::from(duration.get_months()) * MONTH_S;
        let times = i64::from(duration.get_hours()) * 3_600 + duration.get_minutes() * 60 + duration.get_seconds();
        // Each part of a span has a limit of about 20,000 years.
        let total = (dates + days * 86_400 + times) * 1_000 + duration.get_milliseconds();
        Ok((total < ENDLESS_YEARS * YEAR_S * 1_000).then(|| Span::from_ms(total)))
    }
}
