//! Predictions from the jobs that have ended: their effect under an upper limit. Calculated by hand.

use super::{column, folder, lsim, read};

/// Four nodes that draw 10 W idle. By the nameplate a job draws 40 W more, in truth 10 W.
const PLATFORM: &str = "[[nodes]]\nname = \"n\"\ncount = 4\nidle = \"10 W\"\n[[nodes.unit]]\nname = \"cpu\"\n\
    hardware = \"node\"\nkind = \"cpu\"\ncores = 1\nnameplate = \"40 W\"\n\
    [nodes.unit.application]\ncg = { power = \"10 W\", duration = \"200s\" }\n";

/// The limit leaves 85 W above idle: two jobs by the nameplate.
const LIMITS: &str = "time,low_w,high_w\n0,,125\n";

/// Returns the ends of 44 jobs of 200 s, in seconds, and the printed line about predictions.
fn ends(options: &str) -> (Vec<i64>, Option<String>) {
    let job = |id| format!("{{\"id\": {id}, \"subtime\": 0, \"res\": 1, \"profile\": \"d\", \"application\": \"cg\"}}");
    let jobs: Vec<String> = (1..=44).map(job).collect();
    let profiles = "{\"d\": {\"type\": \"delay\", \"delay\": 200}}";
    let workload = format!("{{\"nb_res\": 4, \"jobs\": [{}], \"profiles\": {profiles}}}", jobs.join(", "));
    let folder = folder(&[("w.json", &workload), ("p.toml", PLATFORM), ("l.csv", LIMITS)]);
    let run = "run --trace w.json --platform p.toml --limits l.csv --policy fifo --part admission=band --out out";
    let printed = lsim(folder.path(), &format!("{run} {options}"));
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    let mut ends: Vec<i64> =
        column(&jobs, "finish_time").iter().map(|end| end.parse().expect("whole seconds")).collect();
    ends.sort_unstable();
    let line = printed.lines().find(|line| line.starts_with("predictions"));
    (ends, line.map(str::to_owned))
}

/// A model needs 20 jobs, which end at 2000 s. From then on four jobs run at once, as 85 W allow.
#[test]
fn jobs_that_are_predicted_from_earlier_ones_use_the_limit() {
    let twos: Vec<i64> = (0..44).map(|job| 200 * (job / 2 + 1)).collect();
    assert_eq!(ends(""), (twos.clone(), None));
    let fours = (0..24).map(|job| 2_000 + 200 * (job / 4 + 1));
    let expected: Vec<i64> = twos.iter().copied().take(20).chain(fours).collect();
    // Job 21 starts when job 19 ends, before the end of job 20 makes the model. All jobs draw the same.
    let line = "predictions     23 jobs, mean error 0.0 % of the mean draw, 100.0 % at most the 90 % quantile";
    assert_eq!(ends("--predict"), (expected, Some(line.to_owned())));
}
