//! Rules for the manifests of the members.

use toml::{Table, Value};

/// Returns the dependencies of a member that do not come from the workspace.
pub fn unshared(path: &str, text: &str) -> Vec<String> {
    let manifest: Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = [&manifest].into_iter().chain(targets.filter_map(Value::as_table));
    let dependencies = tables.flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table())).flatten();
    let shared = |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
    dependencies.filter(|(_, value)| !shared(value)).map(|(name, _)| format!("{path}: {name}")).collect()
}

/// HTTP clients that are not `reqwest`.
const HTTP_CLIENTS: [&str; 7] = ["attohttpc", "awc", "curl", "isahc", "minreq", "surf", "ureq"];

/// Returns the HTTP clients of the workspace's manifest beside `reqwest`.
pub fn other_clients(text: &str) -> Vec<String> {
    let manifest: Table = text.parse().unwrap_or_else(|error| panic!("the workspace: {error}"));
    let dependencies = manifest["workspace"]["dependencies"].as_table().into_iter().flat_map(Table::keys);
    dependencies.filter(|name| HTTP_CLIENTS.contains(&name.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_workspace() {
        let good = "[dependencies]\nserde.workspace = true\nsqlx = { workspace = true, optional = true }\n";
        assert!(unshared("a", good).is_empty());
        let bad = "[dependencies]\nserde = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\nnix = { version = \"1\" }\n";
        assert_eq!(unshared("a", bad), ["a: serde", "a: nix"]);
    }

    #[test]
    fn one_client_is_known() {
        assert_eq!(other_clients("[workspace.dependencies]\nreqwest = \"0.13\"\nureq = \"3\"\n"), ["ureq"]);
    }
}
