//! Formats of tables: `%.18i %j` of squeue and sinfo, and `Name:20` of squeue.

use limo_client::plain;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A field with its key, its width (0 for its own) and true if it is aligned to the right.
    Field {
        key: String,
        width: usize,
        right: bool,
    },
}

/// Largest width: more than any terminal has.
const WIDEST: usize = 4_096;

/// Reads a format with `%` fields of one letter.
pub fn letters(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            plain.push(letter);
            continue;
        }
        // `#` only widens fields for long names of partitions.
        while letters.next_if_eq(&'#').is_some() {}
        let right = letters.next_if_eq(&'.').is_some();
        let mut digits = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        match letters.next() {
            Some('%') | None => plain.push('%'),
            Some(key) => {
                parts.extend((!plain.is_empty()).then(|| Part::Text(std::mem::take(&mut plain))));
                let width = digits.parse().unwrap_or(0).min(WIDEST);
                parts.push(Part::Field { key: key.to_string(), width, right });
            }
        }
    }
    parts.extend((!plain.is_empty()).then_some(Part::Text(plain)));
    parts
}

/// Reads a list of names: `JobID:12,State:.8,Reason:`. A name without a width has 20 columns; one with a colon and no
/// number has those of its value.
pub fn names(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (name, rest) = item.split_once(':').map_or((item, None), |(name, rest)| (name, Some(rest)));
        let right = rest.is_some_and(|rest| rest.starts_with('.'));
        let rest = rest.map(|rest| rest.strip_prefix('.').unwrap_or(rest));
        let digits = rest.map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        let width = rest.map_or(20, |rest| rest[..digits].parse().unwrap_or(0)).min(WIDEST);
        parts.push(Part::Field { key: name.to_ascii_lowercase(), width, right });
        let suffix = rest.map_or("", |rest| &rest[digits..]);
        parts.extend((!suffix.is_empty()).then(|| Part::Text(suffix.to_owned())));
    }
    parts
}

/// Fills or cuts a value to a width; 0 keeps its own. Control characters of other users are escaped.
pub fn cell(value: &str, width: usize, right: bool) -> String {
    let value = plain(value);
    if width == 0 {
        return value;
    }
    let cut: String = value.chars().take(width).collect();
    if right { format!("{cut:>width$}") } else { format!("{cut:<width$}") }
}

/// Makes a line.
pub fn line(parts: &[Part], value: impl Fn(&str) -> String) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Field { key, width, right } => cell(&value(key), *width, *right),
    };
    parts.iter().map(part).collect::<String>() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[Part]) -> String {
        line(parts, |key| format!("<{key}>"))
    }

    #[test]
    fn fields_have_widths_and_sides() {
        assert_eq!(shown(&letters("%.6i|%5j|%T %% %u<>%")), "   <i>|<j>  |<T> % <u><>%\n");
        assert_eq!(shown(&letters("%#9P %.2t")), "<P>       <t\n");
        // Open OnDemand separates fields by a control character.
        assert_eq!(line(&letters("%i\u{1f}%j"), |_| "a\u{1f}".to_owned()), "a\\u{1f}\u{1f}a\\u{1f}\n");
    }

    #[test]
    fn names_have_twenty_columns_unless_they_say_otherwise() {
        assert_eq!(shown(&names("A,B:.5,C:|,D:2")), format!("{:<20}  <b><c>|<d\n", "<a>"));
    }
}
