//! Changes by `limo` to running jobs: caps, suspension, requeueing. The upper limit falls, and the jobs take longer
//! than expected. The schedules were calculated by hand.

use super::{column, folder, lsim, read, refused};

/// Makes two nodes that draw 10 W idle and 50 W busy. With a cap of 25 W the pace is (25/40) / 0.75 = 5/6.
fn platform(caps: &str) -> String {
    format!("[[nodes]]\nname = \"n\"\ncount = 2\nidle = \"10 W\"\nbusy = \"50 W\"\n{caps}")
}

const CAPS: &str = "caps = [\"10 W\", \"40 W\"]\ncap-factor = 0.75\n";

/// Makes two jobs of 200 s, with the permitted changes.
fn workload(may: &str) -> String {
    let job =
        |id| format!("{{\"id\": {id}, \"subtime\": 0, \"res\": 1, \"profile\": \"d\", \"application\": \"cg\"{may}}}");
    let profiles = "{\"d\": {\"type\": \"delay\", \"delay\": 200}}";
    format!("{{\"nb_res\": 2, \"jobs\": [{}, {}], \"profiles\": {profiles}}}", job(1), job(2))
}

/// Limits under which both jobs fit until 100 s. From then until 160 s one of them fits, or both with 25 W each.
const LIMITS: &str = "time,low_w,high_w\n0,,100\n100,,70\n160,,100\n";

/// Profiles by which the jobs are over before the limit falls.
const PROFILES: &str =
    "application,size,hardware,cap,duration,power,energy,spread,runs\ncg,,node,,80 s,40 W,3200 J,0 %,1\n";

const RUN: &str = "run --trace w.json --platform p.toml --limits l.csv --profiles f.csv --policy limo --out out \
    --set lead=0s --set steer-lead=0s --set reserve-permille=0 --set steer-margin-permille=0";

/// Returns the output and, for each job, its number, start, end, energy in joules and success.
fn steered(caps: &str, may: &str, options: &str) -> (String, Vec<String>) {
    simulated((caps, may, options), LIMITS, PROFILES)
}

fn simulated((caps, may, options): (&str, &str, &str), limits: &str, profiles: &str) -> (String, Vec<String>) {
    let (platform, workload) = (platform(caps), workload(may));
    let folder = folder(&[("w.json", &workload), ("p.toml", &platform), ("l.csv", limits), ("f.csv", profiles)]);
    let printed = lsim(folder.path(), &format!("{RUN} {options}"));
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    let columns =
        ["job_id", "starting_time", "finish_time", "consumed_energy_j", "success"].map(|name| column(&jobs, name));
    let rows = (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column[row]).join(" "));
    (printed, rows.collect())
}

/// Caps both jobs: from 100 s to 160 s each job has 25 W and does 50 s of its work, and the other 50 s last until 210
/// s. The draw is 35 W for 60 s and 50 W for 150 s.
#[test]
fn caps_slow_both_down() {
    let (printed, jobs) = steered(CAPS, "", "");
    assert_eq!(jobs, ["1 0 210 9600 1", "2 0 210 9600 1"]);
    assert!(printed.contains("\nsteering        4 changes of a node's caps, 0 suspended, 0 requeued\n"), "{printed}");
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
}

/// Uses F = 1: unlike the policy believes, the jobs do 37.5 s of their work under the cap, and 62.5 s are left.
#[test]
fn the_platform_defines_the_slowdown_by_a_cap() {
    let (_, jobs) = steered(&CAPS.replace("0.75", "1"), "", "--set cap-factor-permille=1");
    assert_eq!(jobs, ["1 0 222.5 10225 1", "2 0 222.5 10225 1"]);
}

/// Uses the same F for the application alone: the unit has 0.75.
#[test]
fn an_application_has_its_own_slowdown() {
    let unit = "idle = \"10 W\"\n[[nodes.unit]]\nname = \"cpu\"\nhardware = \"node\"\nkind = \"cpu\"\ncores = 1\n\
        nameplate = \"40 W\"\n";
    let application = "[nodes.unit.application]\ncg = { power = \"40 W\", duration = \"200s\", slowdown = \"F=1\" }\n";
    let platform = format!("[[nodes]]\nname = \"n\"\ncount = 2\n{unit}{CAPS}{application}");
    let folder = folder(&[("w.json", &workload("")), ("p.toml", &platform), ("l.csv", LIMITS), ("f.csv", PROFILES)]);
    let printed = lsim(folder.path(), &format!("{RUN} --set cap-factor-permille=1"));
    assert!(printed.starts_with("exit 0"), "{printed}");
    assert_eq!(column(&read(folder.path(), "out/jobs.csv"), "finish_time"), ["222.5", "222.5"]);
}

