//! Search for the best cap or clock: golden section over its logarithm, between the lowest one and that above which
//! nothing changes, which is the draw without a cap. The objective must have one minimum there; it has one by cap in
//! the model of power-capping-2018, and in the measurements of limo-2018, Table 4.4.

/// Number of values that are measured. By cap in the model of emulated hardware, with noise of 1 %, the energy is then
/// within 1 % of the best one on average.
pub const VALUES: usize = 6;

/// Part of the range that remains after each step: the golden section.
const KEPT: f64 = 0.618_033_988_749_894_9;

/// Least distance of two values, as the logarithm of their quotient. Nearer ones cannot be told apart.
const NEAREST: f64 = 0.01;

/// A measured point, with the value of the objective.
type Valued = (f64, f64);

/// State of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// Logarithms of the ends of the range.
    low: f64,
    high: f64,
    /// Points within the range, from low to high. The first without a value is the next one.
    inner: [(f64, Option<f64>); 2],
    left: usize,
}

impl Search {
    /// Starts between two values in any unit. `None` if the range is empty, so that nothing in it has an effect.
    pub fn new(lowest: f64, highest: f64) -> Option<Self> {
        let (low, high) = (lowest.ln(), highest.ln());
        // The logarithm is infinite for zero, and undefined below.
        if !low.is_finite() || !high.is_finite() || high - low < NEAREST {
            return None;
        }
        let inner = [(high - KEPT * (high - low), None), (low + KEPT * (high - low), None)];
        Some(Self { low, high, inner, left: VALUES })
    }

    /// Returns the next value to measure; `None` at the end.
    pub fn next(&self) -> Option<f64> {
        let open = self.inner.iter().find(|(_, value)| value.is_none())?.0;
        let is_over = self.left == 0 || self.high - self.low < NEAREST;
        (!is_over).then(|| open.exp())
    }

    /// Notes the objective at the value that [`Self::next`] returned; less is better.
    pub fn tell(&mut self, value: f64) {
        if let Some(open) = self.inner.iter_mut().find(|(_, value)| value.is_none()) {
            open.1 = Some(value);
            self.left = self.left.saturating_sub(1);
        }
        if let [(first, Some(lower)), (second, Some(upper))] = self.inner {
            self.narrow((first, lower), (second, upper));
        }
    }

    /// Drops the end of the range behind the worse point.
    fn narrow(&mut self, first: Valued, second: Valued) {
        if first.1 <= second.1 {
            self.high = second.0;
            self.inner = [(self.high - KEPT * (self.high - self.low), None), (first.0, Some(first.1))];
        } else {
            self.low = first.0;
            self.inner = [(second.0, Some(second.1)), (self.low + KEPT * (self.high - self.low), None)];
        }
    }
}

#[cfg(test)]
mod tests {
    use limo_model::{Power, Span, Time};
    use limo_power::{Emulated, Hardware, Noise, Share};

    use super::*;
    use crate::explore::objective::{Candidate, Objective};

    #[test]
    fn the_steps_of_a_smooth_minimum() {
        let mut search = Search::new(8.0, 80.0).expect("a range");
        let mut tried = Vec::new();
        while let Some(watts) = search.next() {
            tried.push((watts * 10.0).round() / 10.0);
            search.tell((watts.ln() - 20_f64.ln()).abs());
        }
        // 80 * 10^-0.618, 8 * 10^0.618, then the golden sections towards 20 W.
        assert_eq!(tried, [19.3, 33.2, 13.8, 23.7, 17.0, 20.9]);
        assert!(Search::new(8.0, 8.0).is_none());
        assert!(Search::new(0.0, 8.0).is_none());
    }

    /// Returns a number from `low` to `high`.
    fn between(noise: &mut Noise, low: i64, high: i64) -> i64 {
        low + (noise.next_u64() % (high - low + 1) as u64) as i64
    }

    /// An emulated unit with a random draw P, factor F and idle draw.
    struct Unit {
        idle: Power,
        lowest: Power,
        draw: Power,
        factor_permille: i64,
        model: Emulated,
    }

    const DURATION: Span = Span::from_secs(40);

