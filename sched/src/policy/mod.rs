//! Policies: from the recorded state to a plan. A preset names the parts of a policy: order x admission x placement x
//! caps x idle. This module has the parts, each with its idea and its source. [`crate::engine`] has the loop that
//! runs them. `steer` decides separately about running jobs.

mod admission;
mod explore;
mod idle;
mod order;
mod placement;
mod relief;
mod resumed;
mod steer;

pub(crate) use order::think;
pub use placement::Weighed;
pub(crate) use placement::weigh;
pub(crate) use steer::{look_again, steer};

use limo_model::{JobId, OrderRule, PlacementRule};

use crate::engine::{self, Later, Pass};
use crate::index::PlanCache;
use crate::plan::Plan;
use crate::view::View;

/// Returns the loop of the policy in force over the waiting jobs.
fn pass<'a>(view: &View<'a>) -> Box<dyn Pass<'a> + 'a> {
    let parts = view.parts();
    match (parts.order, parts.placement) {
        (OrderRule::Easy, _) => Box::new(order::EasyPass::of(view)),
        (OrderRule::Rule | OrderRule::Program, _) => Box::new(order::ListPass::of(view)),
        (OrderRule::Strict, placement) if placement.is_of_free_nodes() => Box::new(order::BatchPass::of(view)),
        (OrderRule::Conservative, PlacementRule::LeastRoom) => Box::new(order::ConservativePass::of(view)),
        _ => Box::new(order::PlanBuilder::of(view)),
    }
}

/// Returns the jobs that the policy would start now, and the later starts that it plans.
pub(crate) fn planned(view: &View<'_>) -> (Vec<JobId>, Vec<Later>) {
    let (mut pass, mut plan) = (pass(view), Plan::default());
    engine::plan(&mut *pass, view.has_groups(), &mut plan);
    (plan.starts.iter().map(|start| start.job).collect(), pass.later())
}

/// Plans by the parts of the policy in force. A plan that starts nothing puts idle nodes to sleep, if the parts allow it.
/// Also returns the cache for the next plan.
pub(crate) fn plan(view: &View<'_>) -> (Plan, Option<PlanCache>) {
    let mut plan = Plan::default();
    let cache = match view.parts().order {
        // The order with the shortest rounds gets a loop without calls that are chosen at run time.
        OrderRule::Easy => finish(view, &mut order::EasyPass::of(view), &mut plan),
        _ => finish(view, &mut *pass(view), &mut plan),
    };
    (plan, cache)
}

/// Runs a pass; if its plan starts nothing, adds the idle nodes that go to sleep.
fn finish<'a>(view: &View<'a>, pass: &mut (impl Pass<'a> + ?Sized), plan: &mut Plan) -> Option<PlanCache> {
    // The power that a group leaves to a job depends on the starts before it.
    let cache = engine::plan(pass, view.has_groups(), plan);
    placement::capped::join_caps(view, plan);
    steer::divide_with_starts(view, plan);
    relief::hold(view, plan);
    // Other caps change the ends of running jobs.
    let cache = cache.filter(|_| plan.caps.is_empty());
    if plan.is_followed() || !view.parts().powers_off() {
        return cache;
    }
    // In journals without this part, nodes do not stay awake for a planned start.
    let is_alias = view.options().overrides().idle.is_none()
        && !view.settings().preset.parts().powers_off()
        && !view.settings().groups.put_to_sleep();
    let later = if is_alias { Vec::new() } else { pass.later() };
    idle::power_off(view, later, plan);
    // Results that use the nodes that go to sleep are not valid for the next plan.
    cache.filter(|_| plan.sleeps.is_empty())
}
