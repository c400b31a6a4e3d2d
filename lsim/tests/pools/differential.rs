//! The engine agrees with the naive simulator on random pools.

use limo_model::{Span, Time};
use lsim::engine::{NodeActivity, PoolFigures, Spent};
use lsim::record::Fate;

use super::cases::PoolCase;
use super::naive::{NaivePool, PoolOutcome};
use super::{Rows, at, rules, simulated, trace};

fn seconds(span: Span) -> i64 {
    assert_eq!(span.ms() % 1_000, 0, "all times are whole seconds");
    span.ms() / 1_000
}

/// Simulates a pool with the engine, until `end` at least.
fn by_engine(case: &PoolCase, end: i64) -> Result<PoolOutcome, String> {
    let (workload, platform, visits) = (case.workload(), case.platform(), case.visits());
    let rank = (case.rank, Span::from_secs(case.window));
    let rules = rules(case.owners(), rank, case.rest.map(Span::from_secs), Some(at(end)));
    let (Rows { rows, summary, .. }, attempts) =
        simulated(trace(&workload, &platform, &visits), rules).map_err(|error| error.to_string())?;
    let summary = summary.expect("the end");
    let states = summary.energy_by_state;
    let machine = [states.idle, states.computing, states.off, states.switching_on, states.switching_off];
    let mut ends = vec![None; case.jobs.len()];
    let second = |time: Time| seconds(time - at(0));
    for (number, _, end, fate) in rows {
        ends[number as usize] = end.filter(|_| fate != Fate::Unfinished).map(second);
    }
    let PoolFigures { ledger, overheads, good, wasted, transfers, removed, visits, reboots, left_out, .. } =
        summary.pool.expect("figures");
    let spent = |of: &Spent| {
        assert_eq!(of.uj % 1_000, 0, "all energies are whole millijoules");
        (seconds(of.span), i64::try_from(of.uj / 1_000).expect("small"))
    };
    let spent: Vec<_> = ledger.iter().map(|group| group.each_ref().map(spent)).collect();
    let used: i64 = spent.iter().flatten().map(|(_, mj)| mj).sum();
    if summary.violations > 0 || machine.iter().map(|of| of.mj()).sum::<i64>() != used {
        return Err(format!("{} violations; {machine:?} in the machine, {used} mJ in the ledger", summary.violations));
    }
    Ok(PoolOutcome {
        ends,
        attempts,
        spent,
        wasted: wasted.map(|of| (of.count, seconds(of.spent.span))),
        good: seconds(good.spent.span),
        transfers: (transfers.count, seconds(transfers.spent.span)),
        removed: seconds(removed.spent.span),
        overhead: overheads.iter().sum::<i64>() / 1_000,
        visits,
        reboots,
        left_out,
        end: second(summary.end),
    })
}

/// Returns the differences between two results, one a line.
fn differences(naive: &PoolOutcome, engine: &PoolOutcome) -> String {
    let shown = |of: &PoolOutcome| format!("{of:#?}").lines().map(str::to_owned).collect::<Vec<_>>();
    let lines = shown(naive).into_iter().zip(shown(engine)).enumerate();
    let differ = lines.filter(|(_, (naive, engine))| naive != engine).take(12);
    differ.map(|(at, (naive, engine))| format!("line {at}: naive {naive}, engine {engine}\n")).collect()
}

/// 3,000 pools take two minutes: `LIMO_POOLS=3000 cargo test -p lsim --test pools`. `LIMO_POOLS=17..18` shows the pool of a
/// seed.
#[test]
fn the_engine_agrees_with_a_naive_simulator() {
    let wanted = std::env::var("LIMO_POOLS").unwrap_or_else(|_| "120".to_owned());
    let (from, until) = wanted.split_once("..").unwrap_or(("0", &wanted));
    let [from, until] = [from, until].map(|number| number.parse().expect("LIMO_POOLS is a number, or two with `..`"));
    let mut sums = PoolOutcome::default();
    for seed in from..until {
        let case = PoolCase::of(seed);
        let naive = NaivePool::outcome(&case);
        let engine = by_engine(&case, naive.end).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if naive != engine {
            let shown = if until - from == 1 { format!("{case:#?}\n{naive:#?}\n{engine:#?}\n") } else { String::new() };
            panic!("{shown}seed {seed}, rank {:?}:\n{}", case.rank, differences(&naive, &engine));
        }
        // Computers are occupied by work, transfers and jobs that stand still, and by nothing else.
        let states = [NodeActivity::Job, NodeActivity::Both];
        let busy: i64 = engine.spent.iter().flat_map(|group| states.map(|of| group[of as usize].0)).sum();
        let wasted: i64 = engine.wasted.iter().map(|(_, seconds)| seconds).sum();
        assert_eq!(busy, engine.good + wasted + engine.transfers.1 + engine.removed, "seed {seed}");
        sums.transfers.0 += engine.transfers.0;
        for (sum, of) in sums.wasted.iter_mut().zip(naive.wasted) {
            *sum = (sum.0 + of.0, sum.1 + of.1);
        }
        sums.reboots += naive.reboots;
        sums.left_out += naive.left_out;
    }
    // A generator without these would test nothing.
    let [(by_owners, _), (by_reboots, _)] = sums.wasted;
    let counts = [by_owners, by_reboots, sums.reboots, sums.left_out, sums.transfers.0];
    println!("evictions by owners and reboots, reboots, those left out, transfers: {counts:?}");
    assert!(until - from < 100 || counts.iter().all(|count| *count > 10), "{counts:?}");
}
