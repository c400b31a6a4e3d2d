//! Messages of failed programs.

use std::error::Error;

/// Exit code for a wrong command line, of every program of Limo.
pub const WRONG_USAGE: u8 = 125;

/// Replaces the standard library's messages about invalid numbers and addresses.
pub fn plain_words(message: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid digit found in string", "it is not a whole number"),
        ("cannot parse integer from empty string", "it is not a whole number"),
        ("number would be zero for non-zero type", "at least 1 is needed"),
        ("number too large to fit in target type", "the number is too large"),
        ("invalid float literal", "it is not a number"),
        ("invalid socket address syntax", "it is not an address: write for example `127.0.0.1:6817`"),
    ];
    WORDS.iter().fold(message.to_owned(), |message, (from, to)| message.replace(from, to))
}

/// Formats an error with its causes, except causes that the text before them already contains.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|link| link as _)
        }
    }

    #[test]
    fn parse_errors_are_plain_english() {
        let check = |error: &dyn Error, expected: &str| assert_eq!(plain_words(&format!("'x': {error}")), expected);
        check(&"0".parse::<std::num::NonZeroU32>().expect_err("zero"), "'x': at least 1 is needed");
        check(&"4294967296".parse::<u32>().expect_err("large"), "'x': the number is too large");
        check(&"one".parse::<u32>().expect_err("a word"), "'x': it is not a whole number");
        check(&"one".parse::<f64>().expect_err("a word"), "'x': it is not a number");
        let address = "nowhere".parse::<std::net::SocketAddr>().expect_err("no address");
        check(&address, "'x': it is not an address: write for example `127.0.0.1:6817`");
    }

    #[test]
    fn each_cause_is_said_once() {
        let missing = || Some(Box::new(Link("no such file", None)));
        let check = |text, expected: &str| assert_eq!(with_causes(&Link(text, missing())), expected);
        check("cannot read x", "cannot read x: no such file");
        check("cannot read x: no such file", "cannot read x: no such file");
    }
}
