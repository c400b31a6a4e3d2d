//! Tests each sentence of the rule, then properties after random messages, compared with the test's own account.

use limo_model::Span;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::grid::limit::Failsafe;

fn at(secs: i64) -> Time {
    Time::from_unix_ms(secs * 1_000)
}

fn band(low: i64, high: i64) -> Band {
    Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band")
}

fn source(name: &str, priority: u32) -> Source {
    Source {
        name: name.into(),
        priority,
        obligatory: false,
        may_widen: false,
        heartbeat: None,
        failsafe: None,
        ttl: None,
    }
}

fn limit(low: i64, high: i64, from: i64, until: Option<i64>) -> Limit {
    let (low, high, until) = (Power::from_watts(low), Power::from_watts(high), until.map(at));
    Limit { low, high, from: at(from), until, priority: 0, emergency: false, received_at: at(0) }
}

/// Checks the band at second 10 under an operator's 10 W to 100 W, with one limit for each source.
fn check(sources: &[(Source, Limit)], expected: (i64, i64)) {
    let given = sources.iter().map(|(source, _)| source.clone()).collect();
    let mut arbiter = Arbiter::new(given, 100, Kept::default(), at(0));
    for (index, (_, limit)) in sources.iter().enumerate() {
        arbiter.hear(at(1), index, Word::Limits(vec![*limit]));
    }
    let operator = Curve::constant(band(10, 100));
    assert_eq!(arbiter.band_at(at(10), band(10, 100)), band(expected.0, expected.1), "{sources:?}");
    assert_eq!(arbiter.curve(at(10), &operator).band(at(10)), band(expected.0, expected.1), "{sources:?}");
}

#[test]
fn the_lowest_number_holds_and_among_equals_the_lower_limit() {
    let (a, b) = (source("a", 1), source("b", 2));
    check(&[(a.clone(), limit(0, 80, 0, None)), (b.clone(), limit(0, 50, 0, None))], (10, 80));
    check(&[(source("b", 1), limit(0, 50, 0, None)), (a.clone(), limit(0, 80, 0, None))], (10, 50));
    check(&[(a.clone(), limit(0, 80, 11, None)), (b.clone(), limit(0, 50, 0, None))], (10, 50));
    check(&[(a, limit(0, 80, 0, Some(10))), (b, limit(0, 50, 0, None))], (10, 50));
}

#[test]
fn a_limit_narrows_what_the_operator_allows_unless_it_may_widen() {
    let wide = limit(0, 500, 0, None);
    check(&[(source("a", 1), wide)], (10, 100));
    check(&[(source("a", 1), limit(40, 60, 0, None))], (40, 60));
    check(&[(source("a", 1), limit(0, 5, 0, None))], (5, 5));
    let widening = |priority| Source { may_widen: true, ..source("a", priority) };
    check(&[(widening(1), wide)], (0, 500));
    check(&[(widening(100), wide)], (10, 100));
}

#[test]
fn obligatory_limits_always_apply() {
    let obligatory = Source { obligatory: true, ..source("b", 90) };
    let widening = Source { may_widen: true, ..source("a", 1) };
    check(&[(widening, limit(0, 500, 0, None)), (obligatory.clone(), limit(0, 70, 0, None))], (0, 70));
    check(&[(source("a", 1), limit(0, 50, 0, None)), (obligatory, limit(0, 70, 0, None))], (10, 50));
}

#[test]
fn an_emergency_beats_all_and_knows_no_lower_limit() {
    let emergency = Limit { emergency: true, ..limit(0, 30, 0, None) };
    check(&[(source("a", 1), limit(40, 80, 0, None)), (source("b", 9), emergency)], (0, 30));
}

