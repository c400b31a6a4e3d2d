//! The name by which a job's profiles are known: the name that its submitter gives, else its user, its command and the
//! shape of its arguments.
//!
//! If user `ada` runs `cg -n 5` or `cg -n 70`, the name is `ada+cg+-n+N`, and the numbers are the size class. An
//! interpreter is not an application: `python3 train.py --epochs 3` is `train.py`. Parts are joined by `+`, which
//! other names cannot contain.

use crate::digest::Digest;
use crate::id::{NAME_LIMIT, NameError, check_name};

/// Joins the parts of a name that was derived from a command.
pub const JOINT: char = '+';

/// The name of an unidentifiable command, such as a shell that reads its standard input.
pub const UNKNOWN: &str = "_";

/// Programs that run a following script or line.
const INTERPRETERS: [&str; 17] = [
    "sh", "ash", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "python", "perl", "ruby", "node", "lua", "julia",
    "Rscript", "java",
];

/// Programs that run the command after their options.
const WRAPPERS: [&str; 14] = [
    "env", "nice", "ionice", "time", "timeout", "nohup", "stdbuf", "numactl", "taskset", "setsid", "mpirun", "mpiexec",
    "srun", "exec",
];

/// Longest argument that is kept, because a longer one is hardly the name of a mode.
const WORD_LIMIT: usize = 16;

/// Longest name of a user, and of a command, in a long name.
const USER_LIMIT: usize = NAME_LIMIT / 4;

/// The name of a command for profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// Name without its user: begins with [`JOINT`], because [`of_user`] puts the user before it; or is [`UNKNOWN`].
    pub application: String,
    /// The numbers among its arguments; may be empty.
    pub size: String,
}

/// Derives the name of a command line.
pub fn of_command(argv: &[impl AsRef<[u8]>]) -> Derived {
    let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
    let mut rest = words.iter().map(AsRef::as_ref).peekable();
    while let Some(word) = rest.next() {
        let name = plain(file_name(word));
        if WRAPPERS.contains(&name.as_str()) {
            while rest.next_if(|word| is_setting(word)).is_some() {}
            continue;
        }
        return match interpreted(&name, &mut rest) {
            None => shape(&name, rest),
            Some(Some(script)) => shape(&script, rest),
            Some(None) => break,
        };
    }
    Derived { application: UNKNOWN.to_owned(), size: String::new() }
}

/// Returns the program that an interpreter runs: `None` if `name` is not an interpreter, `Some(None)` if the program is
/// unknown.
fn interpreted<'a>(name: &str, rest: &mut impl Iterator<Item = &'a str>) -> Option<Option<String>> {
    // For example, `python3.11` is `python`.
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&kind) {
        return None;
    }
    while let Some(word) = rest.next() {
        match word {
            "-c" | "-e" => return Some(rest.next().map(|text| format!("inline-{}", digest(text)))),
            "-m" => return Some(rest.next().map(plain)),
            "-" | "-s" => return Some(None),
            _ if word.starts_with('-') => {}
            _ => return Some(Some(plain(file_name(word)))),
        }
    }
    Some(None)
}

/// Returns true for an option, a number or a variable of a wrapper.
fn is_setting(word: &str) -> bool {
    word.starts_with('-') || word.contains('=') || is_number(word)
}

fn shape<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Derived {
    let (mut application, mut numbers) = (format!("{JOINT}{name}"), Vec::new());
    for word in words {
        let (option, value) = split(word);
        for part in [option, value].into_iter().flatten() {
            application.push(JOINT);
            if is_number(part) {
                application.push('N');
                numbers.push(part);
            } else {
                application += &general(part);
            }
        }
    }
    let size = numbers.join("x");
    let size = if size.len() > NAME_LIMIT { digest(&size).to_string() } else { size };
    Derived { application, size }
}

/// Splits an option such as `--size=5` or `-n5` from its value.
fn split(word: &str) -> (Option<&str>, Option<&str>) {
    if !word.starts_with('-') || is_number(word) {
        return (None, Some(word));
    }
    match word.split_once('=') {
        Some((option, value)) => (Some(option), Some(value)),
        None => match word.split_at_checked(2) {
            Some((option, value)) if is_number(value) => (Some(option), Some(value)),
            _ => (Some(word), None),
        },
    }
}

