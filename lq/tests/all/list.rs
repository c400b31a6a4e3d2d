//! The table and its filters.

use limo_fake::{FakeMaster, answer, finished_job, waiting_job};
use limo_model::{Energy, JobId, Outcome, Time, Wait};
use limo_proto::{Answer, ClientToMaster, Finished, JobFilter, JobReport, JobState, JobsQuery, Query};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{answered, ask, lq};

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
             3  cg          ada   PD   0:00      1  -                -      {reason}\n    \
             4  x\\u{{1b}}[2J  bob   F   10:00    all  n1(cpu)      0.015 kWh  ended by SIGTERM\n"
    );
    assert_eq!(output, format!("exit 0\n--- stdout\n{expected}--- stderr\n"));
    assert_eq!(asked, [ask(Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 100 }))]);
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
    assert_eq!(asked, [ask(Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(0), ended: 0 }))]);
}

#[tokio::test]
async fn the_newest_page_of_a_long_list_counts() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let asked = master.answering(|message| match message {
        ClientToMaster::Ask(query) => match query.as_ref() {
            Query::Jobs(JobsQuery { from: JobId(0), .. }) => {
                answer(Answer::JobsUpTo { jobs: vec![waiting_job(3), waiting_job(4)], next: JobId(7) })
            }
            // Job 3 has ended by then.
            _ => answer(Answer::Jobs(vec![finished_job(3, Outcome::Exited(0)), waiting_job(7)])),
        },
        other => panic!("{other:?}"),
    });
    let output = crate::snapshot(crate::lq(&address, &["--all", "-o", "jobid,st"])).await;
    assert_eq!(output, "exit 0\n--- stdout\nJOBID  ST\n    3  CD\n    4  PD\n    7  PD\n--- stderr\n");
    let page = |from| ask(Query::Jobs(JobsQuery { filter: JobFilter::default(), from: JobId(from), ended: 100 }));
    assert_eq!(*asked.lock().expect("no panic"), [page(0), page(7)]);
}

#[tokio::test]
async fn filters() {
    let check = async |args: &[&str], filter: JobFilter, ended: u32| {
        let (_, asked) = answered(args, answer(Answer::Jobs(jobs()))).await;
        assert_eq!(asked, [ask(Query::Jobs(JobsQuery { filter, from: JobId(0), ended }))], "{args:?}");
    };
    let all = JobFilter::default;
    check(&["-u", "bob"], JobFilter { users: vec!["bob".into()], ..all() }, 0).await;
    let over = vec![JobState::Failed, JobState::Cancelled];
    check(&["-t", "F,cancelled"], JobFilter { states: over, ..all() }, 100).await;
    let users = vec!["bob".into(), "eve".into()];
    check(&["-a", "-n", "5", "-u", "bob,eve"], JobFilter { users, ..all() }, 5).await;
    let nodes = vec!["n1".into(), "n2".into()];
    check(&["-p", "short,long"], JobFilter { queues: vec!["short".into(), "long".into()], ..all() }, 0).await;
    check(&["--name", "cg", "-w", "n[1-2]"], JobFilter { names: vec!["cg".into()], nodes, ..all() }, 0).await;
}

#[tokio::test]
async fn order_and_columns() {
    let check = async |args: &[&str], expected: &str| {
        let (output, _) = answered(args, answer(Answer::Jobs(jobs()))).await;
        assert_eq!(output, format!("exit 0\n--- stdout\n{expected}--- stderr\n"), "{args:?}");
    };
    check(&["-o", "jobid,user", "--sort", "-jobid"], "JOBID  USER\n    4  bob\n    3  ada\n").await;
    check(&["--noheader", "--format", "user:5,st,id", "--sort", "st,id"], "ada    PD  3\nbob    F   4\n").await;
    check(&["-o", "name:4,cores"], "NAME  CORES\ncg        1\nx\\u…    all\n").await;
    let (output, _) = answered(&["--sort", "-time", "--json"], answer(Answer::Jobs(jobs()))).await;
    assert!(output.find("\"id\":4") < output.find("\"id\":3"), "{output}");
    let (output, _) = answered(&["-l"], answer(Answer::Jobs(jobs()))).await;
    let titles = "JOBID  NAME        USER  QUEUE  STATE     TIME  TIMELIMIT  SUBMIT            START             CORES  MEMORY  ";
    assert!(output.contains(titles) && output.contains("  waiting  ") && output.contains("  0.001 EUR  "), "{output}");
}

#[tokio::test]
async fn history_comes_in_parts() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let asked = master.answering(|message| {
        let ClientToMaster::Ask(query) = message else { panic!("{message:?}") };
        let Query::History(finished) = query.as_ref() else { panic!("{query:?}") };
        let id = finished.after.map_or(9, |(_, job)| job.0 - 1);
        answer(Answer::History { jobs: vec![finished_job(id, Outcome::Exited(0))], more: id > 2 })
    });
    let args = ["history", "-n", "3", "-u", "ada", "--since", "2017-10-26", "-o", "jobid,st,end,how,saved"];
    let output = crate::snapshot(crate::lq(&address, &args)).await;
    let line = |id| format!("    {id}  CD  2017-10-26 11:15  measured  0.001 EUR\n");
    let titles = "JOBID  ST  END               HOW           SAVED\n";
    let expected = format!("{titles}{}{}{}", line(9), line(8), line(7));
    assert_eq!(output, format!("exit 0\n--- stdout\n{expected}--- stderr\n"));
    let ended = finished_job(9, Outcome::Exited(0)).ended.expect("it is over");
    let filter = JobFilter { users: vec!["ada".into()], ..JobFilter::default() };
    let since = Some(Time::from_unix_ms(1_508_976_000_000));
    let part = |after: Option<u64>, limit| {
        let after = after.map(|job| (ended, JobId(job)));
        ask(Query::History(Finished { filter: filter.clone(), since, until: None, after, limit }))
    };
    assert_eq!(*asked.lock().expect("no panic"), [part(None, 3), part(Some(9), 2), part(Some(8), 1)]);
}

#[tokio::test]
async fn watching_elsewhere_than_on_a_terminal_appends_and_calls_again() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let mut child = lq(&address, &["--watch", "100ms", "-o", "jobid"]).spawn().expect("lq");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut peer = master.client().await.expect("a client");
    let mut looks = Vec::new();
    for _ in 0..2 {
        peer.hear().await.expect("a question");
        peer.say(answer(Answer::Jobs(vec![waiting_job(3)]))).await.expect("said");
        for _ in 0..4 {
            looks.push(lines.next_line().await.expect("readable").expect("a line"));
        }
    }
    assert_eq!((&looks[1..4], &looks[5..8]), (&["JOBID", "    3", ""].map(String::from)[..], &looks[1..4]));
    assert!(looks[0].len() == "2017-10-26 11:00:00".len() && looks[4] >= looks[0], "{looks:?}");
    drop((peer, master));
    let mut said = lines.next_line().await.expect("readable").expect("a line");
    while !said.starts_with("the master is unreachable: ") {
        said = lines.next_line().await.expect("readable").expect("a line");
    }
    let master = FakeMaster::start_at(&address).await.expect("the same address");
    let mut peer = master.client().await.expect("it calls again");
    peer.hear().await.expect("a question");
    child.kill().await.expect("ended");
}
