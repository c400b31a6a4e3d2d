//! Comments at the head of a workload file: `; Key: value`, or free text.

use limo_model::Time;

use limo_model::decimal::Decimal;

/// Comment of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The word before the colon, if any.
    pub key: Option<String>,
    /// The text after the colon, or all of it.
    pub text: String,
}

/// Comments before the first job, in their order. Invalid UTF-8 is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// All comments in the order of the file, including those without a key.
    pub comments: Vec<Comment>,
}

impl Header {
    /// Adds a comment without its `;`.
    pub(super) fn push(&mut self, comment: &[u8]) {
        let text = String::from_utf8_lossy(comment);
        let text = text.trim();
        let keyed = text.split_once(':').filter(|(key, _)| is_key(key));
        self.comments.push(match keyed {
            Some((key, value)) => Comment { key: Some(key.to_owned()), text: value.trim().to_owned() },
            None => Comment { key: None, text: text.to_owned() },
        });
    }

    /// Returns the value of the first comment with that key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.comments.iter().find(|comment| comment.key.as_deref() == Some(key)).map(|comment| comment.text.as_str())
    }

    /// Returns the number at the beginning of the value of `key`, in thousandths.
    fn number(&self, key: &str) -> Option<i64> {
        let word = self.value(key)?.split_whitespace().next()?;
        Decimal::read(word.as_bytes()).and_then(|number| number.rounded(3)).ok()
    }

    /// Returns the processors of the machine: `MaxProcs`; if that is missing or -1, `MaxNodes`.
    pub fn processors(&self) -> Option<u32> {
        let count =
            |key| self.number(key).filter(|count| *count >= 1_000).and_then(|count| (count / 1_000).try_into().ok());
        count("MaxProcs").or_else(|| count("MaxNodes"))
    }

    /// Returns `UnixStartTime`, if it is not negative.
    pub fn start(&self) -> Option<Time> {
        self.number("UnixStartTime").filter(|start| *start >= 0).map(Time::from_unix_ms)
    }
}

/// A key is one word; an address such as `http://...` is not one.
fn is_key(key: &str) -> bool {
    let word = key.trim_end();
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && word != "http"
        && word != "https"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(lines: &[&str]) -> Header {
        let mut header = Header::default();
        lines.iter().for_each(|line| header.push(line.as_bytes()));
        header
    }

    #[test]
    fn keys_and_free_text() {
        let header = header(&[
            " Version: 2.2",
            " Information: http://www.example.org/",
            "              http://www.example.org/workload/",
            " MaxProcs: 80640",
            " UnixStartTime: 843480031",
            "",
        ]);
        assert_eq!(header.value("Information"), Some("http://www.example.org/"));
        assert_eq!(header.comments[2], Comment { key: None, text: "http://www.example.org/workload/".into() });
        assert_eq!((header.processors(), header.start()), (Some(80_640), Some(Time::from_unix_ms(843_480_031_000))));
    }

    #[test]
    fn unknown_is_unknown() {
        let header = header(&[" MaxProcs: -1", " MaxNodes: 128 (of 144)", " UnixStartTime: none"]);
        assert_eq!((header.processors(), header.start()), (Some(128), None));
        assert_eq!(Header::default().processors(), None);
    }
}
