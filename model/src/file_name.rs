//! Names of the files for a job's streams. Fields such as `%j` stand for facts of the job.
//!
//! Pure: the client checks a name ([`check_file_name`]), and the node that opens the file expands it
//! ([`expand_file_name`]). Names are bytes, because Unix does not promise UTF-8.

use thiserror::Error;

use crate::JobId;

/// Largest width in `%5j`, the same as Slurm's.
const WIDTH_LIMIT: usize = 10;

/// The facts that replace the fields of a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts<'a> {
    /// Number of the job, for `%j`.
    pub job: JobId,
    /// Name of the job, for `%x`.
    pub name: &'a str,
    /// Name of the user, for `%u`.
    pub user: &'a str,
    /// Name of the node that opens the file, for `%N`.
    pub node: &'a str,
    /// Index of that node among the job's nodes, from 0, for `%n`.
    pub node_index: u32,
    /// Index of the task in the job, from 0, for `%t`.
    pub task: u32,
    /// Array and number of the task, for `%A` and `%a`. In other jobs, these are the job's number and 0.
    pub array: Option<(JobId, u32)>,
}

impl FileFacts<'_> {
    /// Returns the number of the job, or `ARRAY_TASK` for a task of an array.
    pub fn own_number(&self) -> String {
        self.array.map_or(self.job.to_string(), |(array, task)| format!("{array}_{task}"))
    }
}

/// Errors in a file name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum FileNameError {
    #[error("the name is empty: write a file, or `none` for nowhere")]
    Empty,
    #[error("the name has a NUL byte")]
    Nul,
    #[error(
        "`%{0}` is unknown: there are %j (job), %A (array), %a (task of it), %x (its name), %u (user), %N (node), %n (its index), %t (task), %%"
    )]
    Unknown(char),
    #[error("a `%` is at the end: write `%%` for the sign itself")]
    Unfinished,
}

/// Checks that every `%` in `name` begins a known field.
///
/// # Errors
/// [`FileNameError`], which names the unknown field.
pub fn check_file_name(name: &[u8]) -> Result<(), FileNameError> {
    if name.is_empty() {
        return Err(FileNameError::Empty);
    }
    if name.contains(&0) {
        return Err(FileNameError::Nul);
    }
    let mut rest = name;
    while let Some((_, after)) = split(rest) {
        let (_, after) = width(after);
        rest = match after.split_first() {
            Some((b'%' | b'j' | b'A' | b'a' | b'x' | b'u' | b'N' | b'n' | b't', rest)) => rest,
            Some(_) => {
                return Err(FileNameError::Unknown(String::from_utf8_lossy(after).chars().next().unwrap_or('?')));
            }
            None => return Err(FileNameError::Unfinished),
        };
    }
    Ok(())
}

/// Returns the name with the facts filled in. Unknown fields stay unchanged. A `/` in the job's name becomes `_`, so
/// that the name cannot choose a directory.
pub fn expand_file_name(name: &[u8], facts: &FileFacts) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some((before, after)) = split(rest) {
        out.extend_from_slice(before);
        let (width, specifier) = width(after);
        let number = |number: u64| format!("{number:0width$}").into_bytes();
        let value = match specifier.first() {
            Some(b'%') => b"%".to_vec(),
            Some(b'j') => number(facts.job.0),
            Some(b'A') => number(facts.array.map_or(facts.job, |(array, _)| array).0),
            Some(b'a') => number(facts.array.map_or(0, |(_, task)| task).into()),
            Some(b'n') => number(facts.node_index.into()),
            Some(b't') => number(facts.task.into()),
            Some(b'x') => facts.name.replace('/', "_").into_bytes(),
            Some(b'u') => facts.user.into(),
            Some(b'N') => facts.node.into(),
            _ => {
                out.push(b'%');
                rest = after;
                continue;
            }
        };
        out.extend(value);
        rest = &specifier[1..];
    }
    out.extend_from_slice(rest);
    out
}

/// Returns the text before and after the next `%`.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = name.iter().position(|byte| *byte == b'%')?;
    Some((&name[..at], &name[at + 1..]))
}

/// Returns the number at the beginning, and the text after it.
fn width(text: &[u8]) -> (usize, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(count);
    let value = digits.iter().fold(0_usize, |value, digit| (value * 10 + usize::from(digit - b'0')).min(WIDTH_LIMIT));
    (value, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: FileFacts =
        FileFacts { job: JobId(128), name: "sim/a b", user: "ada", node: "n7", node_index: 3, task: 4, array: None };

    fn check(name: &str, expected: Result<&str, FileNameError>) {
        match expected {
            Ok(expanded) => {
                assert_eq!(check_file_name(name.as_bytes()), Ok(()), "{name}");
                assert_eq!(String::from_utf8_lossy(&expand_file_name(name.as_bytes(), &FACTS)), expanded, "{name}");
            }
            Err(error) => assert_eq!(check_file_name(name.as_bytes()), Err(error), "{name}"),
        }
    }

    #[test]
    fn every_part_has_its_fact() {
        check("plain.txt", Ok("plain.txt"));
        check("%j-%x-%u-%N-%n-%t", Ok("128-sim_a b-ada-n7-3-4"));
        check("dir/%j/%%j%%", Ok("dir/128/%j%"));
        check("ä%jö", Ok("ä128ö"));
    }

    #[test]
    fn tasks_of_arrays_have_two_numbers() {
        check("%A_%a", Ok("128_0"));
        let facts = FileFacts { array: Some((JobId(127), 40)), ..FACTS };
        assert_eq!(expand_file_name(b"%A_%3a of %j", &facts), b"127_040 of 128");
    }

    #[test]
    fn numbers_are_padded_and_words_are_not() {
        check("%5j|%2j|%0j|%3n|%4t", Ok("00128|128|128|003|0004"));
        check("%5N|%9u|%3%", Ok("n7|ada|%"));
        check("%99999999999999999999999j", Ok("0000000128"));
    }

    #[test]
    fn wrong_file_names_are_refused() {
        check("", Err(FileNameError::Empty));
        check("a\0b", Err(FileNameError::Nul));
        check("%q", Err(FileNameError::Unknown('q')));
        check("%ä", Err(FileNameError::Unknown('ä')));
        check("100%", Err(FileNameError::Unfinished));
        check("100%7", Err(FileNameError::Unfinished));
    }

    /// Checks that expanding never fails, because a name from a peer was not checked.
    #[test]
    fn expanding_never_fails() {
        for (name, expected) in [("%q%j", "%q128"), ("%", "%"), ("%5", "%5"), ("%5q", "%5q"), ("", "")] {
            assert_eq!(String::from_utf8_lossy(&expand_file_name(name.as_bytes(), &FACTS)), expected);
        }
    }
}