    impl Unit {
        fn new(seed: u64) -> Self {
            let noise = &mut Noise::new(seed);
            let (idle_w, draw_w, factor) = (between(noise, 5, 60), between(noise, 20, 120), between(noise, 400, 1000));
            let lowest_w = between(noise, 5, draw_w / 3);
            let text = format!(
                r#"
                [[machine]]
                name = "m"
                cores = 1
                memory = "1 GiB"
                idle = "{idle_w} W"
                seed = {seed}
                [[machine.unit]]
                name = "cpu"
                hardware = "x"
                kind = "cpu"
                nameplate = "{draw_w} W"
                caps = ["{lowest_w} W", "{draw_w} W"]
                cap_factor = 0.{factor:03}
                power_noise = "1%"
                duration_noise = "1%"
                [machine.unit.application.ft]
                power = "{draw_w} W"
                duration = "40s"
                "#
            );
            let text = text.replace("0.1000", "1.0");
            let hardware = Hardware::parse("m.toml".as_ref(), &text).expect("a machine");
            Self {
                idle: Power::from_watts(idle_w),
                lowest: Power::from_watts(lowest_w),
                draw: Power::from_watts(draw_w),
                factor_permille: factor,
                model: Emulated::new(hardware.machines[0].clone()),
            }
        }

        /// Returns the mean of six runs at this cap, as a measurement has.
        fn measure(&mut self, cap: Option<Power>) -> Candidate {
            let begin = Time::from_unix_ms(0);
            let (mut time_s, mut above_j) = (0.0, 0.0);
            for _ in 0..6 {
                let plan = self.model.plan("ft", "", &[Share { unit: 0, cores: 1, cap }]).expect("a plan");
                self.model.start(1, plan, begin);
                let (end, _) = self.model.next_end(begin).expect("an end");
                above_j += self.model.end(1, end).expect("a run").joules() / 6.0;
                time_s += (end - begin).secs() / 6.0;
            }
            Candidate { setting: cap.into(), time_s, above_j, node_j: above_j + self.idle.watts() * time_s }
        }

        /// Returns the exact energy of the node at this cap: power-capping-2018, section 5.1.1.
        fn truth_j(&self, cap: Option<Power>) -> f64 {
            let draw_w = cap.unwrap_or(self.draw).min(self.draw).watts();
            let slower = (self.factor_permille as f64 / 1000.0 * self.draw.watts() / draw_w).max(1.0);
            (self.idle.watts() + draw_w) * DURATION.secs() * slower
        }
    }

    /// Check of the reference: on 200 random units, with at most eight caps, the energy is at most 3 % above the best
    /// one in at least 90 %. The best cap is F P, or the lowest.
    #[test]
    fn the_best_cap_of_random_units_is_found() {
        let (mut found, mut excess) = (0, 0.0);
        for seed in 0..200 {
            let mut unit = Unit::new(seed);
            let uncapped = unit.measure(None);
            let mut candidates = vec![uncapped];
            let draw_w = uncapped.above_j / uncapped.time_s;
            let mut search = Search::new(unit.lowest.watts(), draw_w).expect("a range");
            while let Some(watts) = search.next() {
                let candidate = unit.measure(Some(Power::from_mw((watts * 1000.0) as i64)));
                search.tell(Objective::Energy.value(&candidate, &uncapped));
                candidates.push(candidate);
            }
            assert!(candidates.len() <= 8, "{} measurements", candidates.len());
            let chosen = Objective::Energy.best(&candidates).expect("candidates").setting.cap();
            let kink = Power::from_mw(unit.draw.mw() * unit.factor_permille / 1000);
            let best_j = unit.truth_j(Some(kink.max(unit.lowest)));
            let regret = unit.truth_j(chosen) / best_j - 1.0;
            assert!(regret > -1e-3, "seed {seed}: nothing is better than the best cap: {regret}");
            found += u32::from(regret <= 0.03);
            excess += regret / 200.0;
        }
        assert!(found >= 180 && excess < 0.015, "{found} of 200 within 3 %, {excess} in the mean");
    }
}
