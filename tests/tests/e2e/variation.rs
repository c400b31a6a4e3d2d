//! Equal nodes that differ: a live cluster chooses the nodes that the simulator chooses.

use limo_tests::{Setup, until};

const HARDWARE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/small.toml");

const PROFILES: &str = "application,size,hardware,cores,cap,duration,power,energy,spread,runs\n\
    cg,,small,4,,100 s,24 W,2400 J,0 %,9\n\
    ep,,small,4,,200 s,30 W,6000 J,0 %,9\n";

const FACTORS: &str = "application,node,unit,cap,power,duration\n\
    cg,n1,cpu,,0.9,1\ncg,n2,cpu,,0.95,1\ncg,n3,cpu,,1.1,1\ncg,n4,cpu,,1,1.3\n\
    ep,n1,cpu,,0.8,1\nep,n3,cpu,,1,0.95\nep,n4,cpu,,1.2,1\n";

const PLATFORM: &str = "[[nodes]]\nname = [\"n1\", \"n2\", \"n3\", \"n4\"]\ncores = 4\nidle = \"10 W\"\n\
    [[nodes.unit]]\nname = \"cpu\"\nhardware = \"small\"\nkind = \"cpu\"\nnameplate = \"40 W\"\n\
    [nodes.unit.application]\n\
    cg = { power = \"24 W\", duration = \"100s\" }\nep = { power = \"30 W\", duration = \"200s\" }\n";

/// The application and the number of nodes of each job, in the order of submission.
const JOBS: [(&str, u32); 3] = [("cg", 1), ("ep", 1), ("cg", 2)];

fn workload() -> String {
    let job = |(id, (application, nodes)): (usize, &(&str, u32))| {
        let cores = 4 * nodes;
        format!(
            "{{\"id\": {id}, \"subtime\": 0, \"res\": {cores}, \"profile\": \"d\", \"application\": \"{application}\"}}"
        )
    };
    let jobs: Vec<String> = JOBS.iter().enumerate().map(job).collect();
    format!(
        "{{\"nb_res\": 16, \"jobs\": [{}], \"profiles\": {{\"d\": {{\"type\": \"delay\", \"delay\": 1}}}}}}",
        jobs.join(", ")
    )
}

#[test]
fn a_live_cluster_chooses_the_nodes_that_the_simulator_chooses() {
    let names = ["n1", "n2", "n3", "n4"];
    let node = |setup: Setup, name: &&str| setup.node(name, &["--hardware", HARDWARE]);
    let cluster = names.iter().fold(Setup::default(), node).start();
    let submitter = cluster.submitter();
    names.iter().for_each(|name| cluster.await_node(name));
    let files = [("p.csv", PROFILES), ("v.csv", FACTORS), ("p.toml", PLATFORM), ("w.json", &workload())];
    files.iter().for_each(|(name, text)| std::fs::write(submitter.path(name), text).expect("written"));
    let lconf = |arguments: &[&str]| submitter.lconf(arguments).succeeded();
    lconf(&["profile", "import", "p.csv"]);
    lconf(&["variation", "import", "v.csv"]);
    assert_eq!(lconf(&["variation", "export"]).lines().count(), 8);
    let unknown = FACTORS.replace("cg,n4", "cg,n5");
    std::fs::write(submitter.path("u.csv"), unknown).expect("written");
    submitter.lconf(&["variation", "import", "u.csv"]).failed("u.csv: line 5: there is no node `n5`");
    for placement in ["ranked", "window", "assignment"] {
        lconf(&["set", "policy", "fifo", &format!("placement={placement}")]);
        // All jobs wait before the nodes take them.
        lconf(&["node", "drain", "n[1-4]", "--reason", "a test"]);
        let jobs = JOBS.map(|(application, nodes)| {
            submitter.detach(&["--app", application, "-N", &nodes.to_string(), "-c", "4", "sleep", "1000"])
        });
        lconf(&["node", "resume", "n[1-4]"]);
        let nodes_of = |job: u64| {
            until("it runs", || (submitter.state(job) == "running").then_some(()));
            let nodes = submitter.job(job)["nodes"].clone();
            let nodes = nodes.as_array().expect("nodes").iter().map(|node| node.as_str().expect("a name").to_owned());
            nodes.collect::<Vec<String>>().join(",")
        };
        let lived = jobs.map(nodes_of);
        if placement == "assignment" {
            let explained = submitter.lq(&["explain", &jobs[0].to_string()]).succeeded();
            assert!(explained.contains("this unit: power x 0.95, duration x 1"), "{explained}");
        }
        jobs.iter().for_each(|job| drop(submitter.lq(&["cancel", &job.to_string()]).succeeded()));
        jobs.iter().for_each(|job| {
            submitter.wait(*job);
        });
        let out = format!("out-{placement}");
        let part = format!("placement={placement}");
        let run = [
            "run",
            "--trace",
            "w.json",
            "--platform",
            "p.toml",
            "--variation",
            "v.csv",
            "--profiles",
            "p.csv",
            "--policy",
            "fifo",
            "--part",
            &part,
            "--out",
            &out,
        ];
        submitter.run("lsim", &run).succeeded();
        let table = submitter.read(format!("{out}/jobs.csv"));
        let column = |line: &str, name: &str| {
            let place = table.lines().next().and_then(|head| head.split(',').position(|column| column == name));
            line.split(',').nth(place.expect(name)).expect("a cell").to_owned()
        };
        let mut simulated: Vec<(String, String)> =
            table.lines().skip(1).map(|line| (column(line, "job_id"), column(line, "allocated_resources"))).collect();
        simulated.sort();
        println!("{placement}: {lived:?} {simulated:?}");
        let numbered = lived.map(|nodes| {
            let numbers = nodes.split(',').map(|name| name[1..].parse::<u32>().expect("a number") - 1);
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
        });
        let expanded = simulated.iter().map(|(_, allocated)| match allocated.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (first.parse::<u32>().expect("a number"), last.parse::<u32>().expect("a number"));
                (first..=last).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
            }
            None => allocated.clone(),
        });
        assert_eq!(expanded.collect::<Vec<_>>(), numbered, "{placement}");
    }
}
