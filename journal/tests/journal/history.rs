//! Finished jobs by filters, in parts, and as sums.

use limo_journal::{Batch, FinishedFilter, FinishedQuery, FinishedRow, JobSum, Journal, ReadingRow, Recovered, SumBy};
use limo_model::{Drawn, Energy, JobId, Money, Power, Span};

use crate::{Place, at, finished, on_both, run, set_back, submission};

/// Makes jobs of two users, with two names and two nodes, one end a second; the last two end at the same time. Job 5
/// never ran.
fn rows() -> Vec<FinishedRow> {
    let row = |job: u64| {
        let (user, name) = (if job.is_multiple_of(2) { "ann" } else { "bob" }, if job <= 3 { "cg" } else { "lu" });
        let report = format!(
            r#"{{"name":"{name}","application":"app-{name}","nodes":["n{}"],"start_now_cost":{},"emulated":{},"queue":{},"account":{}}}"#,
            job % 3,
            20 * job,
            job == 4,
            if job == 7 { "null" } else { r#""short""# },
            if job <= 3 { r#""physics""# } else { "null" }
        );
        FinishedRow {
            user: user.into(),
            name: name.into(),
            application: format!("app-{name}"),
            state: if job == 6 { "failed" } else { "completed" }.into(),
            started: (job != 5).then(|| at(1)),
            ended: at(1_000 * job.min(6).cast_signed()),
            energy: Energy::from_mj(10 * job.cast_signed()),
            cost: Some(Money::from_micro(job.cast_signed())),
            start_now_cost: Some(Money::from_micro(20 * job.cast_signed())),
            emulated: job == 4,
            measured: Some(job < 5),
            report,
            ..finished(job)
        }
    };
    (1..=7).map(row).collect()
}

async fn journal_of_rows(place: &Place) -> Journal {
    let (journal, Recovered { generation, .. }) = place.open().await;
    let mut submissions: Vec<_> = (1..=7).map(submission).collect();
    submissions[2].uid = 7;
    submissions[4].uid = 7;
    let batch = Batch { generation, submissions, finished: rows(), ..Batch::default() };
    journal.commit(batch).await.expect("committed");
    journal
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

async fn found(journal: &Journal, query: FinishedQuery) -> Vec<u64> {
    journal.finished(query).await.expect("readable").iter().map(|row| row.job.0).collect()
}

async fn check_filters(journal: &Journal) {
    let check = async |filter: FinishedFilter, expected: &[u64]| {
        let query = FinishedQuery { filter: filter.clone(), after: None, limit: 100 };
        assert_eq!(found(journal, query).await, expected, "{filter:?}");
    };
    let all = FinishedFilter::default;
    check(all(), &[7, 6, 5, 4, 3, 2, 1]).await;
    check(FinishedFilter { users: texts(&["bob"]), ..all() }, &[7, 5, 3, 1]).await;
    check(FinishedFilter { users: texts(&["bob", "ann"]), names: texts(&["cg"]), ..all() }, &[3, 2, 1]).await;
    check(FinishedFilter { states: texts(&["failed", "lost"]), ..all() }, &[6]).await;
    check(FinishedFilter { nodes: texts(&["n0", "n9"]), ..all() }, &[6, 3]).await;
    check(FinishedFilter { queues: texts(&["short"]), users: texts(&["ann"]), ..all() }, &[6, 4, 2]).await;
    check(FinishedFilter { queues: texts(&["short", "long"]), ..all() }, &[6, 5, 4, 3, 2, 1]).await;
    check(FinishedFilter { since: Some(at(2_000)), until: Some(at(4_000)), ..all() }, &[3, 2]).await;
    check(FinishedFilter { users: texts(&["' OR 1=1"]), ..all() }, &[]).await;
}

#[test]
fn filters_and_parts() {
    on_both(async |place| {
        let journal = journal_of_rows(place).await;
        assert_eq!(journal.finished(FinishedQuery::newest(1)).await, Ok(vec![rows().remove(6)]));
        check_filters(&journal).await;
        // The list is read in parts of two. One part begins between two equal ends.
        let (mut after, mut seen) = (None, Vec::new());
        while seen.len() < 20 {
            let query = FinishedQuery { after, ..FinishedQuery::newest(1) };
            let part = journal.finished(query).await.expect("readable");
            let Some(last) = part.last() else { break };
            after = Some((last.ended, last.job));
            seen.push(last.job.0);
        }
        assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
        for (uid, newest) in [(7, Some(JobId(5))), (1000, Some(JobId(7))), (8, None)] {
            assert_eq!(journal.newest_of(uid).await, Ok(newest), "{uid}");
        }
        journal.close().await;
    });
}

#[test]
fn sums() {
    on_both(async |place| {
        let journal = journal_of_rows(place).await;
        let sum = |key: &str, jobs: &[i64]| {
            let energy =
                |keep: fn(&i64) -> bool| Energy::from_mj(jobs.iter().copied().filter(keep).map(|job| 10 * job).sum());
            let cost = jobs.iter().sum::<i64>();
            JobSum {
                key: key.into(),
                jobs: jobs.len() as u64,
                energy: energy(|_| true),
                measured: energy(|job| *job < 4),
                estimated: energy(|job| *job > 4),
                emulated: energy(|job| *job == 4),
                cost: Some(Money::from_micro(cost)).filter(|_| !jobs.is_empty()),
                start_now_cost: Some(Money::from_micro(20 * cost)).filter(|_| !jobs.is_empty()),
            }
        };
        let sums = async |by, filter| journal.sums(by, filter, 100).await.expect("readable");
        let all = FinishedFilter::default;
        assert_eq!(sums(SumBy::Nothing, all()).await, [sum("", &[1, 2, 3, 4, 6, 7])]);
        assert_eq!(sums(SumBy::User, all()).await, [sum("ann", &[2, 4, 6]), sum("bob", &[1, 3, 7])]);
        assert_eq!(sums(SumBy::Account, all()).await, [sum("", &[4, 6, 7]), sum("physics", &[1, 2, 3])]);
        let ann = || FinishedFilter { users: texts(&["ann"]), ..all() };
        assert_eq!(sums(SumBy::Application, ann()).await, [sum("app-lu", &[4, 6]), sum("app-cg", &[2])]);
        let jobs = journal.sums(SumBy::Job, all(), 2).await.expect("readable");
        assert_eq!(jobs, [sum("7", &[7]), sum("6", &[6])]);
        let days = SumBy::Days(vec![at(0), at(2_000), at(6_000), at(9_000)]);
        let until = FinishedFilter { until: Some(at(6_001)), ..all() };
        let expected = [sum("0", &[1]), sum("2000", &[2, 3, 4]), sum("6000", &[6, 7])];
        assert_eq!(sums(days, until).await, expected);
        assert_eq!(sums(SumBy::Nothing, FinishedFilter { names: texts(&["x"]), ..all() }).await, [JobSum::default()]);
        journal.close().await;
    });
}

/// Checks that a sum contains the known costs only.
#[test]
fn an_unknown_cost_is_not_zero() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        let money = |micro: Option<i64>| micro.map(Money::from_micro);
        let mut known = rows();
        known.truncate(2);
        let costs = [[None, Some(0)], [None, Some(5)]];
        let finished: Vec<FinishedRow> = known
            .into_iter()
            .zip(costs)
            .map(|(row, [cost, at_once])| FinishedRow { cost: money(cost), start_now_cost: money(at_once), ..row })
            .collect();
        let read = finished[0].clone();
        journal.commit(Batch { generation, finished, ..Batch::default() }).await.expect("committed");
        assert_eq!(journal.finished_job(read.job).await, Ok(Some(read)));
        let sums = journal.sums(SumBy::Nothing, FinishedFilter::default(), 1).await.expect("readable");
        assert_eq!((sums[0].cost, sums[0].start_now_cost), (None, money(Some(5))));
        journal.close().await;
    });
}

