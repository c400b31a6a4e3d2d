//! JSON, written as it comes. Numbers are decimals made from integers, so that equal results are equal bytes.
//!
//! Writes only; whoever calls gives each key once. Text is safe inside an HTML `script` element.

/// A JSON text under construction.
#[derive(Debug, Default)]
pub struct Json {
    text: String,
    /// Indented, one member a line; else without blanks.
    pretty: bool,
    depth: usize,
    /// A value was written at this depth already.
    follows: bool,
    /// A key was written and waits for its value.
    keyed: bool,
}

impl Json {
    pub fn pretty() -> Self {
        Self { pretty: true, ..Self::default() }
    }

    pub fn into_text(mut self) -> String {
        if self.pretty {
            self.text.push('\n');
        }
        self.text
    }

    pub fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.nested('{', '}', members);
    }

    pub fn array(&mut self, values: impl FnOnce(&mut Self)) {
        self.nested('[', ']', values);
    }

    /// The key of the next value.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.begin();
        self.quoted(key);
        self.text.push_str(if self.pretty { ": " } else { ":" });
        self.keyed = true;
        self
    }

    pub fn text(&mut self, text: &str) {
        self.begin();
        self.quoted(text);
    }

    pub fn int(&mut self, value: i128) {
        self.begin();
        // Showing 128 bits costs several times as much, and nearly all values fit into 64.
        let text = i64::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string());
        self.text.push_str(&text);
    }

    /// `value / 10^digits` with that many decimals.
    pub fn decimal(&mut self, value: i128, digits: u32) {
        self.begin();
        self.text.push_str(&decimal(value, digits));
    }

    pub fn bool(&mut self, value: bool) {
        self.begin();
        self.text.push_str(if value { "true" } else { "false" });
    }

    pub fn null(&mut self) {
        self.begin();
        self.text.push_str("null");
    }

    /// A value that is JSON already.
    pub fn raw(&mut self, json: &str) {
        self.begin();
        self.text.push_str(json);
    }

    fn nested(&mut self, open: char, close: char, inside: impl FnOnce(&mut Self)) {
        self.begin();
        self.text.push(open);
        self.depth += 1;
        self.follows = false;
        inside(self);
        self.depth -= 1;
        if self.follows {
            self.new_line();
        }
        self.text.push(close);
        self.follows = true;
    }

    /// What stands between the value before and the one that follows.
    fn begin(&mut self) {
        if std::mem::take(&mut self.keyed) {
            return;
        }
        if self.follows {
            self.text.push(',');
        }
        if self.depth > 0 {
            self.new_line();
        }
        self.follows = true;
    }

    fn new_line(&mut self) {
        if self.pretty {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n("  ", self.depth));
        }
    }

    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                // A `</script>` in a name must not end the element that holds the data.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                    self.text.push_str(&format!("\\u{:04x}", u32::from(c)));
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}

/// `value / 10^digits` with exactly that many decimals.
pub fn decimal(value: i128, digits: u32) -> String {
    let unit = 10_u128.pow(digits);
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    if digits == 0 {
        return format!("{sign}{magnitude}");
    }
    format!("{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = digits as usize)
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
    fn decimals() {
        assert_eq!(decimal(5, 6), "0.000005");
        assert_eq!(decimal(-1_234_567, 6), "-1.234567");
        assert_eq!(decimal(12, 0), "12");
    }
}
