//! Licences of the master's settings: `lrun --licenses`, `lq explain`, `lconf status`, and Slurm's words for them.

use std::fs;
use std::os::unix::fs::symlink;

use limo_tests::{Cluster, Setup, Submitter, finish, until};
use serde_json::Value;

fn await_state(submitter: &Submitter, job: u64, state: &str) {
    until(&format!("job {job} is {state}"), || (submitter.state(job) == state).then_some(()));
}

fn await_reason(submitter: &Submitter, job: u64, expected: &str) {
    until(&format!("job {job} waits: {expected}"), || (submitter.job(job)["wait_reason"] == expected).then_some(()));
}

fn used(submitter: &Submitter) -> Value {
    let told = submitter.lconf(&["status", "--json"]).succeeded();
    let mut status: Value = serde_json::from_str(&told).expect("JSON");
    status["licences"].take()
}

fn write(path: &std::path::Path, count: u32) {
    fs::write(path, format!("[licence.matlab]\ncount = {count}\n[licence.ansys]\ncount = 1\n")).expect("written");
}

#[test]
fn jobs_wait_for_licences_that_others_hold_across_a_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    write(&settings, 3);
    let options = ["--config", settings.to_str().expect("text")];
    let mut cluster: Cluster = Setup::nodes(2, 2).master(&options).start();
    let submitter = cluster.submitter().clone();
    let holder = submitter.detach(&["-L", "matlab:2,ansys", "sleep", "1000"]);
    await_state(&submitter, holder, "running");
    let waiting = submitter.detach(&["--licenses", "matlab=2", "true"]);
    let reason = format!("licence: needs 2 of matlab, 2 of 3 are held by job {holder}");
    await_reason(&submitter, waiting, &reason);
    let behind = submitter.detach(&["-L", "matlab", "true"]);
    let kept = format!("licence: needs 1 of matlab, 2 of 3 are held, job {waiting} waits for them before it");
    await_reason(&submitter, behind, &kept);
    // Other jobs pass.
    submitter.lrun(&["true"]).succeeded();
    let explained = submitter.lq(&["explain", &waiting.to_string()]).succeeded();
    assert!(explained.contains(&reason) && explained.contains("licences     matlab:2\n"), "{explained}");
    assert!(submitter.lq(&["show", &holder.to_string()]).succeeded().contains("licences     ansys:1, matlab:2\n"));
    let status = submitter.lconf(&["status"]).succeeded();
    assert!(status.contains("licence    matlab: 2 of 3 held by 1 job, 2 jobs wait\n"), "{status}");
    assert_eq!(
        used(&submitter)[0],
        serde_json::json!({"name": "ansys", "total": 1, "held": 1, "holders": 1, "waiting": 0})
    );
    submitter.lrun(&["-L", "matlab:4", "true"]).failed("the job asks for 4 of the licence `matlab`: the cluster has 3");
    submitter.lrun(&["-L", "abaqus", "true"]).failed("there is no licence `abaqus` (licences: ansys, matlab)");
    submitter.lrun(&["-I", "-L", "ansys", "true"]).failed("the job must start at once, but its licences are in use");
    submitter.lrun(&["-L", "matlab,matlab", "true"]).failed("the job names the licence `matlab` twice");
    cluster.kill_master();
    cluster.start_master();
    cluster.await_node("n1");
    await_reason(&submitter, waiting, &reason);
    write(&settings, 5);
    cluster.reload_master();
    assert_eq!([submitter.wait(waiting), submitter.wait(behind)], [Some(0); 2]);
    submitter.lq(&["cancel", &holder.to_string()]).succeeded();
    until("the licences are free", || (used(&submitter)[1]["held"] == 0).then_some(()));
}

#[test]
fn commands_of_slurm_name_licences() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    write(&settings, 2);
    let cluster = Setup::nodes(1, 2).master(&["--config", settings.to_str().expect("text")]).start();
    let submitter = cluster.submitter();
    let slurm = |line: &[&str]| {
        let link = submitter.path(line[0]);
        if !link.exists() {
            symlink(limo_tests::programs::path("lslurm"), &link).expect("a link");
        }
        finish(submitter.command_of(&link, &line[1..]).spawn().expect("a program that is built")).succeeded()
    };
    let submit = ["sbatch", "--parsable", "-L", "matlab:2", "--wrap", "sleep 1000"];
    let [holder, waiting] = [(); 2].map(|()| slurm(&submit).trim().to_owned());
    await_state(submitter, holder.parse().expect("a number"), "running");
    let listed = || slurm(&["squeue", "-h", "-o", "%i %r %W", "-j", &waiting]);
    until("the job waits for licences", || (listed() == format!("{waiting} Licenses matlab:2\n")).then_some(()));
    let shown = slurm(&["scontrol", "show", "lic"]);
    let expected = "LicenseName=ansys\n    Total=1 Used=0 Free=1 Reserved=0 Remote=no\n\
                    LicenseName=matlab\n    Total=2 Used=2 Free=0 Reserved=0 Remote=no\n";
    assert_eq!(shown, expected);
    assert!(slurm(&["scontrol", "show", "job", &waiting]).contains(" Licenses=matlab:2 "));
    slurm(&["scancel", &holder, &waiting]);
}
