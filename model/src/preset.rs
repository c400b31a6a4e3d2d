//! The policies: one table of names, parts, ideas and sources. The promises of a policy follow from its parts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    Fifo,
    LimoPrototype,
    Limo,
    Easy,
    Conservative,
    Powercap,
    Energybud,
    Reducepc,
}

/// The order of the queue: the jobs that may pass one that cannot start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderRule {
    /// No job may pass.
    Strict,
    /// Jobs may pass that do not delay the first job (EASY backfilling).
    Easy,
    /// Jobs may pass that delay none of the jobs before them (conservative backfilling).
    Conservative,
    /// Jobs start in the order of their weight and amount of work, and all may pass (power-capping-2018, section 4.2).
    Rule,
    /// Jobs start as in the best schedule that a search has found (power-capping-2018, section 4.3).
    Program,
    /// `program` while jobs arrive often, else `easy` (power-capping-2018, section 5.2.3).
    ByArrivals,
}

/// The limits that a start must keep, besides free nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionRule {
    /// No further limit.
    Resources,
    /// The power of the moment (limo-2018, equations 3.3 and 3.4).
    Equations,
    /// The power band over the expected duration of the job.
    Band,
    /// The upper limit and the rate at which a budget is released (energy-budget-2017, section V-C).
    Rate,
    /// The upper limit and the energy of a budget (energy-budget-2017, section IV, Algorithm 2).
    Ledger,
    /// The same limits, and a lowered power limit for later jobs in favour of the first one (section IV-D).
    LedgerReduced,
    /// A multiple of the upper limit, below which caps keep the draw (power-capping-2018, section 5.2.2).
    Relaxed,
}

/// The choice of nodes and start time for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementRule {
    /// The first suitable nodes, at once.
    FirstFit,
    /// The cheapest nodes, at the cheapest time.
    ByPrice,
    /// The suitable nodes with the least free resources, at once.
    LeastRoom,
    /// The suitable nodes on which the job is expected to use the least energy above idle, at once.
    LeastEnergy,
    /// The suitable nodes on which the application is known to use the least energy, at once.
    Ranked,
    /// As `ranked`; for a job on several nodes, those of similar speed.
    Window,
    /// For the first jobs together, the nodes on which they are known to use the least energy in total, at once.
    Assignment,
    /// The suitable nodes that come first by a rank of a pool whose nodes have owners, at once (htc-sim-2015, section V).
    Pool,
}

impl PlacementRule {
    /// Returns true if it chooses the best of the nodes that are free now.
    pub fn is_of_free_nodes(self) -> bool {
        matches!(self, Self::Ranked | Self::Window | Self::Assignment | Self::Pool)
    }
}

/// The control of the power of running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapRule {
    /// No control.
    Untouched,
    /// Changes caps, suspends and requeues jobs.
    Moved,
    /// A job starts at a cap of its profile if the power is not enough otherwise, and keeps that cap.
    FromProfile,
    /// The upper limit is divided among the units with jobs: each gets the same cap.
    Even,
    /// The upper limit is divided among the units with jobs: each gets the cap at which all are equally fast (Inadomi
    /// et al., SC 2015).
    EqualSpeed,
    /// A job starts at what is left of the upper limit if that slows it down little, and keeps that cap (Etinski et al.,
    /// Green Computing Conference 2010).
    AtStart,
    /// A job starts at what is left of the upper limit, and keeps that cap (Bodas et al., E2SC 2014).
    FixedShare,
    /// The upper limit is divided among the units with jobs: those that draw little leave power to the others, step by
    /// step (Ellsworth et al., SC 2015).
    Ellsworth,
}

/// The treatment of nodes without jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdleRule {
    /// Idle nodes stay awake.
    StayOn,
    /// Idle nodes that can sleep do so, and are woken for a job (energy-budget-2017, section III-A).
    PowerOff,
}

/// The parts of a policy. `sched` implements each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    pub order: OrderRule,
    pub admission: AdmissionRule,
    pub placement: PlacementRule,
    pub caps: CapRule,
    pub idle: IdleRule,
}

/// A policy as it is described to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    pub preset: Preset,
    pub name: &'static str,
    pub parts: Parts,
    pub idea: &'static str,
    pub source: &'static str,
}

const fn parts(
    order: OrderRule,
    admission: AdmissionRule,
    placement: PlacementRule,
    caps: CapRule,
    idle: IdleRule,
) -> Parts {
    Parts { order, admission, placement, caps, idle }
}

