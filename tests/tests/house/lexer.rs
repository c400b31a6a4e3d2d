//! Distinguishes code from comments and texts, line by line, with only the necessary part of Rust's grammar.

/// A line of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Code without comments, and without the text between quotes.
    pub code: String,
    /// Text of the line's comments.
    pub comment: String,
}

/// State of the lexer.
enum State {
    Code,
    LineComment,
    /// Within this number of open comments.
    BlockComment(usize),
    /// Within a text, with this number of `#` at the end of a raw text; `None` if a backslash escapes.
    Text(Option<usize>),
}

/// Returns the lines of `source`.
pub fn lines(source: &str) -> Vec<Line> {
    let chars: Vec<char> = source.chars().collect();
    let (mut lines, mut line, mut state, mut at) = (Vec::new(), Line::default(), State::Code, 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        if c == '\n' {
            lines.push(std::mem::take(&mut line));
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            at += 1;
            continue;
        }
        let mut step = 1;
        match state {
            State::Code => {
                (state, step) = begin(&chars, at);
                if matches!(state, State::Code) {
                    let is_char = step > 1;
                    line.code.extend(if is_char { &['\''; 2] } else { &chars[at..=at] });
                } else if let State::Text(_) = state {
                    line.code.push('"');
                }
            }
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => match (c, next) {
                ('*', '/') => {
                    (state, step) = (if depth == 1 { State::Code } else { State::BlockComment(depth - 1) }, 2)
                }
                ('/', '*') => (state, step) = (State::BlockComment(depth + 1), 2),
                _ => line.comment.push(c),
            },
            State::Text(None) if c == '\\' && next != '\n' => step = 2,
            State::Text(hashes) => {
                let count = hashes.unwrap_or(0);
                let closes = c == '"' && (1..=count).all(|ahead| chars.get(at + ahead) == Some(&'#'));
                if closes {
                    line.code.push('"');
                    (state, step) = (State::Code, 1 + count);
                }
            }
        }
        at += step;
    }
    lines.push(line);
    lines
}

/// Returns the kind and the length of the token at `at` in code. Skips a character literal.
fn begin(chars: &[char], at: usize) -> (State, usize) {
    let ahead = |offset: usize| chars.get(at + offset).copied().unwrap_or(' ');
    match (chars[at], ahead(1)) {
        ('/', '/') => (State::LineComment, 2),
        ('/', '*') => (State::BlockComment(1), 2),
        ('"', _) => (State::Text(None), 1),
        ('r', '#' | '"') if at == 0 || !is_word(chars[at - 1]) || chars[at - 1] == 'b' => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            // `r#type` is a name.
            if ahead(1 + hashes) == '"' { (State::Text(Some(hashes)), 2 + hashes) } else { (State::Code, 1) }
        }
        // Matches 'x' and '\n', but not the lifetime 'x.
        ('\'', '\\') => {
            let end = (3..12).find(|offset| ahead(*offset) == '\'').unwrap_or(1);
            (State::Code, end + 1)
        }
        ('\'', _) if ahead(2) == '\'' => (State::Code, 3),
        _ => (State::Code, 1),
    }
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the names and keywords of a piece of code.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(&str, &str)]) {
        let lines: Vec<_> = lines(source).into_iter().map(|line| (line.code, line.comment)).collect();
        let expected: Vec<_> =
            expected.iter().map(|(code, comment)| ((*code).to_owned(), (*comment).to_owned())).collect();
        assert_eq!(lines, expected, "{source}");
    }

    #[test]
    fn code_comments_and_texts() {
        check("a(); // b", &[("a(); ", " b")]);
        check("a /* b /* c */ d\ne */ f", &[("a ", " b  c  d"), (" f", "e ")]);
        check(r#"x("todo!() // \" no") // yes"#, &[("x(\"\") ", " yes")]);
        check("x(r#\"a\" // b\"#); c", &[("x(\"\"); c", "")]);
        check("x(b\"a\\\\\"); c", &[("x(b\"\"); c", "")]);
        check("let r#type = \"a\nb\"; c", &[("let r#type = \"", ""), ("\"; c", "")]);
    }

    #[test]
    fn characters_and_lifetimes() {
        check("f::<'a>('\"', '\\'', '/') // b", &[("f::<'a>('', '', '') ", " b")]);
        check("('\\u{1F600}', 'x')", &[("('', '')", "")]);
    }
}
