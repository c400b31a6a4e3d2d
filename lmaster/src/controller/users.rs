//! Users: reports about them, their quotas, and denied users.

use std::collections::BTreeMap;

use limo_model::{QuotaLimit, Span, WEIGHT_LIMIT, Window};
use limo_proto::{Answer, FairshareChange, UserReport, UsersChange, UsersQuery, UsersReport};
use limo_sched::Event;

use super::queries::Serve;
use super::{Controller, PeerId};

/// Longest name of a user in bytes: enough for a directory, and short enough for a table.
const NAME_LIMIT: usize = 256;

/// Shortest half-life. Ranking costs work, and a shorter half-life would forget all usage.
const SHORTEST: Span = Span::from_secs(1);

impl Serve for UsersQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let report = controller.users_report();
        controller.say(peer, Answer::Users(Box::new(report)));
    }
}

impl Controller {
    fn users_report(&self) -> UsersReport {
        let settings = self.tx.core.settings();
        let mut users = BTreeMap::new();
        let named = settings.quotas.users.keys().chain(&settings.denied).chain(self.tx.core.used().keys());
        let named = named.chain(settings.fairshare.shares.keys());
        for name in named {
            self.entry(&mut users, name);
        }
        for (id, job) in self.tx.core.jobs() {
            let user = self.entry(&mut users, &job.request.user);
            match (self.tx.core.array(id), job.assignment()) {
                (Some(array), _) => user.waiting += array.left(),
                (None, None) => user.waiting += 1,
                (None, Some(assignment)) => {
                    user.running += 1;
                    user.cores += assignment.placement.iter().map(|part| part.cores * part.count).sum::<u32>();
                    user.expected += assignment.estimate.energy;
                }
            }
        }
        let counted =
            |name: &str| self.tx.core.used().get(name).map(|used| used.counted(&settings.fairshare, self.tx.now));
        let all: u128 = users.keys().filter_map(|name| counted(name)).map(u128::from).sum();
        for user in users.values_mut() {
            let permille = counted(&user.name).map(|used| u128::from(used) * 1_000 / all.max(1));
            user.counted_permille = permille.and_then(|permille| u32::try_from(permille).ok());
        }
        let (default, fairshare) = (settings.quotas.default, settings.fairshare.clone());
        UsersReport { default, users: users.into_values().collect(), fairshare }
    }

    fn entry<'a>(&self, users: &'a mut BTreeMap<String, UserReport>, name: &str) -> &'a mut UserReport {
        users.entry(name.to_owned()).or_insert_with(|| {
            let settings = self.tx.core.settings();
            let used = self.tx.core.used().get(name);
            UserReport {
                name: name.to_owned(),
                running: 0,
                cores: 0,
                waiting: 0,
                expected: Default::default(),
                used: used.map(|used| Window::ALL.map(|window| used.in_window(window, self.tx.wall()))),
                quota: settings.quotas.users.get(name).copied(),
                denied: settings.denied.contains(name),
                share: settings.fairshare.share_of(name),
                counted_permille: None,
            }
        })
    }

    /// Returns the event of a change, with the whole setting.
    pub(super) fn users_changed(&self, change: UsersChange, by: String) -> Result<Event, String> {
        match change {
            UsersChange::Quota { user, limits } => self.quotas(user, &limits, by),
            UsersChange::Denied { names, denied } => self.denials(names, denied, by),
            UsersChange::Fairshare(change) => self.fairshare(change, by),
        }
    }

    /// Returns all quotas with these limits in that of the user, or in the default one.
    fn quotas(&self, user: Option<String>, limits: &[QuotaLimit], by: String) -> Result<Event, String> {
        let mut quotas = self.tx.core.settings().quotas.clone();
        let quota = match &user {
            Some(name) => quotas.users.entry(checked(name)?.to_owned()).or_default(),
            None => &mut quotas.default,
        };
        limits.iter().for_each(|limit| limit.change(quota));
        // A user without own limits has the default ones.
        quotas.users.retain(|_, quota| !quota.is_empty());
        Ok(Event::QuotasSet { quotas, by })
    }

    /// Returns the whole setting with the change.
    fn fairshare(&self, change: FairshareChange, by: String) -> Result<Event, String> {
        let mut fairshare = self.tx.core.settings().fairshare.clone();
        for (name, weight) in [("age", change.age_weight), ("use", change.weight)] {
            if let Some(weight) = weight.filter(|weight| *weight > WEIGHT_LIMIT) {
                return Err(format!("a weight of {weight} for the {name} is more than {WEIGHT_LIMIT}"));
            }
        }
        for (name, span) in [
            ("greatest age", change.age_max),
            ("half-life", change.half_life),
            ("time between rankings", change.rank_every),
        ] {
            if let Some(span) = span.filter(|span| *span < SHORTEST) {
                return Err(format!("a {name} of {span} is shorter than {SHORTEST}"));
            }
        }
        if let Some((name, share)) = change.share {
            // Without an entry, a user has one share.
            match share {
                1 => drop(fairshare.shares.remove(checked(&name)?)),
                _ => drop(fairshare.shares.insert(checked(&name)?.to_owned(), share)),
            }
        }
        fairshare.age_weight = change.age_weight.unwrap_or(fairshare.age_weight);
        fairshare.age_max = change.age_max.unwrap_or(fairshare.age_max);
        fairshare.weight = change.weight.unwrap_or(fairshare.weight);
        fairshare.half_life = change.half_life.unwrap_or(fairshare.half_life);
        fairshare.measure = change.measure.unwrap_or(fairshare.measure);
        fairshare.rank_every = change.rank_every.unwrap_or(fairshare.rank_every);
        Ok(Event::FairshareSet { fairshare, by })
    }

    fn denials(&self, names: Vec<String>, denies: bool, by: String) -> Result<Event, String> {
        let mut denied = self.tx.core.settings().denied.clone();
        for name in names {
            checked(&name)?;
            if denies {
                denied.insert(name);
            } else if !denied.remove(&name) {
                return Err(format!("user `{name}` is not denied"));
            }
        }
        Ok(Event::UsersDenied { denied, by })
    }
}

fn checked(name: &str) -> Result<&str, String> {
    let refused = |c: char| c.is_control() || c.is_whitespace() || c == '=';
    match name.is_empty() || name.len() > NAME_LIMIT || name.contains(refused) {
        true => Err(format!("`{}` is not the name of a user", name.escape_debug())),
        false => Ok(name),
    }
}
