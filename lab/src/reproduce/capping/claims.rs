//! The claims of section 5 beside our results. A figure has no numbers in the paper, so a claim is what its text says.

use std::path::Path;

use anyhow::Result;

use super::CellResults;
use super::cells::{BF, DEC, DEC_RAPL, DVFS, LAWS, LS, MARGINS, SIMPLE, WINDOWS, dyn_share, dyn_share_3};
use super::simulate::{Law, MethodVariant};
use crate::reproduce::claim_row::ClaimRow;
use crate::y2018::instance::{read, read_nodes};
use crate::y2018::measures::Measures;
use crate::y2018::{Parameters, Policy, SimulationEnd, simulate};

/// The logged run of the authors: LS on this instance at 7,881 W.
const LOGGED: &str = "synthetic/jobs_100/ws_900/rndm_100_900_0.log_crypt.gz";
const LOGGED_CAP_W: i64 = 7_881;
/// DynShare with a realistic slowdown.
const MIXED: MethodVariant = dyn_share(Law::Mixed);
const MIXED_3: MethodVariant = dyn_share_3(Law::Mixed);

/// Returns the rows of the claims whose cells were run.
///
/// # Errors
/// If the instance of the logged run cannot be read.
pub fn rows(results: &[CellResults], folder: &Path) -> Result<Vec<ClaimRow>> {
    let cell = |name: &str| results.iter().find(|of| of.cell.name == name);
    let mut rows = vec![p1(folder)?];
    rows.extend(cell("2a").map(p2));
    rows.extend(cell("2a").zip(cell("2b")).map(|(empty, filled)| p3(empty, filled)));
    rows.extend(cell("3").map(p4));
    rows.extend(cell("4").map(p5));
    rows.extend(cell("5a").zip(cell("5b")).map(|(small, large)| p6(small, large)));
    let windows: Option<Vec<&CellResults>> = WINDOWS.iter().map(|window| cell(&format!("6-{window}"))).collect();
    rows.extend(windows.map(|windows| p7(&windows)));
    rows.extend(cell("7").map(p8));
    rows.extend(cell("2a").map(p9));
    rows.push(p10(results));
    let synthetic: Option<Vec<&CellResults>> = ["2a", "2b", "3", "4"].into_iter().map(cell).collect();
    rows.extend(synthetic.map(|synthetic| p11(&synthetic)));
    Ok(rows)
}

fn p1(folder: &Path) -> Result<ClaimRow> {
    let (instance, nodes) = (read(&folder.join(LOGGED))?, read_nodes(&folder.join("nodes_64"))?);
    let parameters = Parameters { policy: Policy::Ls, factor: 0.0, cap_w: LOGGED_CAP_W };
    let ours = match simulate(&instance, &nodes, parameters) {
        SimulationEnd::Done(schedule) => {
            let of = Measures::new(&instance, &schedule);
            format!("{} s, {:.5}, {} W", of.total_wait_s, of.bsld, of.peak_w)
        }
        SimulationEnd::Infeasible { .. } | SimulationEnd::Stuck => "no schedule".to_owned(),
    };
    let paper = "21741 s, 1.16982, 6391 W";
    Ok(ClaimRow {
        id: "P1",
        what: "the authors' logged run with compat = \"2018\": total wait, BSLD, highest draw",
        paper,
        holds: ours == paper,
        ours,
        condition: "equal",
    })
}

/// Comparisons that a claim requires.
#[derive(Default)]
struct Tests {
    count: usize,
    failing: Vec<String>,
}

impl Tests {
    fn add(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.count += 1;
        if !holds {
            self.failing.push(what());
        }
    }

    /// Adds the comparison that a method has at most `factor` times the slowdown of another one.
    fn at_most(&mut self, of: &CellResults, cap: u32, (better, worse): (MethodVariant, MethodVariant), factor: f64) {
        let (left, right) = (of.bsld(better, cap), of.bsld(worse, cap));
        let name = &of.cell.name;
        self.add(left <= factor * right, || {
            format!("{name}, {cap} %: {} {left:.3}, {} {right:.3}", better.name(), worse.name())
        });
    }

    fn row(self, id: &'static str, what: &'static str, paper: &'static str, condition: &'static str) -> ClaimRow {
        let holds = self.failing.is_empty();
        let passed = self.count - self.failing.len();
        let mut ours = format!("{passed} of {} comparisons hold", self.count);
        if !holds {
            ours += &format!("; not {}", self.failing.join("; "));
        }
        ClaimRow { id, what, paper, ours, condition, holds }
    }
}

