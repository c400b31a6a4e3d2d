//! Warnings about accepted changes without an effect, or with an unexpected one. They include the values. Changes
//! nothing.

use limo_model::{Band, Parts, Power, Preset};
use limo_sched::Event;

use super::Controller;

impl Controller {
    /// Returns the warnings about an event of an operator that was just recorded.
    pub(super) fn warnings(&self, about: About) -> Vec<String> {
        match about {
            About::Limits => self.limits_without_effect().into_iter().chain(self.limits_below_idle()).collect(),
            About::Budgets => self.budgets_without_effect().into_iter().collect(),
            About::Policy => self.limits_without_effect().into_iter().chain(self.budgets_without_effect()).collect(),
            About::Nothing => Vec::new(),
        }
    }

    /// Returns the operator's bands from now on.
    fn bands(&self) -> Vec<Band> {
        let limits = self.tx.core.settings().operator_limits();
        std::iter::once(limits.band(self.tx.now)).chain(limits.bands(self.tx.now).map(|(_, band)| band)).collect()
    }

    fn lowest_high(&self) -> Option<Power> {
        let highs = self.bands().into_iter().map(Band::high);
        highs.min().filter(|high| !high.is_unlimited())
    }

    fn limits_without_effect(&self) -> Option<String> {
        let policy = self.tx.core.settings().preset;
        let low = self
            .bands()
            .into_iter()
            .map(Band::low)
            .max()
            .filter(|low| !low.is_zero() && !self.tx.core.settings().parts().heeds_lower_limit());
        let high = self.lowest_high().filter(|_| self.tx.core.settings().parts().ignores_upper_limit());
        let limits = match (low, high) {
            (None, None) => return None,
            (Some(low), None) => format!("the lower limit {low}"),
            (None, Some(high)) => format!("the upper limit {high}"),
            (Some(low), Some(high)) => format!("the lower limit {low} and the upper limit {high}"),
        };
        let heeds = if high.is_some() { Parts::heeds_upper_limit } else { Parts::heeds_lower_limit };
        Some(format!("the policy {policy} ignores {limits}: {} do not", names(heeds)))
    }

    fn limits_below_idle(&self) -> Option<String> {
        let (idle, high) = (self.tx.core.idle(), self.lowest_high()?);
        (high < idle && self.tx.core.settings().parts().heeds_upper_limit()).then(|| {
            format!(
                "the upper limit {high} is below the idle draw of the nodes, {idle}: no job starts while it is in force"
            )
        })
    }

    fn budgets_without_effect(&self) -> Option<String> {
        let (settings, policy) = (self.tx.core.settings(), self.tx.core.settings().preset);
        match (settings.budgets.from_then_on(self.tx.now).first(), self.tx.core.settings().parts().keeps_budget()) {
            (Some(budget), false) => {
                let energy = budget.energy;
                Some(format!(
                    "the policy {policy} does not keep the budget of {energy}: {} do",
                    names(Parts::keeps_budget)
                ))
            }
            (None, true) => Some(format!(
                "no budget is set for the policy {policy} to keep: `lconf set budget ENERGY --until TIME` sets one"
            )),
            (Some(_), true) | (None, false) => None,
        }
    }
}

/// Formats policies, such as `limo and easy`.
fn names(which: impl Fn(Parts) -> bool) -> String {
    let names: Vec<&str> = Preset::ALL.into_iter().filter(|preset| which(preset.parts())).map(Preset::name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Subject of an event for which there are warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Limits,
    Budgets,
    Policy,
    Nothing,
}

impl About {
    pub(super) fn of(event: &Event) -> Self {
        match event {
            Event::LimitsSet { .. } => Self::Limits,
            Event::BudgetsSet { .. } => Self::Budgets,
            Event::PolicySet { .. } => Self::Policy,
            _ => Self::Nothing,
        }
    }
}
