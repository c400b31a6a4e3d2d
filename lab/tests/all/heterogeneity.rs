//! `lab reproduce heterogeneity`, with two seeds.

use serde_json::Value;

use super::printed;

#[test]
fn the_claims_about_heterogeneity_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = printed(folder.path(), "reproduce heterogeneity --seeds 2 --json");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!((rows.len(), &report["seeds"]), (10, &Value::from(2)));
    let holds = |id: &str| rows.iter().find(|row| row["id"] == id).map(|row| row["holds"] == true);
    // The ranges of the others are for twenty seeds.
    for id in ["H2", "H3", "H4", "H6", "H8", "H10"] {
        assert_eq!(holds(id), Some(true), "{id}: {rows:?}");
    }
}
