//! The sentences of the paper about its figures 6 and 7, beside our results.

use super::year::OfPolicy;
use crate::reproduce::claim_row::ClaimRow;

/// Largest difference that counts as comparable, in parts: the paper's figures show no smaller one.
const CLOSE: f64 = 0.05;

type Years = [Vec<OfPolicy>];
type Value = fn(&OfPolicy) -> f64;

const OVERHEAD: Value = |of| of.overhead_s;
const POOL: Value = |of| of.pool_j;
const JOBS: Value = |of| of.jobs_j;

fn value(year: &[OfPolicy], policy: &str, value: Value) -> f64 {
    year.iter().find(|of| of.name == policy).map_or(f64::NAN, value)
}

/// Returns the mean over the years.
fn mean(years: &Years, policy: &str, of: Value) -> f64 {
    years.iter().map(|year| value(year, policy, of)).sum::<f64>() / years.len().max(1) as f64
}

fn is_s3(of: &OfPolicy) -> bool {
    of.name.starts_with("S3")
}

fn is_s6(of: &OfPolicy) -> bool {
    of.name.starts_with("S6")
}

/// Returns the least and the largest value of some policies.
fn range<'a>(of: impl Iterator<Item = &'a OfPolicy>, value: Value) -> (f64, f64) {
    of.map(value).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), of| (least.min(of), most.max(of)))
}

/// Returns the number of years for which a condition holds, as a text, and true if it holds for all.
fn in_years(years: &Years, holds: impl Fn(&[OfPolicy]) -> bool) -> (String, bool) {
    let count = years.iter().filter(|year| holds(year)).count();
    (format!("in {count} of {} years", years.len()), count == years.len())
}

/// Returns the claims with our results.
pub fn rows(years: &Years) -> Vec<ClaimRow> {
    let percent = |of: f64, base: f64| format!("{:+.1} %", 100.0 * (of / base - 1.0));
    let against_s1 = |policy: &str, of: Value| percent(mean(years, policy, of), mean(years, "S1", of));
    let row = |id, what, paper, (ours, holds), condition| ClaimRow { id, what, paper, ours, condition, holds };

    let worst = in_years(years, |year| {
        range(year.iter().filter(|of| is_s3(of)), OVERHEAD).0 > range(year.iter().filter(|of| !is_s3(of)), OVERHEAD).1
    });
    let s3 =
        format!("S3a {}, S3b {} against S1; {}", against_s1("S3a", OVERHEAD), against_s1("S3b", OVERHEAD), worst.0);
    let others = in_years(years, |year| {
        let (least, most) = range(year.iter().filter(|of| !is_s3(of)), OVERHEAD);
        most <= (1.0 + CLOSE) * least
    });
    let slightly = ["S2", "S5b", "S6/30"].map(|policy| (policy, mean(years, policy, OVERHEAD)));
    let lower = slightly.iter().all(|(_, of)| *of < mean(years, "S1", OVERHEAD));
    let slightly = slightly.map(|(policy, _)| format!("{policy} {}", against_s1(policy, OVERHEAD))).join(", ");
    let windows = in_years(years, |year| {
        let (least, most) = range(year.iter().filter(|of| is_s6(of)), OVERHEAD);
        most <= (1.0 + CLOSE) * least
    });
    let least = |of: Value| {
        in_years(years, move |year| {
            let s2 = value(year, "S2", of);
            year.iter().all(|other| other.name == "S2" || s2 < of(other))
        })
    };
    let (pool, jobs) = (least(POOL), least(JOBS));
    let comparable = in_years(years, |year| {
        let s5 = ["S5a", "S5b"].map(|policy| value(year, policy, POOL));
        let is_close = |of: &OfPolicy| s5.iter().any(|s5| (of.pool_j / s5 - 1.0).abs() <= CLOSE);
        year.iter().filter(|of| is_s6(of)).all(is_close)
    });
    vec![
        row(
            "P1",
            "overhead of S3",
            "a large detrimental impact",
            (s3, worst.1),
            "S3a and S3b above all others in each year",
        ),
        row("P2", "overhead of the others", "little impact", others, "within 5 % of each other in each year"),
        row("P3", "overhead of S2, S5b and S6", "slightly lower", (slightly, lower), "each below S1 in the mean"),
        row(
            "P4",
            "energy of the pool under S2",
            "the lowest",
            (format!("{} against S1; {}", against_s1("S2", POOL), pool.0), pool.1),
            "below all others in each year",
        ),
        row(
            "P5",
            "energy of computers with jobs under S2",
            "the lowest",
            (format!("{} against S1; {}", against_s1("S2", JOBS), jobs.0), jobs.1),
            "below all others in each year",
        ),
        row(
            "P6",
            "energy of the pool under S6",
            "comparable with S5",
            comparable,
            "within 5 % of S5a or S5b for each window, in each year",
        ),
        row("P7", "overhead of S6 by window", "little impact", windows, "within 5 % of each other in each year"),
    ]
}

/// Returns a table of the means.
pub fn table(years: &Years) -> String {
    let mut out = format!(
        "{:<7}{:>12}{:>12}{:>12}{:>12}{:>11}{:>11}{:>9}{:>8}\n",
        "", "overhead s", "pool MWh", "jobs MWh", "wasted MWh", "evictions", "completed", "given up", "wall s"
    );
    for policy in years.first().into_iter().flatten() {
        let mean = |of: Value| mean(years, &policy.name, of);
        let mwh = |of: Value| mean(of) / 3.6e9;
        out += &format!(
            "{:<7}{:>12.1}{:>12.3}{:>12.3}{:>12.3}{:>11.0}{:>11.0}{:>9.0}{:>8.1}\n",
            policy.name,
            mean(OVERHEAD),
            mwh(POOL),
            mwh(JOBS),
            mwh(|of| of.wasted_j),
            mean(|of| of.evictions as f64),
            mean(|of| of.completed as f64),
            mean(|of| of.given_up as f64),
            mean(|of| of.wall_s),
        );
    }
    out
}
