//! Impossible requests are refused at once. The error contains the possible range.

use limo_tests::{Cluster, Setup};

#[test]
fn a_job_larger_than_every_node_is_refused_with_the_largest_offer() {
    let cluster = Setup::nodes(1, 2).node("big", &["--cpus", "4"]).start();
    let submitter = cluster.submitter();
    let offer = "the job asks for 5 cores: the largest node it may use, `big`, offers 4 cores";
    submitter.lrun(&["-c", "5", "true"]).failed(offer);
    submitter.lrun(&["--detach", "-c", "5", "true"]).failed(offer);
    submitter.lrun(&["-w", "n1", "-c", "3", "true"]).failed("`n1`, offers 2 cores");
    submitter.lrun(&["--mem", "1000 TiB", "true"]).failed("the job asks for 1 core and ");
    submitter.lrun(&["-w", "n9", "true"]).failed("there is no node `n9` (nodes: n1, big)");
    submitter.lrun(&["-C", "abacus", "true"]).failed("no node has the hardware abacus");
    assert_eq!(submitter.jobs().len(), 0);
    assert_eq!(submitter.detach(&["true"]), 1, "what was refused has used no number");
}

#[test]
fn a_wrong_command_line_is_reported_with_the_right_unit() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    submitter.lrun(&["--colour", "true"]).failed("unexpected argument '--colour'");
    submitter.lrun(&[]).failed("COMMAND");
    submitter.lrun(&["-t", "5", "true"]).failed("`5` has no unit");
    submitter.lrun(&["-t", "5 parsecs", "true"]).failed("unknown unit `parsecs`");
    submitter.lrun(&["--mem", "5 W", "true"]).failed("5 W");
    submitter.lq(&["show", "7"]).failed("7");
    submitter.lq(&["wait", "x"]).failed("'x'");
}

#[test]
fn a_second_node_of_the_same_name_is_refused() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let state = submitter.path("impostor");
    let arguments = ["--name", "n1", "--state-dir", state.to_str().expect("plain"), "--cpus", "64"];
    let impostor = submitter.run("lslave", &arguments);
    assert_eq!(impostor.code, Some(1), "{impostor:?}");
    assert!(impostor.stderr.contains("the node name `n1` is in use by another node"), "{impostor:?}");
    assert_eq!(submitter.lrun(&["echo", "here"]).succeeded(), "here\n");
}

#[test]
fn one_daemon_for_each_state_directory() {
    let cluster = Cluster::of_one_node(1);
    let state = cluster.state_dir().to_str().expect("plain");
    let second =
        cluster.submitter().run("lmaster", &["--state-dir", state, "--socket", &format!("{state}/second.sock")]);
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains(state), "{second:?}");
}
