//! The submit hook of the master: it changes, refuses and comments on submissions.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use limo_tests::{Cluster, Setup, until};
use serde_json::Value;
use tempfile::TempDir;

struct Hook {
    directory: TempDir,
    settings: PathBuf,
}

impl Hook {
    fn path(&self) -> PathBuf {
        self.directory.path().join("hook")
    }

    /// Replaces the script, which runs in its own directory.
    fn write(&self, script: &str) {
        let fresh = self.directory.path().join("hook.new");
        fs::write(&fresh, format!("#!/bin/sh\ncd {}\n{script}\n", self.directory.path().display())).expect("written");
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).expect("own file");
        // The kernel may still execute the old file.
        fs::rename(fresh, self.path()).expect("renamed");
    }
}

/// Two queues, and a hook with this script.
fn start(script: &str) -> (Cluster, Hook) {
    // Other users could rename a directory in one that all can write to, unless it is sticky.
    let directory = tempfile::Builder::new().prefix("limo-").tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    let hook = Hook { directory, settings };
    hook.write(script);
    let text = format!(
        "submit_hook = \"{}\"\nsubmit_hook_time_limit = \"5s\"\n[queue.short]\n[queue.long]\ndefault = true\n",
        hook.path().display()
    );
    fs::write(&hook.settings, text).expect("written");
    let cluster = Setup::nodes(1, 2).master(&["--config", hook.settings.to_str().expect("text")]).start();
    (cluster, hook)
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("written by the hook")).expect("JSON")
}

#[test]
fn a_hook_changes_warns_and_refuses() {
    let script = "cat > seen; grep -q '\"name\":\"bad\"' seen && { echo 'use another name' >&2; exit 1; }\n\
                  echo 'moved to the queue short' >&2; echo '{\"queue\": \"short\", \"time_limit_s\": 90, \"priority\": 5}'";
    let (cluster, hook) = start(script);
    let submitter = cluster.submitter();
    let detached = submitter.lrun(&["--detach", "-J", "good", "-t", "1h", "sleep", "0"]);
    assert_eq!(detached.stderr, "lrun: warning: moved to the queue short\n");
    let job = detached.succeeded().trim().parse().expect("a number");
    let report = submitter.job(job);
    // Users cannot raise priorities, but the site can.
    assert_eq!((&report["queue"], &report["time_limit_s"]), (&"short".into(), &90.0.into()), "{report}");
    assert_eq!(submitter.wait(job), Some(0));
    let seen = read(&hook.directory.path().join("seen"));
    assert_eq!((&seen["queue"], &seen["time_limit_s"]), (&Value::Null, &3600.0.into()), "{seen}");
    assert_eq!(seen["command"], serde_json::json!(["sleep", "0"]));
    let attached = submitter.lrun(&["echo", "out"]);
    assert_eq!(
        (attached.stdout.as_str(), attached.stderr.as_str()),
        ("out\n", "lrun: warning: moved to the queue short\n")
    );
    let refused = submitter.lrun(&["-J", "bad", "true"]);
    assert_eq!((refused.code, refused.stderr.as_str()), (Some(125), "lrun: error: use another name\n"));
}

#[test]
fn a_broken_hook_refuses_jobs_and_is_named() {
    let (cluster, hook) = start("echo '{\"quue\": 1}'");
    let submitter = cluster.submitter();
    let named = format!("the submit hook {} of the master ", hook.path().display());
    let refused = |words: &str| submitter.lrun(&["true"]).failed(&format!("{named}{words}"));
    refused("answered with wrong JSON: unknown field `quue`");
    until("the fault is logged", || {
        cluster.master_log().contains(&format!("a job was refused: {named}")).then_some(())
    });
    hook.write("kill -9 $$");
    refused("was ended by signal 9");
    hook.write("echo '{\"queue\": \"a b\"}'");
    refused("made a wrong job: the queue `a b` has the character ` `");
    hook.write("exec sleep 1000");
    refused("did not end within 5s and was killed");
    // Other clients are served meanwhile, and a repaired hook is used at once.
    hook.write("exit 0");
    submitter.lrun(&["true"]).succeeded();
    fs::set_permissions(hook.path(), Permissions::from_mode(0o777)).expect("own file");
    cluster.reload_master();
    until("the settings are refused", || cluster.master_log().contains("submit_hook cannot be used").then_some(()));
}

#[test]
fn submissions_of_a_client_keep_their_order_and_queries_do_not_wait_for_a_hook() {
    let script =
        "cat >> order; echo >> order; test -e gate || { echo > waits; while ! test -e gate; do sleep 0.01; done; }";
    let (cluster, hook) = start(script);
    let submitter = cluster.submitter();
    let first = submitter.spawn_lrun(&["--detach", "-J", "first", "true"]);
    until("the hook runs", || hook.directory.path().join("waits").exists().then_some(()));
    assert!(submitter.jobs().is_empty(), "the job is not accepted, and the master answers");
    fs::write(hook.directory.path().join("gate"), "").expect("written");
    assert_eq!(limo_tests::finish(first).succeeded(), "1\n");
    assert_eq!(submitter.detach(&["-J", "second", "true"]), 2);
    assert_eq!(submitter.wait(2), Some(0));
}
