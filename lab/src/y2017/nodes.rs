//! The states of the nodes as the shutdown variant knows them, as runs of equal state, and who waits for nodes to be on.
//!
//! Emits orders; knows no time.

use super::intervals::{Free, Interval};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    On,
    GoingOff,
    Off,
    /// A job waits for it to be on.
    Wanted,
}

/// The consequences of a change of states, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    SwitchOff(Interval),
    SwitchOn(Interval),
    /// A run of nodes that was not ready was added to what the job waits for.
    Delayed(u32),
    /// All its nodes are on.
    Ready(u32, Interval),
}

/// Neighbours in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    at: Interval,
    state: NodeState,
}

/// See the module.
#[derive(Debug)]
pub struct Nodes {
    /// In order; together all nodes, no two neighbours alike.
    runs: Vec<Stretch>,
    waiting: Vec<(u32, Interval)>,
}

impl Nodes {
    /// All on.
    pub fn new(nodes: u32) -> Self {
        let all = Stretch { at: Interval::new(0, nodes - 1), state: NodeState::On };
        Self { runs: vec![all], waiting: Vec::new() }
    }

    /// Free nodes that are on go off. The others are off, or going off.
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

    /// A job is to start on these nodes.
    pub fn want(&mut self, job: u32, at: Interval, effects: &mut Vec<Effect>) {
        self.change(at, NodeState::Wanted, Some(job), effects);
    }

    /// Nodes report that they are on or off.
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
                // Off at last: it can be switched on for who wants it.
                (NodeState::Wanted, NodeState::Off) => self.change(run, NodeState::Wanted, None, effects),
                _ => {}
            }
        }
    }

    /// Every run delays the job once more, one that is on too: so it was published.
    fn delay(&mut self, job: Option<u32>, at: Interval, effects: &mut Vec<Effect>) {
        let Some(job) = job else { return };
        if !self.waiting.iter().any(|(other, _)| *other == job) {
            self.waiting.push((job, at));
        }
        effects.push(Effect::Delayed(job));
    }

    /// First come, first served; the published order is that of addresses in memory.
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
        // What juts out on either side stays, and joins if it is alike; so do the neighbours.
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
        // 2 to 5 are going off already.
        assert_eq!(effects, [Effect::SwitchOff(at(2, 5)), Effect::SwitchOff(at(6, 7))]);
        effects.clear();
        nodes.switched(at(2, 5), false, &mut effects);
        nodes.rest(free.list(), &mut effects);
        assert_eq!(effects, []);
        // On, off, going off, on: four runs, four delays; those that go off are waited for.
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
