//! Policies: from what is recorded to a plan. A policy is a composition of order x admission x placement x caps; the
//! presets are named compositions, each in a file of its own with its idea and its source. What becomes of jobs that run
//! is decided apart from it, in `steer`.

mod backfill;
mod compose;
mod fifo;
mod limo;
mod offers;
mod prototype;
mod steer;
mod weigh;

pub(crate) use steer::{look_again, steer};
pub use weigh::Weighed;
pub(crate) use weigh::weigh;

use crate::index::PlanCache;
use crate::plan::Plan;
use crate::view::View;
use limo_model::{AdmissionRule, OrderRule, Parts, PlacementRule, Preset};

/// Decides what to start. Reads only; the checker looks at the plan before anything of it is done.
pub(crate) trait Policy {
    /// With no job that waits, a plan does nothing but put nodes to sleep, where the options let it. Beside it is what the
    /// next plan need not find again.
    fn plan(&self, view: &View<'_>) -> (Plan, Option<PlanCache>);
}

/// The policy of that name.
pub(crate) fn policy(preset: Preset) -> &'static dyn Policy {
    let Parts { order, admission, placement, .. } = preset.parts();
    match (order, placement) {
        (OrderRule::Strict, _) if admission == AdmissionRule::Resources => &fifo::FIFO,
        (OrderRule::Strict, _) => &prototype::LIMO_PROTOTYPE,
        (OrderRule::Conservative, PlacementRule::LeastRoom) => &backfill::CONSERVATIVE,
        (OrderRule::Conservative, _) => &limo::LIMO,
        (OrderRule::Easy, _) => &backfill::BACKFILL,
    }
}
