//! Jobs that a person resumes, under policies that change running jobs.
//!
//! A job continues if the upper limit leaves enough power for it. Otherwise the limit replaces the person as the
//! cause, and the job continues like those that the limit suspended. Unreachable nodes get no commands.

use limo_model::Power;

use super::steer::GroupPower;
use crate::facts::draw_if_on;
use crate::plan::Plan;
use crate::view::View;

/// Decides about such jobs; returns true if such a job exists. `room` is `None` if the draw is above the limit.
pub(super) fn decide(view: &View<'_>, room: Option<Power>, plan: &mut Plan) -> bool {
    let (mut room, mut groups) = (room, GroupPower::of(view));
    let resumed = view.index().suspended.iter().filter_map(|id| Some((*id, view.job(*id)?)));
    for (id, job) in resumed.filter(|(_, job)| job.may_continue()) {
        let draw = draw_if_on(view.state(), job);
        match room.filter(|room| view.reaches(job) && draw <= *room && groups.leaves(view, job)) {
            Some(left) => {
                room = Some(left - draw);
                groups.take(view, job);
                plan.resumes.push(id);
            }
            None => plan.suspends.push(id),
        }
    }
    !plan.suspends.is_empty() || !plan.resumes.is_empty()
}
