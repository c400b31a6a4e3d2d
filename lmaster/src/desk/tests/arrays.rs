//! Tasks of arrays are jobs of whoever submitted the array, on its terms.

use limo_proto::{Array, Io};

use super::*;

#[test]
fn a_task_has_the_grace_of_its_array_and_one_that_is_no_job_yet_is_not_cancelled() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let grace = Span::from_secs(5);
    let array = Array { tasks: "0-999".parse().expect("tasks"), entries: Vec::new() };
    let exec = exec_with(1, |exec| {
        exec.request.kill_grace = Some(grace);
        (exec.launch.io, exec.launch.array) = (Io::Detached, Some(array));
    });
    bench.say(client, exec);
    let (own, job, attempt) = (JobId(1), JobId(2), Attempt(1));
    bench.report(node, NodeToMaster::JobAck { job, attempt });
    bench.report(node, NodeToMaster::Started { job, attempt });
    bench.orders(node);
    bench.heard(client);
    let cancel = |job| ClientToMaster::ChangeConf(Box::new(limo_proto::Change::Cancel(vec![job])));
    bench.say(client, cancel(JobId(1001)));
    assert_eq!(refusal(bench.heard(client).first()), "there is no waiting or running job 1001");
    bench.say(client, cancel(own));
    assert!(bench.orders(node).contains(&MasterToNode::Stop { job, attempt, grace }));
}
