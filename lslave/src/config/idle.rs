//! Settings of idle draw and sleep: `idle = "15 W"`, or the section `[idle]`. Only in the file.

use std::fmt;
use std::net::Ipv4Addr;

use anyhow::{bail, ensure};
use limo_model::{Mac, Power, Rest, Span, Switch, Wake};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use limo_model::as_text;

/// Longest time to sleep or wake, for a large machine that tests its memory.
const LONGEST: Span = Span::from_secs(3600);
const SLEEP_TIME: Span = Span::from_secs(30);
const WAKE_TIME: Span = Span::from_secs(120);
/// Default draw of a sleeping server that listens to the network.
const SLEEP_DRAW: Power = Power::from_watts(5);

/// Section `[idle]`; a plain text is its `draw`.
#[derive(Debug, Clone, Default)]
pub struct Idle(Section);

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "as_text::option::deserialize")]
    draw: Option<Power>,
    off: Option<String>,
    wake: Option<String>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    mac: Option<Mac>,
    broadcast: Option<Ipv4Addr>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    sleep_time: Option<Span>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    wake_time: Option<Span>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    sleep_draw: Option<Power>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    down_draw: Option<Power>,
    #[serde(deserialize_with = "as_text::option::deserialize")]
    up_draw: Option<Power>,
}

/// Settings of a machine that sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepSettings {
    /// Command that puts the machine to sleep.
    pub off: String,
    wake: Wake,
    sleep_time: Span,
    wake_time: Span,
    sleep_draw: Power,
    down_draw: Option<Power>,
    up_draw: Option<Power>,
}

impl<'de> Deserialize<'de> for Idle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Idle;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a draw such as \"15 W\", or a section [idle]")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Idle, E> {
                let draw = text.parse().map_err(E::custom)?;
                Ok(Idle(Section { draw: Some(draw), ..Section::default() }))
            }

            // A number without a unit: the parser of draws reports the missing unit.
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Idle, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Idle, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Idle, A::Error> {
                Section::deserialize(MapAccessDeserializer::new(map)).map(Idle)
            }
        }

        deserializer.deserialize_any(Either)
    }
}

impl Idle {
    /// Draw without a job.
    pub fn draw(&self) -> Option<Power> {
        self.0.draw
    }

    /// Returns the settings, or `None` if the machine never sleeps.
    ///
    /// # Errors
    /// If a required key is missing, or a value is invalid.
    pub fn sleep(self) -> anyhow::Result<Option<SleepSettings>> {
        let section = Section { draw: None, ..self.0 };
        let Some(off) = section.off.clone() else {
            if section != Section::default() {
                bail!(
                    "[idle] has no `off`, the command that puts the machine to sleep: add `off = \"systemctl suspend\"`"
                );
            }
            return Ok(None);
        };
        let Section { wake, mac, broadcast, sleep_draw, down_draw, up_draw, .. } = section;
        ensure!(!off.trim().is_empty(), "[idle] off is empty: write for example `off = \"systemctl suspend\"`");
        let wake = match (wake.as_deref(), mac) {
            (Some("wol"), Some(mac)) => Wake::Wol { mac, broadcast },
            (Some("wol"), None) => {
                bail!("[idle] wake is `wol`: add the hardware address, `mac = \"52:54:00:12:34:56\"`")
            }
            (Some("command"), None) if broadcast.is_none() => Wake::Command,
            (Some("command"), _) => bail!("[idle] wake is `command`: remove `mac` and `broadcast`, or write `wol`"),
            (Some(other), _) => bail!("[idle] wake is `{other}`: it must be `wol` or `command`"),
            (None, _) => {
                bail!("[idle] has no `wake`, the way to wake the machine: add `wake = \"wol\"` or `\"command\"`")
            }
        };
        let span = |key: &str, value: Option<Span>, default: Span| {
            let value = value.unwrap_or(default);
            ensure!(Span::ZERO <= value && value <= LONGEST, "[idle] {key} is {value}: it must be 0s to {LONGEST}");
            Ok(value)
        };
        let draws = [("sleep_draw", sleep_draw), ("down_draw", down_draw), ("up_draw", up_draw)];
        for (key, draw) in draws {
            if let Some(draw) = draw.filter(|draw| *draw < Power::ZERO) {
                bail!("[idle] {key} is {draw}: it must not be negative");
            }
        }
        Ok(Some(SleepSettings {
            off,
            wake,
            sleep_time: span("sleep_time", section.sleep_time, SLEEP_TIME)?,
            wake_time: span("wake_time", section.wake_time, WAKE_TIME)?,
            sleep_draw: sleep_draw.unwrap_or(SLEEP_DRAW),
            down_draw,
            up_draw,
        }))
    }
}

