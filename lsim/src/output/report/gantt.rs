//! Jobs in the Gantt chart: all jobs, or of a long run the largest by processors x time.
//!
//! Bounded memory, one pass. A job's nodes are kept at the resolution of the chart: gaps below one row of pixels are
//! closed.

use std::cmp::Reverse;

use limo_model::Time;

use crate::output::json::Json;
use crate::record::{Fate, JobRow};

/// Most jobs of the chart: more than a wide screen can show.
pub const JOBS: usize = 20_000;
/// Most bars in total; scattered jobs have many each. They make about 2 MB of page.
const BARS: usize = 160_000;
/// Most rows of the chart.
const ROWS: u32 = 512;

#[derive(Debug)]
struct Bar {
    /// Area in processors x ms.
    area: i64,
    number: i64,
    /// Submission, start, end; `None` if the job has not ended.
    times: (Time, Time, Option<Time>),
    processors: u32,
    user: i32,
    fate: Fate,
    /// Index of its nodes in [`Gantt::nodes`].
    from: u32,
    intervals: u32,
}

impl Bar {
    fn nodes<'n>(&self, nodes: &'n [(u32, u32)]) -> &'n [(u32, u32)] {
        &nodes[self.from as usize..][..self.intervals as usize]
    }
}

/// The jobs of the chart; see the module.
#[derive(Debug)]
pub struct Gantt {
    /// Largest gap that is closed, in nodes.
    gap: u32,
    most: usize,
    bars: Vec<Bar>,
    /// Nodes of all bars.
    nodes: Vec<(u32, u32)>,
    /// Area below which a job is not among the largest.
    least: i64,
    /// Number of jobs that ran.
    seen: u64,
}

impl Gantt {
    pub fn new(processors: u32) -> Self {
        Self::with_most(processors, JOBS)
    }

    fn with_most(processors: u32, most: usize) -> Self {
        let gap = processors.div_ceil(ROWS).max(1);
        Self { gap, most, bars: Vec::new(), nodes: Vec::new(), least: -1, seen: 0 }
    }

    /// Adds a job; jobs that never started are not drawn.
    pub fn add(&mut self, job: &JobRow<'_>) {
        let Some(start) = job.start else { return };
        self.seen += 1;
        // A job that is still running reaches the right edge, and counts as the largest.
        let area = job.end.map_or(i64::MAX, |end| i64::from(job.processors).saturating_mul((end - start).ms()));
        if area < self.least {
            return;
        }
        let from = self.nodes.len();
        coarse(job.allocated, self.gap, &mut self.nodes);
        self.bars.push(Bar {
            area,
            number: job.number,
            times: (job.submit, start, job.end),
            processors: job.processors,
            user: job.user,
            fate: job.fate,
            from: from as u32,
            intervals: (self.nodes.len() - from) as u32,
        });
        // The list is truncated at twice the limit, so that the cost per job is small.
        if self.bars.len() >= 2 * self.most {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.bars.len() > self.most {
            self.bars.select_nth_unstable_by_key(self.most - 1, order);
            self.least = self.bars[self.most - 1].area;
            self.bars.truncate(self.most);
            let all = std::mem::take(&mut self.nodes);
            for bar in &mut self.bars {
                let nodes = bar.nodes(&all);
                bar.from = self.nodes.len() as u32;
                self.nodes.extend_from_slice(nodes);
            }
        }
    }

    /// Drops the smallest bars above the limit, and sorts the others by start.
    fn settle(&mut self) {
        self.cut();
        if self.nodes.len() > BARS {
            self.bars.sort_unstable_by_key(order);
            let mut bars = 0;
            let kept = self.bars.iter().take_while(|bar| {
                bars += bar.intervals as usize;
                bars <= BARS
            });
            let kept = kept.count();
            self.bars.truncate(kept);
        }
        // Sorts by start, then by number. A key is one number, which compares in one step. Each bar moves once.
        self.bars.sort_by_cached_key(|bar| (i128::from(bar.times.1.unix_ms()) << 64) + i128::from(bar.number));
    }

    /// Writes `{"seen", "jobs": [[number, submit, start, end or null, processors, user, fate, node, node, ...]]}`.
    /// Times are in ms from `start`; nodes are inclusive pairs; fate is 0 completed, 1 killed, 2 unfinished.
    pub fn write(&mut self, json: &mut Json, start: Time) {
        self.settle();
        let ms = |time: Time| i128::from((time - start).ms());
        json.object(|json| {
            json.key("seen").int(i128::from(self.seen));
            json.key("jobs").array(|json| {
                for bar in &self.bars {
                    json.array(|json| {
                        json.int(i128::from(bar.number));
                        json.int(ms(bar.times.0));
                        json.int(ms(bar.times.1));
                        match bar.times.2 {
                            Some(end) => json.int(ms(end)),
                            None => json.null(),
                        }
                        json.int(i128::from(bar.processors));
                        json.int(i128::from(bar.user));
                        json.int(fate(bar.fate));
                        for &(first, last) in bar.nodes(&self.nodes) {
                            json.int(i128::from(first));
                            json.int(i128::from(last));
                        }
                    });
                }
            });
        });
    }
}

/// Sorts the largest first, and equal ones by number, so that the choice does not depend on the order of ends.
fn order(bar: &Bar) -> (Reverse<i64>, i64, Time) {
    (Reverse(bar.area), bar.number, bar.times.1)
}

fn fate(fate: Fate) -> i128 {
    match fate {
        Fate::Completed | Fate::Refused => 0,
        Fate::Killed => 1,
        Fate::Unfinished => 2,
    }
}

/// Appends the intervals, but closes gaps of fewer than `gap` nodes.
fn coarse(intervals: &[(u32, u32)], gap: u32, nodes: &mut Vec<(u32, u32)>) {
    let mut intervals = intervals.iter().copied();
    let Some(mut open) = intervals.next() else { return };
    for (first, last) in intervals {
        if first.saturating_sub(open.1) <= gap {
            open.1 = last;
        } else {
            nodes.push(std::mem::replace(&mut open, (first, last)));
        }
    }
    nodes.push(open);
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Energy;

    fn job(number: i64, processors: u32, end: Option<i64>) -> JobRow<'static> {
        JobRow {
            number,
            submit: Time::from_unix_ms(0),
            processors,
            walltime: None,
            user: 1,
            fate: Fate::Completed,
            start: Some(Time::from_unix_ms(10)),
            end: end.map(Time::from_unix_ms),
            allocated: &[(0, 3)],
            energy: Energy::ZERO,
            cost: None,
        }
    }