/// One row for each [`Preset`], in its order. Everything else follows from this table.
const TABLE: &[Described] = {
    use AdmissionRule::*;
    use CapRule::*;
    use IdleRule::*;
    use OrderRule::*;
    use PlacementRule::*;
    &[
        Described {
            preset: Preset::Fifo,
            name: "fifo",
            parts: parts(Strict, Resources, FirstFit, Untouched, StayOn),
            idea: "in order of submission, each on the first node with room",
            source: "limo-2018, section 4.4",
        },
        Described {
            preset: Preset::LimoPrototype,
            name: "limo-prototype",
            parts: parts(Strict, Equations, FirstFit, Untouched, StayOn),
            idea: "in order of submission, as long as mode and power band allow it",
            source: "limo-2018, section 3.3.3, Algorithm 3.3",
        },
        Described {
            preset: Preset::Limo,
            name: "limo",
            parts: parts(Conservative, Band, ByPrice, Moved, StayOn),
            idea: "aims for the bottom of the power band while energy is expensive and for its top while it is cheap",
            source: "limo-2018, section 3.1.3, Figure 3.4",
        },
        Described {
            preset: Preset::Easy,
            name: "easy",
            parts: parts(Easy, Resources, LeastRoom, Untouched, StayOn),
            idea: "backfilling with a reservation for the first job that waits",
            source: "energy-budget-2017, section II-B, Algorithm 1",
        },
        Described {
            preset: Preset::Conservative,
            name: "conservative",
            parts: parts(Conservative, Resources, LeastRoom, Untouched, StayOn),
            idea: "backfilling with a planned start for every job, which no later job may delay",
            source: "D. G. Feitelson, A. M. Weil: Utilization and predictability in scheduling the IBM SP2 with \
                     backfilling, 1998",
        },
        Described {
            preset: Preset::Powercap,
            name: "powercap",
            parts: parts(Easy, Rate, LeastRoom, Untouched, StayOn),
            idea: "easy, and no job starts that takes the estimated draw above the rate of the budget",
            source: "energy-budget-2017, section V-C",
        },
        Described {
            preset: Preset::Energybud,
            name: "energybud",
            parts: parts(Easy, Ledger, LeastRoom, Untouched, StayOn),
            idea: "easy on a counter of available energy, reserved for the first job once it has waited long",
            source: "energy-budget-2017, section IV, Algorithm 2",
        },
        Described {
            preset: Preset::Reducepc,
            name: "reducepc",
            parts: parts(Easy, LedgerReduced, LeastRoom, Untouched, StayOn),
            idea: "easy on a counter of available energy; later jobs under a power cap that is lowered for the first one",
            source: "energy-budget-2017, section IV-D",
        },
    ]
};

