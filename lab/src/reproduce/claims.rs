//! The claims of energy-budget-2017, each checked at every binding budget: strictly, and within a stated tolerance.
//! Uses the means over the weeks, and Table II.

use std::collections::BTreeMap;

use limo_model::Preset;

use super::{BUDGETS, Condition, EASY, Means, Outcome, TableII, WAYS, Way};

/// A sentence of the paper and the tests of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub section: &'static str,
    pub says: &'static str,
    /// Largest deficit at which a test still holds within the tolerance.
    pub tolerance: f64,
    pub tests: Vec<Test>,
    is_equal: bool,
}

/// One condition of a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    pub place: String,
    /// Margin, at least 0 if the condition holds: a share of all processors or of all energy, or a part of an
    /// AVEbsld. Conditions of equality give the negative difference.
    pub margin: f64,
}

impl Claim {
    /// Returns the tests that fail by more than `tolerance`. With 0, the check is strict: equality also fails if the
    /// claim needs a difference.
    pub fn failing(&self, tolerance: f64) -> Vec<&Test> {
        let allows_zero = self.is_equal || tolerance > 0.0;
        let fails = |test: &&Test| test.margin < -tolerance || (test.margin == 0.0 && !allows_zero);
        self.tests.iter().filter(fails).collect()
    }

    pub fn holds_strictly(&self) -> bool {
        self.failing(0.0).is_empty()
    }

    pub fn holds_tolerantly(&self) -> bool {
        self.failing(self.tolerance).is_empty()
    }
}

/// Tolerance: half a percent of the processors, of the energy of the full machine, or of an AVEbsld. The paper's
/// plots do not show smaller differences.
const CLOSE: f64 = 0.005;
/// Binding budgets in percent; at 100 % no job is held back.
const BINDING: [u32; 7] = [90, 80, 70, 60, 50, 49, 30];
/// Assumed budgets of Figure 5, which has five and does not name them.
const FIGURE_5: [u32; 5] = [90, 80, 70, 60, 50];

const PC: Preset = Preset::Powercap;
const REDUCE: Preset = Preset::Reducepc;
const BUD: Preset = Preset::Energybud;

/// Returns all claims, in the order of the paper.
pub fn claims(outcomes: &[Outcome], means: &BTreeMap<Condition, Means>, table: &TableII) -> Vec<Claim> {
    let asked = Asked(means);
    [
        budget(outcomes, &asked),
        asked.utilisation(),
        asked.slowdown(),
        asked.energy(),
        shutdown(table),
        asked.efficiency(),
        asked.best(),
    ]
    .concat()
}

fn claim(section: &'static str, says: &'static str, tolerance: f64, tests: Vec<Test>) -> Claim {
    Claim { section, says, tolerance, tests, is_equal: false }
}

fn equal(section: &'static str, says: &'static str, tolerance: f64, tests: Vec<Test>) -> Claim {
    Claim { is_equal: true, ..claim(section, says, tolerance, tests) }
}

fn test(place: impl Into<String>, margin: f64) -> Test {
    Test { place: place.into(), margin }
}

/// Returns `above` minus `below`, as a fraction of the smaller one.
fn part(below: f64, above: f64) -> f64 {
    (above - below) / below.min(above).max(f64::MIN_POSITIVE)
}

