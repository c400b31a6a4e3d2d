//! The tours of README, docs/power.md, docs/variation.md and docs/pools.md are typed into one shell each, exactly as written.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use limo_tests::programs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Build commands of the tour. The programs of this test replace them.
const BUILD: [&str; 2] = ["cargo build --release\n", "export PATH=\"$PWD/target/release:$PATH\"\n"];

/// End of a command that starts a node.
const NODE: &str = "> node.log 2>&1 &\n";

/// Returns the commands of one section of a page, which starts the last of its nodes by a command that ends with `begun`.
fn tour(page: &str, section: &str, (begun, nodes): (&str, usize)) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).expect("a page");
    let (_, tour) = text.split_once(&format!("\n## {section}\n")).expect("there is a tour");
    let (tour, _) = tour.split_once("\n## ").expect("more follows");
    let commands: String = tour.split("```\n").skip(1).step_by(2).collect();
    // Users type more slowly than the daemons start.
    let up = format!("[ $(grep -c ' up ' nodes) = {nodes} ]");
    let waits = format!("until lq nodes > nodes 2> /dev/null && {up}; do sleep 0.05; done\nrm nodes\n");
    assert!(commands.contains(begun), "the tour starts a node");
    commands.replace(begun, &format!("{begun}{waits}"))
}

/// Types the commands in a new home, and expects these words in the output, in this order. Returns the output.
fn types(commands: &str, expected: &[&str]) -> String {
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
    ran.stdout
}

#[test]
fn the_tour_works_as_typed_and_leaves_nothing() {
    let mut commands = tour("README.md", "Five minutes", (NODE, 1));
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
    types(&tour("docs/power.md", "From a meter to an estimate", (NODE, 1)), &expected);
}

#[test]
fn a_job_gives_way_to_the_owner_of_a_desktop() {
    let expected = [
        "suspend, evict after 5s, start after 3s",
        "start 0 on desk1",
        "owner",
        "suspended",
        "owner: desk1 in use since ",
        "owner: desk1 in use since ",
        "start 0 on desk1\ndone\nstart 0 on desk1\nstart 1 on server\ndone\n",
    ];
    types(&tour("docs/pools.md", "A desktop with an owner", ("server.log 2>&1 &\n", 2)), &expected);
}

/// The unit that draws 1.64 times as much decides when a job on 16 nodes ends under equal caps.
#[test]
fn equal_speeds_end_a_job_sooner_than_equal_caps() {
    let commands = tour("docs/variation.md", "Equal speeds on emulated nodes", ("n16.log 2>&1 &\n", 16));
    let (job, clock) = ("lrun -N 16", "date +'at %s%3N'");
    assert_eq!(commands.matches(job).count(), 2, "the tour runs two jobs");
    let commands =
        commands.replace(job, &format!("{clock}; {job}")).replace("rm done.*", &format!("rm done.*; {clock}"));
    let said = types(&commands, &["ran for", "ran for"]);
    let times = said.lines().filter_map(|line| line.strip_prefix("at ")?.parse::<f64>().ok()).collect::<Vec<_>>();
    let [even, equal_speed] = [times[1] - times[0], times[3] - times[2]];
    println!("{even} ms with equal caps, {equal_speed} ms at equal speeds");
    assert!(even >= 1.5 * equal_speed, "{even} ms with equal caps, {equal_speed} ms at equal speeds");
}