impl SleepSettings {
    /// Returns the sleep settings for the master. By default, a machine that falls asleep or wakes draws as much as
    /// an idle one.
    pub fn rest(&self, idle: Power) -> Rest {
        Rest {
            draw: self.sleep_draw,
            down: Switch { span: self.sleep_time, draw: self.down_draw.unwrap_or(idle) },
            up: Switch { span: self.wake_time, draw: self.up_draw.unwrap_or(idle) },
            wake: Some(self.wake),
        }
    }

    /// Returns the longest time for the machine to fall asleep, after which it counts as awake. A machine that sleeps
    /// later would already have registered again.
    pub fn patience(&self) -> Span {
        self.sleep_time.scaled(4, 1).max(Span::from_secs(60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Option<Power>, Option<SleepSettings>), String> {
        #[derive(Deserialize)]
        struct IdleFile {
            #[serde(default)]
            idle: Idle,
        }
        let file: IdleFile = toml::from_str(text).map_err(|error| error.to_string())?;
        let draw = file.idle.draw();
        Ok((draw, file.idle.sleep().map_err(|error| error.to_string())?))
    }

    fn refused(text: &str, expected: &str) {
        let error = read(text).expect_err("refused");
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    const OFF: &str = "[idle]\noff = \"systemctl suspend\"\n";

    #[test]
    fn a_draw_is_a_text_or_part_of_the_section() {
        let watts = |watts| Some(Power::from_watts(watts));
        assert_eq!(read(""), Ok((None, None)));
        assert_eq!(read("idle = \"15 W\""), Ok((watts(15), None)));
        assert_eq!(read("[idle]\ndraw = \"15 W\""), Ok((watts(15), None)));
        refused("idle = 15", "W");
        refused("idle = true", "a draw such as \"15 W\", or a section [idle]");
    }

    #[test]
    fn a_machine_that_sleeps_needs_a_way_to_wake() {
        let mac = "52:54:00:12:34:56";
        let (draw, sleep) = read(&format!("{OFF}draw = \"15 W\"\nwake = \"wol\"\nmac = \"{mac}\"")).expect("good");
        let sleep = sleep.expect("it sleeps");
        assert_eq!((sleep.off.as_str(), sleep.patience()), ("systemctl suspend", Span::from_secs(120)));
        let idle = draw.expect("a draw");
        let rest = sleep.rest(idle);
        assert_eq!(rest.wake, Some(Wake::Wol { mac: mac.parse().expect("good"), broadcast: None }));
        assert_eq!((rest.draw, rest.down.draw, rest.up.draw), (SLEEP_DRAW, idle, idle));
        assert_eq!((rest.down.span, rest.up.span), (SLEEP_TIME, WAKE_TIME));
        let said = "wake = \"command\"\nsleep_time = \"2s\"\nwake_time = \"3s\"\nsleep_draw = \"1W\"\ndown_draw = \"2W\"\nup_draw = \"3W\"";
        let rest = read(&format!("{OFF}{said}")).expect("good").1.expect("it sleeps").rest(idle);
        let switch = |seconds, watts| Switch { span: Span::from_secs(seconds), draw: Power::from_watts(watts) };
        let expected =
            Rest { draw: Power::from_watts(1), down: switch(2, 2), up: switch(3, 3), wake: Some(Wake::Command) };
        assert_eq!(rest, expected);
    }

    #[test]
    fn invalid_values_are_refused() {
        let with = |text: &str| format!("{OFF}{text}");
        refused(OFF, "has no `wake`, the way to wake the machine: add `wake = \"wol\"`");
        refused("[idle]\nwake = \"command\"", "has no `off`, the command that puts the machine to sleep: add `off");
        refused("[idle]\nsleep_time = \"1s\"", "has no `off`");
        refused("[idle]\noff = \" \"\nwake = \"command\"", "[idle] off is empty");
        refused(&with("wake = \"wol\""), "[idle] wake is `wol`: add the hardware address");
        refused(&with("wake = \"smoke\""), "[idle] wake is `smoke`: it must be `wol` or `command`");
        refused(&with("wake = \"command\"\nbroadcast = \"10.0.0.255\""), "remove `mac` and `broadcast`");
        refused(&with("wake = \"wol\"\nmac = \"52:54\""), "`52:54` is not a hardware address");
        refused(&with("wake = \"wol\"\nmac = \"52:54:00:12:34:56\"\nbroadcast = \"here\""), "IP");
        refused(&with("wake = \"command\"\nsleep_time = \"2h\""), "[idle] sleep_time is 2h: it must be 0s to 1h");
        refused(&with("wake = \"command\"\nwake_time = \"-1s\""), "-1s");
        refused(&with("wake = \"command\"\nsleep_draw = \"-1W\""), "[idle] sleep_draw is -1.0 W");
        refused(&with("wake = \"command\"\nwake_command = \"rm\""), "unknown field `wake_command`");
    }
}
