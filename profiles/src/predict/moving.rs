//! Moving means of what was measured, by user, application and shape. Newer rows count more.

use std::collections::BTreeMap;

use super::features::{Features, Target, mixed};

/// Rows after which a moving mean forgets: the newest row counts at least 1 in this number.
const WINDOW: u32 = 24;
/// Most means of a user besides that of all of its jobs. A user that submits under ever new names pushes out its own.
pub(super) const KEYS: usize = 128;
/// Most users.
pub(super) const USERS: usize = 1_024;
/// Number of means over all users by application, and by shape; names with equal hashes share one.
pub(super) const BUCKETS: usize = 1_024;

/// Moving means, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Moving {
    /// Number of rows, at most [`WINDOW`].
    pub count: u32,
    /// Number of the newest row.
    pub newest: u32,
    pub watts: f32,
    pub peak: f32,
    pub duration: f32,
    /// Mean distance of the predicted from the measured draw, and the number of its rows, at most [`WINDOW`].
    pub error: f32,
    pub errors: u32,
}

impl Moving {
    fn add(&mut self, target: &Target, number: u32) {
        self.count = self.count.min(WINDOW - 1) + 1;
        self.newest = number;
        let part = 1.0 / self.count as f32;
        self.watts += (target.watts - self.watts) * part;
        self.peak += (target.peak - self.peak) * part;
        self.duration += (target.duration - self.duration) * part;
    }

    pub fn add_error(&mut self, error: f64) {
        self.errors = self.errors.min(WINDOW - 1) + 1;
        self.error += (error as f32 - self.error) / self.errors as f32;
    }

    /// Returns these means, drawn towards those of `wider` as if it had given `weight` rows.
    fn within(&self, wider: &Self, weight: f32) -> Self {
        let mix = |count: u32, own: f32, wider: f32| (count as f32 * own + weight * wider) / (count as f32 + weight);
        Self {
            watts: mix(self.count, self.watts, wider.watts),
            peak: mix(self.count, self.peak, wider.peak),
            duration: mix(self.count, self.duration, wider.duration),
            error: mix(self.errors, self.error, wider.error),
            ..*self
        }
    }
}

/// The means of a user.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct OfUser {
    pub all: Moving,
    pub by_key: BTreeMap<u32, Moving>,
}

/// All means.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct History {
    /// Number of the next row.
    pub next: u32,
    pub all: Moving,
    pub users: BTreeMap<u32, OfUser>,
    /// By application and by shape, [`BUCKETS`] each.
    pub applications: Vec<Moving>,
    pub shapes: Vec<Moving>,
}

/// Number of values that trees look at.
pub(super) const VALUES: usize = 19;

/// Keys of a job among the means of its user: application, shape, both.
fn keys(features: &Features) -> [u32; 3] {
    let shape = features.shape();
    [mixed(&[1, features.application]), mixed(&[2, shape]), mixed(&[3, features.application, features.stem, shape])]
}

fn bucket(hash: u32) -> usize {
    hash as usize % BUCKETS
}

fn shape_bucket(features: &Features) -> usize {
    bucket(mixed(&[features.shape(), features.queue, features.requested_s]))
}

/// What the means say about a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// From narrow to wide: application and shape, application, shape, user. Empty ones have no rows.
    own: [Moving; 4],
    application: Moving,
    shape: Moving,
    all: Moving,
}

impl History {
    pub fn new() -> Self {
        let empty = || vec![Moving::default(); BUCKETS];
        let (all, users) = (Moving::default(), BTreeMap::new());
        Self { next: 0, all, users, applications: empty(), shapes: empty() }
    }

    pub fn view(&self, features: &Features) -> View {
        let user = self.users.get(&features.user);
        let [application, shape, both] = keys(features);
        let of = |key| user.and_then(|user| user.by_key.get(&key)).copied().unwrap_or_default();
        View {
            own: [of(both), of(application), of(shape), user.map(|user| user.all).unwrap_or_default()],
            application: self.applications[bucket(features.application)],
            shape: self.shapes[shape_bucket(features)],
            all: self.all,
        }
    }

