//! Combinations of parts, and their texts.

use super::*;
use crate::Preset;

#[test]
fn each_preset_makes_sense() {
    for preset in Preset::ALL {
        assert_eq!(preset.parts().senseless(), None, "{preset}");
    }
}

#[test]
fn three_hundred_and_one_combinations_make_sense_with_each_idle_rule() {
    assert_eq!(Parts::all().count(), 6 * 7 * 8 * 8 * 2);
    // Strict: resources, equations, band by first-fit, resources and band by least energy, the band also with
    // caps: 4 + 3. Easy: its four admissions, three of them also with caps from profiles, each by least room and
    // by least energy: 7 + 7. Conservative: resources by least room and first-fit, band by first-fit and price,
    // these also with caps, and by least energy resources and band, the band also with caps: 6 + 3. Of free
    // nodes: strict with resources and the band, by rank, window, assignment and pool; easy as by least room, by rank,
    // window and pool: 8 + 21. By rule and by program: resources, the rate also with caps from profiles, and the band, each by least room
    // and energy, by rank, window and pool: 2 * 4 * 5. A divided limit by three rules: with resources, which go with 6, 5,
    // 3, 5 and 5 placements, and with a multiple of the limit, by easy, rule and program with 5 each. What is left of the
    // limit by two rules: with the rate, by the same orders and placements. By arrivals: what makes sense as `easy` and as
    // `program`.
    let without = 7 + 14 + 9 + 29 + 40;
    let by_arrivals = 5 * (1 + 2 + 3 * 2 + 2);
    let expected = 2 * (without + 3 * (24 + 15) + 2 * 15 + by_arrivals);
    assert_eq!(Parts::all().filter(|parts| parts.senseless().is_none()).count(), expected);
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
        "`first` is not a rule for placement: first-fit, by-price, least-room, least-energy, ranked, window, assignment, pool"
    );
}

#[test]
fn each_part_is_read_as_it_is_shown() {
    for rule in Parts::all().flat_map(Parts::rules) {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    let rule: PartRule = "idle=power-off".parse().expect("a part");
    assert_eq!(rule, PartRule::Idle(IdleRule::PowerOff));
    let refused = |text: &str| text.parse::<PartRule>().expect_err("refused");
    assert_eq!(refused("idle"), "`idle` is not a part with its rule: write for example `idle=power-off`");
    assert_eq!(refused("rest=idle"), "`rest` is not a part of a policy: order, admission, placement, caps, idle");
    assert_eq!(refused("idle=off"), "`off` is not a rule for idle nodes: stay-on, power-off");
}

#[test]
fn upper_parts_replace_lower_ones_and_are_named_once() {
    let part = |text: &str| text.parse::<PartRule>().expect("a part");
    let upper = Overrides::of(&[part("idle=stay-on")]).expect("once");
    let lower = Overrides::of(&[part("idle=power-off"), part("caps=moved")]).expect("once");
    assert_eq!(upper.on(lower).rules(), [part("caps=moved"), part("idle=stay-on")]);
    let twice = Overrides::of(&[part("idle=stay-on"), part("idle=power-off")]);
    assert_eq!(twice, Err("idle=power-off: `idle` is set twice".to_owned()));
    let parts = lower.over(Preset::Limo.parts());
    assert_eq!(parts.other_than(Preset::Limo), [part("idle=power-off")], "its caps are moved anyway");
}
