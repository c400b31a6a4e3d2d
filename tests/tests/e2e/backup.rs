//! A backup can be made while the master works. Only its owner can read it. A restored backup has the queue.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, until};

fn names_of(archive: &Path) -> Option<Vec<String>> {
    let listed = Command::new("tar").arg("-tf").arg(archive).output().ok()?;
    assert!(listed.status.success(), "{listed:?}");
    Some(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect())
}

#[test]
fn a_queue_is_restored_from_a_backup() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    submitter.lconf(&["set", "limits", "none", "5kW"]).succeeded();
    let done = submitter.detach(&["true"]);
    assert_eq!(submitter.wait(done), Some(0));
    let held: Vec<u64> = (0..3).map(|_| submitter.detach(&["-H", "true"])).collect();
    let profile = ["profile", "set", "cg", "xeon", "--duration", "10min", "--power", "41.5W"];
    submitter.lconf(&profile).succeeded();
    // These files are left from an earlier backup, and from an interrupted replacement of a file.
    fs::create_dir(cluster.state_dir().join("backup")).expect("made");
    fs::write(cluster.state_dir().join("backup/journal.db"), "half").expect("written");
    let said = submitter.lconf(&["backup", "limo.tar"]).succeeded();
    assert!(said.starts_with("limo.tar: ") && said.contains(" files, "), "{said}");
    let archive = submitter.path("limo.tar");
    assert_eq!(fs::metadata(&archive).expect("there").permissions().mode() & 0o777, 0o600);
    assert!(!submitter.path("limo.tar.part").exists());
    assert!(!cluster.state_dir().join("backup").exists(), "the master keeps nothing of it");
    let Some(names) = names_of(&archive) else {
        return skip(Requirement::Platform, "there is no tar to restore the backup with");
    };
    assert_eq!(names, ["journal.db", "profiles.db"]);
    // Later changes are not in the backup.
    submitter.lconf(&["set", "limits", "none", "6kW"]).succeeded();
    cluster.terminate_node("n1");
    cluster.terminate_master();
    let state = cluster.state_dir().to_owned();
    fs::remove_dir_all(&state).expect("wiped");
    fs::create_dir(&state).expect("a directory");
    let restored = Command::new("tar").arg("-xpf").arg(&archive).arg("-C").arg(&state).status().expect("tar");
    assert!(restored.success());
    cluster.start_master();
    cluster.start_node("n1");
    cluster.await_node("n1");
    let shown = submitter.lconf(&["show"]).succeeded();
    assert!(shown.contains("limits   at most 5000.0 W\n"), "{shown}");
    let waiting: Vec<u64> = submitter.jobs().iter().map(|job| job["id"].as_u64().expect("a number")).collect();
    assert_eq!(waiting, held);
    assert_eq!(submitter.state(done), "completed");
    assert!(submitter.lconf(&["profile", "list"]).succeeded().contains("cg"));
    submitter.lq(&["release", &held[0].to_string()]).succeeded();
    assert_eq!(submitter.wait(held[0]), Some(0));
    assert_eq!(submitter.detach(&["true"]), held[2] + 1, "numbers go on");
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_nothing_where_it_fails() {
    let mut cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter().clone();
    fs::write(submitter.path("mine"), "do not touch").expect("writable");
    submitter.lconf(&["backup", "mine"]).failed("mine already exists");
    assert_eq!(submitter.read("mine"), "do not touch");
    submitter.lconf(&["backup", "nowhere/limo.tar"]).failed("cannot write nowhere/limo.tar: No such file or directory");
    // A link to elsewhere is not followed.
    std::os::unix::fs::symlink("mine", submitter.path("link")).expect("a link");
    submitter.lconf(&["backup", "link"]).failed("link already exists");
    submitter.lconf(&["--json", "backup", "other.tar"]).failed("--json works only with");
    cluster.terminate_master();
    submitter.lconf(&["backup", "other.tar"]).failed("cannot");
    assert!(!submitter.path("other.tar").exists() && !submitter.path("other.tar.part").exists());
}

#[test]
fn jobs_run_while_backups_are_made() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let jobs: Vec<u64> = (0..20).map(|_| submitter.detach(&["sh", "-c", "echo x >> log"])).collect();
    for number in 0..3 {
        submitter.lconf(&["backup", &format!("backup{number}.tar")]).succeeded();
    }
    until("all have run", || (submitter.read("log").lines().count() == jobs.len()).then_some(()));
    assert_eq!(submitter.wait(*jobs.last().expect("twenty")), Some(0));
}
