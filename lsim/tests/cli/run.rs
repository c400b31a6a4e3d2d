//! `lsim run`: the summary, the files, and the effects of options. The schedules were calculated by hand.

use super::{SMALL, column, folder, lsim, read};

const NOTES: &str = "lsim: note: 1 jobs ran longer than their requested time: ended at it\n\
    lsim: note: 1 job refused: larger than the 4 processors of the platform (job 5: 8)\n";

/// Checks a small schedule. Job 2 waits for all processors until job 1 ends at 100 s, which is expected at 200 s. Job
/// 3 fits before that, job 4 does not. Waits are 0, 90, 0 and 170 s, slowdowns 1, 1.9, 1 and 470 / 300. The
/// processors are busy for 1000 of 4 x 500 s: 1000 s of 95 W and 1000 s of 190.738 W are 285,738 J.
#[test]
fn a_summary() {
    let folder = folder(&[("small.swf", SMALL)]);
    let expected = format!(
        "exit 0\n--- stdout\n\
        policy          easy\n\
        workload        small.swf\n\
        platform        4 nodes of energy-budget-2017, 4 processors\n\
        jobs            5 (3 completed, 1 ended at their requested time, 1 refused)\n\
        utilisation     50.00 %\n\
        AVEbsld         1.3667\n\
        mean wait       65.0 s\n\
        max wait        2min50s\n\
        makespan        8min20s\n\
        energy          0.079 kWh\n\
        --- stderr\n{NOTES}lsim: simulated in TIME; the results are in out\n"
    );
    assert_eq!(lsim(folder.path(), "run --trace small.swf --policy easy --out out"), expected);
    let jobs = read(folder.path(), "out/jobs.csv");
    assert_eq!(column(&jobs, "job_id"), ["5", "3", "1", "2", "4"]);
    assert_eq!(column(&jobs, "waiting_time"), ["", "0", "0", "90", "170"]);
    assert_eq!(column(&jobs, "success"), ["0", "1", "1", "1", "0"]);
    assert_eq!(column(&jobs, "requested_time"), ["300", "60", "200", "100", "300"]);
    assert_eq!(column(&jobs, "consumed_energy_j").get(1), Some(&"19073.8"));
}

#[test]
fn json_is_the_schedule() {
    let folder = folder(&[("small.swf", SMALL)]);
    let printed = lsim(folder.path(), "run --trace small.swf --policy easy --out out --json");
    let schedule = read(folder.path(), "out/schedule.json");
    let expected =
        format!("exit 0\n--- stdout\n{schedule}--- stderr\n{NOTES}lsim: simulated in TIME; the results are in out\n");
    assert_eq!(printed, expected);
    let value: serde_json::Value = serde_json::from_str(&schedule).expect("JSON");
    let keys = "jobs utilisation avebsld mean_wait_s max_wait_s makespan_s energy_j cost outside_limits_share wall_s peak_rss_bytes";
    for key in keys.split(' ') {
        assert!(value.get(key).is_some(), "{key}");
    }
    assert_eq!(value["energy_j"], serde_json::json!(285_738.0));
    assert_eq!(value["violations"], 0);
}

/// Uses a budget of 45 % of 4 x 203.12 W for 1000 s, which is 365,616 J. While there are jobs, until 500 s, 285,738 J
/// are used. Idle nodes use 190,000 J after that.
#[test]
fn a_budget_that_is_only_counted() {
    let folder = folder(&[("small.swf", SMALL)]);
    let run = "run --trace small.swf --policy easy --budget 45% --from 0s --until 1000s --out out --set lead=3s";
    let printed = lsim(folder.path(), run);
    assert!(
        printed.contains("\nbudget          0.132 kWh of 0.102 kWh spent from 0s to 16min40s: overspent\n"),
        "{printed}"
    );
    // The processors are busy for 1000 of 4 x 1000 s.
    assert!(printed.contains("\nutilisation     25.00 % from 0s to 16min40s\n"), "{printed}");
    assert!(printed.contains("lsim: note: `easy` ignores budgets: the energy is only counted\n"), "{printed}");
    assert!(printed.contains("lsim: note: --set lead: `easy` ignores it (it is for limo)\n"), "{printed}");
    let schedule: serde_json::Value = serde_json::from_str(&read(folder.path(), "out/schedule.json")).expect("JSON");
    assert_eq!(schedule["budget_periods"][0]["energy_j"], serde_json::json!(365_616.0));
    assert_eq!(schedule["window"]["energy_j"], serde_json::json!(475_738.0));
    let options = serde_json::json!({"lead": "3s", "budget": "45%", "from": "0s", "until": "16min40s"});
    assert_eq!(schedule["options"], options);
}