    fn numbers(gantt: &mut Gantt) -> Vec<i64> {
        gantt.settle();
        gantt.bars.iter().map(|bar| bar.number).collect()
    }

    #[test]
    fn the_largest_stay() {
        let mut gantt = Gantt::with_most(16, 3);
        for (number, processors, end) in [(1, 1, 11), (2, 9, 20), (3, 2, 11), (4, 5, 28), (5, 1, 99), (6, 1, 12)] {
            gantt.add(&job(number, processors, Some(end)));
        }
        gantt.add(&job(7, 1, None));
        gantt.add(&JobRow { start: None, end: None, ..job(8, 16, None) });
        // The areas are 1, 90, 2, 90, 89 and 2; number 7 has no end. 2 and 4 are equal and both larger than 5.
        assert_eq!(gantt.seen, 7);
        assert_eq!(numbers(&mut gantt), [2, 4, 7]);
    }

    #[test]
    fn of_equal_ones_the_first_numbers_stay_in_any_order() {
        for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 5, 1, 4, 2]] {
            let mut gantt = Gantt::with_most(16, 2);
            for number in order {
                gantt.add(&job(number, 4, Some(20)));
            }
            assert_eq!(numbers(&mut gantt), [1, 2]);
        }
    }

    #[test]
    fn jobs_keep_their_nodes_when_others_are_dropped() {
        let mut gantt = Gantt::with_most(16, 3);
        for number in 0..20_u32 {
            // Later jobs are larger, and every second job has two intervals.
            let nodes = [(number, number), (number + 50, number + 60)];
            let allocated = &nodes[..1 + number as usize % 2];
            gantt.add(&JobRow { allocated, ..job(i64::from(number), number + 1, Some(20)) });
        }
        gantt.settle();
        let nodes: Vec<_> = gantt.bars.iter().map(|bar| bar.nodes(&gantt.nodes)).collect();
        assert_eq!(nodes, [[(17, 17), (67, 77)].as_slice(), &[(18, 18)], &[(19, 19), (69, 79)]]);
    }

    #[test]
    fn excess_bars_of_the_smallest_jobs_are_omitted() {
        let mut gantt = Gantt::new(100);
        let scattered: Vec<_> = (0..100).step_by(2).map(|node| (node, node)).collect();
        let fit = (BARS / scattered.len()) as i64;
        for number in 0..fit + 10 {
            gantt.add(&JobRow { allocated: &scattered, ..job(number, 50, Some(20 + number % 2)) });
        }
        let kept = numbers(&mut gantt);
        // The odd numbers are the larger jobs, so the last even ones are dropped.
        assert_eq!(kept.len() as i64, fit);
        assert_eq!(kept.iter().filter(|number| *number % 2 == 1).count() as i64, (fit + 10) / 2);
        assert!(kept.is_sorted() && !kept.contains(&(fit + 8)));
    }

    #[test]
    fn gaps_below_a_row_are_closed() {
        let check = |gap, expected: &[(u32, u32)]| {
            let mut nodes = Vec::new();
            coarse(&[(0, 1), (3, 4), (8, 8)], gap, &mut nodes);
            assert_eq!(nodes, expected);
        };
        check(1, &[(0, 1), (3, 4), (8, 8)]);
        check(2, &[(0, 4), (8, 8)]);
        check(4, &[(0, 8)]);
    }

    #[test]
    fn written_with_times_from_the_start() {
        let mut gantt = Gantt::new(4);
        gantt.add(&job(1, 4, Some(20)));
        let mut json = Json::default();
        gantt.write(&mut json, Time::from_unix_ms(5));
        assert_eq!(json.into_text(), r#"{"seen":1,"jobs":[[1,-5,5,15,4,1,0,0,3]]}"#);
    }
}
