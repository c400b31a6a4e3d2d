//! Nearest neighbours among the newest jobs of equal shape.

use super::features::{Features, Target, mixed};

/// Newest rows of a shape that are kept.
pub(super) const ROWS: usize = 500;
/// Slots of shapes. Shapes with equal hashes share the rows of one.
pub(super) const SLOTS: usize = 128;
/// Neighbours that count.
const NEIGHBOURS: usize = 12;

/// A finished job, as seen from a new one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Neighbour {
    pub shape: u32,
    pub user: u32,
    pub application: u32,
    pub stem: u32,
    pub queue: u32,
    /// Logarithms of the requested seconds and of the MiB.
    pub requested: f32,
    pub memory: f32,
    pub watts: f32,
    pub duration: f32,
}

impl Neighbour {
    fn of(features: &Features) -> Self {
        let log = |count: u32| libm::log1p(f64::from(count)) as f32;
        Self {
            shape: features.shape(),
            user: features.user,
            application: features.application,
            stem: features.stem,
            queue: features.queue,
            requested: log(features.requested_s),
            memory: log(features.memory_mib),
            ..Self::default()
        }
    }

    /// Returns the distance, where another application counts as much as three times the requested time does.
    fn distance(&self, other: &Self) -> f32 {
        let differs = |a: u32, b: u32, weight: f32| if a == b { 0.0 } else { weight };
        differs(self.user, other.user, 2.0)
            + differs(self.application, other.application, 2.0)
            + differs(self.stem, other.stem, 0.5)
            + differs(self.queue, other.queue, 0.5)
            + (self.requested - other.requested).abs().min(2.0)
            + (self.memory - other.memory).abs().min(2.0) * 0.5
    }
}

/// The newest rows by slot of their shape, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Nearest(pub(super) Vec<Vec<Neighbour>>);

fn slot(shape: u32) -> usize {
    mixed(&[shape]) as usize % SLOTS
}

impl Nearest {
    pub fn new() -> Self {
        Self(vec![Vec::new(); SLOTS])
    }

    /// Adds a row. In a full slot it replaces the oldest one: of its user, if that user has half of the rows.
    pub fn add(&mut self, features: &Features, target: &Target) {
        let row = Neighbour { watts: target.watts, duration: target.duration, ..Neighbour::of(features) };
        let rows = &mut self.0[slot(row.shape)];
        if rows.len() == ROWS {
            let own = rows.iter().filter(|other| other.user == row.user).count();
            let oldest = rows.iter().position(|other| own < ROWS / 2 || other.user == row.user);
            rows.remove(oldest.unwrap_or(0));
        }
        rows.push(row);
    }

    /// Returns the weighted mean of the nearest rows as logarithms: draw and duration. `None` without an equal shape.
    pub fn guess(&self, features: &Features) -> Option<(f64, f64)> {
        let job = Neighbour::of(features);
        let rows = &self.0[slot(job.shape)];
        let mut nearest: [(f32, usize); NEIGHBOURS] = [(f32::INFINITY, 0); NEIGHBOURS];
        for (index, row) in rows.iter().enumerate().filter(|(_, row)| row.shape == job.shape) {
            // Among equal ones, the newest is the nearest.
            let age = (rows.len() - index) as f32 / ROWS as f32;
            let distance = job.distance(row) + age * 0.5;
            if distance < nearest[NEIGHBOURS - 1].0 {
                let place = nearest.partition_point(|(other, _)| *other < distance);
                nearest[place..].rotate_right(1);
                nearest[place] = (distance, index);
            }
        }
        let mut sums = [0.0; 3];
        for (distance, index) in nearest.into_iter().filter(|(distance, _)| distance.is_finite()) {
            let row = &rows[index];
            let near = 1.0 / (0.1 + f64::from(distance));
            let weight = near * near;
            sums[0] += weight;
            sums[1] += weight * f64::from(row.watts);
            sums[2] += weight * f64::from(row.duration);
        }
        (sums[0] > 0.0).then(|| (sums[1] / sums[0], sums[2] / sums[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(watts: f32) -> Target {
        Target { watts, ..Target::default() }
    }

    #[test]
    fn jobs_of_the_same_user_and_application_are_nearest() {
        let mut nearest = Nearest::new();
        let job = |user, application, cores| Features { user, application, cores, ..Features::default() };
        assert_eq!(nearest.guess(&job(1, 1, 4)), None);
        for _ in 0..NEIGHBOURS {
            nearest.add(&job(1, 1, 4), &target(1.0));
            nearest.add(&job(1, 2, 4), &target(5.0));
            nearest.add(&job(1, 1, 8), &target(9.0));
        }
        assert_eq!(nearest.guess(&job(1, 1, 4)), Some((1.0, 0.0)));
        assert_eq!(nearest.guess(&job(1, 1, 8)), Some((9.0, 0.0)));
        assert_eq!(nearest.guess(&job(1, 1, 16)), None);
    }

    #[test]
    fn a_busy_user_leaves_half_of_a_slot_to_others() {
        let mut nearest = Nearest::new();
        (0..ROWS)
            .for_each(|user| nearest.add(&Features { user: user as u32 + 10, ..Features::default() }, &target(0.0)));
        (0..3 * ROWS).for_each(|_| nearest.add(&Features { user: 1, ..Features::default() }, &target(1.0)));
        let rows: Vec<&Neighbour> = nearest.0.iter().flatten().collect();
        let own = rows.iter().filter(|row| row.user == 1).count();
        assert_eq!((rows.len(), own), (ROWS, ROWS / 2));
    }
}