/// Section IV: every run keeps its budget, and a budget that does not bind changes nothing.
fn budget(outcomes: &[Outcome], asked: &Asked<'_>) -> Vec<Claim> {
    let most = |way: Way, budget: u32| {
        let of = outcomes.iter().filter(|outcome| outcome.condition == Condition { way, budget });
        of.filter_map(|outcome| outcome.spent).fold(0.0, f64::max)
    };
    let conditions = WAYS.iter().flat_map(|way| BUDGETS.map(|budget| (*way, budget)));
    let possible = conditions.filter(|(way, budget)| way.shutdown || *budget != 30);
    let kept = possible.map(|(way, budget)| test(format!("{} at {budget} %", way.name()), 1.0 - most(way, budget)));
    let easy = asked.easy();
    let same = [PC, REDUCE, BUD].map(|preset| {
        let of = asked.of(preset, false, 100);
        let apart = (of.utilisation - easy.utilisation).abs().max(part(of.avebsld, easy.avebsld).abs());
        test(Way { preset, shutdown: false }.name(), -apart)
    });
    vec![
        equal("IV-A", "the budget is respected in every run in which that is possible", 0.0, kept.collect()),
        equal("IV-C.4", "with a budget that does not bind, all without shutdown equal EASY", CLOSE, same.into()),
    ]
}

struct Asked<'a>(&'a BTreeMap<Condition, Means>);

