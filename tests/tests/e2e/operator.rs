//! What operators do with nodes and settings, and what the cluster remembers of it.

use limo_tests::{Cluster, Setup};

fn reason_of(cluster: &Cluster, node: &str) -> Option<String> {
    cluster.node_report(node).expect("known")["reason"].as_str().map(str::to_owned)
}

#[test]
fn nodes_are_drained_all_or_none_and_say_why() {
    let cluster = Setup::nodes(3, 1).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["drain", "n[1-2,9]", "--reason", "new fans"]).failed("there is no node `n9` (nodes: n1, n2, n3)");
    assert_eq!(reason_of(&cluster, "n1"), None, "none");
    submitter.lconf(&["drain", "n[1-2]"]).failed("--reason <TEXT>");
    submitter.lconf(&["drain", "n[1-2]", "--reason", " "]).failed("say why in a few words");
    submitter.lconf(&["drain", "n[1-2", "--reason", "x"]).failed("a bracket without its partner");
    assert_eq!(submitter.lconf(&["drain", "n[1-2]", "--reason", "new fans"]).succeeded(), "");
    for node in ["n1", "n2"] {
        let reason = reason_of(&cluster, node).unwrap_or_default();
        assert!(reason.contains("new fans"), "{node}: {reason}");
        let shown = submitter.lconf(&["node", "show", node]).succeeded();
        assert!(shown.contains("drained") && shown.contains("new fans"), "{shown}");
    }
    let listed = submitter.lq(&["nodes"]).succeeded();
    assert!(listed.contains("n2: new fans"), "{listed}");
    let job = submitter.detach(&["true"]);
    assert_eq!((submitter.wait(job), submitter.job(job)["nodes"][0].as_str()), (Some(0), Some("n3")));
    submitter.lconf(&["drain", "n3", "-r", "a disk"]).succeeded();
    let job = submitter.detach(&["true"]);
    submitter.lconf(&["resume", "n[2-3]"]).succeeded();
    assert_eq!(submitter.wait(job), Some(0));
    assert_eq!((reason_of(&cluster, "n2"), reason_of(&cluster, "n1").is_some()), (None, true));
}
