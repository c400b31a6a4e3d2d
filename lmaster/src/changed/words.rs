//! Values of settings in words.

use limo_model::{Band, Budgets, Curve, Overrides, Preset, Price, Reservation, Time};

/// Formats a policy, such as `easy placement=least-energy`.
pub(super) fn policy(preset: Preset, parts: Overrides) -> String {
    let parts = parts.rules().into_iter().map(|part| format!(" {part}"));
    std::iter::once(preset.to_string()).chain(parts).collect()
}

pub(super) fn reserved(reservation: Option<&Reservation>) -> String {
    let Some(of) = reservation else { return "none".into() };
    let users = if of.users.is_empty() { "nobody".to_owned() } else { of.users.join(", ") };
    format!("{} for {users}, for {}", of.nodes.join(", "), of.span())
}

/// Formats the value of a curve at `now`, and the number of later changes.
pub(super) fn curve<T: PartialEq>(curve: &Curve<T>, now: Time, show: impl Fn(&T) -> String) -> String {
    let value = curve.at(now).map_or("none".into(), show);
    match curve.changes(now).count() {
        0 => value,
        1 => format!("{value}, 1 step to come"),
        count => format!("{value}, {count} steps to come"),
    }
}

pub(super) fn band(band: &Band) -> String {
    match (band.low().is_zero(), band.high().is_unlimited()) {
        (true, true) => "none".into(),
        (true, false) => format!("at most {}", band.high()),
        (false, true) => format!("at least {}", band.low()),
        (false, false) => format!("{} to {}", band.low(), band.high()),
    }
}

pub(super) fn price(price: &Price) -> String {
    price.to_string()
}

/// Formats the periods that are not over.
pub(super) fn budgets(budgets: &Budgets, now: Time) -> String {
    match budgets.from_then_on(now) {
        [] => "none".into(),
        [one] => format!("{} in {}", one.energy, one.span()),
        [first, rest @ ..] => format!("{} in {}, {} more periods", first.energy, first.span(), rest.len()),
    }
}
