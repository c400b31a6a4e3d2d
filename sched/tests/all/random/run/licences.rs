//! Licences in a random run: no start takes more than there are.

use std::collections::BTreeMap;

use limo_model::Licences;
use limo_sched::{Command, Event, Refused, Round};

use super::Run;

impl Run {
    pub(super) fn licences(&mut self, counts: [u32; 2]) -> Result<(), Refused> {
        let all = counts.into_iter().enumerate().map(|(which, count)| (format!("l{which}"), count)).collect();
        let licences = Licences::new(all).expect("two licences");
        self.world.apply(Event::LicencesSet { licences, by: "root".into() })
    }

    /// Checks that the jobs on nodes have no more licences than there are, after a start that needs some.
    pub(super) fn check_licences(&self, round: &Round) {
        let core = &self.world.core;
        let mut held: BTreeMap<&str, u32> = BTreeMap::new();
        let active = core.jobs().filter(|(_, job)| job.assignment().is_some());
        for licence in active.flat_map(|(_, job)| &job.request.licences) {
            *held.entry(&licence.name).or_default() += licence.count.get();
        }
        let started = round.commands.iter().filter_map(|command| match command {
            Command::Start { job, .. } => core.job(*job),
            _ => None,
        });
        for licence in started.flat_map(|job| &job.request.licences) {
            let (held, total) = (held.get(&*licence.name).copied(), core.settings().licences.count(&licence.name));
            assert!(held <= total, "{held:?} of {licence} are held, and there are {total:?}");
        }
    }
}
