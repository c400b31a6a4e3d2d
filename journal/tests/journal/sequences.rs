//! Random sequences of batches, recoveries and re-openings are read back equal.

use limo_journal::{Batch, Entry, FinishedQuery, FinishedRow, History, Submission};
use limo_model::{
    Attempt, Curve, Energy, JobEnd, JobId, Money, NodeId, Outcome, Power, Price, Span, StopReason, Time, Usage, Wait,
};
use limo_sched::{Account, Event, Finished, Round};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::{Place, key, run};

#[derive(Debug, Clone)]
enum Step {
    Commit { entries: Vec<(Time, Entry)>, jobs: Vec<Vec<u8>>, ended: usize, snapshot: Option<String> },
    Recover,
    Reopen,
}

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time::from_unix_ms)
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<i64>(), proptest::option::of(any::<i64>())).prop_map(|(ms, energy)| Usage {
        elapsed: Span::from_ms(ms),
        energy: energy.map(Energy::from_mj),
        ..Usage::default()
    })
}

fn event() -> impl Strategy<Value = Event> {
    let (job, attempt) = (|| any::<u64>().prop_map(JobId), || any::<u32>().prop_map(Attempt));
    prop_oneof![
        (job(), any::<String>()).prop_map(|(job, by)| Event::CancelRequested { job, by }),
        (job(), attempt()).prop_map(|(job, attempt)| Event::Started { job, attempt }),
        (job(), attempt(), any::<String>(), usage()).prop_map(|(job, attempt, reason, usage)| Event::Ended {
            job,
            attempt,
            outcome: Outcome::Lost { reason },
            usage
        }),
        vec((any::<u32>().prop_map(NodeId), any::<i64>().prop_map(Power::from_mw)), 0..5)
            .prop_map(|draws| Event::Readings { draws }),
        (proptest::option::of(any::<i64>()), any::<String>()).prop_map(|(price, by)| {
            Event::PricesSet { prices: price.map(Price::from_milli_per_mwh).map(Curve::constant), by }
        }),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    let wait = (any::<i64>(), proptest::option::of(time())).prop_map(|(mw, until)| Wait::Band {
        needs: Power::from_mw(mw),
        left: Power::ZERO,
        until,
    });
    let finished =
        (any::<u64>(), any::<String>(), time(), usage(), any::<i64>()).prop_map(|(job, by, at, usage, cost)| {
            Finished {
                job: JobId(job),
                end: JobEnd::Ran { outcome: Outcome::Signaled(15), stopped: Some(StopReason::Cancelled { by }) },
                submitted: at,
                started: None,
                ended: at,
                placement: Vec::new(),
                usage,
                account: Account { cost: Some(Money::from_micro(cost)), ..Account::default() },
                steady: true,
                tasks: None,
                evictions: Default::default(),
                kept: Default::default(),
                new_limit: None,
                steps: 0,
            }
        });
    (time(), vec((any::<u64>().prop_map(JobId), wait), 0..4), vec(finished, 0..4)).prop_map(|(now, waits, finished)| {
        Round { now, commands: Vec::new(), waits, finished, wake_at: Some(now), violations: Vec::new() }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let entry = prop_oneof![event().prop_map(Entry::Event), round().prop_map(Entry::Round)];
    let launch = vec(any::<u8>(), 0..40);
    let batch =
        (vec((time(), entry), 0..5), vec(launch, 0..3), 0..3_usize, proptest::option::weighted(0.2, any::<String>()));
    prop_oneof![
        12 => batch.prop_map(|(entries, jobs, ended, snapshot)| Step::Commit { entries, jobs, ended, snapshot }),
        1 => Just(Step::Recover),
        1 => Just(Step::Reopen),
    ]
}

/// The expected contents of the journal.
#[derive(Default)]
struct Expected {
    entries: Vec<(Time, Entry)>,
    snapshot: Option<(usize, String)>,
    live: Vec<Submission>,
    finished: Vec<FinishedRow>,
    jobs: u64,
}

impl Expected {
    fn check(&self, recovered: &limo_journal::Recovered) {
        let (place, snapshot) = self.snapshot.clone().map_or((0, None), |(place, text)| (place, Some(text)));
        assert_eq!((&recovered.snapshot, &recovered.entries), (&snapshot, &self.entries[place..].to_vec()));
        assert_eq!(recovered.live, self.live);
    }

    fn batch(&mut self, generation: u64, step: Step) -> Option<Batch> {
        let Step::Commit { entries, jobs, ended, snapshot } = step else { return None };
        let finished = self.live.drain(..ended.min(self.live.len())).map(|submission| ended_row(submission.job));
        let finished = finished.collect::<Vec<_>>();
        self.finished.extend(finished.iter().cloned());
        let mut submissions = Vec::new();
        for launch in jobs {
            self.jobs += 1;
            submissions.push(Submission { job: JobId(self.jobs), key: key(self.jobs), uid: u32::MAX, launch });
        }
        self.live.extend(submissions.iter().cloned());
        self.entries.extend(entries.iter().cloned());
        if let Some(text) = &snapshot {
            self.snapshot = Some((self.entries.len(), text.clone()));
        }
        Some(Batch { generation, entries, submissions, finished, snapshot, ..Batch::default() })
    }
}

fn ended_row(job: JobId) -> FinishedRow {
    let ended = Time::from_unix_ms(job.0.cast_signed());
    FinishedRow { ended, ..crate::finished(job.0) }
}

/// Plays the steps; returns the entries.
async fn play(place: &Place, steps: Vec<Step>) -> Vec<(Time, Entry)> {
    let (mut journal, mut recovered) = place.open().await;
    let mut expected = Expected::default();
    for step in steps {
        match step {
            Step::Recover => {
                recovered = journal.recover().await.expect("readable");
                expected.check(&recovered);
            }
            Step::Reopen => {
                (journal, recovered) = place.reopen(journal).await;
                expected.check(&recovered);
            }
            // The batch is not awaited: the next steps come while it is queued.
            step => drop(expected.batch(recovered.generation, step).map(|batch| journal.commit(batch))),
        }
    }
    let (journal, recovered) = place.reopen(journal).await;
    expected.check(&recovered);
    expected.finished.reverse();
    assert_eq!(journal.finished(FinishedQuery::newest(u32::MAX)).await.expect("readable"), expected.finished);
    journal.close().await;
    expected.entries
}

/// Plays on a file, whose history is the same.
async fn play_on_a_file(steps: Vec<Step>) {
    let place = Place::file();
    let entries = play(&place, steps).await;
    let history = History::open(place.dir()).expect("readable").map(|entry| entry.expect("readable"));
    let history = history.map(|entry| (entry.at, entry.entry)).collect::<Vec<_>>();
    assert_eq!(history, entries);
    let of_the_file = History::open(&place.dir().join("journal.db")).expect("readable");
    assert_eq!(of_the_file.count(), entries.len());
}

proptest! {
    // Few cases, because each one opens real files several times and waits for the disk.
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn is_read_back_equal(steps in vec(step(), 0..40)) {
        run(play_on_a_file(steps));
    }
}

/// Snapshots contain no zero, which PostgreSQL does not store: the state of a core is JSON.
#[test]
fn is_read_back_equal_from_a_server() {
    let Some(address) = limo_requirements::postgres() else { return };
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    let played = runner.run(&vec(step(), 0..40), |mut steps| {
        for step in &mut steps {
            if let Step::Commit { snapshot: Some(text), .. } = step {
                *text = text.replace('\0', "0");
            }
        }
        run(async {
            let place = Place::on(&address).await;
            play(&place, steps).await;
            place.drop_it().await;
        });
        Ok(())
    });
    played.expect("all are read back");
}
