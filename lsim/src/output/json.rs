//! Streaming JSON writer. Numbers are decimals made from integers, so that equal results are equal bytes.
//!
//! The caller writes each key once. Text is safe inside an HTML `script` element.

use limo_model::decimal;

use super::line::LineBuffer;

/// JSON text under construction.
#[derive(Debug, Default)]
pub struct Json {
    line: LineBuffer,
    /// True for indentation and one member per line, false for no blanks.
    pretty: bool,
    depth: usize,
    /// True if this depth already has a value.
    follows: bool,
    /// True after a key, until its value.
    keyed: bool,
}

impl Json {
    pub fn pretty() -> Self {
        Self { pretty: true, ..Self::default() }
    }

    pub fn into_text(mut self) -> String {
        if self.pretty {
            self.line.byte(b'\n');
        }
        self.line.into_text()
    }

    pub fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.nested(b'{', b'}', members);
    }

    pub fn array(&mut self, values: impl FnOnce(&mut Self)) {
        self.nested(b'[', b']', values);
    }

    /// Writes the key of the next value.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.begin();
        self.quoted(key);
        self.line.raw(if self.pretty { ": " } else { ":" }.as_bytes());
        self.keyed = true;
        self
    }

    pub fn text(&mut self, text: &str) {
        self.begin();
        self.quoted(text);
    }

    #[inline]
    pub fn int(&mut self, value: i128) {
        self.begin();
        match i64::try_from(value) {
            Ok(value) => self.line.signed(value),
            Err(_) => self.line.raw(value.to_string().as_bytes()),
        }
    }

    /// Writes `value / 10^digits` with that many decimals.
    pub fn decimal(&mut self, value: i128, digits: u32) {
        self.begin();
        self.line.raw(decimal::fixed(value, digits).as_bytes());
    }

    pub fn bool(&mut self, value: bool) {
        self.begin();
        self.line.raw(if value { "true" } else { "false" }.as_bytes());
    }

    pub fn null(&mut self) {
        self.begin();
        self.line.raw(b"null");
    }

    /// Writes a value that is already JSON.
    pub fn raw(&mut self, json: &str) {
        self.begin();
        self.line.raw(json.as_bytes());
    }

    fn nested(&mut self, open: u8, close: u8, inside: impl FnOnce(&mut Self)) {
        self.begin();
        self.line.byte(open);
        self.depth += 1;
        self.follows = false;
        inside(self);
        self.depth -= 1;
        if self.pretty && self.follows {
            self.new_line();
        }
        self.line.byte(close);
        self.follows = true;
    }

    /// Writes the separator before the next value.
    #[inline]
    fn begin(&mut self) {
        if std::mem::take(&mut self.keyed) {
            return;
        }
        if self.follows {
            self.line.comma();
        }
        if self.pretty && self.depth > 0 {
            self.new_line();
        }
        self.follows = true;
    }

    fn new_line(&mut self) {
        self.line.byte(b'\n');
        (0..self.depth).for_each(|_| self.line.raw(b"  "));
    }

    fn quoted(&mut self, text: &str) {
        self.line.byte(b'"');
        for c in text.chars() {
            match c {
                '"' => self.line.raw(b"\\\""),
                '\\' => self.line.raw(b"\\\\"),
                // A `</script>` in a name must not end the element with the data.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                    self.line.raw(format!("\\u{:04x}", u32::from(c)).as_bytes());
                }
                c => self.line.raw(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.line.byte(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(json: &mut Json) {
        json.object(|json| {
            json.key("a").int(-3);
            json.key("none").object(|_| {});
            json.key("list").array(|json| {
                json.decimal(-1_500, 3);
                json.null();
                json.bool(true);
            });
            json.key("name").text("</script> \"x\"\n");
        });
    }

    #[test]
    fn compact() {
        let mut json = Json::default();
        sample(&mut json);
        let expected = r#"{"a":-3,"none":{},"list":[-1.500,null,true],"name":"\u003c/script\u003e \"x\"\u000a"}"#;
        assert_eq!(json.into_text(), expected);
    }

    #[test]
    fn pretty_says_the_same() {
        let mut json = Json::pretty();
        sample(&mut json);
        let text = json.into_text();
        assert!(text.starts_with("{\n  \"a\": -3,\n  \"none\": {},\n  \"list\": [\n    -1.500,\n"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["name"], "</script> \"x\"\n");
    }

    #[test]
    fn integers_of_all_sizes() {
        for value in [0, -1, 1_000, i128::from(i64::MIN), i128::from(i64::MAX), i128::MAX, i128::MIN] {
            let mut json = Json::default();
            json.int(value);
            assert_eq!(json.into_text(), value.to_string());
        }
    }
}