#[test]
fn readings_of_nodes_are_summed() {
    on_both(async |place| {
        let (journal, Recovered { generation, .. }) = place.open().await;
        let row = |node: &str, minute: i64, watts: i64| {
            let (mean, seen) = (Power::from_watts(watts), Span::from_secs(60));
            let at = at(minute * 60_000);
            let drawn = Drawn { at, mean, low: mean, high: mean, energy: mean * seen, seen, looks: 60 };
            ReadingRow { node: node.into(), since: at, drawn }
        };
        let readings = vec![row("n1", 0, 10), row("n1", 1, 10), row("n2", 1, 30), row("", 1, 45), row("n2", 2, 90)];
        journal.commit(Batch { generation, readings, ..Batch::default() }).await.expect("committed");
        let found = journal.drawn((None, Some(at(120_000)))).await.expect("readable");
        let found: Vec<(&str, i64, i64)> =
            found.iter().map(|sum| (sum.node.as_str(), sum.energy.mj(), sum.seen.ms())).collect();
        assert_eq!(found, [("", 2_700_000, 60_000), ("n2", 1_800_000, 60_000), ("n1", 1_200_000, 120_000)]);
        assert_eq!(journal.drawn((Some(at(120_000)), None)).await.expect("readable").len(), 1);
        journal.close().await;
    });
}

/// Starts with values that were only in the reports, and now have columns.
#[test]
fn a_journal_of_before_gets_the_columns() {
    run(async {
        let place = Place::file();
        journal_of_rows(&place).await.close().await;
        set_back(place.dir(), "UPDATE finished SET report = 'no JSON' WHERE job = 7").await;
        let (journal, _) = place.open().await;
        let row = FinishedRow { measured: None, ..rows().remove(3) };
        assert_eq!(journal.finished_job(JobId(4)).await, Ok(Some(row)));
        let opaque = journal.finished_job(JobId(7)).await.expect("readable").expect("a row");
        assert_eq!((opaque.name.as_str(), opaque.start_now_cost, opaque.emulated), ("", None, false));
        journal.close().await;
    });
}
