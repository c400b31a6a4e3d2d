//! The sockets, NUMA nodes and physical cores of this machine, as the kernel shows them in sysfs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cores::Cores;
use crate::error::ContainError;

/// A part of the machine that contains CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Memory with the CPUs to which it is local.
    Numa,
    /// A processor package.
    Socket,
}

/// The place of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Spot {
    socket: i64,
    numa: u32,
    /// The first hardware thread of its physical core.
    core: u32,
}

impl Spot {
    fn domain(self, domain: Domain) -> (i64, u32) {
        match domain {
            Domain::Numa => (0, self.numa),
            Domain::Socket => (self.socket, 0),
        }
    }
}

/// The places of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology(BTreeMap<u32, Spot>);

impl Topology {
    /// Reads the places of these CPUs below `/sys/devices/system`. Without a file, CPUs are in one socket and NUMA node,
    /// and each is a core.
    pub fn read(system: &Path, cores: &Cores) -> Self {
        let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
        let list = |path: &Path| Cores::parse(path, &fs::read_to_string(path).ok()?).ok();
        let mut spots: BTreeMap<u32, Spot> = cores.numbers().map(|cpu| (cpu, Spot::default())).collect();
        for (cpu, spot) in &mut spots {
            let topology = system.join(format!("cpu/cpu{cpu}/topology"));
            spot.socket = number(&topology.join("physical_package_id")).unwrap_or(0);
            let siblings = list(&topology.join("thread_siblings_list"));
            spot.core = siblings.and_then(|siblings| siblings.numbers().next()).unwrap_or(*cpu);
        }
        for entry in fs::read_dir(system.join("node")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let node = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
            let Some((node, local)) = node.zip(list(&entry.path().join("cpulist"))) else { continue };
            for cpu in local.numbers() {
                spots.entry(cpu).and_modify(|spot| spot.numa = node);
            }
        }
        Self(spots)
    }

    fn spot(&self, cpu: u32) -> Spot {
        self.0.get(&cpu).copied().unwrap_or(Spot { core: cpu, ..Spot::default() })
    }

    /// Chooses `count` of the free ones: in the NUMA node, else the socket, with the fewest free ones that are enough, else
    /// in as few NUMA nodes as possible. Prefers cores that are entirely free.
    ///
    /// # Errors
    /// If fewer are free.
    pub fn choose(&self, count: usize, free: &Cores) -> Result<Cores, ContainError> {
        if free.count() < count {
            return Err(ContainError::TooFewCores { count, free: free.count() });
        }
        for domain in [Domain::Numa, Domain::Socket] {
            let enough = self.parts(free, domain).into_iter().filter(|part| part.len() >= count);
            if let Some(least) = enough.min_by_key(Vec::len) {
                return Ok(least.into_iter().take(count).collect());
            }
        }
        let mut parts = self.parts(free, Domain::Numa);
        parts.sort_by_key(|part| Reverse(part.len()));
        Ok(parts.into_iter().flatten().take(count).collect())
    }

    /// Returns the free ones of each domain, in the order in which they are chosen.
    fn parts(&self, free: &Cores, domain: Domain) -> Vec<Vec<u32>> {
        let threads = |cores: &mut dyn Iterator<Item = u32>| {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            cores.for_each(|cpu| *counts.entry(self.spot(cpu).core).or_default() += 1);
            counts
        };
        let (free_threads, all_threads) = (threads(&mut free.numbers()), threads(&mut self.0.keys().copied()));
        let mut parts: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for cpu in free.numbers() {
            parts.entry(self.spot(cpu).domain(domain)).or_default().push(cpu);
        }
        for part in parts.values_mut() {
            part.sort_by_cached_key(|cpu| {
                let spot = self.spot(*cpu);
                let is_partial = free_threads.get(&spot.core) < all_threads.get(&spot.core);
                (is_partial, spot, *cpu)
            });
        }
        parts.into_values().collect()
    }

