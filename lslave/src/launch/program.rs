//! A command in the kernel's form: paths to try, arguments and environment.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::LaunchError;

/// Search path of a job without `PATH`, as in `execvp(3)`.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";

/// Command.
#[derive(Debug)]
pub(super) struct Program {
    /// Paths to try, in order.
    pub(super) paths: Vec<Vec<u8>>,
    pub(super) argv: Vec<Vec<u8>>,
    /// Variables as `NAME=VALUE`.
    pub(super) env: Vec<Vec<u8>>,
}

impl Program {
    /// Makes a command. The first element of `argv` is the name that the program sees. The last value of a repeated
    /// variable counts.
    ///
    /// # Errors
    /// [`LaunchError::Nul`].
    pub(super) fn new(
        program: &OsStr,
        argv: impl Iterator<Item = OsString>,
        env: Vec<(OsString, OsString)>,
    ) -> Result<Self, LaunchError> {
        let text = |bytes: Vec<u8>| if bytes.contains(&0) { Err(LaunchError::Nul) } else { Ok(bytes) };
        let path = env.iter().rev().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_bytes());
        let paths = places(program.as_bytes(), path.unwrap_or(USUAL_PATH)).into_iter().map(text);
        let mut seen = HashSet::new();
        let last = env.iter().rev().filter(|(key, _)| seen.insert(key));
        let env = last.map(|(key, value)| text([key.as_bytes(), b"=", value.as_bytes()].concat()));
        let mut env = env.collect::<Result<Vec<_>, _>>()?;
        env.reverse();
        Ok(Self {
            paths: paths.collect::<Result<_, _>>()?,
            argv: argv.map(|one| text(one.into_vec())).collect::<Result<_, _>>()?,
            env,
        })
    }
}

/// Returns the paths to try. A name with a slash is a path itself.
fn places(program: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let within = |dir: &[u8]| if dir.is_empty() { program.to_vec() } else { [dir, b"/", program].concat() };
    path.split(|byte| *byte == b':').map(within).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_searched_along_the_path() {
        let check = |program: &str, path: &str, expected: &[&str]| {
            let found = places(program.as_bytes(), path.as_bytes());
            let found: Vec<_> = found.iter().map(|place| String::from_utf8_lossy(place)).collect();
            assert_eq!(found, expected, "{program} {path}");
        };
        check("true", "/bin:/usr/bin", &["/bin/true", "/usr/bin/true"]);
        check("true", ":b:", &["true", "b/true", "true"]);
        check("./true", "/bin", &["./true"]);
        check("/x/true", "", &["/x/true"]);
    }

    #[test]
    fn the_last_of_repeated_variables_counts() {
        let pair = |key: &str, value: &str| (OsString::from(key), OsString::from(value));
        let env = vec![pair("A", "1"), pair("PATH", "/a"), pair("A", "2"), pair("PATH", "/b")];
        let program = Program::new(OsStr::new("x"), ["x".into()].into_iter(), env).expect("no NUL");
        assert_eq!(program.env, [b"A=2".to_vec(), b"PATH=/b".to_vec()]);
        assert_eq!(program.paths, [b"/b/x".to_vec()]);
    }
}
