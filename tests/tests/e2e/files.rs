//! Streams of a job in files on its node.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use limo_tests::{Cluster, Ran};

const BOTH: [&str; 3] = ["sh", "-c", "echo out; echo err >&2"];

fn with<'a>(options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    options.iter().chain(command).copied().collect()
}

#[test]
fn an_attached_job_writes_to_files() {
    let cluster = Cluster::of_one_node(2);
    let submitter = cluster.submitter();
    let check = |options: &[&str], stdout: &str, stderr: &str| {
        let ran = submitter.lrun(&with(options, &BOTH));
        assert_eq!(ran, Ran { code: Some(0), stdout: stdout.into(), stderr: stderr.into() }, "{options:?}");
    };
    check(&["-o", "both-%j.txt"], "", "");
    assert_eq!(submitter.read("both-1.txt"), "out\nerr\n", "one file for both, and neither writes over the other");
    check(&["-J", "sim", "-o", "%x.%N.%4j.%n%t%%"], "", "");
    assert_eq!(submitter.read("sim.n1.0002.00%"), "out\nerr\n");
    check(&["-e", "errors"], "out\n", "");
    assert_eq!(submitter.read("errors"), "err\n");
    check(&["-o", "o", "-e", "e"], "", "");
    assert_eq!((submitter.read("o"), submitter.read("e")), ("out\n".into(), "err\n".into()));
    check(&["-o", "made/for/o", "-e", "made/e"], "", "");
    assert_eq!((submitter.read("made/for/o"), submitter.read("made/e")), ("out\n".into(), "err\n".into()));
    check(&["-n", "2", "-o", "several/%t/o"], "", "");
    assert_eq!(submitter.read("several/1/o"), "out\nerr\n");
    check(&["-o", "none"], "", "");
    check(&["-e", "none"], "out\n", "");
    assert!(!submitter.path("none").exists());
}

#[test]
fn output_files_are_truncated_or_kept() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    for (mode, expected) in
        [(&[][..], "new\n"), (&["--open-mode", "append"], "old\nnew\n"), (&["--open-mode", "truncate"], "new\n")]
    {
        fs::write(submitter.path("log"), "old\n").expect("written");
        submitter.lrun(&with(&["-o", "log"], &with(mode, &["echo", "new"]))).succeeded();
        assert_eq!(submitter.read("log"), expected, "{mode:?}");
    }
}

#[test]
fn input_comes_from_a_file_and_lruns_own_is_left_alone() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    fs::write(submitter.path("in-1"), "from a file\n").expect("written");
    let ran = submitter.shell("echo for the next | { $LRUN -i in-%j cat; cat; }").succeeded();
    assert_eq!(ran, "from a file\nfor the next\n");
    let missing = submitter.lrun(&["-i", "in-%j", "cat"]);
    let path = submitter.path("in-2");
    assert!(
        missing.code == Some(126) && missing.stderr.contains(&format!("cannot open {}", path.display())),
        "{missing:?}"
    );
    fs::create_dir(submitter.path("in-3")).expect("made");
    let directory = submitter.lrun(&["-i", "in-%j", "cat"]);
    assert!(directory.code == Some(126) && directory.stderr.contains("in-3: Is a directory"), "{directory:?}");
    assert_eq!(submitter.lrun(&["-i", "none", "cat"]).succeeded(), "");
}

#[test]
fn a_detached_job_writes_to_its_files() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    fs::write(submitter.path("in"), "from a file\n").expect("written");
    let script = ["sh", "-c", "cat; echo err >&2"];
    let one = submitter.detach(&with(&["-i", "in", "-o", "one-%j"], &script));
    let two = submitter.detach(&with(&["-e", "two-%j"], &script));
    let none = submitter.detach(&with(&["-o", "none"], &script));
    for job in [one, two, none] {
        assert_eq!(submitter.wait(job), Some(0));
    }
    assert_eq!(submitter.read(format!("one-{one}")), "from a file\nerr\n");
    assert_eq!(
        (submitter.read(format!("limo-{two}.out")), submitter.read(format!("two-{two}"))),
        ("".into(), "err\n".into())
    );
    for job in [one, none] {
        assert!(
            !submitter.path(&format!("limo-{job}.out")).exists()
                && !submitter.path(&format!("limo-{job}.err")).exists()
        );
    }
}

/// Tests a node that runs as root. A job opens only files that its user may open, as its user and with its umask.
#[test]
fn files_are_opened_as_the_jobs_user() {
    let cluster = Cluster::of_one_node(1);
    let Some(other) = crate::users::other(&cluster) else { return };
    let place = tempfile::tempdir().expect("a directory");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let closed = place.path().join("closed");
    let refused = other.run("lrun", &["-o", &closed.display().to_string(), "true"]);
    let reason = format!("cannot open {}: Permission denied", closed.display());
    assert!(refused.code == Some(126) && refused.stderr.contains(&reason), "{refused:?}");
    assert!(!closed.exists());
    let secret = other.run("lrun", &["-i", "/etc/shadow", "cat"]);
    assert!(secret.code == Some(126) && secret.stderr.contains("/etc/shadow: Permission denied"), "{secret:?}");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("own directory");
    let open = place.path().join("open");
    other.run("lrun", &["-o", &open.display().to_string(), "id", "-u"]).succeeded();
    let uid = fs::read_to_string(&open).expect("readable");
    assert_eq!(uid, format!("{}\n", std::os::unix::fs::MetadataExt::uid(&fs::metadata(&open).expect("there"))));
    assert_ne!(uid, "0\n");
}

#[test]
fn names_that_are_none_are_refused() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lrun(&["-o", "%q", "true"]).failed("`%q` is unknown");
    submitter.lrun(&["-e", "x%", "true"]).failed("a `%` is at the end");
    assert!(submitter.lq(&["-a", "--json"]).succeeded().contains("\"jobs\":[]"));
}
