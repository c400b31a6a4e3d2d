//! Rules for dependencies between members, on the output of `cargo metadata`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace, by directory, with those that each may use outside its tests. Clients and nodes do not
/// use `sched`.
const HOUSE: [(&str, &[&str]); 34] = [
    ("model", &[]),
    ("identity", &["model"]),
    ("files", &[]),
    ("program", &["model"]),
    ("sched", &["model"]),
    ("proto", &["model", "identity", "files"]),
    ("authority", &["model", "identity", "files", "proto"]),
    ("profiles", &["model"]),
    ("plot", &[]),
    ("journal", &["model", "files", "sched"]),
    ("power", &["model", "files"]),
    ("feeds", &["model"]),
    ("owner", &[]),
    ("trace", &["model", "files"]),
    ("json", &["model", "proto"]),
    ("client", &["model", "identity", "json", "program", "proto"]),
    (
        "lmaster",
        &[
            "model",
            "identity",
            "json",
            "authority",
            "program",
            "files",
            "sched",
            "proto",
            "profiles",
            "plot",
            "journal",
            "feeds",
            "power",
        ],
    ),
    ("shepherd", &[]),
    ("containment", &["shepherd"]),
    ("lshepherd", &["shepherd", "containment"]),
    ("node", &["model", "proto", "power", "shepherd"]),
    (
        "lslave",
        &["model", "identity", "files", "program", "node", "proto", "power", "owner", "shepherd", "containment"],
    ),
    ("lrun", &["model", "proto", "client"]),
    ("lq", &["model", "proto", "client"]),
    ("lslurm", &["model", "proto", "client"]),
    ("lconf", &["model", "identity", "authority", "files", "proto", "profiles", "client"]),
    ("lsim", &["model", "program", "files", "sched", "trace", "journal", "profiles", "plot"]),
    ("lprof", &["model", "program", "files", "proto", "power", "profiles", "plot"]),
    // These crates are not installed: a fake master for tests of clients, the laboratory, which alone may use a program, the
    // workshop, and the readers of mutated inputs.
    ("fake", &["model", "proto"]),
    ("lab", &["model", "program", "profiles", "sched", "trace", "lsim", "requirements"]),
    ("requirements", &[]),
    ("mutations", &["model", "identity", "proto", "shepherd", "power", "profiles", "feeds", "owner", "trace"]),
    ("tests", &["model", "containment", "sched", "proto", "journal", "power", "requirements"]),
    (
        "xtask",
        &[
            "model",
            "program",
            "sched",
            "proto",
            "profiles",
            "plot",
            "journal",
            "power",
            "requirements",
            "mutations",
            "tests",
        ],
    ),
];

/// Features that only tests enable. Two programs use `node`, and it is small.
const FOR_TESTS: [&str; 1] = ["the tests of lmaster enable `faults` of limo-node"];

/// Crates that `model` and `sched` may use.
const PURE: [&str; 4] = ["serde", "thiserror", "libm", "rand_xoshiro"];

#[derive(Debug, Clone)]
pub struct Package {
    name: String,
    /// Directory below the root.
    dir: String,
    /// True if the crate has a program with its directory's name.
    is_program: bool,
    /// Names of used crates, except for tests.
    uses: Vec<String>,
    /// Names of crates used by tests only.
    test_uses: Vec<String>,
    /// Features of the used crates, except for tests, and those that only tests need: crate and feature.
    features: Vec<(String, String)>,
    test_features: Vec<(String, String)>,
}

/// The packages of the workspace.
pub fn read(root: &Path) -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages: Vec<Package> = list(&metadata["packages"]).map(|package| parse(package, root)).collect();
    assert!(packages.len() > 10, "{} packages are not all of them", packages.len());
    packages
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn parse(package: &Value, root: &Path) -> Package {
    let manifest = text(&package["manifest_path"]);
    let dir = Path::new(&manifest).parent().and_then(|dir| dir.strip_prefix(root).ok());
    let used = |for_tests: bool| list(&package["dependencies"]).filter(move |d| (d["kind"] == "dev") == for_tests);
    let of_kind = |for_tests| used(for_tests).map(|d| text(&d["name"])).collect();
    let features = |for_tests| {
        let of_one =
            |d: &Value| -> Vec<_> { list(&d["features"]).map(|feature| (text(&d["name"]), text(feature))).collect() };
        used(for_tests).flat_map(of_one).collect()
    };
    let dir = dir.unwrap_or(Path::new("elsewhere")).display().to_string();
    let is_bin = |target: &Value| list(&target["kind"]).any(|kind| kind == "bin");
    let is_program = list(&package["targets"]).any(|target| is_bin(target) && target["name"] == *dir);
    Package {
        name: text(&package["name"]),
        dir,
        is_program,
        uses: of_kind(false),
        test_uses: of_kind(true),
        features: features(false),
        test_features: features(true),
    }
}

pub fn impure(packages: &[Package]) -> Vec<String> {
    let core = packages.iter().filter(|package| ["model", "sched"].contains(&package.dir.as_str()));
    let outside = |package: &Package| {
        let name = package.name.clone();
        let foreign = |used: &&String| !PURE.contains(&used.as_str()) && house(used).is_none();
        package.uses.iter().filter(foreign).map(move |used| format!("{name} uses {used}")).collect::<Vec<_>>()
    };
    core.flat_map(outside).collect()
}

