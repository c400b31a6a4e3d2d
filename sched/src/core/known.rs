//! What is known about applications and units.

use std::collections::BTreeMap;

use limo_model::{Profile, ProfileKey, Slowdown, SlowdownKey, Variation};

use super::Core;

impl Core {
    pub fn profiles(&self) -> &BTreeMap<ProfileKey, Profile> {
        &self.cluster.state.profiles
    }

    /// Returns the differences of units from the profiles of their hardware.
    pub fn variation(&self) -> &Variation {
        &self.cluster.state.variation
    }

    /// Returns the laws of the slowdown by caps that operators set.
    pub fn slowdowns(&self) -> &BTreeMap<SlowdownKey, Slowdown> {
        &self.cluster.state.slowdowns
    }
}
