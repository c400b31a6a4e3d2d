//! Time of nodes in each state by hour of the day (UTC). Adding a span costs the same for any length.

use limo_model::{NodeActivity, Time};

const HOUR_MS: i64 = 3_600_000;
const HOURS: usize = 24;

/// Times of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct OfState {
    /// Milliseconds of parts of hours, by hour of the day.
    parts: [i64; HOURS],
    /// Differences of the numbers of whole hours between neighbouring hours of the day, and whole days.
    steps: [i64; HOURS],
    days: i64,
}

impl OfState {
    fn add(&mut self, from: i64, to: i64) {
        let (first, last) = (from.div_euclid(HOUR_MS), to.div_euclid(HOUR_MS));
        let of_day = |hour: i64| hour.rem_euclid(HOURS as i64) as usize;
        if first == last {
            self.parts[of_day(first)] += to - from;
            return;
        }
        self.parts[of_day(first)] += (first + 1) * HOUR_MS - from;
        self.parts[of_day(last)] += to - last * HOUR_MS;
        let whole = last - first - 1;
        self.days += whole / HOURS as i64;
        let (begin, end) = (of_day(first + 1), of_day(last));
        self.steps[begin] += 1;
        self.steps[end] -= 1;
        if end < begin {
            // Over midnight.
            self.steps[0] += 1;
        }
    }

    fn ms(&self) -> [i64; HOURS] {
        let mut whole = self.days;
        let mut ms = self.parts;
        for (ms, step) in ms.iter_mut().zip(&self.steps) {
            whole += step;
            *ms += whole * HOUR_MS;
        }
        ms
    }
}

/// Times of all states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoursOfDay([OfState; 9]);

impl HoursOfDay {
    pub fn add(&mut self, state: NodeActivity, from: Time, to: Time) {
        self.0[state as usize].add(from.unix_ms(), to.unix_ms());
    }

    /// Returns the milliseconds by state, in the order of [`NodeActivity::ALL`], and by hour.
    pub fn ms(&self) -> [[i64; HOURS]; 9] {
        self.0.each_ref().map(OfState::ms)
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Span;
    use limo_trace::generate::Dice;

    use super::*;

    /// Compares with adding minute by minute.
    #[test]
    fn spans_of_any_length_fall_into_their_hours() {
        let mut dice = Dice::of_purpose(1, 0);
        let (mut hours, mut naive) = (HoursOfDay::default(), [0_i64; HOURS]);
        for longest in [10.0, 200.0, 3_000.0, 10_000.0].repeat(20) {
            let [from, length] = [dice.between(0.0, 4_000.0) as i64, dice.between(0.0, longest) as i64];
            let at = |minute: i64| Time::from_unix_ms(0) + Span::from_secs(60 * minute);
            hours.add(NodeActivity::Job, at(from), at(from + length));
            (from..from + length).for_each(|minute| naive[(minute / 60 % 24) as usize] += 60_000);
        }
        let ms = hours.ms();
        assert_eq!((ms[NodeActivity::Job as usize], ms[NodeActivity::Idle as usize]), (naive, [0; HOURS]));
    }
}
