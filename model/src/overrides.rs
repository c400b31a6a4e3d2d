//! Single parts of a policy that replace those of its preset, and the valid combinations.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::preset::{AdmissionRule, CapRule, IdleRule, OrderRule, Parts, PlacementRule, Preset};

/// Parts that replace those of a preset; unset parts come from the preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    /// The jobs that may pass one that cannot start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderRule>,
    /// The limits that a start must keep, besides free nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionRule>,
    /// The choice of nodes and start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRule>,
    /// The control of the power of running jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caps: Option<CapRule>,
    /// The treatment of nodes without jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleRule>,
}

/// A part with its rule, such as `idle=power-off`: the form in which people and messages name parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartRule {
    /// `order=RULE`
    Order(OrderRule),
    /// `admission=RULE`
    Admission(AdmissionRule),
    /// `placement=RULE`
    Placement(PlacementRule),
    /// `caps=RULE`
    Caps(CapRule),
    /// `idle=RULE`
    Idle(IdleRule),
}

impl PartRule {
    /// The kinds of parts, as they are written before the `=`.
    pub const KINDS: [&'static str; 5] = ["order", "admission", "placement", "caps", "idle"];

    /// The kind of the part.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Order(_) => "order",
            Self::Admission(_) => "admission",
            Self::Placement(_) => "placement",
            Self::Caps(_) => "caps",
            Self::Idle(_) => "idle",
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Self::Order(rule) => rule.name(),
            Self::Admission(rule) => rule.name(),
            Self::Placement(rule) => rule.name(),
            Self::Caps(rule) => rule.name(),
            Self::Idle(rule) => rule.name(),
        }
    }
}

impl fmt::Display for PartRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind(), self.rule())
    }
}

impl FromStr for PartRule {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, rule)) = text.split_once('=') else {
            return Err(format!("`{text}` is not a part with its rule: write for example `idle=power-off`"));
        };
        match kind {
            "order" => OrderRule::named(rule).map(Self::Order),
            "admission" => AdmissionRule::named(rule).map(Self::Admission),
            "placement" => PlacementRule::named(rule).map(Self::Placement),
            "caps" => CapRule::named(rule).map(Self::Caps),
            "idle" => IdleRule::named(rule).map(Self::Idle),
            _ => Err(format!("`{kind}` is not a part of a policy: {}", Self::KINDS.join(", "))),
        }
    }
}

impl Overrides {
    /// Collects parts that are named one by one.
    ///
    /// # Errors
    /// If a part is named twice.
    pub fn of(rules: &[PartRule]) -> Result<Self, String> {
        let mut overrides = Self::default();
        for (index, rule) in rules.iter().enumerate() {
            if rules[..index].iter().any(|earlier| earlier.kind() == rule.kind()) {
                return Err(format!("{rule}: `{}` is set twice", rule.kind()));
            }
            match *rule {
                PartRule::Order(rule) => overrides.order = Some(rule),
                PartRule::Admission(rule) => overrides.admission = Some(rule),
                PartRule::Placement(rule) => overrides.placement = Some(rule),
                PartRule::Caps(rule) => overrides.caps = Some(rule),
                PartRule::Idle(rule) => overrides.idle = Some(rule),
            }
        }
        Ok(overrides)
    }

    /// Returns the parts that are set.
    pub fn rules(self) -> Vec<PartRule> {
        let Self { order, admission, placement, caps, idle } = self;
        let rules = [
            order.map(PartRule::Order),
            admission.map(PartRule::Admission),
            placement.map(PartRule::Placement),
            caps.map(PartRule::Caps),
            idle.map(PartRule::Idle),
        ];
        rules.into_iter().flatten().collect()
    }

    /// Returns these parts; parts that are unset here come from `below`.
    pub fn on(self, below: Self) -> Self {
        Self {
            order: self.order.or(below.order),
            admission: self.admission.or(below.admission),
            placement: self.placement.or(below.placement),
            caps: self.caps.or(below.caps),
            idle: self.idle.or(below.idle),
        }
    }

    /// Returns true if all parts are those of the preset.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the parts in force: these, or else those of a preset.
    pub fn over(self, parts: Parts) -> Parts {
        Parts {
            order: self.order.unwrap_or(parts.order),
            admission: self.admission.unwrap_or(parts.admission),
            placement: self.placement.unwrap_or(parts.placement),
            caps: self.caps.unwrap_or(parts.caps),
            idle: self.idle.unwrap_or(parts.idle),
        }
    }
}

