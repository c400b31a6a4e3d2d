//! Tests of the table of draws: borders, gaps, roundings.

use proptest::prelude::*;

use limo_model::NodeId;

use super::*;

const KEPT: Kept = Kept { resolution: Span::from_secs(60), keep: Span::from_secs(86_400) };
const GAP: Span = Span::from_secs(10);

fn at(ms: i64) -> Time {
    Time::from_unix_ms(ms)
}

fn watts(watts: i64) -> Sample {
    Sample::once(Power::from_watts(watts))
}

fn ledger() -> Ledger {
    Ledger::new(at(0), KEPT, GAP)
}

fn rows(ledger: &mut Ledger) -> Vec<ReadingRow> {
    ledger.end_all();
    ledger.take(at(0)).readings
}

#[test]
fn a_sample_counts_for_the_time_before_it_also_over_a_border() {
    let mut ledger = ledger();
    ledger.sample((NodeId(1), "n1"), at(55_000), &watts(10));
    // The sample has 5 s of 20 W before the border and 3 s after it.
    ledger.sample(
        (NodeId(1), "n1"),
        at(63_000),
        &Sample { low: Power::from_watts(15), high: Power::from_watts(28), ..watts(20) },
    );
    ledger.sample((NodeId(1), "n1"), at(65_000), &watts(40));
    let [first, second] = rows(&mut ledger).try_into().expect("two intervals");
    assert_eq!((first.drawn.at, first.since, first.drawn.seen), (at(0), at(55_000), Span::from_secs(5)));
    assert_eq!((first.drawn.energy, first.drawn.mean), (Energy::from_joules(100), Power::from_watts(20)));
    assert_eq!((first.drawn.low, first.drawn.high), (Power::from_watts(10), Power::from_watts(28)));
    assert_eq!((second.drawn.at, second.since), (at(60_000), at(60_000)));
    // The interval has 60 J in 3 s and 80 J in 2 s.
    assert_eq!((second.drawn.energy, second.drawn.mean), (Energy::from_joules(140), Power::from_watts(28)));
    assert_eq!((first.drawn.looks, second.drawn.looks), (1, 2), "a look counts where it ends");
}

#[test]
fn unseen_time_is_not_filled_in() {
    let mut ledger = ledger();
    ledger.sample((NodeId(1), "n1"), at(1_000), &watts(10));
    ledger.sample((NodeId(1), "n1"), at(11_001), &watts(30));
    ledger.sample((NodeId(1), "n1"), at(12_001), &watts(30));
    ledger.interrupt("n1");
    ledger.sample((NodeId(1), "n1"), at(13_001), &watts(90));
    let rows = rows(&mut ledger);
    let drawn = rows[0].drawn;
    assert_eq!((rows.len(), drawn.energy, drawn.seen), (1, Energy::from_joules(30), Span::from_secs(1)));
    assert_eq!((drawn.high, drawn.looks), (Power::from_watts(90), 4));
}

#[test]
fn samples_without_time_have_their_own_mean() {
    let mut ledger = ledger();
    ledger.sample((NodeId(1), "n1"), at(1_000), &watts(41));
    let rows = rows(&mut ledger);
    assert_eq!((rows[0].drawn.mean, rows[0].drawn.energy), (Power::from_watts(41), Energy::ZERO));
}

#[test]
fn the_cluster_has_the_believed_draw_and_the_samples_of_its_nodes() {
    let mut ledger = ledger();
    ledger.pass(at(30_000), None);
    ledger.pass(at(50_000), Some(Power::from_watts(10)));
    ledger.sample((NodeId(1), "n1"), at(50_000), &watts(3));
    assert_eq!(ledger.due(), Some(at(60_000)));
    ledger.pass(at(70_000), Some(Power::from_watts(20)));
    let Rows { readings: rows, forget: from, .. } = ledger.take(at(70_000));
    assert_eq!(from, Some(at(70_000) - KEPT.keep));
    let [row, node] = rows.try_into().expect("the first minute is over");
    assert_eq!((row.node.as_str(), node.node.as_str()), ("", "n1"));
    assert_eq!((row.drawn.energy, row.drawn.looks), (Energy::from_joules(400), 1));
    assert_eq!((row.drawn.low, row.drawn.high), (Power::from_watts(10), Power::from_watts(20)));
    // Rows are written at most once a minute.
    assert_eq!(ledger.due(), Some(at(130_000)));
    // The machine slept.
    ledger.pass(at(70_000 + 600_001), Some(Power::from_watts(20)));
    let energy: i64 = ledger.take(at(0)).readings.iter().map(|row| row.drawn.energy.mj()).sum();
    assert_eq!(energy, 200_000);
}

#[test]
fn a_node_that_is_silent_is_over_in_the_end() {
    let mut ledger = ledger();
    ledger.pass(at(1), Some(Power::ZERO));
    ledger.sample((NodeId(1), "n1"), at(2), &watts(40));
    ledger.pass(at(60_000), Some(Power::ZERO));
    let nodes = |ledger: &mut Ledger| ledger.take(at(0)).readings.iter().filter(|row| !row.node.is_empty()).count();
    assert_eq!(nodes(&mut ledger), 0, "a sample may still come that counts for it");
    ledger.pass(at(70_001), Some(Power::ZERO));
    assert_eq!(nodes(&mut ledger), 1);
}

proptest! {
    /// Checks that for any samples and intervals, the energies add up to the integral, to half a millijoule.
    #[test]
    fn energies_add_up(samples in prop::collection::vec((0_i64..10_000, 0_i64..100_000_000), 1..300), resolution in 1_i64..50) {
        let resolution = Span::from_ms(resolution * 777);
        let mut ledger = Ledger::new(at(0), Kept { resolution, ..KEPT }, GAP);
        let (mut now, mut integral, mut times) = (-20_000, 0_i128, 0);
        ledger.sample((NodeId(1), "n1"), at(now), &watts(1));
        for (gap, mw) in samples {
            now += gap;
            times += gap;
            integral += i128::from(gap) * i128::from(mw);
            ledger.sample((NodeId(1), "n1"), at(now), &Sample::once(Power::from_mw(mw)));
        }
        let rows = rows(&mut ledger);
        let summed: i128 = rows.iter().map(|row| i128::from(row.drawn.energy.mj())).sum();
        prop_assert!((summed * 1_000 - integral).abs() <= 500, "{summed} mJ and {integral} µJ");
        prop_assert_eq!(rows.iter().map(|row| row.drawn.seen.ms()).sum::<i64>(), times);
        for row in &rows {
            prop_assert!(row.drawn.low <= row.drawn.mean && row.drawn.mean <= row.drawn.high);
            prop_assert!(row.drawn.seen <= resolution && row.since >= row.drawn.at);
        }
        prop_assert!(rows.windows(2).all(|pair| pair[0].drawn.at < pair[1].drawn.at));
    }
}
