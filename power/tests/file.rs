//! Hardware files: contents of good ones, and errors for bad ones.

use std::path::Path;

use limo_model::{Meter, Power, Span, UnitKind};
use limo_power::Hardware;

const GOOD: &str = r#"[[machine]]
name = "n1"
cores = 4
memory = "2 GiB"
idle = "14 W"

[[machine.unit]]
name = "cpu"
hardware = "xeon"
kind = "cpu"
nameplate = "60 W"
caps = ["8 W", "60 W"]
cap_factor = 0.5
duration_noise = "2%"

[machine.unit.application.ft]
power = "45 W"
duration = "40s"

[machine.unit.application."ft/A"]
power = "30 W"
duration = "10s"
"#;

fn parse(text: &str) -> Result<Hardware, String> {
    Hardware::parse(Path::new("hw.toml"), text).map_err(|error| error.to_string())
}

/// Expects that the good file with `old` replaced by `new` is refused with exactly this text.
fn check(old: &str, new: &str, expected: &str) {
    assert!(GOOD.contains(old), "{old}");
    assert_eq!(parse(&GOOD.replacen(old, new, 1)).expect_err("a mistake"), expected, "{old} -> {new}");
}

#[test]
fn a_good_file() {
    let hardware = parse(GOOD).expect("a good file");
    let machine = hardware.machine_for_node("any").expect("the only one");
    assert_eq!((machine.spec.name.as_str(), machine.spec.idle), ("n1", Power::from_watts(14)));
    assert_eq!(machine.spec.meter, Meter::Emulated);
    let unit = &machine.spec.units[0];
    assert_eq!((unit.kind, unit.cores, unit.nameplate), (UnitKind::Cpu, 4, Power::from_watts(60)));
    assert_eq!(unit.caps, Some((Power::from_watts(8), Power::from_watts(60))));
    let duration = |application, size| machine.units[0].application(application, size).map(|found| found.duration);
    assert_eq!(duration("ft", "A"), Some(Span::from_secs(10)), "the size class goes first");
    assert_eq!(duration("ft", "B"), Some(Span::from_secs(40)), "then the application");
    assert_eq!(duration("ft", ""), Some(Span::from_secs(40)));
    assert_eq!(duration("cg", ""), None);
}

#[test]
fn mistakes_name_file_line_and_value() {
    check(
        r#"idle = "14 W""#,
        "idle = 14",
        "hw.toml:5: `14` has no unit: write for example `90 W` (units: W, kW, MW, mW)",
    );
    check(r#""60 W"]"#, "60]", "hw.toml:12: `60` has no unit: write for example `90 W` (units: W, kW, MW, mW)");
    check(r#""2%""#, "2", "hw.toml:14: `2` has no unit: write for example `2%`");
    check(
        r#""2 GiB""#,
        "2",
        "hw.toml:4: `2` has no unit: write for example `512M` (units: B, K, M, G, T, KiB, MiB, GiB, TiB, kB, MB, GB)",
    );
    check(
        "nameplate",
        "nameplat",
        "hw.toml:11: unknown field `nameplat`, expected one of `name`, `hardware`, `kind`, `cores`, `nameplate`, `caps`, `cap_factor`, `power_noise`, `duration_noise`, `application`",
    );
    check(r#"kind = "cpu""#, r#"kind = "gpu""#, "hw.toml:10: unknown variant `gpu`, expected `cpu` or `accelerator`");
    check("cores = 4\n", "", "hw.toml:6: neither CPU `cpu` nor its machine has `cores`");
    check(
        "cap_factor = 0.5",
        "cap_factor = 2",
        "hw.toml:7: unit `cpu` has the cap_factor 2: it must be above 0 and at most 1",
    );
    check(
        r#"caps = ["8 W", "60 W"]"#,
        "",
        "hw.toml:7: unit `cpu` has a cap_factor but no caps: write for example `caps = [\"8 W\", \"60 W\"]`",
    );
    check(r#"["8 W""#, r#"["0 W""#, "hw.toml:7: the lowest cap of unit `cpu` is 0.0 W: it must be above zero");
    check(r#"["8 W""#, r#"["80 W""#, "hw.toml:1: the caps of unit `cpu` are crossed: 80.0 W is above 60.0 W");
    check(r#""10s""#, r#""0s""#, "hw.toml:20: application `ft/A` takes 0s: it must be above zero");
    check(r#""30 W""#, r#""-30 W""#, "hw.toml:20: application `ft/A` draws -30.0 W: it must not be negative");
    check(
        r#"name = "n1""#,
        r#"name = "n 1""#,
        "hw.toml:1: the node name `n 1` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed",
    );
    assert_eq!(parse("").expect_err("empty"), "hw.toml: describes no machine: write a `[[machine]]` section");
    let twice = format!("{GOOD}\n{GOOD}");
    assert_eq!(parse(&twice).expect_err("twice"), "hw.toml:24: two machines have the name `n1`");
}

/// The shipped example agrees with the text of limo-2018.
#[test]
fn the_example_keeps_to_the_paper() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/limo-2018.toml");
    let hardware = Hardware::read(&path).expect("the example");
    let names: Vec<_> = hardware.machines.iter().map(|machine| machine.spec.name.as_str()).collect();
    assert_eq!(names, ["xeon1", "xeon2", "odroid-c1", "odroid-c2"]);
    let units: Vec<_> =
        hardware.machines.iter().flat_map(|machine| machine.spec.units.iter().zip(&machine.units)).collect();
    assert_eq!(units.len(), 6, "six execution units");
    let idle: Power = hardware.machines.iter().map(|machine| machine.spec.idle).sum();
    assert!(idle < Power::from_watts(39), "the lowest lower limit of Table 4.6: {idle}");
    for name in ["cg", "ep", "ft", "is", "mg"] {
        let mut powers: Vec<_> = units
            .iter()
            .map(|(spec, unit)| (unit.application(name, "").expect("every benchmark").power, spec.hardware.as_str()))
            .collect();
        powers.sort();
        assert_eq!(powers.first().map(|(_, hardware)| *hardware), Some("odroid-c1+"), "lowest draw of {name}");
        assert_eq!(powers.last().map(|(_, hardware)| *hardware), Some("quadro-p2000"), "highest draw of {name}");
    }
}
