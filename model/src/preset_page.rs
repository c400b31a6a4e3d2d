//! The table of the presets in `docs/policies.md`, which `cargo xtask policies` makes from the list of presets.

use crate::Preset;

/// The line before the table.
const BEGIN: &str = "<!-- made by `cargo xtask policies` from model/src/preset.rs -->\n";

/// The line after it.
const END: &str = "<!-- end of the table -->\n";

/// Returns the row of a preset.
fn row(preset: Preset) -> String {
    let described = preset.described();
    let promises = match described.parts.promises() {
        none if none.is_empty() => "none".to_owned(),
        some => some.join("; "),
    };
    let source = described.source;
    format!("| `{preset}` | {} | {promises} | {source} |\n", described.idea)
}

/// Returns the page with its table made anew; `None` if it has no place for one.
pub fn renewed(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let rows: String = Preset::ALL.into_iter().map(row).collect();
    Some(format!("{before}{BEGIN}| name | idea | promises | source |\n|---|---|---|---|\n{rows}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A preset that has no row yet is added by the command; each row that is there must be right.
    #[test]
    fn the_rows_of_the_page_are_the_presets() {
        let page = include_str!("../../docs/policies.md");
        let (_, rest) = page.split_once(BEGIN).expect("a table");
        let (table, _) = rest.split_once(END).expect("its end");
        let rows: Vec<String> = Preset::ALL.into_iter().map(row).collect();
        let written: Vec<&str> = table.split_inclusive('\n').skip(2).collect();
        assert!(written.len() >= 8, "{written:?}");
        for line in written {
            let is_known = rows.iter().any(|row| row == line);
            assert!(is_known, "docs/policies.md is not what `cargo xtask policies` writes: {line}");
        }
        let again = renewed(page).expect("a table");
        assert_eq!(renewed(&again), Some(again.clone()));
        assert!(rows.iter().all(|row| again.contains(row)));
    }
}
