//! Policies: from what is recorded to a plan. A preset names the parts of a policy, order x admission x placement x caps; the
//! parts are here, each with its idea and its source, and [`crate::engine`] has the loop that runs them. What becomes of jobs
//! that run is decided apart from it, in `steer`.

mod admission;
mod idle;
mod order;
mod placement;
mod resumed;
mod steer;

pub use placement::Weighed;
pub(crate) use placement::weigh;
pub(crate) use steer::{look_again, steer};

use limo_model::{OrderRule, PlacementRule};

use crate::engine;
use crate::index::PlanCache;
use crate::plan::Plan;
use crate::view::View;

/// Plans by the parts of the policy in force. Without waiting jobs a plan only puts nodes to sleep, if the options
/// allow it. Also returns the cache for the next plan.
pub(crate) fn plan(view: &View<'_>) -> (Plan, Option<PlanCache>) {
    let parts = view.parts();
    match (parts.order, parts.placement) {
        (OrderRule::Easy, _) => engine::plan(&mut order::EasyPass::of(view)),
        (OrderRule::Conservative, PlacementRule::LeastRoom) => engine::plan(&mut order::ConservativePass::of(view)),
        _ => engine::plan(&mut order::PlanBuilder::of(view)),
    }
}
