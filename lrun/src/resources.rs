//! Resources of each task.

use limo_model::{Cores, LicenceCount, Memory, Power, check_name, parse_hosts, parse_licences};

use crate::args::Hosts;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceArgs {
    /// Cores of one CPU for each task, or `all` [default: 1]
    #[arg(short = 'c', long, value_name = "N")]
    pub cores: Option<Cores>,
    /// Memory, e.g. 512M
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<Memory>,
    /// Use only these nodes, e.g. n[1-4,7]
    #[arg(short = 'w', long, value_name = "LIST", value_parser = hosts)]
    pub nodelist: Option<Hosts>,
    /// Do not use these nodes
    #[arg(short = 'x', long, value_name = "LIST", value_parser = hosts, hide = true)]
    pub exclude: Option<Hosts>,
    /// Use only these types of hardware, or nodes that have all of them (a&b)
    #[arg(short = 'C', long, value_name = "HARDWARE[|HARDWARE]", value_parser = hardware, hide = true)]
    pub constraint: Option<Hosts>,
    /// Run in this reservation: on its nodes, in its time
    #[arg(long, value_name = "NAME", value_parser = reservation, requires = "time", hide = true)]
    pub reservation: Option<String>,
    /// Run in this queue, on its nodes and within its limits [default: the default queue]
    #[arg(short = 'p', long, value_name = "QUEUE", value_parser = queue, hide = true)]
    pub partition: Option<String>,
    /// Hold licences of the cluster from the place in the queue to the end, e.g. matlab:2,ansys
    #[arg(short = 'L', long, value_name = "NAME[:N],...", value_parser = licences, hide = true)]
    pub licenses: Option<LicenceList>,
    /// Run alone on its nodes; use all cores unless -c gives a number
    #[arg(long, hide = true)]
    pub exclusive: bool,
    /// Hold its units at this cap from its start, e.g. 30W; only on units that obey it, and alone on its nodes
    #[arg(long, value_name = "POWER", hide = true)]
    pub cap: Option<Power>,
}

/// Checked list of licences. A separate type, because clap treats an option of type `Vec` as repeatable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LicenceList(pub Vec<LicenceCount>);

impl ResourceArgs {
    /// Returns true if the job shares no node.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive || self.cap.is_some()
    }
}

fn hosts(text: &str) -> Result<Hosts, String> {
    parse_hosts(text).map(Hosts).map_err(|error| error.to_string())
}

fn hardware(text: &str) -> Result<Hosts, String> {
    let check = |name: &str| check_name("hardware", name).map(|()| name.to_owned()).map_err(|error| error.to_string());
    match (text.contains('&'), text.contains('|')) {
        (true, true) => Err("`&` and `|` cannot be combined: write `a&b` or `a|b`".to_owned()),
        (true, false) => {
            text.split('&').try_for_each(|name| check(name).map(drop))?;
            Ok(Hosts(vec![text.to_owned()]))
        }
        (false, _) => text.split('|').map(check).collect::<Result<_, _>>().map(Hosts),
    }
}

fn licences(text: &str) -> Result<LicenceList, String> {
    parse_licences(text).map(LicenceList).map_err(|error| error.to_string())
}

fn queue(text: &str) -> Result<String, String> {
    check_name("queue", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn reservation(text: &str) -> Result<String, String> {
    check_name("reservation", text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_alternatives_or_all_of_their_types() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(hardware(text).map(|names| names.0), expected.map_err(str::to_owned), "{text}");
        };
        check("a", Ok(&["a"]));
        check("a|b", Ok(&["a", "b"]));
        check("a&b", Ok(&["a&b"]));
        check("a&b|c", Err("`&` and `|` cannot be combined: write `a&b` or `a|b`"));
        assert!(["", "a&", "|a", "a&b*2", "[a]"].iter().all(|text| hardware(text).is_err()));
    }
}
