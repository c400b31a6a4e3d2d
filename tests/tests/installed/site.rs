//! A master, three nodes and a submit host on hosts of their own, installed from the packages as docs/install.md says.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use limo_requirements::{Requirement, skip};
use limo_tests::{Host, Switch, programs, until};

const NAMES: [&str; 5] = ["head", "n1", "n2", "n3", "login1"];

/// Number of nodes among the hosts.
const NODES: usize = 3;

/// Users of every host.
const USERS: &str = "groupadd -g 3100 project; useradd -m -u 3001 -G project alice; useradd -m -u 3002 bob";

/// The hosts of a cluster.
pub struct Site {
    pub head: Host,
    pub nodes: Vec<Host>,
    /// Further hosts, which run no jobs.
    pub others: Vec<Host>,
    _switch: Switch,
}

fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(index + 1).expect("few hosts"))
}

/// Returns the directory of the packages.
pub fn package_directory() -> PathBuf {
    let program = programs::path("lslave");
    program.ancestors().nth(2).expect("a program is in target/PROFILE").join("package")
}

/// Returns the packages that `cargo xtask package deb` has made. Skips the rest of the test if there are none.
fn packages() -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(package_directory()).into_iter().flatten().flatten().map(|entry| entry.path());
    let packages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    if packages.is_empty() {
        skip(Requirement::Hosts, "the packages are missing: `cargo xtask package deb --profile dev` makes them");
        return None;
    }
    Some(packages)
}

impl Site {
    /// Boots a master, three nodes and a submit host. Skips the rest of the test with `None` if that is impossible.
    pub fn new() -> Option<Self> {
        Self::of(&NAMES, NODES)
    }

    /// Boots the hosts with these names; the first is that of the master, and `nodes` nodes follow.
    pub fn of(hosts: &[&str], nodes: usize) -> Option<Self> {
        let packages = packages()?;
        let switch = Switch::new()?;
        let names = hosts.iter().enumerate();
        let lines: String = names.map(|(index, name)| format!("{} {name}\n", address(index))).collect();
        let boot = |(index, name): (usize, &&str)| {
            let host = Host::boot(&switch, name, address(index));
            fs::write(host.file("/etc/hosts"), format!("127.0.0.1 localhost\n{lines}")).expect("written");
            for package in &packages {
                let name = package.file_name().expect("a file").display();
                fs::copy(package, host.file(&format!("/srv/{name}"))).expect("copied");
            }
            host.done(USERS);
            host
        };
        let mut hosts = hosts.iter().enumerate().map(boot);
        let head = hosts.next().expect("the master's host");
        let (nodes, others) = (hosts.by_ref().take(nodes).collect(), hosts.collect());
        Some(Self { head, nodes, others, _switch: switch })
    }

    /// Types the lines of docs/install.md, with the token for each node, and waits for the nodes.
    pub fn install(&self) {
        let printed = self.head.done(&typed("On the host of the master"));
        let mut token = printed.lines().last().expect("a token").to_owned();
        for node in &self.nodes {
            assert!(token.starts_with("limo1."), "{printed}");
            let lines = typed("On each node").replace("limo1....", &token);
            // The jobs of the tests need more cores than this machine may have.
            node.done(&lines.replace("systemctl", "echo cpus = 8 >> /etc/limo/lslave.toml\nsystemctl"));
            token = self.head.done("lconf cluster join-token").lines().last().expect("a token").to_owned();
        }
        until("the nodes", || {
            let nodes = self.head.run("lq nodes").stdout;
            let is_up = |name: &&str| nodes.lines().any(|line| line.starts_with(*name) && line.contains(" up "));
            NAMES[1..=NODES].iter().all(is_up).then_some(())
        });
        let ran = self.head.done(&format!("su - alice -c '{}'", typed("As a user, on the host of the master")));
        assert!(NAMES[1..=NODES].contains(&ran.lines().last().expect("a host")), "{ran}");
    }
}

impl Site {
    /// Types the lines of docs/install.md on a submit host, and returns it.
    pub fn install_submit_host(&self) -> &Host {
        let host = self.others.first().expect("the last of the names");
        let printed = self.head.done("lconf cluster join-token --role submit-host");
        let token = printed.lines().last().expect("a token");
        host.done(&typed("On a submit host").replace("limo1....", token));
        host
    }
}

/// Returns the block of a section of docs/install.md as a script that ends at the first error.
fn typed(title: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/install.md");
    let page = fs::read_to_string(page).expect("a page");
    let (_, section) = page.split_once(&format!("\n### {title}\n")).expect("a section");
    let (_, block) = section.split_once("```\n").expect("a block");
    let (block, _) = block.split_once("```").expect("an end");
    format!("set -e\n{block}")
}
