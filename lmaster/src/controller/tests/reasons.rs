//! Each waiting job has a reason, and each reason is true.

use limo_model::{Curve, Wait};
use limo_proto::{Change, Parallel};

use super::*;

fn change(bench: &mut Bench, change: Change) {
    let root = bench.client(0);
    bench.say(root, ClientToMaster::ChangeConf(Box::new(change)));
    let answer = bench.heard(root).pop().expect("an answer");
    assert!(is_done(&answer), "{answer:?}");
}

fn wait(bench: &mut Bench, job: JobId) -> Option<Wait> {
    let report = bench.jobs().into_iter().find(|report| report.job == job).expect("it waits");
    let client = bench.client(0);
    let MasterToClient::Answer(answer) = bench.ask(client, Query::Explain(ExplainQuery(job))) else {
        panic!("no answer")
    };
    let Answer::Explanation(explanation) = *answer else { panic!("{answer:?}") };
    assert_eq!(explanation.job.wait, report.wait, "the list and the explanation say the same");
    report.wait
}

/// Uses an idle draw of 10 W, and a job whose core draws up to 60 W.
#[test]
fn a_job_that_no_limit_ever_leaves_enough_power() {
    let mut bench = Bench::new();
    bench.node("n1");
    change(&mut bench, Change::Policy { preset: Preset::Limo, parts: Vec::new() });
    let band = |high| Band::new(Power::ZERO, Power::from_watts(high)).expect("a band");
    change(&mut bench, Change::Limits(Curve::constant(band(40))));
    let owner = bench.client(7);
    let job = bench.submit(owner, 1);
    let never = Wait::Never { needs: Power::from_watts(60), most: Power::from_watts(30) };
    assert_eq!(
        never.shown(|_| String::new()).to_string(),
        "band: never: needs 60.0 W, and the limits leave at most 30.0 W"
    );
    assert_eq!(wait(&mut bench, job), Some(never));
    // From the next hour on the power is enough, so the job only has to wait.
    let later = bench.now + Span::from_secs(3_600);
    let limits = Curve::new(vec![(bench.now, band(40)), (later, band(100))], None).expect("a curve");
    change(&mut bench, Change::Limits(limits));
    assert!(matches!(wait(&mut bench, job), Some(Wait::Band { until: Some(until), .. }) if until == later));
}

#[test]
fn a_job_beyond_the_depth_of_a_round_has_that_reason() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    bench.settings.options.depth = 1;
    bench.input(Input::Configured(Box::new(bench.settings.clone())));
    let owner = bench.client(7);
    bench.running(owner, node, 1);
    let jobs = [2, 3].map(|key| bench.submit(owner, key));
    assert!(matches!(wait(&mut bench, jobs[0]), Some(Wait::Resources { .. })));
    assert_eq!(wait(&mut bench, jobs[1]), Some(Wait::Depth { depth: 1 }));
}

/// Lets two jobs request both nodes while one node is busy; the third must not delay them.
#[test]
fn a_job_that_waited_for_another_which_is_gone() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    change(&mut bench, Change::Policy { preset: Preset::Easy, parts: Vec::new() });
    let owner = bench.client(7);
    bench.running(owner, node, 1);
    bench.node("n2");
    for key in [2, 3] {
        let wide = exec_with(key, |exec| {
            exec.request.spread = Some(super::multi_node::spread(2));
            exec.launch.parallel = Some(Parallel::default());
        });
        bench.say(owner, wide);
    }
    let [first, second] = [JobId(2), JobId(3)];
    let third = bench.submit(owner, 4);
    let behind = |bench: &mut Bench| match wait(bench, third) {
        Some(Wait::Behind { job, .. }) => job,
        other => panic!("{other:?}"),
    };
    assert_eq!(behind(&mut bench), first);
    change(&mut bench, Change::Cancel(vec![first]));
    assert_eq!(behind(&mut bench), second);
}
