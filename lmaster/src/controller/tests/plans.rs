//! The planned starts, which all who ask share for a second.

use limo_proto::{Change, PlanQuery};

use super::*;

/// Returns the planned jobs that a user is shown.
fn planned(bench: &mut Bench, client: PeerId) -> Vec<JobId> {
    let query = PlanQuery { from: Time::from_unix_ms(START), until: Time::MAX };
    match bench.ask(client, Query::Plan(query)) {
        MasterToClient::Answer(answer) => match *answer {
            Answer::Plan(report) => report.starts.iter().map(|start| start.job).collect(),
            other => panic!("no plan: {other:?}"),
        },
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn a_plan_is_made_at_most_once_a_second() {
    let mut bench = Bench::new();
    let (node, client, other) = (bench.node("n1"), bench.client(7), bench.client(8));
    let submit = |bench: &mut Bench, key| {
        bench.heard(client);
        bench.say(
            client,
            exec_with(key, |exec| {
                exec.request.cores = Cores::All;
                exec.request.time_limit = Some(Span::from_secs(600));
            }),
        );
        match bench.heard(client).first() {
            Some(MasterToClient::Accepted { job }) => *job,
            other => panic!("not accepted: {other:?}"),
        }
    };
    let running = submit(&mut bench, 1);
    bench.report(node, NodeToMaster::JobAck { job: running, attempt: Attempt(1) });
    bench.report(node, NodeToMaster::Started { job: running, attempt: Attempt(1) });
    let first = submit(&mut bench, 2);
    assert_eq!(planned(&mut bench, client), [first]);
    let second = submit(&mut bench, 3);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![first]))));
    bench.pass(Span::from_ms(999));
    assert_eq!(planned(&mut bench, other), [first], "the plan is shared");
    bench.pass(Span::from_ms(1));
    assert_eq!(planned(&mut bench, other), [second]);
}
