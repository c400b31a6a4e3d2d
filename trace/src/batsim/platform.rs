//! SimGrid's XML platforms of equal hosts: `<host>` and `<cluster>` with one speed and the properties
//! `wattage_per_state` (or `watt_per_state`) and `wattage_off` (or `watt_off`). Links, routes and disks are ignored.

use std::io;
use std::path::Path;

use limo_model::decimal::Decimal;
use limo_model::{Power, Span};
use roxmltree::{Document, Node, ParsingOptions};
use thiserror::Error;

use crate::input;
use crate::platform::{Draw, Group, NODE_LIMIT, Names, Platform, PlatformError, Rest};

/// Most bytes of a platform file: a million hosts with their properties.
const FILE_LIMIT: u64 = 1 << 28;

/// Contents of a SimGrid platform.
#[derive(Debug, Clone, PartialEq)]
pub struct BatsimPlatform {
    /// Nodes of one core, one for each host.
    pub platform: Platform,
    /// Speed of each host, in flop/s.
    pub speed: f64,
    /// Omissions and assumptions.
    pub notes: Vec<String>,
}

/// Reason why a platform could not be read.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum PlatformXmlError {
    #[error("{file}: the file cannot be read")]
    Read { file: String, source: io::Error },
    #[error("{file}: {source}")]
    Syntax { file: String, source: roxmltree::Error },
    #[error("{file}:{line}: host `{host}`: {reason}")]
    Host { file: String, line: u32, host: String, reason: String },
    #[error("{file}: the platform has no hosts that compute")]
    NoHosts { file: String },
    #[error("{file}: {source}")]
    Platform { file: String, source: PlatformError },
}

/// Reads a platform. Hosts whose property `role` is `master`, or whose id is `master_host`, do not compute and are
/// omitted. A host without power properties draws nothing, which a note reports.
///
/// # Errors
/// [`PlatformXmlError`] if the file is not such a platform or its hosts differ.
pub fn platform(path: &Path) -> Result<BatsimPlatform, PlatformXmlError> {
    let file = path.display().to_string();
    match input::text(path, FILE_LIMIT) {
        Ok(text) => parse_platform(&file, &text),
        Err(source) => Err(PlatformXmlError::Read { file, source }),
    }
}

/// Parses text; errors name `file`.
///
/// # Errors
/// The same as for [`platform`].
pub fn parse_platform(file: &str, text: &str) -> Result<BatsimPlatform, PlatformXmlError> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|source| PlatformXmlError::Syntax { file: file.to_owned(), source })?;
    let mut hosts: Vec<(Vec<String>, Nature)> = Vec::new();
    for node in document.descendants().filter(|node| matches!(node.tag_name().name(), "host" | "cluster")) {
        let fault = |reason: String| PlatformXmlError::Host {
            file: file.to_owned(),
            line: document.text_pos_at(node.range().start).row,
            host: input::shown(node.attribute("id").unwrap_or("").as_bytes()),
            reason,
        };
        if node.attribute("id") == Some("master_host") || property(node, &["role"]) == Some("master") {
            continue;
        }
        let nature = Nature::of(node).map_err(fault)?;
        if let Some((_, first)) = hosts.first().filter(|(_, first)| *first != nature) {
            return Err(fault(format!("it has {nature}, but the first host has {first}: all hosts must be equal")));
        }
        hosts.push((ids(node).map_err(fault)?, nature));
    }
    let Some(nature) = hosts.first().map(|(_, nature)| nature.clone()) else {
        return Err(PlatformXmlError::NoHosts { file: file.to_owned() });
    };
    built(hosts.into_iter().flat_map(|(names, _)| names).collect(), nature)
        .map_err(|source| PlatformXmlError::Platform { file: file.to_owned(), source })
}

