//! What the events of an OpenADR 3.1 program mean: limits in intervals of time. Pure: what "now" means in an event is when
//! the event was last changed.
//!
//! - `IMPORT_CAPACITY_LIMIT`: an upper limit, in the unit of its payload descriptor (`KW` or `W`), `KW` without one.
//! - `ALERT_GRID_EMERGENCY`: an emergency with the upper limit that the operator has set for it.
//! - Payloads of other types are not looked at.
//! - The priority of an event is that of its limits; without one it comes last. Lower numbers win.
//! - `randomizeStart` is not followed: a limit begins at its first instant, which is never later than asked for. It is
//!   meant to scatter many small devices.
//! - `duration` of an event repeats its intervals until it is over; intervals without a duration go on without end.
//! - Targets are not looked at: the server sends a VEN what is meant for it.

use limo_model::{Power, Span, Time};
use openleadr_client::EventClient;
use openleadr_wire::event::{EventInterval, EventRequest, EventType};
use openleadr_wire::interval::IntervalPeriod;
use openleadr_wire::values_map::Value;
use openleadr_wire::{Duration as WireDuration, Unit};
use thiserror::Error;

use crate::grid::document::{LIMITS, power};
use crate::grid::limit::Limit;

/// An event without a priority comes after all that have one.
const LAST: u32 = u32::MAX;

/// Years from here on mean "without end": OpenADR writes `P9999Y`.
const ENDLESS_YEARS: f64 = 900.0;

/// Before year 2 in a start means "now" (OpenADR writes 0001-01-01).
const YEAR_2_MS: i64 = -62_104_060_800_000;

/// A mean year and a mean month, as no event that steers power is exact to them.
const YEAR_S: f64 = 31_556_952.0;
const MONTH_S: f64 = YEAR_S / 12.0;

/// Why an event cannot be understood. The others still count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EventError {
    #[error("event {event}: interval {interval} has no period, and neither has the event")]
    NoPeriod { event: String, interval: i32 },
    #[error("event {event}: interval {interval}: IMPORT_CAPACITY_LIMIT has the value {found}: a number is needed")]
    NoNumber { event: String, interval: i32, found: String },
    #[error("event {event}: IMPORT_CAPACITY_LIMIT is in `{unit}`: KW and W are understood")]
    Unit { event: String, unit: String },
    #[error("event {event}: interval {interval}: a limit of {value} W: 0 to 1000000000000 W are possible")]
    Watts { event: String, interval: i32, value: String },
    #[error("event {event}: the duration `{duration}` is no time")]
    Duration { event: String, duration: String },
    #[error("more than {LIMITS} intervals: the limit is {LIMITS}")]
    Many,
}

/// What all events of a program say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// One for each interval that could be read.
    pub limits: Vec<Limit>,
    /// Why parts of it are missing.
    pub faults: Vec<EventError>,
}

/// An event, with what it needs to be understood.
struct ReceivedEvent<'a> {
    id: String,
    event: &'a EventRequest,
    /// What "now" is in it.
    modified: Time,
    emergency: Power,
    received_at: Time,
}

/// One interval of time, and what is said for it.
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
            // An event counts whole or not at all.
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
            // The wire has made numbers of the integers of this type; a server may still send another type.
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
            // What OpenADR uses for power.
            None | Some(Unit::KW) => value * 1e3,
            Some(Unit::Private(name)) if name == "W" => value,
            Some(other) => return Err(EventError::Unit { event: self.id.clone(), unit: unit_name(other) }),
        };
        power(watts).ok_or_else(|| EventError::Watts { event: self.id.clone(), interval, value: watts.to_string() })
    }

    /// All intervals of the event one after the other, repeated where its duration is longer.
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
            // Intervals with starts of their own repeat nothing; those without an end are not over.
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

    /// `None` where the one before it does not end.
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
        // A duration of zero is none, as EEBUS has it.
        let until = span.filter(|span| *span > Span::ZERO).map(|span| from + span);
        Ok(Some(TimedInterval { interval, from, until }))
    }

    fn start(&self, period: &IntervalPeriod) -> Time {
        let start = period.start.timestamp_millis();
        if start < YEAR_2_MS { self.modified } else { Time::from_unix_ms(start) }
    }

    /// `None` is without end. Read from how it is written, since adding years of a calendar may leave the range of dates.
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
        // Below the limit it is far below the range of milliseconds.
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
