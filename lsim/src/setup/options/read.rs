//! Values of `--set`, each read into its place.

use std::ops::RangeInclusive;

use limo_model::{LimitOrNone, Span};

pub(super) fn set<T: std::str::FromStr<Err: std::fmt::Display>>(place: &mut T, value: &str) -> Result<(), String> {
    *place = value.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

pub(super) fn part<T: std::str::FromStr<Err = String>>(place: &mut Option<T>, value: &str) -> Result<(), String> {
    *place = Some(value.parse()?);
    Ok(())
}

pub(super) fn span(place: &mut Span, value: &str, least: Span) -> Result<(), String> {
    set(place, value)?;
    if *place < least { Err(format!("`{value}` is below {least}")) } else { Ok(()) }
}

pub(super) fn number(place: &mut u32, value: &str, least: u32, most: u32) -> Result<(), String> {
    let found = value.parse().ok().filter(|number| (least..=most).contains(number));
    *place = found.ok_or_else(|| format!("`{value}` is not a whole number from {least} to {most}"))?;
    Ok(())
}

pub(super) fn within(place: &mut Span, value: &str, range: RangeInclusive<Span>) -> Result<(), String> {
    set(place, value)?;
    let (least, most) = (range.start(), range.end());
    if range.contains(place) { Ok(()) } else { Err(format!("`{value}` is not from {least} to {most}")) }
}

pub(super) fn or_none<T: std::str::FromStr<Err: std::fmt::Display>>(
    place: &mut Option<T>,
    value: &str,
) -> Result<(), String> {
    let LimitOrNone(limit) = value.parse()?;
    *place = limit;
    Ok(())
}
