//! Estimates between and beyond measured values, calculated by hand.

use limo_model::{Cores, Energy, Predicted, UnitKind};
use proptest::collection::btree_map;
use proptest::prelude::*;
use std::num::NonZeroU32;

use super::*;

type TableKey<'a> = (&'a str, &'a str, Option<u32>, Option<i64>);

fn unit() -> UnitSpec {
    UnitSpec {
        name: "cpu".into(),
        hardware: "xeon".into(),
        kind: UnitKind::Cpu,
        cores: 8,
        nameplate: Power::from_watts(80),
        caps: Some((Power::from_watts(8), Power::from_watts(80))),
    }
}

/// Makes profiles from application, size, cores and cap in W, with seconds and watts.
fn profiles(source: EstimateSource, given: &[(TableKey<'_>, i64, i64)]) -> BTreeMap<ProfileKey, Profile> {
    let one = |((application, size, cores, cap), secs, watts): &(TableKey<'_>, i64, i64)| {
        let (application, size, hardware) = ((*application).to_owned(), (*size).to_owned(), "xeon".to_owned());
        let key =
            ProfileKey { application, size, hardware, cores: *cores, nodes: None, cap: cap.map(Power::from_watts) };
        let (duration, power) = (Span::from_secs(*secs), Power::from_watts(*watts));
        let energy = Energy::from_joules(secs * watts);
        (key, Profile { duration, power, energy, spread_permille: 0, runs: 10, source })
    };
    given.iter().map(one).collect()
}

struct ProfileTable(BTreeMap<ProfileKey, Profile>);

impl ProfileTable {
    fn imported(given: &[(TableKey<'_>, i64, i64)]) -> Self {
        Self(profiles(EstimateSource::Imported, given))
    }

    /// Returns the duration in ms and the draw in mW.
    fn estimate(&self, (application, size, cores): (&str, &str, u32), cap: Option<i64>) -> (i64, i64) {
        let cores = Cores::Count(NonZeroU32::new(cores).expect("at least one"));
        let request = Request { cores, size: size.into(), ..Request::one_core(application) };
        let known = Known {
            profiles: &self.0,
            default_duration: Span::from_secs(3_600),
            cap_factor_permille: 750,
            confidence: Confidence::NINETY,
            slowdowns: &BTreeMap::new(),
        };
        let estimate = under_cap(known, &request, &unit(), (cap.map(Power::from_watts), 1_000));
        (estimate.duration.ms(), estimate.power.mw())
    }

    fn of(&self, (application, size, cores): (&str, &str, u32), cap: Option<i64>, expected: (i64, i64), origin: &str) {
        let cores = Cores::Count(NonZeroU32::new(cores).expect("at least one"));
        let request = Request { cores, size: size.into(), ..Request::one_core(application) };
        let known = Known {
            profiles: &self.0,
            default_duration: Span::from_secs(3_600),
            cap_factor_permille: 750,
            confidence: Confidence::NINETY,
            slowdowns: &BTreeMap::new(),
        };
        let (unit, cap) = (unit(), cap.map(Power::from_watts));
        let estimate = under_cap(known, &request, &unit, (cap, 1_000));
        let got = (estimate.duration.ms(), estimate.power.mw());
        assert_eq!(got, expected, "{application} {size} {cores} {cap:?}");
        let looked = Looked::up(known, &request, &unit);
        assert_eq!(looked.origin(known, &request, &unit, cap), origin);
        assert_eq!(looked.under_cap(known, &request, &unit, cap), estimate);
    }
}

#[test]
fn cores_are_scaled_so_that_no_draw_is_expected_too_low() {
    let case = ProfileTable::imported(&[(("a", "", Some(2), None), 100, 16), (("a", "", Some(4), None), 60, 28)]);
    case.of(("a", "", 2), None, (100_000, 16_000), "imported of a");
    // Halfway in watts; ln 3 - ln 2 is 0.585 of ln 4 - ln 2, and 100 (60/100)^0.585 = 74.17.
    case.of(("a", "", 3), None, (74_170, 22_000), "imported of a, scaled from 2 cores to 3 cores");
    // 28 W on 4 cores are 56 W on 8, below the nameplate's 80 W.
    case.of(("a", "", 8), None, (60_000, 56_000), "imported of a, scaled from 4 cores to 8 cores");
    // The nameplate's share of one core is 10 W, less than the 16 W of two. On one core the run takes at most twice
    // as long.
    case.of(("a", "", 1), None, (200_000, 10_000), "imported of a, scaled from 2 cores to 1 core");
    let hot = ProfileTable::imported(&[(("a", "", Some(1), None), 100, 30)]);
    // In proportion the draw would be 120 W, but four cores are rated at 40 W at most.
    hot.of(("a", "", 4), None, (100_000, 40_000), "imported of a, scaled from 1 core to 4 cores");
    let any = ProfileTable::imported(&[(("a", "", None, None), 100, 30)]);
    any.of(("a", "", 4), None, (100_000, 30_000), "imported of a");
}

#[test]
fn caps_are_interpolated_between_those_that_were_measured() {
    let case = ProfileTable::imported(&[
        (("a", "", Some(8), None), 100, 64),
        (("a", "", Some(8), Some(16)), 200, 16),
        (("a", "", Some(4), None), 100, 32),
    ]);
    case.of(("a", "", 8), Some(16), (200_000, 16_000), "imported of a");
    // The cap is halfway between 16 W and 64 W by logarithms: 100 sqrt(2) s, 32 W.
    case.of(("a", "", 8), Some(32), (141_421, 32_000), "imported of a, between measured caps");
    case.of(("a", "", 8), Some(70), (100_000, 64_000), "imported of a");
    // The cap slows 4 cores down as much as 8 cores, which draw twice as much.
    case.of(("a", "", 4), Some(32), (141_421, 16_000), "imported of a, between measured caps");
    // The cap is below the measured ones. A quarter of the power doubles the duration, which is F = 0.5: the run takes
    // 0.5 x 64 / 8 times as long.
    let learned = "imported of a, cap by formula with F=0.5 learned from profiles";
    case.of(("a", "", 8), Some(8), (400_000, 8_000), learned);
}

#[test]
fn a_learned_law_precedes_that_of_the_hardware_and_follows_that_of_the_application() {
    // At 16 W of 64 W, 200 s instead of 100 s make F = 0.5.
    let table = ProfileTable::imported(&[(("a", "", Some(8), None), 100, 64), (("a", "", Some(8), Some(16)), 200, 16)]);
    let check = |application: &str, law: &str, secs: i64| {
        let known = Known {
            profiles: &table.0,
            default_duration: Span::from_secs(3_600),
            cap_factor_permille: 750,
            confidence: Confidence::NINETY,
            slowdowns: &BTreeMap::from([(SlowdownKey::of(application, "xeon"), law.parse().expect("a law"))]),
        };
        let request =
            Request { cores: Cores::Count(NonZeroU32::new(8).expect("at least one")), ..Request::one_core("a") };
        // An eighth of the power takes 8 F times as long.
        let estimate = under_cap(known, &request, &unit(), (Some(Power::from_watts(8)), 1_000));
        assert_eq!(estimate.duration, Span::from_secs(secs), "{application} {law}");
    };
    check("", "F=1", 400);
    check("a", "F=1", 800);
}

/// Runs at 64 W take 100 s. All laws are asked at a cap of 16 W, a quarter.
#[test]
fn laws_of_an_application_precede_those_of_its_hardware() {
    let case = ProfileTable::imported(&[(("a", "", Some(8), None), 100, 64)]);
    let check = |laws: &[(&str, &str, &str)], secs: i64, words: &str| {
        let law = |(application, hardware, law): &(&str, &str, &str)| {
            (SlowdownKey::of(application, hardware), law.parse().expect("a law"))
        };
        let slowdowns = laws.iter().map(law).collect();
        let known = Known {
            profiles: &case.0,
            default_duration: Span::from_secs(3_600),
            slowdowns: &slowdowns,
            cap_factor_permille: 750,
            confidence: Confidence::NINETY,
        };
        let cores = Cores::Count(NonZeroU32::new(8).expect("at least one"));
        let request = Request { cores, ..Request::one_core("a") };
        let (looked, cap) = (Looked::up(known, &request, &unit()), Some(Power::from_watts(16)));
        let estimate = looked.under_cap(known, &request, &unit(), cap);
        let expected = (Span::from_secs(secs), Power::from_watts(16), Energy::from_joules(16 * secs));
        assert_eq!((estimate.duration, estimate.power, estimate.energy), expected, "{laws:?}");
        assert_eq!(looked.origin(known, &request, &unit(), cap), format!("imported of a, cap by formula{words}"));
    };
    let (hardware, application) = (("", "xeon", "F=0.5"), ("a", "", "CPI=2"));
    check(&[], 300, "");
    check(&[("b", "", "F=0"), ("", "other", "F=0")], 300, "");
    check(&[hardware], 200, " with F=0.5 of xeon");
    // 1 - 1/2 + 4/2.
    check(&[hardware, application], 250, " with CPI=2 of a");
    check(&[hardware, application, ("a", "xeon", "F=1")], 400, " with F=1 of a");
}

proptest! {
    /// Runs at caps that are at least as slow and draw at most as much as the run without a cap, which draws 60 W.
    #[test]
    fn an_estimate_at_an_unmeasured_cap_lies_between_its_neighbours(
        free in 1..500_i64,
        runs in btree_map(8..60_i64, (0..500_i64, 1..=60_i64), 1..6),
        cap in 8..60_i64,
    ) {
        let at = |cap: i64, (slower, watts): (i64, i64)| (("a", "", Some(8), Some(cap)), free + slower, watts);
        let mut given: Vec<_> = runs.iter().map(|(cap, run)| at(*cap, *run)).collect();
        given.push((("a", "", Some(8), None), free, 60));
        let table = ProfileTable::imported(&given);
        let below = runs.range(..=cap).next_back().map(|(_, (slower, watts))| (free + slower, *watts));
        let above = runs.range(cap..).next().map_or((free, 60), |(_, (slower, watts))| (free + slower, *watts));
        // Below the lowest measured cap the formula applies.
        if let Some(below) = below {
            let (duration, power) = table.estimate(("a", "", 8), Some(cap));
            let between = |value: i64, one: i64, other: i64| {
                (one.min(other) * 1_000 - 1..=one.max(other) * 1_000 + 1).contains(&value)
            };
            prop_assert!(between(duration, below.0, above.0), "{duration} ms, not between {} s and {} s", below.0, above.0);
            prop_assert!(between(power, below.1, above.1), "{power} mW, not between {} W and {} W", below.1, above.1);
        }
    }
}

#[test]
fn caps_of_a_profile_without_a_size_class_serve_jobs_with_one() {
    let case = ProfileTable::imported(&[
        (("a", "C", None, None), 1_000, 40),
        (("a", "", None, None), 100, 40),
        (("a", "", None, Some(20)), 130, 20),
    ]);
    case.of(("a", "C", 8), Some(20), (1_300_000, 20_000), "imported of a, between measured caps");
    let request = Request { size: "C".into(), ..Request::one_core("a") };
    let known = Known {
        profiles: &case.0,
        default_duration: Span::from_secs(1),
        cap_factor_permille: 750,
        confidence: Confidence::NINETY,
        slowdowns: &BTreeMap::new(),
    };
    assert_eq!(Looked::up(known, &request, &unit()).caps(&unit()), [Power::from_watts(20)]);
}

#[test]
fn numbers_as_sizes_are_interpolated_and_beyond_them_only_the_draw_is_known() {
    let case = ProfileTable::imported(&[(("a", "10", None, None), 10, 20), (("a", "1000", None, None), 1_000, 40)]);
    // 100 is halfway from 10 to 1000 by logarithms: sqrt(10 x 1000) s, sqrt(20 x 40) W.
    case.of(("a", "100", 8), None, (100_000, 28_284), "imported of a, between measured sizes");
    case.of(("a", "5000", 8), None, (3_600_000, 40_000), "imported of a, of other sizes: power only");
    case.of(("a", "big", 8), None, (3_600_000, 40_000), "imported of a, of other sizes: power only");
    case.of(("b", "100", 8), None, (3_600_000, 80_000), "nameplate of xeon");
}

#[test]
fn short_sleeps_do_not_predict_a_long_one() {
    let case = ProfileTable(profiles(EstimateSource::Learned, &[(("ada+sleep+N", "1", Some(1), None), 1, 2)]));
    case.of(
        ("ada+sleep+N", "600", 1),
        None,
        (3_600_000, 2_000),
        "learned from 10 runs of ada+sleep+N, of other sizes: power only",
    );
    // With 10 runs the expected duration is a tenth above the median.
    case.of(("ada+sleep+N", "1", 1), None, (1_100, 2_000), "learned from 10 runs of ada+sleep+N");
    case.of(("eve+sleep+N", "1", 1), None, (3_600_000, 10_000), "nameplate of xeon");
    case.of(("_", "", 1), None, (3_600_000, 10_000), "nameplate of xeon");
    let imported = ProfileTable::imported(&[(("sleep", "", None, None), 7, 3)]);
    imported.of(("eve+sleep+N", "1", 1), None, (7_000, 3_000), "imported of sleep");
}

/// A prediction of 20 W for 4 cores, at most 26 W in 90 % of all cases.
fn predicted() -> Predicted {
    Predicted {
        hardware: "xeon".into(),
        cores: 4,
        model: 3,
        mean: Power::from_watts(20),
        deviation: Power::from_watts(5),
        high: Power::from_watts(26),
        duration: Span::from_secs(60),
    }
}

/// Returns the estimate of four cores with this prediction, and its origin.
fn with_prediction(table: &ProfileTable, of: Predicted, (cores, permille): (u32, u32)) -> (Estimate, String) {
    let cores = Cores::Count(NonZeroU32::new(cores).expect("at least one"));
    let request = Request { cores, predicted: vec![of], ..Request::one_core("a") };
    let known = Known {
        profiles: &table.0,
        default_duration: Span::from_secs(3_600),
        cap_factor_permille: 750,
        confidence: Confidence::new(permille).expect("in the range"),
        slowdowns: &BTreeMap::new(),
    };
    let looked = Looked::up(known, &request, &unit());
    let estimate = super::estimate(known, &request, &unit());
    assert_eq!(looked.under_cap(known, &request, &unit(), None), estimate);
    (estimate, looked.origin(known, &request, &unit(), None))
}

#[test]
fn predictions_come_after_profiles_and_before_the_nameplate() {
    use EstimateSource::{Imported, Nameplate};
    let none = ProfileTable::imported(&[]);
    let (found, origin) = with_prediction(&none, predicted(), (4, 900));
    // 20 W for an hour.
    let (power, energy) = (Power::from_watts(26), Energy::from_joules(72_000));
    let (source, duration) = (EstimateSource::Predicted, Span::from_secs(3_600));
    assert_eq!(found, Estimate { duration, power, energy, source, runs: 0 });
    let words = "predicted by model 3: 20.0 W, deviation 5.0 W, at most 26.0 W with confidence 90 %; 1min";
    assert_eq!(origin, words);
    let profile = ProfileTable::imported(&[(("a", "", None, None), 10, 30)]);
    let (found, origin) = with_prediction(&profile, predicted(), (4, 900));
    assert_eq!((found.source, found.power, origin.as_str()), (Imported, Power::from_watts(30), "imported of a"));
    // 8 of 8 cores have no prediction.
    let (found, origin) = with_prediction(&none, predicted(), (8, 900));
    assert_eq!((found.source, found.power, origin.as_str()), (Nameplate, Power::from_watts(80), "nameplate of xeon"));
    let other = Predicted { hardware: "epyc".into(), ..predicted() };
    assert_eq!(with_prediction(&none, other, (4, 900)).0.source, Nameplate);
}

#[test]
fn the_confidence_widens_a_prediction_up_to_the_nameplate() {
    let none = ProfileTable::imported(&[]);
    let power = |of: Predicted, permille| with_prediction(&none, of, (4, permille)).0.power.mw();
    // The quantiles of the normal distribution are 0, 1.281552 and 2.326348: 6 W * 2.326348 / 1.281552 = 10.8916 W.
    assert_eq!([500, 990].map(|permille| power(predicted(), permille)), [20_000, 30_892]);
    // A measured quantile may be below the mean.
    assert_eq!(power(Predicted { high: Power::from_watts(19), ..predicted() }, 990), 20_000);
    let (mean, high) = (Power::from_watts(90), Power::from_watts(100));
    let (found, _) = with_prediction(&none, Predicted { mean, high, ..predicted() }, (4, 900));
    assert_eq!((found.power, found.energy), (Power::from_watts(80), Energy::from_joules(288_000)));
}
