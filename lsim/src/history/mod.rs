//! The history of a live cluster, out of the journal of its master: run again as it was ([`replay`]), and as a load for
//! simulations in which something is otherwise ([`past`], [`again`]). Reads only; a master may write meanwhile.

pub mod again;
pub mod figures;
pub mod past;
pub mod replay;

use limo_model::Time;

/// A time as people read it.
pub fn shown(at: Time) -> String {
    match jiff::Timestamp::from_millisecond(at.unix_ms()) {
        Ok(date) => date.to_string(),
        Err(_) => format!("{} ms", at.unix_ms()),
    }
}
