//! What sections V-E to V-H of energy-budget-2017 say in words, each asked of the means over the weeks.

use std::collections::BTreeMap;

use limo_sched::Preset;

use super::{BUDGETS, Condition, EASY, Means, WAYS, Way};

/// One sentence of the paper, whether it holds, and the numbers that say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub section: &'static str,
    pub says: &'static str,
    pub holds: bool,
    pub numbers: String,
}

/// Numbers closer than that are the same: the paper's plots show no less.
const SAME: f64 = 0.005;

struct Asked<'a>(&'a BTreeMap<Condition, Means>);

impl Asked<'_> {
    fn of(&self, preset: Preset, shutdown: bool, budget: u32) -> Means {
        self.0.get(&Condition { way: Way { preset, shutdown }, budget }).copied().unwrap_or_default()
    }

    fn easy(&self) -> Means {
        self.0.get(&Condition { way: EASY, budget: 100 }).copied().unwrap_or_default()
    }

    /// Asks something of each budget; lists those where it does not hold.
    fn each(&self, budgets: &[u32], holds: impl Fn(u32) -> bool) -> (bool, String) {
        let broken: Vec<String> = budgets.iter().filter(|b| !holds(**b)).map(|b| format!("{b} %")).collect();
        let told =
            if broken.is_empty() { "at every budget".to_owned() } else { format!("not at {}", broken.join(", ")) };
        (broken.is_empty(), told)
    }
}

/// All claims, in the order of the paper.
pub fn claims(means: &BTreeMap<Condition, Means>) -> Vec<Claim> {
    let asked = Asked(means);
    [better(&asked), slowdown(&asked), energy(&asked), shutdown(&asked), efficiency(&asked), best(&asked)].concat()
}

fn claim(section: &'static str, says: &'static str, (holds, numbers): (bool, String)) -> Claim {
    Claim { section, says, holds, numbers }
}

/// Budgets that bind: at 100 % nothing has to be held back.
const BINDING: [u32; 7] = [90, 80, 70, 60, 50, 49, 30];

