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

/// Runs a job of 200 s on 16 nodes under an upper limit that leaves 20 W above idle for each of them; F = 1. All nodes
/// draw 40 W for it but one, which draws 1.64 times as much: it is that much slower at the same cap. Returns the output
/// and the end of the job in seconds.
fn limited(policy: &str, caps: &str) -> (String, f64) {
    let platform = PLATFORM.replace("count = 2", "count = 16") + "caps = [\"4 W\", \"80 W\"]\ncap-factor = 1\n";
    let profiles =
        "application,size,hardware,cap,duration,power,energy,spread,runs\ncg,,node,,200 s,40 W,8000 J,0 %,1\n";
    let factors = "application,node,unit,cap,power,duration\ncg,n0003,cpu,,1.64,1\n";
    let workload = workload(&[16]).replace("\"nb_res\": 2", "\"nb_res\": 16");
    let folder = folder(&[
        ("w.json", &workload),
        ("p.toml", &platform),
        ("v.csv", factors),
        ("f.csv", profiles),
        ("l.csv", "time,low_w,high_w\n0,,480\n"),
    ]);
    let run = "run --trace w.json --platform p.toml --variation v.csv --profiles f.csv --limits l.csv --out out \
        --set cap-factor-permille=1000";
    let printed = lsim(folder.path(), &format!("{run} --policy {policy} --part caps={caps}"));
    assert!(printed.starts_with("exit 0"), "{printed}");
    let end = column(&read(folder.path(), "out/jobs.csv"), "finish_time")[0].parse().expect("a number");
    (printed, end)
}

/// Divides 320 W above idle. With equal caps of 20 W the worst node has 20/65.6 of its draw, so the job takes 656 s.
/// For equal speeds all have 320/665.6 of their draw, so it takes 416 s, which is 1.57 times sooner. Caps have steps of
/// a milliwatt. Inadomi et al. (SC 2015) measured 1.8 times on average over applications.
#[test]
fn equal_speeds_end_a_job_sooner_than_equal_caps() {
    let (printed, even) = limited("fifo --set reserve-permille=0", "even");
    assert!((656.0..656.2).contains(&even), "{even}: {printed}");
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
    let (printed, equal_speed) = limited("fifo --set reserve-permille=0", "equal-speed");
    assert!((416.0..416.2).contains(&equal_speed), "{equal_speed}: {printed}");
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
    assert!(even >= 1.5 * equal_speed);
    let (printed, free) = limited("fifo", "untouched");
    assert!((free - 200.0).abs() < 1e-9 && printed.contains("outside limits  100.00 %"), "{free}: {printed}");
}

/// Gives each node the same part of its draw for the whole run, 320/665.6: all are equally fast, so the job takes 416 s.
#[test]
fn a_fixed_share_on_many_nodes_is_in_proportion_to_their_draws() {
    let (printed, end) = limited("powercap", "fixed-share");
    assert!((416.0..416.2).contains(&end), "{end}: {printed}");
    assert!(printed.contains("\noutside limits  0.00 % of the time\n"), "{printed}");
}
