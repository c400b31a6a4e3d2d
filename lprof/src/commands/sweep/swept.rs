//! The measurements of one variant, and the best of them.

use limo_model::Power;

use crate::commands::subject::Judged;
use crate::explore::objective::{Candidate, Objective};
use crate::report::Best;

/// Measured settings of a variant; the first has the original values.
#[derive(Debug, Default)]
pub struct Swept {
    /// Hardware of the variant.
    pub hardware: String,
    /// Its command.
    pub command: String,
    /// The measurements.
    pub judged: Vec<Judged>,
}

impl Swept {
    /// Returns the measurements that may be chosen: that with the original values, and others that can be trusted.
    fn eligible(&self) -> Vec<(usize, Candidate)> {
        let judged = self.judged.iter().enumerate();
        let eligible = judged.filter(|(at, judged)| *at == 0 || judged.measurement.is_good());
        eligible.filter_map(|(at, judged)| Some((at, candidate(judged)?))).collect()
    }

    /// Returns the indices of the best measurements, best first, at most `most`.
    pub fn best_few(&self, objective: Objective, most: usize) -> Vec<usize> {
        let mut eligible = self.eligible();
        let Some(uncapped) = self.uncapped() else { return Vec::new() };
        let value = |candidate: &Candidate| objective.value(candidate, &uncapped);
        eligible.sort_by(|(_, one), (_, other)| value(one).total_cmp(&value(other)));
        eligible.into_iter().take(most).map(|(at, _)| at).collect()
    }

    /// Returns the measurement with the original values; `None` if it has too few runs.
    pub fn uncapped(&self) -> Option<Candidate> {
        self.judged.first().and_then(candidate)
    }

    /// Returns the best measurement.
    pub fn chosen(&self, objective: Objective) -> Option<Candidate> {
        self.judged.get(*self.best_few(objective, 1).first()?).and_then(candidate)
    }

    /// Returns the best measurement, compared with another one.
    pub fn best(&self, objective: Objective, other: &Candidate) -> Option<Best> {
        let best = self.chosen(objective)?;
        Some(Best {
            hardware: self.hardware.clone(),
            cap_w: best.setting.cap().map(Power::watts),
            clocks: best.setting.clocks(),
            saved: 1.0 - best.node_j / other.node_j,
            longer: best.time_s / other.time_s - 1.0,
        })
    }

    /// Returns true if all runs can be trusted. A setting without effect alone is accepted, because a cap may be above the draw; but
    /// if none has an effect, the hardware ignores them.
    pub fn is_good(&self) -> bool {
        let settings = self.judged.get(1..).unwrap_or_default();
        let is_obeyed = settings.is_empty() || settings.iter().any(|judged| judged.has_effect);
        is_obeyed && self.judged.iter().all(|judged| judged.faults == 0)
    }
}

/// Returns the typical run of a measurement; `None` if it has too few runs.
pub fn candidate(judged: &Judged) -> Option<Candidate> {
    let summary = judged.summary()?;
    let (time_s, node_j, above_j) = (summary.duration_s, summary.node_j, summary.energy_j);
    Some(Candidate { setting: judged.measurement.setting(), time_s, node_j, above_j })
}
