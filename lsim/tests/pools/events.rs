//! Events of a second in the naive simulator.

use super::naive::{NaivePhase, NaivePool, NaivePower};

/// Event of a second, in the order in which these happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NaiveEvent {
    Awake { order: u64 },
    Asleep { order: u64 },
    Rebooted { node: usize },
    Begins { job: usize },
    Stops { job: usize },
    Evicted { job: usize },
    Ends { begun: u64, job: usize },
    Removed { job: usize },
}

impl NaivePool<'_> {
    /// Returns what happens now, in order.
    pub fn due(&self, now: i64) -> Vec<NaiveEvent> {
        let mut due = Vec::new();
        for (node, of) in self.nodes.iter().enumerate() {
            match of.power {
                NaivePower::Up { until, order } if until == now => {
                    due.push(NaiveEvent::Awake { order });
                    let job = of.job.filter(|job| self.jobs[*job].phase == NaivePhase::Assigned);
                    due.extend(job.map(|job| NaiveEvent::Begins { job }));
                }
                NaivePower::Down { until, order } if until == now => due.push(NaiveEvent::Asleep { order }),
                _ => {}
            }
            if of.reboots_until == Some(now) {
                due.push(NaiveEvent::Rebooted { node });
            }
        }
        for (job, of) in self.jobs.iter().enumerate().filter(|(_, of)| of.phase != NaivePhase::Over) {
            if of.is_removed {
                due.push(NaiveEvent::Stops { job });
            } else if of.is_evicted {
                due.push(NaiveEvent::Evicted { job });
            } else if of.phase == NaivePhase::Running && of.input + of.left + of.output == 0 {
                due.push(NaiveEvent::Ends { begun: of.begun, job });
            } else if self.case.jobs[job].removed == Some(now) {
                due.push(NaiveEvent::Removed { job });
            }
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    pub fn happen(&mut self, event: NaiveEvent, now: i64) {
        match event {
            NaiveEvent::Awake { order } => {
                let power = NaivePower::Up { until: now, order };
                for node in self.nodes.iter_mut().filter(|node| node.power == power) {
                    (node.power, node.idle_since) = (NaivePower::Awake, now);
                }
                (0..self.nodes.len()).for_each(|node| self.try_reboot(node, now));
            }
            NaiveEvent::Asleep { order } => {
                for node in 0..self.nodes.len() {
                    if self.nodes[node].power == (NaivePower::Down { until: now, order }) {
                        self.nodes[node].power = NaivePower::Asleep;
                        if self.nodes[node].owners > 0 {
                            self.wake(node, now);
                        }
                        self.try_reboot(node, now);
                    }
                }
            }
            NaiveEvent::Rebooted { node } => {
                self.nodes[node].reboots_until = None;
                self.nodes[node].idle_since = now;
            }
            NaiveEvent::Begins { job } => {
                // A reboot may have sent it to another computer, which still wakes.
                let is_awake = self.nodes[self.jobs[job].node].power == NaivePower::Awake;
                if is_awake && self.jobs[job].phase == NaivePhase::Assigned {
                    self.begin(job, now);
                }
            }
            NaiveEvent::Evicted { job } => {
                self.evict(job, 0, now);
                self.try_reboot(self.jobs[job].node, now);
            }
            NaiveEvent::Ends { job, .. } => {
                let of = &self.case.jobs[job];
                if self.jobs[job].phase == NaivePhase::Running {
                    self.outcome.good += self.jobs[job].worked;
                    self.count_transfers(job);
                    self.outcome.overhead += now - of.submit - of.run;
                    self.end(job, now);
                }
            }
            NaiveEvent::Stops { job } => {
                self.outcome.removed += self.jobs[job].moved + self.jobs[job].worked;
                self.end(job, now);
            }
            NaiveEvent::Removed { job } if self.jobs[job].phase == NaivePhase::Waiting => {
                self.jobs[job].phase = NaivePhase::Over;
            }
            NaiveEvent::Removed { job } => self.jobs[job].is_removed = true,
        }
    }
}
