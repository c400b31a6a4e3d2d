//! The search for a better list of the waiting jobs: some steps in each round.

use limo_model::{OrderRule, Span, Time};

use super::problem::WaitingJobs;
use crate::cluster::Cluster;
use crate::solve::plan::{Annealing, Decoder, Effort, ListRule};
use crate::state::Program;
use crate::view::View;

/// Most jobs for which the best list is found at once.
const EXACT: usize = 6;

/// Lists that are tried without a better one before the search rests until something changes.
const STALE: u32 = 20_000;

/// Searches for some steps, under the order `program`. Returns the time to go on.
pub(crate) fn think(cluster: &mut Cluster, now: Time) -> Option<Time> {
    if cluster.parts.order != OrderRule::Program {
        cluster.state.program = None;
        return None;
    }
    let view = View::new(cluster, now);
    let program = searched(&view, cluster.state.program.as_deref());
    let every = view.options().lists.think_every;
    let rests = every == Span::ZERO || program.as_ref().is_none_or(|program| program.stale >= STALE);
    cluster.state.program = program.map(Box::new);
    (!rests).then_some(now + every)
}

/// Returns the state of the search after some steps; `None` without jobs to put in order.
fn searched(view: &View<'_>, before: Option<&Program>) -> Option<Program> {
    let waiting = WaitingJobs::of(view);
    let (count, problem) = (waiting.jobs.len(), &waiting.problem);
    if count == 0 {
        return None;
    }
    let is_same = before.is_some_and(|program| program.problem == waiting.digest);
    if is_same && let Some(before) = before.filter(|program| program.stale >= STALE) {
        return Some(before.clone());
    }
    let seed = before.map_or(1, |program| program.seed.wrapping_add(1));
    let mut decoder = Decoder::new(problem);
    let lists = view.options().lists;
    let (mut search, cost, tried) = match before.filter(|_| is_same) {
        Some(Program { best, now, turn, length, stale, .. }) => {
            let best = waiting.indexes(best);
            let now = if now.is_empty() { best.clone() } else { waiting.indexes(now) };
            (Annealing { best, now, turn: *turn, length: *length, stale: *stale }, None, 0)
        }
        // The list so far with what is new, unless that of a rule is better. The first search asks all rules.
        None => {
            let known = before.map(|before| waiting.completed(&before.best));
            let rules = if known.is_some() { vec![lists.by.rule()] } else { ListRule::ALL.to_vec() };
            let all = known.into_iter().chain(rules.into_iter().map(|rule| problem.listed(rule)));
            let (mut best, mut cost, mut tried) = (Vec::new(), None, 0);
            for list in all {
                tried += 1;
                if let Some(found) = decoder.cost(&list, cost.map_or(i128::MAX, |cost| cost - 1)) {
                    (best, cost) = (list, Some(found));
                }
            }
            (Annealing::of(best), cost, tried)
        }
    };
    if count <= EXACT {
        search = Annealing { stale: STALE, ..Annealing::of(problem.best_of_few(search.best)) };
    } else {
        let evaluations = (lists.plan_steps as usize / count).saturating_sub(tried).max(1);
        let effort = Effort { evaluations: u32::try_from(evaluations).unwrap_or(u32::MAX), seed };
        search.spend(&mut decoder, cost, effort);
    }
    let now = if search.now == search.best { Vec::new() } else { waiting.numbers(&search.now) };
    let best = waiting.numbers(&search.best);
    let Annealing { turn, length, stale, .. } = search;
    Some(Program { best, now, turn, length, stale, seed, problem: waiting.digest })
}
