//! Sums over the jobs of each user, while there are quotas. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Energy, JobId};

use crate::state::{Charge, State};

/// Sums by user name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Users(BTreeMap<String, UserSums>);

/// Sums of one user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UserSums {
    /// Jobs and arrays that are not over, without tasks.
    pub submitted: BTreeSet<JobId>,
    /// Sums of the jobs that fit the quota.
    pub jobs: u32,
    pub cores: u64,
    pub energy: Energy,
    /// Jobs that exceed the quota, in the order in which they will enter the queue.
    pub waiting: BTreeSet<(i32, JobId)>,
}

impl Users {
    pub fn of(state: &State) -> Self {
        let mut users = Self::default();
        for (id, job) in state.jobs.iter() {
            let held = users.entry(&job.request.user);
            if let Some(charge) = state.charges.get(&id) {
                held.take(charge);
            }
            if state.over_quota.contains(id) {
                held.waiting.insert((-job.request.priority, id));
            }
            if state.array_of(id).is_none() {
                held.submitted.insert(id);
            }
        }
        users
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &UserSums)> {
        self.0.iter()
    }

    pub fn get(&self, user: &str) -> Option<&UserSums> {
        self.0.get(user)
    }

    pub fn entry(&mut self, user: &str) -> &mut UserSums {
        if !self.0.contains_key(user) {
            self.0.insert(user.to_owned(), UserSums::default());
        }
        self.0.entry(user.to_owned()).or_default()
    }

    /// Removes a user without jobs.
    pub fn tidy(&mut self, user: &str) {
        if self.0.get(user).is_some_and(|held| held.submitted.is_empty() && held.jobs == 0 && held.waiting.is_empty()) {
            self.0.remove(user);
        }
    }
}

impl UserSums {
    pub fn take(&mut self, charge: &Charge) {
        self.jobs += 1;
        self.cores += u64::from(charge.cores);
        self.energy += charge.energy;
    }

    pub fn give(&mut self, charge: &Charge) {
        self.jobs = self.jobs.saturating_sub(1);
        self.cores = self.cores.saturating_sub(u64::from(charge.cores));
        self.energy -= charge.energy;
    }
}
