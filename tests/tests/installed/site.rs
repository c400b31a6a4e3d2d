//! A master and three nodes on hosts of their own, installed from the packages as docs/install.md says.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use limo_requirements::{Requirement, skip};
use limo_tests::{Host, Switch, programs, until};

const NAMES: [&str; 4] = ["head", "n1", "n2", "n3"];

/// Users of every host.
const USERS: &str = "groupadd -g 3100 project; useradd -m -u 3001 -G project alice; useradd -m -u 3002 bob";

/// The hosts of a cluster.
pub struct Site {
    pub head: Host,
    pub nodes: Vec<Host>,
    _switch: Switch,
}

fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(index + 1).expect("few hosts"))
}

/// Returns the packages that `cargo xtask package deb` has made. Skips the rest of the test if there are none.
fn packages() -> Option<Vec<PathBuf>> {
    let program = programs::path("lslave");
    let target = program.ancestors().nth(2).expect("a program is in target/PROFILE");
    let entries = fs::read_dir(target.join("package")).into_iter().flatten().flatten().map(|entry| entry.path());
    let packages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    if packages.is_empty() {
        skip(Requirement::Hosts, "there are no packages: `cargo xtask package deb --profile dev` makes them");
        return None;
    }
    let made = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a file");
    let is_old = packages.iter().any(|package| made(package) < made(&program));
    assert!(
        !is_old,
        "the packages are older than the programs: make them with `cargo xtask package deb --profile dev`"
    );
    Some(packages)
}

impl Site {
    /// Boots the hosts. Skips the rest of the test with `None` if that is impossible.
    pub fn new() -> Option<Self> {
        let packages = packages()?;
        let switch = Switch::new()?;
        let names = NAMES.iter().enumerate();
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
        let mut hosts = NAMES.iter().enumerate().map(boot);
        let head = hosts.next().expect("the master's host");
        Some(Self { head, nodes: hosts.collect(), _switch: switch })
    }

    /// Installs the packages and joins the nodes.
    pub fn install(&self) {
        self.head.done("apt-get install -y ./limo-client_*.deb ./limo-master_*.deb");
        self.head.done("install -d -m 755 /var/lib/limo; install -d -o limo -g limo -m 700 /var/lib/limo/lmaster; runuser -u limo -- lconf cluster init && printf '[tls]\nlisten = \"0.0.0.0:6818\"\n' >> /etc/limo/lmaster.toml");
        self.head.done("systemctl enable --now lmaster");
        for (node, name) in self.nodes.iter().zip(&NAMES[1..]) {
            self.head.done(&format!("lconf cert issue node {name} --out /tmp/{name}"));
            fs::create_dir_all(node.file("/etc/limo/tls")).expect("made");
            for file in ["ca.pem", "identity.pem"] {
                fs::copy(self.head.file(&format!("/tmp/{name}/{file}")), node.file(&format!("/etc/limo/tls/{file}")))
                    .expect("copied");
            }
            node.done("apt-get install -y ./limo-client_*.deb ./limo-node_*.deb");
            node.done("printf 'master = \"tls://head:6818\"\n' >> /etc/limo/lslave.toml && echo cpus = 8 >> /etc/limo/lslave.toml && systemctl enable --now lslave");
        }
        until("the nodes", || {
            let ran = self.head.run("lq nodes");
            NAMES[1..]
                .iter()
                .all(|name| ran.stdout.lines().any(|line| line.starts_with(name) && line.contains("up")))
                .then_some(())
        });
    }
}
