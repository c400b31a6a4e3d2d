//! Sums over the jobs of each payer, while there are quotas. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use limo_model::{Energy, JobId};

use crate::state::{Charge, Payer, State};

/// Sums by payer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Payers(BTreeMap<Payer, PayerSums>);

/// Sums of one payer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PayerSums {
    /// Jobs and arrays that are not over, without tasks.
    pub submitted: BTreeSet<JobId>,
    /// Sums of the jobs that fit the quota.
    pub jobs: u32,
    pub cores: u64,
    pub energy: Energy,
    /// Jobs that exceed the quota, in the order in which they will enter the queue.
    pub waiting: BTreeSet<(i32, JobId)>,
}

impl Payers {
    pub fn of(state: &State) -> Self {
        let mut payers = Self::default();
        for (id, job) in state.jobs.iter() {
            let all = state.settings.payers(&job.request);
            let charge = state.charges.get(&id);
            let charged = charge.map_or(0, |charge| usize::from(charge.payers));
            for (payer, charge) in all.iter().take(charged).filter_map(|(payer, _)| Some((payer, charge?))) {
                payers.entry(payer).take(charge);
            }
            if let Some((payer, _)) = all.get(charged).filter(|_| state.over_quota.contains(id)) {
                payers.entry(payer).waiting.insert((-job.request.priority, id));
            }
            if state.array_of(id).is_none() {
                for (payer, _) in state.settings.submitters(&job.request) {
                    payers.entry(&payer).submitted.insert(id);
                }
            }
        }
        payers
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Payer, &PayerSums)> {
        self.0.iter()
    }

    pub fn get(&self, payer: &Payer) -> Option<&PayerSums> {
        self.0.get(payer)
    }

    pub fn entry(&mut self, payer: &Payer) -> &mut PayerSums {
        if !self.0.contains_key(payer) {
            self.0.insert(payer.clone(), PayerSums::default());
        }
        self.0.entry(payer.clone()).or_default()
    }

    /// Removes a payer without jobs.
    pub fn tidy(&mut self, payer: &Payer) {
        if self.0.get(payer).is_some_and(|held| held.submitted.is_empty() && held.jobs == 0 && held.waiting.is_empty())
        {
            self.0.remove(payer);
        }
    }
}

impl PayerSums {
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
