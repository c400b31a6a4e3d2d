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
use openleadr_client::EventClient;
use openleadr_wire::event::{EventInterval, EventRequest, EventType};
use openleadr_wire::interval::IntervalPeriod;
use openleadr_wire::values_map::Value;
use openleadr_wire::{Duration as WireDuration, Unit};
use thiserror::Error;

use crate::grid::document::{LIMITS, power};
use crate::grid::limit::Limit;

/// Priority of an event without one.
const LAST: u32 = u32::MAX;

/// From this many years on a duration means "without end": OpenADR writes `P9999Y`.
const ENDLESS_YEARS: f64 = 900.0;

/// A start before year 2 means "now" (OpenADR writes 0001-01-01).
const YEAR_2_MS: i64 = -62_104_060_800_000;

/// Mean year and mean month, in seconds: events about power do not need exact ones.
const YEAR_S: f64 = 31_556_952.0;
const MONTH_S: f64 = YEAR_S / 12.0;

/// Reason why an event is invalid. The others still count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
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
    id: String,
    event: &'a EventRequest,
    /// Time that "now" means in the event.
    modified: Time,
    emergency: Power,
    received_at: Time,
}

/// Interval of an event, with its times.
struct TimedInterval<'a> {
    interval: &'a EventInterval,
    from: Time,
    until: Option<Time>,
}

/// Reads events that were received at `now`; `emergency` is the upper limit during an alert.
pub fn read<K: openleadr_client::ClientKind>(events: &[EventClient<K>], emergency: Power, now: Time) -> Reading {
    let mut reading = Reading::default();
    for client in events {
        let modified = Time::from_unix_ms(client.modification_date_time().timestamp_millis());
        let id = client.id().to_string();
        let named = ReceivedEvent { id, event: client.content(), modified, emergency, received_at: now };
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
        let priority = Option::<i64>::from(self.event.priority).and_then(|number| u32::try_from(number).ok());
        let priority = priority.unwrap_or(LAST);
        for piece in self.pieces()? {
            for payload in &piece.interval.payloads {
                match payload.value_type {
                    EventType::ImportCapacityLimit => {
                        let high = self.watts(&payload.values, piece.interval.id)?;
                        limits.push(self.limit(&piece, high, priority, false));
                    }
                    EventType::AlertGridEmergency => {
                        limits.push(self.limit(&piece, self.emergency, priority, true));
                    }
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
        match values {
            [Value::Number(number)] if number.is_finite() => Ok(*number),
            // The wire format turns integers of this type into numbers; a server may still send another type.
            [Value::Integer(number)] => Ok(*number as f64),
            other => {
                let found: String = format!("{other:?}").chars().take(80).collect();
                Err(EventError::NoNumber { event: self.id.clone(), interval, found })
            }
        }
    }

    fn watts(&self, values: &[Value], interval: i32) -> Result<Power, EventError> {
        let value = self.number(interval, values)?;
        let mut descriptors = self.event.payload_descriptors.iter().flatten();
        let own = descriptors.find(|descriptor| descriptor.payload_type == EventType::ImportCapacityLimit);
        let watts = match own.and_then(|descriptor| descriptor.units.as_ref()) {
            // Default unit of OpenADR for power.
            None | Some(Unit::KW) => value * 1e3,
            Some(Unit::Private(name)) if name == "W" => value,
            Some(other) => return Err(EventError::Unit { event: self.id.clone(), unit: unit_name(other) }),
        };
        power(watts).ok_or_else(|| EventError::Watts { event: self.id.clone(), interval, value: watts.to_string() })
    }

    /// Returns all intervals of the event in order, repeated if its duration is longer.
    fn pieces(&self) -> Result<Vec<TimedInterval<'_>>, EventError> {
        let intervals = self.event.intervals.as_deref().unwrap_or_default();
        let Some(first) = intervals.first() else { return Ok(Vec::new()) };
        let begin = [first.interval_period.as_ref(), self.event.interval_period.as_ref()];
        let Some(begin) = begin.into_iter().flatten().next().map(|period| self.start(period)) else {
            return Err(EventError::NoPeriod { event: self.id.clone(), interval: first.id });
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
    fn piece<'a>(
        &'a self,
        interval: &'a EventInterval,
        at: Option<Time>,
    ) -> Result<Option<TimedInterval<'a>>, EventError> {
        let own = interval.interval_period.as_ref();
        let Some(period) = own.or(self.event.interval_period.as_ref()) else {
            return Err(EventError::NoPeriod { event: self.id.clone(), interval: interval.id });
        };
        let Some(from) = own.map(|own| self.start(own)).or(at) else { return Ok(None) };
        let span = period.duration.as_ref().map(|duration| self.span(duration)).transpose()?.flatten();
        // As in EEBUS, a duration of zero means no end.
        let until = span.filter(|span| *span > Span::ZERO).map(|span| from + span);
        Ok(Some(TimedInterval { interval, from, until }))
    }

    fn start(&self, period: &IntervalPeriod) -> Time {
        let start = period.start.timestamp_millis();
        if start < YEAR_2_MS { self.modified } else { Time::from_unix_ms(start) }
    }

    /// Returns the length; `None` without an end. Calculated from its parts, since calendar years may leave the range
    /// of dates.
    fn span(&self, duration: &WireDuration) -> Result<Option<Span>, EventError> {
        let text = duration.to_string();
        let refused = || EventError::Duration { event: self.id.clone(), duration: text.clone() };
        let mut rest = text.strip_prefix('P').ok_or_else(refused)?;
        let mut total = 0.0;
        let units = [("Y", YEAR_S), ("M", MONTH_S), ("DT", 86_400.0), ("H", 3_600.0), ("M", 60.0), ("S", 1.0)];
        for (unit, secs) in units {
            let (number, after) = rest.split_once(unit).ok_or_else(refused)?;
            let number: f64 = number.parse().map_err(|_| refused())?;
            if !number.is_finite() || number < 0.0 {
                return Err(refused());
            }
            total += number * secs;
            rest = after;
        }
        // A total below the limit is far below the range of milliseconds.
        Ok((total < ENDLESS_YEARS * YEAR_S).then(|| Span::from_ms((total * 1e3).round() as i64)))
    }
}

fn unit_name(unit: &Unit) -> String {
    match unit {
        Unit::Private(name) => name.clone(),
        known => {
            serde_json::to_value(known).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        }
    }
}
