//! Single parts of a policy that replace those of its preset, and the valid combinations.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::preset::{AdmissionRule, CapRule, IdleRule, OrderRule, Parts, PlacementRule};

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

impl Overrides {
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
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Strict, "strict"), (Self::Easy, "easy"), (Self::Conservative, "conservative")];
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
    ];
}

impl NamedPart for PlacementRule {
    const KIND: &'static str = "placement";
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::FirstFit, "first-fit"), (Self::ByPrice, "by-price"), (Self::LeastRoom, "least-room")];
}

impl NamedPart for CapRule {
    const KIND: &'static str = "caps";
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Untouched, "untouched"), (Self::FromProfile, "from-profile"), (Self::Moved, "moved")];
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
        use AdmissionRule::{Band, Equations, Ledger, LedgerReduced, Rate, Resources};
        let Self { order, admission, placement, caps, idle: _ } = self;
        let (ordered, placed, admitted) = (order.name(), placement.name(), admission.name());
        let clash = |why: &str| Some(why.to_owned());
        match (order, placement) {
            (OrderRule::Easy, PlacementRule::FirstFit | PlacementRule::ByPrice) => {
                return Some(format!("the order `easy` reserves by the placement `least-room`, not by `{placed}`"));
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
        match admission {
            Equations if order != OrderRule::Strict => {
                clash("the admission `equations` is for the order `strict`: it asks for one job after the other")
            }
            Rate | Ledger | LedgerReduced if order != OrderRule::Easy => Some(format!(
                "the admission `{admitted}` reserves energy for the first job of the order `easy`, not of `{ordered}`"
            )),
            Band if placement == PlacementRule::LeastRoom => {
                clash("the admission `band` needs the placement `first-fit` or `by-price`, which look at later times")
            }
            Resources | Equations if placement == PlacementRule::ByPrice => {
                clash("the placement `by-price` aims for the power band: it needs the admission `band`")
            }
            _ if caps == CapRule::Moved && admission != Band => {
                clash("caps can be `moved` only with the admission `band`, which knows what they free")
            }
            _ if caps == CapRule::FromProfile && !matches!(admission, Rate | Ledger | LedgerReduced) => clash(
                "caps come `from-profile` only with an admission that plans with estimates: `rate`, `ledger` or \
                 `ledger-reduced`",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn each_preset_makes_sense() {
        for preset in Preset::ALL {
            assert_eq!(preset.parts().senseless(), None, "{preset}");
        }
    }

    #[test]
    fn seventeen_of_all_combinations_make_sense_with_each_idle_rule() {
        assert_eq!(Parts::all().count(), 3 * 6 * 3 * 3 * 2);
        // Strict: resources, equations, band by first-fit, the last also with caps: 4. Easy: its four admissions,
        // three of them also with caps from profiles. Conservative: resources by least room and first-fit, band by first-fit and price, these also with caps: 6.
        assert_eq!(Parts::all().filter(|parts| parts.senseless().is_none()).count(), 2 * (4 + 7 + 6));
    }

    #[test]
    fn a_part_takes_the_place_of_the_presets() {
        let overrides = Overrides { placement: Some(PlacementRule::FirstFit), ..Overrides::default() };
        let parts = overrides.over(Preset::Conservative.parts());
        assert_eq!(parts, Parts { placement: PlacementRule::FirstFit, ..Preset::Conservative.parts() });
        let why = Overrides { admission: Some(AdmissionRule::Ledger), ..overrides }.over(parts).senseless();
        let why = why.expect("no sense");
        assert_eq!(
            why,
            "the admission `ledger` reserves energy for the first job of the order `easy`, not of `conservative`"
        );
        assert_eq!(
            "first".parse::<PlacementRule>().expect_err("no such part"),
            "`first` is not a rule for placement: first-fit, by-price, least-room"
        );
    }
}
