//! `lab reproduce heterogeneity`: the evaluation of the heterogeneity paper (COA and SWA), section 3, on synthetic
//! nodes. Each result is the mean over seeds, beside the published value.

mod experiment;
mod nodes;
mod rows;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use limo_model::Variation;
use lsim::engine::Variations;
use serde_json::json;

use experiment::{JobKind, PaperAlgorithm, VariedNodes, job, run, with_applications, workload};
use limo_model::Span;
use nodes::{OnNodes, Run, capped, mean, spread, uncapped, uncapped_durations};
use rows::rows;

use super::claim_row::ClaimRow;
use super::seeds::of_seeds;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Number of seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Number of simulations at a time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Nodes and load of a scenario.
#[derive(Debug, Clone, Copy)]
struct Setting {
    nodes: u32,
    load: f64,
}

const FREE: f64 = 0.4;
const BUSY: f64 = 0.8;

/// Counts of Table 3.
const SINGLE_NODES: u32 = 1_990;
const HPCG_JOBS: usize = 3_400;
const STREAM_JOBS: usize = 5_700;
/// Nodes of Table 5.
const MULTI_NODES: u32 = 665;
/// Nodes of a multi-node job in Table 5.
const WIDTH: u32 = 8;
/// Part of the duration of a job that its communication adds; the paper has no number.
const COMMUNICATION: f64 = 0.1;
/// Relative deviations of power and duration in a test run; the paper has no numbers. Without a cap durations are equal.
const ERRORS_UNCAPPED: (f64, f64) = (0.02, 0.0);
const ERRORS_CAPPED: (f64, f64) = (0.02, 0.05);

/// Results of one seed. Energies are those of the algorithms in J, first in the free, then in the busy scenario.
#[derive(Debug, Clone)]
struct Seed {
    single: [[f64; 3]; 2],
    multi: [[f64; 3]; 2],
    /// Equation 13, the largest of all algorithms and scenarios.
    single_error: f64,
    multi_error: f64,
    plans: Plans,
    /// Spreads of durations without a cap, durations at 40 W, and PKG power at 40 W.
    spreads: [f64; 3],
}

/// Figures 11 and 12: SWA less PAA.
#[derive(Debug, Clone, Copy)]
struct Plans {
    /// Duration of the multi-node job, in s.
    multi_node: f64,
    /// Duration of a single-node job on node 1 less that on node 25, in s.
    single_node: f64,
    /// Energy, relative to that of PAA.
    energy: f64,
}

/// The algorithms of the experiments with single-node and with multi-node jobs.
const SINGLE: [PaperAlgorithm; 3] = [PaperAlgorithm::Naive, PaperAlgorithm::Paa, PaperAlgorithm::Coa];
const MULTI: [PaperAlgorithm; 3] = [PaperAlgorithm::Naive, PaperAlgorithm::Paa, PaperAlgorithm::Swa];

/// Counts of jobs in Table 4: of one node and of 2 to 8 nodes, each from 360 to 3,600 s and above. A tenth of them is in
/// Table 5.
const TABLE_4: [usize; 4] = [7_749, 10_437, 172, 516];

/// Returns the numbers of jobs A to D.
fn table_5() -> [usize; 4] {
    TABLE_4.map(|jobs| jobs / 10)
}

