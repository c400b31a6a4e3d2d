//! What `lq explain` and `--dry-run` tell: every unit on which a job could run, and what stands against each.

use limo_model::{Estimate, JobId, Money, Power, Request, UnitId};

use crate::account::cost_of;
use crate::core::Core;
use crate::round::{Command, Wait};
use crate::timeline::{Respect, Timeline};
use crate::view::{Choice, View};

/// One unit on which a job could run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Possibility {
    pub unit: UnitId,
    pub cap: Option<Power>,
    pub estimate: Estimate,
    /// If it started now, at the prices that are known for its duration.
    pub cost: Option<Money>,
    /// What stands against starting here now, apart from other waiting jobs.
    pub obstacle: Option<Wait>,
}

/// Where a request could run, in order of nodes and units.
pub fn possibilities(view: &View<'_>, request: &Request) -> Vec<Possibility> {
    let timeline = Timeline::new(view);
    let describe = |choice: &Choice| Possibility {
        unit: choice.unit(),
        cap: choice.part.cap,
        estimate: choice.estimate,
        cost: view
            .prices()
            .map(|prices| cost_of(choice.estimate.energy, view.now(), choice.estimate.duration, Some(prices))),
        obstacle: obstacle(view, &timeline, choice),
    };
    view.choices(request, true, |_| true).iter().map(describe).collect()
}

fn obstacle(view: &View<'_>, timeline: &Timeline<'_>, choice: &Choice) -> Option<Wait> {
    let now = view.now();
    if !view.node(choice.unit().node).is_some_and(|node| node.is_available(now)) {
        return Some(Wait::NoNode);
    }
    let until = timeline.earliest(view, choice, now, Respect::Resources);
    if until != Some(now) {
        return Some(Wait::Resources { until });
    }
    let until = timeline.earliest(view, choice, now, Respect::ResourcesAndBand);
    let left = timeline.headroom_for(choice).at_least_zero();
    (until != Some(now)).then_some(Wait::Band { needs: choice.estimate.power, left, until })
}

/// What the next round would do with a job that asked for this, without asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prospect {
    Starts { unit: Option<UnitId>, estimate: Estimate },
    Waits(Wait),
    Refused(Wait),
}

impl Core {
    /// Tries a request on a copy of the state.
    ///
    /// # Errors
    /// [`crate::Refused`] where it would not be accepted.
    pub fn dry_run(&self, now: limo_model::Time, request: &Request) -> Result<Prospect, crate::Refused> {
        let mut copy = self.clone();
        let job: JobId = copy.next_job();
        copy.apply(now, &crate::Event::Submitted { job, request: request.clone() })?;
        let round = copy.round(now);
        let start = round.commands.iter().find_map(|command| match command {
            Command::Start { job: id, placement, estimate, .. } if *id == job => {
                Some(Prospect::Starts { unit: placement.first().map(|part| part.unit), estimate: *estimate })
            }
            _ => None,
        });
        let wait = || round.waits.iter().find(|(id, _)| *id == job).map(|(_, wait)| Prospect::Waits(wait.clone()));
        let refusal = || {
            round.finished.iter().find(|finished| finished.job == job).and_then(|finished| match &finished.end {
                crate::JobEnd::Refused { wait } => Some(Prospect::Refused(wait.clone())),
                _ => None,
            })
        };
        let depth = self.settings().options.depth;
        Ok(start.or_else(wait).or_else(refusal).unwrap_or(Prospect::Waits(Wait::Depth { depth })))
    }
}
