//! Accounts and QOS: the configured ones come into force, and clients ask for them.

use std::collections::BTreeMap;

use limo_proto::{AccountReport, AccountsQuery, Answer, QosQuery, QosReport};
use limo_sched::Event;

use super::queries::Serve;
use super::queues::joined;
use super::tx::Tx;
use super::{Controller, PeerId};
use crate::changed::CONFIGURATION;

impl Tx {
    /// Applies the configured accounts and QOS.
    pub(super) fn accounts_in_force(&mut self) {
        let (accounts, qos) = (self.settings.accounts.clone(), self.settings.qos.clone());
        if self.core.settings().accounts != accounts {
            self.must(Event::AccountsSet { accounts, by: CONFIGURATION.to_owned() });
        }
        if self.core.settings().qos != qos {
            self.must(Event::QosSet { qos, by: CONFIGURATION.to_owned() });
        }
    }

    /// Returns all accounts by name, with the jobs of the accounts below them.
    fn accounts(&self) -> Vec<AccountReport> {
        let accounts = &self.core.settings().accounts;
        let report = |(name, spec): (&str, &limo_model::AccountSpec)| AccountReport {
            name: name.to_owned(),
            parent: spec.parent.clone(),
            description: spec.description.clone(),
            users: joined(&spec.users),
            groups: joined(&spec.groups),
            quota: spec.quota,
            share: spec.share,
            is_default: spec.is_default,
            running: 0,
            waiting: 0,
            cores: 0,
        };
        let mut reports: BTreeMap<&str, AccountReport> =
            accounts.iter().map(|(name, spec)| (name, report((name, spec)))).collect();
        for (id, job) in self.core.jobs() {
            for (name, _) in job.request.account.iter().flat_map(|account| accounts.chain(account)) {
                let Some(report) = reports.get_mut(name) else { continue };
                match (self.core.array(id), job.assignment()) {
                    (Some(array), _) => report.waiting += array.left(),
                    (None, None) => report.waiting += 1,
                    (None, Some(assignment)) => {
                        report.running += 1;
                        let cores =
                            assignment.placement.iter().map(|part| u64::from(part.cores) * u64::from(part.count));
                        report.cores += cores.sum::<u64>();
                    }
                }
            }
        }
        reports.into_values().collect()
    }
}

impl Serve for AccountsQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let accounts = controller.tx.accounts();
        controller.say(peer, Answer::Accounts(accounts));
    }
}

impl Serve for QosQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let qos = controller.tx.core.settings().qos.iter().map(|(name, spec)| QosReport {
            name: name.to_owned(),
            priority: spec.priority,
            quota: spec.quota,
            max_time: spec.max_time,
            users: joined(&spec.users),
            groups: joined(&spec.groups),
            accounts: joined(&spec.accounts),
            is_default: spec.is_default,
        });
        let qos = qos.collect();
        controller.say(peer, Answer::Qos(qos));
    }
}
