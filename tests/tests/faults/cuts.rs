//! A leader that keeps its lease, and is cut off from its clients or from one node only. Clients get a clear answer in
//! limited time, and the others notice nothing.

use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use limo_tests::{LIMIT, finish, finish_within, until};

use crate::relay::Network;
use crate::site::Site;

/// Longest time until a client reports that its master is away: it waits 10 s for the greeting, or 15 s for a sign of life.
const ANSWER: Duration = Duration::from_secs(20);

fn clusters() -> impl Iterator<Item = Site> {
    [Some(Site::on_file(2, 2))].into_iter().chain(std::iter::once_with(|| Site::on_server(2, 2))).flatten()
}

#[test]
fn clients_that_are_cut_off_from_the_leader_get_an_answer_and_lose_nothing() {
    for site in clusters() {
        let submitter = &site.submitter;
        let mut lrun = submitter.spawn_lrun(&["sh", "-c", "while read line; do echo $line; done; exit 4"]);
        let (mut stdin, stdout) = (lrun.stdin.take().expect("piped"), lrun.stdout.take().expect("piped"));
        let mut lines = BufReader::new(stdout).lines().map(|line| line.expect("readable"));
        stdin.write_all(b"before\n").expect("lrun reads");
        assert_eq!(lines.next().as_deref(), Some("before"));
        let job = submitter.detach(&["sh", "-c", "sleep 1000"]);
        let waiting = submitter.command("lq", &["wait", "--reconnect-timeout", "1s", &job.to_string()]).spawn();
        let waiting = waiting.expect("executable");
        until("lq wait is connected", || (site.clients[0].count() == 2).then_some(()));
        site.clients[0].set(Network::Cut);
        stdin.write_all(b"during\n").expect("lrun reads");
        let begin = Instant::now();
        let asked = submitter.lq(&[]);
        asked.failed("did not greet within 10 s");
        assert!(begin.elapsed() < ANSWER, "{:?}", begin.elapsed());
        let ran = finish_within(LIMIT, waiting);
        assert_eq!(ran.code, Some(125), "{ran:?}");
        site.clients[0].set(Network::Whole);
        assert_eq!(lines.next().as_deref(), Some("during"));
        stdin.write_all(b"after\n").expect("lrun reads");
        drop(stdin);
        assert_eq!(lines.next().as_deref(), Some("after"));
        assert_eq!(finish(lrun).code, Some(4));
        assert_eq!(
            (submitter.state(job).as_str(), site.leader()),
            ("running", Some(0)),
            "the leader has led throughout"
        );
    }
}

#[test]
fn one_node_that_is_cut_off_from_the_leader_loses_no_job_within_its_lease() {
    for site in clusters() {
        let submitter = &site.submitter;
        let script = "echo ran >> job-$LIMO_JOB_ID; until [ -e go ]; do sleep 0.1; done; exit 3";
        let jobs = ["n1", "n2"].map(|node| submitter.detach(&["-w", node, "sh", "-c", script]));
        let has_begun = |job: &u64| submitter.read(format!("job-{job}")) == "ran\n";
        until("both jobs run", || jobs.iter().all(has_begun).then_some(()));
        site.links[1][0].set(Network::Cut);
        let state = |name: &str| {
            let ran = submitter.lq(&["nodes", "--json"]).succeeded();
            let report: serde_json::Value = serde_json::from_str(&ran).expect("JSON");
            let nodes = report["nodes"].as_array().expect("nodes");
            nodes.iter().find(|node| node["name"] == name).expect("a node")["state"].as_str().map(str::to_owned)
        };
        until("the leader misses it", || (state("n2").as_deref() == Some("unreachable")).then_some(()));
        assert_eq!(state("n1").as_deref(), Some("up"));
        assert_eq!(submitter.lrun(&["-Q", "-w", "n1", "true"]).code, Some(0));
        std::fs::write(submitter.path("go"), "").expect("written");
        assert_eq!(submitter.wait(jobs[0]), Some(3));
        site.links[1][0].set(Network::Whole);
        site.await_node(1);
        assert_eq!(submitter.wait(jobs[1]), Some(3), "its end was kept");
        assert!(jobs.iter().all(has_begun), "none ran twice");
        assert_eq!(site.leader(), Some(0));
    }
}
