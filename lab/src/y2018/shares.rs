//! DynShare: every 5 s each node gets a share of the target, and jobs on a node that would draw more are slowed
//! (PROGRAM.md, section 6). Has the allocations and the power of one job; the dispatcher has the rest.

/// Watts by which a node must stay below its allocation to lose the difference.
const SLACK_W: i64 = 5;
/// Most watts of a node.
const MOST_W: i64 = 400;
/// Share of the excess over the equal share that nodes keep when all use theirs. The published program computes it like
/// this; the result is not 0.1.
const GIVEN_BACK: f64 = 1.0 - 0.9;
/// Longest remaining time, in seconds. No published row comes near it; the program overflows.
const MOST_REST_S: i64 = 1 << 40;

/// The watts that each node may draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    target_w: i64,
    /// Allocation by node; empty before the first measurement.
    allocations_w: Vec<i64>,
}

impl Shares {
    pub fn new(target_w: i64) -> Self {
        Self { target_w, allocations_w: Vec::new() }
    }

    /// Returns the new allocations for nodes with these draws, in watts. They may be negative.
    pub fn allocate(&mut self, draws_w: &[i64]) -> &[i64] {
        let nodes = draws_w.len() as i64;
        let share_w = (self.target_w as f64 / nodes as f64).round() as i64;
        if self.allocations_w.is_empty() {
            self.allocations_w = vec![share_w.max(1); draws_w.len()];
            return &self.allocations_w;
        }
        let (mut users, mut sum) = (Vec::with_capacity(draws_w.len()), 0);
        for (node, (allocation, draw)) in self.allocations_w.iter_mut().zip(draws_w).enumerate() {
            if *draw < *allocation - SLACK_W {
                *allocation = (draw + SLACK_W).max(1);
            } else {
                users.push(node);
            }
            sum += *allocation;
        }
        let using = users.len() as i64;
        if using == nodes && sum + nodes >= self.target_w {
            for allocation in self.allocations_w.iter_mut().filter(|allocation| **allocation > share_w) {
                *allocation = (*allocation as f64 - (*allocation - share_w) as f64 * GIVEN_BACK) as i64;
            }
            sum = self.allocations_w.iter().sum();
        }
        if using > 0 {
            let more = ((self.target_w - sum) as f64 / using as f64).round() as i64;
            for node in users {
                self.allocations_w[node] = (self.allocations_w[node] + more).min(MOST_W);
            }
        }
        &self.allocations_w
    }
}

/// Power and duration of a running job. Draws are in watts, times in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningPace {
    pub start_s: i64,
    /// Expected duration; less than no time for some jobs that were slowed after their end.
    pub duration_s: i64,
    pub job_w: f64,
    pub unit_w: f64,
    /// The values at full power.
    pub full: FullPace,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FullPace {
    pub duration_s: i64,
    pub job_w: f64,
    pub unit_w: f64,
}

impl RunningPace {
    pub fn end_s(&self) -> i64 {
        self.start_s + self.duration_s
    }

    /// Returns the pace when each unit may draw `watts` from `now_s` on. `None` if the job would end now: then nothing
    /// changes.
    ///
    /// The remaining time may be negative, and a job that regains its full draw loses its delay even if its end is then
    /// past. The published program does both.
    pub fn limited(&self, watts: i64, now_s: i64, factor: f64) -> Option<Self> {
        let (limit, full) = (watts as f64, self.full);
        let elapsed_s = now_s - self.start_s;
        let rest_s = self.duration_s - elapsed_s;
        let (mut job_w, mut unit_w) = (full.job_w, full.unit_w);
        let mut new_rest_s = full.duration_s - elapsed_s;
        let ratio = limit / self.unit_w;
        if self.unit_w > limit {
            let stretch = f64::max(1.0, 1.0 / ratio * factor);
            new_rest_s = (stretch * rest_s as f64) as i64;
            (job_w, unit_w) = (ratio * self.job_w, ratio * self.unit_w);
        } else if full.job_w > self.job_w {
            let shrink = f64::min(1.0, 1.0 / ratio);
            let shortest_s = ((shrink * rest_s as f64) as i64).min(rest_s);
            let rest_s = (rest_s as f64 - (rest_s - shortest_s) as f64 * factor) as i64;
            if rest_s + elapsed_s >= full.duration_s {
                new_rest_s = rest_s;
            }
            (job_w, unit_w) = (f64::min(ratio * self.job_w, full.job_w), f64::min(ratio * self.unit_w, full.unit_w));
        }
        let duration_s = elapsed_s + new_rest_s.clamp(-MOST_REST_S, MOST_REST_S);
        let limited = Self { duration_s, job_w: job_w.max(1.0), unit_w: unit_w.max(1.0), ..*self };
        (new_rest_s != 0).then_some(limited)
    }
}

#[cfg(test)]
mod tests;
