//! `limo-prototype`: Algorithm 3.3 of limo-2018, section 3.3.3, to the letter.
//!
//! Idea: jobs are dispatched in order of submission while the mode allows it: always in the high mode, and in the low
//! mode while the draw C is below the lower limit. A unit is used if the draw with the job stays below the upper
//! limit (equation 3.3). In the high mode it is also used if the draw is below the lower limit, regardless of the
//! upper one (equation 3.4). So even a band that is narrower than any job can be reached. Constraints: as in its
//! protocol, a unit runs one job at a time. C is the idle draw plus the sum of estimates. Ignores: deadlines, the
//! speed and efficiency of units, later limits, measurements. Unclear text: if no unit can run the first job, the
//! loop of the paper would never end, so it stops there. A job without any reachable node is skipped, because the
//! algorithm could never start it. Cost: one check of each unit for each started job. No options.

use limo_model::{Band, Mode, Power, Wait};

use crate::future::Respect;
use crate::policy::order::{Decision, PlanBuilder};
use crate::policy::placement::Offer;

impl PlanBuilder<'_> {
    /// Returns the draw as in limo-2018's prototype, including the starts of this plan.
    fn prototype_draw(&self) -> Power {
        self.view.estimated_draw() + self.started
    }

    pub(in crate::policy) fn by_algorithm_3_3(&self, offers: &[Offer]) -> Decision {
        let (mode, band, draw) = (self.view.mode(), self.view.band(), self.prototype_draw());
        if !may_dispatch(mode, draw, band) {
            let wait = Wait::LowMode { draw, low: band.low(), price: self.view.price() };
            return Decision::Wait { wait, holds: true };
        }
        let idle = self.fit_now(&self.actual, offers, Respect::Resources, true);
        let admitted = idle.iter().find(|found| admits(mode, draw, found.offer.estimate.power, band));
        if let Some(choice) = admitted.and_then(|found| self.choice(found)) {
            return Decision::Start(choice);
        }
        let least = idle.iter().map(|found| found.offer.estimate.power).min();
        let wait = least.map_or(Wait::Resources { until: None }, |needs| Wait::Band {
            needs,
            left: (band.high() - draw).at_least_zero(),
            until: None,
        });
        Decision::Wait { wait, holds: true }
    }
}

/// Evaluates the condition of the while loop, line 1.
fn may_dispatch(mode: Mode, draw: Power, band: Band) -> bool {
    mode == Mode::High || draw < band.low()
}

/// Evaluates the condition of line 5 for a job with the additional draw `extra`.
fn admits(mode: Mode, draw: Power, extra: Power, band: Band) -> bool {
    match mode {
        Mode::High => draw + extra < band.high() || draw < band.low(),
        Mode::Low => draw + extra < band.high(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    fn band(low: i64, high: i64) -> Band {
        Band::new(watts(low), watts(high)).expect("not crossed")
    }

    #[test]
    fn line_1_in_both_modes() {
        let check =
            |mode, draw, expected| assert_eq!(may_dispatch(mode, watts(draw), band(39, 60)), expected, "{mode} {draw}");
        check(Mode::High, 38, true);
        check(Mode::High, 70, true);
        check(Mode::Low, 38, true);
        // "as soon as the low power limit has been reached"
        check(Mode::Low, 39, false);
    }

    #[test]
    fn equations_3_3_and_3_4() {
        let check = |mode, draw, extra, limits, expected| {
            assert_eq!(admits(mode, watts(draw), watts(extra), limits), expected, "{mode} {draw} + {extra}");
        };
        // Equation 3.3: the draw must be below the upper limit; line 5 says strictly.
        check(Mode::Low, 37, 22, band(39, 60), true);
        check(Mode::Low, 37, 23, band(39, 60), false);
        // Equation 3.4: inside the band the upper limit holds in the high mode as well.
        check(Mode::High, 40, 19, band(39, 60), true);
        check(Mode::High, 40, 20, band(39, 60), false);
        // Below the band it does not: violating the upper limit is the lesser evil there (assumption 2).
        check(Mode::High, 37, 62, band(39, 60), true);
        // In the low mode, violating the upper limit is the greater evil (assumption 1).
        check(Mode::Low, 37, 62, band(39, 60), false);
        // A band narrower than any job (3.2 and the text after 3.4).
        check(Mode::High, 37, 10, band(39, 40), true);
        check(Mode::Low, 37, 10, band(39, 40), false);
    }
}
