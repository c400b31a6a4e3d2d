//! `lsim sweep --on lrun|sbatch` on a real cluster: the rows of a sweep on this machine, also after a loss.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use limo_tests::{Setup, Submitter, finish, until};

const SWEEP: &str = "policies = [\"easy\", \"conservative\", \"energybud\"]\nbudgets = [\"100%\", \"60%\"]\n\
    from = \"1h\"\nuntil = \"4h\"\nrecipes = [\"steady\"]\nseeds = [1, 2, 3, 4]\nnodes = 16\n\
    [recipe]\nmachine = 16\nspan = \"6h\"\n";

/// Configurations of [`SWEEP`].
const COUNT: usize = 24;

fn sweep(submitter: &Submitter, on: &str, out: &str) -> Command {
    let mut command = submitter.command("lsim", &["sweep", "s.toml", "--out", out, "--on", on, "--jobs", "3"]);
    let paths = std::env::join_paths([submitter.path("bin"), "/usr/bin".into(), "/bin".into()]).expect("paths");
    command.env("PATH", paths);
    command
}

fn rows(submitter: &Submitter, out: &str) -> BTreeSet<String> {
    let path = submitter.path(out).join("results.csv");
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn arrays_give_the_rows_of_this_machine_also_after_a_loss() {
    let cluster = Setup::nodes(2, 2).start();
    let submitter = cluster.submitter();
    fs::create_dir(submitter.path("bin")).expect("a directory");
    for (name, program) in [("lrun", "lrun"), ("sbatch", "lslurm")] {
        symlink(limo_tests::programs::path(program), submitter.path("bin").join(name)).expect("a link");
    }
    fs::write(submitter.path("s.toml"), SWEEP).expect("written");
    submitter.run("lsim", &["sweep", "s.toml", "--out", "here"]).succeeded();
    let expected = rows(submitter, "here");
    assert_eq!(expected.len(), COUNT + 1);

    for on in ["lrun", "sbatch"] {
        let told = finish(sweep(submitter, on, on).spawn().expect("lsim is built"));
        assert_eq!((told.code, rows(submitter, on)), (Some(0), expected.clone()), "{}", told.stderr);
        assert!(told.stderr.contains(&format!("lsim: {COUNT} simulations of ")), "{}", told.stderr);
    }
    let arrays: Vec<_> = submitter.jobs().into_iter().filter(|job| job["name"] == "sweep").collect();
    assert!(arrays.iter().all(|job| job["state"] == "completed"), "{arrays:?}");

    // A sweep that is killed, and an array that is cancelled: a further run does what is left, and only that.
    let mut killed = sweep(submitter, "lrun", "lost").spawn().expect("lsim is built");
    until("some rows are written", || (rows(submitter, "lost").len() > 3).then_some(()));
    killed.kill().expect("it is a child");
    killed.wait().expect("it is a child");
    submitter.lq(&["cancel", "--name", "sweep"]);
    let told = finish(sweep(submitter, "lrun", "lost").spawn().expect("lsim is built"));
    assert_eq!((told.code, rows(submitter, "lost")), (Some(0), expected), "{}", told.stderr);
    let done = told.stderr.lines().find(|line| line.contains(" configurations: ")).expect("a count");
    assert!(!done.contains(" 0 done"), "{done}");
}
