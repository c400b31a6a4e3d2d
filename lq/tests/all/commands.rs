//! Output of `show`, `explain`, `cancel` and `nodes` for users.

use limo_fake::{FakeMaster, answer, candidate, finished_job, node, running_job, waiting_job};
use limo_model::{Band, Condition, Containment, Dependency, JobId, Mode, Outcome, Power, Price, Time};
use limo_proto::{
    Answer, Change, ClientToMaster, ExplainQuery, Explanation, JobFilter, JobQuery, JobReport, JobState, NodeReport,
    NodeState, NodesQuery, Query, SelectQuery, Selection, Selector,
};

use crate::{answered, ask};

fn printed(stdout: &str) -> String {
    format!("exit 0\n--- stdout\n{stdout}--- stderr\n")
}

#[tokio::test]
async fn show_a_finished_job() {
    let job = finished_job(3, Outcome::Exited(7));
    let (output, asked) = answered(&["show", "3"], answer(Answer::Jobs(vec![job]))).await;
    let expected = "job          3\n\
        name         cg\n\
        user         ada\n\
        state        failed\n\
        end          exited with code 7\n\
        command      ./cg -n 5 'a b'\n\
        application  cg\n\
        cores        all\n\
        memory       1 GiB\n\
        units        n1(cpu)\n\
        submitted    2017-10-26 11:00:00\n\
        started      2017-10-26 11:05:00\n\
        ended        2017-10-26 11:15:00\n\
        ran for      10:00\n\
        CPU time     7min30s (user 7min, system 30s), 75 % of 1 core\n\
        peak memory  512 MiB, 50 % of 1 GiB\n\
        time limit   1h\n\
        deadline     2017-10-26 21:00:00\n\
        energy       0.015 kWh, measured\n\
        cost         0.001 EUR (started at once: 0.002 EUR)\n";
    assert_eq!(output, printed(expected));
    assert_eq!(asked, [ask(Query::Job(JobQuery(JobId(3))))]);
}

#[tokio::test]
async fn emulated_watts_say_so() {
    let (output, _) = answered(&["show", "3"], answer(Answer::Jobs(vec![running_job(3)]))).await;
    for line in
        ["expected     10min at 90.0 W emulated, 0.015 kWh (learned, runs: 3)\n", "energy       120.0 J emulated\n"]
    {
        assert!(output.contains(line), "{output}");
    }
}

#[tokio::test]
async fn explain_a_waiting_job() {
    let [least, nodes, most] = [2, 4, 8].map(|nodes| std::num::NonZeroU32::new(nodes).expect("positive"));
    let widths = limo_model::Widths { least, most, tasks_per_node: None };
    let job = limo_proto::JobReport { widths: Some((widths, nodes)), ..waiting_job(3) };
    let wait = job.wait.clone().expect("it waits");
    let reason = wait.shown(|_| "2017-10-26 14:00".into()).to_string();
    let explanation = Explanation {
        mode: Mode::High,
        price: Some(Price::from_milli_per_mwh(80_000)),
        draw: Power::from_mw(18_500),
        band: Band::new(Power::from_watts(40), Power::from_watts(60)).expect("a band"),
        candidates: vec![candidate(Some(wait)), candidate(None)],
        more: 7,
        planned: job.deadline.map(|at| limo_proto::Planned { at, place: "n[1-2]".into() }),
        job,
    };
    let (output, asked) = answered(&["explain", "3"], answer(Answer::Explanation(Box::new(explanation)))).await;
    let cells = "n1/cpu  xeon      -       10min  90.0 W  0.015 kWh  0.001 EUR  0.000 EUR  0.000 EUR  learned from 3 runs of cg  ";
    let expected = format!(
        "job 3 waits: {reason}\n\n\
         draw         18.5 W; the upper limit 60.0 W leaves 41.5 W\n\
         lower limit  40.0 W\n\
         mode         high; energy costs 80 EUR/MWh\n\
         planned      2017-10-26 21:00 on n[1-2]\n\
         nodes        2-8: 4 by the last plan\n\
         deadline     2017-10-26 21:00\n\n\
         UNIT    HARDWARE  CAP  DURATION  POWER   ENERGY      COST NOW    WAITING       BAND  ESTIMATE FROM              OBSTACLE\n\
         {cells}{reason}\n\
         {cells}none\n\
         and 7 more\n"
    );
    assert_eq!(output, printed(&expected));
    assert_eq!(asked, [ask(Query::Explain(ExplainQuery(JobId(3))))]);
}

