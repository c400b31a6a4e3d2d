//! Used against requested memory and CPU time: recorded at the end of a job, and shown.

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Setup, Submitter, finish, programs, until};
use serde_json::Value;

/// Takes 64 MiB and computes for 0.3 s in user mode.
const WORK: &str = "$x = 'x' x (64 << 20); 1 while (times)[0] < 0.3";

fn number(job: &Value, key: &str) -> f64 {
    job[key].as_f64().unwrap_or_else(|| panic!("no `{key}` in {job}"))
}

fn slurm(submitter: &Submitter, line: &[&str]) -> String {
    finish(submitter.command_of(&programs::path("lslurm"), line).spawn().expect("a program that is built")).succeeded()
}

/// Returns the line of `lq show` for this fact.
fn fact(submitter: &Submitter, job: u64, name: &str) -> Option<String> {
    let shown = submitter.lq(&["show", &job.to_string()]).succeeded();
    shown.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start().to_owned()))
}

fn works(mut cluster: Cluster) {
    let submitter = cluster.submitter().clone();
    let job = submitter.detach(&["-c", "2", "--mem", "256M", "perl", "-e", WORK]);
    submitter.wait(job);
    let check = |submitter: &Submitter| {
        let found = submitter.job(job);
        let (user, system) = (number(&found, "cpu_user_s"), number(&found, "cpu_system_s"));
        // Perl counts ticks of the kernel, and a control group nanoseconds.
        assert!((0.25..5.0).contains(&user) && (0.0..5.0).contains(&system), "{found}");
        let peak = number(&found, "memory_peak_bytes") / f64::from(1 << 20);
        assert!((64.0..200.0).contains(&peak), "{peak} MiB");
        assert!((0.25..0.8).contains(&number(&found, "memory_efficiency")), "{found}");
        // One process cannot use more than one of the two cores; the clocks of the kernel differ a little.
        assert!((0.0..=0.6).contains(&number(&found, "cpu_efficiency")), "{found}");
        assert_eq!((number(&found, "node_count"), number(&found, "total_cores")), (1.0, 2.0));
        let cpu = fact(submitter, job, "CPU time ").expect("a line");
        assert!(cpu.contains("(user ") && cpu.ends_with(" % of 2 cores"), "{cpu}");
        let memory = fact(submitter, job, "peak memory ").expect("a line");
        assert!(memory.contains(" MiB, ") && memory.ends_with(" % of 256 MiB"), "{memory}");
    };
    check(&submitter);
    cluster.kill_master();
    cluster.start_master();
    check(&submitter);
    let id = job.to_string();
    let text = slurm(&submitter, &["sacct", "-nPX", "-j", &id, "-o", "MaxRSS,AveRSS,TotalCPU,UserCPU,ReqMem"]);
    let columns: Vec<&str> = text.trim_end().split('|').collect();
    let [max, mean, total, user, requested] = columns.as_slice() else { panic!("{text}") };
    assert_eq!((max, *requested), (mean, "256M"));
    assert!(max.ends_with(['K', 'M']), "{text}");
    assert!(total.starts_with("00:0") && user.starts_with("00:0") && *user != "00:00:00", "{text}");
    let text = slurm(&submitter, &["seff", &id]);
    assert!(text.starts_with(&format!("Job ID: {id}\nCluster: limo\n")), "{text}");
    assert!(
        text.contains("\nState: COMPLETED (exit code 0)\nNodes: 1\nCores per node: 2\nCPU Utilized: 00:00:0"),
        "{text}"
    );
    assert!(text.ends_with("% of 256.00 MB\n"), "{text}");
}

#[test]
fn used_memory_and_cpu_time_are_recorded_without_control_groups() {
    works(Cluster::of_one_node(2));
}

#[test]
fn used_memory_and_cpu_time_are_recorded_with_control_groups() {
    works(Setup::nodes(1, 2).with_groups().start());
}

