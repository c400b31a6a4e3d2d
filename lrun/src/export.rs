//! `--export`: selects the submitter's variables that the job gets.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use thiserror::Error;

/// Selection of the submitter's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    all: bool,
    /// Variables in the order of the option; without a value, the submitter's value counts.
    named: Vec<(OsString, Option<OsString>)>,
}

/// Error of a list of variables.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    #[error("a name is empty: write ALL, NONE or NAME[=VALUE], with commas between them")]
    Empty,
    #[error("`{0}` is not the name of a variable: put commas between names")]
    Name(String),
    #[error("NONE cannot be combined with names: without it, only the named variables are exported")]
    NoneWithOthers,
    #[error("a quote is not closed")]
    Quote,
}

impl Default for Export {
    fn default() -> Self {
        Self { all: true, named: Vec::new() }
    }
}

impl Export {
    /// Parses the list as srun does: `ALL`, `NONE`, or names with or without values, to which `ALL` may be added. A
    /// value with commas is quoted.
    ///
    /// # Errors
    /// If a name is empty, a quote is open, or `NONE` is combined with names.
    pub fn new(text: &OsStr) -> Result<Self, ExportError> {
        let items = split(text.as_bytes())?;
        let is = |item: &[u8], word: &str| item.eq_ignore_ascii_case(word.as_bytes());
        if items.iter().any(|item| is(item, "NONE")) {
            let alone = items.len() == 1;
            return if alone { Ok(Self { all: false, named: Vec::new() }) } else { Err(ExportError::NoneWithOthers) };
        }
        let (all, named): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| is(item, "ALL"));
        let named = named.into_iter().map(|item| {
            let at = item.iter().position(|byte| *byte == b'=');
            let (name, value) = at.map_or((&item[..], None), |at| (&item[..at], Some(&item[at + 1..])));
            let owned = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
            match name {
                [] => Err(ExportError::Empty),
                _ if name.iter().any(u8::is_ascii_whitespace) => {
                    Err(ExportError::Name(String::from_utf8_lossy(name).into_owned()))
                }
                _ => Ok((owned(name), value.map(owned))),
            }
        });
        Ok(Self { all: !all.is_empty(), named: named.collect::<Result<_, _>>()? })
    }

    /// Returns the selected part of `environment`, with the values that were given.
    pub fn of(&self, environment: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
        let given = |name: &OsString| self.named.iter().find(|(named, _)| named == name);
        let mut out: Vec<_> = environment
            .into_iter()
            .filter(|(name, _)| given(name).map_or(self.all, |(_, value)| value.is_none()))
            .collect();
        out.extend(self.named.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))));
        out
    }
}

/// Splits at commas outside quotes and removes the quotes.
fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, ExportError> {
    let (mut items, mut quote) = (vec![Vec::new()], None);
    for &byte in text {
        match (byte, quote) {
            (b'"' | b'\'', None) => quote = Some(byte),
            (_, Some(open)) if byte == open => quote = None,
            (b',', None) => items.push(Vec::new()),
            _ => items.last_mut().into_iter().for_each(|item| item.push(byte)),
        }
    }
    if quote.is_some() { Err(ExportError::Quote) } else { Ok(items) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the selection from `A=1 B=2 C=3`.
    fn check(text: &str, expected: Result<&[&str], ExportError>) {
        let environment =
            [("A", "1"), ("B", "2"), ("C", "3")].map(|(name, value)| (name.into(), value.into())).to_vec();
        let found = Export::new(OsStr::new(text)).map(|export| {
            let shown = |(name, value): (OsString, OsString)| format!("{}={}", name.display(), value.display());
            export.of(environment).into_iter().map(shown).collect::<Vec<_>>()
        });
        assert_eq!(found, expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect()), "{text}");
    }

    #[test]
    fn lists_are_read_as_by_srun() {
        check("ALL", Ok(&["A=1", "B=2", "C=3"]));
        check("NONE", Ok(&[]));
        check("A B", Err(ExportError::Name("A B".into())));
        check("none", Ok(&[]));
        check("B", Ok(&["B=2"]));
        check("B,D,X=7", Ok(&["B=2", "X=7"]));
        check("ALL,B=9,X=", Ok(&["A=1", "C=3", "B=9", "X="]));
        check("X='a,b',C,Y=\"it's\"", Ok(&["C=3", "X=a,b", "Y=it's"]));
        check("X=a=b", Ok(&["X=a=b"]));
    }

    #[test]
    fn wrong_lists_are_refused() {
        check("", Err(ExportError::Empty));
        check("A,,B", Err(ExportError::Empty));
        check("=1", Err(ExportError::Empty));
        check("NONE,A", Err(ExportError::NoneWithOthers));
        check("X='a", Err(ExportError::Quote));
    }
}
