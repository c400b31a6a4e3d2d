//! File of profiles: its format, its errors, and exact round trips.

use proptest::collection::btree_map;
use proptest::prelude::*;

use super::*;

fn shown(profiles: &[(ProfileKey, Profile)]) -> String {
    let mut bytes = Vec::new();
    write(profiles, &mut bytes).expect("a Vec takes everything");
    String::from_utf8(bytes).expect("UTF-8")
}

fn sample() -> (ProfileKey, Profile) {
    let key = ProfileKey {
        application: "cg".into(),
        size: "C".into(),
        hardware: "xeon-e3-1275v5".into(),
        cores: Some(8),
        nodes: Some(4),
        cap: Some(Power::from_watts(65)),
    };
    let profile = Profile {
        duration: Span::from_ms(12_345),
        power: Power::from_mw(41_500),
        energy: Energy::from_mj(512_007),
        spread_permille: 25,
        runs: 17,
        source: EstimateSource::Imported,
    };
    (key, profile)
}

const HEADER: &str = "application,size,hardware,cores,nodes,cap,duration,power,energy,spread,runs\n";

#[test]
fn the_text_has_one_line_per_profile() {
    let (key, profile) = sample();
    let bare = ProfileKey { size: String::new(), cores: None, nodes: None, cap: None, ..key.clone() };
    let text = shown(&[(key, profile), (bare, profile)]);
    let lines = "cg,C,xeon-e3-1275v5,8,4,65 W,12.345 s,41.5 W,512.007 J,2.5 %,17\n\
                 cg,,xeon-e3-1275v5,,,,12.345 s,41.5 W,512.007 J,2.5 %,17\n";
    assert_eq!(text, format!("{HEADER}{lines}"));
    assert_eq!(shown(&[]), HEADER);
}

#[test]
fn people_may_order_columns_comment_and_choose_units() {
    let text = "# measured on Tuesday\n\
                runs, spread,energy,power,duration,cap,nodes,cores,hardware,size,application\n\
                \n\
                17,2.5%,0.512007 kJ,0.0415 kW,\"12345 ms\",65 W ,4,8, xeon-e3-1275v5,C,cg\n";
    assert_eq!(read(text.as_bytes()).expect("readable"), [sample()]);
}

/// Reads files from before profiles had cores and nodes.
#[test]
fn a_file_without_cores_holds_for_any_number() {
    let text = "application,size,hardware,cap,duration,power,energy,spread,runs\n\
                cg,C,xeon-e3-1275v5,65 W,12.345 s,41.5 W,512.007 J,2.5 %,17\n";
    let (key, profile) = sample();
    assert_eq!(read(text.as_bytes()).expect("readable"), [(ProfileKey { cores: None, nodes: None, ..key }, profile)]);
}

fn check(text: &str, expected: &str) {
    let error = read(text.as_bytes()).expect_err("refused");
    assert_eq!(error.to_string(), expected, "{text}");
}

#[test]
fn wrong_headers_are_refused() {
    let columns = "(columns: application, size, hardware, cores, nodes, cap, duration, power, energy, spread, runs)";
    check("", &format!("the file is empty: its first line must be `{}`", HEADER.trim_end()));
    check("# nothing else\n", &format!("the file is empty: its first line must be `{}`", HEADER.trim_end()));
    check("application,colour\n", &format!("line 1: unknown column `colour` {columns}"));
    check("Application\n", &format!("line 1: unknown column `Application` {columns}"));
    check(&HEADER.replace(",cap", ""), "line 1: column `cap` is missing");
    check(&HEADER.replace(",runs", ",runs,power"), "line 1: column `power` occurs twice");
}

