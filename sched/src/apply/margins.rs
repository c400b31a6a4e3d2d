//! The margins of predictions as shares of the margin of their sum (`margin=sum`).
//!
//! A predicted job counts with its mean draw and a margin, up to the quantile of its prediction. The errors of jobs partly
//! cancel out, so the margin of a sum is less than the sum of the margins ([`SumMargin`]). Each job counts with a share of
//! it. A share that is fixed at the start is too small once other jobs have ended. So the shares are divided again after
//! each start and end, in the order of the latest ends, the last one first: a share is what the job adds to the margin of
//! those that end later. At any later time the jobs that are left are the first ones of this order, and their shares are
//! the margin of their sum. Until the next division a start counts with its whole margin, and that is at least what it adds;
//! the end of a job lowers the margin at all times. So no division raises the draw at any time.

use std::cmp::Reverse;

use limo_model::{JobId, Power, Time};

use super::jobs::with_times;
use super::steer::set_draw;
use crate::cluster::Cluster;
use crate::options::MarginRule;
#[cfg(debug_assertions)]
use crate::state::State;
use crate::state::{Job, JobMargin, Phase};

/// Correlation of the errors of two jobs, in thousandths: those of one application drift together.
const CORRELATION: i128 = 20;

/// The margin of a sum of jobs: the root of the variance of the sum, with the margin of each job in place of its deviation.
#[derive(Debug, Default)]
struct SumMargin {
    sum: i128,
    squares: i128,
}

impl SumMargin {
    fn add(&mut self, margin: Power) {
        let margin = i128::from(margin.mw());
        self.sum += margin;
        self.squares = self.squares.saturating_add(margin * margin);
    }

    /// Returns the margin, rounded up.
    fn power(&self) -> Power {
        // Exact up to a sum of 10^17 mW, far above the draw of any cluster.
        let common = self.sum.saturating_mul(self.sum).saturating_mul(CORRELATION);
        let variance = self.squares.saturating_mul(1_000 - CORRELATION).saturating_add(common).max(0) as u128;
        let root = variance.div_ceil(1_000).isqrt();
        let root = if root * root * 1_000 < variance { root + 1 } else { root };
        Power::from_mw(i64::try_from(root).unwrap_or(i64::MAX))
    }
}

/// Divides the margins of the jobs on nodes, if the rule wants that. Cost: one step for each predicted job on nodes.
pub(crate) fn divide(cluster: &mut Cluster, now: Time) {
    if cluster.state.settings.options.margin == MarginRule::Sum {
        apply_rule(cluster, now);
    }
}

/// Counts each job with the part of its margin that the rule gives it.
pub(super) fn apply_rule(cluster: &mut Cluster, now: Time) {
    let rule = cluster.state.settings.options.margin;
    let active = cluster.state.active.iter().filter_map(|id| Some((id, cluster.state.jobs.get(id)?)));
    let mut jobs: Vec<(Reverse<Time>, JobId, JobMargin)> = active.filter_map(|(id, job)| margin(id, job)).collect();
    jobs.sort_unstable_by_key(|(end, id, _)| (*end, *id));
    let (mut sum, mut divided) = (SumMargin::default(), Power::ZERO);
    for (_, id, JobMargin { whole, counted }) in jobs {
        let is_shared = rule == MarginRule::Sum && cluster.state.jobs.get(id).is_some_and(|job| !job.is_paused());
        let share = if is_shared {
            sum.add(whole);
            (sum.power() - divided).at_least_zero().min(whole)
        } else {
            whole
        };
        divided += if is_shared { share } else { Power::ZERO };
        if share != counted {
            count(cluster, now, id, share);
        }
    }
}

/// Returns true if the jobs on nodes count with no less than the margin of their sum, or the rule wants none.
#[cfg(debug_assertions)]
pub(crate) fn are_enough(state: &State) -> bool {
    let counted = |job: &Job| job.assignment().filter(|_| !job.is_paused()).map(|assignment| assignment.margin);
    let active = state.active.iter().filter_map(|id| counted(state.jobs.get(id)?));
    let (mut sum, mut divided) = (SumMargin::default(), Power::ZERO);
    active.for_each(|margin| {
        sum.add(margin.whole);
        divided += margin.counted;
    });
    state.settings.options.margin == MarginRule::Job || divided >= sum.power()
}

/// Returns the latest end of a job with a margin, and the margin.
fn margin(id: JobId, job: &Job) -> Option<(Reverse<Time>, JobId, JobMargin)> {
    let assignment = job.assignment().filter(|assignment| assignment.margin.whole > Power::ZERO)?;
    let is_sure = job.request.time_limit.is_some_and(|limit| limit <= assignment.estimate.duration);
    let end = job.estimated_end().filter(|_| is_sure).unwrap_or(Time::MAX);
    Some((Reverse(end), id, assignment.margin))
}

/// Counts a job with this part of its margin from now on.
fn count(cluster: &mut Cluster, now: Time, id: JobId, share: Power) {
    let Some(job) = cluster.state.jobs.get(id) else { return };
    let Some(assignment) = job.assignment() else { return };
    let (estimate, more) = (assignment.estimate.power, share - assignment.margin.counted);
    let (draw, is_paused) = (assignment.draw, job.is_paused());
    // Readings and caps give other draws.
    let is_believed = matches!(&job.phase, Phase::Running(_, running) if running.seen_on.is_empty() && running.steady)
        && draw == estimate
        && assignment.shares.is_empty();
    if is_believed {
        set_draw(cluster, now, id, (draw + more, Vec::new()), None);
    }
    with_times(cluster, id, |job| {
        if let Some(assignment) = job.assignment_mut() {
            assignment.estimate.power += more;
            assignment.margin.counted = share;
        }
    });
    if !is_paused {
        super::pause::count(cluster, now, more);
    }
    cluster.index.cache = None;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn margin_of(margins: &[i64]) -> i64 {
        let mut sum = SumMargin::default();
        margins.iter().for_each(|margin| sum.add(Power::from_mw(*margin)));
        sum.power().mw()
    }

    #[test]
    fn the_margin_of_a_sum_is_the_root_of_its_variance() {
        // 0.98 * 169 + 0.02 * 19^2 = 172.84 W^2, whose root is 13.14686 W.
        assert_eq!(margin_of(&[3_000, 4_000, 12_000]), 13_147);
        assert_eq!((margin_of(&[]), margin_of(&[5_000])), (0, 5_000));
        // 0.98 * 2 + 0.02 * 4 = 2.04 mW^2.
        assert_eq!(margin_of(&[1, 1]), 2);
        // Far above the draw of any cluster.
        assert_eq!(margin_of(&[1_000_000_000_000_000]), 1_000_000_000_000_000);
        assert!(margin_of(&[i64::MAX; 3]) > 0, "saturated");
    }
}
