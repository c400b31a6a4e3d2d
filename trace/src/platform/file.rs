//! Limo's own platform files: TOML with one `[[nodes]]` table for each group of equal nodes.

use std::io;
use std::ops::Range;
use std::path::Path;

use limo_model::{Memory, Power, Span};
use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use super::unit::{self, CapFactor, Caps, Unit, UnitText};
use super::variation::VariationText;
use super::{Draw, Group, Names, Platform, PlatformError, Rest};
use crate::input;

/// Most bytes of a platform file: ten times the size of a list of a hundred thousand names.
const FILE_LIMIT: u64 = 16 << 20;

/// Reason why a platform file could not be read.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlatformFileError {
    #[error("{file}: the file cannot be read")]
    Read { file: String, source: io::Error },
    #[error("{file}:{line}:{column}: {reason}")]
    Syntax { file: String, line: usize, column: usize, reason: String },
    #[error("{file}:{line}: {source}")]
    Value { file: String, line: usize, source: PlatformError },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    nodes: Vec<Spanned<Nodes>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Nodes {
    name: Name,
    count: Option<u32>,
    cores: Option<u32>,
    #[serde(default, with = "limo_model::as_text::option")]
    memory: Option<Memory>,
    hardware: Option<String>,
    #[serde(with = "limo_model::as_text")]
    idle: Power,
    #[serde(default, with = "limo_model::as_text::option")]
    busy: Option<Power>,
    #[serde(default, with = "limo_model::as_text::option")]
    believed_idle: Option<Power>,
    #[serde(default, with = "limo_model::as_text::option")]
    believed_busy: Option<Power>,
    caps: Option<Caps>,
    #[serde(default, alias = "cap_factor")]
    cap_factor: Option<CapFactor>,
    rest: Option<RestText>,
    #[serde(default, with = "limo_model::as_text::option")]
    start_delay: Option<Span>,
    variation: Option<VariationText>,
    #[serde(default)]
    unit: Vec<UnitText>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a name, or a list of names in brackets")]
enum Name {
    One(String),
    Listed(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RestText {
    #[serde(with = "limo_model::as_text")]
    draw: Power,
    #[serde(with = "limo_model::as_text")]
    down_time: Span,
    #[serde(with = "limo_model::as_text")]
    down_draw: Power,
    #[serde(with = "limo_model::as_text")]
    up_time: Span,
    #[serde(with = "limo_model::as_text")]
    up_draw: Power,
}

/// Sums over the units of a node.
struct Sums {
    cores: u32,
    hardware: String,
    units: Vec<Unit>,
    draw: Draw,
    believed: Draw,
}

impl Nodes {
    /// Converts the table. The check of the count finds a list longer than [`super::NODE_LIMIT`].
    fn group(mut self) -> Result<Group, PlatformError> {
        let units = std::mem::take(&mut self.unit);
        let Sums { cores, hardware, units, draw, believed } =
            if units.is_empty() { self.plain()? } else { self.with_units(units)? };
        let (names, count) = match (self.name, self.count) {
            (Name::One(name), None) => (Names::One(name), 1),
            (Name::One(prefix), Some(count)) => (Names::Numbered(prefix), count),
            (Name::Listed(names), count) => {
                let listed = u32::try_from(names.len()).unwrap_or(u32::MAX);
                (Names::Listed(names), count.unwrap_or(listed))
            }
        };
        let rest = self.rest.map(|rest| Rest {
            draw: rest.draw,
            down_time: rest.down_time,
            down_draw: rest.down_draw,
            up_time: rest.up_time,
            up_draw: rest.up_draw,
        });
        let (memory, start_delay) = (self.memory, self.start_delay.unwrap_or_default());
        let variation = self.variation.map(VariationText::variation).transpose()?;
        Ok(Group { names, count, cores, memory, hardware, units, draw, believed, rest, start_delay, variation })
    }

    /// Makes one CPU with all the cores.
    fn plain(&self) -> Result<Sums, PlatformError> {
        let busy = self.busy.ok_or(PlatformError::NoBusy)?;
        let (cores, hardware) = (self.cores.unwrap_or(1), self.hardware.clone().unwrap_or_else(|| "node".to_owned()));
        let draw = Draw { idle: self.idle, busy };
        let believed = Draw { idle: self.believed_idle.unwrap_or(self.idle), busy: self.believed_busy.unwrap_or(busy) };
        let units = unit::sole((&hardware, cores), (draw, believed), (self.caps, self.cap_factor))?;
        Ok(Sums { cores, hardware, units, draw, believed })
    }

    fn with_units(&self, units: Vec<UnitText>) -> Result<Sums, PlatformError> {
        let given = [
            ("hardware", self.hardware.is_some()),
            ("busy", self.busy.is_some()),
            ("believed-busy", self.believed_busy.is_some()),
            ("caps", self.caps.is_some()),
            ("cap-factor", self.cap_factor.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(PlatformError::Twofold { key });
        }
        let units = units.into_iter().map(|unit| unit.unit(self.cores)).collect::<Result<Vec<Unit>, _>>()?;
        let sum = |of: fn(&Unit) -> Power| units.iter().map(of).sum::<Power>();
        let believed = self.believed_idle.unwrap_or(self.idle);
        Ok(Sums {
            cores: units.iter().fold(0, |sum: u32, unit| sum.saturating_add(unit.cores)),
            hardware: units.first().map(|unit| unit.hardware.clone()).unwrap_or_default(),
            draw: Draw { idle: self.idle, busy: self.idle + sum(|unit| unit.draw) },
            believed: Draw { idle: believed, busy: believed + sum(|unit| unit.nameplate) },
            units,
        })
    }
}

impl Platform {
    /// Reads a platform file.
    ///
    /// # Errors
    /// [`PlatformFileError`] with the line of the first error.
    pub fn read(path: &Path) -> Result<Self, PlatformFileError> {
        let file = path.display().to_string();
        match input::text(path, FILE_LIMIT) {
            Ok(text) => Self::parse(&file, &text),
            Err(source) => Err(PlatformFileError::Read { file, source }),
        }
    }

    /// Parses text; errors name `file`.
    ///
    /// # Errors
    /// The same as for [`Platform::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, PlatformFileError> {
        let parsed: File = toml::from_str(text).map_err(|error| {
            let (line, column) = place(text, error.span());
            PlatformFileError::Syntax { file: file.to_owned(), line, column, reason: error.message().to_owned() }
        })?;
        let value =
            |span, source| PlatformFileError::Value { file: file.to_owned(), line: place(text, Some(span)).0, source };
        let mut platform = Self { groups: Vec::with_capacity(parsed.nodes.len()) };
        let mut last = 0..0;
        for nodes in parsed.nodes {
            last = nodes.span();
            let group = nodes.into_inner().group().map_err(|source| value(last.clone(), source))?;
            group.check().map_err(|source| value(last.clone(), source))?;
            platform.groups.push(group);
        }
        platform.check().map_err(|source| value(last, source))?;
        Ok(platform)
    }
}

/// Returns line and column, from 1, of the start of `span`.
fn place(text: &str, span: Option<Range<usize>>) -> (usize, usize) {
    let at = span.map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = at - before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1) + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAURUS: &str = r#"# energy-budget-2017, table I
[[nodes]]
name = "n"
count = 80640
cores = 1
hardware = "taurus"
idle = "95 W"
busy = "190.738 W"
believed-idle = "100 W"
believed-busy = "203.12 W"
[nodes.rest]
draw = "9.75 W"
down-time = "6.1 s"
down-draw = "101 W"
up-time = "151.52 s"
up-draw = "125.17 W"
"#;

    fn check(text: &str, expected: &str) {
        assert_eq!(Platform::parse("p.toml", text).map_err(|error| error.to_string()), Err(expected.to_owned()));
    }

    #[test]
    fn the_papers_cluster() {
        assert_eq!(Platform::parse("p.toml", TAURUS).expect("a platform"), Platform::taurus(80_640));
    }

    #[test]
    fn one_node_and_a_list() {
        let text = "[[nodes]]\nname = \"front\"\nidle = \"10 W\"\nbusy = \"20 W\"\n\
            [[nodes]]\nname = [\"a\", \"b\"]\ncores = 8\nmemory = \"64 GiB\"\nidle = \"10 W\"\nbusy = \"20 W\"\n";
        let platform = Platform::parse("p.toml", text).expect("a platform");
        assert_eq!((platform.nodes(), platform.cores()), (3, 17));
        assert_eq!(platform.groups[0].node_name(0), "front");
        assert_eq!(platform.groups[1].node_name(1), "b");
        assert_eq!(platform.groups[1].memory.map(Memory::bytes), Some(64 << 30));
        assert_eq!(platform.groups[1].believed, platform.groups[1].draw);
    }

    const UNITS: &str = r#"[[nodes]]
name = "xeon2"
cores = 8
idle = "19 W"
[[nodes.unit]]
name = "cpu"
hardware = "xeon"
kind = "cpu"
nameplate = "60 W"
caps = ["8 W", "60 W"]
cap_factor = 0.75
[nodes.unit.application]
cg = { power = "31 W", duration = "77 s" }
[[nodes.unit]]
name = "quadro"
hardware = "p2000"
kind = "accelerator"
nameplate = "75 W"
draw = "70 W"
"#;

    /// The keys of a unit are those of an emulated hardware file.
    #[test]
    fn units_and_caps() {
        let platform = Platform::parse("p.toml", UNITS).expect("a platform");
        let [group] = &platform.groups[..] else { panic!("one group") };
        let watts = Power::from_watts;
        assert_eq!((group.cores, group.widest(), platform.cores()), (9, 8, 9));
        assert_eq!((group.draw.busy, group.believed.busy), (watts(149), watts(154)));
        let [cpu, quadro] = &group.units[..] else { panic!("two units") };
        assert_eq!((cpu.cores, cpu.caps, cpu.cap_factor_permille), (8, Some((watts(8), watts(60))), 750));
        assert_eq!(
            cpu.applications["cg"],
            super::super::Run { power: watts(31), duration: Span::from_secs(77), slowdown: None }
        );
        assert_eq!((quadro.cores, quadro.caps, quadro.cap_factor_permille, quadro.draw), (1, None, 1_000, watts(70)));
        let capped = "[[nodes]]\nname = \"n\"\ncount = 2\ncores = 4\nidle = \"10 W\"\nbusy = \"50 W\"\n\
            believed-busy = \"60 W\"\ncaps = [\"5 W\", \"40 W\"]\ncap-factor = 0.5\n";
        let platform = Platform::parse("p.toml", capped).expect("a platform");
        let [unit] = &platform.groups[0].units[..] else { panic!("one unit") };
        assert_eq!((unit.draw, unit.nameplate, unit.cores), (watts(40), watts(50), 4));
        assert_eq!((unit.caps, unit.cap_factor_permille), (Some((watts(5), watts(40))), 500));
    }

    #[test]
    fn refusals_of_units() {
        let units = |from: &str, to: &str, expected: &str| check(&UNITS.replace(from, to), expected);
        units("cores = 8\n", "", "p.toml:1: unit `cpu` has no `cores`: add them there or in `[[nodes]]`");
        units(
            "cores = 8",
            "cores = 8\nbusy = \"80 W\"",
            "p.toml:1: `busy` and `[[nodes.unit]]`, which has it for each unit, exclude each other: remove `busy`",
        );
        units("quadro", "cpu", "p.toml:1: a node has two units named `cpu`");
        units("\"8 W\"", "\"61 W\"", "p.toml:1: the caps of unit `cpu` are crossed: 61.0 W is above 60.0 W");
        units("\"8 W\"", "\"0 W\"", "p.toml:1: the lowest cap of unit `cpu` is 0.0 W: it must be above 0 W");
        units("0.75", "1.5", "p.toml:11:14: the cap factor is 1.5: it must be 0.001 to 1");
        units(
            "caps = [\"8 W\", \"60 W\"]\n",
            "",
            "p.toml:1: there is a `cap-factor` without `caps`: add the lowest and the highest cap",
        );
        units(
            "77 s",
            "0 s",
            "p.toml:1: application `cg` on unit `cpu` draws 31.0 W for 0s: the power must not be negative, and the duration must be above 0 s",
        );
        units("draw = \"70 W\"", "cores = 2", "p.toml:1: accelerator `quadro` has 2 cores: an accelerator counts as 1");
        check(
            "[[nodes]]\nname = \"n\"\nidle = \"1 W\"\n",
            "p.toml:1: there is no `busy`: give the draw with all cores busy, or the units (`[[nodes.unit]]`)",
        );
    }

    #[test]
    fn refusals() {
        check(
            &TAURUS.replace("idle = \"95 W\"", "idle = 95"),
            "p.toml:7:8: `95` has no unit: write for example `90 W` (units: W, kW, MW, mW)",
        );
        check(
            &TAURUS.replace("cores", "core"),
            "p.toml:5:1: unknown field `core`, expected one of `name`, `count`, `cores`, `memory`, `hardware`, `idle`, `busy`, `believed-idle`, `believed-busy`, `caps`, `cap-factor`, `cap_factor`, `rest`, `start-delay`, `variation`, `unit`",
        );
        check(&TAURUS.replace("80640", "0"), "p.toml:2: `count` is 0: it must be 1 to 1000000");
        check(&TAURUS.replace("80640", "1000001"), "p.toml:2: `count` is 1000001: it must be 1 to 1000000");
        check(&TAURUS.replace("cores = 1", "cores = 5000"), "p.toml:2: `cores` is 5000: it must be 1 to 4096");
        check(&TAURUS.replace("9.75 W", "-1 W"), "p.toml:2: `rest.draw` is negative: -1.0 W");
        check(&TAURUS.replace("cores = 1", "start-delay = \"-1 s\""), "p.toml:2: `start-delay` is negative: -1s");
        check(&TAURUS.replace("6.1 s", "-6 s"), "p.toml:2: `rest.down-time` is negative: -6s");
        check(
            &TAURUS.replace("190.738", "90"),
            "p.toml:2: `busy` is 90.0 W, below `idle` with 95.0 W: a busy node cannot draw less than an idle one",
        );
        check(&TAURUS.replace("up-draw = \"125.17 W\"\n", ""), "p.toml:11:1: missing field `up-draw`");
        check(&format!("{TAURUS}{TAURUS}"), "p.toml:18: two nodes are named `n00001`");
        check(&TAURUS.replace("\"n\"", "7"), "p.toml:3:8: a name, or a list of names in brackets");
        check("", "p.toml:1: the platform has no nodes: write at least one `[[nodes]]`");
        check("[[nodes]", "p.toml:1:9: unclosed array table, expected `]`");
    }
}
