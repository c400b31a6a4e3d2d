//! Limits of the grid in the controller. Changes come into force and into the journal, and connections are lost. Both
//! survive a crash.

use limo_feeds::grid::{Failsafe, Limit, Word};
use limo_model::Curve;
use limo_proto::{Change, GridState, Status, Undo};
use limo_sched::Event;

use super::*;

fn dso() -> Source {
    Source {
        name: "dso".into(),
        priority: 50,
        obligatory: true,
        may_widen: false,
        heartbeat: Some(Span::from_secs(120)),
        failsafe: Some(Failsafe { high: Power::from_watts(30), hold: Span::from_secs(7_200) }),
        ttl: None,
    }
}

fn bench() -> Bench {
    let disk = Disk { sources: vec![dso()], ..Disk::default() };
    Bench::on(disk, Time::from_unix_ms(START))
}

fn limit(bench: &Bench, watts: i64, begins: i64, lasts: Option<i64>) -> Word {
    let from = bench.now + Span::from_secs(begins);
    Word::Limits(vec![Limit {
        low: Power::ZERO,
        high: Power::from_watts(watts),
        from,
        until: lasts.map(|lasts| from + Span::from_secs(lasts)),
        priority: 0,
        emergency: false,
        received_at: bench.now,
    }])
}

impl Bench {
    fn word(&mut self, word: Word) {
        self.input(Input::Word(0, word));
    }

    fn status(&mut self) -> Status {
        let client = self.client(0);
        match self.ask(client, Query::Status(StatusQuery)) {
            MasterToClient::Answer(answer) => match *answer {
                Answer::Status(status) => *status,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn check(&mut self, state: GridState, high: Option<i64>) {
        let status = self.status();
        assert_eq!(status.grid[0].state, state);
        assert_eq!(status.band.high(), high.map_or(Power::MAX, Power::from_watts));
    }

    fn recorded(&self) -> usize {
        self.disk.entries.iter().filter(|(_, entry)| matches!(entry, Entry::Event(Event::GridLimited { .. }))).count()
    }
}

#[test]
fn a_limit_is_in_force_and_recorded_once() {
    let mut bench = bench();
    bench.check(GridState::Failsafe, Some(30));
    bench.word(limit(&bench, 50, 0, None));
    bench.check(GridState::Ok, Some(50));
    let recorded = bench.recorded();
    bench.pass(Span::from_secs(60));
    bench.word(Word::Heartbeat);
    bench.word(limit(&bench, 50, -60, None));
    bench.word(Word::Fault("status 500".into()));
    assert_eq!(bench.recorded(), recorded, "nothing has changed");
    let report = bench.status().grid.remove(0);
    assert_eq!((report.fault.as_deref(), report.heard), (Some("status 500"), Some(bench.now)));
    assert_eq!(report.limit.map(|limit| limit.band.high()), Some(Power::from_watts(50)));
}

#[test]
fn a_limit_of_a_later_hour_is_known_now() {
    let mut bench = bench();
    bench.word(limit(&bench, 50, 3_600, Some(600)));
    let begins = bench.now + Span::from_secs(3_600);
    let band = Band::new(Power::ZERO, Power::from_watts(50)).expect("a band");
    assert_eq!(bench.status().next_band, Some((begins, band)));
}

#[test]
fn a_silent_source_is_failsafe_until_it_answers() {
    let mut bench = bench();
    bench.word(limit(&bench, 50, 0, None));
    bench.pass(Span::from_ms(119_999));
    bench.check(GridState::Ok, Some(50));
    bench.pass(Span::from_ms(1));
    bench.check(GridState::Failsafe, Some(30));
    bench.pass(Span::from_secs(7_200));
    bench.check(GridState::Stale, None);
    bench.word(Word::Limits(Vec::new()));
    bench.check(GridState::Ok, None);
}

#[test]
fn the_operators_band_stays_known_beside_the_grids() {
    let mut bench = bench();
    bench.word(limit(&bench, 50, 0, None));
    let root = bench.client(0);
    let own = Band::new(Power::from_watts(10), Power::from_watts(90)).expect("a band");
    bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Limits(Curve::constant(own)))));
    let narrowed = Band::new(Power::from_watts(10), Power::from_watts(50)).expect("a band");
    let bands = |bench: &mut Bench| (bench.status().band, bench.status().own_band);
    assert_eq!(bands(&mut bench), (narrowed, Some(own)));
    // The next master lowers the limits and raises them again. After that, its configuration lacks such a source.
    let mut bench = bench.killed();
    assert_eq!(bands(&mut bench), (narrowed, Some(own)));
    let grids = Band::new(Power::ZERO, Power::from_watts(50)).expect("a band");
    for expected in [grids, narrowed] {
        let root = bench.client(0);
        let number = bench.disk.changes.iter().rfind(|row| row.by == "user0").map(|row| row.number);
        let undo = Undo { number, force: false, dry_run: false };
        bench.say(root, ClientToMaster::ChangeConf(Box::new(Change::Undo(undo))));
        assert_eq!(bench.status().band, expected);
    }
    assert_eq!(bench.status().grid[0].state, GridState::Ok, "the heartbeat counts from the start");
    bench.disk.sources.clear();
    let mut bench = bench.killed();
    assert_eq!(bands(&mut bench), (own, None));
}

#[test]
fn limits_received_during_a_journal_failure_apply_afterwards() {
    let mut bench = bench();
    bench.slow_disk = true;
    bench.word(limit(&bench, 50, 0, None));
    bench.slow_answers = true;
    bench.fail();
    bench.word(limit(&bench, 40, 0, None));
    bench.slow_disk = false;
    bench.slow_answers = false;
    while !bench.answers.is_empty() {
        bench.answer_one();
    }
    bench.pass(Span::from_secs(60));
    bench.check(GridState::Ok, Some(40));
    let mut bench = bench.killed();
    bench.check(GridState::Ok, Some(40));
}