fn p2(of: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    let laws = LAWS.map(dyn_share);
    for cap in [75, 50, 30] {
        for other in [BF, DVFS].into_iter().chain(laws[1..].iter().copied()) {
            tests.at_most(of, cap, (LS, other), 1.0);
            tests.at_most(of, cap, (DEC, other), 1.0);
        }
        tests.at_most(of, cap, (DVFS, BF), 1.0);
        laws[..5].windows(2).for_each(|pair| tests.at_most(of, cap, (pair[0], pair[1]), 1.0));
        tests.at_most(of, cap, (dyn_share(Law::Factor(250)), MIXED), 1.0);
        tests.at_most(of, cap, (MIXED, dyn_share(Law::Factor(750))), 1.0);
    }
    tests.row(
        "P2",
        "Figure 2a, 75 to 30 %",
        "LS and DEC beat all but DynShare_0; DVFS is not worse than BF; DynShare worsens with F; mixed is like F of .5 to .6",
        "means; mixed between .25 and .75",
    )
}

fn p3(empty: &CellResults, filled: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    for cap in [75, 50, 30] {
        for other in [BF, DVFS] {
            let ratio = |of: &CellResults| of.bsld(MIXED, cap) / of.bsld(other, cap);
            let (before, after) = (ratio(empty), ratio(filled));
            tests.add(after <= before, || {
                format!("{cap} %: {} over {} {before:.3} empty, {after:.3} filled", MIXED.name(), other.name())
            });
        }
        tests.at_most(filled, cap, (DEC, MIXED), 1.1);
    }
    tests.row(
        "P3",
        "Figure 2b, 75 to 30 %",
        "with filled nodes DynShare is better relative to DVFS and BF; DEC is on par with it down to 30 %",
        "means; DEC within 10 %",
    )
}

fn p4(of: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    for cap in [100, 75, 50] {
        for other in [BF, DVFS].into_iter().chain(LAWS.map(dyn_share)) {
            tests.at_most(of, cap, (LS, other), 1.1);
            tests.at_most(of, cap, (DEC, other), 1.1);
        }
    }
    tests.at_most(of, 30, (DEC, dyn_share(Law::Factor(750))), 1.1);
    tests.at_most(of, 30, (DEC, MIXED), 1.0);
    tests.row(
        "P4",
        "Figure 3",
        "LS and DEC beat all at 75 to 100 % and at 50 %; at 30 % DEC is like DynShare_.75 and better than mixed",
        "within 10 %",
    )
}

fn p5(of: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    let above = |variant: MethodVariant, cap: u32| of.mean(variant, cap, |run| f64::from(u8::from(run.is_above())));
    for law in LAWS {
        let (pure, admitted) = (above(dyn_share(law), 30), above(dyn_share_3(law), 30));
        tests.add(pure > 0.0, || format!("30 %: {} keeps the cap in all instances", dyn_share(law).name()));
        tests.add(admitted <= 0.0, || {
            format!("30 %: {} is above the cap in {:.0} %", dyn_share_3(law).name(), 100.0 * admitted)
        });
    }
    let others = |first: usize| LAWS[first..].iter().map(|law| dyn_share_3(*law)).chain([BF, DVFS]);
    for cap in [100, 75, 50] {
        others(0).for_each(|other| tests.at_most(of, cap, (DEC, other), 1.0));
    }
    others(1).for_each(|other| tests.at_most(of, 30, (DEC, other), 1.0));
    tests.row(
        "P5",
        "Figure 4",
        "pure DynShare cannot keep 30 %, with admission it can; DEC is best from 50 % on, and second to DynShare_0 below",
        "means; instances above the cap are counted",
    )
}

fn p6(small: &CellResults, large: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    for of in [small, large] {
        for cap in [100, 75, 50, 30] {
            tests.at_most(of, cap, (MIXED_3, dyn_share_3(Law::Cpi)), 1.0);
            if cap > 30 {
                let others = [LS, DEC, BF, DVFS, MIXED_3];
                others.into_iter().for_each(|other| tests.at_most(of, cap, (DEC_RAPL, other), 1.02));
            }
        }
    }
    tests.row(
        "P6",
        "Figure 5",
        "CPI is worse than mixed; DEC+RAPL is not worse than any other but at 30 %",
        "within 2 % of the best",
    )
}

/// Percentage by which DEC has more slowdown than DynShare_mixed (footnote 9).
fn difference(of: &CellResults, cap: u32) -> f64 {
    100.0 * (of.bsld(DEC, cap) / of.bsld(MIXED, cap) - 1.0)
}

