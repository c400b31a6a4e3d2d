//! Permissions. The kernel tells the master the user of a caller. These tests need root to become another user.

use limo_tests::{Cluster, Person, Setup, until};
use nix::unistd::Group;

/// Unprivileged user that exists on every Linux.
const OTHER: &str = "daemon";

/// Returns this user with the clients. Skips with `None` if this test cannot become another user.
pub fn other(cluster: &Cluster) -> Option<Person> {
    Person::of(cluster.submitter(), OTHER, &["lrun", "lq", "lconf"])
}

#[test]
fn a_job_is_its_submitters() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = other(&cluster) else { return };
    let ran = other.run("lrun", &["sh", "-c", "id -u; id -g; id -Gn; head -c 1 /etc/shadow"]);
    let group = Group::from_gid(other.user.gid).expect("readable").expect("it has a name").name;
    assert_eq!(ran.stdout, format!("{}\n{}\n{group}\n", other.user.uid, other.user.gid), "{ran:?}");
    assert_eq!(ran.code, Some(1), "what only root may read stays closed: {ran:?}");
    assert_eq!(cluster.submitter().job(1)["user"], OTHER);
}

#[test]
fn the_tasks_of_a_job_are_its_submitters() {
    let cluster = Cluster::of_one_node(3);
    let Some(other) = other(&cluster) else { return };
    let ran = other.run("lrun", &["-n", "3", "sh", "-c", "id -u; head -c 1 /etc/shadow"]);
    assert_eq!((ran.code, ran.stdout), (Some(1), format!("{}\n", other.user.uid).repeat(3)), "{}", ran.stderr);
}

#[test]
fn a_node_refuses_jobs_of_root_and_of_small_numbers() {
    let options = ["--cpus", "1", "--root-jobs", "false", "--min-uid", "2"];
    let cluster = Setup::default().node("n1", &options).start();
    // The user has the number 1.
    let Some(other) = other(&cluster) else { return };
    let refused = cluster.submitter().lrun(&["true"]);
    assert!(refused.code == Some(126) && refused.stderr.contains("runs no jobs of root"), "{refused:?}");
    let refused = other.run("lrun", &["true"]);
    assert!(refused.code == Some(126) && refused.stderr.contains("`min_uid` of its settings is 2"), "{refused:?}");
}

#[test]
fn a_node_can_keep_jobs_from_new_privileges() {
    let privileges = ["-w", "n1", "grep", "NoNewPrivs", "/proc/self/status"];
    let cluster = Setup::nodes(1, 1).node("n2", &["--cpus", "1", "--no-new-privs", "true"]).start();
    assert_eq!(cluster.submitter().lrun(&privileges).succeeded(), "NoNewPrivs:\t0\n");
    let kept = cluster.submitter().lrun(&[&["-w", "n2"], &privileges[2..]].concat());
    assert_eq!(kept.succeeded(), "NoNewPrivs:\t1\n");
}

#[test]
fn users_cannot_end_other_jobs_or_change_the_cluster() {
    let cluster = Cluster::of_one_node(2);
    let Some(other) = other(&cluster) else { return };
    let submitter = cluster.submitter();
    let job = submitter.detach(&["sleep", "1000"]);
    until("the job runs", || (submitter.state(job) == "running").then_some(()));
    other.run("lq", &["cancel", &job.to_string()]).failed(OTHER);
    for change in [
        &["undo"][..],
        &["backup", "/tmp/limo-not-written.tar"],
        &["set", "limits", "1W", "2W"],
        &["drain", "n1", "--reason", "x"],
        &["set", "policy", "fifo"],
    ] {
        other.run("lconf", change).failed(OTHER);
    }
    assert_eq!(submitter.state(job), "running");
    let limits = submitter.lconf(&["show", "--json"]).succeeded();
    assert!(limits.contains("\"band_high_w\":null") && limits.contains("\"policy\":\"limo\""), "{limits}");
}

#[test]
fn users_cannot_release_operator_holds_or_depend_on_other_jobs() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = other(&cluster) else { return };
    let submitter = cluster.submitter();
    let foreign = submitter.detach(&["-H", "true"]);
    let own = other.run("lrun", &["--detach", "-H", "true"]).succeeded();
    let own = own.trim_end();
    other.run("lq", &["release", own]).succeeded();
    assert_ne!(submitter.wait(own.parse().expect("a number")), None);
    let own = other.run("lrun", &["--detach", "-H", "true"]).succeeded();
    let own = own.trim_end();
    submitter.lq(&["hold", own]).succeeded();
    other.run("lq", &["release", own]).failed("only an operator can release it");
    submitter.lq(&["release", own]).succeeded();
    let foreign = foreign.to_string();
    for verb in ["hold", "release", "requeue"] {
        other.run("lq", &[verb, &foreign]).failed(OTHER);
    }
    other.run("lrun", &["-d", &format!("after:{foreign}"), "true"]).failed(OTHER);
}