/// Returns features that only tests enable: cargo builds the crate, and all crates that use it, once more for them.
pub fn only_for_tests(packages: &[Package]) -> Vec<String> {
    let used: BTreeSet<&str> = packages.iter().flat_map(|package| &package.uses).map(String::as_str).collect();
    let enabled: BTreeSet<_> = packages.iter().flat_map(|package| &package.features).collect();
    let of_one = |package: &Package| {
        let name = package.name.clone();
        let is_extra = |found: &&(String, String)| used.contains(found.0.as_str()) && !enabled.contains(found);
        let tell = move |(of, feature): &(String, String)| format!("the tests of {name} enable `{feature}` of {of}");
        package.test_features.iter().filter(is_extra).map(tell).collect::<Vec<_>>()
    };
    let found = packages.iter().flat_map(of_one);
    found.filter(|found| !FOR_TESTS.contains(&found.as_str())).collect()
}

/// Returns the directory of a crate of the house.
fn house(name: &str) -> Option<&'static str> {
    let dir = name.strip_prefix("limo-").unwrap_or(name);
    HOUSE.iter().map(|(known, _)| *known).find(|known| *known == dir)
}

pub fn misplaced(packages: &[Package]) -> Vec<String> {
    packages.iter().flat_map(misplacements).collect()
}

fn misplacements(package: &Package) -> Vec<String> {
    let name = &package.name;
    let Some((_, allowed)) = HOUSE.iter().find(|(dir, _)| *dir == package.dir) else {
        return vec![format!("{name} in {} has no place in the house: give it one here", package.dir)];
    };
    let inside = |uses: &[String]| uses.iter().filter_map(|used| house(used)).collect::<Vec<_>>();
    let stray = inside(&package.uses).into_iter().filter(|used| !allowed.contains(used));
    // Tests may use any library that they need, but never a program.
    let programs = inside(&package.test_uses).into_iter().filter(|used| is_program(used));
    let stray = stray.map(|used| format!("{name} uses {used}"));
    stray.chain(programs.map(|used| format!("the tests of {name} use {used}"))).collect()
}

fn is_program(dir: &str) -> bool {
    dir.starts_with('l') || dir == "xtask"
}

pub fn misnamed(packages: &[Package]) -> Vec<String> {
    let right = |package: &&Package| {
        package.name == if package.is_program { package.dir.clone() } else { format!("limo-{}", package.dir) }
    };
    let wrong = packages.iter().filter(|package| !right(package));
    wrong.map(|package| format!("{} lies in {}", package.name, package.dir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(dir: &str, uses: &[&str]) -> Package {
        let is_program = is_program(dir);
        let name = if is_program { dir.to_owned() } else { format!("limo-{dir}") };
        let uses = uses.iter().map(|used| (*used).to_owned()).collect();
        let (features, test_features) = Default::default();
        Package { name, dir: dir.into(), is_program, uses, test_uses: Vec::new(), features, test_features }
    }

    #[test]
    fn the_core_stays_pure() {
        assert!(
            impure(&[package("sched", &["serde", "thiserror", "limo-model"]), package("power", &["toml"])]).is_empty()
        );
        assert_eq!(impure(&[package("model", &["serde", "rand"])]), ["limo-model uses rand"]);
    }

    #[test]
    fn each_crate_has_its_place() {
        let check = |package: Package, expected: &[&str]| assert_eq!(misplaced(&[package]), expected);
        check(package("lslave", &["limo-model", "limo-proto", "limo-power", "tokio"]), &[]);
        check(package("lslave", &["limo-sched"]), &["lslave uses sched"]);
        check(package("journal", &["limo-profiles"]), &["limo-journal uses profiles"]);
        check(package("lmaster", &["lslave", "limo-client"]), &["lmaster uses lslave", "lmaster uses client"]);
        check(package("lab", &["lsim", "limo-sched"]), &[]);
        check(package("lconf", &["lsim"]), &["lconf uses lsim"]);
        check(package("weather", &[]), &["limo-weather in weather has no place in the house: give it one here"]);
        let tested = Package { test_uses: vec!["limo-client".into(), "lmaster".into()], ..package("lq", &[]) };
        check(tested, &["the tests of lq use lmaster"]);
    }

    #[test]
    fn tests_enable_no_features_of_their_own() {
        let feature = |feature: &str| vec![("tokio".to_owned(), feature.to_owned())];
        let lq = Package { features: feature("net"), test_features: feature("net"), ..package("lq", &["tokio"]) };
        assert!(only_for_tests(std::slice::from_ref(&lq)).is_empty());
        let lrun = Package { test_features: feature("test-util"), ..package("lrun", &[]) };
        assert!(only_for_tests(std::slice::from_ref(&lrun)).is_empty(), "no program uses it");
        assert_eq!(only_for_tests(&[lq, lrun]), ["the tests of lrun enable `test-util` of tokio"]);
    }

    #[test]
    fn names_follow_directories() {
        assert!(misnamed(&[package("model", &[]), package("lq", &[])]).is_empty());
        let wrong = [
            Package { name: "model".into(), ..package("model", &[]) },
            Package { dir: "tools/lq".into(), ..package("lq", &[]) },
        ];
        assert_eq!(misnamed(&wrong), ["model lies in model", "lq lies in tools/lq"]);
    }
}