/// Runs `lab reproduce heterogeneity`.
///
/// # Errors
/// If a simulation fails.
pub fn reproduce(arguments: &Arguments) -> Result<ExitCode> {
    let begun = Instant::now();
    let seeds = of_seeds(arguments.seeds, arguments.jobs, one_seed)?;
    let rows = rows(&seeds);
    let wall_s = begun.elapsed().as_secs_f64();
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(ClaimRow::json).collect();
        println!(
            "{:#}",
            json!({ "schema": 1, "paper": "heterogeneity", "seeds": seeds.len(), "wall_s": wall_s, "rows": rows })
        );
    } else {
        println!("heterogeneity: {} seeds in {wall_s:.0} s", seeds.len());
        print!("{}", ClaimRow::table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn one_seed(seed: u64) -> Result<Seed> {
    let (single, single_error) = single_node(seed)?;
    let (multi, multi_error) = multi_node(seed)?;
    let nodes = capped(MULTI_NODES, seed);
    let spreads = [
        spread(uncapped_durations(2_000, seed).into_iter()),
        spread(capped(2_000, seed).runs.iter().map(|run| run.seconds)),
        spread(nodes.runs.iter().map(|run| run.pkg)),
    ];
    Ok(Seed { single, multi, single_error, multi_error, plans: plans(&nodes)?, spreads })
}

/// Table 3.
fn single_node(seed: u64) -> Result<([[f64; 3]; 2], f64)> {
    let nodes = uncapped(SINGLE_NODES, seed);
    let tested = [0, 1].map(|of| nodes[of].tested(seed + of as u64, ERRORS_UNCAPPED));
    let counts = [HPCG_JOBS, STREAM_JOBS];
    let kind = |(of, count): (&OnNodes, usize)| JobKind {
        application: of.application,
        count,
        nodes: 1,
        seconds: of.mean_seconds(),
        power: of.mean_power(),
    };
    let kinds: Vec<JobKind> = nodes.iter().zip(counts).map(kind).collect();
    let table = |from: &[OnNodes; 2]| {
        let mut variation = Variation::default();
        for (of, typical) in from.iter().zip(&nodes) {
            of.add_to(&mut variation, of.application, (typical.mean_power(), typical.mean_seconds()), 0.0);
        }
        variation
    };
    compared((&kinds, SINGLE_NODES), (table(&nodes), table(&tested)), SINGLE, seed)
}

/// Table 5.
fn multi_node(seed: u64) -> Result<([[f64; 3]; 2], f64)> {
    let nodes = capped(MULTI_NODES, seed);
    let tested = nodes.tested(seed, ERRORS_CAPPED);
    let [a, b, c, d] = table_5();
    let kind = |application, count, nodes_of: u32, seconds: f64| JobKind {
        application,
        count,
        nodes: nodes_of,
        seconds: if nodes_of > 1 { seconds * (1.0 + COMMUNICATION) } else { seconds },
        power: nodes.mean_power(),
    };
    let kinds = [kind("a", a, 1, 30.0), kind("b", b, 1, 300.0), kind("c", c, WIDTH, 30.0), kind("d", d, WIDTH, 300.0)];
    let table = |from: &OnNodes| {
        let mut variation = Variation::default();
        for kind in &kinds {
            let constant = if kind.nodes > 1 { COMMUNICATION } else { 0.0 };
            from.add_to(&mut variation, kind.application, (nodes.mean_power(), nodes.mean_seconds()), constant);
        }
        variation
    };
    compared((&kinds, MULTI_NODES), (table(&nodes), table(&tested)), MULTI, seed)
}

/// Runs three algorithms in the free and in the busy scenario, with an exact table and with that of tests. Returns the
/// energies with the exact table, and the largest error of equation 13.
fn compared(
    (kinds, nodes): (&[JobKind], u32),
    (exact, tested): (Variation, Variation),
    algorithms: [PaperAlgorithm; 3],
    seed: u64,
) -> Result<([[f64; 3]; 2], f64)> {
    let machine = |actual: &Variation, believed: &Variation| VariedNodes {
        nodes,
        variations: Variations { actual: actual.clone(), believed: believed.clone() },
        drained: Vec::new(),
    };
    let (perfect, real, simulated) = (machine(&exact, &exact), machine(&exact, &tested), machine(&tested, &tested));
    let (mut energies, mut largest) = ([[0.0; 3]; 2], 0.0_f64);
    for (scenario, load) in [FREE, BUSY].into_iter().enumerate() {
        let setting = Setting { nodes, load };
        let jobs = workload(kinds, setting.nodes, setting.load, seed);
        for (index, algorithm) in algorithms.into_iter().enumerate() {
            energies[scenario][index] = run(kinds, &jobs, &perfect, algorithm)?.energy;
            let real = run(kinds, &jobs, &real, algorithm)?.energy;
            let simulated = run(kinds, &jobs, &simulated, algorithm)?.energy;
            largest = largest.max((real - simulated).abs() / real);
        }
    }
    Ok((energies, largest))
}

/// Figures 11 and 12: one job on eight nodes, then four on one node each. Twelve of thirty nodes are free.
fn plans(nodes: &OnNodes) -> Result<Plans> {
    const NODES: u32 = 30;
    const FREE: [u32; 12] = [1, 2, 11, 12, 21, 22, 23, 24, 25, 26, 27, 28];
    let mut ranked: Vec<Run> = nodes.runs.clone();
    ranked.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    // Stratified: the middle node of each of thirty equal parts. The figures rank them by performance alone, so the DRAM
    // power is the same on all.
    let dram = mean(nodes.runs.iter().map(|run| run.dram));
    let middle = |part: u32| Run { dram, ..ranked[(2 * part as usize + 1) * ranked.len() / (2 * NODES as usize)] };
    let all = OnNodes { application: nodes.application, runs: (0..NODES).map(middle).collect() };
    let kind = |application, nodes, constant: f64| JobKind {
        application,
        count: 1,
        nodes,
        seconds: all.mean_seconds() * (1.0 + constant),
        power: all.mean_power(),
    };
    let kinds = [kind("multi", WIDTH, COMMUNICATION), kind("single", 1, 0.0)];
    let mut variation = Variation::default();
    all.add_to(&mut variation, "multi", (all.mean_power(), all.mean_seconds()), COMMUNICATION);
    all.add_to(&mut variation, "single", (all.mean_power(), all.mean_seconds()), 0.0);
    let mut jobs = vec![job(1, Span::ZERO, (0, &kinds[0]))];
    jobs.extend((2..=5).map(|number| job(number, Span::ZERO, (1, &kinds[1]))));
    let jobs = with_applications(&kinds, jobs);
    let machine = VariedNodes {
        nodes: NODES,
        variations: Variations { actual: variation.clone(), believed: variation },
        drained: (0..NODES).filter(|node| !FREE.contains(&(node + 1))).collect(),
    };
    let [paa, swa] =
        [PaperAlgorithm::Paa, PaperAlgorithm::Swa].map(|algorithm| run(&kinds, &jobs, &machine, algorithm));
    let (paa, swa) = (paa?, swa?);
    let of =
        |outcome: &experiment::JobEnergies, job: i64| outcome.jobs.get(&job).map_or(f64::NAN, |(_, seconds)| *seconds);
    Ok(Plans {
        multi_node: of(&swa, 1) - of(&paa, 1),
        single_node: of(&swa, 2) - of(&paa, 2),
        energy: swa.energy / paa.energy - 1.0,
    })
}
