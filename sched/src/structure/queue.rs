//! The queue: jobs at places, in order. A job's place is its number. When the queue is ranked, the jobs occupy the
//! same places in another order. More than a bit is stored only for jobs with another place than their number. So a
//! queue in the order of submission costs as much as a set of numbers. The caller decides about the order.

use std::collections::BTreeMap;

use limo_model::JobId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::JobSet;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Occupied places.
    places: JobSet,
    /// Jobs at places that differ from their numbers, in both directions.
    at: BTreeMap<JobId, JobId>,
    place_of: BTreeMap<JobId, JobId>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns true if a job has a place that differs from its number.
    pub fn is_ranked(&self) -> bool {
        !self.at.is_empty()
    }

    pub fn contains(&self, job: JobId) -> bool {
        self.place(job).is_some()
    }

    pub fn place(&self, job: JobId) -> Option<u64> {
        if let Some(place) = self.place_of.get(&job).filter(|_| self.is_ranked()) {
            return Some(place.0);
        }
        (self.places.contains(job) && self.job_at(job.0) == job).then_some(job.0)
    }

    /// Returns the job at a place that is taken.
    pub fn job_at(&self, place: u64) -> JobId {
        let place = JobId(place);
        if self.at.is_empty() { place } else { self.at.get(&place).copied().unwrap_or(place) }
    }

    /// Inserts a job and returns its place. This is its number; if another job has this place, it is the number of
    /// that job, and so on. The search ends, because places are unique. Returns `None` if the job already has a
    /// place.
    pub fn insert(&mut self, job: JobId) -> Option<u64> {
        if self.is_ranked() {
            return self.insert_among_ranked(job);
        }
        self.places.insert(job).then_some(job.0)
    }

    #[cold]
    fn insert_among_ranked(&mut self, job: JobId) -> Option<u64> {
        if self.contains(job) {
            return None;
        }
        let mut place = job;
        while self.places.contains(place) {
            place = self.job_at(place.0);
        }
        self.places.insert(place);
        self.seat(place, job);
        Some(place.0)
    }

    fn seat(&mut self, place: JobId, job: JobId) {
        if place != job {
            self.at.insert(place, job);
            self.place_of.insert(job, place);
        }
    }

    /// Removes a job; returns its place.
    pub fn remove(&mut self, job: JobId) -> Option<u64> {
        let place = JobId(self.place(job)?);
        self.places.remove(place);
        if place != job {
            self.at.remove(&place);
            self.place_of.remove(&job);
        }
        Some(place.0)
    }

    /// Returns the jobs in order.
    pub fn iter(&self) -> impl Iterator<Item = JobId> {
        self.places.iter().map(|place| self.job_at(place.0))
    }

    /// Returns the jobs with their places, in order.
    pub fn places(&self) -> impl Iterator<Item = (u64, JobId)> {
        self.places.iter().map(|place| (place.0, self.job_at(place.0)))
    }

    pub fn last(&self) -> Option<JobId> {
        self.places.last().map(|place| self.job_at(place.0))
    }

    /// Gives the occupied places to the jobs of the queue in this order; `order` must contain all of them. Returns
    /// true if a place changed.
    pub fn rank(&mut self, order: &[JobId]) -> bool {
        debug_assert_eq!(order.len(), self.len(), "all jobs of the queue");
        if self.iter().eq(order.iter().copied()) {
            return false;
        }
        self.at.clear();
        self.place_of.clear();
        let places: Vec<JobId> = self.places.iter().collect();
        places.into_iter().zip(order).for_each(|(place, job)| self.seat(place, *job));
        true
    }
}

/// A job of a queue: its number, or a place and the job there.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum QueueSeat {
    Own(JobId),
    Other(JobId, JobId),
}

/// Writes the jobs in order: a list of numbers if every job is at the place of its number.
impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seat = |(place, job): (u64, JobId)| match place == job.0 {
            true => QueueSeat::Own(job),
            false => QueueSeat::Other(JobId(place), job),
        };
        serializer.collect_seq(self.places().map(seat))
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seats = Vec::<QueueSeat>::deserialize(deserializer)?;
        let places = seats.iter().map(|seat| match seat {
            QueueSeat::Own(place) | QueueSeat::Other(place, _) => *place,
        });
        let places = JobSet::of(places)?;
        let mut queue = Self { places, ..Self::default() };
        for seat in &seats {
            if let QueueSeat::Other(place, job) = seat {
                queue.seat(*place, *job);
            }
        }
        Ok(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(jobs: &[u64]) -> Queue {
        let mut queue = Queue::default();
        for job in jobs {
            assert_eq!(queue.insert(JobId(*job)), Some(*job));
        }
        queue
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.iter().map(|job| job.0).collect()
    }

    fn rank(queue: &mut Queue, order: &[u64]) -> bool {
        queue.rank(&order.iter().map(|job| JobId(*job)).collect::<Vec<_>>())
    }

    #[test]
    fn jobs_have_the_places_of_one_another() {
        let mut queue = queue(&[2, 3, 5, 9]);
        assert!(!rank(&mut queue, &[2, 3, 5, 9]) && !queue.is_ranked());
        assert!(rank(&mut queue, &[9, 2, 3, 5]));
        let places: Vec<(u64, u64)> = queue.places().map(|(place, job)| (place, job.0)).collect();
        assert_eq!(places, [(2, 9), (3, 2), (5, 3), (9, 5)]);
        assert_eq!([9, 2, 3, 5, 7].map(|job| queue.place(JobId(job))), [Some(2), Some(3), Some(5), Some(9), None]);
        assert_eq!((queue.last(), queue.insert(JobId(10))), (Some(JobId(5)), Some(10)));
        assert!(rank(&mut queue, &[2, 3, 5, 9, 10]) && !queue.is_ranked());
    }

    #[test]
    fn a_returning_job_finds_a_free_place() {
        let mut queue = queue(&[1, 2, 3]);
        rank(&mut queue, &[3, 1, 2]);
        assert_eq!((queue.remove(JobId(3)), queue.remove(JobId(3))), (Some(1), None));
        assert_eq!((order(&queue), queue.len()), (vec![1, 2], 2));
        // Job 2 is at place 3 and job 1 at place 2; place 1 is free.
        assert_eq!((queue.insert(JobId(3)), queue.insert(JobId(3))), (Some(1), None));
        assert_eq!(order(&queue), [3, 1, 2]);
        assert_eq!(
            [queue.remove(JobId(1)), queue.remove(JobId(2)), queue.remove(JobId(3))],
            [Some(2), Some(3), Some(1)]
        );
        assert_eq!(queue, Queue::default());
    }

    #[test]
    fn a_snapshot_has_the_same_order() {
        let mut queue = queue(&[1, 2, 3, 70]);
        assert_eq!(serde_json::to_string(&queue).expect("a list"), "[1,2,3,70]");
        rank(&mut queue, &[1, 70, 2, 3]);
        let text = serde_json::to_string(&queue).expect("a list");
        assert_eq!(text, "[1,[2,70],[3,2],[70,3]]");
        assert_eq!(serde_json::from_str::<Queue>(&text).expect("a queue"), queue);
        let error = serde_json::from_str::<Queue>("[1,18446744073709551615]").expect_err("too far apart").to_string();
        assert!(error.starts_with("jobs 1 and 18446744073709551615 are too far apart"), "{error}");
    }
}
