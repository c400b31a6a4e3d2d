//! Jobs that have used up their allowances: they are ended, or reported once. A running job has used the believed
//! energy; its measured energy is known at its end.

use limo_model::{Energy, Money, Price, Span, StopReason, Time, UsedUp, WhenUsed};

use crate::apply::with_times;
use crate::cluster::Cluster;
use crate::round::Command;
use crate::state::{Job, Phase, State};

/// The cost of a job is checked again after this time at the latest: its mean price is not linear over time.
const COST_AGAIN: Span = Span::from_ms(1_000);

/// Marks the jobs that end because of their allowance, and returns the warnings for the others, one per attempt.
pub(super) fn used_up(cluster: &mut Cluster, now: Time) -> Vec<Command> {
    let mut commands = Vec::new();
    for id in cluster.index.allowed.iter().copied().collect::<Vec<_>>() {
        let found =
            cluster.state.jobs.get(id).and_then(|job| Some((job.request.allowance?, of(&cluster.state, job, now)?)));
        let Some((allowance, used_up)) = found else { continue };
        match allowance.when_used {
            WhenUsed::Stop => {
                with_times(cluster, id, |job| {
                    if let Some(assignment) = job.assignment_mut() {
                        assignment.stop = Some((StopReason::UsedUp { used_up }, false));
                    }
                });
                cluster.index.to_stop.insert(id);
            }
            WhenUsed::Warn => {
                with_times(cluster, id, |job| {
                    if let Some((assignment, running)) = job.running_mut() {
                        running.used_up = Some(used_up);
                        commands.push(Command::UsedUp { job: id, attempt: assignment.attempt, used_up });
                    }
                });
            }
        }
    }
    commands
}

/// Returns the limit that the job has used up now.
fn of(state: &State, job: &Job, now: Time) -> Option<UsedUp> {
    let (energy, cost) = used(state, job, now)?;
    job.request.allowance?.used_up(energy, cost)
}

/// Returns the believed energy and cost, including earlier attempts.
fn used(state: &State, job: &Job, now: Time) -> Option<(Energy, Money)> {
    let (assignment, running) = job.assignment().zip(job.running())?;
    let energy = running.used(assignment, now);
    let cost = state.cost_on(&assignment.placement, energy, (running.started, now - running.started));
    // Time without a known price costs nothing.
    let cost = Money::of_known(job.lost.cost, cost).unwrap_or_default();
    Some((job.lost.energy + energy, cost))
}

/// Returns the time of the next check of those jobs, if no event happens before.
pub(super) fn look_again(cluster: &Cluster, now: Time) -> Option<Time> {
    let jobs = cluster.index.allowed.iter().filter_map(|id| cluster.state.jobs.get(*id));
    jobs.filter_map(|job| next_look(&cluster.state, job, now)).min()
}

fn next_look(state: &State, job: &Job, now: Time) -> Option<Time> {
    let Phase::Running(assignment, _) = &job.phase else { return None };
    let (allowance, (energy, cost)) = (job.request.allowance?, used(state, job, now)?);
    let draw = i128::from(assignment.draw.mw()).max(0);
    // Rounded up, so that the allowance is used up then.
    let until = |missing: i128| {
        let ms = (missing.max(1) * 1_000).checked_add(draw - 1)?.checked_div(draw)?;
        Some(Span::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)))
    };
    let by_energy = allowance.energy.and_then(|limit| until(i128::from((limit - energy).mj())));
    let prices = state.settings.prices.as_ref();
    let by_cost = allowance.cost.zip(prices).and_then(|(limit, prices)| {
        let step = prices.next_change(now).map(|at| at - now);
        let price = prices.at(now).map(|price| state.price_on(&assignment.placement, *price));
        let bought = price.and_then(|price| energy_for(limit - cost, price));
        let bought = bought.and_then(until).map(|span| span.max(COST_AGAIN));
        [step, bought].into_iter().flatten().min()
    });
    [by_energy, by_cost].into_iter().flatten().min().map(|span| now + span)
}

/// Returns the mJ that the money buys at a positive price: 1 MWh is 3.6e12 mJ, and 1/1000 EUR is 1,000 micro-EUR.
fn energy_for(money: Money, price: Price) -> Option<i128> {
    let price = i128::from(price.milli_per_mwh());
    (price > 0).then(|| i128::from(money.micro()) * 3_600_000_000 / price)
}
