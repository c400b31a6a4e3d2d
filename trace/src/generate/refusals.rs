//! Refused recipes; each message has the key and the value.

use super::*;

/// Checks that the message contains all of `parts`.
fn check(changes: &[&str], parts: &[&str]) {
    let text = tests::recipe_text(changes);
    let message = match Recipe::from_toml(&text).and_then(|recipe| generate(&recipe)) {
        Ok(_) => panic!("accepted: {changes:?}"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(message.contains(part), "{changes:?}: `{part}` is not in: {message}");
    }
}

#[test]
fn text_is_refused_with_its_place() {
    check(&["colour = 3"], &["line 10, column 1, at `colour = 3`", "unknown field `colour`"]);
    check(&["seed"], &["missing field `seed`"]);
    check(&["seed = -1"], &["line 9, column 8, at `seed = -1`", "-1"]);
    check(&["span = 7"], &["at `span = 7`", "no unit"]);
    check(&["jobs = \"many\""], &["at `jobs = \"many\"`", "u32"]);
    check(&["sizes.uniform = { min = 1, max = 2, mean = 1 }"], &["mean"]);
    check(&["sizes.lublin = { serail = 0.5 }"], &["unknown field `serail`", "serail = 0.5"]);
    check(&["sizes.gauss = {}"], &["unknown variant `gauss`", "lublin"]);
    check(&["arrivals.burst = { count = 3, width = 5 }"], &["width = 5", "no unit"]);
    check(&["walltimes.factor = { min = 1, max = 2, most = 3 }"], &["most"]);
    check(&["walltimes.popular = { values = [\"1h\", \"2\"] }"], &["values", "`2` has no unit"]);
    check(&["users = { number = 3 }"], &["number"]);
    check(&["= 3"], &["line 9"]);
}

#[test]
fn values_out_of_range_are_refused() {
    check(&["machine = 0"], &["`machine` is 0"]);
    check(&["jobs = 0"], &["`jobs` is 0"]);
    check(&["jobs = 100000001"], &["`jobs` is 100000001", "100000000"]);
    check(&["span = \"0s\""], &["`span` is 0"]);
    check(&["span = \"1500ms\""], &["`span` is 1s500ms", "whole number of seconds"]);
    check(&["span = \"40000d\""], &["`span` is", "36525d"]);
    check(&["utilisation = 0.0", "jobs"], &["`utilisation` is 0"]);
    check(&["utilisation = nan", "jobs"], &["`utilisation` is NaN"]);
    check(&["users = { count = 0 }"], &["`users.count` is 0"]);
    check(&["users = { count = 3, exponent = -1 }"], &["`users.exponent` is -1"]);
}

#[test]
fn sizes_out_of_range_are_refused() {
    check(&["sizes.constant = { processors = 65 }"], &["`sizes.constant.processors` is 65", "64", "`machine`"]);
    check(&["sizes.uniform = { min = 0, max = 2 }"], &["`sizes.uniform.min` is 0"]);
    check(&["sizes.uniform = { min = 3, max = 2 }"], &["`sizes.uniform.max` is 2", "`min`, 3"]);
    check(&["sizes.uniform = { min = 3, max = 99 }"], &["`sizes.uniform.max` is 99"]);
    check(&["sizes.lublin = { serial = 1.5 }"], &["`sizes.lublin.serial` is 1.5"]);
    check(&["sizes.lublin = { serial = 0.5 }"], &["`sizes.lublin.power-of-two` is 0.576", "`serial`, 0.5"]);
    check(&["sizes.lublin = { uprob = nan }"], &["`sizes.lublin.uprob` is NaN"]);
    check(&["sizes.lublin = { ulow = 7 }"], &["`sizes.lublin.ulow` is 7"]);
    check(&["sizes.lublin = { uhi = 6.5 }"], &["`sizes.lublin.uhi` is 6.5", "64"]);
    check(&["sizes.lublin = { uhi = 0.5 }"], &["`sizes.lublin.uhi` is 0.5", "`ulow`, 0.8"]);
    check(&["sizes.lublin = { umed = 0.5 }"], &["`sizes.lublin.umed` is 0.5", "`ulow`, 0.8"]);
    check(&["sizes.lublin = { umed = 5, uhi = 4 }"], &["`sizes.lublin.umed` is 5", "`uhi`"]);
}

#[test]
fn times_out_of_range_are_refused() {
    check(&["runtimes.constant = { time = \"0s\" }"], &["`runtimes.constant.time` is 0"]);
    check(&["runtimes.uniform = { min = \"2s\", max = \"1s\" }"], &["`runtimes.uniform.max` is 1s", "`min`, 2s"]);
    let log_normal = |rest: &str| format!("runtimes.log-normal = {{ median = \"1h\", {rest} }}");
    check(&[&log_normal("sigma = -1, max = \"2h\"")], &["`runtimes.log-normal.sigma` is -1"]);
    check(&[&log_normal("sigma = 1, max = \"1min\"")], &["`runtimes.log-normal.max` is 1min", "`median`, 1h"]);
    check(&["runtimes.lublin = { a1 = 0 }"], &["`runtimes.lublin.a1` is 0"]);
    check(&["runtimes.lublin = { b2 = 0.3 }"], &["`runtimes.lublin.b2` is 0.3", "`longest`, 12"]);
    check(&["runtimes.lublin = { pa = inf }"], &["`runtimes.lublin.pa` is inf"]);
    check(&["walltimes.factor = { min = 0.5, max = 2 }"], &["`walltimes.factor.min` is 0.5"]);
    check(&["walltimes.factor = { min = 3, max = 2 }"], &["`walltimes.factor.max` is 2", "`min`, 3"]);
    check(&["walltimes.popular = { values = [] }"], &["`walltimes.popular.values` is []"]);
    check(&["walltimes.popular = { values = [\"1h\", \"1h\"] }"], &["`walltimes.popular.values` is 1h"]);
    let gap = |gap: &str| format!("arrivals.exponential = {{ mean-gap = \"{gap}\" }}");
    check(&[&gap("0s"), "span"], &["`arrivals.exponential.mean-gap` is 0"]);
    check(&["arrivals.burst = { count = 0, width = \"1h\" }"], &["`arrivals.burst.count` is 0"]);
    check(&["arrivals.burst = { count = 4, width = \"7h\" }"], &["`arrivals.burst.width` is 7h", "6h"]);
    check(&["arrivals.lublin = { barr = 2 }"], &["`arrivals.lublin.barr` is 2", "`longest`, 13"]);
    check(&["arrivals.lublin = { anum = 900, bnum = 0.1 }"], &["`arrivals.lublin.anum` is 900", "`bnum` 0.1"]);
}

#[test]
fn too_little_and_too_much_are_refused() {
    check(&["jobs", "span"], &["none of `jobs`, `span` and `utilisation`", "give two"]);
    check(&["span"], &["`jobs` 1000", "do not define the number"]);
    check(&["utilisation = 0.5"], &["`jobs` 1000 and `span` 1d and `utilisation` 0.5", "contradict each other"]);
    let exponential = "arrivals.exponential = { mean-gap = \"1min\" }";
    check(&[exponential], &["`exponential.mean-gap` 1min and `jobs` 1000 and `span` 1d", "contradict each other"]);
    check(&[exponential, "span", "utilisation = 0.5"], &["`utilisation` 0.5", "contradict each other"]);
    check(&[exponential, "jobs", "span"], &["`exponential.mean-gap` 1min", "do not define"]);
    check(&["arrivals.lublin = {}", "jobs", "span", "utilisation = 1.0"], &["`utilisation` 1", "do not define"]);
    let slow = "arrivals.exponential = { mean-gap = \"36525d\" }";
    check(&[slow, "span"], &["`exponential.mean-gap` 36525d and `jobs` 1000 takes longer than 36525 d"]);
}

#[test]
fn loads_that_cannot_be_met_are_refused() {
    check(&["jobs", "span = \"1s\"", "utilisation = 0.5"], &["`utilisation` is 0.5", "over 1 s"]);
    let short = ["jobs = 1", "span", "utilisation = 10.0", "sizes.constant = { processors = 1 }"];
    check(&[&short[..], &["runtimes.constant = { time = \"90s\" }"]].concat(), &["`utilisation` is 10", "over 1 s"]);
    let long = ["jobs = 10000", "machine = 1", "span", "utilisation = 0.001", "sizes.constant = { processors = 1 }"];
    check(&[&long[..], &["runtimes.constant = { time = \"1d\" }"]].concat(), &["`utilisation` 0.001 takes longer"]);
    let burst = "arrivals.burst = { count = 4, width = \"30d\" }";
    check(&["span", "utilisation = 0.5", burst], &["`arrivals.burst.width` is 30d"]);
}

#[test]
fn unknown_names_are_answered_with_those_there_are() {
    let message = Recipe::named("lubin").unwrap_err().to_string();
    assert_eq!(message, "there is no recipe `lubin` (known: burst, htc, left-skewed, lublin, steady, uniform)");
}
