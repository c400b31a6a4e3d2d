//! Texts that a user gives a job for people and programs of the site. No decision depends on them.

use serde::{Deserialize, Serialize};

/// Longest text, in bytes.
pub const LABEL_LIMIT: usize = 1024;

/// The texts of a job, each at most [`LABEL_LIMIT`] bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Labels {
    /// The comment (`--comment`), or nothing.
    pub comment: Option<String>,
    /// The key by which a site characterizes work (`--wckey`), or nothing.
    pub wckey: Option<String>,
}

impl Labels {
    /// Checks the length and the characters of the texts.
    ///
    /// # Errors
    /// Names the text, and the limit.
    pub fn check(&self) -> Result<(), String> {
        let texts = [("comment", &self.comment), ("wckey", &self.wckey)];
        texts.into_iter().try_for_each(|(what, text)| {
            check_label(text.as_deref().unwrap_or_default()).map_err(|error| format!("the {what} {error}"))
        })
    }
}

/// Checks one text.
///
/// # Errors
/// The limit, as the rest of a sentence.
pub fn check_label(text: &str) -> Result<(), String> {
    if text.len() > LABEL_LIMIT {
        return Err(format!("has {} bytes; the limit is {LABEL_LIMIT}", text.len()));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(found) => Err(format!("has the control character {found:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_lines() {
        let check = |comment: &str| Labels { comment: Some(comment.to_owned()), wckey: None }.check();
        assert_eq!(check("rule_one, wildcards 2"), Ok(()));
        assert_eq!(check(&"x".repeat(LABEL_LIMIT)), Ok(()));
        assert_eq!(check(&"x".repeat(1025)), Err("the comment has 1025 bytes; the limit is 1024".into()));
        assert_eq!(check("a\u{1b}"), Err("the comment has the control character '\\u{1b}'".into()));
    }
}
