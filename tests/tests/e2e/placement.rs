//! Placement of jobs: exclusive nodes, and GPUs.

use limo_tests::{Cluster, Setup, finish, until};

#[test]
fn an_exclusive_job_has_its_node_alone() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let await_state = |job: u64, state: &str| {
        until(&format!("job {job} is {state}"), || (submitter.state(job) == state).then_some(()));
    };
    let first = submitter.detach(&["sleep", "1000"]);
    await_state(first, "running");
    // The job has all cores of its node, unless it requests fewer.
    let alone = submitter.detach(&["--exclusive", "sh", "-c", "echo $LIMO_CPUS > cpus; sleep 1000"]);
    until("it is told why it waits", || (submitter.job(alone)["wait_kind"] == "resources").then_some(()));
    submitter.lrun(&["-I", "--exclusive", "true"]).failed("every unit that can run it is taken");
    submitter.lq(&["cancel", &first.to_string()]).succeeded();
    await_state(alone, "running");
    until("it has begun", || (submitter.read("cpus") == "4\n").then_some(()));
    let beside = submitter.detach(&["true"]);
    until("nobody is beside it", || (submitter.job(beside)["wait_kind"] == "resources").then_some(()));
    submitter.lq(&["cancel", &alone.to_string()]).succeeded();
    assert_eq!(submitter.wait(beside), Some(0));
    // The job has one core of four, but no other job comes to the node.
    let one = submitter.detach(&["--exclusive", "-c", "1", "sh", "-c", "echo $LIMO_CPUS > one; sleep 1000"]);
    await_state(one, "running");
    until("it has begun", || (submitter.read("one") == "1\n").then_some(()));
    submitter.lrun(&["-I", "true"]).failed("every unit that can run it is taken");
    submitter.lq(&["cancel", &one.to_string()]).succeeded();
}

/// A run at a requested cap is known as the application's profile at this cap.
#[test]
fn a_job_runs_at_the_cap_that_it_asks_for() {
    let hardware = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");
    let cluster = Setup::default().node("n1", &["--hardware", hardware]).start();
    let submitter = cluster.submitter();
    for policy in ["limo", "fifo", "easy", "conservative"] {
        submitter.lconf(&["set", "policy", policy]).succeeded();
        submitter.lrun(&["--app", policy, "--cap", "30W", "sleep", "0.1"]).succeeded();
    }
    let profiles = submitter.lconf(&["profile", "export"]).succeeded();
    let at_cap = |app: &str| profiles.lines().any(|line| line.starts_with(&format!("{app},,capped,1,,30 W,")));
    assert!(["limo", "fifo", "easy", "conservative"].iter().all(|app| at_cap(app)), "{profiles}");
    let refused = submitter.lrun(&["--cap", "5W", "true"]);
    refused.failed("no unit that the job may use can be held at 5.0 W (caps: 10.0 W to 60.0 W)");
    submitter.lrun(&["--cap", "30W", "--gpus", "1", "true"]).failed("no --gres");
}

/// Without a cap the application draws 55 W: 10 W times 4 is the highest explored cap below, then 10 W times 2.82.
#[test]
fn only_jobs_that_allow_it_explore_caps() {
    let hardware = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");
    let cluster = Setup::default().node("n1", &["--hardware", hardware]).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["profile", "set", "ex", "capped", "--duration", "1s", "--power", "55W"]).succeeded();
    submitter.lconf(&["set", "explore", "100%"]).succeeded();
    assert!(submitter.lconf(&["show"]).succeeded().contains("explore  100% of the jobs that allow it\n"));
    let explained = |options: &[&str]| {
        let job = submitter.detach(&[options, &["--app", "ex", "sleep", "1000"]].concat());
        until("it runs", || (submitter.state(job) == "running").then_some(()));
        let explained = submitter.lq(&["explain", &job.to_string()]).succeeded();
        submitter.lq(&["cancel", &job.to_string()]).succeeded();
        submitter.wait(job);
        explained
    };
    for policy in ["limo", "fifo", "easy", "conservative"] {
        submitter.lconf(&["set", "policy", policy]).succeeded();
        let (plain, explores) = (explained(&[]), explained(&["--explore"]));
        assert!(plain.contains("is running on n1/cpu\n"), "{policy}: {plain}");
        assert!(explores.contains("is running on n1/cpu; explores cap 40.0 W\n"), "{policy}: {explores}");
    }
    // Cancelled runs are not learned, others are, and the next job explores the next cap.
    for cap in ["40 W", "28.2 W"] {
        submitter.lrun(&["--explore", "--app", "ex", "sleep", "0.1"]).succeeded();
        until(&format!("a run at {cap} is learned"), || {
            let profiles = submitter.lconf(&["profile", "export"]).succeeded();
            profiles.lines().any(|line| line.starts_with(&format!("ex,,capped,1,,{cap},"))).then_some(())
        });
    }
    submitter.lconf(&["set", "explore", "101%"]).failed("`101%` is not a share: write 0% to 100%");
    submitter.lrun(&["--explore", "--cap", "30W", "true"]).failed("cannot be used with");
}

