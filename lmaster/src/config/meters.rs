//! Meters at the master, in the sections `[[meter]]` of the settings.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use limo_model::{Span, as_text, check_name};
use serde::Deserialize;

use crate::meters::{Serves, Shared};

const DEFAULT_INTERVAL: Span = Span::from_secs(1);

/// Shortest interval: one cycle of the mains, within which power oscillates.
const SHORTEST_INTERVAL: Span = Span::from_ms(20);

/// Longest interval. Counters of energy wrap after some minutes, so samples further apart are meaningless.
const LONGEST_INTERVAL: Span = Span::from_secs(60);

/// One table `[[meter]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeterLayer {
    source: String,
    serves: ServesLayer,
    #[serde(default, with = "as_text::option")]
    interval: Option<Span>,
    access: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ServesLayer {
    Word(String),
    Nodes(Vec<String>),
}

/// Checks the meters. A reading counts for `stale_after`.
///
/// # Errors
/// If a meter is invalid, or two meters serve one node, because its draw would count twice.
pub(super) fn resolve(layers: Vec<MeterLayer>, stale_after: Span) -> Result<Vec<Shared>> {
    let mut meters: Vec<Shared> = Vec::new();
    for layer in layers {
        let source = layer.source.clone();
        let meter = meter(layer, stale_after).with_context(|| format!("the meter `{source}` cannot be used"))?;
        for other in &meters {
            let both = match (&meter.serves, &other.serves) {
                (Serves::Nodes(nodes), other) => nodes.iter().find(|node| other.serves(node)).map(String::as_str),
                (Serves::All, Serves::Nodes(nodes)) => nodes.first().map(String::as_str),
                (Serves::All, Serves::All) => Some("all"),
            };
            if let Some(node) = both {
                anyhow::bail!("`{}` and `{source}` both serve `{node}`: its draw would count twice", other.source);
            }
        }
        meters.push(meter);
    }
    Ok(meters)
}

fn meter(layer: MeterLayer, stale_after: Span) -> Result<Shared> {
    let MeterLayer { source, serves, interval, access } = layer;
    let serves = match serves {
        ServesLayer::Word(word) if word == "all" => Serves::All,
        ServesLayer::Word(word) => {
            anyhow::bail!("it serves `{word}`: write `serves = [\"{word}\"]`, or `serves = \"all\"`")
        }
        ServesLayer::Nodes(nodes) => {
            ensure!(!nodes.is_empty(), "it serves no node: write for example `serves = [\"n1\", \"n2\"]`");
            for (index, node) in nodes.iter().enumerate() {
                check_name("node name", node)?;
                ensure!(!nodes[..index].contains(node), "it serves `{node}` twice: leave out one");
            }
            Serves::Nodes(nodes)
        }
    };
    let interval = interval.unwrap_or(DEFAULT_INTERVAL);
    let longest = LONGEST_INTERVAL.min(stale_after);
    ensure!(
        SHORTEST_INTERVAL <= interval && interval <= longest,
        "its interval is {interval}: it must be {SHORTEST_INTERVAL} to {longest}, since a reading counts for \
         {stale_after} (stale_after)"
    );
    Ok(Shared { choice: source.parse()?, source, serves, interval, access })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Shared>, String> {
        #[derive(Deserialize)]
        struct MeterFile {
            meter: Vec<MeterLayer>,
        }
        let file: MeterFile = toml::from_str(text).map_err(|error| error.to_string())?;
        resolve(file.meter, Span::from_secs(10)).map_err(|error| format!("{error:#}"))
    }

    fn meter(rest: &str) -> String {
        format!("[[meter]]\nsource = \"command:echo 5\"\n{rest}\n")
    }

    fn refused(text: &str, expected: &str) {
        let error = read(text).expect_err("refused");
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    }

    #[test]
    fn meters_as_they_are_written() {
        let one =
            read(&meter("serves = [\"n1\", \"n2\"]\ninterval = \"500ms\"\naccess = \"/etc/plug\"")).expect("good");
        assert_eq!(one[0].serves, Serves::Nodes(vec!["n1".into(), "n2".into()]));
        assert_eq!((one[0].interval, one[0].access.clone()), (Span::from_ms(500), Some("/etc/plug".into())));
        let two = read(&(meter("serves = [\"n1\"]") + &meter("serves = [\"n2\"]"))).expect("good");
        assert_eq!((two.len(), two[1].interval), (2, Span::from_secs(1)));
        assert_eq!(read(&meter("serves = \"all\"")).expect("good")[0].serves, Serves::All);
    }

    #[test]
    fn refusals() {
        refused(&meter("serves = []"), "it serves no node");
        refused(&meter("serves = \"n1\""), "it serves `n1`: write `serves = [\"n1\"]`, or `serves = \"all\"`");
        refused(&meter("serves = [\"n 1\"]"), "the node name `n 1` has the character");
        refused(&meter("serves = [\"n1\", \"n1\"]"), "it serves `n1` twice");
        refused(&meter("serves = \"all\"\ninterval = \"11s\""), "its interval is 11s: it must be 20ms to 10s");
        refused(&meter("serves = \"all\"\ninterval = \"1ms\""), "its interval is 1ms");
        refused(&meter("serves = \"all\"\nevery = \"1s\""), "unknown field `every`");
        refused("[[meter]]\nsource = \"plug\"\nserves = \"all\"\n", "there is no meter `plug`");
        let one = meter("serves = [\"n1\", \"n2\"]");
        refused(&(one.clone() + &meter("serves = [\"n2\"]")), "both serve `n2`: its draw would count twice");
        refused(&(one.clone() + &meter("serves = \"all\"")), "both serve `n1`");
        refused(&(meter("serves = \"all\"") + &one), "both serve `n1`");
    }
}
