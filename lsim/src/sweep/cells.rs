//! Lines of comma-separated values (RFC 4180) without line breaks in values.

/// Makes a line without its line break. Line breaks in values become blanks.
pub fn line<'t>(values: impl IntoIterator<Item = &'t str>) -> String {
    let quoted = |value: &str| {
        let value = value.replace(['\n', '\r'], " ");
        if value.contains([',', '"']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
    };
    values.into_iter().map(quoted).collect::<Vec<_>>().join(",")
}

/// Returns the values of a line; `None` if a quote is open, or text follows a closed one.
pub fn values(line: &str) -> Option<Vec<String>> {
    let (mut values, mut rest) = (Vec::new(), line);
    loop {
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        values.push(value);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(values),
            None => return None,
        }
    }
}

/// Returns the text before the closing quote, and the text after it.
fn unquoted(mut rest: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    loop {
        let end = rest.find('"')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return Some((value, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let written = ["a", "", "b,c", "say \"x\"", "two\nlines"];
        let text = line(written);
        assert_eq!(text, "a,,\"b,c\",\"say \"\"x\"\"\",two lines");
        assert_eq!(values(&text), Some(["a", "", "b,c", "say \"x\"", "two lines"].map(str::to_owned).to_vec()));
        assert_eq!((values("a,\"b"), values("\"a\"b,c")), (None, None));
    }
}
