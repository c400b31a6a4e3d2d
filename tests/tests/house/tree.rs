//! The texts of the workspace, and words that no text may contain.

use std::fs;
use std::path::Path;

use crate::sources::Source;

/// All texts below the root, with their paths relative to it.
pub struct Tree {
    texts: Vec<(String, String)>,
}

impl Tree {
    pub fn read(root: &Path) -> Self {
        let mut texts = Vec::new();
        let mut dirs = vec![root.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).expect("a readable directory") {
                let path = entry.expect("a readable entry").path();
                if path.is_dir() && !is_foreign(&path) {
                    dirs.push(path);
                } else if path.is_file()
                    && let Ok(text) = fs::read_to_string(&path)
                {
                    let path = path.strip_prefix(root).expect("below the root");
                    texts.push((path.display().to_string(), text));
                }
            }
        }
        texts.sort();
        Self { texts }
    }

    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The manifests of the members. `fuzz` is a workspace of its own.
    pub fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_member = |text: &str| !text.lines().any(|line| line == "[workspace]");
        self.texts().filter(move |(path, text)| path.ends_with("/Cargo.toml") && is_member(text))
    }

    pub fn sources(&self) -> Vec<Source> {
        self.texts().filter(|(path, _)| path.ends_with(".rs")).map(|(path, text)| Source::new(path, text)).collect()
    }
}

/// Returns true for directories of cargo and git.
fn is_foreign(dir: &Path) -> bool {
    dir.join("CACHEDIR.TAG").exists() || dir.file_name().is_some_and(|name| name == ".git" || name == "target")
}

/// Paths of the machine on which a file was made, and names of the tools. Each is written in two parts, so that the
/// rule does not find this file.
const TRACES: [(&str, &str); 7] = [
    ("/wo", "rk/"),
    ("/ro", "ot/"),
    ("cla", "ude"),
    ("anth", "ropic"),
    ("chat", "gpt"),
    ("co-authored", "-by"),
    ("language", " model"),
];

/// Returns lines that reveal where or how a text was made.
pub fn traces(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (head, tail) in TRACES {
            let trace = format!("{head}{tail}");
            if line.contains(&trace) {
                found.push(format!("{path}:{}: {trace}", index + 1));
            }
        }
    }
    found
}

/// Files with the paths by which programs that are not installed find external traces.
const LABORATORY: &str = "requirements/src/lib.rs";

/// Returns lines of a source or a configuration that name the folder next to the repository.
pub fn outside(path: &str, text: &str) -> Vec<String> {
    if path == LABORATORY || path.ends_with(".md") {
        return Vec::new();
    }
    // The text is written in two parts, as above.
    let place = ["../", "shared"].concat();
    let lines = text.lines().enumerate().filter(|(_, line)| line.contains(&place));
    lines.map(|(index, _)| format!("{path}:{}: {place}", index + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_outside_are_found() {
        let text = format!("good\nlet a = \"../{}/traces\";\n", "shared");
        assert_eq!(outside("lsim/src/a.rs", &text), [format!("lsim/src/a.rs:2: ../{}", "shared")]);
        assert!(outside(LABORATORY, &text).is_empty() && outside("docs/a.md", &text).is_empty());
    }

    #[test]
    fn traces_are_found() {
        let text = format!("good\nsee {}{}main\n", "/wo", "rk/");
        assert_eq!(traces("a.md", &text), [format!("a.md:2: /wo{}", "rk/")]);
        assert!(traces("a.md", "work/ at home").is_empty());
    }
}
