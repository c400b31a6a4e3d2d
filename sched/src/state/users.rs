//! The record of users: their usage, and the charges of jobs to their quotas.

use limo_model::{Energy, Fairshare, Span, Time, Window};
use serde::{Deserialize, Serialize};

use crate::fairshare::decayed;

/// The charge of a running or starting job to its user's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Charge {
    pub cores: u32,
    /// Expected energy of the job.
    pub energy: Energy,
}

/// Usage of a user. Jobs count when they end, or end to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    /// Energy of the last day, week and month in which a job ended, with their beginnings in wall time.
    pub energy: [(Time, Energy); 3],
    /// Decayed usage at this time, in mJ and in milliseconds of a core.
    pub(crate) counted: [u64; 2],
    pub(crate) at: Time,
}

impl Used {
    /// Returns the energy in the window that contains `wall`. If the clock was set back into an earlier window, the
    /// earlier usage counts.
    pub fn in_window(&self, window: Window, wall: Time) -> Energy {
        let (begin, energy) = self.energy[window as usize];
        if begin >= window.begin(wall) { energy } else { Energy::ZERO }
    }

    /// Returns the decayed usage now.
    pub fn counted(&self, fairshare: &Fairshare, now: Time) -> u64 {
        decayed(self.counted[fairshare.measure as usize], now - self.at, fairshare.half_life)
    }

    /// Decays the usage to the present, and adds to it.
    pub(crate) fn count(&mut self, now: Time, more: [u64; 2], half_life: Span) {
        for (counted, more) in self.counted.iter_mut().zip(more) {
            *counted = decayed(*counted, now - self.at, half_life).saturating_add(more);
        }
        self.at = now;
    }

    pub(crate) fn add(&mut self, wall: Time, energy: Energy) {
        for window in Window::ALL {
            let used = self.in_window(window, wall) + energy;
            let begin = self.energy[window as usize].0.max(window.begin(wall));
            self.energy[window as usize] = (begin, used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_usage_decays_and_is_added_to_new_usage() {
        let half_life = Span::from_secs(60);
        let fairshare = Fairshare { half_life, ..Fairshare::default() };
        let at = |seconds: i64| Time::from_unix_ms(seconds * 1_000);
        let mut used = Used { at: at(0), ..Used::default() };
        used.count(at(0), [1_000, 8], half_life);
        used.count(at(60), [100, 1], half_life);
        assert_eq!((used.counted, used.counted(&fairshare, at(60))), ([600, 5], 600));
        assert_eq!(used.counted(&fairshare, at(120)), 300);
    }
}
