//! `lrun --gres`, `--gpus`: whole accelerators of each node. The master chooses them.

use std::num::NonZeroU32;

use limo_client::Failure;
use limo_model::check_name;

use crate::args::Args;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Resources")]
pub struct GresArgs {
    /// Whole accelerators of each node, of one type, e.g. gpu:2 or gpu:a100:2
    #[arg(long, value_name = "gpu[:HARDWARE][:N]", value_parser = gres, conflicts_with = "gpus", hide = true)]
    gres: Option<Accelerators>,
    /// Like --gres without `gpu:`, e.g. 2 or a100:2
    #[arg(long, value_name = "[HARDWARE:]N", value_parser = gpus, hide = true)]
    gpus: Option<Accelerators>,
}

/// Number of accelerators of each node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Accelerators {
    count: NonZeroU32,
    /// Required type of the accelerators; `None` for any.
    hardware: Option<String>,
}

impl GresArgs {
    fn asked(&self) -> Option<&Accelerators> {
        self.gres.as_ref().or(self.gpus.as_ref())
    }

    /// Returns the number per node, or `None` if none were requested.
    pub fn count(&self) -> Option<NonZeroU32> {
        self.asked().map(|asked| asked.count)
    }
}

/// Returns the types of hardware that the job may use; empty means all.
///
/// # Errors
/// If `--constraint` excludes the type of the accelerators, or requests several types together.
pub fn hardware(args: &Args) -> Result<Vec<String>, Failure> {
    let named = args.resources.constraint.as_ref().map(|list| list.0.clone()).unwrap_or_default();
    let Some(wanted) = args.accelerators.asked().and_then(|asked| asked.hardware.as_ref()) else {
        return Ok(named);
    };
    if let [all] = &named[..]
        && all.contains('&')
    {
        let text = format_args!("--constraint {all} already names the types of hardware of the nodes");
        return Err(Failure::new(text).hint("write the number of accelerators alone: `--gpus 2`"));
    }
    if !named.is_empty() && !named.contains(wanted) {
        let named = named.join("|");
        return Err(Failure::new(format_args!(
            "--constraint {named} excludes `{wanted}`, the type of the accelerators"
        )));
    }
    Ok(vec![wanted.clone()])
}

fn gres(text: &str) -> Result<Accelerators, String> {
    match text.strip_prefix("gpu") {
        Some("") => gpus("1"),
        Some(rest) if rest.starts_with(':') => gpus(&rest[1..]),
        _ => Err("only accelerators can be requested, e.g. `gpu:2`".to_owned()),
    }
}

/// Parses `2`, `a100:2`, or `a100` for one.
fn gpus(text: &str) -> Result<Accelerators, String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hardware, count) = match text.rsplit_once(':') {
        Some((hardware, count)) => (Some(hardware), count),
        None if is_number(text) => (None, text),
        None => (Some(text), "1"),
    };
    if let Some(hardware) = hardware {
        check_name("hardware", hardware).map_err(|error| error.to_string())?;
    }
    let count = count.parse().map_err(|_| format!("`{count}` is not a number of accelerators: write 1 or more"))?;
    Ok(Accelerators { count, hardware: hardware.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn accelerators_are_a_type_and_a_number() {
        let check =
            |parse: fn(&str) -> Result<Accelerators, String>, text: &str, expected: Result<(u32, &str), &str>| {
                let found = parse(text).map(|found| (found.count.get(), found.hardware.unwrap_or_default()));
                let expected = expected.map(|(count, hardware)| (count, hardware.to_owned())).map_err(str::to_owned);
                assert_eq!(found, expected, "{text}");
            };
        check(gres, "gpu:2", Ok((2, "")));
        check(gres, "gpu", Ok((1, "")));
        check(gres, "gpu:k80:4", Ok((4, "k80")));
        check(gres, "gpu:k80", Ok((1, "k80")));
        check(gres, "gpu:0", Err("`0` is not a number of accelerators: write 1 or more"));
        check(gres, "gpu:k80:x", Err("`x` is not a number of accelerators: write 1 or more"));
        check(gres, "gpu:k80:", Err("`` is not a number of accelerators: write 1 or more"));
        check(gres, "nic:1", Err("only accelerators can be requested, e.g. `gpu:2`"));
        check(gres, "gpus:1", Err("only accelerators can be requested, e.g. `gpu:2`"));
        check(gpus, "3", Ok((3, "")));
        check(gpus, "k80:3", Ok((3, "k80")));
        check(gpus, "0", Err("`0` is not a number of accelerators: write 1 or more"));
        assert!(gpus("").is_err() && gpus("a b:1").is_err() && gpus("a:b:1").is_err());
    }

    #[test]
    fn constraints_must_allow_the_accelerators() {
        let of = |more: &[&str]| {
            let line = [&["lrun"], more, &["true"]].concat();
            let args = Args::try_parse_from(line).expect("a command line");
            hardware(&args).map_err(|error| error.message)
        };
        assert_eq!(of(&["--gpus", "2", "-C", "a100|k80"]), Ok(vec!["a100".to_owned(), "k80".to_owned()]));
        assert_eq!(of(&["--gpus", "k80:2", "-C", "a100|k80"]), Ok(vec!["k80".to_owned()]));
        assert_eq!(of(&["--gpus", "2", "-C", "xeon&k80"]), Ok(vec!["xeon&k80".to_owned()]));
        let twice = "--constraint xeon&k80 already names the types of hardware of the nodes";
        assert_eq!(of(&["--gpus", "k80:2", "-C", "xeon&k80"]), Err(twice.to_owned()));
        assert!(of(&["--gpus", "p100:2", "-C", "a100|k80"]).is_err_and(|error| error.contains("excludes `p100`")));
    }
}
