//! The search for a better list of the waiting jobs: some steps in each round.

use limo_model::{OrderRule, Span, Time};

use super::problem::WaitingJobs;
use crate::cluster::Cluster;
use crate::solve::plan::{Annealing, Decoder, Effort, ListRule};
use crate::state::{Program, SearchResult};
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
    let by_rule = problem.listed(ListRule::Weight);
    let of_rule = decoder.cost(&by_rule, i128::MAX).unwrap_or(i128::MAX);
    let (mut best, mut cost, mut tried) = (by_rule, of_rule, 1);
    let mut try_list = |list: Vec<u32>| {
        tried += 1;
        let better = decoder.cost(&list, cost - 1);
        if let Some(found) = better {
            (best, cost) = (list, found);
        }
        better.is_some()
    };
    // The list so far with what is new, unless that of a rule is better. The first search asks all rules.
    let is_kept = before.is_some_and(|before| try_list(waiting.completed(&before.best)));
    if !is_same {
        let rules = if before.is_some() { vec![lists.by.rule()] } else { ListRule::ALL.to_vec() };
        for rule in rules {
            try_list(problem.listed(rule));
        }
    }
    let mut search = match before.filter(|_| is_same && is_kept) {
        Some(Program { now, turn, length, stale, .. }) => {
            let now = if now.is_empty() { best.clone() } else { waiting.indexes(now) };
            Annealing { best, now, turn: *turn, length: *length, stale: *stale }
        }
        None => Annealing::of(best),
    };
    if count <= EXACT {
        search = Annealing { stale: STALE, ..Annealing::of(problem.best_of_few(search.best)) };
        cost = decoder.cost(&search.best, i128::MAX).unwrap_or(i128::MAX);
    } else {
        let evaluations = (lists.plan_steps as usize / count).saturating_sub(tried).max(1);
        let effort = Effort { evaluations: u32::try_from(evaluations).unwrap_or(u32::MAX), seed };
        cost = search.spend(&mut decoder, cost, effort);
    }
    let bounded = |cost: i128| i64::try_from(cost).unwrap_or(i64::MAX);
    let found = SearchResult { jobs: count, cost: bounded(cost), of_rule: bounded(of_rule) };
    let now = if search.now == search.best { Vec::new() } else { waiting.numbers(&search.now) };
    let best = waiting.numbers(&search.best);
    let Annealing { turn, length, stale, .. } = search;
    Some(Program { best, now, turn, length, stale, seed, problem: waiting.digest, found })
}