/// Starts one job at a time with 25 W, for which there is a profile: 200 s of work at the pace of 5/6.
#[test]
fn a_job_begins_under_a_cap() {
    let profiles = format!("{}cg,,node,25 W,240 s,25 W,6000 J,0 %,1\n", PROFILES.replace("80 s", "200 s"));
    let (printed, jobs) = simulated((CAPS, "", ""), "time,low_w,high_w\n0,,45\n", &profiles);
    assert_eq!(jobs, ["1 0 240 8400 1", "2 240 480 8400 1"]);
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
}

/// Uses a budget that leaves 25 W above idle, and jobs that need 40 W each at full speed. `energybud` starts the
/// first job at 180 s, when 15 W for its walltime are saved. With caps from profiles it starts the first job at once
/// with 25 W, and the other one after it.
#[test]
fn a_budget_is_kept_with_caps_from_profiles() {
    let profiles = format!("{}cg,,node,25 W,240 s,25 W,6000 J,0 %,1\n", PROFILES.replace("80 s", "200 s"));
    let workload = workload(", \"walltime\": 300");
    let folder = folder(&[("w.json", &workload), ("p.toml", &platform(CAPS)), ("f.csv", &profiles)]);
    let starts = |set: &str| {
        let run = "run --trace w.json --platform p.toml --profiles f.csv --policy energybud --budget 27kJ --from 0s \
            --until 10min --out out --replace";
        let printed = lsim(folder.path(), &format!("{run} {set}"));
        assert!(printed.contains(": kept\n"), "{printed}");
        let jobs = read(folder.path(), "out/jobs.csv");
        ["starting_time", "finish_time"].map(|name| column(&jobs, name).join(" "))
    };
    assert_eq!(starts("")[0].split(' ').next(), Some("180"));
    assert_eq!(starts("--set caps=from-profile"), ["0 240", "240 480"]);
}

/// Lets both jobs share one CPU of four cores. The application takes 200 s and 80 W on all of them, so each job draws
/// 40 W. From 100 s to 160 s the CPU is capped at 60 W, which is 30 W each. With F = 1, 45 s of work are done and 55
/// s are left. The accelerator counts as a core of the node, so each job has two fifths of the idle draw of 10 W: 4 W
/// for 215 s. The energy is 8000 J.
#[test]
fn two_share_a_unit_and_its_cap() {
    let platform = "[[nodes]]\nname = \"n\"\ncores = 4\nidle = \"10 W\"\n\
        [[nodes.unit]]\nname = \"gpu\"\nhardware = \"p2000\"\nkind = \"accelerator\"\nnameplate = \"75 W\"\n\
        [[nodes.unit]]\nname = \"cpu\"\nhardware = \"node\"\nkind = \"cpu\"\nnameplate = \"90 W\"\n\
        caps = [\"10 W\", \"90 W\"]\n\
        [nodes.unit.application]\ncg = { power = \"80 W\", duration = \"200 s\" }\n";
    let workload = workload("").replace("\"res\": 1", "\"res\": 2").replace("200", "999");
    let folder = folder(&[("w.json", &workload), ("p.toml", platform), ("l.csv", LIMITS), ("f.csv", PROFILES)]);
    let printed = lsim(folder.path(), &format!("{RUN} --set cap-factor-permille=1000"));
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    assert_eq!(column(&jobs, "finish_time"), ["215", "215"], "{printed}");
    assert_eq!(column(&jobs, "consumed_energy_j"), ["8860", "8860"]);
}

/// Suspends the job that began last from 100 s to 160 s. It uses only its share of the idle draw meanwhile.
#[test]
fn one_is_suspended() {
    let (printed, jobs) = steered("", ", \"may_suspend\": true", "");
    assert_eq!(jobs, ["1 0 200 10000 1", "2 0 260 10600 1"]);
    assert!(printed.contains("\nsteering        0 changes of a node's caps, 1 suspended, 0 requeued\n"), "{printed}");
    // The energy is 2 x 10 W for 260 s, and 40 W for 400 s.
    assert!(printed.contains("\nenergy          21200.0 J\n"), "{printed}");
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
}