/// A part of a policy that has a name.
pub trait NamedPart: Copy + PartialEq + 'static {
    /// The kind of the part.
    const KIND: &'static str;
    /// All values with their names.
    const NAMES: &'static [(Self, &'static str)];

    /// The name by which it is chosen.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(part, _)| *part == self).map_or("", |(_, name)| name)
    }

    /// Returns the part of that name.
    ///
    /// # Errors
    /// The list of valid names.
    fn named(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text).map(|(part, _)| *part);
        let names = || Self::NAMES.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("`{text}` is not a rule for {}: {}", Self::KIND, names()))
    }
}

impl NamedPart for OrderRule {
    const KIND: &'static str = "the order";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Strict, "strict"),
        (Self::Easy, "easy"),
        (Self::Conservative, "conservative"),
        (Self::Rule, "rule"),
        (Self::Program, "program"),
        (Self::ByArrivals, "by-arrivals"),
    ];
}

impl NamedPart for AdmissionRule {
    const KIND: &'static str = "admission";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Resources, "resources"),
        (Self::Equations, "equations"),
        (Self::Band, "band"),
        (Self::Rate, "rate"),
        (Self::Ledger, "ledger"),
        (Self::LedgerReduced, "ledger-reduced"),
        (Self::Relaxed, "relaxed"),
    ];
}

impl NamedPart for PlacementRule {
    const KIND: &'static str = "placement";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::FirstFit, "first-fit"),
        (Self::ByPrice, "by-price"),
        (Self::LeastRoom, "least-room"),
        (Self::LeastEnergy, "least-energy"),
        (Self::Ranked, "ranked"),
        (Self::Window, "window"),
        (Self::Assignment, "assignment"),
        (Self::Pool, "pool"),
    ];
}

impl NamedPart for CapRule {
    const KIND: &'static str = "caps";
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Untouched, "untouched"),
        (Self::FromProfile, "from-profile"),
        (Self::Moved, "moved"),
        (Self::Even, "even"),
        (Self::EqualSpeed, "equal-speed"),
        (Self::AtStart, "at-start"),
        (Self::FixedShare, "fixed-share"),
        (Self::Ellsworth, "ellsworth"),
    ];
}

impl NamedPart for IdleRule {
    const KIND: &'static str = "idle nodes";
    const NAMES: &'static [(Self, &'static str)] = &[(Self::StayOn, "stay-on"), (Self::PowerOff, "power-off")];
}

macro_rules! parsed {
    ($($part:ty),*) => {$(
        impl FromStr for $part {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::named(text)
            }
        }
    )*};
}

parsed!(OrderRule, AdmissionRule, PlacementRule, CapRule, IdleRule);

impl Parts {
    /// Returns each part with its rule.
    pub fn rules(self) -> Vec<PartRule> {
        let Self { order, admission, placement, caps, idle } = self;
        vec![
            PartRule::Order(order),
            PartRule::Admission(admission),
            PartRule::Placement(placement),
            PartRule::Caps(caps),
            PartRule::Idle(idle),
        ]
    }

    /// Returns the parts that are not those of a preset.
    pub fn other_than(self, preset: Preset) -> Vec<PartRule> {
        let usual = preset.parts().rules();
        self.rules().into_iter().filter(|rule| !usual.contains(rule)).collect()
    }

    /// Returns every combination, valid or not.
    pub fn all() -> impl Iterator<Item = Self> {
        fn each<P: NamedPart>() -> impl Iterator<Item = P> {
            P::NAMES.iter().map(|(part, _)| *part)
        }
        let pairs = || each().flat_map(|order| each().map(move |admission| (order, admission)));
        let placed = move || pairs().flat_map(|pair| each().map(move |placement| (pair, placement)));
        let capped = placed().flat_map(|placed| each().map(move |caps| (placed, caps)));
        capped.flat_map(|(((order, admission), placement), caps)| {
            each().map(move |idle| Self { order, admission, placement, caps, idle })
        })
    }