impl Preset {
    /// All presets, in the order of the table.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Fifo; TABLE.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].preset;
            index += 1;
        }
        all
    };

    /// The preset of a new cluster.
    pub const DEFAULT: Self = Self::Limo;

    pub fn described(self) -> Described {
        TABLE[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.described().name
    }

    pub fn parts(self) -> Parts {
        self.described().parts
    }

    /// Returns the names of all presets, separated by commas, for help texts and errors.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl Parts {
    /// Returns true if the policy promises that no start raises the draw above the upper limit.
    pub fn keeps_upper_limit(self) -> bool {
        self.admission == AdmissionRule::Band
    }

    /// Returns true if starts respect the upper limit.
    pub fn heeds_upper_limit(self) -> bool {
        self.admission != AdmissionRule::Resources
    }

    /// Returns true if neither starts nor caps respect the upper limit.
    pub fn ignores_upper_limit(self) -> bool {
        !self.heeds_upper_limit() && !self.divides()
    }

    /// Returns true if starts respect the lower limit.
    pub fn heeds_lower_limit(self) -> bool {
        matches!(self.admission, AdmissionRule::Equations | AdmissionRule::Band)
    }

    /// Returns true if the policy promises never to use more than the budget of a period.
    pub fn keeps_budget(self) -> bool {
        matches!(self.admission, AdmissionRule::Rate | AdmissionRule::Ledger | AdmissionRule::LedgerReduced)
    }

    /// Returns true if starts keep limits of the estimated draw.
    pub fn counts_estimates(self) -> bool {
        self.keeps_budget() || self.admission == AdmissionRule::Relaxed
    }

    /// Returns true if the policy controls running jobs: changes caps, suspends, requeues.
    pub fn steers(self) -> bool {
        self.caps == CapRule::Moved
    }

    /// Returns true if the upper limit is divided among the units with jobs.
    pub fn divides(self) -> bool {
        matches!(self.caps, CapRule::Even | CapRule::EqualSpeed | CapRule::Ellsworth)
    }

    /// Returns true if a job may start at a cap because the power is not enough for its full speed.
    pub fn starts_capped(self) -> bool {
        self.caps == CapRule::FromProfile || self.takes_what_is_left()
    }

    /// Returns true if a job may start at what is left of the upper limit. Its time limit then counts the slowdown.
    pub fn takes_what_is_left(self) -> bool {
        matches!(self.caps, CapRule::AtStart | CapRule::FixedShare)
    }

    /// Returns the parts in force while jobs arrive rarely, or often.
    pub fn at_arrivals(self, are_rare: bool) -> Self {
        let order = match self.order {
            OrderRule::ByArrivals if are_rare => OrderRule::Easy,
            OrderRule::ByArrivals => OrderRule::Program,
            order => order,
        };
        Self { order, ..self }
    }

    /// Returns true if the policy puts idle nodes to sleep.
    pub fn powers_off(self) -> bool {
        self.idle == IdleRule::PowerOff
    }

    /// Returns true if the policy starts jobs only on units without other jobs.
    pub fn takes_whole_units(self) -> bool {
        self.admission == AdmissionRule::Equations
    }

    /// Returns true if estimates count the differences of equal units.
    pub fn knows_variation(self) -> bool {
        !matches!(self.order, OrderRule::Strict | OrderRule::Conservative) || self.placement.is_of_free_nodes()
    }

    /// Returns true if one plan starts at most one job. The core then asks again until no more jobs start.
    pub fn starts_one_by_one(self) -> bool {
        !matches!(self.order, OrderRule::Strict | OrderRule::Conservative) || self.placement == PlacementRule::LeastRoom
    }

    /// Returns the promises of these parts, in words. The plan checker or the order keeps them.
    pub fn promises(self) -> Vec<&'static str> {
        // Power and energy that a job waits for may go to others: these promises are about nodes alone.
        let reserves = |order| self.order == order && self.admission == AdmissionRule::Resources;
        let promises = [
            (self.keeps_upper_limit(), "starts nothing that takes the draw above the upper limit"),
            (self.divides(), "keeps the draw below the upper limit, as far as the lowest caps can"),
            (self.keeps_budget(), "never spends more than the budget of a period"),
            (reserves(OrderRule::Easy), "no later job delays the first one that waits"),
            (reserves(OrderRule::Conservative), "no later job delays one that waits"),
        ];
        promises.into_iter().filter(|(kept, _)| *kept).map(|(_, promise)| promise).collect()
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|preset| preset.name() == text);
        named.ok_or_else(|| format!("`{text}` is not a policy: {}", Self::names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_row() {
        for (index, preset) in Preset::ALL.into_iter().enumerate() {
            assert_eq!(preset as usize, index);
            assert_eq!(preset.name().parse(), Ok(preset));
            let name = serde_json::to_value(preset).expect("a name");
            assert_eq!(name, preset.name(), "journals and people have one name");
        }
    }

    /// Compares the promises with the former distinction by name. A preset that is added later needs no line here.
    #[test]
    fn promises_of_policies_follow_from_their_parts() {
        use Preset::{Conservative, Easy, Energybud, Fifo, Limo, LimoPrototype, Powercap, Reducepc};
        let known = [Fifo, LimoPrototype, Limo, Easy, Conservative, Powercap, Energybud, Reducepc];
        let those = |test: fn(Parts) -> bool| -> Vec<Preset> {
            known.into_iter().filter(|preset| test(preset.parts())).collect()
        };
        assert_eq!(those(Parts::keeps_upper_limit), [Limo]);
        assert_eq!(those(Parts::heeds_upper_limit), [LimoPrototype, Limo, Powercap, Energybud, Reducepc]);
        assert_eq!(those(Parts::heeds_lower_limit), [LimoPrototype, Limo]);
        assert_eq!(those(Parts::keeps_budget), [Powercap, Energybud, Reducepc]);
        assert_eq!(those(Parts::steers), [Limo]);
        assert_eq!(those(Parts::takes_whole_units), [LimoPrototype]);
        assert_eq!(those(Parts::starts_one_by_one), [Easy, Conservative, Powercap, Energybud, Reducepc]);
        assert_eq!(those(|parts| parts.promises().is_empty()), [Fifo, LimoPrototype]);
        assert_eq!(Energybud.parts().promises(), ["never spends more than the budget of a period"]);
        assert_eq!(Easy.parts().promises(), ["no later job delays the first one that waits"]);
    }
}
