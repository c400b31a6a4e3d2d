//! Objectives: what makes one cap better than another.
//!
//! By default it is the energy of the whole node, idle draw included. The energy above idle may have no minimum within
//! the range: in the model of emulated hardware it is the same at all caps below one.

use std::str::FromStr;

use limo_model::{UnitError, decimal};
use thiserror::Error;

use crate::machine::Setting;

/// Typical run at one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The setting.
    pub setting: Setting,
    /// Duration, in seconds.
    pub time_s: f64,
    /// Energy of the whole node during the run, in joules.
    pub node_j: f64,
    /// Part of it that is above idle.
    pub above_j: f64,
}

/// Goal of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// Least energy of the whole node.
    Energy,
    /// Least energy above idle.
    AboveIdle,
    /// Least product of the node's energy and the duration.
    Edp,
    /// Least energy of the node among the durations that are at most this part longer than without a cap, 0 to 10.
    WithinTime(f64),
    /// Least cost: energy of the node, and the time of the node.
    Cost {
        /// Cost of a kilowatt-hour, in any currency.
        per_kwh: f64,
        /// Cost of an hour of the node, in the same currency.
        per_hour: f64,
    },
}

/// Reason why an objective was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ObjectiveError {
    #[error("objective `{0}` is unknown: write `energy`, `above-idle`, `edp`, `time<=5%` or `cost:KWH,HOUR`")]
    Unknown(String),
    #[error("the objective `{0}` has no percentage: write for example `time<=5%`, at most `time<=1000%`")]
    Percent(String),
    #[error(
        "the objective `{0}` needs the cost of a kilowatt-hour and of an hour of the node, not negative, in one \
         currency: write for example `cost:0.30,0.12`"
    )]
    Cost(String),
    #[error(transparent)]
    Unit(#[from] UnitError),
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        if let Some(bound) = text.strip_prefix("time<=") {
            // Tenths of a percent.
            let permille = decimal::percent(bound, 1).filter(|permille| (0..=10_000).contains(permille));
            let permille = permille.ok_or_else(|| ObjectiveError::Percent(text.to_owned()))?;
            return Ok(Self::WithinTime(permille as f64 / 1000.0));
        }
        if let Some(costs) = text.strip_prefix("cost") {
            let wrong = || ObjectiveError::Cost(text.to_owned());
            let (per_kwh, per_hour) =
                costs.strip_prefix(':').and_then(|costs| costs.split_once(',')).ok_or_else(wrong)?;
            let cost = |text: &str| text.trim().parse().ok().filter(|cost: &f64| cost.is_finite() && *cost >= 0.0);
            let (per_kwh, per_hour) = cost(per_kwh).zip(cost(per_hour)).ok_or_else(wrong)?;
            return Ok(Self::Cost { per_kwh, per_hour });
        }
        match text {
            "energy" => Ok(Self::Energy),
            "above-idle" => Ok(Self::AboveIdle),
            "edp" => Ok(Self::Edp),
            _ => Err(ObjectiveError::Unknown(text.to_owned())),
        }
    }
}

impl Objective {
    /// Returns the value of a candidate: less is better. `uncapped` is the run without a cap. A candidate that is too
    /// slow is worse than all that are not, and the slower, the worse.
    pub fn value(self, candidate: &Candidate, uncapped: &Candidate) -> f64 {
        match self {
            Self::Energy => candidate.node_j,
            Self::AboveIdle => candidate.above_j,
            Self::Edp => candidate.node_j * candidate.time_s,
            Self::WithinTime(part) => {
                let excess = candidate.time_s / (uncapped.time_s * (1.0 + part));
                // At this duration no candidate within the bound has more energy than ten times that without a cap.
                if excess > 1.0 { uncapped.node_j * (10.0 + excess) } else { candidate.node_j }
            }
            Self::Cost { per_kwh, per_hour } => {
                candidate.node_j / 3.6e6 * per_kwh + candidate.time_s / 3600.0 * per_hour
            }
        }
    }

    /// Returns the best candidate; the first is the run without a cap. `None` without candidates.
    pub fn best(self, candidates: &[Candidate]) -> Option<&Candidate> {
        let uncapped = candidates.first()?;
        let value = |candidate: &&Candidate| self.value(candidate, uncapped);
        candidates.iter().min_by(|one, other| value(one).total_cmp(&value(other)))
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Power;

    use super::*;

    fn candidate(watts: i64, time_s: f64, node_j: f64, above_j: f64) -> Candidate {
        let setting = (watts > 0).then(|| Power::from_watts(watts)).into();
        Candidate { setting, time_s, node_j, above_j }
    }

    fn best(objective: &str, watts: i64) {
        let candidates = [
            candidate(0, 100.0, 10_000.0, 8_000.0),
            candidate(60, 104.0, 9_500.0, 7_420.0),
            candidate(40, 130.0, 9_000.0, 6_400.0),
            candidate(20, 240.0, 9_900.0, 5_100.0),
        ];
        let objective: Objective = objective.parse().expect("an objective");
        let cap = objective.best(&candidates).expect("candidates").setting.cap();
        assert_eq!(cap, (watts > 0).then(|| Power::from_watts(watts)), "{objective:?}");
    }

    #[test]
    fn each_objective_has_its_best_cap() {
        best("energy", 40);
        best("above-idle", 20);
        best("edp", 60);
        best("time<=5%", 60);
        best("time<=3.9%", 0);
        best("time<=30%", 40);
        // 10,000 J at 0.36 a kWh cost 0.001; an hour at 0.036 makes 0.001 of 100 s: 2.0, 1.99, 2.2 and 3.39 thousandths.
        best("cost:0.36,0.036", 60);
        best("cost:0.36,0", 40);
        best("cost:0,1", 0);
    }

    #[test]
    fn wrong_objectives_are_named() {
        let refused = |text: &str| text.parse::<Objective>().expect_err("refused").to_string();
        assert!(refused("speed").starts_with("objective `speed` is unknown: write `energy`"));
        assert!(refused("time<=x").starts_with("the objective `time<=x` has no percentage"));
        assert!(refused("time<=1001%").starts_with("the objective `time<=1001%` has no percentage"));
        for text in ["cost", "cost:1", "cost:-1,0", "cost:nan,1"] {
            assert!(refused(text).starts_with(&format!("the objective `{text}` needs the cost")), "{text}");
        }
    }
}
