//! Rules for dependencies between members, on the output of `cargo metadata`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates of the workspace, by directory, with those that each may use outside its tests. Clients and nodes do not
/// use `sched`.
const HOUSE: [(&str, &[&str]); 33] = [
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
    // These crates are not installed: the laboratory, which alone may use a program, the workshop,
    // and the readers of mutated inputs.
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
    let of_kind = |for_tests: bool| {
        let dependencies = list(&package["dependencies"]);
        dependencies.filter(move |d| (d["kind"] == "dev") == for_tests).map(|d| text(&d["name"])).collect()
    };
    let dir = dir.unwrap_or(Path::new("elsewhere")).display().to_string();
    let is_bin = |target: &Value| list(&target["kind"]).any(|kind| kind == "bin");
    let is_program = list(&package["targets"]).any(|target| is_bin(target) && target["name"] == *dir);
    Package { name: text(&package["name"]), dir, is_program, uses: of_kind(false), test_uses: of_kind(true) }
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
        Package { name, dir: dir.into(), is_program, uses, test_uses: Vec::new() }
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
    fn names_follow_directories() {
        assert!(misnamed(&[package("model", &[]), package("lq", &[])]).is_empty());
        let wrong = [
            Package { name: "model".into(), ..package("model", &[]) },
            Package { dir: "tools/lq".into(), ..package("lq", &[]) },
        ];
        assert_eq!(misnamed(&wrong), ["model lies in model", "lq lies in tools/lq"]);
    }
}