/// Returns true for digits with at most one point, an optional sign and a unit of up to two letters.
fn is_number(word: &str) -> bool {
    let word = word.strip_prefix('-').unwrap_or(word);
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = word.len() - digits.len();
    unit <= 2 && digits.parse::<f64>().is_ok() && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Keeps options and short words, and the type of a file. Other words differ between runs, not applications.
fn general(word: &str) -> String {
    let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_');
    if word.len() <= WORD_LIMIT && is_word(word) {
        return word.to_owned();
    }
    match word.rsplit_once('.') {
        Some((_, kind)) if !kind.is_empty() && kind.len() <= 5 && is_word(kind) => format!("_.{kind}"),
        _ => "_".to_owned(),
    }
}

fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Replaces characters that a part of a name cannot contain by `_`.
fn plain(name: &str) -> String {
    let replaced = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = name.chars().map(replaced).collect();
    if name.is_empty() { UNKNOWN.to_owned() } else { name }
}

/// Returns the name of a user's application, from [`of_command`] or the submitter's choice. A long name ends in a
/// digest.
///
/// # Errors
/// If the name has a `+` after its first character, or is invalid: see [`check_name`].
pub fn of_user(user: &str, application: &str) -> Result<String, NameError> {
    let Some(rest) = application.strip_prefix(JOINT) else {
        check_name("application", application)?;
        return match application.find(JOINT) {
            None => Ok(application.to_owned()),
            Some(_) => Err(NameError::Character { what: "application", name: application.to_owned(), found: JOINT }),
        };
    };
    let full = format!("{}{JOINT}{rest}", plain(user));
    if full.len() <= NAME_LIMIT {
        check_name("application", &full)?;
        return Ok(full);
    }
    let short = |text: &str| plain(text).chars().take(USER_LIMIT).collect::<String>();
    let command = rest.split(JOINT).next().unwrap_or(UNKNOWN);
    Ok(format!("{}{JOINT}{}{JOINT}{}", short(user), short(command), digest(&full)))
}

/// Returns the command in the name of a user's application; `None` if the submitter chose the name.
pub fn command_of(application: &str) -> Option<&str> {
    application.split(JOINT).nth(1).filter(|command| !command.is_empty())
}

/// Returns true if the name was derived from a command of another user. A name that a submitter chose belongs to all.
pub fn is_of_other(application: &str, user: &str) -> bool {
    let Some((owner, _)) = application.split_once(JOINT) else { return false };
    let user = plain(user);
    // A long name has only the beginning of its user's name.
    owner != user && !(owner.len() == USER_LIMIT && user.starts_with(owner))
}

/// Collisions on purpose are harmless, because the names belong to one user.
fn digest(text: &str) -> Digest {
    Digest::new().with(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, application: &str, size: &str) {
        let argv: Vec<&str> = line.split(' ').collect();
        let expected = Derived { application: application.into(), size: size.into() };
        assert_eq!(of_command(&argv), expected, "{line}");
    }

    #[test]
    fn numbers_are_the_size_and_files_and_long_words_do_not_count() {
        check("sleep 1", "+sleep+N", "1");
        check("sleep 600", "+sleep+N", "600");
        check("/opt/bin/cg.B", "+cg.B", "");
        check("./cg -n 5 --tol=1e-6 -j8 in/mesh_7.vtk", "+cg+-n+N+--tol+N+-j+N+_.vtk", "5x1e-6x8");
        check("git gc --prune=now", "+git+gc+--prune+now", "");
        check("solve 10m -3", "+solve+N+N", "10mx-3");
        check("run 0f3e9c2a77b1d04e", "+run+_", "");
        check("my+prog /", "+my_prog+_", "");
    }

    #[test]
    fn derived_names_belong_to_their_users() {
        assert!(is_of_other("ada+cg+N", "bob") && is_of_other("ada+cg", "ad"));
        assert!(!is_of_other("ada+cg+N", "ada") && !is_of_other("solver", "bob") && !is_of_other("a_b+cg", "a b"));
        let long = format!("{JOINT}cg{}", "+word".repeat(NAME_LIMIT));
        let user = "u".repeat(NAME_LIMIT / 2);
        let name = of_user(&user, &long).expect("a name");
        assert!(!is_of_other(&name, &user) && is_of_other(&name, "bob"));
    }

    #[test]
    fn interpreters_and_wrappers_are_not_applications() {
        check("python3 train.py --epochs 3", "+train.py+--epochs+N", "3");
        check("python3.11 -m timeit", "+timeit", "");
        check("sh job.sh a", "+job.sh+a", "");
        check("env OMP_NUM_THREADS=4 nice -n 5 ./cg 7", "+cg+N", "7");
        check("mpirun -np 4 ./lu", "+lu", "");
        check("java -jar app.jar x", "+app.jar+x", "");
        check("bash", UNKNOWN, "");
        check("python3 -", UNKNOWN, "");
        check("nice -n 5", UNKNOWN, "");
        let inline = |text: &str| of_command(&["sh", "-c", text]).application;
        assert_ne!(inline("sleep 1"), inline("sleep 600"));
        assert!(inline("sleep 1").starts_with("+inline-"));
    }

    #[test]
    fn a_name_has_its_user_and_only_derived_names_have_a_joint() {
        assert_eq!(of_user("ada", "+sleep+N"), Ok("ada+sleep+N".into()));
        assert_eq!(of_user("ada", "cg"), Ok("cg".into()));
        assert_eq!(of_user("a+b", "+cg"), Ok("a_b+cg".into()));
        assert!(matches!(of_user("eve", "ada+sleep+N"), Err(NameError::Character { found: '+', .. })));
        assert!(matches!(of_user("eve", "+a/b"), Err(NameError::Character { found: '/', .. })));
        assert!(of_user("eve", "").is_err());
        assert_eq!((command_of("ada+sleep+N"), command_of("cg"), command_of("c++")), (Some("sleep"), None, None));
        let long = |word: &str| of_user("ada", &format!("+{}+{word}", "x".repeat(60))).expect("a name");
        assert_eq!(long("a").len(), 3 + 1 + 16 + 1 + 16);
        assert_ne!(long("a"), long("b"));
        assert_eq!(command_of(&long("a")), Some("x".repeat(16).as_str()));
    }
}
