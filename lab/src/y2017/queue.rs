//! The waiting jobs in order of submission, with an index that finds the next job that may start.
//!
//! The index is a tree over all jobs of the workload. Each node has the fewest processors and the shortest request of
//! the waiting jobs below it. The queue itself decides nothing.

/// Resources that a job requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub processors: u32,
    pub ms: i64,
}

/// Request of a job that does not wait.
const NONE: Request = Request { processors: u32::MAX, ms: i64::MAX };
/// Number of jobs in a leaf of the tree.
const LEAF: usize = 8;

impl Request {
    fn least(self, other: Self) -> Self {
        Self { processors: self.processors.min(other.processors), ms: self.ms.min(other.ms) }
    }
}

/// The queue. Jobs are numbered in order of submission.
#[derive(Debug)]
pub struct Queue {
    /// Requests by job; [`NONE`] if the job does not wait.
    waiting: Vec<Request>,
    tree: Vec<Request>,
    leaves: usize,
    front: usize,
    len: usize,
}

impl Queue {
    /// Makes a queue for jobs 0 to `jobs - 1`. It is empty at first.
    pub fn new(jobs: usize) -> Self {
        let leaves = jobs.div_ceil(LEAF).next_power_of_two();
        Self { waiting: vec![NONE; leaves * LEAF], tree: vec![NONE; 2 * leaves], leaves, front: 0, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, job: usize, request: Request) {
        self.waiting[job] = request;
        self.len += 1;
        self.front = self.front.min(job);
        self.mend(job);
    }

    pub fn remove(&mut self, job: usize) {
        self.waiting[job] = NONE;
        self.len -= 1;
        self.mend(job);
    }

    fn mend(&mut self, job: usize) {
        let leaf = job / LEAF;
        let mut node = leaf + self.leaves;
        self.tree[node] = self.waiting[leaf * LEAF..(leaf + 1) * LEAF].iter().copied().fold(NONE, Request::least);
        while node > 1 {
            node /= 2;
            let least = self.tree[2 * node].least(self.tree[2 * node + 1]);
            if least == self.tree[node] {
                break;
            }
            self.tree[node] = least;
        }
    }

    /// Returns the first waiting job.
    pub fn front(&mut self) -> Option<(usize, Request)> {
        if self.len == 0 {
            return None;
        }
        let found = self.next(self.front, |_| true);
        if let Some((job, _)) = found {
            self.front = job;
        }
        found
    }

    /// Returns the first waiting job at or after `from` for which `may` is true. If `may` rejects a request, it must
    /// reject every larger one: for several jobs it gets the fewest processors and the shortest time.
    pub fn next(&self, from: usize, may: impl Fn(Request) -> bool) -> Option<(usize, Request)> {
        let mut from = from;
        let mut node = from / LEAF + self.leaves;
        if node >= self.tree.len() {
            return None;
        }
        loop {
            // A search that starts within a leaf has already covered the whole leaf.
            let looked_at = !from.is_multiple_of(LEAF) && node >= self.leaves;
            if looked_at || (self.tree[node] != NONE && may(self.tree[node])) {
                if node < self.leaves {
                    node *= 2;
                    continue;
                }
                let end = (node - self.leaves + 1) * LEAF;
                let first = from.max(end - LEAF);
                let jobs = self.waiting[first..end].iter().zip(first..);
                if let Some((request, job)) = jobs.into_iter().find(|(request, _)| **request != NONE && may(**request))
                {
                    return Some((job, *request));
                }
                from = end;
            }
            // Moves to the next node to the right that is not below this one.
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_scan_finds() {
        let mut queue = Queue::new(100);
        let mut scanned: Vec<Option<Request>> = vec![None; 100];
        let mut seed = 1_u32;
        let mut dice = move |sides: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % sides
        };
        for _ in 0..2_000 {
            let job = dice(100) as usize;
            if scanned[job].take().is_some() {
                queue.remove(job);
            } else {
                let request = Request { processors: 1 + dice(9), ms: i64::from(dice(50)) };
                scanned[job] = Some(request);
                queue.push(job, request);
            }
            assert_eq!(queue.len(), scanned.iter().flatten().count());
            let waiting = |from: usize| (from..100).filter_map(|job| scanned[job].map(|request| (job, request)));
            assert_eq!(queue.front(), waiting(0).next());
            let (from, processors, ms) = (dice(100) as usize, dice(9), i64::from(dice(50)));
            let may = |request: Request| request.processors <= processors && request.ms <= ms;
            assert_eq!(queue.next(from, may), waiting(from).find(|(_, request)| may(*request)));
        }
    }
}
