//! What this machine draws without a job, and how it sleeps: `idle = "15 W"`, or the section `[idle]`. Only in the file.

use std::fmt;
use std::net::Ipv4Addr;

use anyhow::{bail, ensure};
use limo_model::{Mac, Power, Rest, Span, Switch, Wake};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use limo_model::as_text;

/// As long as a large machine takes that tests its memory.
const LONGEST: Span = Span::from_secs(3600);
const SLEEP_TIME: Span = Span::from_secs(30);
const WAKE_TIME: Span = Span::from_secs(120);
/// A server that is suspended or switched off and listens to the network.
const SLEEP_DRAW: Power = Power::from_watts(5);

/// The section `[idle]`; a text is its `draw`.
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

/// How this machine sleeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepSettings {
    /// The command that puts it to sleep.
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

            // Without its unit: the parser of draws says what is missing.
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

    /// `None` where the machine stays on.
    ///
    /// # Errors
    /// Where the section does not say all that is needed, or a value cannot be.
    pub fn sleep(self) -> anyhow::Result<Option<SleepSettings>> {
        let section = Section { draw: None, ..self.0 };
        let Some(off) = section.off.clone() else {
            if section != Section::default() {
                bail!(
                    "[idle] says how the machine sleeps, but not by which command: add `off = \"systemctl suspend\"`"
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
            (Some("command"), _) => bail!("[idle] wake is `command`: leave out `mac` and `broadcast`, or write `wol`"),
            (Some(other), _) => bail!("[idle] wake is `{other}`: `wol` and `command` are possible"),
            (None, _) => {
                bail!("[idle] says how the machine sleeps, but not how it wakes: add `wake = \"wol\"` or `\"command\"`")
            }
        };
        let span = |key: &str, value: Option<Span>, default: Span| {
            let value = value.unwrap_or(default);
            ensure!(Span::ZERO <= value && value <= LONGEST, "[idle] {key} is {value}: 0s to {LONGEST} are possible");
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
    /// What the master is told. A machine on its way draws as much as an idle one, where nothing else is said.
    pub fn rest(&self, idle: Power) -> Rest {
        Rest {
            draw: self.sleep_draw,
            down: Switch { span: self.sleep_time, draw: self.down_draw.unwrap_or(idle) },
            up: Switch { span: self.wake_time, draw: self.up_draw.unwrap_or(idle) },
            wake: Some(self.wake),
        }
    }

    /// How long the machine may take to sleep before it counts as awake: sleep that comes later than expected must not
    /// meet a node that has registered again.
    pub fn patience(&self) -> Span {
        self.sleep_time.scaled(4, 1).max(Span::from_secs(60))
    }
}