impl Asked<'_> {
    fn of(&self, preset: Preset, shutdown: bool, budget: u32) -> Means {
        self.0.get(&Condition { way: Way { preset, shutdown }, budget }).copied().unwrap_or_default()
    }

    fn easy(&self) -> Means {
        self.0.get(&Condition { way: EASY, budget: 100 }).copied().unwrap_or_default()
    }

    /// Tests at every binding budget, with and without shutdown. Omits 30 % without shutdown, because the paper
    /// claims that all policies are equal there.
    fn everywhere(&self, margin: impl Fn([Means; 3]) -> f64) -> Vec<Test> {
        let places = [false, true].into_iter().flat_map(|shut| BINDING.map(|budget| (shut, budget)));
        let places = places.filter(|place| *place != (false, 30));
        let one = |(shut, budget)| {
            let of = [PC, REDUCE, BUD].map(|preset| self.of(preset, shut, budget));
            test(format!("{budget} % {}", if shut { "shutdown" } else { "idle" }), margin(of))
        };
        places.map(one).collect()
    }

    fn at(&self, budgets: &[u32], margin: impl Fn(u32) -> f64) -> Vec<Test> {
        budgets.iter().map(|budget| test(format!("{budget} %"), margin(*budget))).collect()
    }

    fn utilisation(&self) -> Vec<Claim> {
        let util = |preset, shut, budget| self.of(preset, shut, budget).utilisation;
        let outperforms = self.everywhere(|[pc, reduce, bud]| bud.utilisation - pc.utilisation.max(reduce.utilisation));
        let crossed = self.at(&BINDING, |b| util(REDUCE, true, b) - util(BUD, false, b));
        let low = [util(PC, false, 30), util(REDUCE, false, 30), util(BUD, false, 30), util(PC, true, 30)];
        let spread = low.into_iter().fold(f64::MIN, f64::max) - low.into_iter().fold(f64::MAX, f64::min);
        vec![
            claim("V-E", "energyBud outperforms the other algorithms in utilisation", CLOSE, outperforms),
            claim("V-E", "reducePC with shutdown beats energyBud without it in utilisation", CLOSE, crossed),
            equal(
                "V-E",
                "below 49 % all without shutdown, and powercap with it, have the same utilisation",
                CLOSE,
                vec![test("30 %", -spread)],
            ),
        ]
    }

    fn slowdown(&self) -> Vec<Claim> {
        let best = self.everywhere(|[pc, reduce, bud]| part(bud.avebsld, pc.avebsld.min(reduce.avebsld)));
        let not_worst = self.everywhere(|[pc, reduce, bud]| part(pc.avebsld, reduce.avebsld.max(bud.avebsld)));
        let same = self.at(&BINDING, |b| -part(self.of(PC, false, b).avebsld, self.of(PC, true, b).avebsld).abs());
        vec![
            claim("V-E", "energyBud has the lowest AVEbsld, with and without shutdown", CLOSE, best),
            claim("V-E", "powercap is not the worst in AVEbsld", CLOSE, not_worst),
            equal("V-E", "powercap has the same AVEbsld with and without shutdown", 0.02, same),
        ]
    }

    fn energy(&self) -> Vec<Claim> {
        let order = self.everywhere(|[pc, reduce, bud]| (bud.energy - reduce.energy).min(reduce.energy - pc.energy));
        let places = [PC, REDUCE, BUD].into_iter().flat_map(|preset| BUDGETS.map(|budget| (preset, budget)));
        let less = places.map(|(preset, budget)| {
            let (idle, shut) = (self.of(preset, false, budget).energy, self.of(preset, true, budget).energy);
            test(format!("{} at {budget} %", Way { preset, shutdown: true }.name()), idle - shut)
        });
        // The available energy at 30 %, as a share of a full week's energy.
        let left = 4.0 / 7.0 + 3.0 / 7.0 * 0.3;
        let more = [PC, REDUCE, BUD]
            .map(|preset| test(Way { preset, shutdown: false }.name(), self.of(preset, false, 30).energy - left));
        vec![
            claim("V-E", "without shutdown all consume more than is available at 30 %", CLOSE, more.into()),
            claim("V-E", "with shutdown the cluster consumes less", CLOSE, less.collect()),
            claim("V-E", "energyBud consumes more than reducePC, and reducePC more than powercap", CLOSE, order),
        ]
    }

    /// Section V-G: returns the utilisation at which performance falls in proportion to the budget (the theoretical
    /// line).
    fn line(&self, budget: u32) -> f64 {
        let share = if budget == 49 { 100.0 / 203.12 } else { f64::from(budget) / 100.0 };
        self.easy().utilisation * (3.0 / 7.0 * share + 4.0 / 7.0)
    }

    fn efficiency(&self) -> Vec<Claim> {
        let above = |preset, shut, budget| self.of(preset, shut, budget).utilisation - self.line(budget);
        let at_90 = WAYS.map(|way| test(way.name(), above(way.preset, way.shutdown, 90)));
        let only = self.at(&[70, 60, 50, 49, 30], |b| -above(BUD, false, b));
        let all = |_: Way| true;
        let utilisation = |mine: Means, other: Means| mine.utilisation - other.utilisation;
        let slowdown = |mine: Means, other: Means| part(mine.avebsld, other.avebsld);
        let on_front = |preset, shutdown| self.on_front(&[Way { preset, shutdown }], all, utilisation);
        let idle = [PC, BUD].map(|preset| Way { preset, shutdown: false });
        let best = [Way { preset: BUD, shutdown: true }];
        vec![
            claim("V-G", "at 90 % all algorithms are above the theoretical line", CLOSE, at_90.into()),
            claim("V-G", "energyBud with shutdown is above it at 60 % and more", CLOSE, {
                self.at(&[90, 80, 70, 60], |b| above(BUD, true, b))
            }),
            claim("V-G", "energyBud without shutdown is above it at 80 % and more", CLOSE, {
                self.at(&[90, 80], |b| above(BUD, false, b))
            }),
            claim("V-G", "energyBud without shutdown is above it only there", CLOSE, only),
            claim(
                "V-G",
                "energyBud with shutdown: no other has more utilisation for less energy",
                CLOSE,
                on_front(BUD, true),
            ),
            claim(
                "V-G",
                "powercap with shutdown: no other has more utilisation for less energy",
                CLOSE,
                on_front(PC, true),
            ),
            claim("V-G", "energyBud with shutdown: no other has less AVEbsld for less energy", CLOSE, {
                self.on_front(&best, all, slowdown)
            }),
            claim("V-G", "powercap and energyBud: none without shutdown has less AVEbsld for less energy", CLOSE, {
                self.on_front(&idle, |way| !way.shutdown, slowdown)
            }),
        ]
    }

    /// Tests if points of Figure 5 are on the Pareto front: each is better than every other one in energy or in the
    /// measure.
    fn on_front(&self, ways: &[Way], among: fn(Way) -> bool, ahead: fn(Means, Means) -> f64) -> Vec<Test> {
        let of = |(way, budget): (Way, u32)| self.of(way.preset, way.shutdown, budget);
        let others = || WAYS.into_iter().filter(|way| among(*way)).flat_map(|way| FIGURE_5.map(|budget| (way, budget)));
        let one = |place: (Way, u32)| {
            let mine = of(place);
            let margin = |other: Means| ahead(mine, other).max(other.energy - mine.energy);
            let least =
                others().filter(|other| *other != place).map(|other| margin(of(other))).fold(f64::MAX, f64::min);
            test(format!("{} at {} %", place.0.name(), place.1), least)
        };
        ways.iter().flat_map(|way| FIGURE_5.map(|budget| (*way, budget))).map(one).collect()
    }

    fn best(&self) -> Vec<Claim> {
        let utilisation = self.everywhere(|[_, reduce, bud]| bud.utilisation - reduce.utilisation);
        let slowdown = self.everywhere(|[_, reduce, bud]| part(bud.avebsld, reduce.avebsld));
        vec![
            claim("V-H", "energyBud has the better utilisation of the two", CLOSE, utilisation),
            claim("V-H", "energyBud has the better AVEbsld of the two", CLOSE, slowdown),
        ]
    }
}