fn built(names: Vec<String>, nature: Nature) -> Result<BatsimPlatform, PlatformError> {
    let mut notes = Vec::new();
    if nature.draw.is_none() {
        notes.push("the hosts have no `wattage_per_state`: they draw nothing".to_owned());
    }
    let draw = nature.draw.unwrap_or(Draw { idle: Power::ZERO, busy: Power::ZERO });
    // Batsim describes switching by further states of a host, which this subset does not have: here switching takes
    // no time.
    let rest = nature.off.map(|draw| Rest {
        draw,
        down_time: limo_model::Span::ZERO,
        down_draw: draw,
        up_time: limo_model::Span::ZERO,
        up_draw: draw,
    });
    if rest.is_some() {
        notes.push("the platform has no switching times: hosts switch at once".to_owned());
    }
    let group = Group {
        count: u32::try_from(names.len()).unwrap_or(u32::MAX),
        names: Names::Listed(names),
        cores: nature.cores,
        memory: None,
        hardware: "host".to_owned(),
        draw,
        units: Vec::new(),
        start_delay: Span::ZERO,
        variation: None,
        believed: draw,
        rest,
    };
    let platform = Platform { groups: vec![group] };
    platform.check()?;
    Ok(BatsimPlatform { platform, speed: nature.speed, notes })
}

/// Properties that must be equal for all hosts.
#[derive(Debug, Clone, PartialEq)]
struct Nature {
    speed: f64,
    cores: u32,
    draw: Option<Draw>,
    off: Option<Power>,
}

impl std::fmt::Display for Nature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} flop/s, {} cores", self.speed, self.cores)?;
        if let Some(draw) = self.draw {
            write!(f, ", {} idle, {} busy", draw.idle, draw.busy)?;
        }
        self.off.map_or(Ok(()), |off| write!(f, ", {off} off"))
    }
}

impl Nature {
    fn of(node: Node<'_, '_>) -> Result<Self, String> {
        let speed = speed(node.attribute("speed").ok_or("it has no `speed`")?)?;
        let cores = node.attribute("core").map_or(Ok(1), str::parse).map_err(|_| "its `core` is not a number")?;
        let draw = property(node, &["wattage_per_state", "watt_per_state"]).map(draw).transpose()?;
        let off = property(node, &["wattage_off", "watt_off"]).map(watts).transpose()?;
        Ok(Self { speed, cores, draw, off })
    }
}

fn property<'n>(node: Node<'n, '_>, names: &[&str]) -> Option<&'n str> {
    let properties = node.children().filter(|child| child.has_tag_name("prop"));
    properties
        .filter(|child| child.attribute("id").is_some_and(|id| names.contains(&id)))
        .find_map(|child| child.attribute("value"))
}

/// Parses `100.0Mf`, `1Gf`, `1e9`; one speed only.
fn speed(text: &str) -> Result<f64, String> {
    let wrong = || format!("its speed is `{}`: write one speed, such as `100Mf`", input::shown(text.as_bytes()));
    let word = text.trim().trim_end_matches("lops").trim_end_matches('f');
    let prefixes = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12), ('P', 1e15), ('E', 1e18)];
    let (word, factor) = prefixes
        .into_iter()
        .find_map(|(prefix, factor)| word.strip_suffix(prefix).map(|word| (word, factor)))
        .unwrap_or((word, 1.0));
    let speed: f64 = word.parse().map_err(|_| wrong())?;
    if speed.is_finite() && speed > 0.0 { Ok(speed * factor) } else { Err(wrong()) }
}

/// Parses `idle:busy`, or three values, the last of which is the draw with all cores busy; one state only.
fn draw(text: &str) -> Result<Draw, String> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        _ if text.contains(',') => {
            Err(format!("its draw `{}` has several states: only one is supported", input::shown(text.as_bytes())))
        }
        [idle, busy] | [idle, _, busy] => Ok(Draw { idle: watts(idle)?, busy: watts(busy)? }),
        _ => Err(format!("its draw is `{}`: write `idle:busy` in watts", input::shown(text.as_bytes()))),
    }
}

fn watts(text: &str) -> Result<Power, String> {
    let number = Decimal::read(text.trim().trim_end_matches('W').trim_end().as_bytes());
    number
        .and_then(|watts| watts.rounded(3))
        .map(Power::from_mw)
        .map_err(|_| format!("`{}` is not a number of watts", input::shown(text.as_bytes())))
}