#[test]
fn a_limit_of_a_later_hour_is_a_step_then() {
    let mut arbiter = Arbiter::new(vec![source("a", 1)], 100, Kept::default(), at(0));
    let later = limit(0, 60, 3_600, Some(7_200));
    arbiter.hear(at(0), 0, Word::Limits(vec![later, limit(0, 80, 1_000, Some(5_000))]));
    let operator =
        Curve::new(vec![(at(0), band(10, 100)), (at(6_000), band(0, 50))], Some(at(9_000))).expect("a curve");
    let curve = arbiter.curve(at(20), &operator);
    let steps: Vec<_> = curve.steps().iter().map(|(at, band)| (at.unix_ms() / 1_000, *band)).collect();
    assert_eq!(steps, [(20, band(10, 100)), (1_000, band(10, 80)), (3_600, band(10, 60)), (6_000, band(0, 50))]);
    assert_eq!(curve.until(), Some(at(9_000)));
    // Without a change, the curve is the same one instant later.
    assert!(same_from(at(30), &curve, &arbiter.curve(at(30), &operator)));
    assert!(!same_from(at(30), &curve, &operator));
}

#[test]
fn a_source_still_limits_when_the_operators_limits_have_ended() {
    let mut arbiter = Arbiter::new(vec![source("a", 1)], 100, Kept::default(), at(0));
    let operator = Curve::new(vec![(at(0), band(10, 100))], Some(at(1_000))).expect("a curve");
    arbiter.hear(at(0), 0, Word::Limits(vec![limit(0, 60, 0, Some(3_000))]));
    let curve = arbiter.curve(at(20), &operator);
    let bands = [20, 999, 1_000, 2_999, 3_000].map(|secs| curve.band(at(secs)));
    assert_eq!(bands, [band(10, 60), band(10, 60), band(0, 60), band(0, 60), Band::UNLIMITED]);
    // This also holds for a curve that has already ended.
    assert_eq!(arbiter.curve(at(2_000), &operator).band(at(2_000)), band(0, 60));
}

#[test]
fn kept_limits_are_restored_by_name() {
    let mut arbiter = Arbiter::new(vec![source("a", 1), source("b", 2)], 100, Kept::default(), at(0));
    arbiter.hear(at(0), 1, Word::Limits(vec![limit(0, 60, 0, None)]));
    let kept = arbiter.kept();
    let text = serde_json::to_string(&kept).expect("written");
    assert_eq!(serde_json::from_str::<Kept>(&text).expect("read"), kept);
    let again = Arbiter::new(vec![source("c", 1), source("b", 2)], 100, kept, at(50));
    assert_eq!(again.band_at(at(50), band(0, 100)), band(0, 60));
    assert_eq!(again.kept().sources.iter().map(|kept| kept.limits.len()).collect::<Vec<_>>(), [0, 1]);
}

/// Step of a random story.
#[derive(Debug, Clone)]
enum Happening {
    Limits(Vec<Limit>),
    Heartbeat,
    Fault,
}

fn limits() -> impl Strategy<Value = Limit> {
    (0_i64..50, 0_i64..100, 0_i64..600, prop::option::of(1_i64..400), 0_u32..3, prop::bool::weighted(0.1)).prop_map(
        |(low, width, from, length, priority, emergency)| Limit {
            priority,
            emergency,
            ..limit(low, low + width, from, length.map(|length| from + length))
        },
    )
}

fn happenings() -> impl Strategy<Value = Vec<(i64, usize, Happening)>> {
    let what = prop_oneof![
        3 => vec(limits(), 0..4).prop_map(Happening::Limits),
        2 => Just(Happening::Heartbeat),
        1 => Just(Happening::Fault),
    ];
    vec((0_i64..90, 0_usize..4, what), 1..20)
}

fn sources() -> impl Strategy<Value = Vec<Source>> {
    let one = (0_u32..3, any::<bool>(), prop::option::of(10_i64..100), prop::option::of((5_i64..120, 0_i64..200)));
    vec(one, 1..4).prop_map(|many| many.into_iter().enumerate().map(any_source).collect())
}

/// Priority, obligatory or not, heartbeat, failsafe limit and its duration.
type Traits = (u32, bool, Option<i64>, Option<(i64, i64)>);

fn any_source((index, (priority, obligatory, heartbeat, failsafe)): (usize, Traits)) -> Source {
    let failsafe = failsafe.filter(|_| heartbeat.is_some());
    Source {
        obligatory,
        heartbeat: heartbeat.map(Span::from_secs),
        failsafe: failsafe.map(|(high, hold)| Failsafe { high: Power::from_watts(high), hold: Span::from_secs(hold) }),
        ..source(&format!("s{index}"), priority)
    }
}