/// Requeues the job that began last: it starts again at 160 s, and its first 100 s count as energy.
#[test]
fn one_runs_again() {
    let (printed, jobs) = steered("", ", \"may_requeue\": true", "");
    assert_eq!(jobs, ["1 0 200 10000 1", "2 160 360 15000 1"]);
    assert!(printed.contains("\nsteering        0 changes of a node's caps, 0 suspended, 1 requeued\n"), "{printed}");
}

/// Checks that a job with a known time of 200 s is not started before a limit that falls at 100 s, unless the fall is
/// not announced.
#[test]
fn unannounced_limits_restrict_running_jobs() {
    let profiles = PROFILES.replace("80 s", "200 s");
    let simulated = |options| simulated(("", "", options), LIMITS, &profiles);
    let (printed, jobs) = simulated("--set preempt=nothing");
    assert_eq!(jobs, ["1 0 200 10000 1", "2 160 360 10000 1"]);
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
    let (printed, jobs) = simulated("--set preempt=nothing --unwarned");
    assert_eq!(jobs, ["1 0 200 10000 1", "2 0 200 10000 1"]);
    assert!(printed.contains("\noutside limits  30.00 % of the time\n"), "{printed}");
}

/// Uses jobs whose changes are not permitted or not possible: the limit is exceeded from 100 s to 160 s of 200 s.
#[test]
fn nothing_is_done() {
    for (caps, may, options) in [("", "", ""), (CAPS, ", \"may_suspend\": true", "--set preempt=nothing")] {
        let (printed, jobs) = steered(caps, may, options);
        assert_eq!(jobs, ["1 0 200 10000 1", "2 0 200 10000 1"]);
        assert!(
            !printed.contains("steering") && printed.contains("\noutside limits  30.00 % of the time\n"),
            "{printed}"
        );
    }
}

/// Suspends the second job from 100 s until the first one ends at 150 s. Its time limit is postponed by that time.
#[test]
fn the_time_limit_waits_for_a_suspended_job() {
    let (_, jobs) = steered("", ", \"may_suspend\": true, \"walltime\": 150", "");
    assert_eq!(jobs, ["1 0 150 7500 0", "2 0 200 8000 0"]);
}

/// Uses a node that starts its jobs 5 s late, so that each has done less of its work at 100 s.
#[test]
fn a_start_takes_time() {
    let (_, jobs) = steered("start-delay = \"5 s\"\n", ", \"may_suspend\": true", "");
    assert_eq!(jobs, ["1 5 205 10000 1", "2 5 265 10600 1"]);
}

/// Treats half of the jobs of a trace without data on suspension, which is every second job.
#[test]
fn treatment_from_the_command_line() {
    let (printed, jobs) = steered("", "", "--suspendable 50%");
    assert_eq!(jobs, ["1 0 200 10000 1", "2 0 260 10600 1"]);
    assert!(printed.contains("1 suspended"), "{printed}");
    let (printed, _) = steered("", "", "--requeueable 100%");
    assert!(printed.contains("1 requeued"), "{printed}");
}

/// Checks that equal runs give equal bytes.
#[test]
fn equal_runs_are_equal() {
    let (platform, workload) = (platform(CAPS), workload(", \"may_suspend\": true"));
    let folder = folder(&[("w.json", &workload), ("p.toml", &platform), ("l.csv", LIMITS), ("f.csv", PROFILES)]);
    let once = |out: &str| {
        lsim(folder.path(), &RUN.replace("--out out", &format!("--out {out}")));
        ["jobs.csv", "draw.csv"].map(|name| read(folder.path(), &format!("{out}/{name}")))
    };
    assert_eq!(once("a"), once("b"));
}

#[test]
fn refusals() {
    let (platform, workload) = (platform(""), workload(""));
    let folder = folder(&[("w.json", &workload), ("p.toml", &platform), ("l.csv", LIMITS), ("f.csv", "application\n")]);
    refused(folder.path(), RUN, 1, "lsim: f.csv: line 1: column `size` is missing");
    let printed = lsim(folder.path(), &format!("{RUN} --fillers 101%"));
    assert!(printed.starts_with("exit 125") && printed.contains("`101%` is not a share of the jobs"), "{printed}");
    let printed = lsim(folder.path(), &format!("{RUN} --explore 2.25%"));
    assert!(
        printed.starts_with("exit 125") && printed.contains("`2.25%` is not a share: write 0% to 100%"),
        "{printed}"
    );
}