    /// Divides CPUs among tasks: neighbouring ones to each, or one to several tasks if there are too few. With a domain,
    /// a task gets all of these CPUs in the domains of its own.
    pub fn divide(&self, cores: &Cores, tasks: usize, domain: Option<Domain>) -> Vec<Cores> {
        let mut all: Vec<u32> = cores.numbers().collect();
        if all.is_empty() || tasks == 0 {
            return vec![Cores::default(); tasks];
        }
        all.sort_by_key(|cpu| (self.spot(*cpu), *cpu));
        let each = (all.len() / tasks).max(1);
        let own = (0..tasks).map(|task| all.iter().copied().cycle().skip(task * each % all.len()).take(each));
        own.map(|own| match domain {
            None => own.collect(),
            Some(domain) => {
                let domains: Vec<_> = own.map(|cpu| self.spot(cpu).domain(domain)).collect();
                all.iter().copied().filter(|cpu| domains.contains(&self.spot(*cpu).domain(domain))).collect()
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a tree as that of a machine with two sockets of two NUMA nodes, each with two cores of two threads:
    /// CPU n and n + 8 are the threads of core n.
    fn machine(name: &str) -> (std::path::PathBuf, Cores) {
        let root = std::env::temp_dir().join(format!("limo-topology-{name}-{}", std::process::id()));
        let write = |path: String, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text + "\n").expect("written");
        };
        for cpu in 0..16_u32 {
            let core = cpu % 8;
            write(format!("cpu/cpu{cpu}/topology/physical_package_id"), (core / 4).to_string());
            write(format!("cpu/cpu{cpu}/topology/core_id"), (core % 4).to_string());
            write(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), format!("{core},{}", core + 8));
        }
        for node in 0..4_u32 {
            let (first, second) = (node * 2, node * 2 + 8);
            write(format!("node/node{node}/cpulist"), format!("{first}-{},{second}-{}", first + 1, second + 1));
        }
        write("node/has_cpu".to_owned(), "0-3".to_owned());
        (root, cores("0-15"))
    }

    fn cores(text: &str) -> Cores {
        Cores::parse(Path::new("list"), text).expect("a list")
    }

    #[test]
    fn cores_of_a_job_are_close_together() {
        let (root, all) = machine("close");
        let topology = Topology::read(&root, &all);
        let check = |count: usize, free: &str, expected: &str| {
            let chosen = topology.choose(count, &cores(free)).expect("enough");
            assert_eq!(chosen.to_string(), expected, "{count} of {free}");
        };
        // The first NUMA node: both threads of a core.
        check(2, "0-15", "0,8");
        check(4, "0-15", "0-1,8-9");
        // A socket, of two NUMA nodes.
        check(6, "0-15", "0-2,8-10");
        // Free are 1 of node 0, 4 of node 1 and 3 of node 2: two fit best into node 2, which has a whole core.
        check(2, "1,2-3,10-11,4-5,12", "4,12");
        check(3, "1,2-3,10-11,4-5,12", "4-5,12");
        check(1, "1,2-3,10-11,4-5,12", "1");
        // No NUMA node has 5, and the first socket has.
        check(5, "1,2-3,10-11,4-5,12", "1-3,10-11");
        // No socket has 6: all of node 1, then of node 2.
        check(6, "1,2-3,10-11,4-5,12", "2-4,10-12");
        let error = topology.choose(3, &cores("0,4")).expect_err("too few").to_string();
        assert_eq!(error, "the job needs 3 cores of its own, and 2 are free");
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn tasks_get_their_own_cores_or_the_domains_of_these() {
        let (root, all) = machine("tasks");
        let topology = Topology::read(&root, &all);
        let check = |of: &str, tasks: usize, domain: Option<Domain>, expected: &[&str]| {
            let found: Vec<String> = topology.divide(&cores(of), tasks, domain).iter().map(Cores::to_string).collect();
            assert_eq!(found, expected, "{tasks} in {of}");
        };
        check("0-15", 4, None, &["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]);
        check("0-1,8-9", 2, None, &["0,8", "1,9"]);
        check("0,8", 3, None, &["0", "8", "0"]);
        // The task of CPU 3 may use what the job has of its NUMA node or socket.
        check("0,2-3,4", 4, Some(Domain::Numa), &["0", "2-3", "2-3", "4"]);
        check("0,2-3,4", 4, Some(Domain::Socket), &["0,2-3", "0,2-3", "0,2-3", "4"]);
        check("", 2, None, &["", ""]);
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn a_machine_without_a_topology_is_one_socket() {
        let topology = Topology::read(Path::new("/nonexistent"), &cores("0-3"));
        assert_eq!(topology.choose(2, &cores("1,3")).expect("enough"), cores("1,3"));
        assert_eq!(topology.divide(&cores("0-3"), 2, Some(Domain::Socket)), [cores("0-3"), cores("0-3")]);
    }
}
