//! Prices of feeds and prices of operators.

use limo_model::{Curve, Price};
use limo_proto::{Change, FeedKind, FeedReport};
use limo_sched::Event;

use super::*;
use crate::controller::News;

fn price(milli: i64) -> Option<Curve<Price>> {
    Some(Curve::constant(Price::from_milli_per_mwh(milli)))
}

fn tell(bench: &mut Bench, prices: Option<Curve<Price>>) {
    bench.input(Input::Feeds(Box::new(News { prices, ..News::default() })));
}

fn set(bench: &mut Bench, change: Change) -> MasterToClient {
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(change)));
    bench.heard(root).into_iter().next().expect("an answer")
}

fn is_done(answer: &MasterToClient) -> bool {
    matches!(answer, MasterToClient::Answer(answer) if **answer == Answer::Done)
}

fn status(bench: &mut Bench) -> limo_proto::Status {
    let client = bench.client(7);
    bench.say(client, ClientToMaster::Ask(Box::new(Query::Status(StatusQuery))));
    match bench.heard(client).into_iter().next() {
        Some(MasterToClient::Answer(answer)) => match *answer {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the number of recorded prices.
fn recorded(bench: &Bench) -> usize {
    bench.disk.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Event(Event::PricesSet { .. }))).count()
}

#[test]
fn news_is_recorded_once_and_outlasts_the_process() {
    let mut bench = Bench::new();
    tell(&mut bench, None);
    assert_eq!(recorded(&bench), 0, "nothing was known, and nothing is");
    tell(&mut bench, price(80));
    tell(&mut bench, price(80));
    assert_eq!((bench.controller.tx.core.prices(), recorded(&bench)), (price(80).as_ref(), 1));
    let mut bench = bench.killed();
    assert_eq!(bench.controller.tx.core.prices(), price(80).as_ref());
    tell(&mut bench, price(80));
    assert_eq!(recorded(&bench), 1);
    tell(&mut bench, None);
    assert_eq!(bench.controller.tx.core.prices(), None);
}

#[test]
fn an_operators_prices_hold_until_they_are_given_back() {
    let mut bench = Bench::new();
    tell(&mut bench, price(80));
    assert_eq!(status(&mut bench).prices_by, None);
    assert!(is_done(&set(&mut bench, Change::Prices(price(5)))));
    tell(&mut bench, price(90));
    assert_eq!(bench.controller.tx.core.prices(), price(5).as_ref());
    assert_eq!(status(&mut bench).prices_by.as_deref(), Some("user0"));
    let mut bench = bench.killed();
    tell(&mut bench, price(91));
    assert_eq!(bench.controller.tx.core.prices(), price(5).as_ref(), "over a restart, too");
    assert!(is_done(&set(&mut bench, Change::FollowFeeds)));
    assert_eq!(bench.controller.tx.core.prices(), price(91).as_ref());
    // Having no prices is a setting like any other.
    assert!(is_done(&set(&mut bench, Change::Prices(None))));
    tell(&mut bench, price(92));
    assert_eq!(bench.controller.tx.core.prices(), None);
    let mut bench = bench.killed();
    assert!(is_done(&set(&mut bench, Change::FollowFeeds)), "before the feeds have told anything");
    assert_eq!(bench.controller.tx.core.prices(), None);
    tell(&mut bench, price(93));
    assert_eq!(bench.controller.tx.core.prices(), price(93).as_ref());
}

#[test]
fn without_feeds_their_prices_are_removed() {
    let mut bench = Bench::new();
    tell(&mut bench, price(80));
    let settings = Settings { has_feeds: false, ..settings() };
    let restored = restore(bench.disk.recover(), bench.now).expect("readable");
    let outside = bench.disk.outside(bench.now, bench.ahead);
    bench.controller = Controller::new(restored, settings, outside, true);
    bench.input(Input::Timer);
    assert_eq!(bench.controller.tx.core.prices(), None);
    let refused = set(&mut bench, Change::FollowFeeds);
    assert!(matches!(refused, MasterToClient::Refused { reason, .. } if reason == "no feed of prices is configured"));
}

#[test]
fn the_state_of_feeds_is_shown() {
    let mut bench = Bench::new();
    let report = FeedReport {
        name: "awattar DE".into(),
        of: FeedKind::Price,
        currency: "EUR".into(),
        last_success: Some(bench.now),
        last_error: None,
        known_until: None,
    };
    bench.input(Input::Feeds(Box::new(News { reports: vec![report.clone()], ..News::default() })));
    assert_eq!(status(&mut bench).feeds, [report]);
}