/// Section V-F: checks the percentages of Table II. The tolerance is one percentage point.
fn shutdown(table: &TableII) -> Vec<Claim> {
    let [slowdown, utilisation, started, energy] = *table;
    let [pc, reduce, bud] = [0, 1, 2];
    let one = |place: &str, margin: f64| vec![test(place, margin)];
    vec![
        claim("V-F", "powercap consumes less with shutdown, and saves more than the others", 1.0, {
            one("energy", energy[reduce].min(energy[bud]).min(0.0) - energy[pc])
        }),
        equal("V-F", "reducePC and energyBud start as many more jobs with shutdown", 1.0, {
            one("jobs started", -(started[reduce] - started[bud]).abs())
        }),
        claim("V-F", "energyBud gains more utilisation from shutdown than reducePC", 1.0, {
            one("utilisation", utilisation[bud] - utilisation[reduce])
        }),
        claim("V-F", "energyBud gains more AVEbsld from shutdown than reducePC", 1.0, {
            one("AVEbsld", slowdown[reduce] - slowdown[bud])
        }),
        claim("Table II", "the AVEbsld of energyBud falls with shutdown", 1.0, one("-8.61 %", -slowdown[bud])),
        claim("Table II", "the AVEbsld of reducePC rises with shutdown", 1.0, one("+0.88 %", slowdown[reduce])),
        claim("Table II", "the AVEbsld of powercap rises with shutdown", 1.0, one("+0.16 %", slowdown[pc])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses four tests: one holds, one is equal, one fails by 0.004 and one by 0.02.
    #[test]
    fn strict_and_tolerant() {
        let tests = || [0.1, 0.0, -0.004, -0.02].map(|margin| test(margin.to_string(), margin)).to_vec();
        let places = |claim: &Claim, tolerance| -> Vec<String> {
            claim.failing(tolerance).iter().map(|test| test.place.clone()).collect()
        };
        let above = claim("", "", CLOSE, tests());
        assert_eq!(places(&above, 0.0), ["0", "-0.004", "-0.02"]);
        assert_eq!(places(&above, CLOSE), ["-0.02"]);
        assert_eq!(places(&equal("", "", CLOSE, tests()), 0.0), ["-0.004", "-0.02"]);
        let close = claim("", "", CLOSE, tests()[..3].to_vec());
        assert_eq!((close.holds_strictly(), close.holds_tolerantly()), (false, true));
    }

    #[test]
    fn parts_are_of_the_smaller_one() {
        assert_eq!([part(100.0, 150.0), part(150.0, 100.0), part(2.0, 2.0)], [0.5, -0.5, 0.0]);
    }
}
