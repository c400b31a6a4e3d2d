//! The faults. Each begins, and ends after some time.

use std::fmt;
use std::process::Child;
use std::thread;
use std::time::Duration;

use limo_tests::{Dice, Submitter, kill_shepherds, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::relay::{Network, Relay, Way};
use crate::site::{JOURNAL, NODE, Site, node_name};

/// Longest time of a short fault.
const SHORT: Duration = Duration::from_millis(300);

/// Time of a long fault: more than three heartbeats of the daemons, the lease of a node, and that of a leader.
const LONG: Duration = Duration::from_secs(13);

/// One of this number of faults is long.
const LONG_ONES: u64 = 100;

/// A way between two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Clients(usize),
    /// Node and master.
    Node(usize, usize),
    Database(usize),
}

/// A failure of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Network(Network),
    Reset,
    HalfOpen(Way),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    KillMaster(usize),
    TerminateMaster(usize),
    StopMaster(usize),
    KillNode(usize),
    StopNode(usize),
    KillShepherds(usize),
    KillClient,
    StopClient,
    KillDatabase,
    StopDatabase,
    EndDatabase,
    Break(Link, Broken),
    FillDisk(usize),
    /// Each access to the disk of the journal is an error.
    FailDiskOfJournal,
    /// The same for the disk of the last node, which has this number. The machine is then started anew.
    FailDiskOfNode(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Break(link, broken) => write!(f, "{link:?} {broken:?}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A part of the cluster that faults break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Master(usize),
    Node(usize),
    Shepherds,
    Client,
    Database,
    Link(Link),
    Disk(usize),
}

/// A fault that has begun.
pub struct Begun {
    pub fault: Fault,
    /// Time until its end.
    pub time: Duration,
    /// Client that is killed at the end, or was stopped.
    client: Option<Child>,
}

impl Fault {
    /// Draws a fault and its time.
    pub fn draw(site: &Site, dice: &mut Dice) -> (Self, Duration) {
        let masters = site.clients.len();
        let nodes = site.node_count();
        let mut below = |count: usize| usize::try_from(dice.below(count as u64)).expect("small");
        let (master, node, frail) = (below(masters), below(nodes), nodes - 1);
        let fault = match below(16) {
            0 => Self::KillMaster(master),
            1 => Self::TerminateMaster(master),
            2 => Self::StopMaster(master),
            3 | 4 => Self::KillNode(node),
            5 => Self::StopNode(node),
            6 => Self::KillShepherds(frail),
            7 => Self::KillClient,
            8 => Self::StopClient,
            9 if site.server.is_some() => [Self::KillDatabase, Self::StopDatabase, Self::EndDatabase][below(3)],
            9 if site.disks.len() == 2 => {
                [Self::FillDisk(JOURNAL), Self::FillDisk(NODE), Self::FailDiskOfJournal, Self::FailDiskOfNode(frail)]
                    [below(4)]
            }
            _ => {
                let link = match below(if site.server.is_some() { 3 } else { 2 }) {
                    0 => Link::Clients(master),
                    1 => Link::Node(node, master),
                    _ => Link::Database(master),
                };
                let way = [Way::There, Way::Back][below(2)];
                let broken = match below(6) {
                    0 => Broken::Network(Network::Cut),
                    1 => Broken::Network(Network::OneWay(way)),
                    2 => Broken::Network(Network::Lossy),
                    3 => Broken::HalfOpen(way),
                    _ => Broken::Reset,
                };
                Self::Break(link, broken)
            }
        };
        let long = below(usize::try_from(LONG_ONES).expect("small")) == 0;
        // Only the frail node may lose its jobs.
        let steady = match fault {
            Self::KillNode(node) | Self::StopNode(node) | Self::Break(Link::Node(node, _), _) => node != frail,
            _ => false,
        };
        (fault, if long && !steady { LONG } else { dice.up_to(SHORT) })
    }

    /// Returns true if the faults break the same part of the cluster, so that they exclude each other.
    pub fn excludes(self, other: Self) -> bool {
        self.parts().iter().any(|part| other.parts().contains(part))
    }

    fn parts(self) -> Vec<Part> {
        match self {
            Self::KillMaster(master) | Self::TerminateMaster(master) | Self::StopMaster(master) => {
                vec![Part::Master(master)]
            }
            Self::KillNode(node) | Self::StopNode(node) => vec![Part::Node(node)],
            Self::KillShepherds(_) => vec![Part::Shepherds],
            Self::KillClient | Self::StopClient => vec![Part::Client],
            Self::KillDatabase | Self::StopDatabase | Self::EndDatabase => vec![Part::Database],
            Self::Break(link, _) => vec![Part::Link(link)],
            Self::FillDisk(disk) => vec![Part::Disk(disk)],
            // The master is killed, so that its disk can be mounted again.
            Self::FailDiskOfJournal => vec![Part::Disk(JOURNAL), Part::Master(0)],
            Self::FailDiskOfNode(node) => vec![Part::Disk(NODE), Part::Node(node), Part::Shepherds],
        }
    }

    /// Begins the fault; `None` if the cluster has no such part, or it cannot be broken now.
    pub fn begin(self, site: &mut Site, time: Duration) -> Option<Begun> {
        let mut begun = Begun { fault: self, time, client: None };
        match self {
            Self::KillMaster(master) => site.kill(master),
            Self::TerminateMaster(master) => site.signal_if_started(master, Signal::SIGTERM),
            Self::StopMaster(master) => site.signal_if_started(master, Signal::SIGSTOP),
            Self::KillNode(node) => site.kill_node(node),
            Self::StopNode(node) => site.signal_node(node, Signal::SIGSTOP),
            Self::KillShepherds(node) => kill_shepherds(&site.submitter.mark, &node_name(node)),
            Self::KillClient => begun.client = Some(client(&site.submitter, "sleep 1000")),
            Self::StopClient => {
                let lrun = client(&site.submitter, "echo began; sleep 0.3; echo over");
                thread::sleep(time / 2);
                signal(&lrun, Signal::SIGSTOP);
                begun.client = Some(lrun);
            }
            Self::KillDatabase => site.server.as_ref()?.signal(Signal::SIGKILL).ok()?,
            Self::StopDatabase => site.server.as_ref()?.signal(Signal::SIGSTOP).ok()?,
            Self::EndDatabase => site.server.as_ref()?.stop_immediately().ok()?,
            Self::Break(link, broken) => match (broken, relay(site, link)) {
                (Broken::Network(network), relay) => relay.set(network),
                (Broken::Reset, relay) => relay.reset(),
                (Broken::HalfOpen(way), relay) => relay.forget(way),
            },
            Self::FillDisk(disk) => site.disks[disk].fill(),
            Self::FailDiskOfJournal => site.disks[JOURNAL].fail(),
            Self::FailDiskOfNode(_) => site.disks[NODE].fail(),
        }
        Some(begun)
    }
}

impl Begun {
    /// Ends the fault: what was broken works again, and what ended is started, apart from masters. Clients that were
    /// stopped are added to `clients`.
    pub fn end(self, site: &mut Site, clients: &mut Vec<Child>) {
        match self.fault {
            Fault::KillMaster(_) | Fault::TerminateMaster(_) => {}
            Fault::StopMaster(master) => site.signal_if_started(master, Signal::SIGCONT),
            Fault::KillNode(node) => site.start_node(node),
            Fault::StopNode(node) => site.signal_node(node, Signal::SIGCONT),
            Fault::KillShepherds(_) => {}
            // The master ends its job.
            Fault::KillClient => {
                let mut lrun = self.client.expect("it was started");
                lrun.kill().expect("an own child");
                lrun.wait().expect("an own child");
            }
            Fault::StopClient => {
                let lrun = self.client.expect("it was started");
                signal(&lrun, Signal::SIGCONT);
                clients.push(lrun);
            }
            Fault::KillDatabase | Fault::EndDatabase => {
                // The processes of a killed server may still be ending.
                let server = site.server();
                until("the database starts", || server.start().ok());
            }
            Fault::StopDatabase => site.server().signal(Signal::SIGCONT).expect("it runs"),
            Fault::Break(link, _) => relay(site, link).set(Network::Whole),
            Fault::FillDisk(disk) => site.disks[disk].make_room(),
            Fault::FailDiskOfJournal => {
                site.kill(0);
                site.repair(JOURNAL);
            }
            Fault::FailDiskOfNode(node) => site.reboot(node),
        }
    }
}

fn relay(site: &Site, link: Link) -> &Relay {
    match link {
        Link::Clients(master) => &site.clients[master],
        Link::Node(node, master) => &site.links[node][master],
        Link::Database(master) => &site.databases[master],
    }
}

/// Starts an attached job.
fn client(submitter: &Submitter, script: &str) -> Child {
    submitter.spawn_lrun(&["-Q", "-w", "n1", "sh", "-c", script])
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
    // It may have ended.
    let _ = kill(pid, signal);
}
