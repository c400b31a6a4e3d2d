//! Scripts and commands that are sent with their jobs, and lines for a shell.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use limo_tests::{Cluster, Submitter, until};

fn write(submitter: &Submitter, name: &str, text: &str) {
    fs::write(submitter.path(name), text).expect("written");
}

#[test]
fn a_script_brings_its_options_and_the_command_line_wins() {
    let cluster = Cluster::of_one_node(4);
    let submitter = cluster.submitter();
    let script = "#!/bin/sh\n#LIMO -c 3 -J 'in the script' # three\n#LIMO --size big\n\necho \"$LIMO_JOB_NAME\" \
                  $LIMO_CPUS \"$@\"\n#LIMO -c 1\n";
    write(submitter, "job.sh", script);
    let said = submitter.lrun(&["--script", "job.sh", "--", "a b", "-c"]).succeeded();
    assert_eq!(said, "in the script 3 a b -c\n");
    let user = submitter.job(1)["user"].as_str().expect("a name").to_owned();
    assert_eq!(submitter.job(1)["application"], format!("{user}+job.sh+_+-c"));
    let said = submitter.lrun(&["-c", "2", "--job-name=mine", "--script", "job.sh"]).succeeded();
    assert_eq!(said, "mine 2\n");
    write(submitter, "job.sh", "#!/bin/sh\n#LIMO -c 3\n#LIMO --nonsense\n");
    submitter.lrun(&["--script", "job.sh"]).failed("job.sh:3: unexpected argument '--nonsense' found");
    write(submitter, "job.sh", "#!/bin/sh\n#LIMO --detach\n#LIMO -o %j.txt\necho detached\n");
    assert_eq!(submitter.lrun(&["--script", "job.sh"]).succeeded(), "3\n");
    assert_eq!((submitter.wait(3), submitter.read("3.txt")), (Some(0), "detached\n".into()));
}

#[test]
fn the_submitted_script_runs_and_is_removed() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let blocker = submitter.detach(&["sh", "-c", "until [ -e go ]; do sleep 0.02; done"]);
    write(submitter, "job.sh", "#!/bin/sh\necho first; echo $0; stat -c '%a %U' $0 $(dirname $0)\n");
    let job = submitter.detach(&["--script", "job.sh"]);
    write(submitter, "job.sh", "#!/bin/sh\necho second\n");
    write(submitter, "go", "");
    assert_eq!((submitter.wait(blocker), submitter.wait(job)), (Some(0), Some(0)));
    let said = submitter.read(format!("limo-{job}.out"));
    let lines: Vec<&str> = said.lines().collect();
    let user = submitter.job(job)["user"].as_str().expect("a user").to_owned();
    let private = format!("700 {user}");
    assert_eq!((lines[0], &lines[2..]), ("first", &[private.as_str(), private.as_str()][..]), "{said}");
    assert!(lines[1].ends_with("/job.sh"), "{said}");
    until("the script is gone", || (!std::path::Path::new(lines[1]).parent()?.exists()).then_some(()));
}

#[test]
fn a_script_is_its_jobs_users() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = crate::users::other(&cluster) else { return };
    let place = tempfile::tempdir().expect("a directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let script = place.path().join("who.sh");
    fs::write(&script, "#!/bin/sh\nstat -c %U $0 $(dirname $0); id -un\n").expect("written");
    let said = other.run("lrun", &["--script", &script.display().to_string()]).succeeded();
    let names: Vec<&str> = said.lines().collect();
    assert!(names.len() == 3 && names.iter().all(|name| *name == names[2]) && names[2] != "root", "{said}");
}

#[test]
fn a_line_is_run_by_a_shell() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let ran = submitter.lrun(&["--wrap", "echo a; echo b >&2; exit 4"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(4), "a\n", "b\n"));
    assert_eq!(submitter.job(1)["name"], "wrap");
    submitter.lrun(&["--wrap", "true", "x"]).failed("cannot be used with");
}

#[test]
fn a_command_is_taken_along() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let original = ["/usr/bin/echo", "/bin/echo"].into_iter().find(|path| fs::exists(path).is_ok_and(|found| found));
    fs::copy(original.expect("every Linux has it"), submitter.path("my-echo")).expect("copied");
    let blocker = submitter.detach(&["sh", "-c", "until [ -e go ]; do sleep 0.02; done"]);
    let job = submitter.detach(&["--bcast", "./my-echo", "taken", "along"]);
    fs::remove_file(submitter.path("my-echo")).expect("there");
    write(submitter, "go", "");
    assert_eq!((submitter.wait(blocker), submitter.wait(job)), (Some(0), Some(0)));
    assert_eq!(submitter.read(format!("limo-{job}.out")), "taken along\n");
    let user = submitter.job(job)["user"].as_str().expect("a name").to_owned();
    assert_eq!(submitter.job(job)["application"], format!("{user}+my-echo+taken+along"));
    submitter.lrun(&["--bcast", "no-such-program"]).failed("command not found: no-such-program");
}

#[test]
fn files_that_cannot_travel() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lrun(&["--script", "nowhere.sh"]).failed("cannot read nowhere.sh: No such file");
    write(submitter, "plain", "echo\n");
    submitter.lrun(&["--script", "plain"]).failed("plain does not begin with `#!`");
    write(submitter, "large.sh", &format!("#!/bin/sh\n{}", "#\n".repeat(600_000)));
    submitter.lrun(&["--script", "large.sh"]).failed("large.sh has more than 1048576 bytes");
    write(submitter, "nearly.sh", &format!("#!/bin/sh\n{}", "#".repeat(1_048_500)));
    submitter.lrun(&["--script", "nearly.sh"]).failed("nearly.sh (1048510 bytes), its arguments and the");
    write(submitter, "odd.sh", "#!/no/such/interpreter\n");
    let odd = submitter.lrun(&["--script", "odd.sh"]);
    assert!(
        odd.code == Some(127) && odd.stderr.contains("odd.sh was sent with the job, but the interpreter"),
        "{odd:?}"
    );
}
