//! The states of the nodes in the shutdown variant, as runs of equal state, and the jobs that wait for nodes to be on.
//!
//! Returns orders; has no clock.

use super::intervals::{Free, Interval};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    On,
    GoingOff,
    Off,
    /// Still on the way off, but a job waits until the node is on.
    Wanted,
}

/// The consequences of a change of states, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    SwitchOff(Interval),
    SwitchOn(Interval),
    /// The job waits for one more run of nodes.
    Delayed(u32),
    /// All nodes of the job are on.
    Ready(u32, Interval),
}

/// Adjacent nodes in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    at: Interval,
    state: NodeState,
}

/// The states of all nodes; see the module.
#[derive(Debug)]
pub struct Nodes {
    /// Runs in order, which cover all nodes. Adjacent runs differ in state.
    runs: Vec<Stretch>,
    waiting: Vec<(u32, Interval)>,
}

impl Nodes {
    /// Starts with all nodes on.
    pub fn new(nodes: u32) -> Self {
        let all = Stretch { at: Interval::new(0, nodes - 1), state: NodeState::On };
        Self { runs: vec![all], waiting: Vec::new() }
    }

    /// Switches off the free nodes that are on.
    pub fn rest(&mut self, free: &[Free], effects: &mut Vec<Effect>) {
        let mut pieces = Vec::new();
        let mut index = 0;
        for free in free.iter().map(|free| free.at) {
            while self.runs[index].at.last < free.first {
                index += 1;
            }
            let met = self.runs[index..].iter().take_while(|run| run.at.first <= free.last);
            pieces.extend(met.filter(|run| run.state == NodeState::On).map(|run| run.at.common(free)));
        }
        for piece in pieces {
            self.set(piece, NodeState::GoingOff);
            effects.push(Effect::SwitchOff(piece));
        }
    }

    /// Requests these nodes for a job.
    pub fn want(&mut self, job: u32, at: Interval, effects: &mut Vec<Effect>) {
        self.change(at, NodeState::Wanted, Some(job), effects);
    }

    /// Records that nodes are on or off.
    pub fn switched(&mut self, at: Interval, on: bool, effects: &mut Vec<Effect>) {
        self.change(at, if on { NodeState::On } else { NodeState::Off }, None, effects);
    }

    fn change(&mut self, at: Interval, to: NodeState, job: Option<u32>, effects: &mut Vec<Effect>) {
        for (run, from) in self.set(at, to) {
            match (from, to) {
                (NodeState::On, NodeState::Wanted) => {
                    self.delay(job, at, effects);
                    self.change(run, NodeState::On, None, effects);
                }
                (NodeState::GoingOff, NodeState::Wanted) => self.delay(job, at, effects),
                (NodeState::Off, NodeState::Wanted) => {
                    effects.push(Effect::SwitchOn(run));
                    self.delay(job, at, effects);
                }
                (NodeState::Wanted, NodeState::On) => self.ready(run, effects),
                // The node is off now, so it can be switched on for the waiting job.
                (NodeState::Wanted, NodeState::Off) => self.change(run, NodeState::Wanted, None, effects),
                _ => {}
            }
        }
    }

    /// Delays the job once for every run, even if that run is active, as the published code does.
    fn delay(&mut self, job: Option<u32>, at: Interval, effects: &mut Vec<Effect>) {
        let Some(job) = job else { return };
        if !self.waiting.iter().any(|(other, _)| *other == job) {
            self.waiting.push((job, at));
        }
        effects.push(Effect::Delayed(job));
    }

    /// Jobs are served in the order of requests. The published order is that of memory addresses.
    fn ready(&mut self, on: Interval, effects: &mut Vec<Effect>) {
        let runs = &self.runs;
        self.waiting.retain(|&(job, at)| {
            let meets = at.first <= on.last && on.first <= at.last;
            let ready = meets && all(runs, at, NodeState::On);
            if ready {
                effects.push(Effect::Ready(job, at));
            }
            !ready
        });
    }

    /// Sets the state and gives the former runs, in order.
    fn set(&mut self, at: Interval, to: NodeState) -> Vec<(Interval, NodeState)> {
        let first = self.runs.partition_point(|run| run.at.last < at.first);
        let end = first + self.runs[first..].partition_point(|run| run.at.first <= at.last);
        let met = &self.runs[first..end];
        let former = met.iter().map(|run| (run.at.common(at), run.state)).collect();
        // The parts outside the range keep their state; equal neighbours are joined.
        let (before, after) = (first.saturating_sub(1), (end + 1).min(self.runs.len()));
        let mut pieces: [Option<Stretch>; 5] = [None; 5];
        let low = self.runs[before..end].iter().filter(|run| run.at.first < at.first);
        let low = low.map(|run| Stretch {
            at: Interval::new(run.at.first, run.at.last.min(at.first.saturating_sub(1))),
            ..*run
        });
        let high = self.runs[first..after].iter().filter(|run| at.last < run.at.last);
        let high = high.map(|run| Stretch { at: Interval::new(run.at.first.max(at.last + 1), run.at.last), ..*run });
        let mut count = 0;
        for run in low.chain([Stretch { at, state: to }]).chain(high) {
            match pieces[..count].last_mut() {
                Some(Some(last)) if last.state == run.state => last.at.last = run.at.last,
                _ => {
                    pieces[count] = Some(run);
                    count += 1;
                }
            }
        }
        self.runs.splice(before..after, pieces.into_iter().flatten());
        former
    }
}

fn all(runs: &[Stretch], at: Interval, state: NodeState) -> bool {
    let run = runs.get(runs.partition_point(|run| run.at.last < at.first));
    run.is_some_and(|run| run.state == state && at.last <= run.at.last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::y2017::intervals::FreeIntervals;

    const fn at(first: u32, last: u32) -> Interval {
        Interval::new(first, last)
    }

    #[test]
    fn nodes_go_off_and_come_back_for_a_job() {
        let mut nodes = Nodes::new(10);
        let mut effects = Vec::new();
        let mut free = FreeIntervals::new(10);
        let (low, high) = (free.take(2, 0).expect("free"), free.take(8, 0).expect("free"));
        assert_eq!((low, high), (at(0, 1), at(2, 9)));
        free.release(at(2, 5));
        nodes.rest(free.list(), &mut effects);
        free.release(at(6, 7));
        nodes.rest(free.list(), &mut effects);
        // Nodes 2 to 5 are already going off.
        assert_eq!(effects, [Effect::SwitchOff(at(2, 5)), Effect::SwitchOff(at(6, 7))]);
        effects.clear();
        nodes.switched(at(2, 5), false, &mut effects);
        nodes.rest(free.list(), &mut effects);
        assert_eq!(effects, []);
        // The states are on, off, going off and on: four runs and four delays. The job waits for nodes that go off.
        nodes.want(3, at(1, 8), &mut effects);
        let delayed = Effect::Delayed(3);
        assert_eq!(effects, [delayed, Effect::SwitchOn(at(2, 5)), delayed, delayed, delayed]);
        effects.clear();
        nodes.switched(at(6, 7), false, &mut effects);
        assert_eq!(effects, [Effect::SwitchOn(at(6, 7))]);
        nodes.switched(at(2, 5), true, &mut effects);
        assert_eq!(effects.len(), 1);
        nodes.switched(at(6, 7), true, &mut effects);
        assert_eq!(effects[1..], [Effect::Ready(3, at(1, 8))]);
        effects.clear();
        nodes.want(4, at(0, 9), &mut effects);
        assert_eq!(effects, [Effect::Delayed(4), Effect::Ready(4, at(0, 9))]);
    }
}
