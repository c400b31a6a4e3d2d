//! Differences between equal nodes: their effect on jobs, and on the choice of nodes. Calculated by hand.

use super::{column, folder, lsim, read, refused};

/// Two nodes that draw 10 W idle and 50 W busy.
const PLATFORM: &str = "[[nodes]]\nname = \"n\"\ncount = 2\nidle = \"10 W\"\nbusy = \"50 W\"\n";

/// The first node draws more, the second one is slower: 1.1 and 1.2 times the energy.
const FACTORS: &str = "application,node,unit,cap,power,duration\ncg,n0001,cpu,,1.1,1\ncg,n0002,cpu,,1,1.2\n";

/// Makes jobs of 200 s on these numbers of nodes.
fn workload(nodes: &[u32]) -> String {
    let job = |(id, nodes): (usize, &u32)| {
        format!("{{\"id\": {id}, \"subtime\": 0, \"res\": {nodes}, \"profile\": \"d\", \"application\": \"cg\"}}")
    };
    let jobs: Vec<String> = nodes.iter().enumerate().map(job).collect();
    let profiles = "{\"d\": {\"type\": \"delay\", \"delay\": 200}}";
    format!("{{\"nb_res\": 2, \"jobs\": [{}], \"profiles\": {profiles}}}", jobs.join(", "))
}

/// Returns start, end, energy in joules and nodes of each job.
fn simulated(nodes: &[u32], factors: &str, options: &str) -> Vec<String> {
    let folder = folder(&[("w.json", &workload(nodes)), ("p.toml", PLATFORM), ("v.csv", FACTORS), ("b.csv", factors)]);
    let run = format!("run --trace w.json --platform p.toml --variation v.csv --policy fifo --out out {options}");
    let printed = lsim(folder.path(), &run);
    assert!(printed.starts_with("exit 0"), "{printed}");
    let jobs = read(folder.path(), "out/jobs.csv");
    let columns =
        ["starting_time", "finish_time", "consumed_energy_j", "allocated_resources"].map(|name| column(&jobs, name));
    let rows = (0..columns[0].len()).map(|row| columns.each_ref().map(|column| column[row]).join(" "));
    rows.collect()
}

/// Both nodes together take 240 s and draw 20 W idle, 44 W and 40 W.
#[test]
fn the_slowest_node_decides_and_the_others_draw_on() {
    assert_eq!(simulated(&[2], FACTORS, ""), ["0 240 24960 0-1"]);
}

/// One job draws 54 W for 200 s on the first node, or 50 W for 240 s on the second one.
#[test]
fn a_job_gets_the_node_with_less_energy() {
    let first = ["0 200 10800 0"];
    assert_eq!(simulated(&[1], FACTORS, "--part placement=ranked"), first);
    assert_eq!(simulated(&[1], FACTORS, "--part placement=assignment"), first);
    // The scheduler believes the opposite.
    let wrong = "application,node,unit,cap,power,duration\ncg,n0001,cpu,,1.3,1\n";
    let options = "--part placement=ranked --believed-variation b.csv";
    assert_eq!(simulated(&[1], wrong, options), ["0 240 12000 1"]);
}

#[test]
fn wrong_tables_are_refused() {
    let refuse = |factors: &str, expected: &str| {
        let folder = folder(&[("w.json", &workload(&[1])), ("p.toml", PLATFORM), ("v.csv", factors)]);
        let run = "run --trace w.json --platform p.toml --variation v.csv --policy fifo --out out";
        refused(folder.path(), run, 1, expected);
    };
    let head = "application,node,unit,cap,power,duration";
    refuse(&format!("{head}\ncg,n3,cpu,,1,1\n"), "lsim: v.csv: line 2: the platform has no node `n3`");
    refuse(&format!("{head}\ncg,n0001,gpu,,1,1\n"), "lsim: v.csv: line 2: node `n0001` has no unit `gpu`");
    refuse(
        &format!("{head}\ncg,n0001,cpu,,11,1\n"),
        "lsim: v.csv: line 2, column `power`: `11` is not a factor above 0.1 and below 10 with at most six decimals, such as 1.041",
    );
    refuse("", &format!("lsim: v.csv: the file is empty: its first line must be `{head},runs`"));
}
