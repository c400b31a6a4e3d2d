//! Sums of energy and cost from the journal, in the form of an answer.

use std::collections::BTreeMap;

use anyhow::Result;
use limo_journal::{JobSum, Journal, NodeSum, StateSum, SumBy};
use limo_model::{Groups, Span};
use limo_proto::{EnergyBy, EnergyQuery, EnergyReport, EnergySum};

use crate::database::row_filter;

/// Most sums in one answer: more than the days of ten years. Each takes less than 200 bytes, and a frame is 1 MiB.
pub const SUMS_LIMIT: u32 = 4_000;

/// Requests the sums from the journal.
///
/// # Errors
/// If it cannot be read.
pub async fn sums(journal: &Journal, query: EnergyQuery) -> Result<EnergyReport> {
    let EnergyQuery { by, filter, since, until, limit } = query;
    let limit = limit.min(SUMS_LIMIT);
    let by = match by {
        // Many nodes may be in one group.
        EnergyBy::Group => return Ok(nodes(journal.drawn((since, until)).await?, u32::MAX)),
        EnergyBy::State => return Ok(states(journal.states(filter.nodes, (since, until)).await?)),
        EnergyBy::Node => return Ok(nodes(journal.drawn((since, until)).await?, limit)),
        EnergyBy::User => SumBy::User,
        EnergyBy::Application => SumBy::Application,
        EnergyBy::Account => SumBy::Account,
        EnergyBy::Job => SumBy::Job,
        EnergyBy::Days(times) => SumBy::Days(times),
    };
    let filter = row_filter(filter, since, until);
    let total = journal.sums(SumBy::Nothing, filter.clone(), 1).await?.pop();
    let sums = match &by {
        // Fewer than two times enclose no day.
        SumBy::Days(times) if times.len() < 2 => Vec::new(),
        _ => journal.sums(by, filter, limit).await?,
    };
    Ok(EnergyReport { sums: sums.into_iter().map(of_jobs).collect(), total: total.map(of_jobs).unwrap_or_default() })
}

fn of_jobs(sum: JobSum) -> EnergySum {
    let JobSum { key, jobs, energy, measured, estimated, emulated, cost, start_now_cost } = sum;
    EnergySum { key, jobs, energy, measured, estimated, emulated, cost, start_now_cost, seen: None, span: None }
}

fn nodes(drawn: Vec<NodeSum>, limit: u32) -> EnergyReport {
    let (cluster, nodes): (Vec<NodeSum>, Vec<NodeSum>) = drawn.into_iter().partition(|sum| sum.node.is_empty());
    let of = |NodeSum { node, energy, seen }| EnergySum { key: node, energy, seen: Some(seen), ..EnergySum::default() };
    // Readings of a node always come from a meter.
    let of_node = |sum| {
        let sum = of(sum);
        EnergySum { measured: sum.energy, ..sum }
    };
    let total = cluster.into_iter().next().map(of).unwrap_or_default();
    EnergyReport { sums: nodes.into_iter().map(of_node).take(limit as usize).collect(), total }
}

fn states(sums: Vec<StateSum>) -> EnergyReport {
    let of = |StateSum { state, span, energy, seen }| {
        let (seen, span) = (Some(seen), Some(span));
        EnergySum { key: state, energy, measured: energy, seen, span, ..EnergySum::default() }
    };
    let sums: Vec<EnergySum> = sums.into_iter().map(of).collect();
    let total = sums.iter().fold(EnergySum::default(), added);
    EnergyReport { sums, total }
}

/// Sums up nodes by their groups, the largest sum first.
pub fn by_group(nodes: Vec<EnergySum>, groups: &Groups) -> Vec<EnergySum> {
    let names: BTreeMap<&str, &str> =
        groups.iter().flat_map(|(group, spec)| spec.nodes.iter().map(move |node| (node.as_str(), group))).collect();
    let mut sums: BTreeMap<&str, EnergySum> = BTreeMap::new();
    for sum in &nodes {
        let group = names.get(sum.key.as_str()).copied().unwrap_or_default();
        let of = sums.entry(group).or_insert_with(|| EnergySum { key: group.to_owned(), ..EnergySum::default() });
        *of = added(std::mem::take(of), sum);
    }
    let mut sums: Vec<EnergySum> = sums.into_values().collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.energy));
    sums
}

/// Adds a sum of nodes.
fn added(to: EnergySum, sum: &EnergySum) -> EnergySum {
    let spans = |to: Option<Span>, of: Option<Span>| of.map(|of| to.unwrap_or_default() + of).or(to);
    EnergySum {
        energy: to.energy + sum.energy,
        measured: to.measured + sum.measured,
        emulated: to.emulated + sum.emulated,
        seen: spans(to.seen, sum.seen),
        span: spans(to.span, sum.span),
        ..to
    }
}