#[tokio::test]
async fn explain_a_job_that_explores_a_cap() {
    let job = limo_proto::JobReport { explores: Some(Power::from_mw(28_200)), ..running_job(3) };
    let explanation = Explanation {
        mode: Mode::High,
        price: None,
        draw: Power::from_watts(50),
        band: Band::UNLIMITED,
        candidates: Vec::new(),
        more: 0,
        planned: None,
        job,
    };
    let (output, _) = answered(&["explain", "3"], answer(Answer::Explanation(Box::new(explanation)))).await;
    assert!(output.contains("job 3 is running on n1/gpu; explores cap 28.2 W\n"), "{output}");
}

fn cancel(which: &[Selector], filter: JobFilter, signal: Option<i32>) -> ClientToMaster {
    let selection = Selection { which: which.to_vec(), filter };
    ClientToMaster::ChangeConf(Box::new(Change::CancelSelected { selection, signal }))
}

#[tokio::test]
async fn cancel_says_nothing() {
    let check = async |args: &[&str], expected: ClientToMaster, stdout: &str| {
        let (output, asked) = answered(args, answer(Answer::Selected(vec![JobId(3), JobId(4)]))).await;
        assert_eq!(output, printed(stdout), "{args:?}");
        assert_eq!(asked, [expected], "{args:?}");
    };
    let jobs = [Selector::Job(JobId(3)), Selector::Job(JobId(4))];
    check(&["cancel", "3", "4"], cancel(&jobs, JobFilter::default(), None), "").await;
    let json = "{\"schema\":1,\"cancelled\":[3,4]}\n";
    check(
        &["cancel", "last,all", "--json"],
        cancel(&[Selector::Last, Selector::All], JobFilter::default(), None),
        json,
    )
    .await;
    let filter = JobFilter {
        users: vec!["ada".into()],
        states: vec![JobState::Waiting],
        names: vec!["cg".into()],
        nodes: vec![],
        queues: vec!["short".into()],
        steps_of: None,
    };
    check(&["cancel", "-u", "ada", "-t", "PD", "--name", "cg", "-p", "short"], cancel(&[], filter, None), "").await;
    let range = [Selector::Range(JobId(3), JobId(9))];
    let json = "{\"schema\":1,\"signal\":10,\"signalled\":[3,4]}\n";
    check(&["cancel", "3-9", "-s", "usr1", "--json"], cancel(&range, JobFilter::default(), Some(10)), json).await;
}

#[tokio::test]
async fn keywords_are_resolved_by_the_master() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let asked = master.answering(|message| {
        let ClientToMaster::Ask(query) = message else { panic!("{message:?}") };
        match query.as_ref() {
            Query::Select(SelectQuery { .. }) => answer(Answer::Selected(vec![JobId(3), JobId(5)])),
            Query::Job(JobQuery(job)) => answer(Answer::Jobs(vec![waiting_job(job.0)])),
            other => panic!("{other:?}"),
        }
    });
    let output = crate::snapshot(crate::lq(&address, &["show", "last", "3-5"])).await;
    let numbers: Vec<&str> = output.lines().filter(|line| line.starts_with("job ")).collect();
    assert_eq!(numbers, ["job          3", "job          5"]);
    let selection = Selection::from(vec![Selector::Last, Selector::Range(JobId(3), JobId(5))]);
    let expected = [
        Query::Select(SelectQuery { selection, live: false }),
        Query::Job(JobQuery(JobId(3))),
        Query::Job(JobQuery(JobId(5))),
    ]
    .map(ask);
    assert_eq!(*asked.lock().expect("no panic"), expected);
}