/// A filler that measures starts when the draw falls below the lower limit. Only `limo` lets it wait.
#[test]
fn an_application_is_measured_below_the_lower_limit() {
    let hardware = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");
    let cluster = Setup::default().node("n1", &["--hardware", hardware]).start();
    let submitter = cluster.submitter();
    let measure = ["profile", "measure", "cg", "--nodes", "n1", "--caps", "20W,30W", "--filler", "--", "sleep", "0.1"];
    submitter.lconf(&["set", "policy", "easy"]).succeeded();
    submitter.lconf(&measure).failed("the policy easy starts fillers like other jobs, at any draw");
    submitter.lconf(&["set", "policy", "limo"]).succeeded();
    let measuring = submitter.command("lconf", &measure).spawn();
    let waits = || (submitter.jobs().iter().filter(|job| job["wait_kind"] == "filler").count() == 6).then_some(());
    until("its runs wait for a lower limit", waits);
    submitter.lconf(&["set", "limits", "30W", "100W"]).succeeded();
    let measured = finish(measuring.expect("it starts")).succeeded();
    let profiles = submitter.lconf(&["profile", "export"]).succeeded();
    for cap in ["20 W", "30 W"] {
        let at_cap = profiles.lines().find(|line| line.starts_with(&format!("cg,,capped,1,,{cap},")));
        assert!(at_cap.is_some_and(|line| line.ends_with(",3")), "three runs at {cap}: {measured}{profiles}");
    }
}

#[test]
fn an_application_is_measured_at_several_caps_on_a_node() {
    let hardware = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/capped.toml");
    let cluster = Setup::default().node("n1", &["--hardware", hardware]).start();
    let submitter = cluster.submitter();
    let sweep = |caps: &str, command: &[&str]| {
        let sweep = ["profile", "measure", "cg", "--size", "C", "--nodes", "n1", "--caps", caps, "--"];
        submitter.lconf(&[&sweep, command].concat())
    };
    let shown = sweep("20W,30W", &["sleep", "0.1"]).succeeded();
    let profiles = submitter.lconf(&["profile", "export"]).succeeded();
    for cap in ["20 W", "30 W"] {
        let at_cap = profiles.lines().find(|line| line.starts_with(&format!("cg,C,capped,1,,{cap},")));
        assert!(at_cap.is_some_and(|line| line.ends_with(",3")), "three runs at {cap}: {profiles}");
    }
    assert!(shown.contains("20.0 W") && shown.contains("learned"), "{shown}");
    sweep("20W", &["false"]).failed("3 of 3 runs failed, the first of them job 7");
    sweep("5W", &["true"]).failed("the run at 5.0 W on n1 cannot be submitted: ");
    assert_eq!(submitter.lq(&["--noheader"]).succeeded(), "", "nothing is left behind");
}

/// Starts one node of 8 cores with two GPUs, each an `a100`.
fn two_gpus() -> Cluster {
    let hardware = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/newcomer.toml");
    Setup::default().node("n1", &["--hardware", hardware]).start()
}

#[test]
fn jobs_on_gpus_run_side_by_side_or_wait_for_all_that_they_ask_for() {
    let cluster = two_gpus();
    let submitter = cluster.submitter();
    for policy in ["limo", "fifo", "limo-prototype", "easy", "conservative"] {
        submitter.lconf(&["set", "policy", policy]).succeeded();
        let show = |file: &str| format!("echo $CUDA_VISIBLE_DEVICES/$LIMO_JOB_GPUS/$LIMO_UNIT > {file}; sleep 1000");
        let begun = |file: &str, expected: &str| {
            until(&format!("{policy}: {file} is {expected}"), || (submitter.read(file) == expected).then_some(()));
            std::fs::remove_file(submitter.path(file)).expect("an own file");
        };
        let one = submitter.detach(&["--gres", "gpu:1", "sh", "-c", &show("one")]);
        begun("one", "0/0/gpu0\n");
        let other = submitter.detach(&["--gpus", "1", "sh", "-c", &show("other")]);
        begun("other", "1/1/gpu1\n");
        let both = submitter.detach(&["--gres", "gpu:a100:2", "sh", "-c", &show("both")]);
        until("it is told why it waits", || (submitter.job(both)["wait_kind"] == "resources").then_some(()));
        submitter.lrun(&["-I", "--gpus", "2", "true"]).failed("refused because it could not start at once");
        // The end of the first job does not free enough accelerators for a job of two.
        submitter.lq(&["cancel", &other.to_string()]).succeeded();
        until("it is over", || (submitter.state(other) == "cancelled").then_some(()));
        assert_eq!(submitter.state(both), "waiting", "{policy}");
        submitter.lq(&["cancel", &one.to_string()]).succeeded();
        begun("both", "0,1/0,1/gpu0,gpu1\n");
        submitter.lrun(&["-I", "--gpus", "a100", "true"]).failed("refused because it could not start at once");
        submitter.lq(&["cancel", &both.to_string()]).succeeded();
        // The output is complete, and the exit code is the job's own.
        let ran = submitter.lrun(&["--gpus", "2", "sh", "-c", "echo $LIMO_HARDWARE; exit 7"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "a100,a100\n"), "{policy}: {}", ran.stderr);
    }
}

