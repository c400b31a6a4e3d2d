//! The three lists in which the published program keeps its jobs. Removal moves the last job of a list into the gap, so the
//! order of waiting jobs is not their order of arrival for long (PROGRAM.md, section 3).

/// The jobs that have arrived and not ended, each in one list.
#[derive(Debug, Default)]
pub struct Collections {
    /// The jobs at the last plan.
    stable: Vec<usize>,
    /// Jobs that arrived after it.
    added: Vec<usize>,
    /// Jobs that started after it, or whose draw or end changed.
    modified: Vec<usize>,
}

impl Collections {
    /// Adds a job that arrived.
    pub fn add(&mut self, job: usize) {
        self.added.push(job);
    }

    /// Moves all jobs to the stable list, before a plan.
    pub fn merge(&mut self) {
        self.stable.append(&mut self.added);
        self.stable.append(&mut self.modified);
    }

    /// Returns the jobs of the stable list in order.
    pub fn stable(&self) -> &[usize] {
        &self.stable
    }

    /// Records that a job started, or that the draw or the end of a running job changed.
    pub fn modify(&mut self, job: usize) {
        if remove(&mut self.stable, job) {
            self.modified.push(job);
        }
    }

    /// Removes a job that ended.
    pub fn remove(&mut self, job: usize) {
        for list in [&mut self.stable, &mut self.added, &mut self.modified] {
            if remove(list, job) {
                return;
            }
        }
    }
}

/// Moves the last element into the place of `job`. Returns false if the job is not in the list.
fn remove(list: &mut Vec<usize>, job: usize) -> bool {
    let place = list.iter().position(|member| *member == job);
    place.map(|place| list.swap_remove(place)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_job_takes_the_place_of_a_removed_one() {
        let mut collections = Collections::default();
        (0..5).for_each(|job| collections.add(job));
        assert!(collections.stable().is_empty());
        collections.merge();
        // Job 1 starts: job 4 takes its place. Then job 0 starts: job 3 takes its place.
        collections.modify(1);
        collections.modify(0);
        assert_eq!(collections.stable(), [3, 4, 2]);
        // A modified job stays where it is. New jobs come before modified ones.
        collections.modify(1);
        collections.add(5);
        collections.merge();
        assert_eq!(collections.stable(), [3, 4, 2, 5, 1, 0]);
        collections.remove(3);
        assert_eq!(collections.stable(), [0, 4, 2, 5, 1]);
    }

    #[test]
    fn a_job_is_removed_from_the_list_that_has_it() {
        let mut collections = Collections::default();
        (0..3).for_each(|job| collections.add(job));
        collections.merge();
        (3..6).for_each(|job| collections.add(job));
        (0..3).for_each(|job| collections.modify(job));
        // Of the added ones, 5 takes the place of 3; of the modified ones, 2 that of 0.
        collections.remove(3);
        collections.remove(0);
        collections.merge();
        assert_eq!(collections.stable(), [5, 4, 2, 1]);
    }
}
