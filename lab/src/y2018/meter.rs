//! Draws of the nodes and of the system as the published program measures them: sums that are truncated to whole watts after
//! each addition (PROGRAM.md, section 6).

/// Jobs on each node.
#[derive(Debug, Clone, Default)]
pub struct NodeJobs {
    /// In the order in which they started here; a job with several units once.
    by_start: Vec<usize>,
    /// A job for each unit, in order of job numbers.
    units: Vec<usize>,
}

impl NodeJobs {
    /// Returns the jobs in the order in which they started here.
    pub fn by_start(&self) -> &[usize] {
        &self.by_start
    }

    /// Adds one unit of a job.
    pub fn add(&mut self, job: usize) {
        if !self.by_start.contains(&job) {
            self.by_start.push(job);
        }
        let place = self.units.partition_point(|member| *member <= job);
        self.units.insert(place, job);
    }

    /// Removes all units of a job.
    pub fn remove(&mut self, job: usize) {
        self.by_start.retain(|member| *member != job);
        self.units.retain(|member| *member != job);
    }

    /// Returns the draw in watts. `unit_w` returns the draw of a unit.
    pub fn draw(&self, unit_w: impl Fn(usize) -> f64) -> i64 {
        sum(self.units.iter().map(|job| unit_w(*job)))
    }
}

/// Adds draws in watts, and truncates each sum.
pub fn sum(draws_w: impl Iterator<Item = f64>) -> i64 {
    draws_w.fold(0, |sum, draw| (sum as f64 + draw) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sum_is_truncated() {
        // 10.75 -> 10, 10 + 10.75 -> 20, 20 + 10.75 -> 30, not 32.
        assert_eq!(sum([10.75; 3].into_iter()), 30);
        // Next to 4,096, a number just below 40 is 40 in double precision.
        let below = 40.0 - f64::EPSILON * 32.0;
        assert_eq!((sum([below].into_iter()), sum([4_096.0, below].into_iter())), (39, 4_136));
    }

    #[test]
    fn units_are_added_in_order_of_jobs() {
        let mut node = NodeJobs::default();
        [7, 2, 7].into_iter().for_each(|job| node.add(job));
        assert_eq!(node.by_start(), [7, 2]);
        let order = std::cell::RefCell::new(Vec::new());
        let draw = node.draw(|job| {
            order.borrow_mut().push(job);
            job as f64 + 0.5
        });
        // 2.5 -> 2, 9.5 -> 9, 16.5 -> 16.
        assert_eq!((draw, order.into_inner()), (16, vec![2, 7, 7]));
        node.remove(7);
        assert_eq!((node.by_start(), node.draw(|_| 3.0)), (&[2][..], 3));
    }
}
