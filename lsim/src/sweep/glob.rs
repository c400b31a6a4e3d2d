//! File name patterns with `*` (any characters) and `?` (one character), also in folder names. No `**`, no `[...]`.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Returns the files below `folder` that match `pattern`, by name. If a name begins with a dot, so must its pattern.
///
/// # Errors
/// The errors of reading folders; a missing folder has no files.
pub fn files(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![folder.to_owned()];
    for component in Path::new(pattern).components() {
        let part = component.as_os_str().to_string_lossy();
        if !matches!(component, Component::Normal(_)) || !part.contains(['*', '?']) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            next.extend(matching(folder, &part)?);
        }
        found = next;
    }
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

fn matching(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if (!text.starts_with('.') || pattern.starts_with('.')) && matches(pattern, &text) {
            found.push(folder.join(&name));
        }
    }
    Ok(found)
}

/// Returns true if `pattern` matches all of `name`. Time is at most the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Place of the last star, and the end of its match.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[n] => (p, n) = (p + 1, n + 1),
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    (p, n) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (pattern, name, expected) in [
            ("*.swf", "a.swf", true),
            ("*.swf", "a.swf.gz", false),
            ("*.swf*", "a.swf.gz", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xaab", true),
            ("*a*b", "abx", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn folders() {
        let root = tempfile::tempdir().expect("a folder");
        for file in ["x/2.swf", "x/1.swf", "y/3.swf", "y/.4.swf", "5.swf"] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let found = |pattern: &str| {
            let files = files(root.path(), pattern).expect("read");
            let name = |path: &PathBuf| path.strip_prefix(root.path()).expect("below").display().to_string();
            files.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("x/*.swf"), "x/1.swf x/2.swf");
        assert_eq!(found("*/*.swf"), "x/1.swf x/2.swf y/3.swf");
        assert_eq!(found("?.swf"), "5.swf");
        assert_eq!(found("x/../5.swf"), "x/../5.swf");
        assert_eq!(found("no/*.swf"), "");
        assert_eq!(found("x"), "");
    }
}
