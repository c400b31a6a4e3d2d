//! History of a live cluster from the journal of its master: replayed as recorded ([`replay`]), and as a load for
//! simulations with other settings ([`past`], [`again`]). Only reads; the master may run meanwhile.

pub mod again;
pub mod figures;
pub mod past;
pub mod platform;
pub mod replay;
pub mod work;

use limo_model::Time;

/// Formats a time.
pub fn shown(at: Time) -> String {
    match jiff::Timestamp::from_millisecond(at.unix_ms()) {
        Ok(date) => date.to_string(),
        Err(_) => format!("{} ms", at.unix_ms()),
    }
}