    /// Adds a row, with the distance of its prediction if there was one.
    pub fn add(&mut self, features: &Features, target: &Target, error: Option<f64>) {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let add = |moving: &mut Moving| {
            moving.add(target, number);
            if let Some(error) = error {
                moving.add_error(error);
            }
        };
        add(&mut self.all);
        add(&mut self.applications[bucket(features.application)]);
        add(&mut self.shapes[shape_bucket(features)]);
        if self.users.len() == USERS && !self.users.contains_key(&features.user) {
            let oldest = self.users.iter().min_by_key(|(_, user)| user.all.newest).map(|(user, _)| *user);
            oldest.map(|user| self.users.remove(&user));
        }
        let user = self.users.entry(features.user).or_default();
        add(&mut user.all);
        for key in keys(features) {
            if user.by_key.len() == KEYS && !user.by_key.contains_key(&key) {
                let oldest = user.by_key.iter().min_by_key(|(_, moving)| moving.newest).map(|(key, _)| *key);
                oldest.map(|key| user.by_key.remove(&key));
            }
            add(user.by_key.entry(key).or_default());
        }
    }
}

impl View {
    /// Returns the means of the narrowest key, drawn towards the wider ones; `None` without any row.
    pub fn narrowest(&self) -> Option<Moving> {
        if self.all.count == 0 {
            return None;
        }
        let [both, application, shape, user] = self.own;
        let user = user.within(&self.all, 1.0);
        let user = if shape.count > 0 { shape.within(&user, 1.0) } else { self.shape.within(&user, 2.0) };
        Some(both.within(&application.within(&user, 1.0), 0.5))
    }

    /// Returns the logarithm of the user's mean watts for each core, or that of all users: the naive guess.
    pub fn naive(&self) -> Option<f64> {
        let user = self.own[3];
        let known = if user.count > 0 { user } else { self.all };
        (known.count > 0).then_some(f64::from(known.watts))
    }

    /// Returns the values that trees look at.
    pub fn values(&self, features: &Features) -> [f32; VALUES] {
        let log = |count: u32| libm::log1p(f64::from(count)) as f32;
        // A mean without rows takes the place of the next wider one.
        let or = |moving: &Moving, wider: f32| if moving.count > 0 { moving.watts } else { wider };
        let [both, application, shape, user] = &self.own;
        let user_watts = or(user, self.all.watts);
        let known = if application.count > 0 { application } else { user };
        [
            log(features.requested_s),
            log(features.nodes),
            log(features.cores),
            log(features.accelerators),
            log(features.memory_mib),
            f32::from(features.hour),
            f32::from(u8::from(features.array)),
            user_watts,
            or(application, user_watts),
            or(shape, user_watts),
            or(both, or(application, user_watts)),
            or(&self.application, self.all.watts),
            or(&self.shape, self.all.watts),
            if known.count > 0 { known.duration } else { self.all.duration },
            (features.accelerator % 256) as f32,
            (features.user % 256) as f32,
            (features.application % 256) as f32,
            (features.stem % 256) as f32,
            (features.queue % 256) as f32,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(watts: f32) -> Target {
        Target { watts, peak: 0.5, duration: 3.0 }
    }

    #[test]
    fn means_follow_a_change() {
        let mut moving = Moving::default();
        (0..100).for_each(|number| moving.add(&target(1.0), number));
        assert_eq!((moving.watts, moving.count), (1.0, WINDOW));
        (100..200).for_each(|number| moving.add(&target(2.0), number));
        // After 100 rows, (23/24)^100 = 1.4 % of the old value is left.
        assert!((moving.watts - 1.986).abs() < 0.001, "{}", moving.watts);
    }

    #[test]
    fn one_user_pushes_out_only_its_own_means() {
        let mut history = History::new();
        let calm = Features { user: 1, application: 7, ..Features::default() };
        history.add(&calm, &target(1.0), Some(0.1));
        let before = history.users[&1].clone();
        for application in 0..10_000 {
            history.add(&Features { user: 2, application, ..Features::default() }, &target(2.0), None);
        }
        assert_eq!(history.users[&1], before);
        assert_eq!(history.users[&2].by_key.len(), KEYS);
        (0..5_000).for_each(|user| history.add(&Features { user, ..Features::default() }, &target(2.0), None));
        assert_eq!(history.users.len(), USERS);
    }

    #[test]
    fn unknown_jobs_take_the_wider_means() {
        let mut history = History::new();
        assert_eq!(history.view(&Features::default()).naive(), None);
        assert!(history.view(&Features::default()).narrowest().is_none());
        history.add(&Features { user: 1, cores: 2, ..Features::default() }, &target(1.0), None);
        let stranger = Features { user: 9, application: 3, cores: 5, ..Features::default() };
        assert_eq!(history.view(&stranger).naive(), Some(1.0));
        assert_eq!(history.view(&stranger).narrowest().map(|moving| moving.watts), Some(1.0));
    }
}
