//! Options as getopt_long(3) of glibc reads them, with its complaints: clients of Slurm abbreviate and mix them.

/// The value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Value,
    /// A value that is in the same word, after `=`.
    Perhaps,
}

impl Takes {
    pub fn shown(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Value => "=VALUE",
            Self::Perhaps => "[=VALUE]",
        }
    }
}

/// A known option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionRow {
    pub long: &'static str,
    pub short: Option<char>,
    pub value: Takes,
}

/// An option in a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its long name.
    pub name: &'static str,
    /// Empty for an option without a value.
    pub value: String,
}

/// Makes an option with a short name.
pub const fn both(short: char, long: &'static str, value: Takes) -> OptionRow {
    OptionRow { long, short: Some(short), value }
}

/// Makes an option without a short name.
pub const fn long(long: &'static str, value: Takes) -> OptionRow {
    OptionRow { long, short: None, value }
}

/// Splits a command line into options and other words. With `mixed` options may follow other words.
///
/// # Errors
/// The complaint of getopt_long, without the name of the program.
pub fn parse(known: &[OptionRow], words: &[String], mixed: bool) -> Result<(Vec<Given>, Vec<String>), String> {
    let (mut given, mut operands) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            operands.extend(words.cloned());
            break;
        } else if let Some(rest) = word.strip_prefix("--") {
            given.push(long_option(known, rest, || words.next().cloned())?);
        } else if word.len() > 1 && word.starts_with('-') {
            cluster(known, &word[1..], || words.next().cloned(), &mut given)?;
        } else if mixed {
            operands.push(word.clone());
        } else {
            operands.push(word.clone());
            operands.extend(words.cloned());
            break;
        }
    }
    Ok((given, operands))
}

fn long_option(known: &[OptionRow], text: &str, next: impl FnOnce() -> Option<String>) -> Result<Given, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
    let row = find(known, name)?;
    let value = match (row.value, value) {
        (Takes::Nothing, Some(_)) => return Err(format!("option '--{}' doesn't allow an argument", row.long)),
        (Takes::Value, None) => next().ok_or_else(|| format!("option '--{}' requires an argument", row.long))?,
        (_, value) => value.unwrap_or_default(),
    };
    Ok(Given { name: row.long, value })
}

/// Finds an option by its name, or by a beginning that only it has.
fn find<'a>(known: &'a [OptionRow], name: &str) -> Result<&'a OptionRow, String> {
    if let Some(row) = known.iter().find(|row| row.long == name) {
        return Ok(row);
    }
    let close: Vec<&OptionRow> = known.iter().filter(|row| !name.is_empty() && row.long.starts_with(name)).collect();
    match close.as_slice() {
        [row] => Ok(row),
        [] => Err(format!("unrecognized option '--{name}'")),
        several => {
            let names: String = several.iter().map(|row| format!(" '--{}'", row.long)).collect();
            Err(format!("option '--{name}' is ambiguous; possibilities:{names}"))
        }
    }
}

/// Reads short options that share a word, such as `-hn5`.
fn cluster(
    known: &[OptionRow],
    text: &str,
    next: impl FnOnce() -> Option<String>,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    for (at, letter) in text.char_indices() {
        let row = known.iter().find(|row| row.short == Some(letter));
        let row = row.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        let rest = &text[at + letter.len_utf8()..];
        let value = match row.value {
            Takes::Nothing => {
                given.push(Given { name: row.long, value: String::new() });
                continue;
            }
            Takes::Perhaps => rest.to_owned(),
            Takes::Value if rest.is_empty() => {
                next().ok_or_else(|| format!("option requires an argument -- '{letter}'"))?
            }
            Takes::Value => rest.to_owned(),
        };
        given.push(Given { name: row.long, value });
        break;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [OptionRow; 5] = [
        both('n', "noheader", Takes::Nothing),
        both('u', "user", Takes::Value),
        both('o', "format", Takes::Value),
        long("formula", Takes::Nothing),
        long("nice", Takes::Perhaps),
    ];

    fn check(line: &str, mixed: bool, expected: Result<(&str, &str), &str>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = parse(&KNOWN, &words, mixed).map(|(given, operands)| {
            let given: Vec<String> = given.iter().map(|given| format!("{}={}", given.name, given.value)).collect();
            (given.join(" "), operands.join(" "))
        });
        let expected = expected.map(|(given, operands)| (given.to_owned(), operands.to_owned()));
        assert_eq!(found, expected.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn options_are_clustered_abbreviated_and_mixed() {
        check("-nu root a -oX b", true, Ok(("noheader= user=root format=X", "a b")));
        check("-n a -u root", false, Ok(("noheader=", "a -u root")));
        check("--us root --noh --nice --nice=3 -- -n", true, Ok(("user=root noheader= nice= nice=3", "-n")));
        check("--format=a=b -", true, Ok(("format=a=b", "-")));
    }

    #[test]
    fn complaints_are_those_of_getopt() {
        // As recorded from sacct 22.05: `sacct -nu root -o Account%256 | tail -1`, with the pipe as an argument.
        check("-nu root -o Account%256 | tail -1", true, Err("invalid option -- '1'"));
        check("--none", true, Err("unrecognized option '--none'"));
        check("--form=x", true, Err("option '--form' is ambiguous; possibilities: '--format' '--formula'"));
        check("--user", true, Err("option '--user' requires an argument"));
        check("-u", true, Err("option requires an argument -- 'u'"));
        check("--noheader=1", true, Err("option '--noheader' doesn't allow an argument"));
    }
}
