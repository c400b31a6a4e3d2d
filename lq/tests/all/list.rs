//! The table and its filters.

use limo_client::fake::{answer, finished_job, waiting_job};
use limo_model::{Energy, Outcome, Time};
use limo_proto::{Answer, JobReport, Query};
use limo_sched::Wait;

use crate::{answered, ask};

const TITLES: &str = "JOBID  NAME  USER  ST   TIME  CORES  NODES(UNIT)  ENERGY     REASON\n";

fn jobs() -> Vec<JobReport> {
    let other = JobReport { user: "bob".into(), name: "x\x1b[2J".into(), ..finished_job(4, Outcome::Signaled(15)) };
    vec![waiting_job(3), other]
}

#[tokio::test]
async fn a_table_of_jobs() {
    let wait = waiting_job(3).wait.expect("it waits");
    let reason = wait.shown(|_| "2017-10-26 14:00".into()).to_string();
    let (output, asked) = answered(&["--all"], answer(Answer::Jobs(jobs()))).await;
    let expected = format!(
        "JOBID  NAME        USER  ST   TIME  CORES  NODES(UNIT)  ENERGY     REASON\n    \
             3  cg          ada   PD   0:00      1  -            -          {reason}\n    \
             4  x\\u{{1b}}[2J  bob   F   10:00    all  n1(cpu)      0.015 kWh  ended by SIGTERM\n"
    );
    assert_eq!(output, format!("exit 0\n--- stdout\n{expected}--- stderr\n"));
    assert_eq!(asked, [ask(Query::Jobs { ended: true, limit: 100 })]);
}

#[tokio::test]
async fn a_job_that_waits_for_the_budget() {
    let (needs, left) = (Energy::from_joules(4_320_000), Energy::from_joules(1_080_000));
    let wait = |until| Some(Wait::Budget { needs, left, until });
    let until = Some(Time::from_unix_ms(1_509_026_400_000));
    let jobs =
        || vec![JobReport { wait: wait(until), ..waiting_job(3) }, JobReport { wait: wait(None), ..waiting_job(4) }];
    let (output, _) = answered(&[], answer(Answer::Jobs(jobs()))).await;
    let reason = "budget: needs 1.200 kWh above what is released, 0.300 kWh left";
    let lines: Vec<&str> = output.lines().filter_map(|line| line.find("budget").map(|at| &line[at..])).collect();
    assert_eq!(lines, [format!("{reason} until about 2017-10-26 14:00"), reason.to_owned()]);
    let (output, _) = answered(&["--json"], answer(Answer::Jobs(jobs()))).await;
    assert!(output.contains(&format!("\"wait_reason\":\"{reason}\",\"wait_kind\":\"budget\"")), "{output}");
}

#[tokio::test]
async fn an_empty_cluster_has_titles() {
    let (output, asked) = answered(&[], answer(Answer::Jobs(vec![]))).await;
    let titles = "JOBID  NAME  USER  ST  TIME  CORES  NODES(UNIT)  ENERGY  REASON\n";
    assert_eq!(output, format!("exit 0\n--- stdout\n{titles}--- stderr\n"));
    assert_eq!(asked, [ask(Query::Jobs { ended: false, limit: 0 })]);
}

#[tokio::test]
async fn filters() {
    let bobs = format!("{TITLES}    4  x     bob   F   10:00    all  n1(cpu)      0.015 kWh  ended by SIGTERM\n");
    let check = async |args: &[&str], ended: bool, limit: u32, expected: &str| {
        let mut jobs = jobs();
        jobs[1].name = "x".into();
        let (output, asked) = answered(args, answer(Answer::Jobs(jobs))).await;
        assert_eq!(output, format!("exit 0\n--- stdout\n{expected}--- stderr\n"), "{args:?}");
        assert_eq!(asked, [ask(Query::Jobs { ended, limit })], "{args:?}");
    };
    check(&["-u", "bob"], false, 0, &bobs).await;
    check(&["-t", "F,cancelled"], true, 100, &bobs).await;
    check(&["-a", "-n", "5", "-u", "bob,eve"], true, 5, &bobs).await;
}