fn better(asked: &Asked<'_>) -> Vec<Claim> {
    let util = |preset, shut, budget| asked.of(preset, shut, budget).utilisation;
    let shown = |text: String, what: &str| format!("{text} ({what})");
    let outperforms = asked.each(&BINDING, |b| {
        [false, true].iter().all(|shut| {
            let mine = util(Preset::Energybud, *shut, b);
            mine + SAME >= util(Preset::Powercap, *shut, b) && mine + SAME >= util(Preset::Reducepc, *shut, b)
        })
    });
    let row = |b| {
        let [pc, reduce, bud] = [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(|p| util(p, false, b));
        format!("at {b} %: {pc:.3} powercap, {reduce:.3} reducePC, {bud:.3} energyBud, idle")
    };
    let crossed =
        asked.each(&[90, 80, 70, 60], |b| util(Preset::Reducepc, true, b) + SAME >= util(Preset::Energybud, false, b));
    let idle = [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(|preset| util(preset, false, 30));
    let low: Vec<f64> = idle.into_iter().chain([util(Preset::Powercap, true, 30)]).collect();
    let span = low.iter().copied().fold(f64::MIN, f64::max) - low.iter().copied().fold(f64::MAX, f64::min);
    vec![
        claim("V-E", "energyBud outperforms the other algorithms in utilisation", {
            (outperforms.0, shown(outperforms.1, &row(70)))
        }),
        claim("V-E", "reducePC with shutdown beats energyBud without it in utilisation", crossed),
        claim("V-E", "below a budget of 49 % all without shutdown, and powercap with it, have the same utilisation", {
            (span <= SAME, format!("spread {span:.4} at 30 %"))
        }),
    ]
}

fn slowdown(asked: &Asked<'_>) -> Vec<Claim> {
    let bsld = |preset, shut, budget| asked.of(preset, shut, budget).avebsld;
    let best = asked.each(&BINDING, |b| {
        [false, true].iter().all(|shut| {
            let mine = bsld(Preset::Energybud, *shut, b) * (1.0 - SAME);
            mine <= bsld(Preset::Powercap, *shut, b) && mine <= bsld(Preset::Reducepc, *shut, b)
        })
    });
    let not_worst =
        asked.each(&[90, 80, 70, 60, 50], |b| bsld(Preset::Powercap, false, b) <= bsld(Preset::Reducepc, false, b));
    let same = asked.each(&BUDGETS, |b| {
        let (idle, shut) = (bsld(Preset::Powercap, false, b), bsld(Preset::Powercap, true, b));
        (shut - idle).abs() <= 0.02 * idle
    });
    let row = |b: u32| {
        let [pc, reduce, bud] = [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(|p| bsld(p, false, b));
        format!("at {b} %: {pc:.0} powercap, {reduce:.0} reducePC, {bud:.0} energyBud, idle")
    };
    vec![
        claim("V-E", "energyBud has the lowest AVEbsld, with and without shutdown", {
            (best.0, format!("{} ({})", best.1, row(70)))
        }),
        claim("V-E", "powercap is not the worst in AVEbsld", (not_worst.0, format!("{} ({})", not_worst.1, row(80)))),
        claim("V-E", "powercap has the same AVEbsld with and without shutdown (within 2 %)", same),
    ]
}

fn energy(asked: &Asked<'_>) -> Vec<Claim> {
    let energy = |preset, shut, budget| asked.of(preset, shut, budget).energy;
    let order = asked.each(&[90, 80, 70, 60, 50], |b| {
        [false, true].iter().all(|shut| {
            let [pc, reduce, bud] =
                [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(|p| energy(p, *shut, b));
            bud + SAME >= reduce && reduce + SAME >= pc
        })
    });
    let less = asked.each(&BUDGETS, |b| {
        [Preset::Powercap, Preset::Reducepc, Preset::Energybud]
            .iter()
            .all(|p| energy(*p, true, b) <= energy(*p, false, b))
    });
    vec![
        claim("V-E", "energyBud consumes more than reducePC, and reducePC more than powercap", order),
        claim("V-E", "with shutdown the cluster consumes less", less),
    ]
}

fn shutdown(asked: &Asked<'_>) -> Vec<Claim> {
    let gain = |preset| -> f64 {
        let of = |b: &u32| {
            let (idle, shut) = (asked.of(preset, false, *b).utilisation, asked.of(preset, true, *b).utilisation);
            (shut - idle) / idle
        };
        100.0 * BUDGETS.iter().map(of).sum::<f64>() / 8.0
    };
    let [pc, reduce, bud] = [Preset::Powercap, Preset::Reducepc, Preset::Energybud].map(gain);
    let told = format!("utilisation {pc:+.2} % powercap, {reduce:+.2} % reducePC, {bud:+.2} % energyBud");
    vec![claim("V-F", "energyBud gains most utilisation from shutdown, powercap nothing", {
        (bud >= reduce && reduce >= pc && pc.abs() < 1.0, told)
    })]
}

/// Section V-G: the line of a performance that falls as the budget does.
fn line(asked: &Asked<'_>, budget: u32) -> f64 {
    let share = if budget == 49 { 100.0 / 203.12 } else { f64::from(budget) / 100.0 };
    asked.easy().utilisation * (3.0 / 7.0 * share + 4.0 / 7.0)
}

fn efficiency(asked: &Asked<'_>) -> Vec<Claim> {
    let above = |way: Way, b: u32| asked.of(way.preset, way.shutdown, b).utilisation + SAME / 5.0 >= line(asked, b);
    let at_90: Vec<String> = WAYS.iter().filter(|way| !above(**way, 90)).map(|way| way.name()).collect();
    let shut = Way { preset: Preset::Energybud, shutdown: true };
    let idle = Way { preset: Preset::Energybud, shutdown: false };
    let (with, without) =
        (asked.each(&[90, 80, 70, 60], |b| above(shut, b)), asked.each(&[90, 80], |b| above(idle, b)));
    let told = if at_90.is_empty() { "all are".to_owned() } else { format!("not {}", at_90.join(", ")) };
    vec![
        claim("V-G", "at 90 % all algorithms are above the theoretical line", {
            (at_90.is_empty(), format!("{told} (line {:.3})", line(asked, 90)))
        }),
        claim("V-G", "energyBud with shutdown is above the line at 60 % and more", with),
        claim("V-G", "energyBud without shutdown is above the line at 80 % and more", without),
    ]
}

fn best(asked: &Asked<'_>) -> Vec<Claim> {
    let mean = |preset, shut, of: fn(&Means) -> f64| {
        BINDING.iter().map(|b| of(&asked.of(preset, shut, *b))).sum::<f64>() / 7.0
    };
    let util = |preset| mean(preset, true, |m| m.utilisation);
    let bsld = |preset| mean(preset, true, |m| m.avebsld);
    let (bud, reduce) = (util(Preset::Energybud), util(Preset::Reducepc));
    let (slow, slower) = (bsld(Preset::Energybud), bsld(Preset::Reducepc));
    let told = format!(
        "utilisation {bud:.3} against {reduce:.3}, AVEbsld {slow:.0} against {slower:.0}, over the budgets that bind"
    );
    vec![claim("V-H", "energyBud is the best in utilisation and AVEbsld (with shutdown)", {
        (bud + SAME >= reduce && slow <= slower, told)
    })]
}
