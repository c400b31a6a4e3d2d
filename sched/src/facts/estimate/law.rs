//! The law by which a cap without a profile slows a job down. Searched in this order: the law set for the application on
//! this hardware, for the application, and for the command of any user; the law learned from profiles of the application
//! with and without caps; the law set for the hardware; the option `cap_factor_permille`.

use limo_model::{Estimate, Power, Request, Slowdown, SlowdownKey, UnitSpec, application};

use super::{Known, Looked};
use crate::facts::cores_on;

/// A law with the words for its source; empty for the option.
pub(super) struct Law {
    pub law: Slowdown,
    source: String,
}

impl Law {
    pub fn of(known: Known<'_>, request: &Request, unit: &UnitSpec, looked: &Looked) -> Self {
        let learned = |law| Self { law, source: "learned from profiles".to_owned() };
        set(known, request, unit)
            .or_else(|| looked.law(cores_on(request, unit)).map(learned))
            .or_else(|| of_hardware(known, unit))
            .unwrap_or(Self { law: Slowdown::Factor(known.cap_factor_permille), source: String::new() })
    }

    /// Returns the words that name the law in the origin of an estimate.
    pub fn words(&self) -> String {
        let Self { law, source } = self;
        if source.is_empty() { "cap by formula".to_owned() } else { format!("cap by formula with {law} {source}") }
    }
}

/// Returns the law that an operator set for the application.
fn set(known: Known<'_>, request: &Request, unit: &UnitSpec) -> Option<Law> {
    if known.slowdowns.is_empty() {
        return None;
    }
    let name = request.application.as_str();
    let names = [Some(name), application::command_of(name)];
    names.into_iter().flatten().find_map(|name| {
        let on = |hardware| known.slowdowns.get(&SlowdownKey::of(name, hardware));
        let law = on(&unit.hardware).or_else(|| on(""))?;
        Some(Law { law: *law, source: format!("of {name}") })
    })
}

/// Returns the law that an operator set for the hardware.
fn of_hardware(known: Known<'_>, unit: &UnitSpec) -> Option<Law> {
    if known.slowdowns.is_empty() {
        return None;
    }
    let law = known.slowdowns.get(&SlowdownKey::of("", &unit.hardware))?;
    Some(Law { law: *law, source: format!("of {}", unit.hardware) })
}

/// Returns the draw and the duration under an unmeasured cap, for a run that draws P without a cap. The draw is its
/// share of the cap.
pub(super) fn by_formula(law: Slowdown, free: Estimate, share: Power) -> Estimate {
    if share >= free.power || share <= Power::ZERO {
        return free;
    }
    let (longer, without) = law.durations(free.power, share);
    let term = |term: i128| i64::try_from(term).unwrap_or(i64::MAX);
    let duration = free.duration.scaled(term(longer), term(without));
    Estimate { duration, power: share, energy: share * duration, ..free }
}
