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
    /// Changes of the draw of applications that all of their users see, by application.
    pub drifts: Vec<f32>,
}

/// Part of the distance of a row from its user's means by which the application drifts, and most of that distance.
const DRIFT: f32 = 1.0 / 40.0;
const MOST_DRIFT: f32 = 0.3;

/// Number of values that trees look at.
pub(super) const VALUES: usize = 20;

/// Keys of a job among the means of its user: shape, application, both, and all that users repeat.
fn keys(features: &Features) -> [u32; 4] {
    let (application, shape) = (features.application, features.shape());
    let repeated = [4, application, features.stem, shape, features.requested_s, features.memory_mib];
    [mixed(&[1, shape]), mixed(&[2, application]), mixed(&[3, application, shape]), mixed(&repeated)]
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
    user: Moving,
    /// Those of the user by [`keys`]; empty ones have no rows.
    own: [Moving; 4],
    application: Moving,
    shape: Moving,
    all: Moving,
}

impl History {
    pub fn new() -> Self {
        let empty = || vec![Moving::default(); BUCKETS];
        let (all, users) = (Moving::default(), BTreeMap::new());
        Self { next: 0, all, users, applications: empty(), shapes: empty(), drifts: vec![0.0; BUCKETS] }
    }

    /// Returns the drift of the job's application since the beginning.
    pub fn drift(&self, features: &Features) -> f32 {
        self.drifts[bucket(features.application)]
    }

    /// Returns the target without the drift of the application. Means, neighbours and trees are all of such targets: a user's
    /// jobs of long ago tell the draw of a new one as soon as jobs of others tell the drift.
    pub fn without_drift(&self, features: &Features, target: &Target) -> Target {
        Target { watts: target.watts - self.drift(features), ..*target }
    }

    pub fn view(&self, features: &Features) -> View {
        let user = self.users.get(&features.user);
        let of = |key| user.and_then(|user| user.by_key.get(&key)).copied().unwrap_or_default();
        View {
            user: user.map(|user| user.all).unwrap_or_default(),
            own: keys(features).map(of),
            application: self.applications[bucket(features.application)],
            shape: self.shapes[shape_bucket(features)],
            all: self.all,
        }
    }

    /// Adds a row without its drift, with the distance of its prediction if there was one.
    pub fn add(&mut self, features: &Features, target: &Target, error: Option<f64>) {
        let [.., both, repeated] = self.view(features).own;
        // One row is more noise than drift.
        if let Some(known) = [repeated, both].into_iter().find(|moving| moving.count > 1) {
            let distance = (target.watts - known.watts).clamp(-MOST_DRIFT, MOST_DRIFT);
            self.drifts[bucket(features.application)] += distance * DRIFT;
        }
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
    /// Returns the means of the narrowest key, drawn towards the wider ones; `None` without any row. `forest` takes the place of
    /// the widest means of draw and duration: it tells jobs apart of which the user had none.
    pub fn narrowest(&self, forest: Option<(f64, f64)>) -> Option<Moving> {
        if self.all.count == 0 {
            return None;
        }
        let [shape, application, both, repeated] = self.own;
        let user = self.user.within(&self.all, 1.0);
        let user = if shape.count > 0 { shape.within(&user, 1.0) } else { self.shape.within(&user, 2.0) };
        let user =
            forest.map_or(user, |(watts, duration)| Moving { watts: watts as f32, duration: duration as f32, ..user });
        Some(repeated.within(&both.within(&application.within(&user, 1.0), 0.5), 0.5))
    }

    /// Returns the logarithm of the user's mean watts for each core, or that of all users: the naive guess.
    pub fn naive(&self) -> Option<f64> {
        let known = if self.user.count > 0 { self.user } else { self.all };
        (known.count > 0).then_some(f64::from(known.watts))
    }

    /// Returns the values that trees look at.
    pub fn values(&self, features: &Features) -> [f32; VALUES] {
        let log = |count: u32| libm::log1p(f64::from(count)) as f32;
        // A mean without rows takes the place of the next wider one.
        let or = |moving: &Moving, wider: f32| if moving.count > 0 { moving.watts } else { wider };
        let [shape, application, both, repeated] = &self.own;
        let user = or(&self.user, self.all.watts);
        let by_application = or(application, user);
        let by_both = or(both, by_application);
        let known = if application.count > 0 { application } else { &self.user };
        [
            log(features.requested_s),
            log(features.nodes),
            log(features.cores),
            log(features.accelerators),
            log(features.memory_mib),
            f32::from(features.hour),
            f32::from(u8::from(features.array)),
            user,
            by_application,
            or(shape, user),
            by_both,
            or(repeated, by_both),
            or(&self.application, self.all.watts),
            or(&self.shape, self.all.watts),
            if known.count > 0 { known.duration } else { self.all.duration },
            (features.hardware % 256) as f32,
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

    /// Ten users ran an application at 1, then one of them runs it at 1.3 for long: the others' next jobs are expected there.
    #[test]
    fn a_drift_that_one_user_sees_moves_the_jobs_of_others() {
        let mut history = History::new();
        let add = |history: &mut History, user, watts| {
            let features = Features { user, application: 7, ..Features::default() };
            let net = history.without_drift(&features, &target(watts));
            history.add(&features, &net, None);
        };
        (0..400).for_each(|i| add(&mut history, i % 10, 1.0));
        (0..200).for_each(|_| add(&mut history, 0, 1.3));
        let other = Features { user: 5, application: 7, ..Features::default() };
        let known = history.view(&other).narrowest(None).expect("rows").watts + history.drift(&other);
        // Of each distance, 1/40 goes to the drift and 1/24 to the mean of the first user: 0.3 * 24 / 64 = 0.1125.
        assert!((1.10..1.12).contains(&known), "{known}");
        assert_eq!(history.drift(&Features { application: 8, ..other }), 0.0);
    }

    #[test]
    fn unknown_jobs_take_the_wider_means() {
        let mut history = History::new();
        assert_eq!(history.view(&Features::default()).naive(), None);
        assert!(history.view(&Features::default()).narrowest(None).is_none());
        history.add(&Features { user: 1, cores: 2, ..Features::default() }, &target(1.0), None);
        let stranger = Features { user: 9, application: 3, cores: 5, ..Features::default() };
        assert_eq!(history.view(&stranger).naive(), Some(1.0));
        assert_eq!(history.view(&stranger).narrowest(None).map(|moving| moving.watts), Some(1.0));
    }
}
