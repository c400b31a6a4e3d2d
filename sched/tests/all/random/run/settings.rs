//! Settings that operators change in a random run.

use std::collections::BTreeMap;

use limo_model::{
    Band, Curve, Energy, Factor, Fairshare, Measure, Power, Price, Quota, Quotas, Span, UnitId, VariationKey, Window,
};
use limo_sched::{Event, Options, Refused};

use super::Run;
use crate::random::USERS;

impl Run {
    pub(super) fn choose(&mut self, change: impl FnOnce(&mut Options)) -> Result<(), Refused> {
        let settings = self.world.core.settings();
        let (preset, mut options) = (settings.preset, settings.options);
        change(&mut options);
        self.world.apply(Event::PolicySet { preset, options, by: "root".into() })
    }

    pub(super) fn quota(&mut self, user: usize, [jobs, cores, wh, submitted]: [Option<u32>; 4]) -> Result<(), Refused> {
        let energy = wh.map(|wh| (Energy::from_joules(i64::from(wh) * 3_600), Window::Day));
        let quota = Quota { jobs, cores, energy, submitted };
        let mut quotas = self.world.core.settings().quotas.clone();
        match USERS.get(user) {
            Some(user) => drop(quotas.users.insert((*user).to_owned(), quota)),
            None => quotas = Quotas { default: quota, ..Quotas::default() },
        }
        self.world.apply(Event::QuotasSet { quotas, by: "root".into() })
    }

    pub(super) fn limits(&mut self, low: i64, above: i64, until: i64) -> Result<(), Refused> {
        let now = self.world.now;
        let band = |low: i64, high: i64| Band::new(Power::from_watts(low), Power::from_watts(high)).expect("a band");
        let steps = vec![(now, band(low, low + above)), (now + Span::from_secs(until), band(low / 2, low + above / 2))];
        let limits = Curve::new(steps, Some(now + Span::from_secs(2 * until))).expect("a curve");
        self.world.apply(Event::LimitsSet { limits, by: "root".into() })
    }

    pub(super) fn vary(
        &mut self,
        node: u8,
        application: Option<u8>,
        factors: Option<(u32, u32)>,
    ) -> Result<(), Refused> {
        let node = self.node(node);
        let application = application.map_or_else(String::new, |number| format!("app{number}"));
        let key = VariationKey { application, unit: UnitId { node, unit: 0 }, cap: None };
        let factor = |(power, duration)| Factor { power: power * 1_000, duration: duration * 1_000, runs: 0 };
        let factors = vec![(key, factors.map(factor))];
        self.world.apply(Event::VariationSet { factors, by: "root".into() })
    }

    pub(super) fn prices(&mut self, eur: &[i64]) -> Result<(), Refused> {
        let now = self.world.now;
        let step =
            |(index, eur): (i64, &i64)| (now + Span::from_secs(600 * index), Price::from_milli_per_mwh(eur * 1000));
        let prices = Curve::new((0..).zip(eur).map(step).collect(), None).expect("a curve");
        self.world.apply(Event::PricesSet { prices: Some(prices), by: "root".into() })
    }

    pub(super) fn fairshare(
        &mut self,
        (age_weight, weight): (u32, u32),
        half_life: i64,
        (cores, share): (bool, u32),
    ) -> Result<(), Refused> {
        let fairshare = Fairshare {
            age_weight,
            age_max: Span::from_secs(600),
            weight,
            half_life: Span::from_secs(half_life),
            measure: if cores { Measure::CoreSeconds } else { Measure::Energy },
            rank_every: Span::from_secs(300),
            shares: BTreeMap::from([(USERS[0].to_owned(), share)]),
        };
        self.world.apply(Event::FairshareSet { fairshare, by: "root".into() })
    }
}
