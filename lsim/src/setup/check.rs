//! Checks before a run that a simulation makes sense.

use anyhow::{Result, bail};
use limo_model::{Budget, Budgets, Energy, Parts, Power, Preset};
use limo_sched::RestRule;
use limo_sched::budget::{least, possible};
use limo_trace::{Platform, Workload};

/// Refuses budgets that cannot be kept, if a policy with these parts promises to keep them. The least possible budget
/// is the true draw of idle nodes, or of switched-off nodes if the policy lets them sleep.
///
/// # Errors
/// The first such period, with the least possible budget.
pub fn budgets(parts: Parts, rest: RestRule, platform: &Platform, budgets: &Budgets) -> Result<()> {
    if !parts.keeps_budget() {
        return Ok(());
    }
    let floor = floor(platform, rest);
    for budget in budgets {
        if let Err(impossible) = possible(budget, floor) {
            let percent = least_percent(budget, floor, full(platform));
            let hint = if rest == RestRule::Never && floor_at_rest(platform) < floor {
                ", or let idle nodes sleep (--set rest=idle)"
            } else {
                ""
            };
            bail!("{impossible} (--budget {percent}%){hint}");
        }
    }
    Ok(())
}

/// Returns the draw of the computing cluster, as the scheduler believes it to be.
pub fn full(platform: &Platform) -> Power {
    platform.groups.iter().map(|group| group.believed.busy.scaled(i64::from(group.count), 1)).sum()
}

fn floor(platform: &Platform, rest: RestRule) -> Power {
    if rest == RestRule::Never {
        platform.groups.iter().map(|group| group.draw.idle.scaled(i64::from(group.count), 1)).sum()
    } else {
        floor_at_rest(platform)
    }
}

fn floor_at_rest(platform: &Platform) -> Power {
    let at_rest = |group: &limo_trace::platform::Group| {
        let draw = group.rest.map_or(group.draw.idle, |rest| rest.draw.min(group.draw.idle));
        draw.scaled(i64::from(group.count), 1)
    };
    platform.groups.iter().map(at_rest).sum()
}

/// Returns the least budget in percent of `full`, rounded up to hundredths.
fn least_percent(budget: &Budget, floor: Power, full: Power) -> String {
    let (least, full): (Energy, Energy) = (least(budget, floor), full * budget.span());
    let hundredths = (i128::from(least.mj()) * 10_000 + i128::from(full.mj()) - 1) / i128::from(full.mj().max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Notes the jobs that are too large for `platform`: they are refused at submission.
pub fn too_large(platform: &Platform, workload: &Workload) -> Option<String> {
    let cores = platform.cores();
    let mut large = workload.jobs.iter().filter(|job| u64::from(job.processors) > cores);
    let first = large.next()?;
    let (count, number, processors) = (1 + large.count(), first.number, first.processors);
    let jobs = if count == 1 { "job" } else { "jobs" };
    Some(format!(
        "{count} {jobs} refused: larger than the {cores} processors of the platform (job {number}: {processors})"
    ))
}

/// Notes budgets and limits that `preset` does not promise to keep.
pub fn promises((preset, parts): (Preset, Parts), budgets: &Budgets, limits: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !budgets.is_empty() && !parts.keeps_budget() {
        notes.push(format!("`{preset}` ignores budgets: the energy is only counted"));
    }
    if limits && parts.ignores_upper_limit() {
        notes.push(format!("`{preset}` ignores limits: the time outside of them is only counted"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use limo_model::{Release, Span, Time};

    use super::*;

    fn check(preset: Preset, rest: RestRule, percent: i64, expected: Result<(), &str>) {
        // The platform has 16 nodes, believed to draw 203.12 W while they compute, for three days.
        let platform = Platform::taurus(16);
        let (from, until) = (Time::from_unix_ms(0), Time::from_unix_ms(0) + Span::from_secs(3 * 86_400));
        let energy = (full(&platform) * (until - from)).scaled(percent, 10_000);
        let given = Budgets::new(vec![Budget { from, until, energy, release: Release::Even }]).expect("a budget");
        let found = budgets(preset.parts(), rest, &platform, &given).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn impossible_budgets() {
        let idle = RestRule::Idle(Span::ZERO);
        // 95 W idle are 46.771 % of 203.12 W, and 9.75 W off are 4.8001 %.
        check(Preset::Energybud, RestRule::Never, 4_678, Ok(()));
        check(
            Preset::Energybud,
            RestRule::Never,
            4_677,
            Err(
                "the budget of 109.439 kWh is impossible: the cluster at rest draws 1520.0 W, which is 109.440 kWh over the period of 3d; give at least that (--budget 46.78%), or let idle nodes sleep (--set rest=idle)",
            ),
        );
        check(Preset::Powercap, idle, 481, Ok(()));
        check(
            Preset::Powercap,
            idle,
            480,
            Err(
                "the budget of 11.232 kWh is impossible: the cluster at rest draws 156.0 W, which is 11.232 kWh over the period of 3d; give at least that (--budget 4.81%)",
            ),
        );
        // A policy without promises may try.
        check(Preset::Easy, RestRule::Never, 1, Ok(()));
    }
}
