//! Table of the units on which a job could run, for `lq explain` and `lrun --dry-run`.

use limo_proto::Candidate;

use crate::table::{Align, Table, or_dash};
use limo_json::Clock;

/// Renders a line for each unit: the estimate and its source, the cost of a start now, other weighed quantities, and
/// the obstacle to a start there. `more` is the number of omitted units.
pub fn candidate_table((candidates, more): (&[Candidate], u32), clock: &Clock) -> String {
    let mut table = Table::new(&[
        ("UNIT", Align::Left),
        ("HARDWARE", Align::Left),
        ("CAP", Align::Figure),
        ("DURATION", Align::Right),
        ("POWER", Align::Figure),
        ("ENERGY", Align::Figure),
        ("COST NOW", Align::Right),
        ("WAITING", Align::Right),
        ("BAND", Align::Right),
        ("ESTIMATE FROM", Align::Left),
        ("OBSTACLE", Align::Left),
    ]);
    for candidate in candidates {
        let estimate = candidate.estimate;
        table.row([
            format!("{}/{}", candidate.node, candidate.unit),
            candidate.hardware.clone(),
            or_dash(candidate.cap),
            estimate.duration.to_string(),
            estimate.power.to_string(),
            estimate.energy.to_string(),
            or_dash(candidate.cost),
            candidate.waiting.to_string(),
            candidate.band.to_string(),
            candidate.origin.clone(),
            candidate.obstacle.as_ref().map_or_else(|| "none".into(), |o| o.shown(|time| clock.show(time)).to_string()),
        ]);
    }
    let mut text = table.render();
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    text
}