#[test]
fn jobs_with_gpus_and_cores_wait_for_both() {
    let cluster = two_gpus();
    let submitter = cluster.submitter();
    for policy in ["limo", "fifo", "limo-prototype", "easy", "conservative"] {
        submitter.lconf(&["set", "policy", policy]).succeeded();
        let show = |file: &str| format!("echo $CUDA_VISIBLE_DEVICES/$LIMO_UNIT/$LIMO_CPUS > {file}; sleep 1000");
        let begun = |file: &str, expected: &str| {
            until(&format!("{policy}: {file} is {expected}"), || (submitter.read(file) == expected).then_some(()));
            std::fs::remove_file(submitter.path(file)).expect("an own file");
        };
        let first = submitter.detach(&["-c", "5", "--gres", "gpu:1", "sh", "-c", &show("first")]);
        begun("first", "0/gpu0,cpu/5\n");
        // A GPU is free, but not enough cores are.
        let second = submitter.detach(&["-c", "5", "--gres", "gpu:1", "sh", "-c", &show("second")]);
        until("it is told why it waits", || (submitter.job(second)["wait_kind"] == "resources").then_some(()));
        submitter.lq(&["cancel", &first.to_string()]).succeeded();
        begun("second", "0/gpu0,cpu/5\n");
        assert_eq!(submitter.job(second)["units"], serde_json::json!(["n1/gpu0", "n1/cpu"]), "{policy}");
        submitter.lq(&["cancel", &second.to_string()]).succeeded();
        until("it is over", || (submitter.state(second) == "cancelled").then_some(()));
        // Each task has its own cores, and all tasks share the accelerators.
        let tasks = ["-n", "4", "-c", "2", "--gpus", "2", "sh", "-c", "echo $LIMO_JOB_GPUS $LIMO_CPUS_PER_TASK"];
        assert_eq!(submitter.lrun(&tasks).succeeded(), "0,1 2\n".repeat(4), "{policy}");
    }
}

#[test]
fn several_tasks_share_the_gpus_of_their_node() {
    let cluster = two_gpus();
    let submitter = cluster.submitter();
    let show = ["-n", "4", "--gpus", "2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $LIMO_NNODES $LIMO_CPUS_PER_TASK"];
    assert_eq!(submitter.lrun(&show).succeeded(), "0,1 1 1\n".repeat(4));
}

#[test]
fn a_job_without_a_gpu_sees_none() {
    let cluster = two_gpus();
    let submitter = cluster.submitter();
    let shows = |options: &[&str]| {
        let show = [options, &["sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-none}:${LIMO_JOB_GPUS-none}"]].concat();
        let mut command = submitter.command("lrun", &show);
        command.env("CUDA_VISIBLE_DEVICES", "5").env("LIMO_JOB_GPUS", "5");
        finish(command.spawn().expect("a program that is built")).succeeded()
    };
    // A user's value stays if there are no accelerators to list.
    assert_eq!(shows(&[]), "5:none\n");
    assert_eq!(shows(&["--gres", "gpu"]), "0:0\n");
}

#[test]
fn gpus_that_no_node_has_are_refused() {
    let cluster = two_gpus();
    let submitter = cluster.submitter();
    let refused = |options: &[&str], why: &str| {
        submitter.lrun(&[options, &["true"]].concat()).failed(why);
    };
    let most = "on each node: the most of one type that a node offers it are 2 (a100), on `n1`";
    refused(&["--gres", "gpu:3"], &format!("the job asks for 3 accelerators of one type {most}"));
    refused(&["--gpus", "a100:4"], &format!("the job asks for 4 accelerators of a100 {most}"));
    refused(&["--gres", "gpu:k80:1"], "no node has the hardware k80 (hardware: a100, epyc-9354p)");
    refused(&["--gpus", "epyc-9354p:1"], "no node has the hardware epyc-9354p (hardware: a100, epyc-9354p)");
    refused(&["-N", "2", "--gpus", "2"], "the job asks for 2 nodes: 1 could run a part of it");
    refused(&["--gpus", "a100:1", "-C", "k80"], "--constraint k80 excludes `a100`");
    refused(&["--gres", "gpu:0"], "`0` is not a number of accelerators: write 1 or more");
    refused(&["--gres", "gpu:a100:x"], "`x` is not a number of accelerators: write 1 or more");
    refused(&["--gres", "nic:1"], "only accelerators can be requested, e.g. `gpu:2`");
    refused(&["--gpus", "0"], "`0` is not a number of accelerators: write 1 or more");
    refused(&["--gres", "gpu:1", "--gpus", "1"], "cannot be used with");
    refused(
        &["--gres", "gpu:1", "-c", "9"],
        "the job asks for 9 cores: the largest node it may use, `n1`, offers 8 cores",
    );
}
