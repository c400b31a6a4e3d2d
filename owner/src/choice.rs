//! Parses an operator's choice of sources, and opens them.

use std::fmt;
use std::io;
use std::str::FromStr;

use thiserror::Error;

use crate::command::Asked;
use crate::error::OwnerError;
use crate::input::{self, InputDevices};
use crate::load::Load;
use crate::logind::Logind;
use crate::source::{NamedSource, Place, Source};
use crate::tty::{self, Terminals};

/// One kind of source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Logind,
    Input,
    Tty,
    Load,
    Command(String),
}

/// Sources that `auto` tries.
const AUTO: [Kind; 3] = [Kind::Logind, Kind::Input, Kind::Tty];

/// Sources of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerChoice(Selected);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Selected {
    /// Those of [`AUTO`] that the machine has.
    Auto,
    /// At least one.
    Some(Vec<Kind>),
}

/// Reason why a choice was refused.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum OwnerChoiceError {
    #[error(
        "`{0}` is not a source of owners: write `auto`, or some of `logind`, `input`, `tty`, `load` and `command:COMMAND`, \
         separated by commas"
    )]
    Unknown(String),
    #[error("the source of owners `{0}` is named twice: remove one")]
    Twice(String),
    #[error("the source of owners `command:` has no command: write for example `command:/usr/local/bin/owner`")]
    NoCommand,
    #[error("this machine has no source of owners `{kind}`: {source}")]
    Missing { kind: String, source: OwnerError },
    #[error("this machine has none of the sources of owners logind, input and tty: write `load` or `command:COMMAND`")]
    None,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logind => f.write_str("logind"),
            Self::Input => f.write_str("input"),
            Self::Tty => f.write_str("tty"),
            Self::Load => f.write_str("load"),
            Self::Command(command) => write!(f, "command:{command}"),
        }
    }
}

impl FromStr for OwnerChoice {
    type Err = OwnerChoiceError;

    fn from_str(text: &str) -> Result<Self, OwnerChoiceError> {
        if text == "auto" {
            return Ok(Self(Selected::Auto));
        }
        let mut kinds: Vec<Kind> = Vec::new();
        let mut rest = Some(text);
        while let Some(words) = rest {
            // A command may contain commas, so it is the last one.
            let (word, later) = match words.split_once(',') {
                Some((word, later)) if !words.starts_with("command:") => (word, Some(later)),
                _ => (words, None),
            };
            let kind = match word {
                "logind" => Kind::Logind,
                "input" => Kind::Input,
                "tty" => Kind::Tty,
                "load" => Kind::Load,
                _ => match word.strip_prefix("command:").map(str::trim) {
                    Some("") => return Err(OwnerChoiceError::NoCommand),
                    Some(command) => Kind::Command(command.to_owned()),
                    None => return Err(OwnerChoiceError::Unknown(word.to_owned())),
                },
            };
            if kinds.contains(&kind) {
                return Err(OwnerChoiceError::Twice(word.to_owned()));
            }
            kinds.push(kind);
            rest = later;
        }
        Ok(Self(Selected::Some(kinds)))
    }
}

impl OwnerChoice {
    /// Opens the sources, each with its name.
    ///
    /// # Errors
    /// If the machine lacks a source that was named, or has none of those of `auto`.
    pub fn open(&self, place: &Place) -> Result<Vec<NamedSource>, OwnerChoiceError> {
        let kinds = match &self.0 {
            Selected::Some(kinds) => kinds,
            Selected::Auto => {
                let found: Vec<_> =
                    AUTO.iter().filter_map(|kind| Some((kind.to_string(), kind.open(place).ok()?))).collect();
                return if found.is_empty() { Err(OwnerChoiceError::None) } else { Ok(found) };
            }
        };
        let open = |kind: &Kind| {
            let opened = kind.open(place);
            let source = opened.map_err(|source| OwnerChoiceError::Missing { kind: kind.to_string(), source })?;
            Ok((kind.to_string(), source))
        };
        kinds.iter().map(open).collect()
    }
}

/// Asks each source of `auto` once if the owner is there.
pub fn probe(place: &Place) -> Vec<(String, Result<bool, OwnerError>)> {
    AUTO.iter().map(|kind| (kind.to_string(), kind.open(place).and_then(|mut source| source.next()))).collect()
}

impl Kind {
    fn open(&self, place: &Place) -> Result<Box<dyn Source>, OwnerError> {
        let readable = |result: io::Result<()>, path| result.map_err(|source| OwnerError::Read { path, source });
        Ok(match self {
            Self::Logind => {
                let mut logind = Logind::new(place).map_err(OwnerError::Thread)?;
                logind.check()?;
                Box::new(logind)
            }
            Self::Input => {
                readable(input::check(place), place.input())?;
                Box::new(InputDevices::new(place))
            }
            Self::Tty => {
                readable(tty::check(place), place.utmp.clone())?;
                Box::new(Terminals::new(place))
            }
            Self::Load => Box::new(Load::new(place)),
            Self::Command(command) => Box::new(Asked::new(command)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str, expected: &str) {
        let error = text.parse::<OwnerChoice>().expect_err(text).to_string();
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    #[test]
    fn sources_are_separated_by_commas_and_a_command_is_the_last() {
        let parse = |text: &str| text.parse::<OwnerChoice>().expect(text).0;
        assert_eq!(parse("auto"), Selected::Auto);
        assert_eq!(
            parse("tty,logind,input,load"),
            Selected::Some(vec![Kind::Tty, Kind::Logind, Kind::Input, Kind::Load])
        );
        let command = Kind::Command("test -e /run/a,b".to_owned());
        assert_eq!(parse("tty,command:test -e /run/a,b"), Selected::Some(vec![Kind::Tty, command]));
        refused("", "`` is not a source of owners: write `auto`, or some of");
        refused("auto,tty", "`auto` is not a source of owners");
        refused("tty,", "`` is not a source of owners");
        refused("tty,tty", "`tty` is named twice");
        refused("command: ", "has no command");
        refused("x", "`x` is not a source of owners");
    }

    #[test]
    fn a_machine_must_have_a_source() {
        let root = tempfile::tempdir().expect("a directory");
        let missing = root.path().join("missing");
        let bus = Some(format!("unix:path={}", missing.display()));
        let place = Place { dev: missing.clone(), utmp: missing.join("utmp"), bus, ..Place::default() };
        let error = |text: &str| {
            let choice: OwnerChoice = text.parse().expect(text);
            choice.open(&place).err().expect("refused").to_string()
        };
        assert!(error("auto").contains("none of the sources of owners logind, input and tty"));
        assert!(error("load,input").starts_with("this machine has no source of owners `input`: cannot read"));
        assert!(error("logind").starts_with("this machine has no source of owners `logind`: cannot ask logind"));
        std::fs::create_dir_all(missing.join("input")).expect("a directory");
        let found = OwnerChoice(Selected::Auto).open(&place).expect("one");
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["input"]);
        let probed: Vec<_> = probe(&place).into_iter().map(|(name, answer)| (name, answer.ok())).collect();
        assert_eq!(probed, [("logind".into(), None), ("input".into(), Some(false)), ("tty".into(), None)]);
    }
}
