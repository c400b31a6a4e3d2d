//! Predictions from the jobs that have ended: their effect under an upper limit. Calculated by hand.

use std::path::Path;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;

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

/// Writes 600 jobs of different applications, whose draws vary around 100 W by the sum of four random numbers, and 100
/// nodes with a nameplate of 200 W.
fn varied(seed: u64) -> TempDir {
    let mut generator = SplitMix64::seed_from_u64(seed);
    let mut random = |below: u64| (generator.next_u64() >> 33) % below;
    let (mut jobs, mut profiles, mut applications) = (Vec::new(), Vec::new(), String::new());
    for id in 1..=600 {
        let draw = 20 + (0..4).map(|_| random(41)).sum::<u64>();
        let secs = 1_000 + random(4_000);
        applications.push_str(&format!("a{id} = {{ power = \"{draw} W\", duration = \"{secs}s\" }}\n"));
        profiles.push(format!("\"d{id}\": {{\"type\": \"delay\", \"delay\": {secs}}}"));
        jobs.push(format!(
            "{{\"id\": {id}, \"subtime\": 0, \"res\": 1, \"walltime\": 7200, \"profile\": \"d{id}\", \"application\": \"a{id}\"}}"
        ));
    }
    let (jobs, profiles) = (jobs.join(", "), profiles.join(", "));
    let workload = format!("{{\"nb_res\": 100, \"jobs\": [{jobs}], \"profiles\": {{{profiles}}}}}");
    let platform = format!(
        "[[nodes]]\nname = \"n\"\ncount = 100\nidle = \"10 W\"\n[[nodes.unit]]\nname = \"cpu\"\nhardware = \"node\"\n\
         kind = \"cpu\"\ncores = 1\nnameplate = \"200 W\"\n[nodes.unit.application]\n{applications}"
    );
    folder(&[("w.json", &workload), ("p.toml", &platform), ("l.csv", "time,low_w,high_w\n0,,6000\n")])
}

/// Seeds of the workloads. The jobs that run together stay for a while, so one workload says little about a share of 1 %.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=12;

/// The limit leaves 5 kW above idle. The draws have a deviation of 23.7 W, so 99 % are below 155 W: room for 32 jobs. The
/// margin of the sum of 45 jobs is 55 W * sqrt(0.98 / 45 + 0.02), 11 W for each.
#[test]
fn the_margin_of_a_sum_runs_more_jobs_and_keeps_the_limit() {
    // Time until the last job ends, and the part of it above the limit.
    let run = |folder: &Path, margin: &str| {
        let run = "run --trace w.json --platform p.toml --limits l.csv --policy powercap --predict --json";
        let options = format!("--set confidence-permille=990 --set margin={margin} --out {margin}");
        let printed = lsim(folder, &format!("{run} {options}"));
        assert!(printed.starts_with("exit 0"), "{printed}");
        let json: serde_json::Value =
            serde_json::from_str(&read(folder, &format!("{margin}/schedule.json"))).expect("JSON");
        let figure = |key: &str| json[key].as_f64().expect("a number");
        assert_eq!(figure("violations"), 0.0);
        (figure("makespan_s"), figure("makespan_s") * figure("outside_limits_share"))
    };
    let (mut job, mut sum) = ((0.0, 0.0), (0.0, 0.0));
    for seed in SEEDS {
        let folder = varied(seed);
        let of_job = run(folder.path(), "job");
        let of_sum = run(folder.path(), "sum");
        job = (job.0 + of_job.0, job.1 + of_job.1);
        sum = (sum.0 + of_sum.0, sum.1 + of_sum.1);
    }
    println!("margin=job: {} s, {} s above the limit; margin=sum: {} s, {} s above", job.0, job.1, sum.0, sum.1);
    assert!(sum.0 < 0.9 * job.0, "{} s with the margin of the sum, {} s with those of the jobs", sum.0, job.0);
    assert!(sum.1 <= 0.01 * sum.0, "above the limit in {} of {} s", sum.1, sum.0);
}
