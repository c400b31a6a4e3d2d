//! Exploration of caps in the background: some jobs whose users allow it run at a cap without a profile, so that the
//! profile database learns it (limo-2018, section 3.3.3, asks for a profile of each application on each unit).
//!
//! Explored are the caps from the lowest that a unit obeys on, each larger by the square root of two (half a step of
//! the caps of limo-2018, Table 4.4, is less), below the draw of the application without a cap. They depend on the
//! unit alone, so they stay the same while the profile without a cap changes.

use limo_model::{EstimateSource, JobId, JobShare, Power, Profile, ProfileKey, Request, Span, UnitSpec};

use crate::state::State;

/// Runs at a cap after which it is measured: a learned profile is used from this number of runs on.
pub(crate) const RUNS: u32 = 3;

/// Most caps that are explored: the largest ones below the draw.
const CAPS: usize = 8;

/// The lowest cap that is explored on units that obey any.
const LEAST: Power = Power::from_watts(1);

/// Caps are rounded down to a multiple of this.
const ROUND_MW: i64 = 100;

/// Returns true if the job is one of those that explore. A filler draws what the band lacks, and the allowance of a
/// job is not spent on measurements.
pub(crate) fn explores(state: &State, id: JobId, request: &Request) -> bool {
    let ordinary = !request.filler && request.cap.is_none() && request.allowance.is_none();
    request.explore && ordinary && is_drawn(state.settings.explore, id)
}

/// Selects a share of the jobs by their numbers alone, so that a replay selects the same ones. Of a thousand consecutive
/// numbers it selects exactly the share, spread evenly: the multiples of the golden ratio are, modulo 1.
fn is_drawn(share: JobShare, id: JobId) -> bool {
    (id.0 % 1_000) * 617 % 1_000 < u64::from(share.permille())
}

/// Returns the caps to explore on a unit with that lowest cap, in ascending order. All are below `below`.
pub(crate) fn caps(lowest: Power, below: Power) -> Vec<Power> {
    let first = lowest.max(LEAST).mw();
    let cap = |step: u32| {
        let whole = first.saturating_mul(1_i64.checked_shl(step / 2).unwrap_or(i64::MAX));
        let cap = if step.is_multiple_of(2) { whole } else { Power::from_mw(whole).scaled(1_414, 1_000).mw() };
        Power::from_mw(if step == 0 { cap } else { cap - cap % ROUND_MW })
    };
    let mut caps: Vec<Power> = (0..2 * 62).map(cap).take_while(|cap| *cap < below).collect();
    caps.drain(..caps.len().saturating_sub(CAPS));
    caps
}

/// Returns true if a run at one of the caps also measures the other: they differ by less than half a step.
pub(crate) fn is_near(cap: Power, other: Power) -> bool {
    let (low, high) = around(cap);
    (low..=high).contains(&other)
}

fn around(cap: Power) -> (Power, Power) {
    (cap.scaled(1_000, 1_180), cap.scaled(1_180, 1_000))
}

/// The profiles of an application and size class on a number of cores of one type of unit.
#[derive(Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub state: &'a State,
    pub request: &'a Request,
    pub unit: &'a UnitSpec,
    pub cores: u32,
}

impl<'a> Measured<'a> {
    fn key(&self, cores: Option<u32>, cap: Option<Power>) -> ProfileKey {
        ProfileKey {
            application: self.request.application.clone(),
            size: self.request.size.clone(),
            hardware: self.unit.hardware.clone(),
            cores,
            nodes: None,
            cap,
        }
    }

    /// Returns the profile without a cap.
    pub fn free(&self) -> Option<&'a Profile> {
        let of = |cores| self.state.profiles.get(&self.key(cores, None));
        of(Some(self.cores)).or_else(|| of(None))
    }

    /// Returns the number of runs at caps near this one, at least [`RUNS`] if one is imported.
    pub fn runs(&self, cap: Power) -> u32 {
        let (low, high) = around(cap);
        let of = |cores| self.state.profiles.range(self.key(cores, Some(low))..=self.key(cores, Some(high)));
        let runs = |profile: &Profile| match profile.source {
            EstimateSource::Learned => profile.runs,
            EstimateSource::Imported | EstimateSource::Predicted | EstimateSource::Nameplate => RUNS.max(profile.runs),
        };
        let all = of(Some(self.cores)).chain(of(None)).map(|(_, profile)| runs(profile));
        all.fold(0, u32::saturating_add)
    }
}

/// Returns the longest duration that is expected of a run at a cap below its draw: a run is slowed down at most in
/// proportion to its power (F = 1 in power-capping-2018, section 5.1.1).
pub(crate) fn longest_at(free: &Profile, cap: Power) -> Span {
    let spread = i64::from(free.spread_permille.min(10_000));
    free.duration.scaled(1_000 + spread, 1_000).scaled(free.power.mw(), cap.mw().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watts(text: &[&str]) -> Vec<Power> {
        text.iter().map(|text| text.parse().expect("a power")).collect()
    }

    #[test]
    fn caps_grow_by_the_square_root_of_two_below_the_draw() {
        // 8 x 1.414 = 11.312, 16 x 1.414 = 22.624, 32 x 1.414 = 45.248.
        let expected = watts(&["8W", "11.3W", "16W", "22.6W", "32W", "45.2W"]);
        assert_eq!(caps(Power::from_watts(8), Power::from_watts(58)), expected);
        assert_eq!(caps(Power::from_watts(8), Power::from_watts(32)), expected[..4]);
        assert_eq!(caps(Power::from_watts(8), Power::from_watts(8)), []);
        // Without a lowest cap: from 1 W, the eight largest.
        let largest = watts(&["5.6W", "8W", "11.3W", "16W", "22.6W", "32W", "45.2W", "64W"]);
        assert_eq!(caps(Power::ZERO, Power::from_watts(90)), largest);
        assert_eq!(caps(Power::from_watts(1), Power::MAX).len(), CAPS);
        assert_eq!(caps(Power::MAX, Power::MAX), []);
    }

    #[test]
    fn neighbouring_caps_are_not_near() {
        let all = caps(Power::from_watts(8), Power::from_watts(90));
        for pair in all.windows(2) {
            assert!(!is_near(pair[0], pair[1]) && !is_near(pair[1], pair[0]), "{pair:?}");
        }
        // A cap of Table 4.4 beside one of the grid.
        assert!(is_near("11.3W".parse().expect("a power"), Power::from_watts(12)));
    }

    #[test]
    fn the_share_of_drawn_jobs_is_the_wanted_one() {
        let drawn = |share: &str| {
            let share = share.parse().expect("a share");
            (1..=100_000).filter(|id| is_drawn(share, JobId(*id))).count()
        };
        assert_eq!((drawn("0%"), drawn("100%")), (0, 100_000));
        assert_eq!(drawn("2%"), 2_000);
        let few = "2%".parse().expect("a share");
        for first in 1..=1_000 {
            let near = (first..first + 100).filter(|id| is_drawn(few, JobId(*id))).count();
            assert!(near <= 3, "{near} of the hundred jobs from {first} on");
        }
    }

    #[test]
    fn a_run_is_at_most_slowed_down_in_proportion_to_its_power() {
        let (duration, power) = (Span::from_secs(60), Power::from_watts(40));
        let source = EstimateSource::Learned;
        let free = Profile { duration, power, energy: power * duration, spread_permille: 100, runs: 3, source };
        // 60 s x 1.1 x 40 W / 16 W.
        assert_eq!(longest_at(&free, Power::from_watts(16)), Span::from_secs(165));
    }
}
