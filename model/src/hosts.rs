//! Reads lists of node names as Slurm writes them: `n1,n2`, `n[1-4,7]`, `rack[01-12]`.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::id::{NameError, check_name};

/// Most nodes of a list. Bounds the cost of a typing error such as `n[1-99999999]`.
const HOST_LIMIT: usize = 65_536;

/// Error of a text that is not a list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum HostError {
    #[error("the list of nodes is empty")]
    Empty,
    #[error("`{list}` has an empty name")]
    EmptyName { list: String },
    #[error("`{part}` has a bracket that does not match")]
    Bracket { part: String },
    #[error("`{range}` in `{part}` is not a number or a range such as `1-4`")]
    Range { part: String, range: String },
    #[error("`{range}` in `{part}` ends before it begins")]
    Backwards { part: String, range: String },
    #[error("`{list}` names more than {HOST_LIMIT} nodes")]
    TooMany { list: String },
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Returns the names of `list` in its order, each once.
///
/// # Errors
/// [`HostError`], naming the wrong part.
pub fn parse_hosts(list: &str) -> Result<Vec<String>, HostError> {
    if list.trim().is_empty() {
        return Err(HostError::Empty);
    }
    let mut names = Vec::new();
    for part in parts(list)? {
        if part.is_empty() {
            return Err(HostError::EmptyName { list: list.to_owned() });
        }
        expand(part, &mut names)?;
        if names.len() > HOST_LIMIT {
            return Err(HostError::TooMany { list: list.to_owned() });
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.iter().try_for_each(|name| check_name("node name", name))?;
    Ok(names)
}

/// Returns the names of several lists.
///
/// # Errors
/// [`HostError`], naming the wrong part, or if no list is given.
pub(crate) fn parse_all(lists: &[String]) -> Result<BTreeSet<String>, HostError> {
    let names = lists.iter().map(|list| parse_hosts(list)).collect::<Result<Vec<_>, _>>()?;
    if lists.is_empty() { Err(HostError::Empty) } else { Ok(names.into_iter().flatten().collect()) }
}

/// Splits at the commas outside brackets.
fn parts(list: &str) -> Result<Vec<&str>, HostError> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, c) in list.char_indices() {
        match c {
            '[' | ']' if inside == (c == '[') => return Err(HostError::Bracket { part: list.to_owned() }),
            '[' | ']' => inside = !inside,
            ',' if !inside => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostError::Bracket { part: list[start..].to_owned() });
    }
    parts.push(list[start..].trim());
    Ok(parts)
}

/// Adds the names of one part, which may have one pair of brackets.
fn expand(part: &str, names: &mut Vec<String>) -> Result<(), HostError> {
    let Some((head, rest)) = part.split_once('[') else {
        names.push(part.to_owned());
        return Ok(());
    };
    let bracket = || HostError::Bracket { part: part.to_owned() };
    let (inner, tail) = rest.split_once(']').ok_or_else(bracket)?;
    if tail.contains('[') {
        return Err(bracket());
    }
    for range in inner.split(',').map(str::trim) {
        let wrong = || HostError::Range { part: part.to_owned(), range: range.to_owned() };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let (from, to) = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
        if from > to {
            return Err(HostError::Backwards { part: part.to_owned(), range: range.to_owned() });
        }
        if to - from >= HOST_LIMIT as u64 {
            return Err(HostError::TooMany { list: part.to_owned() });
        }
        let width = first.len();
        names.extend((from..=to).map(|number| format!("{head}{number:0width$}{tail}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &[&str]) {
        assert_eq!(
            parse_hosts(list).as_deref(),
            Ok(expected.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>().as_slice())
        );
    }

    #[test]
    fn lists_expand_to_their_names() {
        check("n1", &["n1"]);
        check("n1, m2,n1", &["n1", "m2"]);
        check("n[1-3,7],m1", &["n1", "n2", "n3", "n7", "m1"]);
        check("rack[08-10]-a", &["rack08-a", "rack09-a", "rack10-a"]);
        check("n[42949672961-42949672962]", &["n42949672961", "n42949672962"]);
    }

    #[test]
    fn wrong_lists_are_refused_with_the_part() {
        let check = |list: &str, expected: &str| {
            assert_eq!(parse_hosts(list).map_err(|e| e.to_string()), Err(expected.to_owned()), "{list}");
        };
        check("", "the list of nodes is empty");
        check("n1,,n2", "`n1,,n2` has an empty name");
        check("n[1-3", "`n[1-3` has a bracket that does not match");
        check("n1]", "`n1]` has a bracket that does not match");
        check("n[a-3]", "`a-3` in `n[a-3]` is not a number or a range such as `1-4`");
        check("n[+1]", "`+1` in `n[+1]` is not a number or a range such as `1-4`");
        check("n[4-1]", "`4-1` in `n[4-1]` ends before it begins");
        check(
            "n[18446744073709551616]",
            "`18446744073709551616` in `n[18446744073709551616]` is not a number or a range such as `1-4`",
        );
        check("n[1-99999999]", "`n[1-99999999]` names more than 65536 nodes");
        check("a b", "the node name `a b` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed");
    }
}