#[tokio::test]
async fn the_reason_of_a_waiting_job_is_shown() {
    let on = |condition| Dependency { condition, job: JobId(1) };
    let job = JobReport {
        held: Some("root".into()),
        begin: Some(Time::from_unix_ms(1_509_051_600_000)),
        dependencies: vec![on(Condition::AfterOk), on(Condition::After)],
        singleton: true,
        ..waiting_job(3)
    };
    let (output, _) = answered(&["show", "3"], answer(Answer::Jobs(vec![job.clone()]))).await;
    let lines = "begin        2017-10-26 21:00:00\n\
                 depends on   afterok:1, after:1, singleton\n\
                 held by      root\n";
    assert!(output.contains(lines), "{output}");
    let (output, _) = answered(&["--json"], answer(Answer::Jobs(vec![job]))).await;
    let keys = "\"held_by\":\"root\",\"begin_unix_ms\":1509051600000,\
                \"dependencies\":[\"afterok:1\",\"after:1\",\"singleton\"]";
    assert!(output.contains(keys), "{output}");
}

#[tokio::test]
async fn changes_of_jobs_say_nothing() {
    let jobs = || vec![JobId(3), JobId(4)];
    for (verb, change, done) in [
        ("hold", Change::Hold(jobs()), "held"),
        ("release", Change::Release(jobs()), "released"),
        ("requeue", Change::Requeue(jobs()), "requeued"),
        ("suspend", Change::SuspendJobs(jobs()), "suspended"),
        ("resume", Change::ResumeJobs(jobs()), "resumed"),
    ] {
        let (output, asked) = answered(&[verb, "3", "4"], answer(Answer::Done)).await;
        assert_eq!(output, printed(""));
        assert_eq!(asked, [ClientToMaster::ChangeConf(Box::new(change))]);
        let (output, _) = answered(&[verb, "3", "--json"], answer(Answer::Done)).await;
        assert_eq!(output, printed(&format!("{{\"schema\":1,\"{done}\":[3]}}\n")));
    }
}

#[tokio::test]
async fn nodes_and_their_units() {
    let mut drained = node("n2");
    drained.state = NodeState::Drained;
    drained.reason = Some("fan, by root".into());
    drained.measured = false;
    drained.units.truncate(1);
    drained.units[0].jobs.clear();
    drained.group = Some("rack-2".into());
    let (output, asked) = answered(&["nodes"], answer(Answer::Nodes(vec![node("n1"), drained]))).await;
    let expected = "\
        NODE  STATE    GROUP   DRAW                        IDLE             MEMORY  UNIT  HARDWARE      CORES  CAP  JOBS\n\
        n1    up       -       48.5 W emulated             15.0 W  1 GiB of 16 GiB  cpu   xeon            2/8  -    3\n\
        \x20                                                                           gpu   quadro-p2000    1/1  -    4\n\
        n2    drained  rack-2  48.5 W emulated, estimated  15.0 W  1 GiB of 16 GiB  cpu   xeon            2/8  -    -\n\
        \n\
        n2: fan, by root\n";
    assert_eq!(output, printed(expected));
    assert_eq!(asked, [ask(Query::Nodes(NodesQuery))]);
}

#[tokio::test]
async fn nodes_without_complete_control_groups_are_named_once_for_each_lack() {
    let node = |name: &str, containment| {
        let mut node = node(name);
        node.units.truncate(1);
        NodeReport { containment, ..node }
    };
    let no_memory = Containment { memory: false, ..Containment::FULL };
    let weak = Some(Containment::default());
    // Nobody knows it of a node that is not connected.
    let nodes = vec![
        node("n1", weak),
        node("n2", weak),
        node("n3", Some(no_memory)),
        node("n4", Some(Containment::FULL)),
        node("n5", None),
    ];
    let (output, _) = answered(&["nodes"], answer(Answer::Nodes(nodes))).await;
    let expected = "\n\n\
        n[1-2]: weak containment: jobs can leave processes behind; memory and cores are not enforced\n\
        n3: each job has a control group, without limits of: memory\n--- stderr\n";
    assert!(output.ends_with(expected), "{output}");
}