/// Checks that a result is replaced only on request.
#[test]
fn results_are_not_lost() {
    let folder = folder(&[("small.swf", SMALL)]);
    let run = |more: &str| lsim(folder.path(), &format!("run --trace small.swf --out out {more}"));
    assert!(run("--policy easy").starts_with("exit 0"));
    let kept = read(folder.path(), "out/schedule.json");
    let printed = run("--policy fifo");
    let told = "lsim: out already holds a result; add --replace to overwrite it, or name another folder with --out\n";
    assert!(printed.starts_with("exit 1\n--- stdout\n--- stderr\n") && printed.ends_with(told), "{printed}");
    assert_eq!(read(folder.path(), "out/schedule.json"), kept);
    assert!(run("--policy fifo --replace").starts_with("exit 0"));
    assert!(read(folder.path(), "out/schedule.json").contains("\"policy\": \"fifo\""));
}

/// Selects parts of a trace. Only job 2 is in the window from 10 s on, which becomes time zero. Only job 2 has the
/// selected user. At twice the load, job 3 comes at 10 s and waits for the first job.
#[test]
fn parts_of_a_trace() {
    let folder = folder(&[("small.swf", SMALL)]);
    let submitted = |part: &str| {
        let printed = lsim(folder.path(), &format!("run --trace small.swf --policy easy --out out --replace {part}"));
        assert!(printed.starts_with("exit 0"), "{printed}");
        let jobs = read(folder.path(), "out/jobs.csv");
        let pair = |(id, at): (&&str, &&str)| format!("{id}@{at}");
        column(&jobs, "job_id").iter().zip(&column(&jobs, "submission_time")).map(pair).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(submitted("--window 10s..20s"), "2@0");
    assert_eq!(submitted("--users 2"), "2@10");
    assert_eq!(submitted("--users 1,2 --first 2"), "1@0 2@10");
    assert_eq!(submitted("--first 3 --load 2"), "3@10 1@0 2@5");
}

/// Uses a price of 0.18 EUR/kWh: 285,738 J are 0.0793717 kWh. All four processors together (762.952 W) exceed the
/// limit of 700 W, for 100 of 500 s.
#[test]
fn prices_and_limits() {
    let files =
        [("small.swf", SMALL), ("p.csv", "time,price_eur_per_mwh\n0,180\n"), ("l.csv", "time,low_w,high_w\n0,,700\n")];
    let folder = folder(&files);
    let printed = lsim(folder.path(), "run --trace small.swf --policy easy --out out --prices p.csv --limits l.csv");
    assert!(
        printed.contains("lsim: note: `easy` ignores limits: the time outside of them is only counted\n"),
        "{printed}"
    );
    let schedule: serde_json::Value = serde_json::from_str(&read(folder.path(), "out/schedule.json")).expect("JSON");
    assert_eq!(schedule["cost"], serde_json::json!(0.014287));
    // Jobs 1 and 3 run from 20 s to 70 s, job 2 from 100 s to 200 s.
    assert_eq!(schedule["outside_limits_share"], serde_json::json!(0.3));
}

/// Runs a Batsim workload with its platform. On 2 hosts, the job that computes 1000 flop at 10 flop/s runs for 100 s.
#[test]
fn batsim_files() {
    let workload = r#"{"nb_res": 2, "jobs": [
        {"id": "w!1", "subtime": 0, "walltime": 200, "res": 2, "profile": "c"},
        {"id": "w!2", "subtime": 5, "walltime": 50, "res": 1, "profile": "d"}],
        "profiles": {"c": {"type": "parallel_homogeneous", "cpu": 1000, "com": 0}, "d": {"type": "delay", "delay": 20}}}"#;
    let host = |id| {
        format!(
            "<host id=\"{id}\" speed=\"10f\"><prop id=\"wattage_per_state\" value=\"95:190.738\"/><prop id=\"wattage_off\" value=\"9.75\"/></host>"
        )
    };
    let platform = format!(
        "<?xml version='1.0'?>\n<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">{}{}</zone></platform>",
        host("a"),
        host("b")
    );
    let folder = folder(&[("w.json", workload), ("p.xml", &platform)]);
    let printed = lsim(folder.path(), "run --trace w.json --platform p.xml --policy easy --out out");
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    assert_eq!(column(&jobs, "finish_time"), ["100", "120"]);
    assert_eq!(column(&jobs, "allocated_resources"), ["0-1", "0"]);
    let printed = lsim(folder.path(), "run --trace w.json --policy easy --out out --replace");
    assert_eq!(
        printed,
        "exit 1\n--- stdout\n--- stderr\nlsim: w.json: job `w!1`: profile `c` gives computation (`cpu`), but the hosts' speed is unknown: give Batsim's platform too\n"
    );
}
