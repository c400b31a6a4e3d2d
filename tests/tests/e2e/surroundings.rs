//! A job gets its submitter's surroundings: directory, umask, environment.

use limo_tests::{Cluster, finish};

#[test]
fn directory_and_environment_are_the_submitters() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    let here = submitter.directory.canonicalize().expect("it is there");
    assert_eq!(submitter.lrun(&["pwd"]).succeeded(), format!("{}\n", here.display()));
    assert_eq!(submitter.lrun(&["-D", "/", "pwd"]).succeeded(), "/\n");
    let nowhere = submitter.lrun(&["-D", "/no/such/place", "pwd"]);
    assert!(nowhere.code == Some(126) && nowhere.stderr.contains("/no/such/place"), "{nowhere:?}");
    let mut command = submitter.command("lrun", &["sh", "-c", "echo $COLOUR $LIMO_NODE $LIMO_UNIT $LIMO_JOB_ID"]);
    let child = command.env("COLOUR", "deep blue").spawn().expect("a program that is built");
    let text = finish(child).succeeded();
    assert!(text.starts_with("deep blue n1 cpu "), "{text}");
}

#[test]
fn the_umask_is_the_submitters() {
    let cluster = Cluster::of_one_node(1);
    let submitter = cluster.submitter();
    for mask in ["027", "077"] {
        let said = submitter.shell(&format!("umask {mask}; exec $LRUN sh -c umask")).succeeded();
        assert_eq!(said, format!("0{mask}\n"));
    }
}
