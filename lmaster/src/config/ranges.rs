//! Checks of single values.

use anyhow::{Result, ensure};
use limo_model::Span;

pub(super) fn permille(key: &str, value: u32) -> Result<u32> {
    ensure!(value <= 1000, "{key} is {value}: it must be 0 to 1000 thousandths");
    Ok(value)
}

pub(super) fn not_negative(key: &str, value: Option<Span>, default: Span) -> Result<Span> {
    let value = value.unwrap_or(default);
    ensure!(value >= Span::ZERO, "{key} is {value}: it cannot be negative");
    Ok(value)
}

pub(super) fn positive(key: &str, value: Option<Span>, default: Span) -> Result<Span> {
    let value = not_negative(key, value, default)?;
    ensure!(value > Span::ZERO, "{key} is zero: it must be longer");
    Ok(value)
}
