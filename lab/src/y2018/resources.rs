//! Resources of nodes and jobs, and the first-fit placement on nodes (PROGRAM.md, sections 1 and 3).

use super::job::Job;
use super::sort;

/// Number of cores, of GPUs and of MICs, and memory in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources(pub [i64; 4]);

impl Resources {
    /// Returns true if `other` has at least as much of each resource.
    pub fn fits(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(asked, free)| *asked <= free)
    }

    pub fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own += more);
    }

    pub fn subtract(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, less)| *own -= less);
    }
}

/// Nodes of the machine in the order in which a placement tries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeList {
    nodes: Vec<Resources>,
    order: Vec<usize>,
}

impl NodeList {
    /// Sorts the nodes as the published program does, by a key that is always the same.
    pub fn new(nodes: Vec<Resources>) -> Self {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        sort::sort(&mut order, &|_, _| false);
        Self { nodes, order }
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes with all their resources free.
    pub fn idle(&self) -> FreeNodes<'_> {
        FreeNodes { order: &self.order, nodes: self.nodes.clone() }
    }
}

/// Free resources of each node. A node may have less than nothing, because DynShare gives some resources twice.
#[derive(Debug, Clone)]
pub struct FreeNodes<'n> {
    order: &'n [usize],
    nodes: Vec<Resources>,
}

impl FreeNodes<'_> {
    /// Places all units of a job, each on the first node that has room for it. Returns the node of each unit; takes nothing
    /// and returns `None` if a unit finds no node.
    pub fn place(&mut self, job: &Job) -> Option<Vec<usize>> {
        let mut places = Vec::with_capacity(job.units);
        // A node that has no room for a unit has none for the next one: all ask for the same.
        let mut order = self.order.iter().copied().peekable();
        while places.len() < job.units {
            let Some(node) = order.peek().copied() else {
                self.give(&places, job.unit);
                return None;
            };
            if job.unit.fits(self.nodes[node]) {
                self.nodes[node].subtract(job.unit);
                places.push(node);
            } else {
                order.next();
            }
        }
        Some(places)
    }

    /// Takes the resources of units on these nodes.
    pub fn take(&mut self, places: &[usize], unit: Resources) {
        places.iter().for_each(|node| self.nodes[*node].subtract(unit));
    }

    /// Gives the resources of units on these nodes back.
    pub fn give(&mut self, places: &[usize], unit: Resources) {
        places.iter().for_each(|node| self.nodes[*node].add(unit));
    }

    /// Returns true if the job could fit: each total is free in total, and each resource of a unit on some node. Power and
    /// combinations of resources are not looked at.
    pub fn could_fit(&self, job: &Job) -> bool {
        let most = |resource: usize| self.nodes.iter().map(|node| node.0[resource]).max().unwrap_or(0);
        self.has_total(job) && (0..4).all(|resource| job.unit.0[resource] <= most(resource))
    }

    /// Returns true if each total of the job is free in total.
    pub fn has_total(&self, job: &Job) -> bool {
        let mut total = Resources::default();
        self.nodes.iter().for_each(|node| total.add(*node));
        job.total.fits(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(units: i64, unit: [i64; 4]) -> Job {
        let total = Resources(unit.map(|amount| amount * units));
        Job { arrival_s: 0, requested_s: 1, run_s: 1, units: units as usize, unit: Resources(unit), total, unit_w: 1 }
    }

    #[test]
    fn units_go_to_the_first_nodes_with_room_or_none_does() {
        let nodes = NodeList::new(vec![Resources([8, 0, 0, 9]), Resources([16, 0, 0, 9])]);
        let mut free = nodes.idle();
        assert_eq!(free.place(&job(4, [8, 0, 0, 1])), None);
        // Nothing was taken. Two units share a node.
        assert_eq!(free.place(&job(3, [8, 0, 0, 1])), Some(vec![0, 1, 1]));
        assert_eq!(free.place(&job(1, [1, 0, 0, 1])), None);
        free.give(&[1], Resources([8, 0, 0, 1]));
        assert_eq!(free.place(&job(1, [1, 0, 0, 1])), Some(vec![1]));
    }

    #[test]
    fn each_resource_could_be_on_another_node() {
        let nodes = NodeList::new(vec![Resources([8, 2, 0, 9]), Resources([16, 0, 0, 1])]);
        let mut free = nodes.idle();
        // 16 cores and 9 MiB are free, but on two nodes.
        assert!(free.could_fit(&job(1, [16, 1, 0, 9])) && free.place(&job(1, [16, 1, 0, 9])).is_none());
        assert!(!free.could_fit(&job(1, [17, 0, 0, 1])) && !free.could_fit(&job(1, [1, 0, 1, 1])));
        // 3 x 8 cores are free in total, 4 x 8 are not.
        assert!(free.has_total(&job(3, [8, 0, 0, 1])) && !free.has_total(&job(4, [8, 0, 0, 1])));
    }
}