/// Returns the id of a host, or those of a cluster: prefix, every number of the radical, suffix.
fn ids(node: Node<'_, '_>) -> Result<Vec<String>, String> {
    if node.has_tag_name("host") {
        return Ok(vec![node.attribute("id").ok_or("it has no `id`")?.to_owned()]);
    }
    let part = |name| node.attribute(name).unwrap_or("");
    let radical = node.attribute("radical").ok_or("the cluster has no `radical`")?;
    let wrong = || format!("its radical is `{}`: write for example `0-9,12`", input::shown(radical.as_bytes()));
    let mut ids = Vec::new();
    for range in radical.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        if last < first || u64::from(last - first) + ids.len() as u64 >= u64::from(NODE_LIMIT) {
            return Err(wrong());
        }
        ids.extend((first..=last).map(|number| format!("{}{number}{}", part("prefix"), part("suffix"))));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n";

    fn read(hosts: &str) -> Result<BatsimPlatform, String> {
        let text = format!(
            "{HEAD}<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">\n{hosts}</zone>\n</platform>\n"
        );
        parse_platform("p.xml", &text).map_err(|error| error.to_string())
    }

    fn host(id: &str, speed: &str, watts: &str) -> String {
        format!(
            "<host id=\"{id}\" speed=\"{speed}\"><prop id=\"watt_per_state\" value=\"{watts}\"/><prop id=\"watt_off\" value=\"9.75\"/></host>\n"
        )
    }

    #[test]
    fn equal_hosts() {
        let master = "<host id=\"master_host\" speed=\"1Gf\"/>\n";
        let hosts = [master, &host("a", "100.0Mf", "95.0:190.738"), &host("b", "100Mf", "95:190.738")].concat();
        let read = read(&hosts).expect("a platform");
        let group = &read.platform.groups[0];
        assert_eq!((read.platform.nodes(), group.node_name(1)), (2, "b".to_owned()));
        assert_eq!(group.draw, Platform::taurus(1).groups[0].draw);
        assert_eq!(group.rest.map(|rest| rest.draw.mw()), Some(9_750));
        assert!((read.speed - 1e8).abs() < 1e-6);
    }

    #[test]
    fn a_cluster() {
        let cluster = "<cluster id=\"c\" prefix=\"n\" suffix=\".x\" radical=\"0-2,7\" speed=\"1Gf\" core=\"4\" bw=\"1\" lat=\"1\"/>";
        let read = read(cluster).expect("a platform");
        assert_eq!((read.platform.nodes(), read.platform.cores()), (4, 16));
        assert_eq!(read.platform.groups[0].node_name(3), "n7.x");
        assert_eq!(read.notes, ["the hosts have no `wattage_per_state`: they draw nothing"]);
    }

    #[test]
    fn refusals() {
        let check = |hosts: &str, expected: &str| assert_eq!(read(hosts).expect_err("refused"), expected);
        check("", "p.xml: the platform has no hosts that compute");
        check(
            &[host("a", "1Gf", "1:2"), host("b", "2Gf", "1:2")].concat(),
            "p.xml:6: host `b`: it has 2000000000 flop/s, 1 cores, 1.0 W idle, 2.0 W busy, 9.8 W off, but the first host has 1000000000 flop/s, 1 cores, 1.0 W idle, 2.0 W busy, 9.8 W off: all hosts must be equal",
        );
        check(
            &host("a", "1Gf, 2Gf", "1:2"),
            "p.xml:5: host `a`: its speed is `1Gf, 2Gf`: write one speed, such as `100Mf`",
        );
        check(
            &host("a", "1Gf", "1:2, 3:4"),
            "p.xml:5: host `a`: its draw `1:2, 3:4` has several states: only one is supported",
        );
        check(&host("a", "1Gf", "1"), "p.xml:5: host `a`: its draw is `1`: write `idle:busy` in watts");
        check(&host("a", "1Gf", "x:2"), "p.xml:5: host `a`: `x` is not a number of watts");
        check(&[host("a", "1Gf", "1:2"), host("a", "1Gf", "1:2")].concat(), "p.xml: two nodes are named `a`");
        check(
            "<cluster id=\"c\" radical=\"0-9999999\" speed=\"1f\"/>",
            "p.xml:5: host `c`: its radical is `0-9999999`: write for example `0-9,12`",
        );
        check("<host id=\"h\"/>", "p.xml:5: host `h`: it has no `speed`");
        assert!(parse_platform("p.xml", "<platform>").is_err_and(|error| error.to_string().starts_with("p.xml: ")));
    }
}