#[test]
fn the_parts_of_a_job_add_their_cpu_time_and_the_highest_peak_counts() {
    let cluster = Setup::nodes(2, 1).start();
    let submitter = cluster.submitter();
    let job = submitter.detach(&["-N", "2", "--mem", "256M", "perl", "-e", WORK]);
    submitter.wait(job);
    let found = submitter.job(job);
    assert!((0.6..9.0).contains(&number(&found, "cpu_user_s")), "{found}");
    assert!(number(&found, "memory_efficiency") < 0.8, "that of one node: {found}");
    assert_eq!((number(&found, "node_count"), number(&found, "total_cores")), (2.0, 2.0));
    let id = job.to_string();
    let text = slurm(submitter, &["sacct", "-nPX", "-j", &id, "-o", "AveRSS,NNodes,NCPUS,WorkDir"]);
    let directory = submitter.path("").display().to_string();
    assert_eq!(text, format!("|2|2|{}\n", directory.trim_end_matches('/')));
}

#[test]
fn a_job_that_did_not_run_has_used_nothing() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let job = submitter.detach(&["-H", "-c", "2", "true"]);
    let found = submitter.job(job);
    assert_eq!((number(&found, "node_count"), number(&found, "total_cores")), (1.0, 2.0), "it needs them");
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    let found = submitter.job(job);
    assert!(found["memory_peak_bytes"].is_null() && found["cpu_user_s"].is_null(), "{found}");
    assert_eq!(fact(submitter, job, "CPU time "), None);
}

#[test]
fn a_running_job_and_its_steps_have_figures_so_far() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Requirement::Root, "only root can make control groups");
    }
    let cluster = Setup::nodes(1, 2).with_groups().start();
    if cluster.node_report("n1").is_none_or(|report| report["containment"]["memory"] != true) {
        return skip(Requirement::ControlGroups, "the control groups of this machine do not count memory");
    }
    let submitter = cluster.submitter();
    let work = "$x = 'x' x (32 << 20); open F, '>taken'; 1 while 1";
    let script = format!("{} -n 1 perl -e \"{}\"", programs::path("lrun").display(), work.replace('$', "\\$"));
    let job = submitter.detach(&["-c", "2", "--mem", "256M", "--batch", "sh", "-c", &script]);
    until("the step has its memory", || submitter.path("taken").exists().then_some(()));
    // 10 ms of CPU time may be too little for the clock of the kernel.
    let cpu = until("it has used CPU time", || fact(submitter, job, "CPU time ").filter(|cpu| !cpu.starts_with("0 ")));
    assert!(cpu.contains("(user ") && cpu.ends_with(") so far"), "{cpu}");
    let memory = fact(submitter, job, "memory used ").expect("a line");
    assert!(memory.contains(" MiB now, at most "), "{memory}");
    let so_far = submitter.job(job)["used_so_far"].clone();
    assert_eq!((&so_far["nodes"], &so_far["nodes_answered"]), (&1.into(), &1.into()), "{so_far}");
    let bytes = ["memory_bytes", "memory_peak_bytes"].map(|key| number(&so_far, key));
    assert!(bytes.iter().all(|bytes| (f64::from(32 << 20)..f64::from(256 << 20)).contains(bytes)), "{so_far}");
    assert!(number(&so_far, "cpu_user_s") > 0.0, "{so_far}");
    for (named, shown) in [(format!("{job}"), format!("{job}.0")), (format!("{job}.batch"), format!("{job}.batch"))] {
        let line = slurm(submitter, &["sstat", "-nP", "-j", &named, "-o", "JobID,MaxRSS,NNodes"]);
        let cells: Vec<&str> = line.trim().split('|').collect();
        let [number, memory, nodes] = cells[..] else { panic!("{line}") };
        assert_eq!((number, nodes), (shown.as_str(), "1"));
        let size: f64 = memory.trim_end_matches(|letter: char| letter.is_alphabetic()).parse().expect("a size");
        assert!(memory.ends_with('M') && (32.0..200.0).contains(&size) || memory.ends_with('K'), "{memory}");
    }
    let line = ["sstat", "-j", "99"];
    let none = finish(submitter.command_of(&programs::path("lslurm"), &line).spawn().expect("a program that is built"));
    assert_eq!(none.stderr, "sstat: error: couldn't get steps for job 99\n");
    submitter.lq(&["cancel", &job.to_string()]).succeeded();
    submitter.wait(job);
}
