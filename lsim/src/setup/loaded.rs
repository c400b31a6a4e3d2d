//! A setup as the inputs of the engine and of the output.

use anyhow::Result;
use limo_model::Time;

use super::{Extent, Loaded, check};
use crate::engine::Scenario;
use crate::record::{Heading, Window};

impl Loaded {
    /// Refuses budgets that no policy can keep.
    ///
    /// # Errors
    /// For such a budget.
    pub(super) fn checked(self) -> Result<Self> {
        let parts = self.options.parts_of(self.preset);
        check::budgets(parts, self.options.rest_rule(), &self.platform, &self.budgets)?;
        Ok(self)
    }

    /// Returns the inputs of the engine.
    pub fn scenario(&self) -> Scenario<'_> {
        Scenario {
            workload: &self.workload,
            platform: &self.platform,
            preset: self.preset,
            options: self.options,
            budgets: self.budgets.clone(),
            limits: self.limits.clone(),
            unwarned: self.unwarned,
            prices: self.prices.clone(),
            profiles: &self.profiles,
            variation: Some(&self.variation),
            mispredict: self.mispredict,
            predict: self.predict,
            explore: self.explore,
            queues: self.queues.clone(),
            groups: self.groups.clone(),
            visits: self.visits.as_ref(),
            until: self.measured().map(|window| window.until),
        }
    }

    fn start(&self) -> Time {
        self.workload.start.unwrap_or(Time::from_unix_ms(0))
    }

    /// Returns the window of measurement: the option, else the time of all budgets.
    fn measured(&self) -> Option<Window> {
        let (first, last) = (self.budgets.iter().next(), self.budgets.iter().last());
        let budgets = first.zip(last).map(|(first, last)| Window { from: first.from, until: last.until });
        let told = |extent: Extent| Window { from: self.start() + extent.from, until: self.start() + extent.until };
        self.measure.map(told).or(budgets)
    }

    /// Returns the heading of the output.
    pub fn heading(&self) -> Heading {
        Heading {
            workload: self.names.workload.clone(),
            platform: self.names.platform.clone(),
            // At most 10^6 nodes of 4,096 cores are below 2^32.
            processors: u32::try_from(self.platform.cores()).unwrap_or(u32::MAX),
            policy: self.preset.name().to_owned(),
            options: self.names.options.clone(),
            seed: None,
            start: self.start(),
            window: self.measured(),
        }
    }
}
