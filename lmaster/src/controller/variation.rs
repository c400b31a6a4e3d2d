//! Differences of equal units: those that operators set, and those that the master learns from finished runs.

use limo_model::{Factor, UnitId, UnitName, VariationKey, check_name, ratio};
use limo_proto::{Answer, VariationQuery};
use limo_sched::Event;

use super::queries::Serve;
use super::{Controller, Lesson, PeerId};
use crate::changed::LEARNING;

/// Runs that a profile must have before single units are compared with it.
const PROFILE_RUNS: u32 = 4;
/// Confidence in a run's energy from which it teaches, in thousandths.
const CONFIDENCE: u16 = 900;

impl Serve for VariationQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let named = |(key, factor)| Some((controller.named(key)?, factor));
        let factors = controller.tx.core.variation().iter().filter_map(named).collect();
        controller.say(peer, Answer::Variation(factors));
    }
}

impl Controller {
    fn named(&self, key: VariationKey) -> Option<UnitName> {
        let node = self.tx.core.node(key.unit.node)?.spec();
        let unit = node.units.get(usize::from(key.unit.unit))?.name.clone();
        Some(UnitName { application: key.application, node: node.name.clone(), unit, cap: key.cap })
    }

    /// Returns factors by number, or the reason why a unit is unknown.
    pub(super) fn factors(
        &self,
        factors: Vec<(UnitName, Option<Factor>)>,
    ) -> Result<Vec<(VariationKey, Option<Factor>)>, String> {
        let numbered = |(name, factor): (UnitName, Option<Factor>)| {
            if !name.application.is_empty() {
                check_name("application", &name.application).map_err(|error| error.to_string())?;
            }
            let node = self.node(&name.node).map_err(|refused| refused.to_string())?;
            let spec = self.tx.core.node(node).map(|node| node.spec());
            let mut units = spec.into_iter().flat_map(|spec| (0..).zip(&spec.units));
            let unit = units.find(|(_, unit)| unit.name == name.unit).map(|(index, _)| index);
            let unit = unit.ok_or_else(|| format!("node `{}` has no unit `{}`", name.node, name.unit))?;
            let unit = UnitId { node, unit };
            Ok((VariationKey { application: name.application, unit, cap: name.cap }, factor))
        };
        factors.into_iter().map(numbered).collect()
    }

    /// Compares a run with the profile of its hardware.
    pub(super) fn learn_variation(&mut self, lesson: &Lesson) {
        let (core, Some(unit)) = (&self.tx.core, lesson.unit) else { return };
        let profile = core.profiles().get(&lesson.key).filter(|profile| profile.runs >= PROFILE_RUNS);
        let Some(profile) = profile.filter(|_| lesson.confidence >= CONFIDENCE) else { return };
        let power = ratio(lesson.energy.over(lesson.duration).mw(), profile.power.mw());
        let duration = ratio(lesson.duration.ms(), profile.duration.ms());
        let Some((power, duration)) = power.zip(duration) else { return };
        let (application, cap) = (lesson.key.application.clone(), lesson.key.cap);
        let key = VariationKey { application, unit, cap };
        let known = core.variation().get(&key);
        let factor = Factor::after_run(known, power, duration);
        if known != Some(factor) {
            self.tx.must(Event::VariationSet { factors: vec![(key, Some(factor))], by: LEARNING.to_owned() });
        }
    }
}