    /// Returns the reason if these parts contradict each other. Idle nodes may sleep under each combination.
    pub fn senseless(self) -> Option<String> {
        use AdmissionRule::{Band, Equations, Ledger, LedgerReduced, Rate, Relaxed, Resources};
        let Self { order, admission, placement, caps, idle: _ } = self;
        if order == OrderRule::ByArrivals {
            let both = [self.at_arrivals(false), self.at_arrivals(true)];
            let why = both.into_iter().find_map(Self::senseless)?;
            return Some(format!("the order `by-arrivals` is sometimes `program` and sometimes `easy`: {why}"));
        }
        let (ordered, placed, admitted) = (order.name(), placement.name(), admission.name());
        let clash = |why: &str| Some(why.to_owned());
        match (order, placement) {
            (OrderRule::Easy, PlacementRule::FirstFit | PlacementRule::ByPrice) => {
                return Some(format!(
                    "the order `easy` reserves by the placement `least-room`, `least-energy`, `ranked`, `window` or \
                     `pool`, not by `{placed}`"
                ));
            }
            (OrderRule::Conservative, _) if placement.is_of_free_nodes() => {
                return Some(format!(
                    "the placement `{placed}` chooses among the nodes that are free now: it needs the order `strict` or \
                     `easy`, not `conservative`"
                ));
            }
            (
                OrderRule::Rule | OrderRule::Program,
                PlacementRule::FirstFit | PlacementRule::ByPrice | PlacementRule::Assignment,
            ) => {
                return Some(format!(
                    "the order `{ordered}` starts one job after another: it needs the placement `least-room`, \
                     `least-energy`, `ranked`, `window` or `pool`, not `{placed}`"
                ));
            }
            (OrderRule::Easy, PlacementRule::Assignment) => {
                return clash("the placement `assignment` places the first jobs together: it needs the order `strict`");
            }
            (OrderRule::Strict, PlacementRule::LeastRoom) => {
                return clash(
                    "the placement `least-room` needs an order that lets jobs pass: `easy` or `conservative`",
                );
            }
            (OrderRule::Strict, PlacementRule::ByPrice) => {
                return clash(
                    "the placement `by-price` plans starts for later, which the order `strict` does not keep",
                );
            }
            _ => {}
        }
        let is_list = matches!(order, OrderRule::Rule | OrderRule::Program);
        match admission {
            Equations if order != OrderRule::Strict => {
                clash("the admission `equations` is for the order `strict`: it asks for one job after the other")
            }
            Equations if placement != PlacementRule::FirstFit => {
                clash("the admission `equations` takes the first unit that fits: it needs the placement `first-fit`")
            }
            _ if caps == CapRule::Moved && is_list => {
                Some(format!("the order `{ordered}` plans with the present caps: it needs caps that are not `moved`"))
            }
            Relaxed if order != OrderRule::Easy && !is_list => Some(format!(
                "the admission `relaxed` counts the estimated draw: it needs the order `easy`, `rule` or `program`, not \
                 `{ordered}`"
            )),
            Relaxed if !self.divides() => Some(format!(
                "the admission `relaxed` lets jobs start above the upper limit: it needs the caps `even`, `equal-speed` \
                 or `ellsworth`, not `{}`",
                caps.name()
            )),
            Rate | Ledger | LedgerReduced if order != OrderRule::Easy && !(is_list && admission == Rate) => {
                Some(format!(
                    "the admission `{admitted}` reserves energy for the first job of the order `easy`, not of `{ordered}`"
                ))
            }
            Band if placement == PlacementRule::LeastRoom && !is_list => {
                clash("the admission `band` needs the placement `first-fit`, `by-price` or `least-energy`")
            }
            Band if order == OrderRule::Easy => clash(
                "the admission `band` plans by the band at later times: it needs the order `strict` or `conservative`",
            ),
            Resources | Equations if placement == PlacementRule::ByPrice => {
                clash("the placement `by-price` aims for the power band: it needs the admission `band`")
            }
            _ if caps == CapRule::Moved && placement.is_of_free_nodes() => {
                Some(format!("the placement `{placed}` chooses no caps: it needs caps that are `untouched`"))
            }
            _ if caps == CapRule::Moved && admission != Band => {
                clash("caps can be `moved` only with the admission `band`, which knows what they free")
            }
            _ if self.divides() && !matches!(admission, Resources | Relaxed) => Some(format!(
                "the caps `{}` bring the draw below the upper limit after a start: they need the admission `resources` \
                 or `relaxed`",
                caps.name()
            )),
            _ if self.takes_what_is_left() && admission != Rate => Some(format!(
                "the caps `{}` give a job what the estimated draw leaves of the upper limit: they need the admission \
                 `rate`, not `{admitted}`",
                caps.name()
            )),
            _ if caps == CapRule::FromProfile && !matches!(admission, Rate | Ledger | LedgerReduced) => clash(
                "caps come `from-profile` only with an admission that plans with estimates: `rate`, `ledger` or \
                 `ledger-reduced`",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