/// The test's record of a source.
#[derive(Clone)]
struct Account {
    said: Vec<Limit>,
    heard: bool,
    last: Time,
    /// True if the heartbeat was never lost since `said`.
    unbroken: bool,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn after_any_sequence_of_words(
        sources in sources(), story in happenings(), turn in 1_i64..700, future in vec(0_i64..1_500, 8)
    ) {
        let operator = Curve::new(vec![(at(0), band(20, 90)), (at(turn), band(0, 70))], Some(at(turn + 400)));
        let operator = operator.expect("a curve");
        let mut arbiter = Arbiter::new(sources.clone(), 100, Kept::default(), at(0));
        let begin = Account { said: Vec::new(), heard: false, last: at(0), unbroken: true };
        let mut accounts = vec![begin; sources.len()];
        let mut now = at(0);
        for (pause, index, what) in story {
            now = now + Span::from_secs(pause);
            let index = index % sources.len();
            let account = &mut accounts[index];
            let lost = sources[index].heartbeat.is_some_and(|heartbeat| now - account.last >= heartbeat);
            let word = match what {
                Happening::Limits(limits) => {
                    *account = Account { said: limits.clone(), heard: true, last: now, unbroken: true };
                    Word::Limits(limits)
                }
                Happening::Heartbeat => {
                    account.unbroken &= !lost;
                    (account.heard, account.last) = (true, now);
                    Word::Heartbeat
                }
                Happening::Fault => Word::Fault("silence".into()),
            };
            arbiter.hear(now, index, word);
            arbiter.advance(now);
            prop_assert!(arbiter.deadline().is_none_or(|at| at > now), "something is due and was not handled");
            let curve = arbiter.curve(now, &operator);
            prop_assert!(curve.steps().windows(2).all(|pair| pair[0].1 != pair[1].1), "{curve:?}");
            let instants = future.iter().map(|secs| now + Span::from_secs(*secs)).chain([now]);
            let near = |at: Time| [at - Span::from_ms(1), at];
            for at in instants.chain(curve.steps().iter().flat_map(|(at, _)| near(*at))).filter(|at| *at >= now) {
                let band = curve.band(at);
                prop_assert_eq!(band, arbiter.band_at(at, operator.band(at)), "at {:?}", at);
                prop_assert!(band.high() <= operator.band(at).high());
                strictest(&sources, &accounts, now, at, band)?;
            }
            failsafe_in_time(&sources, &accounts, now, curve.band(now))?;
        }
    }
}

/// Checks that the band never exceeds a valid obligatory limit. A limit is valid if it has an end, or if its source
/// was never lost since.
fn strictest(sources: &[Source], accounts: &[Account], now: Time, at: Time, band: Band) -> Result<(), TestCaseError> {
    for (source, account) in sources.iter().zip(accounts) {
        let lost = source.heartbeat.is_some_and(|heartbeat| now - account.last >= heartbeat);
        let trusted = source.failsafe.is_none() || (account.unbroken && !lost);
        for limit in account.said.iter().filter(|limit| limit.covers(at) && (limit.until.is_some() || trusted)) {
            prop_assert!(!(source.obligatory || limit.emergency) || band.high() <= limit.high, "{limit:?} {band:?}");
        }
    }
    Ok(())
}

/// Checks that a lost obligatory source holds the cluster to its failsafe limit, for the required time.
fn failsafe_in_time(sources: &[Source], accounts: &[Account], now: Time, band: Band) -> Result<(), TestCaseError> {
    for (source, account) in sources.iter().zip(accounts).filter(|(source, _)| source.obligatory) {
        let (Some(heartbeat), Some(failsafe)) = (source.heartbeat, source.failsafe) else { continue };
        let silent = now - account.last;
        // A source without a first message is in failsafe from the start.
        let begins = if account.heard { heartbeat } else { Span::ZERO };
        let ends = failsafe.hold == Span::ZERO || silent < begins + failsafe.hold;
        if silent >= begins && ends {
            prop_assert!(band.high() <= failsafe.high, "silent for {silent}: {band:?}, {source:?}");
        }
    }
    Ok(())
}