#[test]
fn wrong_fields_are_named_with_line_column_and_value() {
    let good = ["cg", "C", "xeon", "", "", "", "1 s", "2 W", "3 J", "0 %", "4"];
    let with = |column: usize, value: &str| {
        let mut fields = good;
        fields[column] = value;
        format!("{HEADER}{}\n{}\n", good.join(",").replace("cg", "ft"), fields.join(","))
    };
    let field =
        |column: usize, value: &str, expected: &str| check(&with(column, value), &format!("line 3, column {expected}"));
    field(0, "", "`application`: the application is empty");
    field(
        0,
        "a/b",
        "`application`: the application `a/b` has the character `/`: letters, digits, `.`, `_`, `-`, `+` are allowed",
    );
    field(2, "", "`hardware`: the hardware is empty");
    field(
        1,
        "big one",
        "`size`: the size class `big one` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed",
    );
    for cores in ["0", "-1", "65537", "two"] {
        let expected = "is not a number of cores: 1 to 65536, or empty for any number";
        field(3, cores, &format!("`cores`: `{cores}` {expected}"));
    }
    for nodes in ["0", "100001", "many"] {
        let expected = "is not a number of nodes: 1 to 100000, or empty for any number";
        field(4, nodes, &format!("`nodes`: `{nodes}` {expected}"));
    }
    field(5, "-5 W", "`cap`: `-5 W` must not be negative");
    field(6, "12", "`duration`: `12` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)");
    field(6, "-1 s", "`duration`: `-1 s` must not be negative");
    field(7, "5 J", "`power`: `5 J` has the unknown unit `J` (units: W, kW, MW, mW)");
    field(8, "", "`energy`: `` has no number: write for example `1.5 kWh`");
    for spread in ["2.5", "-1 %", "2.55 %", "%", "429496729.6 %", "1e3 %"] {
        let expected = "is not a spread: write for example `2.5 %`, with at most one decimal";
        field(9, spread, &format!("`spread`: `{spread}` {expected}"));
    }
    field(10, "-4", "`runs`: `-4` is not a number of runs: write 0 to 4294967295");
    check(&format!("{}{}", with(10, "4"), "cg,C\n"), "line 4: 2 fields, but the header has 11");
    check(&format!("{}{},5\n", with(10, "4"), good.join(",")), "line 4: 12 fields, but the header has 11");
    check(&format!("{}{}\n", with(10, "4"), good.join(",")), "line 4: cg/C on xeon is already on line 3");
}

#[test]
fn invalid_utf8_is_refused() {
    let error = read([HEADER.as_bytes(), b"c\xFFg,C,x,,,,1 s,2 W,3 J,0 %,4\n"].concat().as_slice());
    assert_eq!(error.expect_err("refused").to_string(), "line 2: not UTF-8 text");
}

fn key() -> impl Strategy<Value = ProfileKey> {
    let name = || "[A-Za-z0-9._+-]{1,64}";
    let cores = proptest::option::of(1..=limo_model::CORE_LIMIT);
    (name(), "[A-Za-z0-9._+-]{0,64}", name(), cores, proptest::option::of(0..=i64::MAX)).prop_map(
        |(application, size, hardware, cores, cap)| {
            let cap = cap.map(Power::from_mw);
            ProfileKey { application, size, hardware, cores, nodes: cores, cap }
        },
    )
}

fn profile() -> impl Strategy<Value = Profile> {
    (0..=i64::MAX, 0..=i64::MAX, 0..=i64::MAX, any::<u32>(), any::<u32>()).prop_map(|(ms, mw, mj, spread, runs)| {
        Profile {
            duration: Span::from_ms(ms),
            power: Power::from_mw(mw),
            energy: Energy::from_mj(mj),
            spread_permille: spread,
            runs,
            source: EstimateSource::Imported,
        }
    })
}

proptest! {
    #[test]
    fn any_list_of_profiles_round_trips(profiles in btree_map(key(), profile(), 0..20)) {
        let profiles = profiles.into_iter().collect::<Vec<_>>();
        prop_assert_eq!(read(shown(&profiles).as_bytes()).expect("readable"), profiles);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), rest in "[ -~\n]{0,200}") {
        let _ = read(text.as_bytes());
        let _ = read(format!("{HEADER}{rest}").as_bytes());
    }
}
