//! Starts that need power which nodes were ordered to free and have not confirmed yet.
//!
//! The believed draw counts such orders as followed. A start that fits only then is planned and sent to its nodes, but
//! released after the confirmations. The draw therefore stays below the upper limit whatever their order.

use limo_model::{Placement, Power, nodes};

use crate::plan::Plan;
use crate::view::View;

/// Marks the starts of a plan that must wait.
pub(super) fn hold(view: &View<'_>, plan: &mut Plan) {
    let unconfirmed = view.unconfirmed();
    if unconfirmed.is_zero() || view.parts().ignores_upper_limit() {
        return;
    }
    let mut draw = view.draw() + unconfirmed;
    for start in &mut plan.starts {
        draw += start.estimate.power;
        start.waits_for_relief = draw > view.band().high();
    }
}

/// Returns true if a start would have to wait for relief although waking its nodes takes power at once.
pub(super) fn wakes_too_early(view: &View<'_>, placement: &Placement, more: Power) -> bool {
    let unconfirmed = view.unconfirmed();
    !unconfirmed.is_zero()
        && view.draw() + unconfirmed + more > view.band().high()
        && nodes(placement).filter_map(|node| view.node(node)).any(|node| !node.is_awake())
}