fn p7(windows: &[&CellResults]) -> ClaimRow {
    let differences: Vec<f64> = windows.iter().map(|of| difference(of, 30)).collect();
    let rank = |value: f64| differences.iter().filter(|other| **other < value).count() as f64;
    let count = differences.len() as f64;
    let squares: f64 = differences.iter().enumerate().map(|(at, value)| (rank(*value) - at as f64).powi(2)).sum();
    let spearman = 1.0 - 6.0 * squares / (count * (count * count - 1.0));
    let changes = differences.first().is_some_and(|first| *first < 0.0) && differences.iter().any(|value| *value > 0.0);
    let shown: Vec<String> = differences.iter().map(|value| format!("{value:+.0}")).collect();
    ClaimRow {
        id: "P7",
        what: "Figure 6 at 30 %: DEC less DynShare_mixed, windows of 60 to 36,000 s",
        paper: "the difference grows with the window and changes its sign",
        ours: format!("{} %; rank correlation {spearman:.2}", shown.join(", ")),
        condition: "rank correlation at least 0.8, from below to above 0",
        holds: spearman >= 0.8 && changes,
    }
}

fn p8(of: &CellResults) -> ClaimRow {
    let mut tests = Tests::default();
    for (method, highest) in [(LS, [8.0, 12.0]), (DEC, [8.0, 12.0])] {
        for ((margin, highest), lowest) in MARGINS.into_iter().zip(highest).zip([0.0, 2.0]) {
            let tight = MethodVariant { margin: Some(margin), ..method };
            let caps = || of.cell.caps.iter().copied();
            let above = caps().map(|cap| of.mean(tight, cap, |run| f64::from(u8::from(run.is_above())))).sum::<f64>();
            let above = 100.0 * above / caps().count() as f64;
            tests.add(above <= 0.0, || format!("{} is above the target in {above:.0} % of the runs", tight.name()));
            let sum = |variant: MethodVariant| caps().map(|cap| of.bsld(variant, cap)).sum::<f64>();
            let more = 100.0 * (sum(tight) / sum(method) - 1.0);
            tests.add((lowest..=highest).contains(&more), || format!("{} has {more:+.1} % slowdown", tight.name()));
        }
    }
    tests.row(
        "P8",
        "Figure 7: one job in ten under-predicted by 40 %",
        "a cap 1 % lower holds the target, with 4.2 % (LS) and 4.4 % (DEC) more slowdown; 5 % lower: 6 to 7 %",
        "held; 0 to 8 %, 2 to 12 %",
    )
}

fn p9(of: &CellResults) -> ClaimRow {
    let ratios: Vec<f64> = [75, 50, 30, 10].map(|cap| of.bsld(SIMPLE, cap) / of.bsld(LS, cap)).to_vec();
    let shown: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.1}")).collect();
    ClaimRow {
        id: "P9",
        what: "section 5.2: slowdown of Simple relative to LS in Figure 2a, 75 to 10 %",
        paper: "an order of magnitude worse in any condition",
        ours: shown.join(", "),
        condition: "at least 5",
        holds: ratios.iter().all(|ratio| *ratio >= 5.0),
    }
}

fn p10(all: &[CellResults]) -> ClaimRow {
    let runs = || all.iter().flat_map(|of| of.instances.iter().flatten());
    let searches: usize = runs().map(|run| run.result.searches).sum();
    let worse: usize = runs().map(|run| run.result.worse_searches).sum();
    ClaimRow {
        id: "P10",
        what: "section 5.2: DEC against LS in equation 2 at each planning, all cells",
        paper: "never worse",
        ours: format!("worse in {worse} of {searches}"),
        condition: "none",
        holds: worse == 0 && searches > 0,
    }
}

fn p11(synthetic: &[&CellResults]) -> ClaimRow {
    let (mut ours, mut best) = (0.0, 0.0);
    for of in synthetic {
        for cap in [100, 75, 50] {
            ours += of.bsld(DEC, cap);
            best +=
                [BF, DVFS, SIMPLE, MIXED].map(|other| of.bsld(other, cap)).into_iter().fold(f64::INFINITY, f64::min);
        }
    }
    let better = 100.0 * (1.0 - ours / best);
    ClaimRow {
        id: "P11",
        what: "section 1: DEC against the best of the literature, synthetic instances, 100 to 50 %",
        paper: "8.5 % better",
        ours: format!("{better:.1} %"),
        condition: "at least 5 %",
        holds: better >= 5.0,
    }
}
