//! The tours of README and docs/power.md are typed into one shell each, exactly as written.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use limo_tests::programs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Build commands of the tour. The programs of this test replace them.
const BUILD: [&str; 2] = ["cargo build --release\n", "export PATH=\"$PWD/target/release:$PATH\"\n"];

/// Returns the commands of one section of a page.
fn tour(page: &str, section: &str) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).expect("a page");
    let (_, tour) = text.split_once(&format!("\n## {section}\n")).expect("there is a tour");
    let (tour, _) = tour.split_once("\n## ").expect("more follows");
    let commands: String = tour.split("```\n").skip(1).step_by(2).collect();
    // Users type more slowly than the daemons start.
    let waits = "until lq nodes > nodes 2> /dev/null && grep -q 'n1.*up' nodes; do sleep 0.05; done\nrm nodes\n";
    let begun = "> node.log 2>&1 &\n";
    assert!(commands.contains(begun), "the tour starts a node");
    commands.replace(begun, &format!("{begun}{waits}"))
}

/// Types the commands in a new home, and expects these words in the output, in this order.
fn types(commands: &str, expected: &[&str]) {
    let home = tempfile::tempdir().expect("a directory");
    let program = programs::path("lrun");
    let directory = program.parent().expect("a directory").display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
    let socket = home.path().join("socket");
    let mut shell = Command::new("bash");
    shell.args(["-c", commands]).env("HOME", home.path()).env("PATH", path).env("LIMO_SOCKET", &socket);
    shell.env("LIMO_MASTER", format!("unix:{}", socket.display())).current_dir(home.path()).stdin(Stdio::null());
    let shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash is there");
    let ran = limo_tests::finish(shell);
    let complaints: Vec<_> = ran.stderr.lines().filter(|line| !line.starts_with("lsim: simulated in ")).collect();
    assert!(ran.code == Some(0) && complaints.is_empty(), "{ran:?}");
    let mut rest = ran.stdout.as_str();
    for words in expected {
        let (_, after) =
            rest.split_once(words).unwrap_or_else(|| panic!("no `{words}` in:\n{rest}\nof:\n{}", ran.stdout));
        rest = after;
    }
    let left: Vec<_> =
        fs::read_dir(home.path()).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    assert!(left.iter().all(|path| path == Path::new(&socket)), "{left:?}");
}

#[test]
fn the_tour_works_as_typed_and_leaves_nothing() {
    let mut commands = tour("README.md", "Five minutes");
    for line in BUILD {
        assert!(commands.contains(line), "the tour says {line}");
        commands = commands.replace(line, "");
    }
    let expected = [
        "1000\n999\n998\n7\n",
        "n1",
        "4\n5\n6\n",
        "band: needs 15.0 W",
        "job 6 waits: band: needs 15.0 W",
        "55.0 W, inside",
        "2 running, 1 waiting",
        "\n7\n",
        "job 7 waits: price: 80 EUR/MWh -> 20 EUR/MWh at ",
        "kept\n",
        "jobs in B: ",
        "simulated as it was",
    ];
    types(&commands, &expected);
}

#[test]
fn a_metered_node_learns_and_then_starts_at_the_learned_estimate() {
    let expected = [
        "measured",
        "root+burn",
        "learned",
        "job 5 waits: band: never: needs 2",
        "learned from 4 runs of root+burn, scaled from 2 cores to 4 cores",
    ];
    types(&tour("docs/power.md", "From a meter to an estimate"), &expected);
}
