//! The cost of a start as one sum of money, by which `limo` compares the possible starts of a job that may wait.
//!
//! For a job of energy E that would start at t, take D, draw P and was submitted at s:
//!
//! ```text
//! E x price(t, t + D)                            cost of the energy, at the mean of the known prices
//! + E x waiting_weight x (t + D - s) / 1 h       cost of waiting until the end
//! - E x min(P, gap) / P x band_weight            if the draw is below the lower limit by `gap` at t (limo-2018, Fig. 3.4)
//! ```
//!
//! So a job waits an hour longer only if that saves more than `waiting_weight` on each MWh. A job that brings the draw
//! into the band does not wait, unless that costs more than `band_weight` per MWh. Deadlines and latest starts are not
//! terms: a start that would miss them is not compared. The price contains carbon if the operator has given it a
//! weight. A job without a deadline waits for the mode instead of an hour; [`patience`] is this time, by the same
//! weight.

use limo_model::{Estimate, Mode, ModeSetting, Money, Power, Price, Span, Time};

use crate::mode::turning_price;
use crate::view::View;

const HOUR: i64 = 3_600_000;

/// The terms of the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weighed {
    /// Cost of the energy; `None` if no price during that time is known.
    pub energy: Option<Money>,
    pub waiting: Money,
    /// Value of the draw in the band; zero or negative.
    pub band: Money,
}

impl Weighed {
    pub fn total(&self) -> Money {
        self.energy.unwrap_or(Money::ZERO) + self.waiting + self.band
    }
}

/// Computes the terms for a start of `estimate` at `at`, with the draw expected at that time.
pub(crate) fn weigh(view: &View<'_>, submitted: Time, estimate: &Estimate, (at, draw): (Time, Power)) -> Weighed {
    let options = view.options();
    let until_end = (at + estimate.duration - submitted).max(Span::ZERO);
    let gap = (view.limits().band(at).low() - draw).at_least_zero().min(estimate.power);
    let lifts = if estimate.power > Power::ZERO {
        estimate.energy.scaled(gap.mw(), estimate.power.mw())
    } else {
        limo_model::Energy::ZERO
    };
    let price = view.prices().and_then(|prices| prices.mean(at, estimate.duration));
    Weighed {
        energy: price.map(|(price, _)| estimate.energy * price),
        waiting: estimate.energy * options.waiting_weight.scaled(until_end.ms(), HOUR),
        band: -(lifts * options.band_weight),
    }
}

/// Returns the time for which a job without a deadline waits for the high mode: until its age outweighs the excess of
/// the price, and at most `max_delay`. If the mode does not follow from the price, the time is `max_delay`.
pub(super) fn patience(view: &View<'_>) -> Span {
    let (settings, options) = (view.settings(), view.options());
    let by_price = settings.mode_setting == ModeSetting::Auto && view.mode() == Mode::Low;
    let turn = view.prices().and_then(|prices| turning_price(prices, options.price_rule));
    let (Some(price), Some(turn), true) = (view.price(), turn, by_price) else { return options.max_delay };
    if options.waiting_weight <= Price::ZERO {
        return options.max_delay;
    }
    // The mode stays low down to the turning point minus the hysteresis.
    let dearer = (price - turn + options.price_hysteresis).max(Price::ZERO);
    let hours = Span::from_ms(HOUR).scaled(dearer.milli_per_mwh(), options.waiting_weight.milli_per_mwh());
    hours.min(options.max_delay)
}
