//! The master shows the hardware of a node exactly as `lslave --probe` prints it on the node.

use limo_tests::Setup;

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/small.toml");

#[test]
fn a_node_reports_its_hardware() {
    let cluster = Setup::default()
        .node("n1", &["--cpus", "2", "--gpus", "none", "--meter", "command:echo 41.5"])
        .node("n2", &["--hardware", HARDWARE])
        .start();
    let submitter = cluster.submitter();
    let shown = submitter.lconf(&["node", "show", "n1"]).succeeded();
    let lines =
        ["\nprocessor   ", "\nmemory      ", "\npowercap    ", "\nmeter       in use: ", "\nowner       input: "];
    for part in ["NODE", "cannot be capped"].iter().chain(&lines) {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
    let shown = submitter.lconf(&["node", "show", "n2"]).succeeded();
    assert!(shown.contains("\nemulated    machine `"), "{shown}");
    submitter.lconf(&["node", "show", "n7"]).failed("there is no node `n7`");
}
