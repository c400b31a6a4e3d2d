//! How programs without a person at their terminal say that they failed.

use std::error::Error;

/// Exit code for a wrong command line, of every program of Limo.
pub const WRONG_USAGE: u8 = 125;

/// An error with its causes, except those that the text before them already contains.
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
    fn each_cause_is_said_once() {
        let missing = || Some(Box::new(Link("no such file", None)));
        let check = |text, expected: &str| assert_eq!(with_causes(&Link(text, missing())), expected);
        check("cannot read x", "cannot read x: no such file");
        check("cannot read x: no such file", "cannot read x: no such file");
    }
}
