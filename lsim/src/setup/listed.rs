//! The options of a setup as texts, for the heading of the output.

use super::Setup;
use super::files::name;
use super::values::{exact_span, shown};

impl Setup {
    /// Returns the other options, in the order of the help.
    pub(super) fn listed(&self) -> Vec<(String, String)> {
        let set = self.part.iter().chain(&self.set).map(|setting| (setting.key.clone(), setting.value.clone()));
        let users: Vec<String> = self.users.iter().map(i32::to_string).collect();
        let given = [
            ("sessions", self.sessions.as_deref().map(name)),
            ("start-after", self.start_after.map(exact_span)),
            ("evict-after", self.evict_after.map(exact_span)),
            ("reboots", shown(self.reboots)),
            ("checkpoint-every", shown(self.checkpoint_every)),
            ("checkpoint-cost", self.checkpoint_cost.map(exact_span)),
            ("bandwidth", shown(self.bandwidth)),
            ("budget", shown(self.budget)),
            ("from", self.from.map(exact_span)),
            ("until", self.until.map(exact_span)),
            ("budgets", self.budgets.as_deref().map(name)),
            ("release", shown(self.release)),
            ("prices", self.prices.as_deref().map(name)),
            ("limits", self.limits.as_deref().map(name)),
            ("unwarned", self.unwarned.then(|| "true".to_owned())),
            ("groups", self.groups.as_deref().map(name)),
            ("measure", shown(self.measure)),
            ("profiles", self.profiles.as_deref().map(name)),
            ("variation", self.variation.as_deref().map(name)),
            ("believed-variation", self.believed_variation.as_deref().map(name)),
            ("predict", self.predict.then(|| "true".to_owned())),
            ("suspendable", shown(self.suspendable)),
            ("requeueable", shown(self.requeueable)),
            ("fillers", shown(self.fillers)),
            ("explorable", shown(self.explorable)),
            ("explore", shown(self.explore)),
            ("queues", self.queues.as_deref().map(name)),
            ("hot-start", shown(self.hot_start)),
            ("mispredict", shown(self.mispredict)),
            ("start", shown(self.start)),
            ("window", shown(self.window)),
            ("users", Some(users.join(",")).filter(|users| !users.is_empty())),
            ("first", shown(self.first)),
            ("load", shown(self.load)),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        set.chain(given).collect()
    }
}
